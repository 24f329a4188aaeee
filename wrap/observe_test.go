package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// on returns a factory of stores that wrap a memory store.
func on(f func(slidegate.Store) slidegate.Store) gatetest.Factory {
	return func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
		return f(memstore.New(memstore.WithClock(clock.Now)))
	}
}

// TestAnObservedStoreKeepsTheLaws, all of them.
func TestAnObservedStoreKeepsTheLaws(t *testing.T) {
	gatetest.TestStore(t, on(func(s slidegate.Store) slidegate.Store { return wrap.Observe(s, func(wrap.Event) {}) }))
}

// TestEveryCallIsAnEvent, whichever way it is asked, over quick plans and others, and none has a key unless it is to.
func TestEveryCallIsAnEvent(t *testing.T) {
	for name, store := range map[string]slidegate.Store{"quick": memstore.New(), "plain": &flaky{Store: memstore.New()}} {
		for _, keys := range []bool{false, true} {
			var got []wrap.Event
			var options []wrap.ObserveOption
			if keys {
				options = append(options, wrap.WithKeys())
			}
			l := slidegate.MustNew(wrap.Observe(store, func(e wrap.Event) { got = append(got, e) }, options...), slidegate.PerHour(3).Named("l"))
			key := "a" + name + map[bool]string{true: "b"}[keys]
			must(t)(l.Peek(background, key))
			d := must(t)(l.TakeN(background, key, 2))
			if ok, err := l.Allow(background, key); !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
			must(t)(l.Take(background, key))
			if err := errors.Join(l.Refund(background, &d), l.Reset(background, key)); err != nil {
				t.Fatal(err)
			}
			want := []wrap.Event{
				{Op: wrap.OpPeek, Allowed: true, Cost: 1}, {Op: wrap.OpTake, Allowed: true, Cost: 2}, {Op: wrap.OpTake, Allowed: true, Cost: 1},
				{Op: wrap.OpTake, Cost: 1}, {Op: wrap.OpRefund, Cost: 2}, {Op: wrap.OpReset},
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d events, want %d", name, len(got), len(want))
			}
			for i, e := range got {
				w := want[i]
				wantKeys := map[bool][]string{true: {key}}[keys]
				if e.Op != w.Op || e.Allowed != w.Allowed || e.Cost != w.Cost || e.Err != nil || e.Took < 0 || len(e.Limits) != 1 || e.Limits[0].Name != "l" || !slices.Equal(e.Keys, wantKeys) {
					t.Errorf("%s: event %d is %+v, want %+v with keys %q", name, i, e, w, wantKeys)
				}
			}
		}
	}
}

// TestEventsOfSeveralKeys, and of what fails.
func TestEventsOfSeveralKeys(t *testing.T) {
	var got []wrap.Event
	behind := newSwitch(memstore.New())
	g := pair(wrap.Observe(behind, func(e wrap.Event) { got = append(got, e) }, wrap.WithKeys()))
	d := must(t)(g.TakeN(background, 7, "x", "y"))
	must(t)(g.Peek(background, "x", "y"))
	if err := g.Refund(background, &d); err != nil {
		t.Fatal(err)
	}
	behind.off(errDown)
	if _, err := g.Take(background, "x", "y"); !errors.Is(err, errDown) {
		t.Errorf("take: %v", err)
	}
	for i, want := range []wrap.Event{{Op: wrap.OpTake, Allowed: true, Cost: 7}, {Op: wrap.OpPeek, Allowed: true, Cost: 1}, {Op: wrap.OpRefund, Cost: 7}, {Op: wrap.OpTake, Cost: 1, Err: errDown}} {
		e := got[i]
		if e.Op != want.Op || e.Allowed != want.Allowed || e.Cost != want.Cost || !errors.Is(e.Err, want.Err) || !slices.Equal(e.Keys, []string{"x", "y"}) || len(e.Limits) != 2 {
			t.Errorf("event %d is %+v, want %+v", i, e, want)
		}
	}
	if pair(wrap.Observe(new(scripted), func(wrap.Event) {})).Atomic("x", "x") {
		t.Errorf("an observed store is more joint than the store behind it")
	}
}

// TestEventsAllocateNothing without keys.
func TestEventsAllocateNothing(t *testing.T) {
	n := 0
	l := slidegate.MustNew(wrap.Observe(memstore.New(), func(wrap.Event) { n++ }), slidegate.PerHour(1))
	l.Take(background, "a")
	if got := testing.AllocsPerRun(100, func() { l.Take(background, "a") }); got != 0 || n == 0 {
		t.Errorf("%v allocations, %d events", got, n)
	}
}

