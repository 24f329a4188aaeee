package memstore

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// TestShardsFollowTheCap: one for every keysPerShard keys, in powers of two, and together they have every key.
func TestShardsFollowTheCap(t *testing.T) {
	for _, c := range []struct{ keys, shards int }{
		{1, 1}, {keysPerShard, 1}, {keysPerShard + 1, 2}, {2 * keysPerShard, 2}, {2*keysPerShard + 1, 4},
		{DefaultMaxKeys, 256}, {maxShards * keysPerShard, maxShards}, {1 << 30, maxShards},
	} {
		s := New(WithMaxKeys(c.keys))
		if len(s.shards) != c.shards {
			t.Errorf("%d shards for %d keys, want %d", len(s.shards), c.keys, c.shards)
			continue
		}
		if s.shard(print{0, 1}) != &s.shards[0] || s.shard(print{math.MaxUint64, 1}) != &s.shards[c.shards-1] {
			t.Errorf("%d keys: the first and the last print are not in the first and the last shard", c.keys)
		}
		for i := range s.shards {
			if due := s.shards[i].nextDue.Load(); due != math.MaxInt64 {
				t.Fatalf("shard %d is empty, and due at %d", i, due)
			}
		}
	}
}

// TestAPrintIsNeverThatOfAnEmptySlot, and its halves say different things of a key.
func TestAPrintIsNeverThatOfAnEmptySlot(t *testing.T) {
	for _, c := range []struct{ high, low, want uint64 }{{5, 0, 1}, {5, 1, 1}, {5, 2, 2}, {0, 0, 1}, {math.MaxUint64, math.MaxUint64, math.MaxUint64}} {
		if got := newPrint(c.high, c.low); got != (print{c.high, c.want}) {
			t.Errorf("%d, %d: %v, want low %d", c.high, c.low, got, c.want)
		}
	}
	a, b := New(), New()
	if p, q := a.print("k"), b.print("k"); p.high == p.low || p.high == q.high || p.low == q.low {
		t.Errorf("one key in two stores is %x and %x", p, q)
	}
}

// TestRoomIsMadeAtAnyTime: a store looks for what is idle also where it never did before and its clock reads 0.
func TestRoomIsMadeAtAnyTime(t *testing.T) {
	for _, idle := range []int64{-1, 0, 1, maxTime} {
		now := idle - 1000
		s := New(at(&now), WithMaxKeys(1), RefuseNewKeys())
		lim := slidegate.MustNew(s, slidegate.PerSecond(1))
		lim.Allow(ctx, "a")
		now = idle
		if ok, err := lim.Allow(ctx, "b"); !ok {
			t.Errorf("at %d: %v", now, err)
		}
	}
}

// TestRoomIsMadeInAnotherShard where a new key's own has none to evict.
func TestRoomIsMadeInAnotherShard(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(4*keysPerShard))
	s.maxKeys = 1
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	for i := range 50 {
		if ok, err := lim.Allow(ctx, strconv.Itoa(i)); !ok || s.Len() != 1 {
			t.Fatalf("key %d: %v, %v; %d keys are held", i, ok, err, s.Len())
		}
	}
	if got := s.Stats(); got != (Stats{Keys: 1, Evicted: 49}) {
		t.Errorf("%+v, want 49 evicted", got)
	}
}

// TestRoomThatOthersMake is used, whenever they make it: nobody is evicted for nothing, or refused.
func TestRoomThatOthersMake(t *testing.T) {
	for _, c := range []struct {
		keys, reading int // of the clock, in the course of a request
		when          string
	}{
		{2, 2, "before a request makes room"},
		{1, 3, "while it drops what is idle"},
	} {
		var lim *slidegate.Limiter
		readings := math.MinInt
		s := New(WithMaxKeys(c.keys), WithClock(func() time.Time {
			if readings++; readings == c.reading {
				lim.Reset(ctx, "0")
			}
			return time.UnixMilli(0)
		}))
		lim = slidegate.MustNew(s, slidegate.PerHour(1))
		for i := range c.keys {
			lim.Allow(ctx, strconv.Itoa(i))
		}
		readings = 0
		if ok, err := lim.Allow(ctx, "new"); !ok || s.Stats() != (Stats{Keys: c.keys}) {
			t.Errorf("%s: %v, %v, %+v", c.when, ok, err, s.Stats())
		}
	}
}

