package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

var (
	background = context.Background()
	errDown    = fmt.Errorf("%w: connection refused", slidegate.ErrUnavailable)
	limits     = []slidegate.Limit{slidegate.PerMinute(1000).Named("m")}
	start      = time.UnixMilli(1_757_750_400_000)
)

// A scripted store does with each call what its function says, and counts them.
type scripted struct {
	mu    sync.Mutex
	do    func(context.Context) error
	calls int
}

func (s *scripted) set(do func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *scripted) fail(err error) { s.set(func(context.Context) error { return err }) }

func (s *scripted) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *scripted) call(ctx context.Context) error {
	s.mu.Lock()
	do := s.do
	s.calls++
	s.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx)
}

func (s *scripted) Bind([]slidegate.Limit) (slidegate.Plan, error) { return scriptedPlan{s}, nil }

type scriptedPlan struct{ s *scripted }

func (p scriptedPlan) Take(ctx context.Context, _ string, _ int64) (slidegate.Answer, error) {
	return slidegate.Answer{Allowed: true}, p.s.call(ctx)
}

func (p scriptedPlan) Peek(ctx context.Context, _ string, _ int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, p.s.call(ctx)
}

func (p scriptedPlan) Refund(ctx context.Context, _ string, _ slidegate.Answer, _ int64) error {
	return p.s.call(ctx)
}

func (p scriptedPlan) Reset(ctx context.Context, _ string) error { return p.s.call(ctx) }

// A quick store is a scripted one whose plans are quick.
type quick struct{ scripted }

func (s *quick) Bind([]slidegate.Limit) (slidegate.Plan, error) {
	return quickPlan{scriptedPlan{&s.scripted}}, nil
}

type quickPlan struct{ scriptedPlan }

func (p quickPlan) Allow(ctx context.Context, _ string, _ int64) (bool, error) {
	return true, p.s.call(ctx)
}

func (p quickPlan) TakeOne(ctx context.Context, _ string, _ int64) (bool, int64, slidegate.Reading, error) {
	return true, 7, slidegate.Reading{Units: 3}, p.s.call(ctx)
}

// A bench is a circuit in front of a scripted store, on a clock that is set by hand.
type bench struct {
	*scripted
	clock   *gatetest.Clock
	circuit *wrap.CircuitStore
	plan    slidegate.Plan
}

func newBench(t testing.TB, options ...wrap.CircuitOption) *bench {
	t.Helper()
	b := &bench{scripted: new(scripted), clock: gatetest.NewClock(start)}
	b.circuit = wrap.Circuit(b.scripted, append([]wrap.CircuitOption{wrap.WithClock(b.clock.Now)}, options...)...)
	b.plan = bind(t, b.circuit)
	return b
}

func bind(t testing.TB, store slidegate.Store) slidegate.Plan {
	t.Helper()
	plan, err := store.Bind(limits)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (b *bench) take() error {
	_, err := b.plan.Take(background, "a", 1)
	return err
}

// open makes the store fail until the circuit is open.
func (b *bench) open(t testing.TB) {
	t.Helper()
	b.fail(errDown)
	for range 5 {
		if err := b.take(); !errors.Is(err, errDown) || errors.Is(err, wrap.ErrOpen) {
			t.Fatalf("a failure of the store is answered with %v", err)
		}
	}
	b.is(t, wrap.Open)
}

func (b *bench) is(t testing.TB, want wrap.State) {
	t.Helper()
	if got := b.circuit.State(); got != want {
		t.Fatalf("the circuit is %s, want %s", got, want)
	}
}

// verbs are all the ways to ask a quick plan.
var verbs = map[string]func(context.Context, slidegate.QuickPlan) error{
	"Take": func(ctx context.Context, p slidegate.QuickPlan) error { _, err := p.Take(ctx, "a", 1); return err },
	"Peek": func(ctx context.Context, p slidegate.QuickPlan) error { _, err := p.Peek(ctx, "a", 1); return err },
	"Refund": func(ctx context.Context, p slidegate.QuickPlan) error {
		return p.Refund(ctx, "a", slidegate.Answer{}, 1)
	},
	"Reset": func(ctx context.Context, p slidegate.QuickPlan) error { return p.Reset(ctx, "a") },
	"Allow": func(ctx context.Context, p slidegate.QuickPlan) error { _, err := p.Allow(ctx, "a", 1); return err },
	"TakeOne": func(ctx context.Context, p slidegate.QuickPlan) error {
		_, _, _, err := p.TakeOne(ctx, "a", 1)
		return err
	},
}

func TestStoreBehindACircuitKeepsItsPromises(t *testing.T) {
	t.Run("Memory", func(t *testing.T) {
		gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
			return wrap.Circuit(memstore.New(memstore.WithClock(clock.Now)), wrap.WithClock(clock.Now))
		})
	})
	t.Run("Oracle", func(t *testing.T) {
		gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
			return wrap.Circuit(gatetest.NewOracle(clock))
		})
	})
}

