package linear

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m,
		// A rueidis closes connections to a cluster five seconds after it has replaced them.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// ample is a timeout that a busy machine does not reach: every call is decided.
const ample = 20 * time.Second

// libraries are the clients, each of one server, or of a cluster where there are several addresses.
var libraries = map[string]func(t testing.TB, addrs ...string) redisstore.Client{
	"goredis": func(t testing.TB, addrs ...string) redisstore.Client {
		c := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: addrs, ContextTimeoutEnabled: true})
		t.Cleanup(func() { c.Close() })
		return goredisstore.New(c)
	},
	"rueidis": func(t testing.TB, addrs ...string) redisstore.Client {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return rueidisstore.New(c)
	},
}

func storeOn(client redisstore.Client) *redisstore.Store {
	return redisstore.New(client, redisstore.WithTimeout(ample))
}

// monotonic is a clock of this process.
func monotonic() func() int64 {
	begin := time.Now()
	return func() int64 { return int64(time.Since(begin)) }
}

// TestDecisionsOnOneRedis are linearizable through each client, and folded.
func TestDecisionsOnOneRedis(t *testing.T) {
	server := redistest.Standalone(t)
	for name, connect := range libraries {
		t.Run(name, func(t *testing.T) { judgeStore(t, storeOn(connect(t, server.Addr)), 2) })
	}
}

// TestDecisionsOnACluster are linearizable through each client, with keys on every node.
func TestDecisionsOnACluster(t *testing.T) {
	cluster := redistest.Cluster(t)
	for name, connect := range libraries {
		t.Run(name, func(t *testing.T) { judgeStore(t, storeOn(connect(t, cluster.Addrs()...)), 3) })
	}
	for _, node := range cluster.Nodes {
		if node.Calls()["evalsha"] == 0 {
			t.Errorf("nothing was decided by %s", node.Addr)
		}
	}
}

// judgeStore makes histories of a store and judges them.
func judgeStore(t *testing.T, store *redisstore.Store, keys int) {
	t.Helper()
	l := slidegate.MustNew(store, limits()...)
	clock := monotonic()
	var seen census
	for seed := range uint64(20) {
		c := crowd{callers: 4 + 4*keys, calls: 30, keys: keys, seed: seed, name: fmt.Sprint(t.Name(), seed)}
		history, err := c.ask(l, clock)
		if err != nil {
			t.Fatal(err)
		}
		seen.add(history)
		mustBeLinearizable(t, history)
	}
	seen.mustShowSomething(t)
	if s := store.Stats(); s.Folded == 0 {
		t.Errorf("nothing was folded: %+v", s)
	}
}
