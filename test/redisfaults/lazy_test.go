package redisfaults_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestManyMayComeBeforeAClusterIsConnected: nobody knows yet that it is one, and keys of several hash slots in
// one call are a panic of rueidis.
func TestManyMayComeBeforeAClusterIsConnected(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := rueidisstore.Lazy(rueidis.ClientOption{InitAddress: cluster.Addrs(), DisableCache: true})
	defer client.Close()
	limiter := slidegate.MustNew(redisstore.New(client, redisstore.WithTimeout(generous)), slidegate.PerHour(5).Named("hour"))
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			if d, err := limiter.Take(ctx, strconv.Itoa(i)); err != nil || !d.Allowed {
				t.Errorf("%v, %v", d, err)
			}
		})
	}
	callers.Wait()
}