// TestOpensAfterFailuresInARow: f is a failure of the store, s a success, c a caller who gives up.
func TestOpensAfterFailuresInARow(t *testing.T) {
	for _, c := range []struct {
		calls string
		n     int
		want  wrap.State
	}{
		{"", 5, wrap.Closed},
		{"f", 5, wrap.Closed},
		{"ffff", 5, wrap.Closed},
		{"fffff", 5, wrap.Open},
		{"ffffs", 5, wrap.Closed},
		{"ffffsffff", 5, wrap.Closed},
		{"ffffsfffff", 5, wrap.Open},
		{strings.Repeat("ffs", 100), 5, wrap.Closed},
		{strings.Repeat("ffffs", 100), 5, wrap.Closed},
		{strings.Repeat("c", 100), 5, wrap.Closed},
		{"fcfcfcfc", 5, wrap.Closed},
		{"fcfcfcfcf", 5, wrap.Open},
		{"f", 1, wrap.Open},
		{"ff", 3, wrap.Closed},
		{"fff", 3, wrap.Open},
		{strings.Repeat("f", 999), 1000, wrap.Closed},
		{strings.Repeat("f", 1000), 1000, wrap.Open},
	} {
		b := newBench(t, wrap.WithFailures(c.n))
		for _, call := range c.calls {
			b.fail(map[rune]error{'f': errDown, 'c': context.Canceled}[call])
			b.take()
		}
		if got := b.circuit.State(); got != c.want || b.asked() != len(c.calls) {
			t.Errorf("after %q it is %s with %d calls, to open after %d; want %s", c.calls, got, b.asked(), c.n, c.want)
		}
	}
}

// TestCallsUnderWayTogetherCountAsOne: a blip is one failure, however many calls were in it.
func TestCallsUnderWayTogetherCountAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for blip := 1; blip <= 5; blip++ {
			b.is(t, wrap.Closed)
			end := make(chan struct{})
			b.set(func(context.Context) error { <-end; return errDown })
			for range 100 {
				go b.take()
			}
			synctest.Wait()
			close(end)
			synctest.Wait()
			if b.asked() != 100*blip {
				t.Fatalf("%d calls, want %d", b.asked(), 100*blip)
			}
		}
		b.is(t, wrap.Open)
	})
}

// TestFailureFromBeforeASuccessIsForgotten: it was under way when the store was known to fail, and
// ended when it was known to answer.
func TestFailureFromBeforeASuccessIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, wrap.WithFailures(2))
		b.fail(errDown)
		b.take()
		late := make(chan error)
		b.set(func(context.Context) error { return <-late })
		go b.take()
		synctest.Wait()
		b.fail(nil)
		b.take()
		late <- errDown
		synctest.Wait()
		b.fail(errDown)
		b.take()
		b.is(t, wrap.Closed)
		b.take()
		b.is(t, wrap.Open)
	})
}

