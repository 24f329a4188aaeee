package bench

import (
	"context"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// The names of our contenders.
const (
	LogTake      = "slidegate-log-Take"
	LogAllow     = "slidegate-log-Allow"
	CounterTake  = "slidegate-counter-Take"
	CounterAllow = "slidegate-counter-Allow"
	Log3Take     = "slidegate-3-logs-Take"
	Counter3Take = "slidegate-3-counters-Take"
	Mixed3Take   = "slidegate-3-mixed-Take"
)

func ours() []Contender {
	log := func(quota int64, window time.Duration) []slidegate.Limit {
		return []slidegate.Limit{slidegate.Per(window, quota)}
	}
	counter := func(quota int64, window time.Duration) []slidegate.Limit {
		return []slidegate.Limit{slidegate.Per(window, quota).Counter()}
	}
	return []Contender{
		{Name: LogTake, Open: open(log, take)},
		{Name: LogAllow, Open: open(log, allow)},
		{Name: CounterTake, Open: open(counter, take)},
		{Name: CounterAllow, Open: open(counter, allow)},
	}
}

// OursOfThree returns limiters of three limits, to be held against those of one.
func OursOfThree() []Contender {
	three := func(counters ...bool) func(int64, time.Duration) []slidegate.Limit {
		return func(quota int64, window time.Duration) []slidegate.Limit {
			limits := make([]slidegate.Limit, len(counters))
			for i, counter := range counters {
				limits[i] = slidegate.Per(window<<i, quota+int64(i)).Named(string(rune('a' + i)))
				if counter {
					limits[i] = limits[i].Counter()
				}
			}
			return limits
		}
	}
	return []Contender{
		{Name: Log3Take, Open: open(three(false, false, false), take)},
		{Name: Counter3Take, Open: open(three(true, true, true), take)},
		{Name: Mixed3Take, Open: open(three(false, true, true), take)},
	}
}

type asking func(*slidegate.Limiter) func(string) (Verdict, int64)

func open(limits func(int64, time.Duration) []slidegate.Limit, ask asking) func(int64, time.Duration) Limiter {
	return func(quota int64, window time.Duration) Limiter {
		store := memstore.New()
		limiter := slidegate.MustNew(store, limits(quota, window)...)
		return Limiter{Take: ask(limiter), Close: func() { _ = store.Close() }}
	}
}

// take reads what a caller who sends header fields reads.
func take(l *slidegate.Limiter) func(string) (Verdict, int64) {
	ctx := context.Background()
	return func(key string) (Verdict, int64) {
		d, err := l.Take(ctx, key)
		return verdict(d.Allowed, err), d.Remaining() + int64(d.ResetAfter())
	}
}

func allow(l *slidegate.Limiter) func(string) (Verdict, int64) {
	ctx := context.Background()
	return func(key string) (Verdict, int64) {
		allowed, err := l.Allow(ctx, key)
		return verdict(allowed, err), 0
	}
}

// Steady returns a limiter on a clock of its own that moves with every decision. One key has filled
// its window evenly and asks twice as often as it may: half of its requests are admitted, and each of
// those drops what it replaces.
func Steady(algorithm slidegate.Algorithm, quota int64, window time.Duration, key string) Limiter {
	now, step := time.UnixMilli(1_000_000_000_000), window/time.Duration(quota)
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limit := slidegate.Per(window, quota)
	limit.Algorithm = algorithm
	decide := take(slidegate.MustNew(store, limit))
	l := Limiter{
		Take: func(key string) (Verdict, int64) {
			now = now.Add(step)
			return decide(key)
		},
		Close: func() { _ = store.Close() },
	}
	for range 2 * quota {
		l.Take(key)
	}
	step /= 2
	for range quota {
		l.Take(key)
	}
	return l
}
