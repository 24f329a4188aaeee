package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	short = 100 * time.Millisecond // a timeout that a healthy server keeps, mostly
	slack = 2 * time.Second        // what a busy machine may add
)

// TestTheDeadlineHolds whatever Redis and the network do, for callers who can leave and for those who
// cannot; who leaves is told at once; and when it is over the store is used again within two seconds.
func TestTheDeadlineHolds(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*redistest.Server, *redistest.Proxy){
		"frozen":            func(s *redistest.Server, _ *redistest.Proxy) { s.Freeze() },
		"frozen, reconnect": func(s *redistest.Server, p *redistest.Proxy) { p.CutAll(); s.Freeze() },
		"slow":              func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(10 * short) },
		"gone":              func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse() },
		"lost":              func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole() },
		"lost, reconnect":   func(_ *redistest.Server, p *redistest.Proxy) { p.CutAll(); p.Blackhole() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withEach(t, func(t *testing.T, connect connector) {
				server := redistest.Standalone(t)
				proxy := redistest.NewProxy(t, server.Addr)
				client := connect(t, proxy.Addr)
				limiter, _ := limiterOn(t, client, slidegate.PerHour(1_000_000), redisstore.WithTimeout(short))
				patientLimiter, _ := limiterOn(t, client, slidegate.PerHour(1_000_000), redisstore.WithTimeout(ample))
				answersAgain(t, limiter)
				trouble(server, proxy)
				for range 3 {
					checkTold(t, limiter, background)
					checkTold(t, limiter, t.Context())
				}
				if name != "gone" && name != "slow" {
					checkLeaves(t, patientLimiter)
				}
				server.Thaw()
				proxy.Pass()
				answersAgain(t, limiter)
			})
		})
	}
}

// checkTold fails unless a caller is told within the timeout that the store could not be asked.
func checkTold(t *testing.T, limiter *slidegate.Limiter, ctx context.Context) {
	t.Helper()
	start := time.Now()
	_, err := limiter.Take(ctx, "k")
	if took := time.Since(start); !errors.Is(err, slidegate.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || took > short+slack {
		t.Errorf("after %s: %v", took, err)
	}
}

// checkLeaves fails unless a caller who leaves is told at once.
func checkLeaves(t *testing.T, limiter *slidegate.Limiter) {
	t.Helper()
	ctx, leave := context.WithCancel(background)
	told := make(chan error, 1)
	go func() {
		_, err := limiter.Take(ctx, "k")
		told <- err
	}()
	leave()
	select {
	case err := <-told:
		if err != context.Canceled {
			t.Errorf("who leaves gets %v", err)
		}
	case <-time.After(slack):
		t.Errorf("who left was not told for %s", slack)
	}
}

// TestADistantServerIsReached although to connect takes more round trips than a call has time for: one for
// TLS, one for the greeting.
func TestADistantServerIsReached(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T, addr string, config *tls.Config) redisstore.Client{
		"goredis": func(t *testing.T, addr string, config *tls.Config) redisstore.Client {
			c := goredis.NewClient(&goredis.Options{Addr: addr, TLSConfig: config, ContextTimeoutEnabled: true})
			t.Cleanup(func() { c.Close() })
			return goredisstore.New(c)
		},
		"rueidis": func(t *testing.T, addr string, config *tls.Config) redisstore.Client {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, TLSConfig: config, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return rueidisstore.New(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t, redistest.WithTLS())
			proxy := redistest.NewProxy(t, server.Addr)
			limiter, _ := limiterOn(t, connect(t, proxy.Addr, server.TLSConfig()), slidegate.PerHour(1_000_000), redisstore.WithTimeout(short))
			proxy.CutAll()
			proxy.Delay(short * 6 / 10)
			redistest.Await(t, 10*time.Second, "answers to 10 callers in a row", func() bool {
				for range 10 {
					if _, err := limiter.Take(background, "k"); err != nil {
						return false
					}
				}
				return true
			})
		})
	}
}
