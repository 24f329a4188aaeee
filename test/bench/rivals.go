package bench

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

func rivals() []Contender {
	return []Contender{
		{Name: Baseline, Open: openGoLimiter, OpenSweeping: openGoLimiterSweeping},
		{Name: "httprate", Open: openHTTPRate},
		{Name: "throttled", Open: openThrottled},
		{Name: "x-time-rate", Open: openTimeRate},
		{Name: "ulule", Open: openUlule, OpenSweeping: openUluleSweeping},
		{Name: "tollbooth", Open: openTollbooth},
	}
}

func nothing() {}

func openGoLimiter(quota int64, window time.Duration) Limiter {
	return goLimiter(&memorystore.Config{Tokens: uint64(quota), Interval: window})
}

func openGoLimiterSweeping(quota int64, window time.Duration) Limiter {
	return goLimiter(&memorystore.Config{Tokens: uint64(quota), Interval: window, SweepInterval: window, SweepMinTTL: 2 * window})
}

func goLimiter(config *memorystore.Config) Limiter {
	ctx := context.Background()
	store := must(memorystore.New(config))
	return Limiter{
		Take: func(key string) (Verdict, int64) {
			_, remaining, reset, ok, err := store.Take(ctx, key)
			return verdict(ok, err), int64(remaining + reset)
		},
		Close: func() { _ = store.Close(ctx) },
	}
}

// openHTTPRate decides with the counter of httprate in the steps of its RateLimiter.OnLimit, and
// spares it the second reading of the clock and the header fields.
func openHTTPRate(quota int64, window time.Duration) Limiter {
	var mu sync.Mutex
	counter := httprate.NewLocalLimitCounter(window)
	take := func(key string) (Verdict, int64) {
		now := time.Now().UTC()
		current := now.Truncate(window)
		mu.Lock()
		defer mu.Unlock()
		cur, prev, err := counter.Get(key, current, current.Add(-window))
		used := float64(prev)*float64(window-now.Sub(current))/float64(window) + float64(cur)
		left := quota - int64(math.Round(used))
		if err != nil || left < 1 {
			return verdict(false, err), left
		}
		err = counter.IncrementBy(key, current, 1)
		return verdict(true, err), left - 1
	}
	return Limiter{Take: take, Close: nothing}
}

func openThrottled(quota int64, window time.Duration) Limiter {
	ctx := context.Background()
	limiter := must(throttled.NewGCRARateLimiterCtx(must(throttledstore.NewCtx(0)), throttledQuota(quota, window)))
	take := func(key string) (Verdict, int64) {
		limited, result, err := limiter.RateLimitCtx(ctx, key, 1)
		return verdict(!limited, err), int64(result.Remaining) + int64(result.ResetAfter)
	}
	return Limiter{Take: take, Close: nothing}
}

func throttledQuota(quota int64, window time.Duration) throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerDuration(int(quota), window), MaxBurst: int(quota - 1)}
}

// openTimeRate is what programs write around golang.org/x/time/rate.
func openTimeRate(quota int64, window time.Duration) Limiter {
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{}
	each := rate.Limit(float64(quota) / window.Seconds())
	take := func(key string) (Verdict, int64) {
		mu.Lock()
		limiter, ok := limiters[key]
		if !ok {
			limiter = rate.NewLimiter(each, int(quota))
			limiters[key] = limiter
		}
		mu.Unlock()
		return verdict(limiter.Allow(), nil), 0
	}
	return Limiter{Take: take, Close: nothing}
}

func openUlule(quota int64, window time.Duration) Limiter {
	return ululeLimiter(ululestore.NewStore(), quota, window)
}

func openUluleSweeping(quota int64, window time.Duration) Limiter {
	options := ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: window}
	return ululeLimiter(ululestore.NewStoreWithOptions(options), quota, window)
}

func ululeLimiter(store ulule.Store, quota int64, window time.Duration) Limiter {
	ctx := context.Background()
	limiter := ulule.New(store, ulule.Rate{Limit: quota, Period: window})
	take := func(key string) (Verdict, int64) {
		result, err := limiter.Get(ctx, key)
		return verdict(!result.Reached, err), result.Remaining + result.Reset
	}
	return Limiter{Take: take, Close: nothing}
}

func openTollbooth(quota int64, window time.Duration) Limiter {
	limiter := tollboothLimiter(quota, window)
	return Limiter{
		Take:  func(key string) (Verdict, int64) { return verdict(!limiter.LimitReached(key), nil), 0 },
		Close: nothing,
	}
}

// tollboothLimiter has the burst of a window: its rates are a second.
func tollboothLimiter(quota int64, window time.Duration) *tollboothlimiter.Limiter {
	options := &tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: window}
	return tollbooth.NewLimiter(float64(quota)/window.Seconds(), options).SetBurst(int(quota))
}