// TestAFloodIsSweptForOnceAMillisecond: what was looked through at this time is not looked through again.
func TestAFloodIsSweptForOnceAMillisecond(t *testing.T) {
	now, readings := int64(0), 0
	s := New(WithMaxKeys(1), WithClock(func() time.Time { readings++; return time.UnixMilli(now) }))
	lim := slidegate.MustNew(s, slidegate.PerHour(1))
	lim.Allow(ctx, "first")
	for i, want := range []int{4, 3, 3} { // before, to make room, to sweep, and after
		readings = 0
		if lim.Allow(ctx, strconv.Itoa(i)); readings != want {
			t.Errorf("new key %d reads the clock %d times, want %d", i, readings, want)
		}
	}
	now, readings = 1, 0
	if lim.Allow(ctx, "later"); readings != 4 {
		t.Errorf("a millisecond later a new key reads the clock %d times, want 4", readings)
	}
}

// TestAnIdleKeyIsNoEviction: one that has become idle since a full store was swept, as its newest charge was given back, goes
// first, and nothing that counted was forgotten.
func TestAnIdleKeyIsNoEviction(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(2))
	lim := slidegate.MustNew(s, slidegate.PerSecond(2))
	lim.Allow(ctx, "a")
	now = 900
	d, err := lim.Take(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	lim.Allow(ctx, "b")
	now = 1000
	lim.Allow(ctx, "c") // for b, which has fewer units
	if err := lim.Refund(ctx, &d); err != nil {
		t.Fatal(err)
	}
	lim.Allow(ctx, "d")
	if got := s.Stats(); got != (Stats{Keys: 2, Evicted: 1, Swept: 1}) {
		t.Errorf("%+v, want one evicted and one swept", got)
	}
	for _, key := range []string{"c", "d"} {
		if d, _ := lim.Peek(ctx, key); d.Remaining() != 1 {
			t.Errorf("%q was forgotten", key)
		}
	}
}

// TestAnEmptiedShardKeepsNoTable but the smallest, when the last of its keys is reset; until then it keeps what it has.
func TestAnEmptiedShardKeepsNoTable(t *testing.T) {
	for keys, want := range map[int]int{1: minSlots, 6: minSlots, 7: 0, 300: 0} {
		now := int64(0)
		s := New(at(&now), WithMaxKeys(keysPerShard))
		lim, sh := slidegate.MustNew(s, slidegate.PerHour(1)), &s.shards[0]
		for i := range keys {
			lim.Allow(ctx, strconv.Itoa(i))
		}
		full := len(sh.slots)
		for i := range keys - 1 {
			lim.Reset(ctx, strconv.Itoa(i))
		}
		if len(sh.slots) != full || s.Len() != 1 || sh.nextDue.Load() != time.Hour.Milliseconds() {
			t.Errorf("one key of %d is left, of %d slots %d, due at %d", keys, full, len(sh.slots), sh.nextDue.Load())
		}
		lim.Reset(ctx, strconv.Itoa(keys-1))
		if len(sh.slots) != want || s.Len() != 0 || sh.nextDue.Load() != math.MaxInt64 {
			t.Errorf("no key of %d is left, of %d slots %d, want %d, due at %d", keys, full, len(sh.slots), want, sh.nextDue.Load())
		}
	}
}

