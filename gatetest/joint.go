package gatetest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// A team is limiters over one fresh store and the group of them.
type team struct {
	*bench
	limiters []*slidegate.Limiter
	*slidegate.Group
}

func newTeam(t testing.TB, f Factory, parts [][]slidegate.Limit) *team {
	t.Helper()
	clock := NewClock(time.UnixMilli(start))
	return teamOn(t, f(t, clock), clock, parts)
}

func teamOn(t testing.TB, store slidegate.Store, clock *Clock, parts [][]slidegate.Limit) *team {
	t.Helper()
	m := &team{bench: &bench{t: t, clock: clock, store: store}}
	for _, limits := range parts {
		l, err := slidegate.New(store, limits...)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		m.limiters = append(m.limiters, l)
	}
	var err error
	if m.Group, err = slidegate.NewGroup(m.limiters...); err != nil {
		t.Fatalf("NewGroup: %v", err)
	}
	return m
}

func (m *team) takeAll(cost int64, keys ...string) slidegate.Decision {
	m.t.Helper()
	d, err := m.Group.TakeN(background, cost, keys...)
	if err != nil {
		m.t.Fatalf("TakeN(%d) of a group: %v", cost, err)
	}
	return d
}

// states returns how every limit of the keys stands, as each limiter by itself says.
func (m *team) states(keys ...string) (all []slidegate.State) {
	m.t.Helper()
	for i, l := range m.limiters {
		d, err := l.Peek(background, keys[i])
		if err != nil {
			m.t.Fatalf("Peek: %v", err)
		}
		all = append(all, statesOf(d)...)
	}
	return all
}

// teams are parts of every shape, small enough that random traffic fills them.
func teams() [][][]slidegate.Limit {
	ms := time.Millisecond
	return [][][]slidegate.Limit{
		{{slidegate.Per(1000*ms, 5).Named("a")}, {slidegate.Per(700*ms, 6).Named("b")}},
		{{slidegate.Per(1000*ms, 5).Counter().Named("a")}, {slidegate.Per(2000*ms, 7).Named("b"), slidegate.Per(50*ms, 4).Named("c")}},
		{
			{slidegate.Per(100*ms, 4).Named("burst"), slidegate.Per(2000*ms, 20).Named("sustained")},
			{slidegate.Per(3000*ms, 25).Counter().Named("account")},
			{slidegate.Per(1000*ms, 12).WithResolution(250 * ms).Named("everybody")},
		},
	}
}

// SeveralKeysAgreeWithTheOracle: random traffic of a group, of the limiters in it, and of both
// together, on keys that come back in every part.
func SeveralKeysAgreeWithTheOracle(t testing.TB, f Factory) {
	for i, parts := range teams() {
		agreeTogether(t, f, parts, rand.New(rand.NewPCG(23, uint64(i))), 800)
	}
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(29, seed))
		agreeTogether(t, f, split(rng, randomPlan(rng)), rng, 150)
		if t.Failed() {
			t.Errorf("the seed was %d", seed)
			return
		}
	}
}

// split deals limits out to parts.
func split(rng *rand.Rand, limits []slidegate.Limit) (parts [][]slidegate.Limit) {
	for len(limits) > 0 {
		n := 1 + rng.IntN(len(limits))
		parts, limits = append(parts, limits[:n]), limits[n:]
	}
	return parts
}

func agreeTogether(t testing.TB, f Factory, parts [][]slidegate.Limit, rng *rand.Rand, steps int) {
	t.Helper()
	mine := newTeam(t, f, parts)
	theirs := teamOn(t, NewOracle(mine.clock), mine.clock, parts)
	var receipts [][2]slidegate.Decision
	limits, keys, oneAct := slices.Concat(parts...), make([]string, len(parts)), true
	for step := range steps {
		for i := range keys {
			keys[i] = []string{"a", "b", "{c}"}[rng.IntN(3)]
		}
		span := limits[rng.IntN(len(limits))].Window.Milliseconds()
		oneAct = oneAct && mine.Atomic(keys...)
		switch n := rng.IntN(20); {
		case n == 0 && oneAct: // what is charged and given back is not as if it had not been once the clock steps back
			mine.clock.Advance(-time.Duration(rng.Int64N(2*span)) * time.Millisecond)
		case n < 8:
			mine.clock.Advance(time.Duration(rng.Int64N(span/4+2)) * time.Millisecond)
		}
		cost := rng.Int64N(smallest(limits) + 1)
		if rng.IntN(2) == 0 {
			cost = 1
		}
		var got, want slidegate.Decision
		var err error
		verb, p := "take", rng.IntN(len(parts))
		switch n := rng.IntN(20); {
		case n < 10:
			got, err = mine.Group.TakeN(background, cost, keys...)
			want, _ = theirs.Group.TakeN(background, cost, keys...)
			receipts = append(receipts, [2]slidegate.Decision{got, want})
		case n < 13:
			verb = "take of one"
			got, err = mine.limiters[p].TakeN(background, keys[p], cost)
			want, _ = theirs.limiters[p].TakeN(background, keys[p], cost)
		case n < 16:
			verb = "peek"
			got, err = mine.Group.PeekN(background, cost, keys...)
			want, _ = theirs.Group.PeekN(background, cost, keys...)
		case n < 19 && len(receipts) > 0:
			verb = "refund"
			r := &receipts[rng.IntN(len(receipts))]
			err = mine.Group.Refund(background, &r[0])
			_ = theirs.Group.Refund(background, &r[1])
		default:
			verb = "reset of one"
			err = mine.limiters[p].Reset(background, keys[p])
			_ = theirs.limiters[p].Reset(background, keys[p])
		}
		if err != nil {
			t.Fatalf("step %d: %s: %v", step, verb, err)
		}
		if difference := differs(&got, &want); difference != "" {
			t.Errorf("step %d at %d: %s of %d by %q over %v: %s\n got %v %+v\nwant %v %+v", step, mine.clock.Now().UnixMilli(), verb, cost, keys, parts, difference,
				got.Allowed, statesOf(got), want.Allowed, statesOf(want))
			return
		}
	}
}

