package memstore

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// TestEvictionKnowsALimitBoundMeanwhile: a limiter that is made while a full store makes room is
// one that the eviction can look up.
func TestEvictionKnowsALimitBoundMeanwhile(t *testing.T) {
	var s *Store
	calls := -1 // counted from 0 once the store is full
	s = New(WithMaxKeys(1), WithClock(func() time.Time {
		if calls >= 0 {
			calls++
		}
		if calls == 3 { // the sweep of a full store reads the clock, with no shard's lock held
			calls = -1
			slidegate.MustNew(s, slidegate.PerSecond(2)).Allow(ctx, "a")
		}
		return time.UnixMilli(0)
	}))
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	lim.Allow(ctx, "a")
	calls = 0
	if ok, err := lim.Allow(ctx, "b"); !ok || err != nil || calls != -1 {
		t.Errorf("%v, %v, %d", ok, err, calls)
	}
}

// TestDecayingCountersStayRanked: a counter's units fall with time, and that alone ranks nobody anew.
func TestDecayingCountersStayRanked(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(4096))
	lim := slidegate.MustNew(s, slidegate.Per(time.Hour, 1e9).Counter())
	for i := range 4096 {
		lim.TakeN(ctx, "fill"+strconv.Itoa(i), int64(10_000_000+i*400))
	}
	now = 3_660_000
	lim.Allow(ctx, "first") // ranks the keys
	sh := &s.shards[0]
	for i := range 50 {
		now++
		before := len(sh.soonest)
		lim.Allow(ctx, "new"+strconv.Itoa(i))
		if after := len(sh.soonest); after != before-1 {
			t.Fatalf("eviction %d: %d candidates became %d, want one fewer", i, before, after)
		}
	}
}

// TestEmptiedStoreHasNoTimer: also where a reset, not a sweep, took the last key.
func TestEmptiedStoreHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		lim := slidegate.MustNew(s, slidegate.PerMinute(1))
		d, _ := lim.Take(ctx, "a")
		if err := lim.Refund(ctx, &d); err != nil {
			t.Error(err)
		}
		lim.Allow(ctx, "a")
		if err := lim.Reset(ctx, "a"); err != nil {
			t.Error(err)
		}
		if s.timer.at.Load() != math.MaxInt64 || s.Len() != 0 {
			t.Error("the timer is on in an empty store")
		}
		lim.Allow(ctx, "b")
		<-time.After(62 * time.Second)
		synctest.Wait()
		if s.Len() != 0 || s.timer.at.Load() != math.MaxInt64 {
			t.Errorf("%d keys: the timer did not come back for them", s.Len())
		}
		s.Close()
	})
}

// TestAKeyThatCameLaterGoesSooner: who is evicted is judged among all keys, not among those that
// were there when they were last ranked.
func TestAKeyThatCameLaterGoesSooner(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(100))
	minute, hour := slidegate.MustNew(s, slidegate.PerMinute(1)), slidegate.MustNew(s, slidegate.PerHour(1))
	for i := range 101 { // the last evicts hour 0
		now++
		hour.Allow(ctx, "hour "+strconv.Itoa(i))
	}
	now++
	minute.Allow(ctx, "minute") // evicts hour 1
	now++
	hour.Allow(ctx, "hour 101") // has to evict the minute
	if d, _ := hour.Peek(ctx, "hour 2"); d.Allowed {
		t.Error("hour 2 went, though minute would be idle an hour sooner")
	}
}