// TestACostOfNothingIsAllowed by each way to ask, also in a limit that is exceeded, and leaves nothing.
func TestACostOfNothingIsAllowed(t *testing.T) {
	for _, l := range []slidegate.Limit{slidegate.PerMinute(40).Named("x"), slidegate.PerMinute(40).Named("x").Counter()} {
		for _, charges := range [][]int64{nil, {9}, {5, 5}, {15, 15}} {
			now := int64(1_757_750_400_000)
			s := New(at(&now))
			large, other := slidegate.MustNew(s, l), slidegate.PerHour(9)
			for _, units := range charges {
				now++
				large.TakeN(ctx, "k", units)
			}
			l.Quota = 3 // so it is exceeded
			for _, limits := range [][]slidegate.Limit{{l}, {l, other}} {
				plan, err := s.Bind(limits)
				if err != nil {
					t.Fatal(err)
				}
				small, quick := slidegate.MustNew(s, limits...), plan.(slidegate.QuickPlan)
				now++
				taken, err1 := small.TakeN(ctx, "k", 0)
				looked, err2 := small.PeekN(ctx, "k", 0)
				allowed, err3 := quick.Allow(ctx, "k", 0)
				one, _, _, err4 := quick.TakeOne(ctx, "k", 0)
				if !taken.Allowed || !looked.Allowed || !allowed || !one || err1 != nil || err2 != nil || err3 != nil || err4 != nil {
					t.Errorf("%s after %v: %v, %v, %v, %v", l, charges, taken.Allowed, looked.Allowed, allowed, one)
				}
			}
			if s.Len() != min(1, len(charges)) {
				t.Errorf("%d keys are held", s.Len())
			}
			l.Quota = 40
		}
	}
}

// TestADecisionThatHadToMakeRoomReadsAfresh: what it had found before is not what it charges.
func TestADecisionThatHadToMakeRoomReadsAfresh(t *testing.T) {
	now, readings := int64(0), math.MinInt
	var a *slidegate.Limiter
	s := New(WithMaxKeys(2), WithClock(func() time.Time {
		if readings++; readings == 2 { // as room is made, another request drops what has left
			a.Allow(ctx, "k")
		}
		if readings > 0 {
			now++
		}
		return time.UnixMilli(now)
	}))
	a = slidegate.MustNew(s, slidegate.PerSecond(90).Named("a"))
	b := slidegate.MustNew(s, slidegate.PerSecond(90).Named("b"))
	g, err := slidegate.NewGroup(a, b)
	if err != nil {
		t.Fatal(err)
	}
	a.TakeN(ctx, "k", 20)
	now = 500
	b.TakeN(ctx, "goes", 1)
	a.TakeN(ctx, "k", 20)
	now = 600
	a.TakeN(ctx, "k", 1)
	now, readings = 1000, 0
	d, err := g.Take(ctx, "k", "new")
	left, err2 := a.Peek(ctx, "k")
	if said, units := 90-d.State(0).Remaining, 90-left.Remaining(); err != nil || err2 != nil || said != 20+1+1+1 || units != said {
		t.Errorf("%v, %v: %d units are said to count, and %d do, want 23", err, err2, said, units)
	}
	if got := s.Stats(); got != (Stats{Keys: 2, Evicted: 1}) {
		t.Errorf("%+v", got)
	}
}

// TestOnlyWhatIsThereIsCharged at first: the number of states tells whether any has to be opened.
func TestOnlyWhatIsThereIsCharged(t *testing.T) {
	now := int64(0)
	s := New(at(&now), WithMaxKeys(keysPerShard))
	limits := []slidegate.Limit{slidegate.PerHour(5).Named("a"), slidegate.PerHour(6).Named("b"), slidegate.PerDay(7).Named("c")}
	for held := range 4 {
		key := strconv.Itoa(held)
		if held > 0 {
			slidegate.MustNew(s, limits[:held]...).Allow(ctx, key)
		}
		bound, err := s.Bind(limits)
		if err != nil {
			t.Fatal(err)
		}
		p, sh := bound.(*plan), &s.shards[0]
		var answer slidegate.Answer
		var found [slidegate.MaxLimits]finding
		p.decide(sh, sh.find(s.print(key)), 1, &answer, &found)
		if n := p.chargeFound(sh, &answer, 1, &found); n != held {
			t.Errorf("%d states are charged, want %d", n, held)
		}
	}
}