// TestToLogWritesNoKey unless it is told, and each call at the level of what came of it.
func TestToLogWritesNoKey(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelDebug: {"level=DEBUG", "op=take", "allowed=true", "level=INFO", "allowed=false", "level=WARN", `error="slidegate: store unavailable: connection refused"`, `limits="[l=1/1h]"`, "op=reset"},
		slog.LevelInfo:  {"level=INFO", "level=WARN"},
		slog.LevelWarn:  {"level=WARN"},
		slog.LevelError: nil,
	} {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		behind := newSwitch(memstore.New())
		l := slidegate.MustNew(wrap.Observe(behind, wrap.ToLog(logger)), slidegate.PerHour(1).Named("l"))
		must(t)(l.Take(background, "secret"))
		must(t)(l.Take(background, "secret"))
		if err := l.Reset(background, "secret"); err != nil {
			t.Fatal(err)
		}
		behind.off(errDown)
		if _, err := l.Take(background, "secret"); err == nil {
			t.Error("no error")
		}
		for _, s := range want {
			if !strings.Contains(out.String(), s) {
				t.Errorf("at %s: %q is missing in\n%s", level, s, &out)
			}
		}
		lines := map[slog.Level]int{slog.LevelDebug: 4, slog.LevelInfo: 2, slog.LevelWarn: 1}[level]
		if n := strings.Count(out.String(), "\n"); n != lines || strings.Contains(out.String(), "secret") {
			t.Errorf("at %s: %d lines, want %d, and no key:\n%s", level, n, lines, &out)
		}
	}
	var out bytes.Buffer
	l := slidegate.MustNew(wrap.Observe(memstore.New(), wrap.ToLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))), wrap.WithKeys()), slidegate.PerHour(1))
	must(t)(l.Take(background, "user:42"))
	if !strings.Contains(out.String(), "keys=[user:42]") {
		t.Errorf("the key is missing where it is asked for: %s", &out)
	}
	wrap.ToLog(nil)(wrap.Event{Err: errDown})
}

func TestObserveRefusesNil(t *testing.T) {
	for _, store := range []*wrap.ObservedStore{wrap.Observe(nil, func(wrap.Event) {}), wrap.Observe(memstore.New(), nil)} {
		if _, err := slidegate.New(store, slidegate.PerHour(1)); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Error(err)
		}
		if _, err := store.BindJoint(nil); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Error(err)
		}
	}
	for op, want := range map[wrap.Op]string{wrap.OpTake: "take", wrap.OpPeek: "peek", wrap.OpRefund: "refund", wrap.OpReset: "reset", 9: "Op(9)"} {
		if op.String() != want {
			t.Errorf("%s, want %s", op, want)
		}
	}
}

// shadows are limits of every kind, each with room for two.
func shadows() map[string][]slidegate.Limit {
	log, count := slidegate.PerHour(2).Named("log"), slidegate.PerHour(2).Counter().Named("count")
	return map[string][]slidegate.Limit{"log": {log}, "counter": {count}, "both": {count, log}, "two counters": {count, slidegate.PerDay(9).Counter()}}
}

// TestShadowRefusesNobody, charges who would be admitted, tells of the others, and says what is left.
func TestShadowRefusesNobody(t *testing.T) {
	for name, limits := range shadows() {
		clock, told := gatetest.NewClock(start), 0
		memory := memstore.New(memstore.WithClock(clock.Now))
		l := slidegate.MustNew(wrap.Shadow(memory, func(of []slidegate.Limit) {
			if told++; len(of) != len(limits) || of[0].Name != limits[0].Name {
				t.Errorf("%s: told of %v", name, of)
			}
		}), limits...)
		bare := slidegate.MustNew(memory, limits...)
		for i := range int64(5) {
			d := must(t)(l.Take(background, "a"))
			now := must(t)(bare.Peek(background, "a"))
			if !d.Allowed || d.Remaining() != max(0, 1-i) || d.Remaining() != now.Remaining() || d.RetryAfter() != 0 {
				t.Errorf("%s: take %d: %s, and the store says %s", name, i, d, now)
			}
			if ok, err := l.Allow(background, "b"); !ok || err != nil {
				t.Errorf("%s: allow %d: %v, %v", name, i, ok, err)
			}
		}
		if d := must(t)(l.Peek(background, "a")); !d.Allowed || d.Remaining() != 0 {
			t.Errorf("%s: peek: %s", name, d)
		}
		if told != 3+3 {
			t.Errorf("%s: told of %d refusals, want 6", name, told)
		}
	}
}

