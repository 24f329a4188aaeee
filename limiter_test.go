package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

var background = context.Background()

// newLimiter returns a limiter over a memory store on a clock that is set by hand.
func newLimiter(t *testing.T, limits ...slidegate.Limit) (*slidegate.Limiter, *gatetest.Clock) {
	t.Helper()
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
	limiter, err := slidegate.New(memstore.New(memstore.WithClock(clock.Now)), limits...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter, clock
}

// remaining tells what is left of every limit.
func remaining(t *testing.T, l *slidegate.Limiter, key string) (left []int64) {
	t.Helper()
	d, err := l.Peek(background, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Len() {
		left = append(left, d.State(i).Remaining)
	}
	return left
}

// TestNewRefusesWhatCannotWork, each in one sentence.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	store := memstore.New()
	nine := make([]slidegate.Limit, slidegate.MaxLimits+1)
	for i := range nine {
		nine[i] = slidegate.PerMinute(int64(i) + 1)
	}
	minute := slidegate.PerMinute(5)
	for _, c := range []struct {
		store  slidegate.Store
		limits []slidegate.Limit
		want   string
	}{
		{nil, []slidegate.Limit{minute}, "store is nil: use memstore.New() or another store"},
		{store, nil, "0 limits: allowed is 1 to 8 in one limiter"},
		{store, nine, "9 limits: allowed is 1 to 8 in one limiter"},
		{store, []slidegate.Limit{minute, minute}, `two limits have the name "5/1m"`},
		{store, []slidegate.Limit{minute.Named("a"), slidegate.PerHour(9).Named("a")}, `two limits have the name "a"`},
		{store, []slidegate.Limit{minute, slidegate.PerHour(9).Named("5/1m")}, `two limits have the name "5/1m"`},
		{store, []slidegate.Limit{minute, {}}, "quota 0: allowed is 1 to 1000000000000"},
		{memstore.New(memstore.WithMaxKeys(0)), []slidegate.Limit{minute}, "the cap of 0 keys"},
	} {
		l, err := slidegate.New(c.store, c.limits...)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) || l != nil {
			t.Errorf("%v: %v, want %q", c.limits, err, c.want)
		}
	}
	if _, err := slidegate.New(store, nine[:slidegate.MaxLimits]...); err != nil {
		t.Errorf("eight limits: %v", err)
	}
}

func TestMustNewPanicsOnABadLimit(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("recovered %v, want an ErrInvalidLimit", err)
		}
	}()
	slidegate.MustNew(memstore.New())
}

// TestALimiterOwnsItsLimits: what the caller does to a slice later changes no limiter.
func TestALimiterOwnsItsLimits(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(5)}
	l, _ := newLimiter(t, limits...)
	limits[0].Quota = 1000
	l.Limits()[0].Quota = 1000
	if got := l.Limits()[0]; got.Quota != 5 || got.Name != "5/1m" {
		t.Errorf("the limit became %+v", got)
	}
	if d, _ := l.Take(background, "a"); d.Remaining() != 4 {
		t.Errorf("%d left of 5 after one", d.Remaining())
	}
}

// TestAnEmptyKeyIsAnError for every verb: it would be one bucket for everybody.
func TestAnEmptyKeyIsAnError(t *testing.T) {
	one, _ := newLimiter(t, slidegate.PerMinute(5))
	two, _ := newLimiter(t, slidegate.PerMinute(5), slidegate.PerHour(9))
	for _, l := range []*slidegate.Limiter{one, two, slidegate.Unlimited(), slidegate.Blocked()} {
		for name, verb := range map[string]func() error{
			"Allow": func() error { _, err := l.Allow(background, ""); return err },
			"Take":  func() error { _, err := l.Take(background, ""); return err },
			"TakeN": func() error { _, err := l.TakeN(background, "", 0); return err },
			"Peek":  func() error { _, err := l.Peek(background, ""); return err },
			"Wait":  func() error { _, err := l.Wait(background, ""); return err },
			"Reset": func() error { return l.Reset(background, "") },
		} {
			if err := verb(); !errors.Is(err, slidegate.ErrInvalidKey) {
				t.Errorf("%s: %v, want ErrInvalidKey", name, err)
			}
		}
	}
}

