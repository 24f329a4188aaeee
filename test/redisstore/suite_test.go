package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

var background = context.Background()

// A connector makes a client of a library for the servers at some addresses: a cluster if they are several.
type connector func(t testing.TB, addrs ...string) redisstore.Client

func connectGoRedis(t testing.TB, addrs ...string) redisstore.Client {
	c := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return goredisstore.New(c)
}

// connectPlainGoRedis is for go-redis as it is unless told otherwise: it does not look at deadlines.
func connectPlainGoRedis(t testing.TB, addrs ...string) redisstore.Client {
	c := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: addrs})
	t.Cleanup(func() { c.Close() })
	return goredisstore.New(c)
}

func connectRueidis(t testing.TB, addrs ...string) redisstore.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return rueidisstore.New(c)
}

func connectLazily(t testing.TB, addrs ...string) redisstore.Client {
	c := rueidisstore.Lazy(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	t.Cleanup(c.Close)
	return c
}

var connectors = map[string]connector{
	"goredis":       connectGoRedis,
	"plain goredis": connectPlainGoRedis,
	"rueidis":       connectRueidis,
	"lazy rueidis":  connectLazily,
}

// withEach runs a test for each way to connect.
func withEach(t *testing.T, test func(t *testing.T, connect connector)) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) { test(t, connect) })
	}
}

// ample is a timeout that a busy machine does not reach.
const ample = 20 * time.Second

func limiterOn(t testing.TB, client redisstore.Client, limit slidegate.Limit, options ...redisstore.Option) (*slidegate.Limiter, *redisstore.Store) {
	t.Helper()
	store := redisstore.New(client, options...)
	limiter, err := slidegate.New(store, limit)
	if err != nil {
		t.Fatal(err)
	}
	return limiter, store
}

// used returns how many units of a limit a key has used.
func used(t testing.TB, limiter *slidegate.Limiter, key string) int64 {
	t.Helper()
	d, err := limiter.Peek(background, key)
	if err != nil {
		t.Fatal(err)
	}
	return d.State(0).Limit.Quota - d.State(0).Remaining
}

// takeTogether takes once for each of n callers at the same time.
func takeTogether(limiter *slidegate.Limiter, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { limiter.Take(background, "k") })
	}
	wg.Wait()
}

// answersAgain waits until a take is decided, for two seconds at most.
func answersAgain(t testing.TB, limiter *slidegate.Limiter) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("the last error was: %v", last)
		}
	}()
	redistest.Await(t, 2*time.Second, "an answer", func() bool {
		_, last = limiter.Take(background, "again")
		return last == nil
	})
}

// TestStore runs the suite that every store has to pass.
func TestStore(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Standalone(t), redistest.Cluster(t)
	for name, connect := range map[string]connector{"goredis": connectGoRedis, "rueidis": connectRueidis} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, server.Addr)
			gatetest.TestStore(t, func(t testing.TB, clock *gatetest.Clock) slidegate.Store {
				server.Flush()
				return redisstore.New(client, redisstore.WithClock(clock.Now), redisstore.WithTimeout(ample))
			})
		})
		t.Run(name+" on a cluster", func(t *testing.T) {
			client := connect(t, cluster.Addrs()...)
			gatetest.TestStore(t, func(t testing.TB, clock *gatetest.Clock) slidegate.Store {
				cluster.Flush()
				return redisstore.New(client, redisstore.WithClock(clock.Now), redisstore.WithTimeout(ample))
			})
		})
	}
}
