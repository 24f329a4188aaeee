package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// A refuge is a fallback from a memory store that can be away to another one, on one clock.
type refuge struct {
	clock   *gatetest.Clock
	primary *switchable
	backup  *memstore.Store
	store   *wrap.FallbackStore
}

func newRefuge(options ...wrap.FallbackOption) *refuge {
	r := &refuge{clock: gatetest.NewClock(start)}
	r.primary = newSwitch(memstore.New(memstore.WithClock(r.clock.Now)))
	r.backup = memstore.New(memstore.WithClock(r.clock.Now))
	r.store = wrap.Fallback(r.primary, r.backup, options...)
	return r
}

// An away store can be asked for nothing but a reset.
type away struct{ slidegate.Store }

func (s away) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return awayPlan{plan}, err
}

func (s away) BindJoint([][]slidegate.Limit) (slidegate.JointPlan, error) {
	return awayJointPlan{}, nil
}

type awayPlan struct{ slidegate.Plan }

func (awayPlan) Reset(context.Context, string) error { return nil }

type awayJointPlan struct{}

func (awayJointPlan) Joint([]string) bool { return true }

func (awayJointPlan) Take(context.Context, []string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, errDown
}

func (awayJointPlan) Peek(context.Context, []string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, errDown
}

func (awayJointPlan) Refund(context.Context, []string, slidegate.Answer, int64) error { return errDown }

// admits returns how many requests of cost 1 are admitted until one is refused.
func admits(t testing.TB, l *slidegate.Limiter, key string) (n int64) {
	t.Helper()
	for {
		if d := must(t)(l.Take(background, key)); !d.Allowed {
			return n
		}
		n++
	}
}

// TestFallbackKeepsTheLaws while the primary answers, whatever the backup; and while it does not, by the whole quota.
func TestFallbackKeepsTheLaws(t *testing.T) {
	t.Run("by the primary", func(t *testing.T) {
		gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
			return wrap.Fallback(memstore.New(memstore.WithClock(clock.Now)), memstore.New(memstore.WithClock(clock.Now)))
		})
	})
	// A counter by itself that the backup charged is told to be full later than it is.
	inexact := []string{"Scenarios", "AgreesWithTheOracle", "AgreesWithTheOracleOnRandomPlans", "AgreesWithTheOracleOnSparseTraffic", "SeveralKeysAgreeWithTheOracle", "ResetIsTight"}
	for _, law := range gatetest.Laws() {
		if slices.Contains(inexact, law.Name) {
			continue
		}
		t.Run("by the backup/"+law.Name, func(t *testing.T) {
			law.Check(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
				return wrap.Fallback(away{gatetest.Failing(nil)}, memstore.New(memstore.WithClock(clock.Now)))
			})
		})
	}
}

