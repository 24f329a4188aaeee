package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

type asked struct {
	key      uint32
	at, cost int64 // a cost of 0 is a reset
}

// traffic is of a few clients of different kinds: steady, bursts, and rare.
func traffic(rng *rand.Rand, n int) []asked {
	all := make([]asked, 0, n)
	at := int64(1_700_000_000_000 - 3000)
	for range n {
		if rng.IntN(3) > 0 {
			at += rng.Int64N(400)
		}
		if rng.IntN(200) == 0 {
			at += rng.Int64N(20_000)
		}
		cost := int64(1)
		if rng.IntN(8) == 0 {
			cost += rng.Int64N(6)
		}
		if rng.IntN(100) == 0 {
			cost = 0
		}
		all = append(all, asked{uint32(rng.ExpFloat64() * 2), at, cost})
	}
	return all
}

// tell adds what was asked, or resets.
func (p *Pass) tell(a asked) {
	if a.cost == 0 {
		p.Reset(a.key)
		return
	}
	p.Add(a.key, a.at, a.cost)
}

func nobody(uint32) bool { return false }

// refusals decides by the limiter that serves requests, and returns how many it refused of each client.
func refusals(t *testing.T, all []asked, limit slidegate.Limit) map[uint32]int64 {
	t.Helper()
	var now int64
	store := memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(now) }))
	defer store.Close()
	limiter := slidegate.MustNew(store, limit)
	refused := map[uint32]int64{}
	for _, a := range all {
		now = a.at
		if a.cost == 0 {
			if err := limiter.Reset(context.Background(), fmt.Sprint(a.key)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		d, err := limiter.TakeN(context.Background(), fmt.Sprint(a.key), a.cost)
		var cost *slidegate.CostError
		if err != nil && !errors.As(err, &cost) {
			t.Fatal(err)
		}
		if !d.Allowed {
			refused[a.key]++
		}
	}
	return refused
}

// TestOnePassIsManyReplays: every quota over every window refuses, in one pass, what the limiter refuses that serves
// requests.
func TestOnePassIsManyReplays(t *testing.T) {
	windows := []int64{1000, 7000, 60_000}
	quotas := []int64{1, 2, 3, 5, 8, 13, 21, 40, 100}
	for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		for seed := range uint64(6) {
			all := traffic(rand.New(rand.NewPCG(seed, 7)), 3000)
			p := New(windows, quotas, algorithm == slidegate.SlidingCounter, 0, func(key uint32) bool { return key%3 == 1 })
			p.tidyAt = 500
			for _, a := range all {
				p.tell(a)
			}
			for w, c := range p.Curves() {
				for q := range quotas {
					limit := slidegate.Limit{Quota: quotas[q], Window: time.Duration(windows[w]) * time.Millisecond, Algorithm: algorithm}
					want, others, hunted := map[bool]int64{}, int64(0), int64(0)
					for key, n := range refusals(t, all, limit) {
						want[key%3 == 1] += n
						if key%3 == 1 {
							hunted++
						} else {
							others++
						}
					}
					if c.Others.Refused[q] != want[false] || c.Hunted.Refused[q] != want[true] {
						t.Fatalf("seed %d, %s: refuses %d and %d requests, the limiter %v", seed, limit, c.Others.Refused[q], c.Hunted.Refused[q], want)
					}
					if o, h := c.Others.ClientsRefused(quotas[q]), c.Hunted.ClientsRefused(quotas[q]); o != others || h != hunted {
						t.Fatalf("seed %d, %s: by peaks %d and %d clients are refused, by the limiter %d and %d", seed, limit, o, h, others, hunted)
					}
				}
			}
		}
	}
}

// TestIdleClientsHoldNothing: what has left its window is let go of, also of clients that do not come back.
func TestIdleClientsHoldNothing(t *testing.T) {
	for _, counter := range []bool{false, true} {
		p := New([]int64{1000}, []int64{1, 10}, counter, 0, nobody)
		for key := range uint32(1000) {
			for range 5 {
				p.Add(key, int64(key), 1)
			}
		}
		for range tidyEvery {
			p.Add(0, 10_000, 1)
		}
		for key := range p.clients {
			if s := &p.clients[key].of[0]; key > 0 && (s.charges.charges != nil || s.split != nil) {
				t.Fatalf("counter %t: client %d holds %d charges, split %t, after its window", counter, key, s.charges.len(), s.split != nil)
			}
		}
	}
}

// TestPercentilesAndQuotas, of clients whose peaks are 1 to 1000.
func TestPercentilesAndQuotas(t *testing.T) {
	p := New([]int64{60_000}, []int64{1000}, false, 0, nobody)
	for key := range uint32(1000) {
		p.Add(key, 0, int64(key)+1)
	}
	c := p.Curves()[0].Others
	for _, row := range []struct {
		share       float64
		peak, quota int64
	}{{0, 1, 1000}, {0.001, 1, 999}, {0.5, 500, 500}, {0.99, 990, 10}, {1, 1000, 1}} {
		if peak, quota := c.Percentile(row.share), c.Quota(row.share); peak != row.peak || quota != row.quota {
			t.Errorf("share %g: percentile %d, quota %d: want %d and %d", row.share, peak, quota, row.peak, row.quota)
		}
		if refused := c.ClientsRefused(c.Quota(row.share)); float64(refused) > row.share*1000 {
			t.Errorf("share %g: the quota refuses %d of 1000", row.share, refused)
		}
	}
	// One client more or less than one in a hundred: ranks 983 and 997, of a binomial of 1000 and 0.99.
	if r := c.Uncertainty(0.01); r.Low < 980 || r.Low > 985 || r.High < 995 || r.High > 998 {
		t.Errorf("the uncertainty of 1 %% is %v", r)
	}
	if r := c.Uncertainty(0.0001); r.High != 0 {
		t.Errorf("a thousand clients tell an upper end for one in ten thousand: %v", r)
	}
}

// TestDaysAreToldApart, at midnight in UTC, also before 1970.
func TestDaysAreToldApart(t *testing.T) {
	p := New([]int64{1000}, []int64{10}, false, 0, nobody)
	for _, at := range []int64{-1, 0, msPerDay - 1, msPerDay, 3 * msPerDay} {
		for range at%3 + 2 {
			p.Add(1, at, 1)
		}
	}
	days := p.Curves()[0].Days
	var numbers []int64
	for _, d := range days {
		numbers = append(numbers, d.Number)
	}
	if fmt.Sprint(numbers) != "[-1 0 1 3]" {
		t.Errorf("days %v", days)
	}
}

func BenchmarkAdd(b *testing.B) {
	windows, quotas := []int64{1000, 10_000, 60_000, 3_600_000}, make([]int64, 48)
	for i := range quotas {
		quotas[i] = int64(1+i) * int64(1+i)
	}
	all := traffic(rand.New(rand.NewPCG(1, 2)), 1<<16)
	p := New(windows, quotas, false, 0, nobody)
	i, base := 0, int64(0)
	for b.Loop() {
		if i == len(all) {
			base += all[len(all)-1].at - all[0].at
			i = 0
		}
		p.tell(asked{all[i].key * uint32(i%97), base + all[i].at, all[i].cost})
		i++
	}
}
