package memstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// A ledger is what counts against one key in one limit, charge by charge.
type ledger struct {
	limit slidegate.Limit
	list  []slidegate.Charge
}

// at returns what counts at now, oldest first: of a counter the window that now is in and the one before.
func (g *ledger) at(now int64) (all []slidegate.Charge) {
	span := g.limit.Window.Milliseconds()
	for _, c := range g.list {
		over := c.At + span
		if g.limit.Algorithm == slidegate.SlidingCounter {
			over += span
		}
		if over > now && c.Units > 0 {
			all = append(all, c)
		}
	}
	return all
}

// change adds units to what is recorded at a time, or takes some away.
func (g *ledger) change(at, units int64) {
	i, ok := slices.BinarySearchFunc(g.list, at, func(c slidegate.Charge, at int64) int { return int(c.At - at) })
	if !ok {
		g.list = slices.Insert(g.list, i, slidegate.Charge{At: at})
	}
	g.list[i].Units += units
}

// TestChargesAreWhatWasCharged: in every form that a state has, short or long, after refunds and as time goes by.
func TestChargesAreWhatWasCharged(t *testing.T) {
	for _, text := range []string{"x=1/10ms", "x=9/100ms", "x=50/100ms", "x=5000/1s", "x=1000000000000/1s", "x=70/1s,resolution=20ms", "x=60/1s,counter", "x=1000000000000/1s,counter"} {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		clock := gatetest.NewClock(time.UnixMilli(1_757_750_412_345))
		limiter := slidegate.MustNew(New(WithClock(clock.Now)), limit, slidegate.Per(time.Hour, slidegate.MaxQuota).Named("other"))
		rng := rand.New(rand.NewPCG(1, 2))
		g := ledger{limit: limit}
		var taken []slidegate.Decision
		var at []int64
		for step := range 3000 {
			clock.Advance(time.Duration(rng.Int64N(max(2, limit.Window.Milliseconds()/40))) * time.Millisecond)
			now := clock.Now().UnixMilli()
			d, err := limiter.TakeN(t.Context(), "k", 1+rng.Int64N(max(1, min(limit.Quota/8, 1<<uint(rng.IntN(40))))))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				recorded := now
				if span := limit.Window.Milliseconds(); limit.Algorithm == slidegate.SlidingCounter {
					recorded -= now % span
				} else if step := limit.Resolution.Milliseconds(); step > 1 {
					recorded += (step - now%step) % step
				}
				g.change(recorded, d.Cost)
				taken, at = append(taken, d), append(at, recorded)
			}
			if n := len(taken); n > 0 && step%5 == 0 {
				i := max(0, n-1-rng.IntN(4))
				if err := limiter.Refund(t.Context(), &taken[i]); err != nil {
					t.Fatal(err)
				}
				g.change(at[i], -taken[i].Cost)
				taken, at = slices.Delete(taken, i, i+1), slices.Delete(at, i, i+1)
			}
			if step%20 == 0 {
				clock.Advance(limit.Window)
				now = clock.Now().UnixMilli()
			}
			want := g.at(now)
			for _, most := range []int{0, 1, 2, len(want), len(want) + 1} {
				got, err := limiter.Charges(t.Context(), "k", most)
				if err != nil {
					t.Fatal(err)
				}
				if want := want[:min(most, len(want))]; !slices.Equal(got[0], want) {
					t.Fatalf("%s, step %d: of %d charges at most: %v, want %v", text, step, most, got[0], want)
				}
			}
		}
	}
}

// TestChargesOfAClosedStore: a key that is not held is an error then, as it is of a decision.
func TestChargesOfAClosedStore(t *testing.T) {
	store := New()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(3))
	if got, err := limiter.Charges(t.Context(), "k", 9); err != nil || len(got) != 1 || got[0] != nil {
		t.Errorf("of a key that was never charged: %v, %v", got, err)
	}
	store.Close()
	if _, err := limiter.Charges(t.Context(), "k", 9); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("the error of a closed store is %v", err)
	}
}
