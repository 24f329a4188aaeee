package redisfaults_test

import (
	"context"
	"crypto/tls"
	"flag"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
	"go.uber.org/goleak"
)

// TestMain runs several tests at a time, since most of them wait for a fault to end, and finds
// goroutines that any of them leaves behind.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goredis.SetLogger(silence{}) // what it has to say comes as errors as well
	goleak.VerifyTestMain(m,
		// A rueidis closes connections to a cluster five seconds after it has replaced them.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).backgroundPing.func1"))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// A target is where a client connects, and how.
type target struct {
	addrs          []string
	cluster        bool
	master         string            // with sentinels, the name of the primary; addrs are the sentinels
	user, password string            // of a user who may do as little as can be
	dialTimeout    time.Duration     // 5 s unless said so
	detour         map[string]string // from addresses that servers tell to those to connect to instead
}

// dialer connects by the detour.
func (a target) dialer(ctx context.Context, addr string) (net.Conn, error) {
	if instead := a.detour[addr]; instead != "" {
		addr = instead
	}
	timeout := a.dialTimeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	return (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
}

// tryConnect makes a client. A rueidis connects at once, and its error is that.
type tryConnect func(to target) (client redisstore.Client, close func(), err error)

// connect makes a client that is closed when the test ends.
type connect func(t testing.TB, to target) redisstore.Client

func (try tryConnect) connect(t testing.TB, to target) redisstore.Client {
	t.Helper()
	client, stop, err := try(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return client
}

// clients are the ways to reach Redis. They are as their libraries make them: with retries, with a
// rueidis that tracks its cache, with a go-redis that does not look at contexts, and one that does.
var clients = []struct {
	name string
	tryConnect
}{{"goredis", connectGoredis}, {"prompt goredis", connectPromptGoredis}, {"rueidis", connectRueidis}}

func connectGoredis(to target) (redisstore.Client, func(), error) { return newGoredis(to, false) }

func connectPromptGoredis(to target) (redisstore.Client, func(), error) { return newGoredis(to, true) }

func newGoredis(to target, prompt bool) (redisstore.Client, func(), error) {
	c := goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs: to.addrs, MasterName: to.master, IsClusterMode: to.cluster, Username: to.user, Password: to.password,
		ContextTimeoutEnabled: prompt,
		Dialer:                func(ctx context.Context, _, addr string) (net.Conn, error) { return to.dialer(ctx, addr) },
	})
	return goredisstore.New(c), func() { c.Close() }, nil
}

func connectRueidis(to target) (redisstore.Client, func(), error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: to.addrs, ForceSingleClient: !to.cluster && to.master == "", Username: to.user, Password: to.password,
		Sentinel:     rueidis.SentinelOption{MasterSet: to.master},
		DisableCache: to.user != "", // which has to be allowed otherwise
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return to.dialer(ctx, addr)
		},
	})
	if err != nil {
		if c != nil {
			c.Close()
		}
		return nil, nil, err
	}
	return rueidisstore.New(c), c.Close, nil
}

// each runs a test for each client, side by side.
func each(t *testing.T, test func(t *testing.T, connect connect)) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c.connect)
		})
	}
}

func to(s *redistest.Server) target { return target{addrs: []string{s.Addr}} }

func through(p *redistest.Proxy) target { return target{addrs: []string{p.Addr}} }

func toCluster(c *redistest.RedisCluster) target { return target{addrs: c.Addrs(), cluster: true} }