// TestTheBackupDecidesByAShare, at least of one unit, and what it answers is explained by that share.
func TestTheBackupDecidesByAShare(t *testing.T) {
	for _, c := range []struct {
		option wrap.FallbackOption
		quota  int64
		want   int64
	}{
		{wrap.WithShare(1, 1), 10, 10},
		{wrap.WithShare(1, 4), 10, 2},
		{wrap.WithShare(3, 4), 10, 7},
		{wrap.WithShare(1, 1_000_000), 10, 1},
		{wrap.WithReplicas(func() int { return 5 }), 10, 2},
		{wrap.WithReplicas(func() int { return 0 }), 10, 10},
		{wrap.WithReplicas(func() int { return -1 }), 10, 10},
		{wrap.WithReplicas(func() int { return 1 << 40 }), 10, 1},
	} {
		for _, limit := range []slidegate.Limit{slidegate.PerHour(c.quota), slidegate.PerHour(c.quota).Counter()} {
			r := newRefuge(c.option)
			l := slidegate.MustNew(r.store, limit)
			r.primary.off(errDown)
			if d := must(t)(l.Peek(background, "a")); !d.Allowed || d.Remaining() != c.want {
				t.Errorf("%+v: a look at a share of %d: %s", limit, c.want, d)
			}
			first := must(t)(l.Take(background, "a"))
			if first.Remaining() != c.want-1 {
				t.Errorf("%+v: of a share of %d one is taken: %s", limit, c.want, first)
			}
			if untouched := must(t)(l.Peek(background, "b")); limit.Algorithm == slidegate.SlidingLog && (untouched.ResetAfter() != 0 || first.ResetAfter() != time.Hour) {
				t.Errorf("%+v: the reset of a full share is %s, of one that was charged %s", limit, untouched.ResetAfter(), first.ResetAfter())
			}
			if n := 1 + admits(t, l, "a"); n != c.want {
				t.Errorf("%+v: %d were admitted, want %d", limit, n, c.want)
			}
			refused := must(t)(l.Take(background, "a"))
			if refused.Remaining() != 0 || refused.RetryAfter() <= 0 {
				t.Errorf("%+v: %s", limit, refused)
			}
			r.clock.Advance(refused.RetryAfter() - time.Millisecond)
			if must(t)(l.Take(background, "a")).Allowed {
				t.Errorf("%+v: admitted a millisecond before the retry", limit)
			}
			r.clock.Advance(time.Millisecond)
			if !must(t)(l.Take(background, "a")).Allowed {
				t.Errorf("%+v: refused at the retry", limit)
			}
		}
	}
}

// TestACounterIsNeverToldToWaitTooLong: where more is used than the share, since that was larger, or more than a unit is asked
// for, the retry may be too early. Nobody has room before it.
func TestACounterIsNeverToldToWaitTooLong(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(57, seed))
		quota, window, live := 2+rng.Int64N(8), time.Duration(2+rng.IntN(9))*time.Millisecond, 1
		r := newRefuge(wrap.WithReplicas(func() int { return live }))
		l := slidegate.MustNew(r.store, slidegate.Per(window, quota).Counter())
		r.primary.off(errDown)
		must(t)(l.TakeN(background, "a", 1+rng.Int64N(quota)))
		live = 1 + rng.IntN(4)
		cost := 1 + rng.Int64N(max(1, quota/int64(live)))
		d := must(t)(l.PeekN(background, "a", cost))
		if d.Allowed {
			continue
		}
		if r.clock.Advance(d.RetryAfter() - time.Millisecond); must(t)(l.PeekN(background, "a", cost)).Allowed {
			t.Errorf("seed %d: %s, and it fits a millisecond before", seed, d)
		}
	}
}

// TestNobodyIsRefilledByAnOutage: what the backup admitted counts when the primary is back, in each limit as far as it is
// in its window, and in the backup too when the primary goes again.
func TestNobodyIsRefilledByAnOutage(t *testing.T) {
	r := newRefuge(wrap.WithShare(1, 2))
	short, long := slidegate.PerSecond(6).Named("short"), slidegate.PerHour(20).Named("long")
	l := slidegate.MustNew(r.store, short, long)
	r.primary.off(errDown)
	if n := admits(t, l, "a"); n != 3 {
		t.Fatalf("the backup admits %d by half of 6", n)
	}
	r.clock.Advance(time.Second) // they leave the short one
	must(t)(l.Take(background, "a"))
	r.primary.on()
	d := must(t)(l.Peek(background, "a"))
	if s, g := d.State(0).Remaining, d.State(1).Remaining; s != 5 || g != 16 {
		t.Errorf("when the primary is back %d and %d are left, want 5 and 16", s, g)
	}
	if s := r.store.Stats(); s.Owed != 0 || s.TakenOver != 1+4 {
		t.Errorf("%+v: want all taken over", s)
	}
	if again := must(t)(l.Peek(background, "a")); again.State(1).Remaining != 16 {
		t.Errorf("what is taken over is taken over twice: %+v", again.State(1))
	}
	r.primary.off(errDown)
	if n := admits(t, l, "a"); n != 2 {
		t.Errorf("in the next outage the backup admits %d, want 2: it has not forgotten", n)
	}
}