func TestOpenCircuitAsksNobody(t *testing.T) {
	store := new(quick)
	clock := gatetest.NewClock(start)
	circuit := wrap.Circuit(store, wrap.WithClock(clock.Now), wrap.WithFailures(1))
	plan := bind(t, circuit).(slidegate.QuickPlan)
	cause := errors.New("no route to host")
	store.fail(fmt.Errorf("%w: %w", slidegate.ErrUnavailable, cause))
	plan.Reset(background, "a")
	canceled, cancel := context.WithCancel(background)
	cancel()
	for name, ask := range verbs {
		for _, ctx := range []context.Context{background, canceled} {
			err := ask(ctx, plan)
			for _, want := range []error{wrap.ErrOpen, slidegate.ErrUnavailable, cause} {
				if !errors.Is(err, want) {
					t.Errorf("%s gets %v, which does not wrap %v", name, err, want)
				}
			}
		}
	}
	if answer, _ := plan.Take(background, "a", 1); answer.Allowed {
		t.Error("a call that is not let through is admitted")
	}
	want := wrap.CircuitStats{Opened: 1, Refused: uint64(2*len(verbs) + 1)}
	if got := circuit.Stats(); got != want || store.asked() != 1 {
		t.Errorf("%+v and %d calls, want %+v and 1", got, store.asked(), want)
	}
}