// TestACostThatCanNeverFitIsACostError: found before the store is asked, charged to nobody, and
// never taken for a failure of the store.
func TestACostThatCanNeverFitIsACostError(t *testing.T) {
	stub := gatetest.Failing(nil)
	l := slidegate.MustNew(stub, slidegate.PerHour(50).Named("hour"), slidegate.PerSecond(20).Named("burst"))
	for cost, want := range map[int64]string{
		21:            `slidegate: cost 21 can never fit: limit "burst" admits at most 20 per 1s`,
		math.MaxInt64: `slidegate: cost 9223372036854775807 can never fit: limit "burst" admits at most 20 per 1s`,
		-1:            "slidegate: cost -1: a cost must not be negative",
		math.MinInt64: "slidegate: cost -9223372036854775808: a cost must not be negative",
	} {
		for name, verb := range map[string]func() (slidegate.Decision, error){
			"TakeN": func() (slidegate.Decision, error) { return l.TakeN(background, "k", cost) },
			"PeekN": func() (slidegate.Decision, error) { return l.PeekN(background, "k", cost) },
			"WaitN": func() (slidegate.Decision, error) { return l.WaitN(background, "k", cost) },
		} {
			d, err := verb()
			var e *slidegate.CostError
			if !errors.As(err, &e) || e.Cost != cost || e.Limit.Name != "burst" || err.Error() != want {
				t.Errorf("%s(%d): %v, want %q", name, cost, err, want)
			}
			if d.Allowed || d.RetryAfter() != 0 || d.Charged() || errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("%s(%d): allowed %v, retry %s, charged %v", name, cost, d.Allowed, d.RetryAfter(), d.Charged())
			}
		}
	}
	equal := slidegate.MustNew(stub, slidegate.PerDay(9), slidegate.PerHour(5), slidegate.PerMinute(5))
	var e *slidegate.CostError
	if _, err := equal.TakeN(background, "k", 6); !errors.As(err, &e) || e.Limit.Name != "5/1h" {
		t.Errorf("of equal quotas: %v, want the first limit that has it", err)
	}
	if n := stub.Calls(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

// TestAStoreThatCannotBeAskedDecidesNothing, and its cause is told.
func TestAStoreThatCannotBeAskedDecidesNothing(t *testing.T) {
	cause := errors.New("no route to host")
	l := slidegate.MustNew(gatetest.Failing(cause), slidegate.PerMinute(5))
	for name, verb := range map[string]func() (slidegate.Decision, error){
		"Take": func() (slidegate.Decision, error) { return l.Take(background, "secret") },
		"Peek": func() (slidegate.Decision, error) { return l.Peek(background, "secret") },
		"Wait": func() (slidegate.Decision, error) { return l.Wait(background, "secret") },
	} {
		d, err := verb()
		if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, cause) {
			t.Errorf("%s: %v, want ErrUnavailable and its cause", name, err)
		}
		if d.Allowed || d.Charged() || d.Len() != 0 || d.RetryAfter() != 0 || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %s, %v", name, d, err)
		}
	}
	if ok, err := l.Allow(background, "secret"); ok || !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("Allow: %v, %v", ok, err)
	}
	if err := l.Reset(background, "secret"); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("Reset: %v", err)
	}
}

// TestUnlimitedAndBlockedAskNoStore, need none, and name no time to wait.
func TestUnlimitedAndBlockedAskNoStore(t *testing.T) {
	free, shut := slidegate.Unlimited(), slidegate.Blocked()
	if d, err := free.TakeN(background, "a", math.MaxInt64); err != nil || !d.Allowed || d.Charged() || d.Len() != 0 {
		t.Errorf("Unlimited: %s, %v", d, err)
	}
	if d, err := free.Wait(background, "a"); err != nil || !d.Allowed {
		t.Errorf("Unlimited: Wait: %s, %v", d, err)
	}
	d, err := shut.Take(background, "a")
	if err != nil || d.Allowed || d.RetryAfter() != 0 || d.ResetAfter() != 0 || d.Remaining() != 0 || !d.At().IsZero() {
		t.Errorf("Blocked: %s, %v", d, err)
	}
	if _, err := shut.Wait(background, "a"); !errors.Is(err, slidegate.ErrBlocked) {
		t.Errorf("Blocked: Wait: %v, want ErrBlocked", err)
	}
	for name, l := range map[string]*slidegate.Limiter{"Unlimited": free, "Blocked": shut} {
		looked, err := l.Peek(background, "a")
		if ok, _ := l.Allow(background, "a"); err != nil || looked.Allowed != ok {
			t.Errorf("%s: Peek says %v, Allow %v, %v", name, looked.Allowed, ok, err)
		}
		if err := l.Reset(background, "a"); err != nil {
			t.Errorf("%s: Reset: %v", name, err)
		}
		if _, err := l.TakeN(background, "a", -1); err == nil || !strings.Contains(err.Error(), "must not be negative") {
			t.Errorf("%s: a negative cost: %v", name, err)
		}
		if err := l.Refund(background, &d); err != nil {
			t.Errorf("%s: Refund of nothing: %v", name, err)
		}
		if _, err := l.With(slidegate.PerMinute(1)); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("%s: With: %v", name, err)
		}
	}
}