// TestNoWindowHoldsMoreThanTheBound: of random traffic and outages, no true window holds more than the quota and the shares of all
// processes, and no outage alone more than the shares.
func TestNoWindowHoldsMoreThanTheBound(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(51, seed))
		processes, quota := 1+rng.IntN(3), int64(4+rng.IntN(9))
		window := time.Duration(50+rng.IntN(400)) * time.Millisecond
		r := newRefuge()
		var limiters []*slidegate.Limiter
		for range processes {
			backup := memstore.New(memstore.WithClock(r.clock.Now))
			store := wrap.Fallback(r.primary, backup, wrap.WithReplicas(func() int { return processes }))
			limiters = append(limiters, slidegate.MustNew(store, slidegate.Per(window, quota).Named("l")))
		}
		type admission struct {
			at    time.Time
			units int64
		}
		var all []admission
		bound := quota + int64(processes)*max(1, quota/int64(processes))
		for range 1500 {
			r.clock.Advance(time.Duration(rng.Int64N(int64(window/time.Millisecond)/8+1)) * time.Millisecond)
			switch rng.IntN(25) {
			case 0:
				r.primary.off(errDown)
			case 1, 2:
				r.primary.on()
			}
			cost := 1 + rng.Int64N(2)
			if d := must(t)(limiters[rng.IntN(processes)].TakeN(background, "k", cost)); d.Allowed {
				all = append(all, admission{r.clock.Now(), cost})
			}
			var held int64
			for i := len(all) - 1; i >= 0 && r.clock.Now().Sub(all[i].at) < window; i-- {
				held += all[i].units
			}
			if held > bound {
				t.Fatalf("seed %d: %d processes, %d in %s: a window holds %d, the bound is %d", seed, processes, quota, window, held, bound)
			}
		}
	}
}

// TestOneProcessAdmitsTheQuotaFromAnOutageOn, the time before it aside: what both stores admit from its beginning on is held to the
// quota, however often the primary comes and goes.
func TestOneProcessAdmitsTheQuotaFromAnOutageOn(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(53, seed))
		quota := int64(1 + rng.IntN(12))
		r := newRefuge(wrap.WithShare(1+rng.IntN(2), 2))
		l := slidegate.MustNew(r.store, slidegate.PerHour(quota))
		var held int64
		for range 100 {
			r.clock.Advance(time.Duration(rng.IntN(1000)) * time.Millisecond)
			switch rng.IntN(8) {
			case 0:
				r.primary.off(errDown)
			case 1:
				r.primary.on()
			}
			before := held
			d := must(t)(l.Take(background, "k"))
			if d.Allowed {
				held++
			}
			// What the primary holds is not known to the backup: it may add its share to that.
			if away := r.primary.failure() != nil; held > quota && !away && before != held {
				t.Fatalf("seed %d: of %d the primary admitted the %dth", seed, quota, held)
			}
		}
	}
}

// TestACallerWhoGivesUpIsNoReason to ask the backup, nor is an error that is none of the store.
func TestACallerWhoGivesUpIsNoReason(t *testing.T) {
	gone, cancel := context.WithCancel(background)
	cancel()
	other := errors.New("another error")
	for name, c := range map[string]struct {
		ctx context.Context
		err error
	}{
		"a caller who gave up":             {gone, context.Canceled},
		"and the store calls it its own":   {gone, errDown},
		"the deadline of a caller":         {background, context.DeadlineExceeded},
		"an error that says nothing of it": {background, other},
	} {
		r := newRefuge()
		l := slidegate.MustNew(r.store, slidegate.PerHour(2))
		r.primary.off(c.err)
		if _, err := l.Take(c.ctx, "a"); !errors.Is(err, c.err) {
			t.Errorf("%s: take: %v", name, err)
		}
		if _, err := l.Peek(c.ctx, "a"); !errors.Is(err, c.err) {
			t.Errorf("%s: peek: %v", name, err)
		}
		if n := r.store.Stats().Decided; n != 0 {
			t.Errorf("%s: the backup decided", name)
		}
	}
}

