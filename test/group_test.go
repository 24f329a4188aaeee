package test

import (
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"pgregory.net/rapid"
)

// A party is limiters over one store, and the group of them.
type party struct {
	limiters []*slidegate.Limiter
	group    *slidegate.Group
}

func newParty(t *rapid.T, parts [][]slidegate.Limit, storeOf func(part int) slidegate.Store) party {
	var p party
	for i, limits := range parts {
		l, err := slidegate.New(storeOf(i), limits...)
		if err != nil {
			t.Fatal(err)
		}
		p.limiters = append(p.limiters, l)
	}
	var err error
	if p.group, err = slidegate.NewGroup(p.limiters...); err != nil {
		t.Fatal(err)
	}
	return p
}

// parted is a plan dealt out to limiters.
func parted(t *rapid.T, plan []slidegate.Limit) (parts [][]slidegate.Limit) {
	for len(plan) > 0 {
		n := rapid.IntRange(1, len(plan)).Draw(t, "limits of a part")
		parts, plan = append(parts, plan[:n]), plan[n:]
	}
	return parts
}

// TestGroupsAreTheOracle: over one memory store, or one for each limiter, whatever is asked of the group and of its
// limiters, in whatever order.
func TestGroupsAreTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan.Draw(t, "plan")
		parts := parted(t, plan)
		clock := gatetest.NewClock(time.UnixMilli(start))
		oneStore := rapid.Bool().Draw(t, "one store")
		store, oracle := memstore.New(memstore.WithClock(clock.Now)), gatetest.NewOracle(clock)
		mine := newParty(t, parts, func(int) slidegate.Store {
			if oneStore {
				return store
			}
			return memstore.New(memstore.WithClock(clock.Now))
		})
		theirs := newParty(t, parts, func(int) slidegate.Store { return oracle })
		least := slices.MinFunc(plan, func(a, b slidegate.Limit) int { return int(max(-1, min(1, a.Quota-b.Quota))) }).Quota
		keys := func() []string {
			return rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), len(parts), len(parts)).Draw(t, "keys")
		}
		cost := func() int64 {
			if rapid.Bool().Draw(t, "small") {
				return 1
			}
			return rapid.Int64Range(-1, least+1).Draw(t, "cost")
		}
		part := rapid.IntRange(0, len(parts)-1)
		span := func() int64 { return rapid.SampledFrom(plan).Draw(t, "of").Window.Milliseconds() }
		advance := func(ms int64) { clock.Advance(time.Duration(ms) * time.Millisecond) }
		check := func(verb string, a, b slidegate.Decision, errA, errB error) {
			if err := alike(verb, a, b, errA, errB); err != nil {
				t.Fatal(err)
			}
		}
		var receipts [][2]slidegate.Decision
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k, c := keys(), cost()
				a, errA := mine.group.TakeN(background, c, k...)
				b, errB := theirs.group.TakeN(background, c, k...)
				check("take", a, b, errA, errB)
				receipts = append(receipts, [2]slidegate.Decision{a, b})
			},
			"take of one": func(t *rapid.T) {
				i, k, c := part.Draw(t, "part"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), cost()
				a, errA := mine.limiters[i].TakeN(background, k, c)
				b, errB := theirs.limiters[i].TakeN(background, k, c)
				check("take of one", a, b, errA, errB)
			},
			"peek": func(t *rapid.T) {
				k, c := keys(), cost()
				a, errA := mine.group.PeekN(background, c, k...)
				b, errB := theirs.group.PeekN(background, c, k...)
				check("peek", a, b, errA, errB)
			},
			"refund": func(t *rapid.T) {
				if len(receipts) == 0 {
					return
				}
				r := &receipts[rapid.IntRange(0, len(receipts)-1).Draw(t, "receipt")]
				errA, errB := mine.group.Refund(background, &r[0]), theirs.group.Refund(background, &r[1])
				check("refund", slidegate.Decision{}, slidegate.Decision{}, errA, errB)
			},
			"reset of one": func(t *rapid.T) {
				i, k := part.Draw(t, "part"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
				errA, errB := mine.limiters[i].Reset(background, k), theirs.limiters[i].Reset(background, k)
				check("reset", slidegate.Decision{}, slidegate.Decision{}, errA, errB)
			},
			"time passes":     func(t *rapid.T) { advance(rapid.Int64Range(0, span()).Draw(t, "ms")) },
			"a window passes": func(t *rapid.T) { advance(span() + rapid.Int64Range(-1, 1).Draw(t, "ms")) },
			"the clock is set": func(t *rapid.T) {
				if oneStore { // what is charged and given back is not as if it had not been once the clock steps back
					advance(-rapid.Int64Range(0, 2*span()).Draw(t, "ms"))
				}
			},
		})
	})
}