// TestWithKeepsHistoryUnderAName: a quota may be lowered and raised, and nobody gains by it.
func TestWithKeepsHistoryUnderAName(t *testing.T) {
	for _, algorithm := range []func(slidegate.Limit) slidegate.Limit{
		func(l slidegate.Limit) slidegate.Limit { return l },
		slidegate.Limit.Counter,
	} {
		plan := func(quota int64) slidegate.Limit { return algorithm(slidegate.PerHour(quota).Named("plan")) }
		l, _ := newLimiter(t, plan(10))
		for range 6 {
			if _, err := l.Take(background, "a"); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			quota, left int64
		}{{20, 14}, {6, 0}, {3, 0}, {7, 1}, {10, 4}} {
			other, err := l.With(plan(c.quota))
			if err != nil {
				t.Fatal(err)
			}
			if got := remaining(t, other, "a")[0]; got != c.left {
				t.Errorf("%s: %d left after six, want %d", plan(c.quota), got, c.left)
			}
			if d, _ := other.Peek(background, "a"); d.Allowed != (c.left > 0) {
				t.Errorf("%s: allowed is %v with %d left", plan(c.quota), d.Allowed, c.left)
			}
		}
	}
}

// TestWithRefusesAQuotaWithoutAName, since that would refill, and nothing else.
func TestWithRefusesAQuotaWithoutAName(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(100), slidegate.PerDay(500).Named("day"))
	for _, c := range []struct {
		limit slidegate.Limit
		want  string
	}{
		{slidegate.PerMinute(200), "200/1m differs from 100/1m only in quota and neither has a name, so it would refill: name both, as in plan=200/1m"},
		{slidegate.PerMinute(200).Named("200/1m"), "would refill"},
		{slidegate.PerMinute(50).WithResolution(time.Second), "would refill"},
		{slidegate.Limit{}, "quota 0"},
		{slidegate.PerMinute(100), ""},
		{slidegate.PerMinute(200).Counter(), ""},
		{slidegate.PerHour(200), ""},
		{slidegate.PerMinute(200).Named("n"), ""},
		{slidegate.PerDay(900).Named("day"), ""},
		{slidegate.PerDay(900), ""},
	} {
		_, err := l.With(c.limit)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.limit, err)
			}
		} else if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.limit, err, c.want)
		}
	}
}