// TestARefundGoesWhereTheChargeWasMade, whichever store answers then.
func TestARefundGoesWhereTheChargeWasMade(t *testing.T) {
	log, count := slidegate.PerHour(8).Named("log"), slidegate.PerHour(8).Counter().Named("count")
	for name, limits := range map[string][]slidegate.Limit{"log": {log}, "counter": {count}, "both": {count, log}} {
		r := newRefuge(wrap.WithShare(1, 2))
		l := slidegate.MustNew(r.store, limits...)
		left := func(store slidegate.Store, quota int64) int64 {
			var of []slidegate.Limit
			for _, limit := range limits {
				limit.Quota = quota
				of = append(of, limit)
			}
			d := must(t)(slidegate.MustNew(store, of...).Peek(background, "a"))
			return d.Remaining()
		}
		byPrimary := must(t)(l.TakeN(background, "a", 2))
		r.primary.off(errDown)
		byBackup := must(t)(l.TakeN(background, "a", 3))
		if n := left(r.backup, 4); n != 1 {
			t.Fatalf("%s: %d are left in the backup, want 1", name, n)
		}
		if err := l.RefundN(background, &byBackup, 1); err != nil || left(r.backup, 4) != 2 {
			t.Errorf("%s: a part given back in the outage: %v, %d are left, want 2", name, err, left(r.backup, 4))
		}
		failed := byPrimary
		if err := l.Refund(background, &failed); !errors.Is(err, errDown) || left(r.backup, 4) != 2 {
			t.Errorf("%s: a charge of the primary given back in the outage: %v, %d are left in the backup", name, err, left(r.backup, 4))
		}
		r.primary.on()
		if err := l.Refund(background, &byPrimary); err != nil || left(r.primary, 8) != 8 {
			t.Errorf("%s: a charge of the primary: %v, %d are left", name, err, left(r.primary, 8))
		}
		if err := l.Refund(background, &byBackup); err != nil || left(r.backup, 4) != 4 {
			t.Errorf("%s: a charge of the backup: %v, %d are left", name, err, left(r.backup, 4))
		}
		if d := must(t)(l.Peek(background, "a")); d.Remaining() != 8 {
			t.Errorf("%s: all is given back, and %d are left", name, d.Remaining())
		}
	}
}

// TestWhatIsGivenBackIsNotOwed, also where the backup still counts what was taken over before.
func TestWhatIsGivenBackIsNotOwed(t *testing.T) {
	r := newRefuge()
	l := slidegate.MustNew(r.store, slidegate.PerHour(8))
	r.primary.off(errDown)
	must(t)(l.TakeN(background, "a", 2))
	r.primary.on()
	must(t)(l.Peek(background, "a")) // takes over
	r.primary.off(errDown)
	r.clock.Advance(time.Second)
	d := must(t)(l.TakeN(background, "a", 3))
	if err := l.RefundN(background, &d, 2); err != nil {
		t.Fatal(err)
	}
	r.primary.on()
	if now := must(t)(l.Peek(background, "a")); now.Remaining() != 5 {
		t.Errorf("two were taken over and one is owed: %d are left of 8", now.Remaining())
	}
}

