package memstore

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// A crowd is many keys of a store and of the oracle, on one clock.
type crowd struct {
	clock    *gatetest.Clock
	store    *Store
	limits   [][]slidegate.Limit
	quick    []slidegate.QuickPlan
	mine     []*slidegate.Limiter
	theirs   []*slidegate.Limiter
	receipts []bill
}

// A bill is a request that both charged.
type bill struct {
	plan         int
	mine, theirs slidegate.Decision
}

func newCrowd(t *testing.T, plans ...string) *crowd {
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_412_345))
	c := &crowd{clock: clock, store: New(WithClock(clock.Now), WithMaxKeys(keysPerShard))}
	oracle := gatetest.NewOracle(clock)
	for _, text := range plans {
		var limits []slidegate.Limit
		for i, l := range splitLimits(t, text) {
			if l.Name == "" {
				l = l.Named(strconv.Itoa(len(c.mine)) + "." + strconv.Itoa(i))
			}
			limits = append(limits, l)
		}
		plan, err := c.store.Bind(limits)
		if err != nil {
			t.Fatal(err)
		}
		c.limits, c.quick = append(c.limits, limits), append(c.quick, plan.(slidegate.QuickPlan))
		c.mine, c.theirs = append(c.mine, slidegate.MustNew(c.store, limits...)), append(c.theirs, slidegate.MustNew(oracle, limits...))
	}
	return c
}

// step asks something of both.
func (c *crowd) step(t *testing.T, rng *rand.Rand, keys int) {
	t.Helper()
	i := rng.IntN(len(c.mine))
	key, quota := strconv.Itoa(rng.IntN(keys)), c.limits[i][0].Quota
	cost := 1 + rng.Int64N(min(3, quota))
	if rng.IntN(4) == 0 {
		cost = rng.Int64N(quota/3 + 2)
	}
	var got, want slidegate.Decision
	switch n := rng.IntN(100); {
	case n < 55:
		got, _ = c.mine[i].TakeN(t.Context(), key, cost)
		want, _ = c.theirs[i].TakeN(t.Context(), key, cost)
		if want.Allowed && cost > 0 {
			c.receipts = append(c.receipts, bill{i, got, want})
		}
	case n < 65:
		got.Allowed, _ = c.quick[i].Allow(t.Context(), key, cost)
		answer, _ := c.theirs[i].TakeN(t.Context(), key, cost)
		want.Allowed = answer.Allowed
	case n < 75:
		got, _ = c.mine[i].PeekN(t.Context(), key, cost)
		want, _ = c.theirs[i].PeekN(t.Context(), key, cost)
	case n < 92 && len(c.receipts) > 0: // the last ones mostly, so that nothing stays of some
		r := &c.receipts[max(0, len(c.receipts)-1-rng.IntN(1+len(c.receipts)/4))]
		if err := c.mine[r.plan].Refund(t.Context(), &r.mine); err != nil {
			t.Fatal(err)
		}
		c.theirs[r.plan].Refund(t.Context(), &r.theirs)
	case n < 98:
		c.mine[i].Reset(t.Context(), key)
		c.theirs[i].Reset(t.Context(), key)
	default:
		c.store.Sweep()
	}
	if got.String() != want.String() {
		t.Fatalf("%v of %s at %d: %v, the oracle %v", c.limits[i], key, cost, got, want)
	}
}

// TestManyKeysAreTheOracle: many keys in one shard, of every form that a state has, which come, grow, shrink and go. Each
// answers as if it were alone, and what is held besides is what they need.
func TestManyKeysAreTheOracle(t *testing.T) {
	for _, plans := range [][]string{
		{"3/1s", "15/1s", "16/1s", "300/1s"},
		{"40/50d", "1000000000000/1m", "50/1s,resolution=90ms"},
		{"100/1s,counter", "1000000000000/1s,counter", "4294967295/1s,counter"},
		{"x=50/1s", "x=1000000000000/1s", "x=9/1s,resolution=2ms", "x=90/1s,resolution=2ms", "7/1s,resolution=2ms"},
		{"40/1s 90/5s", "9/1s 1000000000000/1s,counter", "9/1s 30/5s,counter", "20/1s"},
	} {
		c := newCrowd(t, plans...)
		rng := rand.New(rand.NewPCG(5, 6))
		for step := range 20_000 {
			if rng.IntN(3) == 0 {
				c.clock.Advance(time.Duration(rng.Int64N(1+c.limits[0][0].Window.Milliseconds()/80)-2) * time.Millisecond)
			}
			c.step(t, rng, 40)
			if step%500 == 0 {
				c.checkHeld(t)
			}
		}
		for _, p := range c.mine {
			for key := range 40 {
				if err := p.Reset(t.Context(), strconv.Itoa(key)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.store.Len() != 0 {
			t.Errorf("%v: %d keys are held after a reset of all", plans, c.store.Len())
		}
	}
}

// checkHeld counts what the states of all keys have outside of them: nothing else is in use.
func (c *crowd) checkHeld(t *testing.T) {
	t.Helper()
	sh, kinds := &c.store.shards[0], c.store.kinds()
	var fews, rings, pairs, nodes, keys int
	for i := range sh.slots {
		if sh.slots[i].low == 0 {
			continue
		}
		keys++
		for n := sh.first(i); n != nil; n = sh.next(n) {
			nodes++
		}
		sh.states(i, func(st *state, id uint32) {
			switch {
			case st.word == 0 && !kinds[id].counter:
				t.Errorf("a key holds a log of nothing")
			case st.word&spilled == 0:
			case kinds[id].counter:
				pairs++
			case st.word&fewBit != 0:
				fews++
			default:
				rings++
				if sh.rings.at(st.word).n == 0 {
					t.Errorf("a key holds a ring of nothing")
				}
			}
		})
	}
	type counts struct{ keys, nodes, fews, rings, pairs int }
	used := counts{sh.keys, inUse(&sh.nodes), inUse(&sh.fews), inUse(&sh.rings), inUse(&sh.pairs)}
	if want := (counts{keys, nodes, fews, rings, pairs}); used != want || c.store.Len() != keys {
		t.Fatalf("in use is %+v, what the keys have is %+v; the store counts %d keys", used, want, c.store.Len())
	}
}

func inUse[T any](s *slab[T]) int { return len(s.values) - len(s.free) }

func splitLimits(t *testing.T, text string) (all []slidegate.Limit) {
	for _, one := range strings.Fields(text) {
		l, err := slidegate.ParseLimit(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}