// TestRefundOncePerDecision, whatever comes of the call, and only what was charged.
func TestRefundOncePerDecision(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10), slidegate.PerHour(20).Counter())
	d, _ := l.TakeN(background, "a", 4)
	kept, _ := l.TakeN(background, "a", 3)
	if !d.Charged() || !kept.Charged() {
		t.Fatal("an admitted request was not charged")
	}
	for range 3 {
		if err := l.Refund(background, &d); err != nil {
			t.Fatal(err)
		}
	}
	if got := remaining(t, l, "a"); got[0] != 7 || got[1] != 17 || d.Charged() {
		t.Errorf("%v left, want 7 and 17; charged is %v", got, d.Charged())
	}
	looked, _ := l.PeekN(background, "a", 2)
	free, _ := l.TakeN(background, "a", 0)
	refused, _ := l.TakeN(background, "a", 8)
	var zero slidegate.Decision
	for name, d := range map[string]*slidegate.Decision{"a peek": &looked, "a cost of 0": &free, "a refusal": &refused, "the zero Decision": &zero, "nil": nil} {
		if err := l.Refund(background, d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := remaining(t, l, "a"); got[0] != 7 || got[1] != 17 {
		t.Errorf("refunds of nothing left %v, want 7 and 17", got)
	}
}

// TestRefundThatFailsIsSpent: nobody knows whether an undecided refund was made.
func TestRefundThatFailsIsSpent(t *testing.T) {
	store := memstore.New()
	l := slidegate.MustNew(store, slidegate.PerMinute(10))
	d, _ := l.Take(background, "a")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Refund(background, &d); !errors.Is(err, slidegate.ErrUnavailable) || d.Charged() {
		t.Errorf("%v, charged %v", err, d.Charged())
	}
	if err := l.Refund(background, &d); err != nil {
		t.Errorf("a second refund: %v", err)
	}
}

// TestRefundThroughAnotherPlan gives back to the limits that charged, and to no others.
func TestRefundThroughAnotherPlan(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10).Named("a"), slidegate.PerHour(20).Named("b"))
	other, err := l.With(slidegate.PerHour(30).Named("b"), slidegate.PerDay(40).Named("c"))
	if err != nil {
		t.Fatal(err)
	}
	d, _ := l.TakeN(background, "k", 4)
	if _, err := other.TakeN(background, "k", 5); err != nil {
		t.Fatal(err)
	}
	if err := other.Refund(background, &d); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(remaining(t, l, "k"), remaining(t, other, "k")); got != "[10 15] [25 35]" {
		t.Errorf("%s left, want [10 15] [25 35]", got)
	}
	d, _ = l.Take(background, "k")
	if err := slidegate.Unlimited().Refund(background, &d); !errors.Is(err, slidegate.ErrInvalidLimit) || !d.Charged() {
		t.Errorf("a refund through Unlimited: %v, charged %v", err, d.Charged())
	}
}

// TestAllowIsTakeForTheVerdict: over the same traffic both admit the same requests.
func TestAllowIsTakeForTheVerdict(t *testing.T) {
	for _, limits := range [][]slidegate.Limit{
		{slidegate.PerSecond(3)}, {slidegate.PerSecond(3).Counter()}, {slidegate.PerSecond(2), slidegate.Per(5*time.Second, 4).Counter()},
	} {
		a, clockA := newLimiter(t, limits...)
		b, clockB := newLimiter(t, limits...)
		for i := range 300 {
			step := time.Duration(i*7919%500) * time.Millisecond
			clockA.Advance(step)
			clockB.Advance(step)
			ok, err := a.Allow(background, "k")
			d, _ := b.Take(background, "k")
			if err != nil || ok != d.Allowed {
				t.Fatalf("%v: request %d: Allow says %v, Take %v, %v", limits, i, ok, d.Allowed, err)
			}
		}
	}
}

// TestWaitSleepsAsTold and not a millisecond more, in the order of asking.
func TestWaitSleepsAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.Per(time.Hour, 2))
		began := time.Now()
		for i := range 5 {
			if _, err := l.Wait(background, "a"); err != nil {
				t.Fatal(err)
			}
			if took, want := time.Since(began), time.Duration(i/2)*time.Hour; took != want {
				t.Errorf("admission %d came after %s, want %s", i, took, want)
			}
		}
	})
}

// TestWaitFailsAtOnceWhenTheDeadlineIsTooEarly, charging nothing.
func TestWaitFailsAtOnceWhenTheDeadlineIsTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.PerMinute(1))
		l.Take(background, "a")
		began := time.Now()
		ctx, cancel := context.WithTimeout(background, time.Minute-time.Millisecond)
		defer cancel()
		_, err := l.Wait(ctx, "a")
		var e *slidegate.WaitError
		if !errors.As(err, &e) || e.Need != time.Minute || e.Left != time.Minute-time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a WaitError of 1m against 59.999s", err)
		}
		if err != nil && err.Error() != "slidegate: needs to wait 1m0s, the deadline is in 59.999s" {
			t.Errorf("it says %q", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s to say so", took)
		}
		long, cancel := context.WithTimeout(background, time.Minute+time.Millisecond)
		defer cancel()
		if d, err := l.Wait(long, "a"); err != nil || !d.Allowed {
			t.Errorf("with a deadline that can be met: %s, %v", d, err)
		}
	})
}

// TestALeaverIsNotCharged: whoever gives up while waiting has spent nothing.
func TestALeaverIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.PerMinute(1))
		l.Take(background, "a")
		ctx, leave := context.WithCancel(background)
		done := make(chan error)
		go func() {
			_, err := l.Wait(ctx, "a")
			done <- err
		}()
		synctest.Wait()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the leaver got %v, want context.Canceled", err)
		}
		if _, err := l.Wait(ctx, "b"); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that had ended already got %v", err)
		}
		if d, err := l.Take(background, "b"); err != nil || !d.Allowed {
			t.Errorf("it was charged all the same: %s, %v", d, err)
		}
		<-time.After(time.Minute) // virtual
		if ok, _ := l.Allow(background, "a"); !ok {
			t.Error("the slot that the leaver waited for is taken")
		}
	})
}