// TestALateRefundPaysNoDebt: what is given back when it has left its window is gone, and what was admitted since is owed all the same.
func TestALateRefundPaysNoDebt(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.PerHour(8), slidegate.PerHour(8).Counter()} {
		r := newRefuge()
		l := slidegate.MustNew(r.store, limit)
		r.primary.off(errDown)
		early := must(t)(l.TakeN(background, "a", 2))
		r.primary.on()
		must(t)(l.Peek(background, "a")) // takes over
		r.primary.off(errDown)
		r.clock.Advance(2 * time.Hour)
		must(t)(l.TakeN(background, "a", 3))
		if err := l.Refund(background, &early); err != nil {
			t.Fatal(err)
		}
		r.primary.on()
		if now := must(t)(l.Peek(background, "a")); now.Remaining() != 5 {
			t.Errorf("%s: three are owed, and %d are left of 8", limit, now.Remaining())
		}
	}
}

// TestARefundAfterAResetPaysNoDebt: what was forgotten cannot be given back, and what was admitted since is owed all the same. Only
// what was charged since at the same recorded time is met, and then it is owed no more.
func TestARefundAfterAResetPaysNoDebt(t *testing.T) {
	log, count := slidegate.PerHour(8), slidegate.PerHour(8).Counter()
	for _, c := range []struct {
		limit slidegate.Limit
		later time.Duration
		left  int64
	}{
		{log, time.Millisecond, 5},
		{log, 0, 7},
		{count, time.Hour, 5},
		{count, time.Minute, 7}, // in the same window
	} {
		r := newRefuge()
		l := slidegate.MustNew(r.store, c.limit)
		r.primary.off(errDown)
		early := must(t)(l.TakeN(background, "a", 2))
		if err := l.Reset(background, "a"); !errors.Is(err, errDown) {
			t.Fatalf("a reset that the primary does not see: %v", err)
		}
		r.clock.Advance(c.later)
		must(t)(l.TakeN(background, "a", 3))
		if err := l.Refund(background, &early); err != nil {
			t.Fatal(err)
		}
		r.primary.on()
		if now := must(t)(l.Peek(background, "a")); now.Remaining() != c.left {
			t.Errorf("%s, %s later: %d are left of 8, want %d", c.limit, c.later, now.Remaining(), c.left)
		}
	}
}

// TestResetForgetsInBothStores, and what is owed.
func TestResetForgetsInBothStores(t *testing.T) {
	r := newRefuge()
	l := slidegate.MustNew(r.store, slidegate.PerHour(3))
	must(t)(l.Take(background, "a"))
	r.primary.off(errDown)
	admits(t, l, "a")
	if err := l.Reset(background, "a"); !errors.Is(err, errDown) {
		t.Errorf("a reset that the primary does not see: %v", err)
	}
	if owed := r.store.Stats().Owed; owed != 0 {
		t.Errorf("a reset leaves %d debts, for which nobody is to be charged any more", owed)
	}
	if d := must(t)(l.Peek(background, "a")); d.Remaining() != 3 {
		t.Errorf("after it the backup has %d left", d.Remaining())
	}
	admits(t, l, "a")
	r.primary.on()
	if err := l.Reset(background, "a"); err != nil {
		t.Fatal(err)
	}
	if d := must(t)(l.Peek(background, "a")); d.Remaining() != 3 || r.store.Stats().Owed != 0 {
		t.Errorf("after a reset %d are left, %+v", d.Remaining(), r.store.Stats())
	}
	r.primary.off(errDown)
	if d := must(t)(l.Peek(background, "a")); d.Remaining() != 3 {
		t.Errorf("after a reset the backup has %d left", d.Remaining())
	}
}

// TestACostAboveTheShareIsRefused, for a window, and is no error: the store could decide.
func TestACostAboveTheShareIsRefused(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.PerHour(10), slidegate.PerHour(10).Counter()} {
		r := newRefuge(wrap.WithShare(1, 5))
		l := slidegate.MustNew(r.store, limit, slidegate.PerDay(100).Named("day"))
		r.primary.off(errDown)
		for verb, ask := range map[string]func(context.Context, string, int64) (slidegate.Decision, error){"take": l.TakeN, "peek": l.PeekN} {
			d := must(t)(ask(background, "a", 3))
			if d.Allowed || d.RetryAfter() <= 0 || d.RetryAfter() > 2*time.Hour || d.Binding().Limit.Window != time.Hour || d.Remaining() != 2 {
				t.Errorf("%s: %s of a cost of 3 of 2: %s", limit, verb, d)
			}
		}
		if d := must(t)(l.TakeN(background, "a", 3)); limit.Algorithm == slidegate.SlidingLog && d.RetryAfter() != time.Hour {
			t.Errorf("a whole window is to be told: %s", d)
		}
	}
}

