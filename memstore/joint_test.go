package memstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

// trio returns limiters over a store, and the group of them.
func trio(t *testing.T, s *Store) ([]*slidegate.Limiter, *slidegate.Group) {
	t.Helper()
	limiters := []*slidegate.Limiter{
		slidegate.MustNew(s, slidegate.PerHour(5).Named("a")),
		slidegate.MustNew(s, slidegate.PerHour(6).Counter().Named("b"), slidegate.PerMinute(7).Named("c")),
		slidegate.MustNew(s, slidegate.PerDay(8).Named("d")),
	}
	g, err := slidegate.NewGroup(limiters...)
	if err != nil {
		t.Fatal(err)
	}
	return limiters, g
}

// TestAGroupTakesRoomForAllItsKeysOrNone: a full store refuses to decide, or evicts as many as it takes.
func TestAGroupTakesRoomForAllItsKeysOrNone(t *testing.T) {
	s := New(WithMaxKeys(4), RefuseNewKeys())
	limiters, g := trio(t, s)
	for _, key := range []string{"x", "y"} {
		if _, err := limiters[0].Take(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := g.Take(t.Context(), "p", "q", "r"); !errors.Is(err, slidegate.ErrUnavailable) || d.Allowed {
		t.Errorf("three keys where two have room: %s, %v", d, err)
	}
	if n := s.Len(); n != 2 {
		t.Errorf("%d keys are held, want 2", n)
	}
	for _, keys := range [][]string{{"p", "p", "q"}, {"x", "y", "p"}, {"q", "q", "q"}} {
		if d, err := g.Take(t.Context(), keys...); err != nil || !d.Allowed {
			t.Errorf("%q, of which two are new at most: %s, %v", keys, d, err)
		}
	}
	if n := s.Len(); n != 4 || s.Stats().Refused != 1 {
		t.Errorf("%d keys are held, %d refused", n, s.Stats().Refused)
	}

	s = New(WithMaxKeys(4))
	_, g = trio(t, s)
	for i := range 100 {
		if d, err := g.Take(t.Context(), fmt.Sprint("p", i), fmt.Sprint("q", i), fmt.Sprint("r", i%7)); err != nil || !d.Allowed && i < 4 {
			t.Fatalf("request %d: %s, %v", i, d, err)
		}
		if n := s.Len(); n > 4 {
			t.Fatalf("%d keys are held, more than 4", n)
		}
	}
}

// TestAGroupLargerThanTheStore cannot be decided, and says so instead of evicting for ever.
func TestAGroupLargerThanTheStore(t *testing.T) {
	s := New(WithMaxKeys(2))
	_, g := trio(t, s)
	if _, err := g.Take(t.Context(), "p", "q", "r"); !errors.Is(err, slidegate.ErrUnavailable) || !strings.Contains(err.Error(), "fewer keys") {
		t.Errorf("three keys in a store of two: %v", err)
	}
	for _, keys := range [][]string{{"p", "q", "p"}, {"r", "s", "s"}} { // the others have to go
		if d, err := g.Take(t.Context(), keys...); err != nil || !d.Allowed || s.Len() != 2 {
			t.Errorf("two keys in a store of two: %s, %v; %d are held", d, err, s.Len())
		}
	}
}

// TestAClosedStoreDecidesNoGroup, nor takes anything back.
func TestAClosedStoreDecidesNoGroup(t *testing.T) {
	s := New()
	_, g := trio(t, s)
	d, err := g.Take(t.Context(), "p", "q", "r")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, keys := range [][]string{{"p", "q", "r"}, {"p", "p", "p"}} {
		_, err1 := g.Take(t.Context(), keys...)
		_, err2 := g.Peek(t.Context(), keys...)
		for verb, err := range map[string]error{"take": err1, "peek": err2} {
			if !errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("%s: %v", verb, err)
			}
		}
	}
	if err := g.Refund(t.Context(), &d); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("refund: %v", err)
	}
}

