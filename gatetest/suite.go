package gatetest

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// A Factory returns an empty store that reads its time from clock. It registers what has to be
// closed with t.Cleanup.
type Factory func(t testing.TB, clock *Clock) slidegate.Store

// A Law is one promise of semantics that every store keeps.
type Law struct {
	Name  string
	Check func(t testing.TB, f Factory)
}

// TestStore checks every law of [Laws] on the stores that f makes, each as a subtest.
func TestStore(t *testing.T, f Factory) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) { law.Check(t, f) })
	}
}

// Laws returns what TestStore checks.
func Laws() []Law {
	return []Law{
		{"Scenarios", Scenarios},
		{"AgreesWithTheOracle", AgreesWithTheOracle},
		{"AgreesWithTheOracleOnRandomPlans", AgreesOnRandomPlans},
		{"AgreesWithTheOracleOnSparseTraffic", AgreesOnSparseTraffic},
		{"RefusalChangesNothing", RefusalChangesNothing},
		{"PeekChangesNothing", PeekChangesNothing},
		{"CostZeroIsFree", CostZeroIsFree},
		{"AllLimitsAreChargedOrNone", AllLimitsAreChargedOrNone},
		{"RetryIsTight", RetryIsTight},
		{"ResetIsTight", ResetIsTight},
		{"NoWindowHoldsMoreThanTheQuota", NoWindowHoldsMoreThanTheQuota},
		{"CounterAdmitsAtMostTwiceTheQuota", CounterAdmitsAtMostTwiceTheQuota},
		{"ConcurrentTakesNeverExceedTheQuota", ConcurrentTakesNeverExceedTheQuota},
		{"KeysAreIsolated", KeysAreIsolated},
		{"LimitersShareWhereIdentityIsEqual", LimitersShareWhereIdentityIsEqual},
		{"QuotaMayChangeByAnyFactor", QuotaMayChangeByAnyFactor},
		{"RefundGivesBackOnce", RefundGivesBackOnce},
		{"PartialRefundsAddUpToTheCharge", PartialRefundsAddUpToTheCharge},
		{"RefundNeverExceedsTheQuota", RefundNeverExceedsTheQuota},
		{"UnitsThatLeftAreGone", UnitsThatLeftAreGone},
		{"TenYearWindowsAreExact", TenYearWindowsAreExact},
		{"ResetForgetsOneKeyInEveryLimit", ResetForgetsOneKeyInEveryLimit},
		{"OrderOfLimitsDoesNotMatter", OrderOfLimitsDoesNotMatter},
		{"RecordedTimeNeverRunsBack", RecordedTimeNeverRunsBack},
		{"SeveralKeysAgreeWithTheOracle", SeveralKeysAgreeWithTheOracle},
		{"AllKeysAreChargedOrNone", AllKeysAreChargedOrNone},
		{"GroupRefundGivesBackOnce", GroupRefundGivesBackOnce},
		{"ConcurrentGroupsNeverExceedAQuota", ConcurrentGroupsNeverExceedAQuota},
	}
}

// start is where the laws begin: no multiple of a common window.
const start = 1_757_750_412_345

var background = context.Background()

// A bench is a limiter over a fresh store with its clock.
type bench struct {
	t     testing.TB
	clock *Clock
	store slidegate.Store
	*slidegate.Limiter
}

