package redisfaults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestWhoCannotLeaveIsAnsweredWhileAnotherConnects: connections were lost while nobody asked.
func TestWhoCannotLeaveIsAnsweredWhileAnotherConnects(t *testing.T) {
	for _, how := range []string{"unreachable", "silent"} {
		for _, c := range clients {
			t.Run(how+" "+c.name, func(t *testing.T) {
				server := redistest.Standalone(t)
				proxy := redistest.NewProxy(t, server.Addr)
				to := through(proxy)
				to.detour = map[string]string{}
				client := c.connect(t, to)
				store := redisstore.New(client, redisstore.WithTimeout(100*time.Millisecond))
				limiter := slidegate.MustNew(store, slidegate.PerHour(5000))
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				var warm sync.WaitGroup
				for range 16 {
					warm.Go(func() {
						for range 200 {
							limiter.Take(ctx, "u")
						}
					})
				}
				warm.Wait()
				if how == "silent" {
					proxy.Blackhole()
				} else {
					to.detour[proxy.Addr] = redistest.Unreachable(t)
				}
				proxy.CutAll()
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for range 15 { // until the client has seen its connections go
					<-tick.C
				}
				var wg sync.WaitGroup
				ask := func(ctx context.Context, who string) {
					wg.Go(func() {
						start := time.Now()
						_, err := limiter.Take(ctx, "u")
						if d := time.Since(start); d > 400*time.Millisecond {
							t.Errorf("%s: answered after %s with %v", who, d, err)
						}
					})
					<-tick.C
				}
				ask(ctx, "may leave")
				ask(background, "cannot leave")
				ask(background, "cannot leave")
				wg.Wait()
				proxy.Pass()
			})
		}
	}
}
