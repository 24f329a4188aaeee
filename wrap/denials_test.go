package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// A counting store counts the calls of another one.
type counting struct {
	slidegate.Store
	mu    sync.Mutex
	calls int
}

func (s *counting) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *counting) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *counting) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &countingPlan{plan, s}, err
}

func (s *counting) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	return s.Store.(slidegate.JointStore).BindJoint(parts)
}

type countingPlan struct {
	slidegate.Plan
	s *counting
}

func (p *countingPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.s.count()
	return p.Plan.Take(ctx, key, cost)
}

func (p *countingPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.s.count()
	return p.Plan.Peek(ctx, key, cost)
}

// remembering returns a store with denials in front of a counted memory store, all on one clock.
func remembering(clock *gatetest.Clock, options ...wrap.DenialsOption) (*wrap.DenialsStore, *counting) {
	behind := &counting{Store: memstore.New(memstore.WithClock(clock.Now))}
	return wrap.Denials(behind, append([]wrap.DenialsOption{wrap.WithDenialsClock(clock.Now)}, options...)...), behind
}

// must returns the decision of a call that cannot fail.
func must(t testing.TB) func(slidegate.Decision, error) slidegate.Decision {
	return func(d slidegate.Decision, err error) slidegate.Decision {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// TestDenialsKeepTheLaws of a store, but for those that compare the remaining units of limits that have room: see
// TestDenialsAnswerAsTheStore.
func TestDenialsKeepTheLaws(t *testing.T) {
	inexact := []string{"Scenarios", "AgreesWithTheOracle", "AgreesWithTheOracleOnRandomPlans", "AgreesWithTheOracleOnSparseTraffic", "SeveralKeysAgreeWithTheOracle"}
	for _, law := range gatetest.Laws() {
		if slices.Contains(inexact, law.Name) {
			continue
		}
		t.Run(law.Name, func(t *testing.T) {
			law.Check(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
				d, _ := remembering(clock)
				return d
			})
		})
	}
}

// A pairing sends the same traffic to limiters over a store with denials and to limiters over a bare one.
type pairing struct {
	t            *testing.T
	rng          *rand.Rand
	clock        *gatetest.Clock
	mine, bare   []*slidegate.Limiter
	ours, theirs *slidegate.Group
	receipts     [][2]slidegate.Decision
	denials      *wrap.DenialsStore
	refused      int
}

// plans are limiters over one store that share limits, with other quotas too.
func plansOf(store slidegate.Store) (all []*slidegate.Limiter) {
	ms := time.Millisecond
	log, count := slidegate.Per(300*ms, 3).Named("log"), slidegate.Per(200*ms, 4).Counter().Named("count")
	coarse := slidegate.Per(500*ms, 6).WithResolution(100 * ms).Named("coarse")
	more := slidegate.Per(300*ms, 6).Named("log")
	for _, limits := range [][]slidegate.Limit{{log}, {count}, {more}, {log, count}, {coarse, more}, {slidegate.Per(20*ms, 2), coarse, count, log}} {
		all = append(all, slidegate.MustNew(store, limits...))
	}
	return all
}

func newPairing(t *testing.T, seed uint64) *pairing {
	p := &pairing{t: t, rng: rand.New(rand.NewPCG(31, seed)), clock: gatetest.NewClock(start)}
	p.denials, _ = remembering(p.clock, wrap.WithCap([]time.Duration{time.Millisecond, 40 * time.Millisecond, time.Minute}[seed%3]))
	bare := memstore.New(memstore.WithClock(p.clock.Now))
	p.mine, p.bare = plansOf(p.denials), plansOf(bare)
	p.ours, p.theirs = slidegate.MustNewGroup(p.mine[0], p.mine[1]), slidegate.MustNewGroup(p.bare[0], p.bare[1])
	return p
}

func (p *pairing) step() {
	p.t.Helper()
	if n := p.rng.IntN(20); n == 0 {
		p.clock.Advance(-time.Duration(p.rng.IntN(100)) * time.Millisecond)
	} else if n < 10 {
		p.clock.Advance(time.Duration(p.rng.IntN(30)) * time.Millisecond)
	}
	i, key, cost := p.rng.IntN(len(p.mine)), []string{"a", "b"}[p.rng.IntN(2)], int64(1)
	mine, bare, check := p.mine[i], p.bare[i], must(p.t)
	if p.rng.IntN(3) == 0 {
		cost = p.rng.Int64N(3)
	}
	switch n := p.rng.IntN(40); {
	case n < 24:
		got, want := check(mine.TakeN(background, key, cost)), check(bare.TakeN(background, key, cost))
		p.compare(&got, &want)
		p.receipts = append(p.receipts, [2]slidegate.Decision{got, want})
	case n < 28:
		got, want := check(mine.PeekN(background, key, cost)), check(bare.PeekN(background, key, cost))
		p.compare(&got, &want)
	case n < 32:
		got, err := mine.Allow(background, key)
		if want, _ := bare.Allow(background, key); err != nil || got != want {
			p.t.Errorf("Allow: %v, %v, want %v", got, err, want)
		}
	case n < 35:
		got, want := check(p.ours.TakeN(background, cost, key, key)), check(p.theirs.TakeN(background, cost, key, key))
		p.compare(&got, &want)
	case n < 38 && len(p.receipts) > 0:
		r := &p.receipts[p.rng.IntN(len(p.receipts))]
		if err := errors.Join(mine.Refund(background, &r[0]), bare.Refund(background, &r[1])); err != nil {
			p.t.Error(err)
		}
	case n == 39:
		if err := errors.Join(mine.Reset(background, key), bare.Reset(background, key)); err != nil {
			p.t.Error(err)
		}
	}
}

func (p *pairing) compare(got, want *slidegate.Decision) {
	p.t.Helper()
	if !want.Allowed {
		p.refused++
	}
	if got.Allowed != want.Allowed || got.RetryAfter() != want.RetryAfter() || !got.At().Equal(want.At()) {
		p.t.Errorf("%s at %v, want %s at %v", got, got.At(), want, want.At())
	}
	for i := range want.Len() {
		g, w := got.State(i), want.State(i)
		isExact := want.Allowed || w.Limit.Algorithm == slidegate.SlidingCounter || w.RetryIn > 0 && want.Cost == 1
		if g.RetryIn != w.RetryIn || g.ResetIn != w.ResetIn || g.Remaining > w.Remaining || isExact && g.Remaining != w.Remaining {
			p.t.Errorf("cost %d: %+v, want %+v", want.Cost, g, w)
		}
	}
}

// TestDenialsAnswerAsTheStore does, to the millisecond, whatever the traffic: verdicts, clocks, waits, and the remaining
// units of what refuses; of what has room, and of a cost above 1, never more than remain.
func TestDenialsAnswerAsTheStore(t *testing.T) {
	var answered uint64
	refused := 0
	for seed := range uint64(60) {
		p := newPairing(t, seed)
		for range 600 {
			p.step()
			if t.Failed() {
				t.Fatalf("the seed was %d", seed)
			}
		}
		answered += p.denials.Stats().Answered
		refused += p.refused
	}
	if answered < uint64(refused)/10 {
		t.Errorf("of %d refusals %d were remembered: that is too few to have compared", refused, answered)
	}
}

// TestDenialsAskOnce until the retry, or the cap if that is earlier.
func TestDenialsAskOnce(t *testing.T) {
	for _, c := range []struct{ window, most, asks time.Duration }{
		{500 * time.Millisecond, time.Second, 500 * time.Millisecond},
		{time.Minute, time.Second, time.Second},
		{time.Minute, 20 * time.Millisecond, 20 * time.Millisecond},
	} {
		clock := gatetest.NewClock(start)
		store, behind := remembering(clock, wrap.WithCap(c.most))
		l := slidegate.MustNew(store, slidegate.Per(c.window, 1))
		must(t)(l.Take(background, "a"))
		clock.Advance(time.Millisecond)
		must(t)(l.Take(background, "a"))
		asked := behind.asked()
		// Asked for at 1 ms, and of a retry the last millisecond is the store's.
		for range c.asks/time.Millisecond - 1 {
			d := must(t)(l.Take(background, "a"))
			if want := c.window - clock.Now().Sub(start); d.Allowed || d.RetryAfter() != want {
				t.Fatalf("%v: %s, want a retry in %s", c, d, want)
			}
			clock.Advance(time.Millisecond)
		}
		if n := behind.asked() - asked; n != 0 {
			t.Errorf("%v: the store was asked %d times of what it had refused", c, n)
		}
		clock.Advance(time.Millisecond)
		must(t)(l.Take(background, "a"))
		if n := behind.asked() - asked; n != 1 {
			t.Errorf("%v: the store was asked %d times when it was time, want 1", c, n)
		}
	}
}

// TestAnotherProcessIsSeenWithinTheCap, its resets and its refunds; what this process does is seen at once.
func TestAnotherProcessIsSeenWithinTheCap(t *testing.T) {
	for verb, free := range map[string]func(l *slidegate.Limiter, d *slidegate.Decision) error{
		"reset":  func(l *slidegate.Limiter, _ *slidegate.Decision) error { return l.Reset(background, "a") },
		"refund": func(l *slidegate.Limiter, d *slidegate.Decision) error { return l.Refund(background, d) },
	} {
		clock := gatetest.NewClock(start)
		shared := memstore.New(memstore.WithClock(clock.Now))
		process := func() *slidegate.Limiter {
			return slidegate.MustNew(wrap.Denials(shared, wrap.WithDenialsClock(clock.Now)), slidegate.PerHour(1))
		}
		one, other := process(), process()
		charged := must(t)(one.Take(background, "a"))
		must(t)(one.Take(background, "a"))
		must(t)(other.Take(background, "a"))
		if err := free(one, &charged); err != nil {
			t.Fatal(err)
		}
		if d := must(t)(one.Peek(background, "a")); !d.Allowed {
			t.Errorf("%s: the process that did it is refused: %s", verb, d)
		}
		clock.Advance(time.Second - time.Nanosecond)
		if d := must(t)(other.Peek(background, "a")); d.Allowed {
			t.Errorf("%s: the other process asked within the cap: %s", verb, d)
		}
		clock.Advance(time.Nanosecond)
		if d := must(t)(other.Take(background, "a")); !d.Allowed {
			t.Errorf("%s: the other process does not see it after the cap: %s", verb, d)
		}
	}
}

// A gated store answers a take only when it is told to.
type gated struct {
	slidegate.Store
	asked, answer chan struct{}
}

func (s *gated) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &gatedPlan{plan, s}, err
}