// TestAGroupCountsItsNewKeys once each, and none that is held, wherever in the table it is.
func TestAGroupCountsItsNewKeys(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(keysPerShard))
	bound, err := s.BindJoint([][]slidegate.Limit{{slidegate.PerHour(5).Named("a")}, {slidegate.PerHour(6).Named("b")}, {slidegate.PerHour(7).Named("c")}})
	if err != nil {
		t.Fatal(err)
	}
	first := ""
	for i := 0; first == ""; i++ {
		key := strconv.Itoa(i)
		if _, err := bound.Take(t.Context(), []string{key, key, key}, 1); err != nil {
			t.Fatal(err)
		}
		if s.shards[0].find(s.print(key)) == 0 {
			first = key
		}
	}
	for _, c := range []struct {
		keys  []string
		added int64
	}{{[]string{first, first, first}, 0}, {[]string{"x", first, first}, 1}, {[]string{"x", "x", "x"}, 1}, {[]string{"x", "y", "x"}, 2}, {[]string{first, "x", "y"}, 2}, {[]string{"x", "y", "z"}, 3}} {
		g := bound.(*jointPlan).grip(c.keys)
		if added, sh := g.find(); added != c.added || (sh != nil) != (added > 0) {
			t.Errorf("%q: %d are new, want %d", c.keys, added, c.added)
		}
	}
}

// TestAGroupLocksTheShardsOfItsKeys, each once, and no other.
func TestAGroupLocksTheShardsOfItsKeys(t *testing.T) {
	s := New(WithMaxKeys(8 * keysPerShard))
	p := &jointPlan{store: s}
	isLocked := func(sh *shard) bool {
		if !sh.mu.TryLock() {
			return true
		}
		sh.mu.Unlock()
		return false
	}
	for i := range 50 {
		keys := make([]string, 1+i%7)
		for j := range keys {
			keys[j] = strconv.Itoa(i * j)
		}
		g := p.grip(keys)
		g.lock(s)
		for j := range s.shards {
			if sh := &s.shards[j]; isLocked(sh) != slices.Contains(g.shards[:len(keys)], sh) {
				t.Fatalf("%q: shard %d is locked: %v", keys, j, isLocked(sh))
			}
		}
		if !slices.IsSorted(g.order[:len(keys)]) {
			t.Fatalf("%q are locked in the order %v", keys, g.order[:len(keys)])
		}
		g.unlock(s)
		for j := range s.shards {
			if isLocked(&s.shards[j]) {
				t.Fatalf("%q: shard %d stays locked", keys, j)
			}
		}
	}
}

