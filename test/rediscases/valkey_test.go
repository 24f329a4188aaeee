package rediscases

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

type valkeyClient struct{ valkey.Client }

func (c valkeyClient) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	send := func(command, script string) valkey.ValkeyResult {
		return c.Do(ctx, c.B().Arbitrary(command, script, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build())
	}
	reply := send("EVALSHA", s.Hash())
	if err, ok := valkey.IsValkeyErr(reply.Error()); ok && err.IsNoScript() {
		reply = send("EVAL", s.Source())
	}
	values, err := reply.ToArray()
	integers := make([]int64, len(values))
	for i := 0; err == nil && i < len(values); i++ {
		integers[i], err = values[i].ToInt64()
	}
	return integers, err
}

func throughValkey(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return valkeyClient{client}
}

// TestTheClientOfThePageAnswersRightly: the one for valkey-go that docs/redis.md shows.
func TestTheClientOfThePageAnswersRightly(t *testing.T) {
	server := redistest.Standalone(t)
	client := throughValkey(t, server.Addr)
	fresh := func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
		server.Flush()
		return redisstore.New(client, redisstore.WithClock(clock.Now), redisstore.WithTimeout(generous))
	}
	gatetest.Scenarios(t, fresh)
	gatetest.ConcurrentTakesNeverExceedTheQuota(t, fresh)
}

// TestTheClientOfThePageChargesOnce: neither it nor valkey-go repeats what may have run.
func TestTheClientOfThePageChargesOnce(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr)
	limiter := newLimiter(t, redisstore.New(throughValkey(t, proxy.Addr), redisstore.WithTimeout(10*time.Second)), slidegate.PerHour(10))
	peek(t, limiter, "a")
	proxy.CutReply("evalsha", 1)
	if _, err := limiter.Take(background, "a"); err == nil {
		t.Error("no error, though the reply was lost")
	}
	equal(t, "units left", left(t, limiter, "a"), 9)
	server.Do("SCRIPT", "FLUSH")
	take(t, limiter, "a", 1)
	equal(t, "units left after SCRIPT FLUSH", left(t, limiter, "a"), 8)
}