func newBench(t testing.TB, f Factory, limits ...slidegate.Limit) *bench {
	t.Helper()
	clock := NewClock(time.UnixMilli(start))
	store := f(t, clock)
	limiter, err := slidegate.New(store, limits...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return &bench{t, clock, store, limiter}
}

func (b *bench) take(key string, cost int64) slidegate.Decision {
	b.t.Helper()
	d, err := b.TakeN(background, key, cost)
	if err != nil {
		b.t.Fatalf("TakeN(%d): %v", cost, err)
	}
	return d
}

func (b *bench) peek(key string, cost int64) slidegate.Decision {
	b.t.Helper()
	d, err := b.PeekN(background, key, cost)
	if err != nil {
		b.t.Fatalf("PeekN(%d): %v", cost, err)
	}
	return d
}

func (b *bench) refund(d *slidegate.Decision) {
	b.t.Helper()
	if err := b.Refund(background, d); err != nil {
		b.t.Fatalf("Refund: %v", err)
	}
}

// states returns how every limit of a key stands.
func (b *bench) states(key string) []slidegate.State {
	b.t.Helper()
	return statesOf(b.peek(key, 1))
}

func statesOf(d slidegate.Decision) []slidegate.State {
	all := make([]slidegate.State, d.Len())
	for i := range all {
		all[i] = d.State(i)
	}
	return all
}

// plans are limits of every shape, small enough that random traffic fills them.
func plans() [][]slidegate.Limit {
	ms := time.Millisecond
	return [][]slidegate.Limit{
		{slidegate.Per(1000*ms, 5)},
		{slidegate.Per(1000*ms, 5).Counter()},
		{slidegate.Per(1*ms, 2)},
		{slidegate.Per(1*ms, 2).Counter()},
		{slidegate.Per(7*ms, 3), slidegate.Per(50*ms, 9).Counter()},
		{slidegate.Per(1000*ms, 12).WithResolution(250 * ms)},
		{slidegate.Per(1000*ms, 12).WithResolution(1000 * ms)},
		{slidegate.Per(100*ms, 4).Named("burst"), slidegate.Per(2000*ms, 20).Named("sustained"), slidegate.Per(3000*ms, 25).Counter().Named("third")},
		{slidegate.Per(3650*24*time.Hour, 30), slidegate.Per(30*24*time.Hour, 20).Counter()},
		{slidegate.Per(time.Hour, 1_000_000_000_000), slidegate.Per(2*time.Hour, 1_000_000_000_000).Counter()},
		{
			slidegate.Per(100*ms, 4).Named("a"), slidegate.Per(250*ms, 6).Counter().Named("b"),
			slidegate.Per(1000*ms, 8).WithResolution(10 * ms).Named("c"), slidegate.Per(5000*ms, 10).Counter().Named("d"),
			slidegate.Per(60_000*ms, 12).Named("e"), slidegate.Per(60_000*ms, 14).Counter().Named("f"),
			slidegate.Per(time.Hour, 16).WithResolution(time.Second).Named("g"), slidegate.Per(24*time.Hour, 18).Counter().Named("h"),
		},
	}
}

func smallest(limits []slidegate.Limit) int64 {
	return slices.MinFunc(limits, func(a, b slidegate.Limit) int { return int(min(1, max(-1, a.Quota-b.Quota))) }).Quota
}

func shortest(limits []slidegate.Limit) int64 {
	d := limits[0].Window
	for _, l := range limits {
		d = min(d, l.Window)
	}
	return d.Milliseconds()
}

// AgreesWithTheOracle runs seeded random traffic on the store and on an [Oracle]: takes, peeks,
// refunds (also second ones), resets, other quotas and resolutions over the same state, and a clock
// that jumps and steps back.
func AgreesWithTheOracle(t testing.TB, f Factory) {
	for i, limits := range plans() {
		for seed := range uint64(4) {
			agree(t, f, limits, rand.New(rand.NewPCG(uint64(i), seed)), 600, func(rng *rand.Rand) int64 {
				span := shortest(limits)
				switch rng.IntN(20) {
				case 0:
					return -rng.Int64N(2*span + 2)
				case 1:
					return rng.Int64N(4*span + 1)
				case 2, 3, 4, 5, 6:
					return 0
				}
				return rng.Int64N(span/4 + 2)
			})
			if t.Failed() {
				t.Errorf("the traffic was that of plan %d, seed %d", i, seed)
				return
			}
		}
	}
}

// AgreesOnRandomPlans draws the limits too: one to eight of either algorithm, windows from a
// millisecond to ten years, quotas from one to 10^12, any resolution.
func AgreesOnRandomPlans(t testing.TB, f Factory) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(19, seed))
		limits := randomPlan(rng)
		agree(t, f, limits, rng, 250, func(rng *rand.Rand) int64 {
			span := limits[rng.IntN(len(limits))].Window.Milliseconds()
			switch rng.IntN(20) {
			case 0:
				return -rng.Int64N(2*span + 2)
			case 1:
				return span - 1 + rng.Int64N(3)
			case 2, 3, 4, 5, 6, 7, 8, 9:
				return rng.Int64N(3)
			}
			return rng.Int64N(span/4 + 2)
		})
		if t.Failed() {
			t.Errorf("the limits were %v, seed %d", limits, seed)
			return
		}
	}
}

func randomPlan(rng *rand.Rand) []slidegate.Limit {
	limits := make([]slidegate.Limit, 1+rng.IntN(slidegate.MaxLimits))
	for i := range limits {
		window := magnitude(rng, slidegate.MaxWindow.Milliseconds())
		l := slidegate.Per(time.Duration(window)*time.Millisecond, magnitude(rng, slidegate.MaxQuota)).Named(string(rune('a' + i)))
		switch rng.IntN(3) {
		case 0:
			l = l.Counter()
		case 1:
			l = l.WithResolution(time.Duration(magnitude(rng, window)) * time.Millisecond)
		}
		limits[i] = l
	}
	return limits
}

