package wrap_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// A flawed store is another one that cannot do some things, and counts what it was asked.
type flawed struct {
	slidegate.Store
	bind, peek, refund   error
	binds, takes, peeked int
	bound                int    // times, before it cannot
	beside               func() // what others do when something was given back, once
}

func (s *flawed) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.binds++; s.bind != nil && s.binds > s.bound {
		return nil, s.bind
	}
	plan, err := s.Store.Bind(limits)
	return &flawedPlan{plan, s}, err
}

type flawedPlan struct {
	slidegate.Plan
	s *flawed
}

func (p *flawedPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.s.takes++
	return p.Plan.Take(ctx, key, cost)
}

func (p *flawedPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.s.peeked++; p.s.peek != nil {
		return slidegate.Answer{}, p.s.peek
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p *flawedPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if p.s.refund != nil {
		return p.s.refund
	}
	err := p.Plan.Refund(ctx, key, charged, cost)
	if beside := p.s.beside; beside != nil {
		p.s.beside = nil
		beside()
	}
	return err
}

// TestAllowIsDecidedAsATakeIs by a fallback: by the primary, in an outage, and when what was admitted in it is owed; and only what
// the backup decides is counted as such.
func TestAllowIsDecidedAsATakeIs(t *testing.T) {
	for _, limits := range [][]slidegate.Limit{{slidegate.PerHour(2)}, {slidegate.PerHour(2), slidegate.PerDay(9)}} {
		r := newRefuge(wrap.WithShare(1, 2))
		l := slidegate.MustNew(r.store, limits...)
		asked := uint64(0)
		allow := func(when, key string, want, byBackup bool) {
			t.Helper()
			if byBackup {
				asked++
			}
			got, err := l.Allow(background, key)
			if decided := r.store.Stats().Decided; err != nil || got != want || decided != asked {
				t.Errorf("%d limits, %s: %v, %v, want %v; the backup decided %d, want %d", len(limits), when, got, err, want, decided, asked)
			}
		}
		allow("the primary has room", "a", true, false)
		allow("it has room for one more", "a", true, false)
		allow("it has none", "a", false, false)
		r.primary.off(errDown)
		allow("the backup has room", "b", true, true)
		allow("its share has none", "b", false, true)
		allow("its share has none", "b", false, true)
		r.primary.on()
		allow("one of two is owed", "b", true, false)
		allow("none is left", "b", false, false)
		must(t)(l.TakeN(background, "c", 1))
		r.primary.off(errDown)
		allow("the share has room", "c", true, true)
		r.primary.on()
		allow("what is owed fills the primary", "c", false, false)
		r.primary.off(errDown)
		must(t)(l.TakeN(background, "d", 2)) // more than the share
		asked++
		allow("another key", "e", true, true)
		other := errors.New("another error")
		r.primary.off(other)
		for _, key := range []string{"e", "f"} { // one that owes, and one that does not
			if _, err := l.Allow(background, key); !errors.Is(err, other) {
				t.Errorf("Allow: %v, want %v", err, other)
			}
			if _, err := l.Take(background, key); !errors.Is(err, other) {
				t.Errorf("Take: %v, want %v", err, other)
			}
		}
	}
}

// TestWhoOwesNothingIsAskedForOnce: the debts of others, and debts that have left their window, cost no calls of the primary.
func TestWhoOwesNothingIsAskedForOnce(t *testing.T) {
	clock := gatetest.NewClock(start)
	primary := &flawed{Store: memstore.New(memstore.WithClock(clock.Now))}
	away := newSwitch(primary)
	l := slidegate.MustNew(wrap.Fallback(away, memstore.New(memstore.WithClock(clock.Now))), slidegate.PerHour(9), slidegate.PerDay(9).Counter())
	log := slidegate.MustNew(wrap.Fallback(away, memstore.New(memstore.WithClock(clock.Now))), slidegate.PerHour(9).Named("log"))
	must(t)(l.Take(background, "a"))
	if primary.takes != 1 || primary.peeked != 0 {
		t.Errorf("nobody owes anything, and the primary was asked for %d takes and %d looks", primary.takes, primary.peeked)
	}
	away.off(errDown)
	must(t)(l.Take(background, "a"))
	must(t)(log.Take(background, "a"))
	away.on()
	for what, ask := range map[string]struct {
		do            func(context.Context, string) (slidegate.Decision, error)
		takes, peeked int
	}{"take": {l.Take, 1, 0}, "peek": {l.Peek, 0, 1}} {
		primary.takes, primary.peeked = 0, 0
		must(t)(ask.do(background, "b"))
		if primary.takes != ask.takes || primary.peeked != ask.peeked {
			t.Errorf("%s: the primary was asked for %d takes and %d looks, want %d and %d", what, primary.takes, primary.peeked, ask.takes, ask.peeked)
		}
	}
	clock.Advance(time.Hour)
	primary.takes = 0
	if must(t)(log.Take(background, "a")); primary.takes != 1 {
		t.Errorf("nothing that is owed counts any more, and the primary was asked for %d takes, want 1", primary.takes)
	}
}

// TestWhatIsOwedIsTakenOverInTwoTakes, if not all of it fits: what has room is known from the refusal.
func TestWhatIsOwedIsTakenOverInTwoTakes(t *testing.T) {
	primary := &flawed{Store: memstore.New()}
	away := newSwitch(primary)
	store := wrap.Fallback(away, memstore.New())
	l := slidegate.MustNew(store, slidegate.PerHour(100))
	must(t)(l.TakeN(background, "a", 50))
	away.off(errDown)
	must(t)(l.TakeN(background, "a", 100))
	away.on()
	primary.takes = 0
	if d := must(t)(l.Peek(background, "a")); d.Remaining() != 0 || primary.takes != 2 || store.Stats().TakenOver != 50 {
		t.Errorf("%d left, %d takes, %+v: want all that fits, in two takes", d.Remaining(), primary.takes, store.Stats())
	}
}

// TestAPrimaryThatRefusesWhatHasRoom holds up nobody: less is tried each time.
func TestAPrimaryThatRefusesWhatHasRoom(t *testing.T) {
	now := time.Now().UnixMilli()
	primary := newSwitch(&told{answer: slidegate.Answer{Now: now}})
	l := slidegate.MustNew(wrap.Fallback(primary, memstore.New()), slidegate.PerHour(9))
	primary.off(errDown)
	must(t)(l.TakeN(background, "a", 9))
	primary.on()
	if d := must(t)(l.Take(background, "a")); d.Allowed {
		t.Errorf("the primary refuses all, and %s", d)
	}
}

// TestWhatIsOwedComesFirst: a primary that cannot be told of what is owed does not admit more, although it could be asked to.
func TestWhatIsOwedComesFirst(t *testing.T) {
	primary := &flawed{Store: memstore.New()}
	away := newSwitch(primary)
	store := wrap.Fallback(away, memstore.New())
	l := slidegate.MustNew(store, slidegate.PerHour(2))
	away.off(errDown)
	must(t)(l.TakeN(background, "a", 2))
	away.on()
	primary.peek = errDown
	if d := must(t)(l.Take(background, "a")); d.Allowed || store.Stats().Decided != 2 {
		t.Errorf("two of two are owed, and %s: %+v", d, store.Stats())
	}
}

// TestWhatACounterGaveBackIsNotOwed while it still counts: in the window after its own too, and no longer.
func TestWhatACounterGaveBackIsNotOwed(t *testing.T) {
	for _, c := range []struct {
		limit slidegate.Limit
		later time.Duration
		left  int64
	}{
		{slidegate.PerHour(100), 59 * time.Minute, 60},
		{slidegate.PerHour(100).Counter(), 30 * time.Minute, 60},
		{slidegate.PerHour(100).Counter(), 72 * time.Minute, 68}, // of 40, four fifths
	} {
		r := newRefuge()
		l := slidegate.MustNew(r.store, c.limit)
		r.primary.off(errDown)
		must(t)(l.TakeN(background, "a", 40))
		r.primary.on()
		must(t)(l.Peek(background, "a")) // takes over
		r.primary.off(errDown)
		d := must(t)(l.TakeN(background, "a", 20))
		r.clock.Advance(c.later)
		if err := l.Refund(background, &d); err != nil || r.store.Stats().Owed != 0 {
			t.Errorf("%s, %s later: %v, %+v: want nothing owed", c.limit, c.later, err, r.store.Stats())
		}
		r.primary.on()
		if now := must(t)(l.Peek(background, "a")); now.Remaining() != c.left {
			t.Errorf("%s, %s later: %d are left, want %d", c.limit, c.later, now.Remaining(), c.left)
		}
	}
}

// TestATakeOfNothingIsALook in an outage too.
func TestATakeOfNothingIsALook(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.PerHour(9), slidegate.PerHour(9).Counter()} {
		r := newRefuge()
		l := slidegate.MustNew(r.store, limit)
		r.primary.off(errDown)
		r.clock.Advance(20 * time.Minute)
		must(t)(l.TakeN(background, "a", 3))
		r.clock.Advance(50 * time.Minute)
		look, take := must(t)(l.PeekN(background, "a", 0)), must(t)(l.TakeN(background, "a", 0))
		if look.State(0) != take.State(0) {
			t.Errorf("%s: a take of nothing says %+v, a look %+v", limit, take.State(0), look.State(0))
		}
	}
}

