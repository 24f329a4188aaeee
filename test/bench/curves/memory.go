package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/test/bench"
)

// roomy is a quota that nobody here uses up.
const roomy = 2_000_000_000

// calls are the decisions of a measurement, at least. A test takes fewer.
var calls = 200_000

// loop asks about keys, warm times as often as is measured before, and returns the CPU nanoseconds of a decision. All have to be admitted.
func loop(l bench.Limiter, keys []string, callers, warm int) func() (float64, error) {
	n := max(calls, len(keys))
	w := bench.Workload{Keys: func() []string { return keys }, Callers: callers, Verdict: bench.Allowed}
	w.Run(l, warm*n)
	return func() (float64, error) {
		start := bench.Processor()
		t := w.Run(l, n)
		took := bench.Processor() - start
		return float64(took) / float64(t.Calls), w.Check(&t)
	}
}

func steady(algorithm slidegate.Algorithm) func(int) (func() (float64, error), func()) {
	return func(quota int) (func() (float64, error), func()) {
		key := bench.Key(1)
		l := bench.Steady(algorithm, int64(quota), time.Minute, key)
		return func() (float64, error) {
			allowed, start := 0, bench.Processor()
			for range calls {
				if v, _ := l.Take(key); v == bench.Allowed {
					allowed++
				}
			}
			took := bench.Processor() - start
			if allowed < calls/4 || allowed > calls*3/4 {
				return 0, fmt.Errorf("%d of %d were allowed: the window does not slide", allowed, calls)
			}
			return float64(took) / float64(calls), nil
		}, l.Close
	}
}

// limitsOf are n limits that differ by name alone.
func limitsOf(n int, algorithm slidegate.Algorithm, quota int64, window time.Duration) []slidegate.Limit {
	limits := make([]slidegate.Limit, n)
	for i := range limits {
		limits[i] = slidegate.Per(window, quota).Named(string(rune('a' + i)))
		limits[i].Algorithm = algorithm
	}
	return limits
}

// ours is a limiter in memory whose answers are read in full.
func ours(limits ...slidegate.Limit) bench.Limiter {
	store, ctx := memstore.New(), context.Background()
	limiter := slidegate.MustNew(store, limits...)
	take := func(key string) (bench.Verdict, int64) {
		d, err := limiter.Take(ctx, key)
		switch {
		case err != nil:
			return bench.Failed, 0
		case !d.Allowed:
			return bench.Denied, 0
		}
		return bench.Allowed, d.Remaining() + int64(d.ResetAfter())
	}
	return bench.Limiter{Take: take, Close: func() { _ = store.Close() }}
}

func several(algorithm slidegate.Algorithm) func(int) (func() (float64, error), func()) {
	return func(n int) (func() (float64, error), func()) {
		l := ours(limitsOf(n, algorithm, roomy, time.Minute)...)
		return loop(l, bench.Hot(), 1, 1), l.Close
	}
}

// severalStores is what a program does that has several limits and the baseline: the first that refuses decides, and what the
// others have charged stays charged.
func severalStores(n int) (func() (float64, error), func()) {
	baseline, stores := bench.Find(bench.Baseline), make([]bench.Limiter, n)
	for i := range stores {
		stores[i] = baseline.Open(roomy, time.Minute)
	}
	take := func(key string) (v bench.Verdict, rest int64) {
		for i := range stores {
			if v, rest = stores[i].Take(key); v != bench.Allowed {
				return v, rest
			}
		}
		return v, rest
	}
	return loop(bench.Limiter{Take: take}, bench.Hot(), 1, 1), func() {
		for i := range stores {
			stores[i].Close()
		}
	}
}

// amongKeys measures a limiter of so many keys. All are asked about before.
func amongKeys(open func() bench.Limiter) func(int) (func() (float64, error), func()) {
	return func(n int) (func() (float64, error), func()) {
		l := open()
		return loop(l, bench.Uniform()[:n], 1, 1), l.Close
	}
}

// ofDays is a limiter of a day. Its log has a resolution of an hour, or it would grow while it is measured, the more the
// fewer keys there are.
func ofDays(algorithm slidegate.Algorithm) func() bench.Limiter {
	limit := slidegate.PerDay(roomy)
	if limit.Algorithm = algorithm; algorithm == slidegate.SlidingLog {
		limit.Resolution = time.Hour
	}
	return func() bench.Limiter { return ours(limit) }
}

func baselineOfDays() bench.Limiter {
	c := bench.Find(bench.Baseline)
	return c.Open(roomy, 24*time.Hour)
}

// together measures callers who are to run at the same time on so many cores. On a busy machine they take turns, and never meet: of
// up to five tries the one counts in which they had the most CPU for their time.
func together(cores int, measure func() (float64, error)) (cost float64, err error) {
	most := 0.0
	for range 5 {
		began, used := time.Now(), bench.Processor()
		c, err := measure()
		if err != nil {
			return 0, err
		}
		had := float64(bench.Processor()-used) / float64(time.Since(began))
		if had > most {
			most, cost = had, c
		}
		if most > 0.9*float64(cores) {
			break
		}
	}
	return cost, nil
}

// brief is a window that is over, and slides, before it is measured: a log has as many entries as it will ever have.
const brief = 100 * time.Millisecond

// hotAndMany are lines of one key and of many, with so many processors and callers at x.
func hotAndMany(processors, callers func(x int) int) (all []line) {
	for _, c := range []struct {
		name, contender string
		ink             ink
		window          time.Duration
	}{
		{"log", bench.LogTake, ofLog, brief},
		{"counter", bench.CounterTake, ofCounter, brief},
		{"go-limiter", bench.Baseline, ofRival, 24 * time.Hour}, // beyond its window it has less room than this quota
	} {
		open := func(keys func() []string) func(int) (func() (float64, error), func()) {
			return func(x int) (func() (float64, error), func()) {
				contender := bench.Find(c.contender)
				l := contender.Open(roomy, c.window)
				measure := loop(l, keys(), callers(x), 10)
				return func() (float64, error) {
					before := runtime.GOMAXPROCS(processors(x))
					defer runtime.GOMAXPROCS(before)
					return together(min(callers(x), processors(x)), measure)
				}, l.Close
			}
		}
		all = append(all,
			line{c.name + ", one key", c.ink, false, open(bench.Hot)},
			line{c.name + ", many keys", c.ink, true, open(bench.TenThousand)})
	}
	return all
}
