package test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAMillionOneShotKeysLeaveNothing: their windows over, the heap is back where it began, for
// logs and counters, one limit or three.
func TestAMillionOneShotKeysLeaveNothing(t *testing.T) {
	for name, limits := range map[string][]slidegate.Limit{
		"log":     {slidegate.PerSecond(5)},
		"counter": {slidegate.PerSecond(5).Counter()},
		"three":   {slidegate.PerSecond(5), slidegate.Per(2*time.Second, 5), slidegate.Per(3*time.Second, 5).Counter()},
	} {
		t.Run(name, func(t *testing.T) {
			const keys = 1_000_000
			l, clock, store := newStore(t, limits...)
			before := heap()
			for i := range keys {
				if ok, err := l.Allow(background, "user:"+strconv.Itoa(i)); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			full := heap()
			clock.Advance(10 * time.Second)
			if n := store.Sweep(); n != keys || store.Len() != 0 {
				t.Errorf("%d keys swept, %d left", n, store.Len())
			}
			after := heap()
			t.Logf("%d bytes a key; %d bytes before, %d after", (full-before)/keys, before, after)
			if after > before+before/10 || after > before+(full-before)/50 {
				t.Errorf("%d bytes of heap when all is idle; it began with %d and grew to %d", after, before, full)
			}
			runtime.KeepAlive(store)
		})
	}
}

// TestAFullLogIsSmall: a log holds an entry for each distinct time, never one for each unit.
func TestAFullLogIsSmall(t *testing.T) {
	const logs = 100
	fill := func(l *slidegate.Limiter, cost int64, times int, advance func()) {
		for range times {
			for i := range logs {
				if d, err := l.TakeN(background, strconv.Itoa(i), cost); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
			}
			advance()
		}
	}
	for _, c := range []struct {
		what  string
		limit slidegate.Limit
		cost  int64
		times int
		most  int64 // bytes a log
	}{
		{"a thousand times", slidegate.PerHour(1000), 1, 1000, 9*1000 + 400},
		{"one time of a million units", slidegate.PerHour(1_000_000), 1_000_000, 1, 400},
		{"a resolution of a minute", slidegate.PerHour(1_000_000).WithResolution(time.Minute), 1, 3000, 9*61 + 400},
	} {
		l, clock, store := newStore(t, c.limit)
		before := heap()
		fill(l, c.cost, c.times, func() { clock.Advance(time.Second) })
		if a := (heap() - before) / logs; a > c.most {
			t.Errorf("%s: %d bytes a log, more than %d", c.what, a, c.most)
		}
		runtime.KeepAlive(store)
	}
}

// TestDecisionsAllocateNothing, admitted or refused, for one limit and for three, among many keys.
// The clock stands still: a log's first further time needs a ring, once.
func TestDecisionsAllocateNothing(t *testing.T) {
	const keys = 100_000
	names := make([]string, keys)
	for i := range names {
		names[i] = "user:" + strconv.Itoa(i)
	}
	for _, c := range []struct {
		what   string
		limits []slidegate.Limit
	}{
		{"one log", []slidegate.Limit{slidegate.PerHour(1_000_000)}},
		{"one counter", []slidegate.Limit{slidegate.PerHour(1_000_000).Counter()}},
		{"three", []slidegate.Limit{slidegate.PerMinute(1_000_000), slidegate.PerHour(1_000_000), slidegate.PerDay(1_000_000).Counter()}},
		{"one log, refused", []slidegate.Limit{slidegate.PerHour(1)}},
		{"one counter, refused", []slidegate.Limit{slidegate.PerHour(1).Counter()}},
		{"three, refused", []slidegate.Limit{slidegate.PerMinute(1_000_000), slidegate.PerHour(1), slidegate.PerDay(1_000_000).Counter()}},
	} {
		l, _, store := newStore(t, c.limits...)
		for _, name := range names {
			if _, err := l.Allow(background, name); err != nil {
				t.Fatal(err)
			}
		}
		i := 0
		next := func() string { i = (i + 7919) % keys; return names[i] }
		for verb, f := range map[string]func(){
			"Allow": func() { l.Allow(background, next()) },
			"Take": func() {
				d, _ := l.Take(background, next())
				_, _, _ = d.Remaining(), d.RetryAfter(), d.ResetAfter()
			},
			"Peek": func() { l.Peek(background, next()) },
		} {
			if n := testing.AllocsPerRun(2000, f); n != 0 {
				t.Errorf("%s: %s allocates %v times", c.what, verb, n)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASlidingLogAllocatesNothing once it has been as full as it gets: every charge drops what has
// left and records a new time.
func TestASlidingLogAllocatesNothing(t *testing.T) {
	l, clock := newLimiter(t, slidegate.Per(100*time.Millisecond, 60), slidegate.Per(300*time.Millisecond, 170))
	admitted := 0
	ask := func() {
		clock.Advance(time.Millisecond)
		if d, _ := l.Take(background, "a"); d.Allowed {
			admitted++
		}
	}
	for range 1000 {
		ask()
	}
	if n := testing.AllocsPerRun(5000, ask); n != 0 || admitted < 2000 {
		t.Errorf("%v allocations a decision, %d admitted", n, admitted)
	}
}

// TestRefusalsOfALargeLogWriteNothing: they move and allocate nothing, however much the log holds.
func TestRefusalsOfALargeLogWriteNothing(t *testing.T) {
	const quota = 100_000
	l, clock, store := newStore(t, slidegate.PerDay(quota))
	for range quota {
		clock.Advance(time.Millisecond)
		if ok, _ := l.Allow(background, "a"); !ok {
			t.Fatal("refused within the quota")
		}
	}
	before := heap()
	n := testing.AllocsPerRun(10_000, func() {
		clock.Advance(time.Millisecond)
		if d, _ := l.TakeN(background, "a", 50_000); d.Allowed {
			t.Fatal("admitted beyond the quota")
		}
	})
	if after := heap(); n != 0 || after > before+before/10 {
		t.Errorf("%v allocations a refusal; heap %d, then %d", n, before, after)
	}
	runtime.KeepAlive(store)
}