func randomPlans(rng *rand.Rand, n int) [][]slidegate.Limit {
	all := make([][]slidegate.Limit, n)
	for i := range all {
		all[i] = randomPlan(rng)
	}
	return all
}

// magnitude returns a number from 1 to most, of every number of bits alike, and the ends often.
func magnitude(rng *rand.Rand, most int64) int64 {
	switch rng.IntN(12) {
	case 0:
		return 1
	case 1:
		return most
	}
	return 1 + rng.Int64N(min(most, 1<<(1+rng.IntN(bits.Len64(uint64(most))))))
}

// AgreesOnSparseTraffic sends a request every 0.2 to 0.95 of a window for a long virtual time: what
// a stored time of 32 bits would get wrong.
func AgreesOnSparseTraffic(t testing.TB, f Factory) {
	for i, limits := range [][]slidegate.Limit{
		{slidegate.Per(time.Second, 3)},
		{slidegate.Per(time.Hour, 2)},
		{slidegate.Per(24*time.Hour, 4)},
		{slidegate.Per(24*24*time.Hour, 5), slidegate.Per(40*24*time.Hour, 6).Named("long")},
		{slidegate.Per(26*time.Hour, 3).Counter(), slidegate.Per(26*time.Hour, 900).Named("wide")},
	} {
		agree(t, f, limits, rand.New(rand.NewPCG(7, uint64(i))), 1500, func(rng *rand.Rand) int64 {
			span := shortest(limits)
			return span/5 + rng.Int64N(span*3/4)
		})
	}
}

// agree runs steps of traffic on a store and on an oracle; next says how far the clock moves.
func agree(t testing.TB, f Factory, limits []slidegate.Limit, rng *rand.Rand, steps int, next func(*rand.Rand) int64) {
	t.Helper()
	b := newBench(t, f, limits...)
	oracle, err := slidegate.New(NewOracle(b.clock), limits...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	other := variation(limits, rng)
	otherStore, err1 := b.With(other...)
	otherOracle, err2 := oracle.With(other...)
	if err1 != nil || err2 != nil {
		t.Fatalf("With: %v, %v", err1, err2)
	}
	type receipt struct{ store, oracle slidegate.Decision }
	var receipts []receipt
	keys := []string{"a", "b", "{c}"}
	for step := range steps {
		b.clock.Advance(time.Duration(next(rng)) * time.Millisecond)
		key, mine, theirs, quota := keys[rng.IntN(len(keys))], b.Limiter, oracle, smallest(limits)
		if rng.IntN(5) == 0 {
			mine, theirs, quota = otherStore, otherOracle, smallest(other)
		}
		cost := rng.Int64N(quota + 1)
		if rng.IntN(2) == 0 {
			cost = min(1, quota)
		}
		var got, want slidegate.Decision
		var err error
		verb := "take"
		switch n := rng.IntN(20); {
		case n < 12:
			got, err = mine.TakeN(background, key, cost)
			want, _ = theirs.TakeN(background, key, cost)
			receipts = append(receipts, receipt{got, want})
		case n < 16:
			verb = "peek"
			got, err = mine.PeekN(background, key, cost)
			want, _ = theirs.PeekN(background, key, cost)
		case n < 19 && len(receipts) > 0:
			verb = "refund"
			r := &receipts[rng.IntN(len(receipts))]
			if part := r.store.Held(); n == 18 && part > 1 {
				part = 1 + rng.Int64N(part-1)
				err = mine.RefundN(background, &r.store, part)
				_ = theirs.RefundN(background, &r.oracle, part)
				break
			}
			err = mine.Refund(background, &r.store)
			_ = theirs.Refund(background, &r.oracle)
		default:
			verb = "reset"
			if rng.IntN(4) == 0 {
				err = mine.Reset(background, key)
				_ = theirs.Reset(background, key)
			}
		}
		if err != nil {
			t.Fatalf("step %d: %s: %v", step, verb, err)
		}
		if difference := differs(&got, &want); difference != "" {
			t.Errorf("step %d at %d: %s of %d: %s\n got %v %+v\nwant %v %+v", step, b.clock.Now().UnixMilli(), verb, cost, difference,
				got.Allowed, statesOf(got), want.Allowed, statesOf(want))
			return
		}
	}
}

// variation returns the limits with other quotas and resolutions, under the same names.
func variation(limits []slidegate.Limit, rng *rand.Rand) []slidegate.Limit {
	other := slices.Clone(limits)
	for i := range other {
		l := &other[i]
		if l.Name == "" {
			continue // an unnamed limit may not change its quota
		}
		l.Quota = max(1, min(slidegate.MaxQuota, l.Quota/2+rng.Int64N(l.Quota+1)))
		if rng.IntN(4) == 0 {
			l.Quota = magnitude(rng, slidegate.MaxQuota)
		}
		if l.Algorithm == slidegate.SlidingLog && l.Window >= 4*time.Millisecond {
			l.Resolution = time.Duration(1+rng.Int64N(l.Window.Milliseconds()/4)) * time.Millisecond
		}
	}
	return other
}

// differs names what two decisions differ in, if anything.
func differs(a, b *slidegate.Decision) string {
	switch {
	case a.Allowed != b.Allowed:
		return "the verdict"
	case a.RetryAfter() != b.RetryAfter():
		return "the retry"
	case a.BindingIndex() != b.BindingIndex():
		return "the binding limit"
	case !slices.Equal(statesOf(*a), statesOf(*b)):
		return "a limit's state"
	}
	return ""
}

// RefusalChangesNothing: however often a client is refused, it is as if it had not asked.
func RefusalChangesNothing(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		quota := smallest(limits)
		for b.take("a", max(1, quota/2)).Allowed {
			b.clock.Advance(time.Millisecond / 4)
		}
		before := b.states("a")
		for range 20 {
			if b.take("a", quota).Allowed {
				t.Errorf("%v: the whole quota was admitted when half was used", limits)
			}
		}
		if after := b.states("a"); !slices.Equal(before, after) {
			t.Errorf("%v: refusals changed %+v to %+v", limits, before, after)
		}
	}
}