// TestIdleToTheMillisecond: a counter is idle when its reset has run out, and so is a key whose newest
// charge was given back; both make room where nothing that counts may go.
func TestIdleToTheMillisecond(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(1), RefuseNewKeys())
	counter := slidegate.MustNew(s, slidegate.PerMinute(1).Counter())
	counter.Allow(ctx, "a")
	now = 60_000
	if ok, err := counter.Allow(ctx, "b"); ok || err == nil {
		t.Error("room was made of a key that counts")
	}
	now = 60_001
	if ok, err := counter.Allow(ctx, "b"); !ok {
		t.Error(err)
	}
	s = New(at(&now), WithMaxKeys(1), RefuseNewKeys())
	lim := slidegate.MustNew(s, slidegate.PerSecond(2))
	lim.Allow(ctx, "a")
	now += 900
	d, _ := lim.Take(ctx, "a")
	now += 100
	s.Sweep()
	if err := lim.Refund(ctx, &d); err != nil {
		t.Error(err)
	}
	now++
	if ok, err := lim.Allow(ctx, "b"); !ok {
		t.Error(err)
	}
}

// TestNobodyIsRefusedDuringASweep: while one caller drops what is idle, others wait for that.
func TestNobodyIsRefusedDuringASweep(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(50_000), RefuseNewKeys())
	lim := slidegate.MustNew(s, slidegate.PerSecond(1))
	for i := range 50_000 {
		lim.Allow(ctx, strconv.Itoa(i))
	}
	now = 1000
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			if _, err := lim.Allow(ctx, "new"+strconv.Itoa(g)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestLenNeverExceedsTheCap, not for a moment.
func TestLenNeverExceedsTheCap(t *testing.T) {
	s := New(WithMaxKeys(100))
	defer s.Close()
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	var done atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				lim.Allow(ctx, strconv.Itoa(g)+"-"+strconv.Itoa(i))
			}
			done.Store(true)
		})
	}
	for !done.Load() {
		if n := s.Len(); n > 100 {
			t.Errorf("%d keys, the cap is 100", n)
			break
		}
	}
	wg.Wait()
}

// TestClosedMidTakeIsNotAdmitted: what was found before room was made is no answer after Close.
func TestClosedMidTakeIsNotAdmitted(t *testing.T) {
	var s *Store
	var calls atomic.Int64
	s = New(WithMaxKeys(1), WithClock(func() time.Time {
		if calls.Add(1) == 3 {
			s.Close()
		}
		return time.UnixMilli(0)
	}))
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	lim.Allow(ctx, "a")
	calls.Store(1)
	if ok, err := lim.Allow(ctx, "b"); ok || !errors.Is(err, slidegate.ErrUnavailable) {
		t.Error(ok, err)
	}
}

// TestTheLighterOfTwoGoes: of keys that would be idle at one time, that with fewer units, whatever form its state has.
func TestTheLighterOfTwoGoes(t *testing.T) {
	for _, c := range []struct {
		limit        slidegate.Limit
		light, heavy int64
		earlier      int64 // units of the light one that have left
	}{
		{slidegate.Per(time.Minute, 100), 2, 3, 0},      // a few units
		{slidegate.Per(time.Minute, 100), 30, 31, 0},    // a ring
		{slidegate.Per(time.Minute, 100), 30, 31, 50},   // one from which more has left
		{slidegate.Per(time.Minute, 1e12), 5e9, 6e9, 0}, // a wide one
		{slidegate.Per(time.Minute, 100).Counter(), 4, 5, 0},
		{slidegate.Per(time.Minute, 1e12).Counter(), 5e9, 6e9, 0},
	} {
		for _, lightFirst := range []bool{true, false} {
			clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
			limiter := slidegate.MustNew(New(WithClock(clock.Now), WithMaxKeys(2)), c.limit)
			take := func(key string, cost int64) {
				if d, err := limiter.TakeN(t.Context(), key, cost); err != nil || !d.Allowed {
					t.Fatalf("%s: %v, %v", c.limit, d, err)
				}
			}
			charge := func(light, heavy int64) {
				if lightFirst {
					take("light", light)
				}
				take("heavy", heavy)
				if !lightFirst {
					take("light", light)
				}
			}
			if c.earlier > 0 {
				charge(c.earlier-1, 20)
				clock.Advance(time.Millisecond)
				charge(1, 1)
				clock.Advance(time.Minute)
			}
			charge(c.light-1, c.heavy-1)
			clock.Advance(time.Millisecond)
			charge(1, 1)
			take("new", 1)
			light, _ := limiter.Peek(t.Context(), "light")
			heavy, _ := limiter.Peek(t.Context(), "heavy")
			if light.Remaining() != c.limit.Quota || heavy.Remaining() != c.limit.Quota-c.heavy {
				t.Errorf("%s: of %d and %d units, %d and %d are counted", c.limit, c.light, c.heavy, c.limit.Quota-light.Remaining(), c.limit.Quota-heavy.Remaining())
			}
		}
	}
}