type gatedPlan struct {
	slidegate.Plan
	s *gated
}

func (p *gatedPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	a, err := p.Plan.Take(ctx, key, cost)
	p.s.asked <- struct{}{}
	<-p.s.answer
	return a, err
}

// TestARefusalOnItsWayIsNotRememberedPastAReset that overtakes it.
func TestARefusalOnItsWayIsNotRememberedPastAReset(t *testing.T) {
	clock := gatetest.NewClock(start)
	memory := memstore.New(memstore.WithClock(clock.Now))
	must(t)(slidegate.MustNew(memory, slidegate.PerHour(1)).Take(background, "a"))
	behind := &gated{memory, make(chan struct{}), make(chan struct{})}
	l := slidegate.MustNew(wrap.Denials(behind, wrap.WithDenialsClock(clock.Now)), slidegate.PerHour(1))
	done := make(chan slidegate.Decision)
	take := func() {
		d, _ := l.Take(background, "a")
		done <- d
	}
	go take()
	<-behind.asked // it is refused, and the answer is on its way
	if err := l.Reset(background, "a"); err != nil {
		t.Fatal(err)
	}
	behind.answer <- struct{}{}
	if d := <-done; d.Allowed {
		t.Fatalf("the request before the reset: %s", d)
	}
	go take()
	select {
	case <-behind.asked:
		behind.answer <- struct{}{}
		if d := <-done; !d.Allowed {
			t.Errorf("after the reset: %s", d)
		}
	case d := <-done:
		t.Errorf("after the reset the store was not asked: %s", d)
	}
}