// TestAGroupsReadingsAreInItsOrder, those of each part behind those of the parts before.
func TestAGroupsReadingsAreInItsOrder(t *testing.T) {
	now := int64(1_757_750_400_000)
	s := New(at(&now))
	plan, err := s.BindJoint([][]slidegate.Limit{{slidegate.PerHour(5).Named("a"), slidegate.PerHour(6).Named("b")}, {slidegate.PerHour(7).Named("c")}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Bind([]slidegate.Limit{slidegate.PerHour(6).Named("b")}); err != nil {
		t.Fatal(err)
	} else if _, err := a.Take(t.Context(), "k", 2); err != nil {
		t.Fatal(err)
	}
	keys := []string{"k", "other"}
	charged, err := plan.Take(t.Context(), keys, 3)
	units := func(a slidegate.Answer) [4]int64 {
		return [4]int64{a.Readings[0].Units, a.Readings[1].Units, a.Readings[2].Units, a.Readings[3].Units}
	}
	if got := units(charged); err != nil || charged.Now != now || got != [4]int64{3, 5, 3, 0} {
		t.Errorf("%v: after a charge %v", err, got)
	}
	if err := plan.Refund(t.Context(), keys, charged, 1); err != nil {
		t.Fatal(err)
	}
	now++
	looked, err := plan.Peek(t.Context(), keys, 1)
	if got := units(looked); err != nil || looked.Now != now || got != [4]int64{2, 4, 2, 0} {
		t.Errorf("%v: after a refund %v", err, got)
	}
}

// TestARefusedGroupIsNotCharged, nor one of a cost of nothing: no key comes, and none has more than before.
func TestARefusedGroupIsNotCharged(t *testing.T) {
	now := int64(0)
	s := New(at(&now))
	plan, err := s.BindJoint([][]slidegate.Limit{{slidegate.PerHour(5).Named("a")}, {slidegate.PerHour(7).Named("b").Counter()}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := plan.Take(t.Context(), []string{"k", "other"}, 4); err != nil || !a.Allowed {
		t.Fatal(a.Allowed, err)
	}
	for _, c := range []struct {
		keys [2]string
		cost int64
		want bool
	}{
		{[2]string{"k", "other"}, 2, false}, {[2]string{"k", "new"}, 2, false}, {[2]string{"new", "other"}, 4, false}, {[2]string{"k", "other"}, 0, true},
		{[2]string{"new", "newer"}, 0, true}, {[2]string{"new", "newer"}, 8, false},
	} {
		a, err := plan.Take(t.Context(), c.keys[:], c.cost)
		held, err2 := plan.Peek(t.Context(), []string{"k", "other"}, 1)
		if err != nil || err2 != nil || a.Allowed != c.want || !held.Allowed || held.Readings[0].Units != 4 || held.Readings[1].Units != 4 || s.Len() != 2 {
			t.Errorf("%d of %q: %v, %v; then %+v of %d keys", c.cost, c.keys, a.Allowed, err, held.Readings[:2], s.Len())
		}
	}
}

// TestGroupsNeverWaitForEachOther in a circle: keys in every order, the same key twice, refunds, sweeps, and evictions
// of a store too small, all at once.
func TestGroupsNeverWaitForEachOther(t *testing.T) {
	s := New(WithMaxKeys(5 * keysPerShard)) // eight shards
	if len(s.shards) < 4 {
		t.Fatalf("%d shards", len(s.shards))
	}
	small := New(WithMaxKeys(6))
	keys := strings.Split("abcdefghijkl", "")
	var wg sync.WaitGroup
	for _, s := range []*Store{s, small} {
		limiters, g := trio(t, s)
		for i := range 8 {
			wg.Go(func() {
				for j := range 400 {
					a, b, c := keys[(i+j)%12], keys[(5*i+7*j)%12], keys[(11*j)%12]
					d, err := g.Take(t.Context(), a, b, c)
					if err != nil {
						t.Error(err)
					}
					if j%3 == 0 {
						_ = g.Refund(t.Context(), &d)
					}
					if j%50 == 0 {
						s.Sweep()
						_ = limiters[0].Reset(t.Context(), b)
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("groups wait for each other")
	}
	if n := small.Len(); n > 6 {
		t.Errorf("%d keys are held, more than 6", n)
	}
}

// TestAGroupDecidesAtOneTime: the clock is read once, however many keys there are.
func TestAGroupDecidesAtOneTime(t *testing.T) {
	reads := 0
	s := New(WithMaxKeys(100_000), WithClock(func() time.Time { reads++; return time.UnixMilli(int64(reads)) }))
	_, g := trio(t, s)
	for i := range 20 {
		before := reads
		d, err := g.Take(t.Context(), fmt.Sprint("p", i), "q", "r")
		if err != nil || reads != before+1 || d.At() != time.UnixMilli(int64(reads)) {
			t.Errorf("%d readings of the clock, %v", reads-before, err)
		}
	}
}

// TestKeysOfAGroupGoByThemselves, as those of a limiter do.
func TestKeysOfAGroupGoByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		plan, err := s.BindJoint([][]slidegate.Limit{{slidegate.PerSecond(1).Named("a")}, {slidegate.PerSecond(1).Named("b")}})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := plan.Take(t.Context(), []string{"k", "other"}, 1); err != nil || !a.Allowed || s.Len() != 2 {
			t.Fatalf("%v, %v: %d keys", a.Allowed, err, s.Len())
		}
		<-time.After(3 * time.Second) // in the bubble, at once
		synctest.Wait()
		if s.Len() != 0 {
			t.Errorf("%d keys after their windows", s.Len())
		}
		s.Close()
	})
}

// TestAGroupSetsTheTimer to when the first of its keys is over, and leaves it where it opens nothing.
func TestAGroupSetsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		plan, err := s.BindJoint([][]slidegate.Limit{{slidegate.PerHour(9).Named("a")}, {slidegate.PerMinute(9).Named("b")}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if a, err := plan.Take(t.Context(), []string{"k", "other"}, 1); err != nil || !a.Allowed {
				t.Fatal(a.Allowed, err)
			}
			if wait := s.timer.at.Load() - s.now(); wait != 60_000 {
				t.Errorf("the timer goes off in %d ms, want a minute", wait)
			}
		}
		s.Close()
	})
}