// TestOnlySoManyMayWait: the next is told at once, and a place is given back when a wait ends.
func TestOnlySoManyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.PerMinute(3)).WithMaxWaiters(3)
		l.TakeN(background, "a", 3)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := l.Wait(background, "a"); err != nil {
					t.Errorf("one of three waiters got %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		_, err := l.Wait(background, "a")
		if !errors.Is(err, slidegate.ErrTooManyWaiters) || err.Error() != "slidegate: too many waiters: 3 may wait" || time.Since(began) != 0 {
			t.Errorf("the fourth got %v after %s", err, time.Since(began))
		}
		if d, err := l.Wait(background, "b"); err != nil || !d.Allowed {
			t.Errorf("a key with room need not wait: %s, %v", d, err)
		}
		wg.Wait()
		if d, err := l.Wait(background, "a"); err != nil || !d.Allowed {
			t.Errorf("when the others are served: %s, %v", d, err)
		}
	})
}

// TestTooManyWaitersSaysHowManyMay: nobody where that is less than one, as many again when those are served, and as many
// of a limiter that is made of this one.
func TestTooManyWaitersSaysHowManyMay(t *testing.T) {
	for most, want := range map[int]string{-7: "0", 0: "0", 1: "1", 12: "12"} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			defer store.Close()
			l := slidegate.MustNew(store, slidegate.PerMinute(20)).WithMaxWaiters(most)
			next, err := l.With(slidegate.PerHour(20))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range []*slidegate.Limiter{l, l, next} {
				<-time.After(time.Hour) // virtual
				l.TakeN(background, "a", 20)
				var served sync.WaitGroup
				for range most {
					served.Go(func() {
						if _, err := l.Wait(background, "a"); err != nil {
							t.Errorf("one of %d waiters got %v", most, err)
						}
					})
				}
				synctest.Wait()
				if _, err := l.Wait(background, "a"); !errors.Is(err, slidegate.ErrTooManyWaiters) || err.Error() != "slidegate: too many waiters: "+want+" may wait" {
					t.Errorf("%v, where %s may wait", err, want)
				}
				served.Wait()
			}
		})
	}
}

// A tardy store takes its time, and does not look at the caller's.
type tardy struct {
	slidegate.Store
	d time.Duration
}

func (s tardy) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return tardyPlan{plan, s.d}, err
}

type tardyPlan struct {
	slidegate.Plan
	d time.Duration
}

func (p tardyPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	<-time.After(p.d)
	return p.Plan.Take(ctx, key, cost)
}

// TestADeadlineIsNeverInLessThanNoTime: it may pass while the store is asked.
func TestADeadlineIsNeverInLessThanNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(tardy{store, 2 * time.Second}, slidegate.PerMinute(1))
		l.Take(background, "a")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		var e *slidegate.WaitError
		if _, err := l.Wait(ctx, "a"); !errors.As(err, &e) || e.Need != 58*time.Second || e.Left != 0 {
			t.Errorf("%v, want a WaitError of 58s against 0s", err)
		}
	})
}

// TestWaitEndsWithTheStore: a waiter hears of it when it asks again.
func TestWaitEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := slidegate.MustNew(store, slidegate.PerMinute(1))
		l.Take(background, "a")
		done := make(chan error)
		go func() {
			_, err := l.Wait(background, "a")
			done <- err
		}()
		synctest.Wait()
		store.Close()
		if err := <-done; !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	})
}

// TestAdmittedAtTheDeadlineIsTooLate: what would be admitted at the deadline itself is not admitted
// before it, so it fails at once and charges nothing.
func TestAdmittedAtTheDeadlineIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		l := slidegate.MustNew(s, slidegate.PerSecond(1))
		if _, err := l.Allow(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var early *slidegate.WaitError
		if _, err := l.Wait(ctx, "a"); !errors.As(err, &early) {
			t.Errorf("waiting until the deadline: %v", err)
		}
	})
}

