package redisfaults_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// TestAFallbackDecidesInEveryOutage: whatever it is, every request is decided and in time, the backup admits its share, and
// when Redis is back all that it holds and all that the backup admitted stay within the quota.
func TestAFallbackDecidesInEveryOutage(t *testing.T) {
	t.Parallel()
	const quota, share, before = 40, 20, 10
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t, redistest.With("maxmemory-policy", "noeviction"))
			proxy := redistest.NewProxy(t, server.Addr)
			redis := redisstore.New(clients[0].connect(t, through(proxy)), redisstore.WithTimeout(timeout), redisstore.WithLogger(slog.New(slog.DiscardHandler)))
			memory := memstore.New()
			t.Cleanup(func() { _ = memory.Close() })
			circuit := wrap.Circuit(redis, wrap.WithFailures(1), wrap.WithProbeInterval(100*time.Millisecond))
			store := wrap.Fallback(wrap.Denials(circuit), memory, wrap.WithShare(share, quota))
			l := slidegate.MustNew(store, slidegate.PerHour(quota).Named("hour"))

			c := &crowd{Limiter: l}
			for range before {
				c.take(t)
			}
			decided := store.Stats().Decided
			o.begin(server, proxy)
			c.takeFor(t, 300*time.Millisecond)
			if store.Stats().Decided == decided {
				t.Error("the backup was not asked")
			}
			if c.admitted > before+share {
				t.Errorf("%d were admitted before, and by a share of %d: %d", before, share, c.admitted)
			}
			o.end(server, proxy)
			redistest.Await(t, backIn+5*slack, "what is owed is taken over", func() bool {
				c.take(t)
				return store.Stats().Owed == 0 && circuit.State() == wrap.Closed
			})
			c.takeFor(t, 100*time.Millisecond)
			most := int64(quota)
			if o.forgets {
				most += before
			}
			if c.admitted > most || c.admitted < before+share {
				t.Errorf("%d were admitted in all, want %d at most", c.admitted, most)
			}
			if c.worst > timeout+slack {
				t.Errorf("an answer after %s, the timeout is %s", c.worst, timeout)
			}
		})
	}
}

// A crowd asks for one key, and is always to be answered.
type crowd struct {
	*slidegate.Limiter
	mu       sync.Mutex
	admitted int64
	worst    time.Duration
}

func (c *crowd) take(t *testing.T) {
	start := time.Now()
	d, err := c.Take(context.Background(), key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worst = max(c.worst, time.Since(start))
	if err != nil {
		t.Errorf("a request was not decided: %v", err)
	}
	if d.Allowed {
		c.admitted++
	}
}

// takeFor takes from four callers, each at most every two milliseconds, until the time is over.
func (c *crowd) takeFor(t *testing.T, d time.Duration) {
	end := time.Now().Add(d)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			pace := time.NewTicker(2 * time.Millisecond)
			defer pace.Stop()
			for c.take(t); time.Now().Before(end); c.take(t) {
				<-pace.C
			}
		})
	}
	callers.Wait()
}