func TestAnswerOfAnOpenCircuitAllocatesNothing(t *testing.T) {
	store := new(quick)
	circuit := wrap.Circuit(store, wrap.WithFailures(1), wrap.WithProbeInterval(time.Minute))
	plan := bind(t, circuit).(slidegate.QuickPlan)
	store.fail(errDown)
	plan.Reset(background, "a")
	for name, ask := range verbs {
		if n := testing.AllocsPerRun(1000, func() { ask(background, plan) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	limiter := slidegate.MustNew(circuit, slidegate.PerSecond(1), slidegate.PerMinute(5))
	if n := testing.AllocsPerRun(1000, func() { limiter.Take(background, "a") }); n != 0 {
		t.Errorf("Take of a limiter allocates %v times", n)
	}
	if store.asked() != 1 {
		t.Errorf("the store was asked %d times, want once", store.asked())
	}
}

func TestClosedCircuitAllocatesNothing(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	limiter := slidegate.MustNew(wrap.Circuit(store), slidegate.PerMinute(100))
	if n := testing.AllocsPerRun(1000, func() { limiter.Allow(background, "a") }); n != 0 {
		t.Errorf("Allow allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { limiter.Take(background, "a") }); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
}

// TestOneProbeInEachInterval, of a store that stays away, from the opening and from each probe.
func TestOneProbeInEachInterval(t *testing.T) {
	b := newBench(t)
	b.open(t)
	for want := 5; want < 10; want++ {
		for range 10 {
			b.take()
			b.clock.Advance(99 * time.Millisecond)
		}
		b.clock.Advance(9 * time.Millisecond)
		b.take() // 999 ms
		if b.asked() != want {
			t.Fatalf("%d calls within the interval, want %d", b.asked(), want)
		}
		b.clock.Advance(time.Millisecond)
		if err := b.take(); errors.Is(err, wrap.ErrOpen) || !errors.Is(err, errDown) || b.asked() != want+1 {
			t.Fatalf("the probe gets %v, with %d calls", err, b.asked())
		}
	}
	if got := b.circuit.Stats(); got.Opened != 1 || got.Probes != 5 {
		t.Errorf("%+v, want one opening and 5 probes", got)
	}
}

// TestOneOfManyCallersProbes: the others are answered at once.
func TestOneOfManyCallersProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open(t)
		b.clock.Advance(time.Second)
		frozen := make(chan struct{})
		b.set(func(context.Context) error { <-frozen; return errDown })
		var refused atomic.Int64
		for range 100 {
			go func() {
				if err := b.take(); errors.Is(err, wrap.ErrOpen) {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		if refused.Load() != 99 || b.asked() != 6 {
			t.Errorf("%d answered at once, %d asked, want 99 and 1", refused.Load(), b.asked()-5)
		}
		close(frozen)
	})
}

func TestFirstSuccessCloses(t *testing.T) {
	for name, ask := range verbs {
		store := new(quick)
		clock := gatetest.NewClock(start)
		circuit := wrap.Circuit(store, wrap.WithClock(clock.Now))
		plan := bind(t, circuit).(slidegate.QuickPlan)
		store.fail(errDown)
		for range 5 {
			ask(background, plan)
		}
		store.fail(nil)
		if circuit.State() != wrap.Open || ask(background, plan) == nil {
			t.Errorf("%s does not open it", name)
		}
		clock.Advance(time.Second)
		for range 10 {
			if err := ask(background, plan); err != nil || circuit.State() != wrap.Closed {
				t.Errorf("%s: %v, and the circuit is %s", name, err, circuit.State())
			}
		}
		if store.asked() != 15 {
			t.Errorf("%s: asked %d times, want 15", name, store.asked())
		}
	}
}

// TestProbeIsTheCallItself: its answer is the store's, and it is charged once.
func TestProbeIsTheCallItself(t *testing.T) {
	clock := gatetest.NewClock(start)
	front := &switched{next: gatetest.NewOracle(clock)}
	limiter := slidegate.MustNew(wrap.Circuit(front, wrap.WithClock(clock.Now)), slidegate.PerHour(10))
	front.down.Store(true)
	for range 6 {
		limiter.Take(background, "a")
	}
	front.down.Store(false)
	clock.Advance(time.Second)
	if d, err := limiter.TakeN(background, "a", 4); err != nil || !d.Allowed || d.Remaining() != 6 {
		t.Errorf("the probe gets %v, %v", d, err)
	}
}

// A switched store can be taken away from in front of another.
type switched struct {
	next slidegate.Store
	down atomic.Bool
}

func (s *switched) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.next.Bind(limits)
	return switchedPlan{plan, s}, err
}

type switchedPlan struct {
	slidegate.Plan
	s *switched
}

func (p switchedPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.s.down.Load() {
		return slidegate.Answer{}, errDown
	}
	return p.Plan.Take(ctx, key, cost)
}

// TestWhatIsNoEvidence: it opens nothing, and a probe that ends so is made up for by the next call.
func TestWhatIsNoEvidence(t *testing.T) {
	canceled, cancel := context.WithCancel(background)
	cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		err error
	}{
		"canceled":                   {canceled, context.Canceled},
		"canceled, as a failure":     {canceled, fmt.Errorf("%w: %w", slidegate.ErrUnavailable, context.Canceled)},
		"a deadline of the caller's": {background, context.DeadlineExceeded},
		"an empty key":               {background, slidegate.ErrInvalidKey},
		"a cost that never fits":     {background, &slidegate.CostError{Cost: 2, Limit: limits[0]}},
		"an error of no kind":        {background, io.ErrUnexpectedEOF},
		"an error to be ignored":     {background, fmt.Errorf("%w: %w", slidegate.ErrUnavailable, io.ErrNoProgress)},
	} {
		b := newBench(t, wrap.Ignore(io.ErrShortBuffer, io.ErrNoProgress))
		b.fail(c.err)
		for range 20 {
			if _, err := b.plan.Take(c.ctx, "a", 1); err != c.err {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if b.circuit.State() != wrap.Closed || b.asked() != 20 {
			t.Errorf("%s: the circuit is %s after %d calls", name, b.circuit.State(), b.asked())
		}
		b.open(t)
		b.clock.Advance(time.Second)
		probing, cancel := context.WithCancel(background)
		b.set(func(context.Context) error {
			if c.ctx.Err() != nil {
				cancel()
			}
			return c.err
		})
		before := b.asked()
		for range 3 {
			b.plan.Take(probing, "a", 1)
			b.is(t, wrap.Open)
		}
		cancel()
		b.plan.Take(probing, "a", 1) // who has gone already is not let through
		asked := b.asked() - before
		if want := map[bool]int{true: 1, false: 3}[c.ctx.Err() != nil]; asked != want {
			t.Errorf("%s: %d probes, want %d", name, asked, want)
		}
		b.fail(nil)
		if err := b.take(); err != nil || b.circuit.State() != wrap.Closed {
			t.Errorf("%s: the next call gets %v, the circuit is %s", name, err, b.circuit.State())
		}
	}
}

// TestTimeoutOfTheStoreIsEvidence, also where its cause is a context's: it was not the caller's.
func TestTimeoutOfTheStoreIsEvidence(t *testing.T) {
	b := newBench(t)
	b.fail(fmt.Errorf("%w: %w", slidegate.ErrUnavailable, context.DeadlineExceeded))
	for range 5 {
		b.take()
	}
	b.is(t, wrap.Open)
}

// TestPanicPassesThrough and moves nothing; a probe that panics is not the last.
func TestPanicPassesThrough(t *testing.T) {
	b := newBench(t)
	takePanics := func() (v any) {
		defer func() { v = recover() }()
		b.take()
		return nil
	}
	down := func(context.Context) error { panic("broken") }
	b.set(down)
	for range 20 {
		if v := takePanics(); v != "broken" {
			t.Fatalf("recovered %v", v)
		}
	}
	b.is(t, wrap.Closed)
	b.open(t)
	b.set(down)
	for range 3 {
		b.clock.Advance(time.Second)
		if v := takePanics(); v != "broken" {
			t.Fatalf("the probe: recovered %v", v)
		}
		b.is(t, wrap.Open)
	}
	b.fail(nil)
	b.clock.Advance(time.Second)
	b.take()
	b.is(t, wrap.Closed)
}

// TestProbeThatHangs keeps nobody else from probing, and changes nothing when it fails at last.
func TestProbeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.open(t)
		hung := make(chan error)
		b.clock.Advance(time.Second)
		b.set(func(context.Context) error { return <-hung })
		go b.take()
		synctest.Wait()
		b.fail(nil)
		if err := b.take(); !errors.Is(err, wrap.ErrOpen) {
			t.Fatalf("another call within the interval gets %v", err)
		}
		b.clock.Advance(time.Second)
		b.take()
		b.is(t, wrap.Closed)
		b.fail(errDown)
		for range 4 {
			b.take()
		}
		hung <- errDown
		synctest.Wait()
		b.is(t, wrap.Closed)
	})
}

// TestAnySuccessCloses, also of a call that was under way when the circuit opened.
func TestAnySuccessCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := make(chan error)
		b.set(func(context.Context) error { return <-slow })
		go b.take()
		synctest.Wait()
		b.open(t)
		slow <- nil
		synctest.Wait()
		b.is(t, wrap.Closed)
	})
}