// TestARememberedRefusalIsTheStores, where the store is behind a network and has a clock of its own: nobody is refused who would be
// admitted, and no wait is longer than the store's, nor shorter by more than the call took and a millisecond.
func TestARememberedRefusalIsTheStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(41, 42))
		skew := 3*time.Hour + 700*time.Microsecond
		memory := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(skew) }))
		const trip = 3 * time.Millisecond
		denials := wrap.Denials(&network{memory, rng, trip}, wrap.WithCap(time.Minute))
		limits := []slidegate.Limit{slidegate.Per(100*time.Millisecond, 2).Named("a"), slidegate.Per(70*time.Millisecond, 2).Counter().Named("b")}
		for i := range limits {
			l, bare := slidegate.MustNew(denials, limits[i]), slidegate.MustNew(memory, limits[i])
			for range 1000 {
				pause(time.Duration(rng.Int64N(int64(9 * time.Millisecond))))
				answered := denials.Stats().Answered
				got := must(t)(l.Take(background, "k"))
				if denials.Stats().Answered == answered {
					continue
				}
				want := must(t)(bare.Peek(background, "k"))
				short := want.RetryAfter() - got.RetryAfter()
				if want.Allowed || short < 0 || short > trip+time.Millisecond {
					t.Fatalf("remembered: %s; the store: %s", got, want)
				}
			}
		}
		if n := denials.Stats().Answered; n < 300 {
			t.Errorf("%d of 2000 were remembered: that is too few to have compared", n)
		}
	})
}