// TestAResetLeavesTheOthersToTheSweep: when one key of a shard goes, the others still go when they are over; and a sweep
// remembers when the next is due.
func TestAResetLeavesTheOthersToTheSweep(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
	s := New(WithClock(clock.Now), WithMaxKeys(keysPerShard))
	limiter := slidegate.MustNew(s, slidegate.PerSecond(1))
	for i := range 3 {
		limiter.Allow(t.Context(), strconv.Itoa(i))
		clock.Advance(time.Millisecond)
	}
	if err := limiter.Reset(t.Context(), "0"); err != nil || s.Len() != 2 {
		t.Fatalf("%v: %d keys", err, s.Len())
	}
	clock.Advance(998 * time.Millisecond)
	if n := s.Sweep(); n != 1 || s.shards[0].nextDue.Load() != clock.Now().UnixMilli()+1 {
		t.Errorf("%d keys of 2 were over, the next is due in %d ms, want 1 and 1", n, s.shards[0].nextDue.Load()-clock.Now().UnixMilli())
	}
	clock.Advance(time.Millisecond)
	if n := s.Sweep(); n != 1 || s.Len() != 0 {
		t.Errorf("%d more were over, and %d are left", n, s.Len())
	}
}

// TestWhoWasChargedSinceIsNotNext: a key that was found to be idle soon is looked at again before it goes, also where it
// has no more units than before.
func TestWhoWasChargedSinceIsNotNext(t *testing.T) {
	const keys = 64 // two of them are remembered as the soonest
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
	s := New(WithClock(clock.Now), WithMaxKeys(keys))
	limiter := slidegate.MustNew(s, slidegate.PerSecond(5))
	take := func(key int) { limiter.Allow(t.Context(), strconv.Itoa(key)) }
	held := func(key int) bool {
		d, err := limiter.Peek(t.Context(), strconv.Itoa(key))
		return err == nil && d.Remaining() < 5
	}
	for i := range keys {
		take(i)
		clock.Advance(time.Millisecond)
	}
	take(keys) // 0 goes for it, and 1 would be next
	clock.SetMilli(1_757_750_400_000 + 1001)
	take(1)
	take(keys + 1)
	if held(0) || !held(1) || held(2) || !held(3) {
		t.Errorf("held are 0: %v, 1: %v, 2: %v, 3: %v; want 1 and 3", held(0), held(1), held(2), held(3))
	}
}

// TestTheSoonestGoInTheirOrder: keys that are found at once to be idle soonest are evicted the soonest first, also before the epoch.
func TestTheSoonestGoInTheirOrder(t *testing.T) {
	const keys = 320 // ten of them are remembered
	for _, begin := range []int64{1_757_750_400_000, -1_757_750_400_000} {
		clock := gatetest.NewClock(time.UnixMilli(begin))
		s := New(WithClock(clock.Now), WithMaxKeys(keys))
		limiter := slidegate.MustNew(s, slidegate.PerMinute(5))
		for i := range keys {
			limiter.Allow(t.Context(), strconv.Itoa((i*7)%keys))
			clock.Advance(time.Millisecond)
		}
		for i := range 10 {
			limiter.Allow(t.Context(), "new"+strconv.Itoa(i))
			for j := range 12 {
				d, err := limiter.Peek(t.Context(), strconv.Itoa((j*7)%keys))
				if gone := d.Remaining() == 5; err != nil || gone != (j <= i) {
					t.Fatalf("after %d new keys, the %d. is gone: %v, %v", i+1, j, gone, err)
				}
			}
		}
	}
}
