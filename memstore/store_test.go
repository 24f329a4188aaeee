package memstore

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

var ctx = context.Background()

// at returns a clock that is set by hand.
func at(ms *int64) Option {
	return WithClock(func() time.Time { return time.UnixMilli(*ms) })
}

// TestTableIsAMap runs random insertions and removals on a table and on a Go map: of prints as they are, and of some that have
// a half in common, or their place.
func TestTableIsAMap(t *testing.T) {
	for name, draw := range map[string]func(rng *rand.Rand) print{
		"at random":  func(rng *rand.Rand) print { return print{rng.Uint64(), rng.Uint64() | 1} },
		"close":      func(rng *rand.Rand) print { return print{rng.Uint64N(40), 1 + rng.Uint64N(40)<<58} },
		"at the end": func(rng *rand.Rand) print { return print{rng.Uint64N(9), math.MaxUint64 - rng.Uint64N(3)} },
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		sh, model := &shard{}, map[print]int64{}
		var known []print
		check := func(step int) {
			for p, want := range model {
				if i := sh.find(p); i < 0 || sh.slots[i].print != p || sh.slots[i].at() != want {
					t.Fatalf("%s, step %d: a key is lost among %d", name, step, len(model))
				}
			}
		}
		for step := range 50_000 {
			p := draw(rng)
			_, held := model[p]
			switch {
			case !held && sh.find(p) != -1:
				t.Fatalf("%s, step %d: a key is found that is not held", name, step)
			case !held && (len(known) == 0 || rng.IntN(100) < 52):
				if i := sh.insert(p, newState(int64(step), 0)); sh.slots[i].print != p {
					t.Fatalf("%s, step %d: a key is not where it was put", name, step)
				}
				model[p] = int64(step)
				known = append(known, p)
			default:
				i := rng.IntN(len(known))
				p := known[i]
				known[i] = known[len(known)-1]
				known = known[:len(known)-1]
				sh.remove(sh.find(p))
				delete(model, p)
			}
			if len(model) < 30 || step%997 == 0 {
				check(step)
			}
		}
		if sh.keys != len(model) {
			t.Errorf("%s: %d keys, want %d", name, sh.keys, len(model))
		}
	}
}