// pause waits on the clock of a synctest bubble.
func pause(d time.Duration) { <-time.After(d) }

// A network store is a random part of a trip away, there and back.
type network struct {
	slidegate.Store
	rng  *rand.Rand
	trip time.Duration
}

func (s *network) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &networkPlan{plan, s}, err
}

type networkPlan struct {
	slidegate.Plan
	s *network
}

func (p *networkPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	there := time.Duration(p.s.rng.Int64N(int64(p.s.trip)))
	pause(there)
	defer pause(p.s.trip - there)
	return p.Plan.Take(ctx, key, cost)
}

// TestDenialsAreBounded: of many keys as many are remembered as may, and who is refused longest stays.
func TestDenialsAreBounded(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, behind := remembering(clock, wrap.WithMaxDenials(8), wrap.WithCap(time.Minute))
	for i := range 20 {
		l := slidegate.MustNew(store, slidegate.Per(time.Duration(20-i)*time.Second, 1).Named("l"))
		must(t)(l.Take(background, strconv.Itoa(i)))
		must(t)(l.Take(background, strconv.Itoa(i)))
		asked := behind.asked()
		must(t)(l.Take(background, strconv.Itoa(i)))
		if behind.asked() != asked {
			t.Errorf("key %d is not remembered when it was refused last", i)
		}
	}
	if n := store.Stats().Remembered; n != 8 {
		t.Errorf("%d are remembered, want 8", n)
	}
}

// TestTheLongestDenialsStay when there is no room for all.
func TestTheLongestDenialsStay(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, behind := remembering(clock, wrap.WithMaxDenials(8), wrap.WithCap(time.Minute))
	limiters := map[string]*slidegate.Limiter{}
	for i := range 9 {
		key := strconv.Itoa(i)
		seconds := 10 + (i*4)%9 // 10 is that of the first, the soonest to end
		limiters[key] = slidegate.MustNew(store, slidegate.Per(time.Duration(seconds)*time.Second, 1).Named("l"))
		must(t)(limiters[key].Take(background, key))
		must(t)(limiters[key].Take(background, key))
	}
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "0"} {
		asked := behind.asked()
		must(t)(limiters[key].Peek(background, key))
		if forgotten := behind.asked() > asked; forgotten != (key == "0") {
			t.Errorf("key %s: forgotten is %v, and 0 ends soonest", key, forgotten)
		}
	}
}