// TestShadowGivesBackWhatItCharged, and nothing else.
func TestShadowGivesBackWhatItCharged(t *testing.T) {
	for name, limits := range shadows() {
		clock := gatetest.NewClock(start)
		memory := memstore.New(memstore.WithClock(clock.Now))
		l, bare := slidegate.MustNew(wrap.Shadow(memory, nil), limits...), slidegate.MustNew(memory, limits...)
		charged := must(t)(l.TakeN(background, "a", 2))
		passed := must(t)(l.TakeN(background, "a", 2))
		if err := l.Refund(background, &passed); err != nil {
			t.Fatal(err)
		}
		if d := must(t)(bare.Peek(background, "a")); d.Remaining() != 0 {
			t.Errorf("%s: of a request that was not charged %d units are given back", name, d.Remaining())
		}
		if err := l.Refund(background, &charged); err != nil {
			t.Fatal(err)
		}
		if d := must(t)(bare.Peek(background, "a")); d.Remaining() != 2 {
			t.Errorf("%s: given back, and %d are left", name, d.Remaining())
		}
	}
}

// TestShadowOfAGroup is that of one limiter, in one act and in order, and over a fallback each refund finds its charge.
func TestShadowOfAGroup(t *testing.T) {
	for name, memory := range map[string]slidegate.Store{"in one act": memstore.New(), "in order": &flakyAlone{memstore.New()}} {
		told := 0
		store := wrap.Shadow(memory, func([]slidegate.Limit) { told++ })
		g := slidegate.MustNewGroup(limitersOver(store)...)
		if g.Atomic("x", "y") != (name == "in one act") {
			t.Errorf("%s: it is not", name)
		}
		charged := must(t)(g.Take(background, "x", "y"))
		if seen := must(t)(g.Peek(background, "x", "y")); !seen.Allowed {
			t.Errorf("%s: a look says %s", name, seen)
		}
		passed := must(t)(g.Take(background, "x", "y"))
		if !passed.Allowed || told == 0 {
			t.Errorf("%s: %s, told %d times", name, passed, told)
		}
		bare := slidegate.MustNew(memory, slidegate.PerMinute(1).Named("a"))
		for _, c := range []struct {
			d    *slidegate.Decision
			left int64
		}{{&passed, 0}, {&charged, 1}} {
			if err := g.Refund(background, c.d); err != nil {
				t.Fatal(err)
			}
			if d := must(t)(bare.Peek(background, "x")); d.Remaining() != c.left {
				t.Errorf("%s: after a refund %d are left, want %d", name, d.Remaining(), c.left)
			}
		}
	}
}

// A flakyAlone store decides over one key.
type flakyAlone struct{ store slidegate.Store }

func (s *flakyAlone) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	return s.store.Bind(limits)
}

// TestShadowOverAFallback: each refund finds its charge, in whichever store, and those of requests that were let pass none.
func TestShadowOverAFallback(t *testing.T) {
	r := newRefuge(wrap.WithShare(1, 2))
	l := slidegate.MustNew(wrap.Shadow(r.store, nil), slidegate.PerHour(2).Counter().Named("l"))
	r.primary.off(errDown)
	charged, passed := must(t)(l.Take(background, "a")), must(t)(l.Take(background, "a"))
	left := func() int64 {
		d := must(t)(slidegate.MustNew(r.backup, slidegate.PerHour(1).Counter().Named("l")).Peek(background, "a"))
		return d.Remaining()
	}
	if err := l.Refund(background, &passed); err != nil || left() != 0 {
		t.Errorf("of a request that was let pass: %v, %d are left", err, left())
	}
	if err := l.Refund(background, &charged); err != nil || left() != 1 {
		t.Errorf("of a charge of the backup: %v, %d are left", err, left())
	}
}

// TestShadowPassesErrorsOn: that a store is away is no refusal.
func TestShadowPassesErrorsOn(t *testing.T) {
	l := slidegate.MustNew(wrap.Shadow(gatetest.Failing(nil), func([]slidegate.Limit) { t.Error("told of a refusal") }), slidegate.PerHour(2))
	_, takes := l.Take(background, "a")
	_, peeks := l.Peek(background, "a")
	ok, allows := l.Allow(background, "a")
	for _, err := range []error{takes, peeks, allows, l.Reset(background, "a")} {
		if !errors.Is(err, slidegate.ErrUnavailable) || ok {
			t.Errorf("%v", err)
		}
	}
	if _, err := slidegate.New(wrap.Shadow(nil, nil), slidegate.PerHour(1)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Error(err)
	}
	if _, err := wrap.Shadow(nil, nil).BindJoint(nil); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Error(err)
	}
}

// TestShadowDoesNotWait: there is nothing to wait for.
func TestShadowDoesNotWait(t *testing.T) {
	l := slidegate.MustNew(wrap.Shadow(memstore.New(), nil), slidegate.PerDay(1))
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for range 3 {
		if d, err := l.Wait(ctx, "a"); err != nil || !d.Allowed {
			t.Errorf("%s, %v", d, err)
		}
	}
}