// TestClockSetBackDoesNotKeepItOpen.
func TestClockSetBackDoesNotKeepItOpen(t *testing.T) {
	b := newBench(t)
	b.open(t)
	b.clock.Advance(-24 * time.Hour)
	b.take()
	if b.asked() != 6 {
		t.Fatalf("no probe after the clock was set back")
	}
	b.take()
	b.clock.Advance(time.Second)
	b.fail(nil)
	b.take()
	if b.is(t, wrap.Closed); b.asked() != 7 {
		t.Errorf("asked %d times, want 7", b.asked())
	}
}

func TestPlanIsQuickWhereTheStoresIs(t *testing.T) {
	if _, ok := bind(t, wrap.Circuit(new(scripted))).(slidegate.QuickPlan); ok {
		t.Error("a plan is quick, and that of its store is not")
	}
	plan, ok := bind(t, wrap.Circuit(new(quick))).(slidegate.QuickPlan)
	if !ok {
		t.Fatal("a plan is not quick, and that of its store is")
	}
	if allowed, err := plan.Allow(background, "a", 1); !allowed || err != nil {
		t.Errorf("Allow: %v, %v", allowed, err)
	}
	if allowed, now, r, err := plan.TakeOne(background, "a", 1); !allowed || now != 7 || r.Units != 3 || err != nil {
		t.Errorf("TakeOne: %v, %d, %+v, %v", allowed, now, r, err)
	}
}

// TestPlansShareTheCircuit: it is about the store.
func TestPlansShareTheCircuit(t *testing.T) {
	b := newBench(t)
	b.open(t)
	other := slidegate.MustNew(b.circuit, slidegate.PerSecond(1), slidegate.PerDay(9))
	if _, err := other.Take(background, "b"); !errors.Is(err, wrap.ErrOpen) {
		t.Errorf("another limiter gets %v", err)
	}
	b.fail(nil)
	b.clock.Advance(time.Second)
	other.Peek(background, "b")
	b.is(t, wrap.Closed)
}