// TestAnswerOfADenialAllocatesNothing, in any way to ask.
func TestAnswerOfADenialAllocatesNothing(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, behind := remembering(clock)
	one := slidegate.MustNew(store, slidegate.PerHour(1).Named("one"))
	three := slidegate.MustNew(store, slidegate.PerHour(1).Named("a"), slidegate.PerDay(5).Named("b"), slidegate.PerDay(7).Counter().Named("c"))
	for _, l := range []*slidegate.Limiter{one, three} {
		must(t)(l.Take(background, "user:42"))
		must(t)(l.Take(background, "user:42"))
		asked := behind.asked()
		for verb, ask := range map[string]func(){
			"Allow": func() { l.Allow(background, "user:42") },
			"Take":  func() { l.Take(background, "user:42") },
			"Peek":  func() { l.Peek(background, "user:42") },
		} {
			if n := testing.AllocsPerRun(100, ask); n != 0 {
				t.Errorf("%s over %d limits: %v allocations", verb, len(l.Limits()), n)
			}
		}
		if behind.asked() != asked {
			t.Errorf("the store was asked")
		}
	}
}

// TestARefusalByACounterIsRemembered, as one by a log is.
func TestARefusalByACounterIsRemembered(t *testing.T) {
	store, behind := remembering(gatetest.NewClock(start))
	l := slidegate.MustNew(store, slidegate.PerHour(5).Counter())
	must(t)(l.TakeN(background, "a", 4))
	must(t)(l.TakeN(background, "a", 2)) // refused
	asked := behind.asked()
	if d := must(t)(l.TakeN(background, "a", 2)); d.Allowed || behind.asked() != asked {
		t.Errorf("allowed is %v, and the store was asked %d times more", d.Allowed, behind.asked()-asked)
	}
}

// TestWhatIsNotRemembered: errors, admissions, other costs, other keys, other limits.
func TestWhatIsNotRemembered(t *testing.T) {
	failing := gatetest.Failing(nil)
	l := slidegate.MustNew(wrap.Denials(failing), slidegate.PerHour(1))
	for i := range 3 {
		if _, err := l.Take(background, "a"); !errors.Is(err, slidegate.ErrUnavailable) || failing.Calls() != i+1 {
			t.Errorf("take %d of a store that is away: %v, %d calls", i, err, failing.Calls())
		}
	}
	if _, err := l.Allow(background, "a"); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("the error of a store that is away is %v", err)
	}
	clock := gatetest.NewClock(start)
	store, behind := remembering(clock)
	l = slidegate.MustNew(store, slidegate.PerHour(5).Named("l"))
	must(t)(l.TakeN(background, "a", 3))
	must(t)(l.TakeN(background, "a", 3)) // refused
	other := slidegate.MustNew(store, slidegate.PerHour(9).Named("l"))
	for what, ask := range map[string]func() (slidegate.Decision, error){
		"a smaller cost": func() (slidegate.Decision, error) { return l.PeekN(background, "a", 2) },
		"a larger cost":  func() (slidegate.Decision, error) { return l.PeekN(background, "a", 4) },
		"another key":    func() (slidegate.Decision, error) { return l.PeekN(background, "b", 3) },
		"a larger quota": func() (slidegate.Decision, error) { return other.PeekN(background, "a", 3) },
		"a cost of zero": func() (slidegate.Decision, error) { return l.PeekN(background, "a", 0) },
	} {
		asked := behind.asked()
		if must(t)(ask()); behind.asked() != asked+1 {
			t.Errorf("%s: the store was not asked", what)
		}
	}
	asked := behind.asked()
	if d := must(t)(l.TakeN(background, "a", 3)); d.Allowed || behind.asked() != asked {
		t.Errorf("the cost that was refused: %s, %d calls", d, behind.asked()-asked)
	}
}