// PeekChangesNothing, and answers what a take would: verdict and waits.
func PeekChangesNothing(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		for step := range 30 {
			cost := 1 + int64(step)%smallest(limits)
			first, second := b.peek("a", cost), b.peek("a", cost)
			took := b.take("a", cost)
			if d := differs(&first, &second); d != "" {
				t.Errorf("%v: a peek changed %s", limits, d)
			}
			if first.Allowed != took.Allowed || first.RetryAfter() != took.RetryAfter() {
				t.Errorf("%v: peek said %v, %s; take %v, %s", limits, first.Allowed, first.RetryAfter(), took.Allowed, took.RetryAfter())
			}
			b.clock.Advance(time.Duration(shortest(limits)/9) * time.Millisecond)
		}
	}
}

// CostZeroIsFree: admitted also when full, with nothing to wait for, and nothing is written.
func CostZeroIsFree(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		for b.take("a", smallest(limits)).Allowed {
			continue
		}
		before := b.states("a")
		if d := b.take("a", 0); !d.Allowed || d.RetryAfter() != 0 || d.Charged() {
			t.Errorf("%v: a cost of 0 got %v, retry %s, charged %v", limits, d.Allowed, d.RetryAfter(), d.Charged())
		}
		if after := b.states("a"); !slices.Equal(before, after) {
			t.Errorf("%v: a cost of 0 changed %+v to %+v", limits, before, after)
		}
	}
}

// AllLimitsAreChargedOrNone, in whichever order a full limit stands.
func AllLimitsAreChargedOrNone(t testing.TB, f Factory) {
	for _, limits := range [][]slidegate.Limit{
		{slidegate.PerSecond(2).Named("full"), slidegate.PerMinute(5).Named("free"), slidegate.PerHour(9).Counter().Named("count")},
		{slidegate.PerMinute(5).Named("free"), slidegate.PerHour(9).Counter().Named("count"), slidegate.PerSecond(2).Named("full")},
		{slidegate.PerHour(9).Counter().Named("count"), slidegate.PerHour(2).Counter().Named("full"), slidegate.PerMinute(5).Named("free")},
	} {
		b := newBench(t, f, limits...)
		b.take("a", 2)
		if d := b.take("a", 1); d.Allowed {
			t.Errorf("%v: admitted though one limit is full", limits)
		}
		for _, s := range b.states("a") {
			if want := s.Limit.Quota - 2; s.Remaining != want {
				t.Errorf("%v: %s has %d left, want %d", limits, s.Limit.Name, s.Remaining, want)
			}
		}
	}
}

// RetryIsTight: after the retry the same request is admitted, and a millisecond earlier it is not.
func RetryIsTight(t testing.TB, f Factory) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, limits := range append(plans(), randomPlans(rng, 40)...) {
		b := newBench(t, f, limits...)
		for range 150 {
			b.clock.Advance(time.Duration(rng.Int64N(shortest(limits)/3+2)) * time.Millisecond)
			cost := 1 + rng.Int64N(smallest(limits))
			d := b.take("a", cost)
			if d.Allowed {
				if d.RetryAfter() != 0 {
					t.Errorf("%v: admitted with a retry of %s", limits, d.RetryAfter())
				}
				continue
			}
			now := b.clock.Now()
			if d.RetryAfter() < time.Millisecond {
				t.Errorf("%v: refused with a retry of %s", limits, d.RetryAfter())
				return
			}
			b.clock.Set(now.Add(d.RetryAfter() - time.Millisecond))
			early := b.peek("a", cost).Allowed
			b.clock.Set(now.Add(d.RetryAfter()))
			if late := b.peek("a", cost).Allowed; early || !late {
				t.Errorf("%v: cost %d, retry %s: a millisecond early %v, then %v", limits, cost, d.RetryAfter(), early, late)
				return
			}
			b.clock.Set(now)
		}
	}
}