// TestRebuildKeepsEverything: what a shard answers does not change when it is made smaller.
func TestRebuildKeepsEverything(t *testing.T) {
	now := int64(1_000_000)
	s := New(at(&now), WithMaxKeys(1000))
	lim := slidegate.MustNew(s, slidegate.Per(time.Hour, 100).Named("a"), slidegate.Per(time.Hour, 1e12).Counter().Named("b"), slidegate.Per(time.Hour, 50).Named("c"))
	for i := range 600 {
		now++
		if _, err := lim.TakeN(ctx, strconv.Itoa(i%200), int64(1+i%7)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lim.TakeN(ctx, "7", 40); err != nil {
		t.Fatal(err)
	}
	large := slidegate.MustNew(s, slidegate.Per(time.Hour, 1e12).Counter().Named("b")) // counts that need more than a word
	for i := range 200 {
		if _, err := large.TakeN(ctx, strconv.Itoa(i), countMask+int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if err := large.Reset(ctx, strconv.Itoa(2*i)); err != nil { // so that what is left moves
			t.Fatal(err)
		}
	}
	var before []slidegate.State
	states := func() (all []slidegate.State) {
		for i := range 200 {
			d, _ := lim.PeekN(ctx, strconv.Itoa(i), 30)
			for j := range d.Len() {
				all = append(all, d.State(j))
			}
		}
		return all
	}
	before = states()
	pairs := len(s.shards[0].pairs.values)
	s.shards[0].rebuild(s.kinds())
	if now := len(s.shards[0].pairs.values); pairs < 200 || now >= pairs {
		t.Errorf("%d pairs of counts became %d", pairs, now)
	}
	for i, after := range states() {
		if after != before[i] {
			t.Fatalf("state %d became %+v, was %+v", i, after, before[i])
		}
	}
	now += 2 * time.Hour.Milliseconds()
	if n := s.Sweep(); n != 200 || s.Len() != 0 {
		t.Errorf("of 200 keys %d are swept then, %d are left", n, s.Len())
	}
}

// TestIdleKeysGoFirst: a full store with one idle key loses that one and counts no eviction.
func TestIdleKeysGoFirst(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(3))
	short := slidegate.MustNew(s, slidegate.PerSecond(1))
	long := slidegate.MustNew(s, slidegate.PerHour(1))
	long.Allow(ctx, "a")
	short.Allow(ctx, "b")
	long.Allow(ctx, "c")
	now = 1000
	long.Allow(ctx, "d")
	if got := s.Stats(); got != (Stats{Keys: 3, Swept: 1}) {
		t.Errorf("%+v, want three keys, one swept, none evicted", got)
	}
	for _, key := range []string{"a", "c", "d"} {
		if ok, _ := long.Allow(ctx, key); ok {
			t.Errorf("%q was forgotten", key)
		}
	}
}

// TestTheOneIdleSoonestGoes: the keys that survive a flood are those that would count longest.
func TestTheOneIdleSoonestGoes(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(100))
	minute, hour := slidegate.MustNew(s, slidegate.PerMinute(1)), slidegate.MustNew(s, slidegate.PerHour(1))
	for i := range 50 {
		now++
		hour.Allow(ctx, "hour "+strconv.Itoa(i))
	}
	for i := range 500 {
		now++
		minute.Allow(ctx, "minute "+strconv.Itoa(i))
	}
	if s.Len() != 100 || s.Stats().Evicted != 450 {
		t.Fatalf("%+v, want 100 keys and 450 evicted", s.Stats())
	}
	for i := range 50 {
		if d, _ := hour.Peek(ctx, "hour "+strconv.Itoa(i)); d.Allowed {
			t.Errorf("hour %d was forgotten though minutes were there", i)
		}
		if d, _ := minute.Peek(ctx, "minute "+strconv.Itoa(499-i)); d.Allowed {
			t.Errorf("minute %d was forgotten though older ones were there", 499-i)
		}
	}
}

// TestExhaustedKeysOutliveFreshOnes: of keys that would be idle at the same time, the one with
// the fewest units used goes, so a flood of fresh keys at one instant refills nobody.
func TestExhaustedKeysOutliveFreshOnes(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(1000))
	lim := slidegate.MustNew(s, slidegate.PerMinute(3))
	for i := range 10 {
		for range 3 {
			lim.Allow(ctx, "exhausted "+strconv.Itoa(i))
		}
	}
	for i := range 100_000 {
		lim.Allow(ctx, "fresh "+strconv.Itoa(i))
		if s.Len() > 1000 {
			t.Fatalf("%d keys, the cap is 1000", s.Len())
		}
	}
	for i := range 10 {
		if ok, _ := lim.Allow(ctx, "exhausted "+strconv.Itoa(i)); ok {
			t.Errorf("exhausted key %d was refilled", i)
		}
	}
	if got := s.Stats().Evicted; got != 100_000+10-1000 {
		t.Errorf("%d evictions counted, want %d", got, 100_000+10-1000)
	}
}

// TestFullStoreRefusesNewKeys where it is told to, and goes on with those it holds.
func TestFullStoreRefusesNewKeys(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(1), RefuseNewKeys())
	lim := slidegate.MustNew(s, slidegate.PerSecond(2))
	if ok, err := lim.Allow(ctx, "a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	d, err := lim.Take(ctx, "b")
	if !errors.Is(err, slidegate.ErrUnavailable) || d.Allowed {
		t.Errorf("a new key got %v, %v", d.Allowed, err)
	}
	if d, err := lim.Peek(ctx, "b"); err != nil || d.Remaining() != 2 {
		t.Errorf("a look at a new key got %d, %v", d.Remaining(), err)
	}
	if ok, err := lim.Allow(ctx, "a"); !ok || err != nil {
		t.Errorf("the key that is held got %v, %v", ok, err)
	}
	now = 1000
	if ok, err := lim.Allow(ctx, "b"); !ok || err != nil {
		t.Errorf("when the other is idle, a new key got %v, %v", ok, err)
	}
	if got := s.Stats(); got != (Stats{Keys: 1, Swept: 1, Refused: 1}) {
		t.Errorf("%+v", got)
	}
}