// TestDenialsOutliveAnOutage: who was refused stays refused, and the others get the error.
func TestDenialsOutliveAnOutage(t *testing.T) {
	clock := gatetest.NewClock(start)
	behind := newSwitch(memstore.New(memstore.WithClock(clock.Now)))
	l := slidegate.MustNew(wrap.Denials(behind, wrap.WithDenialsClock(clock.Now)), slidegate.PerHour(1))
	must(t)(l.Take(background, "a"))
	must(t)(l.Take(background, "a"))
	behind.off(errDown)
	if d := must(t)(l.Take(background, "a")); d.Allowed {
		t.Errorf("refused before the outage: %s", d)
	}
	if _, err := l.Take(background, "b"); !errors.Is(err, errDown) {
		t.Errorf("another key: %v", err)
	}
}

// TestManyCallersOfDenials never see more than the quota, and see what is given back at once.
func TestManyCallersOfDenials(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, _ := remembering(clock, wrap.WithMaxDenials(8))
	l := slidegate.MustNew(store, slidegate.PerHour(3))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			key := strconv.Itoa(i % 2)
			for range 500 {
				d, err := l.Take(background, key)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					if err := l.Refund(background, &d); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, key := range []string{"0", "1"} {
		if d := must(t)(l.TakeN(background, key, 3)); !d.Allowed {
			t.Errorf("all is given back, and %s", d)
		}
	}
}

// TestDenialsAreAsJointAsTheirStore, and a charge of a group is seen.
func TestDenialsAreAsJointAsTheirStore(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, _ := remembering(clock)
	if !pair(store).Atomic("x", "y") || pair(wrap.Denials(new(scripted))).Atomic("x", "x") {
		t.Errorf("denials are not as joint as the store behind them")
	}
	if _, err := slidegate.NewGroup(limitersOver(wrap.Denials(new(unbindable)))...); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a store that cannot bind several keys: %v", err)
	}
	a, b := slidegate.MustNew(store, slidegate.PerHour(4).Named("a")), slidegate.MustNew(store, slidegate.PerHour(9).Named("b"))
	g := slidegate.MustNewGroup(a, b)
	must(t)(a.TakeN(background, "x", 2))
	must(t)(a.TakeN(background, "x", 3)) // refused, 2 left
	d := must(t)(g.Take(background, "x", "y"))
	if now := must(t)(a.PeekN(background, "x", 3)); now.Remaining() != 1 {
		t.Errorf("after the charge of a group %d are left, want 1", now.Remaining())
	}
	if err := g.Refund(background, &d); err != nil {
		t.Fatal(err)
	}
	if now := must(t)(a.PeekN(background, "x", 3)); now.Remaining() != 2 {
		t.Errorf("after the refund of a group %d are left, want 2", now.Remaining())
	}
}

func TestDenialsOptions(t *testing.T) {
	memory := memstore.New()
	for want, store := range map[string]*wrap.DenialsStore{
		"slidegate: invalid limit: denials: the store is nil: give the one to wrap":                  wrap.Denials(nil),
		"slidegate: invalid limit: denials: to remember a refusal for 0s: allowed is 1ms to 1m0s":    wrap.Denials(memory, wrap.WithCap(0)),
		"slidegate: invalid limit: denials: to remember a refusal for 2m0s: allowed is 1ms to 1m0s":  wrap.Denials(memory, wrap.WithCap(2*time.Minute)),
		"slidegate: invalid limit: denials: to remember 7 refusals: allowed is 8 to 16777216":        wrap.Denials(memory, wrap.WithMaxDenials(7)),
		"slidegate: invalid limit: denials: to remember 16777217 refusals: allowed is 8 to 16777216": wrap.Denials(memory, wrap.WithMaxDenials(1<<24+1)),
		"slidegate: invalid limit: denials: the clock is nil: give a function such as time.Now":      wrap.Denials(memory, wrap.WithDenialsClock(nil)),
	} {
		_, err := slidegate.New(store, slidegate.PerMinute(1))
		if !errors.Is(err, slidegate.ErrInvalidLimit) || fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := store.BindJoint([][]slidegate.Limit{limits, limits}); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("BindJoint: %v", err)
		}
	}
	if _, err := slidegate.New(wrap.Denials(new(unbindable)), slidegate.PerMinute(1)); err != nil {
		t.Error(err)
	}
}