// AllKeysAreChargedOrNone, in whichever place the limiter stands that refuses, and however often it does.
func AllKeysAreChargedOrNone(t testing.TB, f Factory) {
	free := []slidegate.Limit{slidegate.PerMinute(5).Named("free"), slidegate.PerHour(9).Counter().Named("count")}
	other := []slidegate.Limit{slidegate.PerDay(7).Named("other")}
	for _, full := range []slidegate.Limit{slidegate.PerHour(2).Named("full"), slidegate.PerHour(2).Counter().Named("full")} {
		for place := range 3 {
			m := newTeam(t, f, slices.Insert([][]slidegate.Limit{free, other}, place, []slidegate.Limit{full}))
			keys := []string{"a", "b", "c"}
			m.takeAll(2, keys...)
			m.clock.Advance(time.Second)
			keys[(place+1)%3], keys[(place+2)%3] = "new", "new"
			before := m.states(keys...)
			var refused slidegate.Decision
			for range 10 {
				if refused = m.takeAll(1, keys...); refused.Allowed || refused.Charged() {
					t.Errorf("%s in place %d is full, and the group admits", full, place)
				}
			}
			if after := m.states(keys...); !slices.Equal(before, after) {
				t.Errorf("%s in place %d refuses, and of %+v becomes %+v", full, place, before, after)
			}
			if s := refused.Binding(); s.Limit.Name != "full" || s.RetryIn != refused.RetryAfter() {
				t.Errorf("%s in place %d refuses, and the answer is %s", full, place, refused)
			}
		}
	}
}

// GroupRefundGivesBackOnce: in every limit of every key, to whomever the decision is given, and a second
// time nothing.
func GroupRefundGivesBackOnce(t testing.TB, f Factory) {
	for _, parts := range teams() {
		m := newTeam(t, f, parts)
		keys := []string{"a", "b", "a"}[:len(parts)]
		full := m.states(keys...)
		for name, refund := range map[string]func(*slidegate.Decision) error{
			"the group": func(d *slidegate.Decision) error { return m.Group.Refund(background, d) },
			"a limiter": func(d *slidegate.Decision) error { return m.limiters[1].Refund(background, d) },
		} {
			d := m.takeAll(2, keys...)
			if err := refund(&d); err != nil {
				t.Fatalf("Refund: %v", err)
			}
			if now := m.states(keys...); !slices.Equal(full, now) || d.Charged() {
				t.Errorf("%v: given back to %s: %+v, charged %v", parts, name, now, d.Charged())
			}
			again := m.takeAll(1, keys...)
			before := m.states(keys...)
			if err := refund(&d); err != nil {
				t.Fatalf("Refund: %v", err)
			}
			if now := m.states(keys...); !slices.Equal(before, now) {
				t.Errorf("%v: a second refund made of %+v %+v", parts, before, now)
			}
			if err := refund(&again); err != nil {
				t.Fatalf("Refund: %v", err)
			}
		}
	}
}

// ConcurrentGroupsNeverExceedAQuota: of many at once, with keys that meet in every combination, every limiter
// has charged just what was admitted. Where a decision is one act nobody is refused without need either.
func ConcurrentGroupsNeverExceedAQuota(t testing.TB, f Factory) {
	for _, everybody := range []slidegate.Limit{slidegate.PerHour(12).Named("everybody"), slidegate.PerHour(12).Counter().Named("everybody")} {
		m := newTeam(t, f, [][]slidegate.Limit{
			{slidegate.PerHour(7).Named("address"), slidegate.PerDay(8).Named("address a day")},
			{slidegate.PerHour(5).Counter().Named("account")},
			{everybody},
		})
		var combinations [][]string
		for _, address := range []string{"1", "2", "3"} {
			for _, account := range []string{"1", "2", "3", "4"} { // an account may be called as an address is
				combinations = append(combinations, []string{address, account, "1"})
			}
		}
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for i := range 36 {
			wg.Go(func() {
				for j := range 8 {
					if d, err := m.Group.Take(background, combinations[(5*i+7*j)%len(combinations)]...); err != nil {
						t.Errorf("Take: %v", err)
					} else if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		m.account(combinations, admitted.Load())
	}
}

// account compares what is charged in every limit with what was admitted.
func (m *team) account(combinations [][]string, admitted int64) {
	used, oneAct := map[string]int64{}, true
	for p, l := range m.limiters {
		seen := map[string]bool{}
		for _, keys := range combinations {
			oneAct = oneAct && m.Atomic(keys...)
			if seen[keys[p]] {
				continue
			}
			seen[keys[p]] = true
			d, err := l.Peek(background, keys[p])
			if err != nil {
				m.t.Fatalf("Peek: %v", err)
			}
			for _, s := range statesOf(d) {
				used[s.Limit.Name] += s.Limit.Quota - s.Remaining
			}
		}
	}
	for name, n := range used {
		if n != admitted {
			m.t.Errorf("%d were admitted, and %d are charged to %s", admitted, n, name)
		}
	}
	if admitted > 12 || oneAct && admitted < 12 {
		m.t.Errorf("%d were admitted of everybody's 12", admitted)
	}
}