// TestCapHoldsAmongManyCallers over many shards.
func TestCapHoldsAmongManyCallers(t *testing.T) {
	s := New(WithMaxKeys(20_000))
	defer s.Close()
	lim := slidegate.MustNew(s, slidegate.PerHour(3))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20_000 {
				if _, err := lim.Take(ctx, strconv.Itoa(g*20_000+i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	held := 0
	for i := range s.shards {
		held += s.shards[i].keys
	}
	if held != s.Len() || held > 20_000 || s.Stats().Evicted != 160_000-uint64(held) {
		t.Errorf("%d keys in the shards, %+v", held, s.Stats())
	}
}

// TestFullStoreSaysSoOnce in a minute, which ends to the millisecond, and also when the clock was set back; without a key.
func TestFullStoreSaysSoOnce(t *testing.T) {
	var out strings.Builder
	now := int64(0)
	s := New(at(&now), WithMaxKeys(1), WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	for i := range 100 {
		lim.Allow(ctx, "secret"+strconv.Itoa(i))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || strings.Contains(out.String(), "secret") {
		t.Errorf("%d lines: %s", n, out.String())
	}
	for i, step := range []struct {
		later int64 // ms
		lines int
	}{{59_999, 1}, {1, 2}, {-59_999, 2}, {-1, 3}} {
		now += step.later
		lim.Allow(ctx, "another"+strconv.Itoa(i))
		if n := strings.Count(out.String(), "\n"); n != step.lines {
			t.Errorf("step %d, of %d ms: %d lines, want %d: %s", i, step.later, n, step.lines, out.String())
		}
	}
}

// TestBadOptionsAreReported by the limiter's constructor, each in one sentence.
func TestBadOptionsAreReported(t *testing.T) {
	for _, c := range []struct {
		option Option
		want   string
	}{
		{WithMaxKeys(0), "the cap of 0 keys: allowed is 1 to 1073741824"},
		{WithMaxKeys(-1), "the cap of -1 keys"},
		{WithClock(nil), "the clock is nil"},
		{WithLogger(nil), "the logger is nil"},
	} {
		_, err1 := slidegate.New(New(c.option), slidegate.PerSecond(1))
		_, err2 := New(c.option).BindJoint([][]slidegate.Limit{{slidegate.PerSecond(1)}, {slidegate.PerSecond(1)}})
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	}
}

// TestOneTimerWhileThereAreKeys and none when the store is empty; keys go without a request.
func TestOneTimerWhileThereAreKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		lim := slidegate.MustNew(s, slidegate.PerMinute(1))
		off := func() bool { return s.timer.at.Load() == math.MaxInt64 }
		if !off() {
			t.Error("an empty store has a timer")
		}
		for i := range 5000 {
			lim.Allow(ctx, strconv.Itoa(i))
		}
		if off() || s.Len() != 5000 {
			t.Errorf("timer off is %v with %d keys", off(), s.Len())
		}
		<-time.After(59 * time.Second) // in the bubble, at once
		synctest.Wait()
		if s.Len() != 5000 {
			t.Errorf("%d keys while all count", s.Len())
		}
		<-time.After(3 * time.Second) // in the bubble, at once
		synctest.Wait()
		if s.Len() != 0 || !off() {
			t.Errorf("%d keys after their windows, timer off is %v", s.Len(), off())
		}
		for i := range s.shards {
			if s.shards[i].slots != nil {
				t.Fatal("an empty shard keeps a table")
			}
		}
		// A shorter window that comes later is not left waiting for the longer one's sweep.
		lim.Allow(ctx, "long")
		quick := slidegate.MustNew(s, slidegate.PerSecond(1))
		quick.Allow(ctx, "short")
		<-time.After(2 * time.Second) // in the bubble, at once
		synctest.Wait()
		if s.Len() != 1 {
			t.Errorf("%d keys, want the long one alone", s.Len())
		}
		s.Close() // stops the timer: the bubble would not end otherwise
	})
}

// TestClosedStoreIsUnavailable for every verb, and closing twice is nothing.
func TestClosedStoreIsUnavailable(t *testing.T) {
	s := New()
	one, two := slidegate.MustNew(s, slidegate.PerHour(1)), slidegate.MustNew(s, slidegate.PerHour(2), slidegate.PerDay(5))
	d, _ := one.Take(ctx, "a")
	for range 2 {
		if err := s.Close(); err != nil || s.Len() != 0 {
			t.Errorf("%v, %d keys after Close", err, s.Len())
		}
	}
	verbs := map[string]func(l *slidegate.Limiter) error{
		"Allow":  func(l *slidegate.Limiter) error { _, err := l.Allow(ctx, "a"); return err },
		"Take":   func(l *slidegate.Limiter) error { _, err := l.Take(ctx, "a"); return err },
		"TakeN0": func(l *slidegate.Limiter) error { _, err := l.TakeN(ctx, "a", 0); return err },
		"Peek":   func(l *slidegate.Limiter) error { _, err := l.Peek(ctx, "a"); return err },
		"Reset":  func(l *slidegate.Limiter) error { return l.Reset(ctx, "a") },
		"Wait":   func(l *slidegate.Limiter) error { _, err := l.Wait(ctx, "a"); return err },
	}
	for name, verb := range verbs {
		for _, l := range []*slidegate.Limiter{one, two} {
			if err := verb(l); !errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := one.Refund(ctx, &d); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("Refund: %v", err)
	}
}

// TestDecisionsAllocateNothing, admitted or refused, with one limit or three, at many keys.
func TestDecisionsAllocateNothing(t *testing.T) {
	s := New()
	defer s.Close()
	seen := slidegate.MustNew(s, slidegate.PerDay(5))
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
		seen.Allow(ctx, keys[i])
	}
	for name, limits := range map[string][]slidegate.Limit{
		"log":           {slidegate.PerMinute(1e9).Named("l")},
		"counter":       {slidegate.PerMinute(1e9).Counter()},
		"full log":      {slidegate.PerHour(1)},
		"full counter":  {slidegate.PerHour(1).Counter()},
		"three":         {slidegate.PerSecond(1e9), slidegate.PerMinute(1e9), slidegate.PerHour(1e9).Counter()},
		"three, refuse": {slidegate.PerSecond(1e9), slidegate.PerMinute(1e9).Named("x"), slidegate.PerHour(2).Counter()},
	} {
		l := slidegate.MustNew(s, limits...)
		var d slidegate.Decision
		for range 3 {
			d, _ = l.Take(ctx, keys[7])
		}
		n := testing.AllocsPerRun(1000, func() {
			d, _ = l.Take(ctx, keys[7])
			_ = d.Remaining()
			_ = d.RetryAfter()
			l.Allow(ctx, keys[7])
			l.Peek(ctx, "never seen")
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a decision", name, n)
		}
	}
}

// TestClockDoesNotJumpWithTheWall: the store's clock moves with the monotonic reading alone.
func TestClockDoesNotJumpWithTheWall(t *testing.T) {
	s := New()
	defer s.Close()
	anchor := s.base.UnixMilli()
	wall := s.base.Round(0) // as if nothing but the wall clock were known
	if s.base == wall {
		t.Fatal("the anchor has no monotonic reading, so a set wall clock would move every window")
	}
	if now := s.now(); now < anchor || now > anchor+time.Since(s.base).Milliseconds()+1 {
		t.Errorf("the clock reads %d, anchored at %d", now, anchor)
	}
}
