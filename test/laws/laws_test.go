package laws

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A rueidis closes connections to a cluster five seconds after it has replaced them.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// A Law is one promise, and a property that holds where it is kept.
type Law struct {
	Name  string
	Check func(t *rapid.T, open opener)
}

// Laws are the thirteen.
func Laws() []Law {
	return []Law{
		{"NoWindowHoldsMoreThanTheQuota", NoWindowHoldsMoreThanTheQuota},
		{"RetryIsTight", RetryIsTight},
		{"ResetIsTight", ResetIsTight},
		{"RefusalChangesNothing", RefusalChangesNothing},
		{"PeekForetellsTakeAndWritesNothing", PeekForetellsTakeAndWritesNothing},
		{"TakingManyIsTakingOneByOne", TakingManyIsTakingOneByOne},
		{"TakeThenRefundIsNothing", TakeThenRefundIsNothing},
		{"UsedAndRemainingAreTheQuota", UsedAndRemainingAreTheQuota},
		{"CounterErrsWithinItsBound", CounterErrsWithinItsBound},
		{"TimeRunningBackFreesNothing", TimeRunningBackFreesNothing},
		{"IdleForAWindowLeavesNothing", IdleForAWindowLeavesNothing},
		{"OthersAreNeverTouched", OthersAreNeverTouched},
		{"ChangingAQuotaKeepsHistory", ChangingAQuotaKeepsHistory},
	}
}

// A kind of store.
type kind struct {
	name  string
	start func(t *testing.T) opener // the servers that it needs
}

func kinds() []kind {
	behind := func(wrapped func(opener) opener, start func(t *testing.T) opener) func(t *testing.T) opener {
		return func(t *testing.T) opener { return wrapped(start(t)) }
	}
	return []kind{
		{"memory", inMemory},
		{"redis", onRedis},
		{"cluster", onCluster},
		{"fallback", behind(withFallback, onRedis)},
		{"denials of memory", behind(withDenials, inMemory)},
		{"denials of redis", behind(withDenials, onRedis)},
	}
}

// TestLaws checks every law on every kind of store.
func TestLaws(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			open := kind.start(t)
			for _, law := range Laws() {
				t.Run(law.Name, rapid.MakeCheck(func(t *rapid.T) { law.Check(t, open) }))
			}
		})
	}
}

func inMemory(*testing.T) opener { return onMemory }

func onRedis(t *testing.T) opener { return onRedisOf(t, redistest.Standalone(t)) }

// onRedisOf opens stores on one server, through go-redis.
func onRedisOf(t *testing.T, server *redistest.Server) opener {
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return openRedis(goredisstore.New(client), shelfOf(t, server))
}

// onCluster opens stores on a cluster of three, through rueidis.
func onCluster(t *testing.T) opener {
	cluster := redistest.Cluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: cluster.Addrs(), DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return openRedis(rueidisstore.New(client), shelfOf(t, cluster.Nodes...))
}

// shelfOf connects to servers, to look into them.
func shelfOf(t *testing.T, servers ...*redistest.Server) (nodes redisShelf) {
	t.Helper()
	for _, s := range servers {
		conn, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		nodes = append(nodes, conn)
	}
	return nodes
}

// openRedis opens stores for two processes.
func openRedis(client redisstore.Client, nodes redisShelf) opener {
	return func(t *rapid.T, clock *gatetest.Clock) *stage {
		nodes.flush(t)
		options := []redisstore.Option{redisstore.WithTimeout(ample)}
		if clock != nil {
			options = append(options, redisstore.WithClock(clock.Now))
		}
		s := newStage(clock, redisstore.New(client, options...), nodes)
		s.stores = append(s.stores, redisstore.New(client, options...))
		return s
	}
}