// TestShareFollowsTheReplicas, and what was admitted by a larger one counts.
func TestShareFollowsTheReplicas(t *testing.T) {
	replicas := 2
	r := newRefuge(wrap.WithReplicas(func() int { return replicas }))
	l := slidegate.MustNew(r.store, slidegate.PerHour(12))
	r.primary.off(errDown)
	if n := admits(t, l, "a"); n != 6 {
		t.Errorf("%d are admitted by a half, want 6", n)
	}
	replicas = 4
	if d := must(t)(l.Take(background, "a")); d.Allowed || d.Remaining() != 0 {
		t.Errorf("by a quarter: %s", d)
	}
	replicas = 1
	if n := admits(t, l, "a"); n != 6 {
		t.Errorf("%d more are admitted by the whole, want 6", n)
	}
}

// TestAnErrorOfBothSaysBoth.
func TestAnErrorOfBothSaysBoth(t *testing.T) {
	full := fmt.Errorf("%w: it is full", slidegate.ErrUnavailable)
	l := slidegate.MustNew(wrap.Fallback(gatetest.Failing(errDown), gatetest.Failing(full)), slidegate.PerHour(3))
	_, takes := l.Take(background, "a")
	_, peeks := l.Peek(background, "a")
	for _, err := range []error{takes, peeks} {
		if !errors.Is(err, errDown) || !errors.Is(err, full) || !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

// A flaky store can be read and not be written.
type flaky struct {
	slidegate.Store
	failing bool
}

func (s *flaky) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &flakyPlan{plan, s}, err
}

type flakyPlan struct {
	slidegate.Plan
	s *flaky
}

func (p *flakyPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.s.failing {
		return slidegate.Answer{}, errDown
	}
	return p.Plan.Take(ctx, key, cost)
}

// TestWhatCannotBeTakenOverIsOwed still, as by a replica that takes no writes.
func TestWhatCannotBeTakenOverIsOwed(t *testing.T) {
	clock := gatetest.NewClock(start)
	primary := &flaky{Store: memstore.New(memstore.WithClock(clock.Now)), failing: true}
	store := wrap.Fallback(primary, memstore.New(memstore.WithClock(clock.Now)))
	l := slidegate.MustNew(store, slidegate.PerHour(5).Named("l"))
	for range 3 {
		must(t)(l.Take(background, "a"))
	}
	primary.failing = false
	if d := must(t)(l.Take(background, "a")); d.Remaining() != 1 {
		t.Errorf("after three in the outage and one: %s", d)
	}
}

// TestDebtsAreBounded: a flood of keys in an outage is not remembered for ever.
func TestDebtsAreBounded(t *testing.T) {
	r := newRefuge()
	l := slidegate.MustNew(r.store, slidegate.PerHour(5))
	r.primary.off(errDown)
	for i := range 80_000 {
		must(t)(l.Take(background, strconv.Itoa(i)))
	}
	if n := r.store.Stats().Owed; n != 65_536 {
		t.Errorf("%d debts are kept, want 65536", n)
	}
	r.primary.on()
	for i := range 80_000 - 1 {
		must(t)(l.Peek(background, strconv.Itoa(i)))
	}
	if n := r.store.Stats().Owed; n != 1 {
		t.Errorf("all but the newest are taken over or forgotten, and %d are owed", n)
	}
	must(t)(l.Peek(background, strconv.Itoa(80_000-1)))
	if s := r.store.Stats(); s.Owed != 0 || s.TakenOver != 65_536 {
		t.Errorf("when all are asked again: %+v, want what was kept to be taken over", s)
	}
}

// TestAFallbackIsAsJointAsItsStores, and decides several keys in the outage by the backup.
func TestAFallbackIsAsJointAsItsStores(t *testing.T) {
	r := newRefuge(wrap.WithShare(1, 2))
	a, b := slidegate.MustNew(r.store, slidegate.PerHour(4).Named("a")), slidegate.MustNew(r.store, slidegate.PerHour(9).Counter().Named("b"))
	g := slidegate.MustNewGroup(a, b)
	if !g.Atomic("x", "y") || pair(wrap.Fallback(new(scripted), memstore.New())).Atomic("x", "y") || pair(wrap.Fallback(memstore.New(), new(scripted))).Atomic("x", "y") {
		t.Errorf("a fallback is not as joint as both its stores")
	}
	if pair(wrap.Fallback(new(joint), memstore.New())).Atomic("x", "y") || pair(wrap.Fallback(memstore.New(), new(joint))).Atomic("x", "y") {
		t.Errorf("a fallback decides other keys in one act, and one of its stores does not")
	}
	r.primary.off(errDown)
	d := must(t)(g.Take(background, "x", "y"))
	must(t)(g.Take(background, "x", "y"))
	if refused := must(t)(g.Take(background, "x", "y")); refused.Allowed || refused.Binding().Limit.Name != "a" {
		t.Errorf("the third of a share of 2: %s", refused)
	}
	if err := g.Refund(background, &d); err != nil {
		t.Fatal(err)
	}
	r.primary.on()
	if now := must(t)(a.Peek(background, "x")); now.Remaining() != 3 {
		t.Errorf("one was charged in the outage, and %d are left of 4", now.Remaining())
	}
	if now := must(t)(g.Peek(background, "x", "y")); now.State(0).Remaining != 3 || now.State(1).Remaining != 8 {
		t.Errorf("one was charged in the outage: %+v, %+v", now.State(0), now.State(1))
	}
}

// TestManyCallersOfAFallback while the primary comes and goes.
func TestManyCallersOfAFallback(t *testing.T) {
	r := newRefuge(wrap.WithShare(1, 2))
	l := slidegate.MustNew(r.store, slidegate.PerHour(40))
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := map[string]int{}
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				switch {
				case i == 0 && j%20 == 0:
					r.primary.off(errDown)
				case i == 0 && j%20 == 10:
					r.primary.on()
				}
				key := strconv.Itoa(j % 3)
				d, err := l.Take(background, key)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					mu.Lock()
					admitted[key]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for key, n := range admitted {
		if n > 40+20 || n < 20 {
			t.Errorf("%d of key %s were admitted: the bound is 60", n, key)
		}
	}
}

func TestFallbackOptions(t *testing.T) {
	memory := memstore.New()
	for want, store := range map[string]*wrap.FallbackStore{
		"a store is nil":       wrap.Fallback(memory, nil),
		"a store is nil: give": wrap.Fallback(nil, memory),
		"a fallback itself":    wrap.Fallback(memory, wrap.Fallback(memory, memory)),
		"a share of 0/1":       wrap.Fallback(memory, memory, wrap.WithShare(0, 1)),
		"a share of 2/1":       wrap.Fallback(memory, memory, wrap.WithShare(2, 1)),
		"a share of 1/1000001": wrap.Fallback(memory, memory, wrap.WithShare(1, 1_000_001)),
		"WithReplicas is nil":  wrap.Fallback(memory, memory, wrap.WithReplicas(nil)),
	} {
		_, err := slidegate.New(store, slidegate.PerMinute(1))
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := store.BindJoint([][]slidegate.Limit{limits, limits}); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("BindJoint: %v", err)
		}
	}
}