func TestWhatCannotBeBuilt(t *testing.T) {
	store := gatetest.Failing(nil)
	for name, c := range map[string]struct {
		circuit *wrap.CircuitStore
		names   string
	}{
		"no store":             {wrap.Circuit(nil), "the store is nil"},
		"no failures":          {wrap.Circuit(store, wrap.WithFailures(0)), "after 0 failures: allowed is 1 to 1000"},
		"too many failures":    {wrap.Circuit(store, wrap.WithFailures(1001)), "after 1001 failures: allowed is 1 to 1000"},
		"too short":            {wrap.Circuit(store, wrap.WithProbeInterval(999*time.Microsecond)), "every 999µs: allowed is 1ms to 1m0s"},
		"too long":             {wrap.Circuit(store, wrap.WithProbeInterval(time.Hour)), "every 1h0m0s: allowed is 1ms to 1m0s"},
		"no clock":             {wrap.Circuit(store, wrap.WithClock(nil)), "the clock is nil"},
		"no logger":            {wrap.Circuit(store, wrap.WithLogger(nil)), "the logger is nil"},
		"no function":          {wrap.Circuit(store, wrap.OnChange(nil)), "OnChange is nil"},
		"no error":             {wrap.Circuit(store, wrap.Ignore(io.EOF, nil)), "an error to ignore is nil"},
		"the first is told of": {wrap.Circuit(store, wrap.WithFailures(-1), wrap.WithClock(nil)), "after -1 failures"},
	} {
		_, err := slidegate.New(c.circuit, limits...)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.names)
		}
	}
	if _, err := slidegate.New(wrap.Circuit(wrap.Circuit(nil)), limits...); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("what the wrapped store cannot bind: %v", err)
	}
}

func TestStateNames(t *testing.T) {
	for state, want := range map[wrap.State]string{wrap.Closed: "closed", wrap.Open: "open", 7: "State(7)"} {
		if got := state.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOneLogLineForEachChange, and none for a call.
func TestOneLogLineForEachChange(t *testing.T) {
	var text strings.Builder
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	b := newBench(t, wrap.WithLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: noTime}))))
	for range 2 {
		b.open(t)
		for range 100 {
			b.take()
		}
		for range 3 { // a probe and 99 others
			b.clock.Advance(time.Second)
			for range 100 {
				b.take()
			}
		}
		b.fail(nil)
		b.clock.Advance(time.Second)
		for range 100 {
			b.take()
		}
	}
	want := strings.Repeat(`level=ERROR msg="wrap: the store does not answer: the circuit is open" failures=5 error="slidegate: store unavailable: connection refused"
level=INFO msg="wrap: the store answers again: the circuit is closed" open=4s refused=397
`, 2)
	if text.String() != want {
		t.Errorf("logged\n%swant\n%s", text.String(), want)
	}
}

// TestChangesAreTold with the failure that opened it, to everybody, one of whom panics.
func TestChangesAreTold(t *testing.T) {
	var told []string
	note := func(s wrap.State, err error) { told = append(told, fmt.Sprint(s, ": ", err)) }
	b := newBench(t, wrap.OnChange(func(wrap.State, error) { panic("broken") }), wrap.OnChange(note))
	b.open(t)
	b.fail(nil)
	b.clock.Advance(time.Second)
	b.take()
	want := []string{"open: " + errDown.Error(), "closed: <nil>"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestChangesMadeWhileTellingAreToldNext: whoever is told may use the store.
func TestChangesMadeWhileTellingAreToldNext(t *testing.T) {
	var b *bench
	var told []wrap.State
	b = newBench(t, wrap.OnChange(func(s wrap.State, _ error) {
		if len(told) == 0 {
			b.fail(nil)
			b.clock.Advance(time.Second)
			b.take()
			b.open(t)
		}
		told = append(told, s)
	}))
	b.open(t)
	if want := []wrap.State{wrap.Open, wrap.Closed, wrap.Open}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// TestFrozenStore: 10 callers ask a store that times out after 50 ms. They wait for five timeouts in
// all and then no more, but for one of them a second, and when it is back it is used within two.
func TestFrozenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 50 * time.Millisecond
		store := new(scripted)
		store.set(func(context.Context) error { <-time.After(timeout); return errDown })
		circuit := wrap.Circuit(store)
		plan := bind(t, circuit)
		stop := make(chan struct{})
		var waited, calls atomic.Int64
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					began := time.Now()
					plan.Take(background, "a", 1)
					calls.Add(1)
					if took := time.Since(began); took == timeout {
						waited.Add(1)
					} else if took != 0 {
						t.Errorf("a call took %s", took)
					}
				}
			})
		}
		<-time.After(10*time.Second + 500*time.Millisecond)
		if circuit.State() != wrap.Open || waited.Load() > 10*5+10 || calls.Load() < 90_000 {
			t.Errorf("it is %s, and of %d calls %d waited", circuit.State(), calls.Load(), waited.Load())
		}
		store.fail(nil)
		<-time.After(1100 * time.Millisecond)
		if circuit.State() != wrap.Closed {
			t.Error("a store that is back is not used")
		}
		close(stop)
		callers.Wait()
	})
}