// TestABackupIsBoundOnceByAShare, and where it cannot be by another one both errors are told, whatever is asked.
func TestABackupIsBoundOnceByAShare(t *testing.T) {
	replicas := 1
	backup, primary := &flawed{Store: memstore.New()}, newSwitch(memstore.New())
	l := slidegate.MustNew(wrap.Fallback(primary, backup, wrap.WithReplicas(func() int { return replicas })), slidegate.PerHour(9))
	primary.off(errDown)
	charged := must(t)(l.Take(background, "a"))
	must(t)(l.Peek(background, "a"))
	if backup.binds != 1 {
		t.Errorf("the backup was bound %d times by one share", backup.binds)
	}
	unable := errors.New("unable")
	replicas, backup.bind = 3, unable // from now on
	told := map[string]error{
		"take":   failure(l.Take(background, "a")),
		"peek":   failure(l.Peek(background, "a")),
		"refund": l.Refund(background, &charged),
	}
	primary.on()
	told["a take of one who owes"] = failure(l.Take(background, "a"))
	told["reset"] = l.Reset(background, "a")
	for verb, err := range told {
		if !errors.Is(err, unable) {
			t.Errorf("%s: %v, want %v", verb, err, unable)
		}
	}
}

// TestARefundThatTheBackupDoesNotMakeSaysSo.
func TestARefundThatTheBackupDoesNotMakeSaysSo(t *testing.T) {
	for name, flaw := range map[string]func(s *flawed){
		"a look fails":   func(s *flawed) { s.peek = errDown },
		"a refund fails": func(s *flawed) { s.refund = errDown },
	} {
		backup, primary := &flawed{Store: memstore.New()}, newSwitch(memstore.New())
		l := slidegate.MustNew(wrap.Fallback(primary, backup), slidegate.PerHour(9))
		primary.off(errDown)
		charged := must(t)(l.Take(background, "a"))
		primary.on()
		flaw(backup)
		if err := l.Refund(background, &charged); !errors.Is(err, errDown) {
			t.Errorf("%s: %v, want %v", name, err, errDown)
		}
	}
}