// ResetIsTight: after the reset a limit is completely full, and a millisecond earlier it is not.
func ResetIsTight(t testing.TB, f Factory) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, limits := range append(plans(), randomPlans(rng, 40)...) {
		b := newBench(t, f, limits...)
		for range 60 {
			b.clock.Advance(time.Duration(rng.Int64N(shortest(limits)/3+2)) * time.Millisecond)
			b.take("a", 1+rng.Int64N(smallest(limits)))
			now := b.clock.Now()
			for i, s := range b.states("a") {
				if s.ResetIn == 0 {
					if s.Remaining != s.Limit.Quota {
						t.Errorf("%s: reset 0 with %d left", s.Limit, s.Remaining)
					}
					continue
				}
				b.clock.Set(now.Add(s.ResetIn - time.Millisecond))
				early := b.states("a")[i].Remaining
				b.clock.Set(now.Add(s.ResetIn))
				if late := b.states("a")[i].Remaining; early == s.Limit.Quota || late != s.Limit.Quota {
					t.Errorf("%s: reset %s: a millisecond early %d left, then %d", s.Limit, s.ResetIn, early, late)
					return
				}
				b.clock.Set(now)
			}
		}
	}
}

// NoWindowHoldsMoreThanTheQuota: the headline, checked on every admitted unit by brute force.
func NoWindowHoldsMoreThanTheQuota(t testing.TB, f Factory) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, l := range []slidegate.Limit{
		slidegate.PerSecond(7), slidegate.Per(3*time.Millisecond, 2), slidegate.PerSecond(10).WithResolution(100 * time.Millisecond),
	} {
		b := newBench(t, f, l)
		var admitted []charge
		for range 3000 {
			b.clock.Advance(time.Duration(rng.Int64N(l.Window.Milliseconds()/5+2)) * time.Millisecond)
			if cost := 1 + rng.Int64N(3); cost <= l.Quota && b.take("a", cost).Allowed {
				admitted = append(admitted, charge{b.clock.Now().UnixMilli(), cost})
			}
		}
		for i := range admitted {
			var units int64
			for _, c := range admitted[i:] {
				if c.at-admitted[i].at < l.Window.Milliseconds() {
					units += c.units
				}
			}
			if units > l.Quota {
				t.Errorf("%s: the window from %d holds %d units", l, admitted[i].at, units)
				return
			}
		}
		if len(admitted) < 100 {
			t.Errorf("%s: only %d admitted, the law shows nothing", l, len(admitted))
		}
	}
}

// CounterAdmitsAtMostTwiceTheQuota through one true window, for whoever tries: the bound that
// the documentation names. It also shows that the bound is no idle one.
func CounterAdmitsAtMostTwiceTheQuota(t testing.TB, f Factory) {
	l := slidegate.PerSecond(100).Counter()
	b := newBench(t, f, l)
	b.clock.SetMilli(1_757_750_400_999) // the last millisecond of a window
	var admitted []charge
	for now := b.clock.Now().UnixMilli(); now < 1_757_750_403_000; now++ {
		b.clock.SetMilli(now)
		for b.take("a", 1).Allowed {
			admitted = append(admitted, charge{now, 1})
		}
	}
	most := int64(0)
	for i := range admitted {
		var units int64
		for _, c := range admitted[i:] {
			if c.at-admitted[i].at < 1000 {
				units += c.units
			}
		}
		most = max(most, units)
	}
	if most > 2*l.Quota || most <= l.Quota {
		t.Errorf("a true window held %d units of a counter of 100; want more than 100 and at most 200", most)
	}
}