// TestSlowStoreIsUsed: what answers is not down.
func TestSlowStoreIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := gatetest.NewClock(start)
		circuit := wrap.Circuit(gatetest.Slow(gatetest.NewOracle(clock), 10*time.Second))
		limiter := slidegate.MustNew(circuit, slidegate.PerHour(10))
		for range 20 {
			if _, err := limiter.Take(background, "a"); err != nil {
				t.Fatal(err)
			}
		}
		impatient, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		for range 20 {
			if _, err := limiter.Take(impatient, "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if got := circuit.Stats(); got != (wrap.CircuitStats{}) || circuit.State() != wrap.Closed {
			t.Errorf("%s, %+v", circuit.State(), got)
		}
	})
}

// TestManyCallers while the store comes and goes: every change is told, one at a time, in turns, and the
// last one told is how it stands.
func TestManyCallers(t *testing.T) {
	store := new(scripted)
	var telling atomic.Bool
	var told []wrap.State // no lock: they are told one by one
	circuit := wrap.Circuit(store, wrap.WithFailures(3), wrap.WithProbeInterval(time.Millisecond), wrap.OnChange(func(s wrap.State, err error) {
		if telling.Swap(true) {
			t.Error("two changes are told at a time")
		}
		if (s == wrap.Open) != errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("%s is told with %v", s, err)
		}
		told = append(told, s)
		telling.Store(false)
	}))
	plan := bind(t, circuit)
	var callers sync.WaitGroup
	for seed := range 8 {
		random := rand.New(rand.NewPCG(1, uint64(seed)))
		callers.Go(func() {
			for range 20_000 {
				switch random.IntN(500) {
				case 0:
					store.fail(nil)
				case 1:
					store.fail(errDown)
				}
				plan.Take(background, "a", 1)
			}
		})
	}
	callers.Wait()
	opened := uint64(0)
	for i, s := range told {
		if want := []wrap.State{wrap.Open, wrap.Closed}[i%2]; s != want {
			t.Fatalf("change %d is to %s", i, s)
		}
		if s == wrap.Open {
			opened++
		}
	}
	if len(told) == 0 || told[len(told)-1] != circuit.State() {
		t.Errorf("the last of %d changes told is not to %s", len(told), circuit.State())
	}
	if got := circuit.Stats(); got.Opened != opened || got.Refused+uint64(store.asked()) != 160_000 || got.Probes == 0 {
		t.Errorf("%+v with %d changes told and %d calls", got, len(told), store.asked())
	}
}

func BenchmarkOpen(b *testing.B) {
	circuit := wrap.Circuit(gatetest.Failing(nil), wrap.WithFailures(1), wrap.WithProbeInterval(time.Minute))
	limiter := slidegate.MustNew(circuit, limits...)
	limiter.Take(background, "a")
	b.ReportAllocs()
	for b.Loop() {
		limiter.Take(background, "a")
	}
}

func BenchmarkClosed(b *testing.B) {
	store := memstore.New()
	defer store.Close()
	for name, s := range map[string]slidegate.Store{"bare": store, "circuit": wrap.Circuit(store)} {
		b.Run(name, func(b *testing.B) {
			limiter := slidegate.MustNew(s, limits...)
			b.ReportAllocs()
			for b.Loop() {
				limiter.Allow(background, "a")
			}
		})
	}
}