// TestARefundPaysNoMoreThanItself, and nothing for others who charge or give back beside it; and where it cannot be seen what came
// back, it is owed: too much rather than too little.
func TestARefundPaysNoMoreThanItself(t *testing.T) {
	for name, c := range map[string]struct {
		beside func(backup *flawed, l *slidegate.Limiter, another slidegate.Decision)
		owed   uint64 // of 11, and what is charged beside
	}{
		"another charges":         {func(_ *flawed, l *slidegate.Limiter, _ slidegate.Decision) { must(t)(l.TakeN(background, "a", 7)) }, 18},
		"another charges less":    {func(_ *flawed, l *slidegate.Limiter, _ slidegate.Decision) { must(t)(l.TakeN(background, "a", 1)) }, 11},
		"another gives back":      {func(_ *flawed, l *slidegate.Limiter, d slidegate.Decision) { _ = l.Refund(background, &d) }, 6},
		"nobody does anything":    {func(*flawed, *slidegate.Limiter, slidegate.Decision) {}, 9},
		"the look after it fails": {func(backup *flawed, _ *slidegate.Limiter, _ slidegate.Decision) { backup.peek = errDown }, 11},
	} {
		backup, primary := &flawed{Store: memstore.New()}, newSwitch(memstore.New())
		store := wrap.Fallback(primary, backup)
		l := slidegate.MustNew(store, slidegate.PerHour(100))
		primary.off(errDown)
		must(t)(l.TakeN(background, "a", 30))
		primary.on()
		must(t)(l.Peek(background, "a")) // takes over, so that less is owed than the backup counts
		primary.off(errDown)
		another := must(t)(l.TakeN(background, "a", 3))
		must(t)(l.TakeN(background, "a", 6))
		d := must(t)(l.TakeN(background, "a", 2))
		backup.beside = func() { c.beside(backup, l, another) }
		if err := l.Refund(background, &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		backup.peek = nil
		primary.on()
		must(t)(l.Peek(background, "a"))
		if got := store.Stats().TakenOver - 30; got != c.owed {
			t.Errorf("%s: %d are taken over, want %d", name, got, c.owed)
		}
	}
}

// TestABackupThatCannotBeAskedHoldsUpNobody when the primary is back: what is owed stays so, until the backup tells what of it counts.
func TestABackupThatCannotBeAskedHoldsUpNobody(t *testing.T) {
	backup, primary := &flawed{Store: memstore.New()}, newSwitch(memstore.New())
	store := wrap.Fallback(primary, backup)
	l := slidegate.MustNew(store, slidegate.PerHour(9))
	primary.off(errDown)
	must(t)(l.TakeN(background, "a", 4))
	primary.on()
	backup.peek = errDown
	if d := must(t)(l.Take(background, "a")); !d.Allowed || store.Stats().Owed != 1 {
		t.Errorf("%s, %+v", d, store.Stats())
	}
	backup.peek = nil
	if d := must(t)(l.Peek(background, "a")); d.Remaining() != 4 || store.Stats().Owed != 0 {
		t.Errorf("one of the primary and four of the backup count: %s, %+v", d, store.Stats())
	}
}

// TestACostAboveTheShareOfABackupThatIsAway is an error of both.
func TestACostAboveTheShareOfABackupThatIsAway(t *testing.T) {
	backup, primary := &flawed{Store: memstore.New()}, newSwitch(memstore.New())
	store := wrap.Fallback(primary, backup, wrap.WithShare(1, 3))
	l := slidegate.MustNew(store, slidegate.PerHour(9))
	primary.off(errDown)
	if d := must(t)(l.TakeN(background, "a", 4)); d.Allowed || store.Stats().Decided != 1 {
		t.Errorf("a cost of 4 of 3: %s, %+v", d, store.Stats())
	}
	unable := errors.New("unable")
	backup.peek = unable
	for _, cost := range []int64{1, 4} {
		if err := failure(l.PeekN(background, "a", cost)); !errors.Is(err, unable) || !errors.Is(err, errDown) {
			t.Errorf("a look for %d: %v", cost, err)
		}
	}
	if err := failure(l.TakeN(background, "a", 4)); !errors.Is(err, unable) || !errors.Is(err, errDown) {
		t.Errorf("a take of 4: %v", err)
	}
}

// TestAnUntouchedShareIsFull, whenever it is and however little is withheld of it: there is nothing to wait for.
func TestAnUntouchedShareIsFull(t *testing.T) {
	for _, at := range []time.Time{start, time.UnixMilli(0), time.UnixMilli(-1)} {
		for _, share := range [][2]int{{1, 1}, {9, 10}, {1, 10}} {
			r := newRefuge(wrap.WithShare(share[0], share[1]))
			r.clock.Set(at)
			r.primary.off(errDown)
			l := slidegate.MustNew(r.store, slidegate.PerHour(10))
			if d := must(t)(l.Peek(background, "a")); d.ResetAfter() != 0 || d.Remaining() != int64(share[0]*10/share[1]) {
				t.Errorf("%v, at %v: %s", share, at, d)
			}
		}
	}
}