// ConcurrentTakesNeverExceedTheQuota: exactly the quota is admitted of many at once.
func ConcurrentTakesNeverExceedTheQuota(t testing.TB, f Factory) {
	for _, limits := range [][]slidegate.Limit{
		{slidegate.PerHour(10)},
		{slidegate.PerHour(10).Counter()},
		{slidegate.PerHour(10).Named("a"), slidegate.PerDay(11).Counter().Named("b"), slidegate.PerDay(12).Named("c")},
	} {
		b := newBench(t, f, limits...)
		for _, key := range []string{"a", "b", "c"} {
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 25 {
				wg.Go(func() {
					for range 4 {
						if d, err := b.Take(background, key); err != nil {
							t.Errorf("Take: %v", err)
						} else if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != 10 {
				t.Errorf("%v: %d of 100 concurrent requests were admitted, want 10", limits, n)
			}
			for _, s := range b.states(key) {
				if want := s.Limit.Quota - 10; s.Remaining != want {
					t.Errorf("%s: %d left, want %d", s.Limit, s.Remaining, want)
				}
			}
		}
	}
}

// KeysAreIsolated, whatever characters they are made of.
func KeysAreIsolated(t testing.TB, f Factory) {
	b := newBench(t, f, slidegate.PerHour(1))
	for _, key := range []string{"a", "b", "A", "a ", " a", "a{b}", "a_b_", "a}b", "a{b", "{", "}", "{}", ":", "a:b", "%", "%7D", "\x00", "\n", "ключ", "a\x00b"} {
		if !b.take(key, 1).Allowed {
			t.Errorf("%q shares state with another key", key)
		}
		if b.take(key, 1).Allowed {
			t.Errorf("%q was admitted twice", key)
		}
	}
}

// LimitersShareWhereIdentityIsEqual: key, name, algorithm and window; never quota or resolution.
func LimitersShareWhereIdentityIsEqual(t testing.TB, f Factory) {
	base := slidegate.Per(time.Minute, 10).Named("n")
	for _, c := range []struct {
		what   string
		limit  slidegate.Limit
		shared bool
	}{
		{"an equal limit", base, true},
		{"another quota", slidegate.Per(time.Minute, 15).Named("n"), true},
		{"another resolution", base.WithResolution(time.Second), true},
		{"another name", base.Named("m"), false},
		{"another window", slidegate.Per(time.Hour, 10).Named("n"), false},
		{"another algorithm", base.Counter(), false},
	} {
		b := newBench(t, f, base)
		other, err := b.With(c.limit)
		if err != nil {
			t.Fatalf("With: %v", err)
		}
		b.take("a", 4)
		d, err := other.Peek(background, "a")
		if err != nil {
			t.Fatalf("Peek: %v", err)
		}
		want := c.limit.Quota
		if c.shared {
			want -= 4
		}
		if d.Remaining() != want {
			t.Errorf("%s: %d left, want %d", c.what, d.Remaining(), want)
		}
	}
	// A quota below what is used leaves nothing, never less.
	b := newBench(t, f, slidegate.PerMinute(50).Named("n"))
	b.take("a", 50)
	low, err := b.With(slidegate.PerMinute(10).Named("n"))
	if err != nil {
		t.Fatalf("With: %v", err)
	}
	b.clock.Advance(10 * time.Second)
	if d, _ := low.Take(background, "a"); d.Allowed || d.Remaining() != 0 || d.RetryAfter() != 50*time.Second {
		t.Errorf("after lowering the quota: %v, %d left, retry %s", d.Allowed, d.Remaining(), d.RetryAfter())
	}
}

// QuotaMayChangeByAnyFactor under a name: what was stored while the quota was small is counted
// together with units by the milliard, to the last one.
func QuotaMayChangeByAnyFactor(t testing.TB, f Factory) {
	for _, l := range []slidegate.Limit{slidegate.PerSecond(10).Named("n"), slidegate.PerHour(10).Counter().Named("n")} {
		for entries := range 5 {
			changeQuota(t, f, l, entries)
		}
	}
}

// changeQuota charges a limit of ten so many times, raises its quota to the most and charges on.
func changeQuota(t testing.TB, f Factory, l slidegate.Limit, entries int) {
	const milliard = 1_000_000_000
	b := newBench(t, f, l)
	l.Quota = slidegate.MaxQuota
	large, err := b.With(l)
	if err != nil {
		t.Fatalf("With: %v", err)
	}
	want := int64(slidegate.MaxQuota)
	charge := func(by *slidegate.Limiter, cost int64) {
		d, err := by.TakeN(background, "a", cost)
		if err != nil || !d.Allowed {
			t.Fatalf("%s: TakeN(%d): %s, %v", l, cost, d, err)
		}
		want -= cost
	}
	for range entries {
		charge(b.Limiter, 2)
		b.clock.Advance(time.Millisecond)
	}
	for range 3 {
		charge(large, 5*milliard)
		charge(large, 7*milliard+1)
		b.clock.Advance(time.Millisecond)
	}
	// Still every unit counts; a window after the last small charge only the large ones do.
	if d, err := large.Peek(background, "a"); err != nil || d.Remaining() != want {
		t.Errorf("%s: %d left, want %d, %v", l, d.Remaining(), want, err)
	}
	if d := b.take("a", 1); d.Allowed || d.Remaining() != 0 {
		t.Errorf("%s: with the small quota again: %s", l, d)
	}
	if l.Algorithm == slidegate.SlidingLog {
		b.clock.Advance(l.Window - 3*time.Millisecond - time.Millisecond)
		want += 2 * int64(entries)
		if d, err := large.Peek(background, "a"); err != nil || d.Remaining() != want {
			t.Errorf("%s: when the small charges have left: %d left, want %d, %v", l, d.Remaining(), want, err)
		}
	}
}

// RefundGivesBackOnce: at the time recorded, in every limit, and a second time nothing.
func RefundGivesBackOnce(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		full := b.states("a")
		d := b.take("a", 1)
		b.refund(&d)
		if now := b.states("a"); !slices.Equal(full, now) || d.Charged() {
			t.Errorf("%v: after a refund %+v, charged %v", limits, now, d.Charged())
		}
		b.take("a", 1)
		before := b.states("a")
		b.refund(&d)
		if after := b.states("a"); !slices.Equal(before, after) {
			t.Errorf("%v: a second refund changed %+v to %+v", limits, before, after)
		}
	}
}

// PartialRefundsAddUpToTheCharge: each gives back its part at the time recorded, and all together never
// more than was charged, however much is asked for.
func PartialRefundsAddUpToTheCharge(t testing.TB, f Factory) {
	for _, limits := range plans() {
		cost := smallest(limits) - 1
		b := newBench(t, f, limits...)
		b.take("a", 1)
		d := b.take("a", cost)
		for _, part := range []int64{cost / 2, 1, cost, 1} {
			want := d.Held() - min(part, d.Held())
			if err := b.RefundN(background, &d, part); err != nil {
				t.Fatalf("RefundN: %v", err)
			}
			if d.Held() != want || d.Charged() != (want > 0) {
				t.Errorf("%v: after %d of %d units the receipt holds %d, want %d", limits, part, cost, d.Held(), want)
			}
			for _, s := range b.states("a") {
				if left := s.Limit.Quota - 1 - want; s.Remaining != left {
					t.Errorf("%s: %d left when %d of %d units have been given back, want %d", s.Limit, s.Remaining, cost-want, cost, left)
				}
			}
		}
	}
}

// RefundNeverExceedsTheQuota: nothing that was not charged is given back.
func RefundNeverExceedsTheQuota(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		var receipts []slidegate.Decision
		var last slidegate.Decision
		for last = b.take("a", 1); last.Allowed && len(receipts) < 40; last = b.take("a", 1) {
			receipts = append(receipts, last)
		}
		looked := b.peek("a", 1)
		free := b.take("a", 0)
		before := b.states("a")
		b.refund(&looked)
		b.refund(&free)
		if !last.Allowed {
			b.refund(&last)
		}
		if after := b.states("a"); !slices.Equal(before, after) && !last.Allowed {
			t.Errorf("%v: a refund of nothing changed %+v to %+v", limits, before, after)
		}
		if err := b.Reset(background, "a"); err != nil {
			t.Fatalf("Reset: %v", err)
		}
		for _, copied := range slices.Concat(receipts, receipts) {
			b.refund(&copied)
		}
		for _, s := range b.states("a") {
			if s.Remaining != s.Limit.Quota {
				t.Errorf("%v: %d left of %d after refunds of a key that was reset", limits, s.Remaining, s.Limit.Quota)
			}
		}
	}
}

// UnitsThatLeftAreGone: a refund after the window changes nothing.
func UnitsThatLeftAreGone(t testing.TB, f Factory) {
	for _, l := range []slidegate.Limit{slidegate.PerSecond(4), slidegate.PerSecond(4).Counter()} {
		b := newBench(t, f, l)
		d := b.take("a", 3)
		b.clock.Advance(2 * time.Second)
		b.take("a", 2)
		before := b.states("a")
		b.refund(&d)
		if after := b.states("a"); !slices.Equal(before, after) {
			t.Errorf("%s: a late refund changed %+v to %+v", l, before, after)
		}
	}
}

// TenYearWindowsAreExact to the millisecond: a charge ten years old counts, and a millisecond
// later it does not. Recorded times that were kept in too few bits would show.
func TenYearWindowsAreExact(t testing.TB, f Factory) {
	b := newBench(t, f, slidegate.Per(slidegate.MaxWindow, 2), slidegate.Per(slidegate.MaxWindow, slidegate.MaxQuota).Named("wide"))
	b.take("a", 1)
	b.clock.Advance(slidegate.MaxWindow / 2)
	b.take("a", 1)
	b.clock.Advance(slidegate.MaxWindow/2 - time.Millisecond)
	if d := b.take("a", 1); d.Allowed || d.RetryAfter() != time.Millisecond {
		t.Errorf("a millisecond before ten years: %v, retry %s", d.Allowed, d.RetryAfter())
	}
	b.clock.Advance(time.Millisecond)
	if d := b.take("a", 1); !d.Allowed || d.ResetAfter() != slidegate.MaxWindow {
		t.Errorf("after ten years: %v, reset %s", d.Allowed, d.ResetAfter())
	}
	if d := b.take("a", 1); d.Allowed || d.RetryAfter() != slidegate.MaxWindow/2 {
		t.Errorf("after ten years the second: %v, retry %s", d.Allowed, d.RetryAfter())
	}
	if s := b.states("a")[1]; s.Remaining != slidegate.MaxQuota-2 {
		t.Errorf("%s has %d left", s.Limit, s.Remaining)
	}
}

// ResetForgetsOneKeyInEveryLimit and leaves other keys and other limiters' limits alone.
func ResetForgetsOneKeyInEveryLimit(t testing.TB, f Factory) {
	for _, limits := range plans() {
		b := newBench(t, f, limits...)
		other, err := slidegate.New(b.store, slidegate.PerHour(9).Named("of another limiter"))
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		fresh := b.states("a")
		for _, key := range []string{"a", "b"} {
			b.take(key, 1)
			if _, err := other.Take(background, key); err != nil {
				t.Fatalf("Take: %v", err)
			}
		}
		used := b.states("b")
		if err := b.Reset(background, "a"); err != nil {
			t.Fatalf("Reset: %v", err)
		}
		if now := b.states("a"); !slices.Equal(now, fresh) {
			t.Errorf("%v: after a reset %+v, want %+v", limits, now, fresh)
		}
		if now := b.states("b"); !slices.Equal(now, used) {
			t.Errorf("%v: the reset of another key made %+v of %+v", limits, now, used)
		}
		if d, _ := other.Peek(background, "a"); d.Remaining() != 8 {
			t.Errorf("%v: a reset reached another limiter's limit: %d left, want 8", limits, d.Remaining())
		}
	}
}

// OrderOfLimitsDoesNotMatter for verdict, states and retry.
func OrderOfLimitsDoesNotMatter(t testing.TB, f Factory) {
	a, b, c := slidegate.PerSecond(2), slidegate.PerMinute(3), slidegate.PerHour(4).Counter()
	var first []slidegate.Decision
	for _, limits := range [][]slidegate.Limit{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
		rng := rand.New(rand.NewPCG(17, 18))
		bench := newBench(t, f, limits...)
		var all []slidegate.Decision
		for range 200 {
			bench.clock.Advance(time.Duration(rng.Int64N(60_000)) * time.Millisecond)
			all = append(all, bench.take("a", 1+rng.Int64N(2)))
		}
		if first == nil {
			first = all
			continue
		}
		for i := range all {
			if all[i].Allowed != first[i].Allowed || all[i].RetryAfter() != first[i].RetryAfter() || all[i].Remaining() != first[i].Remaining() {
				t.Errorf("order %v: request %d got %v, in the first order %v", limits, i, all[i], first[i])
				return
			}
		}
	}
}

// RecordedTimeNeverRunsBack: a clock that steps back frees nothing early.
func RecordedTimeNeverRunsBack(t testing.TB, f Factory) {
	b := newBench(t, f, slidegate.PerSecond(2))
	b.take("a", 1)
	b.clock.Advance(-10 * time.Second)
	if d := b.take("a", 1); !d.Allowed || d.ResetAfter() != 11*time.Second {
		t.Errorf("after stepping back ten seconds: %v, reset %s, want 11s", d.Allowed, d.ResetAfter())
	}
	b.clock.Advance(10*time.Second + 999*time.Millisecond)
	if b.take("a", 1).Allowed {
		t.Errorf("admitted a millisecond before the charges leave")
	}
	b.clock.Advance(time.Millisecond)
	if d := b.take("a", 2); !d.Allowed {
		t.Errorf("refused when the charges have left: retry %s", d.RetryAfter())
	}
	c := newBench(t, f, slidegate.PerSecond(2).Counter())
	c.clock.SetMilli(10_500)
	c.take("a", 2)
	c.clock.SetMilli(3_000)
	if d := c.take("a", 1); d.Allowed || d.RetryAfter() != 8001*time.Millisecond {
		t.Errorf("a counter after stepping back: %v, retry %s, want 8.001s", d.Allowed, d.RetryAfter())
	}
}
