package migrate

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// What is measured is a limit of 100 in 2 s.
const (
	quota  = 100
	window = 2 * time.Second
)

// A counting decides a request at the time that it is, and is ended.
type counting struct {
	take func() bool
	end  func()
}

// countings are the limiters that keep their state in memory, as programs would make them.
var countings = map[string]func() counting{
	"slidegate": func() counting {
		store := memstore.New()
		limiter := slidegate.MustNew(store, slidegate.Per(window, quota))
		return counting{func() bool { ok, err := limiter.Allow(context.Background(), "k"); return ok && err == nil }, func() { _ = store.Close() }}
	},
	"httprate": func() counting {
		limit := httprate.LimitBy(quota, window, httprate.Key("k"))(served)
		return counting{func() bool { return ask(limit, "203.0.113.7").Code == http.StatusOK }, func() {}}
	},
	"ulule/limiter": func() counting {
		store := ululestore.NewStoreWithOptions(ulule.StoreOptions{Prefix: "k"}) // without a sweep, which never ends
		limiter := ulule.New(store, ulule.Rate{Limit: quota, Period: window})
		return counting{func() bool { r, err := limiter.Get(context.Background(), "k"); return !r.Reached && err == nil }, func() {}}
	},
	"throttled": func() counting {
		store, err := throttledstore.NewCtx(0)
		if err != nil {
			panic(err)
		}
		limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(quota, window), MaxBurst: quota - 1})
		if err != nil {
			panic(err)
		}
		return counting{func() bool {
			full, _, err := limiter.RateLimitCtx(context.Background(), "k", 1)
			return !full && err == nil
		}, func() {}}
	},
	"golang.org/x/time/rate": func() counting {
		return counting{rate.NewLimiter(quota/2, quota).Allow, func() {}}
	},
}

// through returns the most that gets through one true window by a few patterns: one that begins at some moment, takes one unit if it
// touches, waits, and then asks at every millisecond for two windows and a half.
func through(make func() counting) (most int) {
	for _, begin := range []time.Duration{0, 1999 * time.Millisecond} {
		for _, touches := range []bool{false, true} {
			for _, wait := range []time.Duration{0, 1999 * time.Millisecond, 3999 * time.Millisecond} {
				most = max(most, pattern(make, begin, touches, wait))
			}
		}
	}
	return most
}

// pattern makes a limiter at an edge of the clock's windows, and asks it.
func pattern(make func() counting, begin time.Duration, touches bool, wait time.Duration) (most int) {
	<-time.After(time.Until(time.Now().Truncate(window).Add(window)))
	c := make()
	defer c.end()
	<-time.After(begin)
	var admitted []int
	at := func(requests int) {
		n := 0
		for n < requests && c.take() {
			n++
		}
		admitted = append(admitted, n)
		<-time.After(time.Millisecond)
	}
	if touches {
		at(1)
	}
	for range wait / time.Millisecond {
		at(0)
	}
	for range 5 * window / 2 / time.Millisecond {
		at(2 * quota)
	}
	in := 0
	for i, n := range admitted {
		if in += n; i >= int(window/time.Millisecond) {
			in -= admitted[i-int(window/time.Millisecond)]
		}
		most = max(most, in)
	}
	return most
}

// TestWorstWindowsOfOthers: what docs/alternatives.md says that each lets through one true window of 100 in 2 s. It is
// measured on their own code, on a clock that stands still between two milliseconds. More may be possible than these patterns find.
func TestWorstWindowsOfOthers(t *testing.T) {
	want := map[string]int{"slidegate": 100, "httprate": 200, "ulule/limiter": 199, "throttled": 199, "golang.org/x/time/rate": 199}
	for name, make := range countings {
		synctest.Test(t, func(t *testing.T) {
			if got := through(make); got != want[name] {
				t.Errorf("%s: %d get through one window, want %d", name, got, want[name])
			}
		})
	}
}

// TestWorstWindowOfGoLimiter: it reads a clock that cannot be made to stand still, so the edge of its window is waited for,
// until 200 units have come through within less than a window of 100.
func TestWorstWindowOfGoLimiter(t *testing.T) {
	const interval = 200 * time.Millisecond
	ctx := t.Context()
	store, err := memorystore.New(&memorystore.Config{Tokens: quota, Interval: interval})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(ctx)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		_, _, edge, _, err := store.Take(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(time.Unix(0, int64(edge)).Add(interval - 10*time.Millisecond))) // near the end of a window in which nothing was taken
		began, admitted := time.Now(), 0
		for time.Since(began) < interval/4 {
			if _, _, _, ok, err := store.Take(ctx, "k"); ok && err == nil {
				admitted++
			}
		}
		if admitted == 2*quota && time.Since(began) < interval {
			return
		}
	}
	t.Error("200 units in a quarter of a window were not seen in a minute")
}