// TestAllowChargesOne, in any store and over any number of limits.
func TestAllowChargesOne(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	for name, store := range map[string]slidegate.Store{
		"memory": memstore.New(memstore.WithClock(clock.Now)),
		"oracle": gatetest.NewOracle(clock), // it has no quick way
	} {
		for _, limits := range [][]slidegate.Limit{{slidegate.PerHour(3)}, {slidegate.PerHour(3), slidegate.PerDay(9).Counter()}} {
			l, key := slidegate.MustNew(store, limits...), name+strings.Repeat("k", len(limits))
			for left := int64(2); left >= 0; left-- {
				allowed, err := l.Allow(background, key)
				if d, _ := l.Peek(background, key); err != nil || !allowed || d.State(0).Remaining != left {
					t.Errorf("%s, %d limits: %v, %v, %d left, want %d", name, len(limits), allowed, err, d.State(0).Remaining, left)
				}
			}
			if allowed, err := l.Allow(background, key); err != nil || allowed {
				t.Errorf("%s, %d limits: %v, %v, and none is left", name, len(limits), allowed, err)
			}
		}
	}
}

// A noting store notes how its plans are asked.
type noting struct {
	slidegate.Store
	asked []string
}

func (s *noting) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return notingPlan{plan.(slidegate.QuickPlan), s}, err
}

type notingPlan struct {
	slidegate.QuickPlan
	s *noting
}

func (p notingPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	p.s.asked = append(p.s.asked, "Allow")
	return p.QuickPlan.Allow(ctx, key, cost)
}

func (p notingPlan) TakeOne(ctx context.Context, key string, cost int64) (bool, int64, slidegate.Reading, error) {
	p.s.asked = append(p.s.asked, "TakeOne")
	return p.QuickPlan.TakeOne(ctx, key, cost)
}

func (p notingPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.s.asked = append(p.s.asked, "Take")
	return p.QuickPlan.Take(ctx, key, cost)
}

// TestAPlanIsAskedTheQuickWay if it has one, and never for one limit where it has several.
func TestAPlanIsAskedTheQuickWay(t *testing.T) {
	for want, limits := range map[string][]slidegate.Limit{
		"[Allow TakeOne]": {slidegate.PerHour(3)},
		"[Allow Take]":    {slidegate.PerHour(3), slidegate.PerDay(9)},
	} {
		store := &noting{Store: memstore.New()}
		l := slidegate.MustNew(store, limits...)
		ok, err := l.Allow(background, "k")
		if d, wrong := l.Take(background, "k"); err != nil || wrong != nil || !ok || !d.Allowed {
			t.Errorf("%v: %v, %v, %v", limits, ok, d, errors.Join(err, wrong))
		}
		if got := fmt.Sprint(store.asked); got != want {
			t.Errorf("%d limits: the plan was asked by %s, want %s", len(limits), got, want)
		}
	}
}

// A reluctant store binds limits only so often.
type reluctant struct {
	slidegate.Store
	times int
	err   error
}

func (s *reluctant) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.times--; s.times < 0 {
		return nil, s.err
	}
	return s.Store.Bind(limits)
}

// TestLimitsThatTheStoreCannotBind: its error comes from whatever needs a plan.
func TestLimitsThatTheStoreCannotBind(t *testing.T) {
	store := memstore.New()
	spent, err := slidegate.MustNew(store, slidegate.PerHour(9)).Take(background, "k")
	if err != nil {
		t.Fatal(err)
	}
	cannot := fmt.Errorf("%w: too much for one store", slidegate.ErrInvalidLimit)
	of := func(times int) *reluctant { return &reluctant{store, times, cannot} }
	hour, both := slidegate.MustNew(of(1), slidegate.PerHour(5)), slidegate.MustNew(of(2), slidegate.PerHour(5), slidegate.PerDay(9))
	for name, try := range map[string]func() (made bool, err error){
		"New":    func() (bool, error) { l, err := slidegate.New(of(0), slidegate.PerHour(5)); return l != nil, err },
		"With":   func() (bool, error) { l, err := hour.With(slidegate.PerDay(5)); return l != nil, err },
		"Each":   func() (bool, error) { each, err := both.Each(); return each != nil, err }, // the second of two
		"Refund": func() (bool, error) { err := hour.Refund(background, &spent); return !spent.Charged(), err },
	} {
		if made, err := try(); err != cannot || made {
			t.Errorf("%s: %v, %v; want %v", name, made, err, cannot)
		}
	}
}
