package bench

import (
	"context"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// The names of our contenders that keep their state in Redis. Those that are Alone send every decision by
// itself; the others do as the store does by default.
const (
	RedisLog            = "slidegate-log-rueidis"
	RedisLogAlone       = "slidegate-log-rueidis-alone"
	RedisCounter        = "slidegate-counter-rueidis"
	RedisCounterAlone   = "slidegate-counter-rueidis-alone"
	GoRedisLog          = "slidegate-log-goredis"
	GoRedisLogAlone     = "slidegate-log-goredis-alone"
	GoRedisCounter      = "slidegate-counter-goredis"
	GoRedisCounterAlone = "slidegate-counter-goredis-alone"
)

// The names of [Floors].
const (
	FloorName         = "floor-rueidis"
	FloorAloneName    = "floor-rueidis-alone"
	FloorLogName      = "floor-log-rueidis"
	FloorLogAloneName = "floor-log-rueidis-alone"
)

// Floors are no limiters. They are our store through the client that the command uses by default, and through the other,
// with a script that decides nothing: it reads the server's clock, reads the key, writes it with an expiry, and says a
// number. What it writes is nine bytes, which a counter needs, or for a log what it found and a byte more, beginning with 27:
// who keeps an exact log keeps every charge. What Floors miss is not to be had through that client on this machine, by a
// script for each decision or by one for all that wait.
func Floors(addr func() string) []Contender {
	floor := func(connect connecting, options ...redisstore.Option) func(int64, time.Duration) Limiter {
		return func(quota int64, window time.Duration) Limiter {
			return openRedis(connect, slidegate.SlidingLog, options...)(addr(), quota, window)
		}
	}
	alone := redisstore.WithFolding(1)
	return []Contender{
		{Name: FloorName, Open: floor(least(throughRueidis, leastCounter))},
		{Name: FloorAloneName, Open: floor(least(throughRueidis, leastCounter), alone)},
		{Name: FloorLogName, Open: floor(least(throughRueidis, leastLog))},
		{Name: FloorLogAloneName, Open: floor(least(throughRueidis, leastLog), alone)},
		{Name: "floor-goredis", Open: floor(least(throughGoRedis, leastCounter))},
		{Name: "floor-goredis-alone", Open: floor(least(throughGoRedis, leastCounter), alone)},
	}
}

// IsRival tells a contender that others wrote.
func IsRival(name string) bool { return !strings.HasPrefix(name, "floor-") && !IsOurs(name) }

// IsOurs tells a contender of slidegate.
func IsOurs(name string) bool { return strings.HasPrefix(name, "slidegate-") }

// RedisContenders returns all that decide keys in the Redis at an address, rivals first. The address is asked
// for when a limiter is opened.
func RedisContenders(addr func() string) []Contender {
	at := func(open func(addr string, quota int64, window time.Duration) Limiter) func(int64, time.Duration) Limiter {
		return func(quota int64, window time.Duration) Limiter { return open(addr(), quota, window) }
	}
	alone := redisstore.WithFolding(1)
	return []Contender{
		{Name: "redis_rate", Open: at(openRedisRate)},
		{Name: "ulule", Open: at(openRedisUlule)},
		{Name: "throttled", Open: at(openRedisThrottled)},
		{Name: RedisLog, Open: at(openRedis(throughRueidis, slidegate.SlidingLog))},
		{Name: RedisLogAlone, Open: at(openRedis(throughRueidis, slidegate.SlidingLog, alone))},
		{Name: RedisCounter, Open: at(openRedis(throughRueidis, slidegate.SlidingCounter))},
		{Name: RedisCounterAlone, Open: at(openRedis(throughRueidis, slidegate.SlidingCounter, alone))},
		{Name: GoRedisLog, Open: at(openRedis(throughGoRedis, slidegate.SlidingLog))},
		{Name: GoRedisLogAlone, Open: at(openRedis(throughGoRedis, slidegate.SlidingLog, alone))},
		{Name: GoRedisCounter, Open: at(openRedis(throughGoRedis, slidegate.SlidingCounter))},
		{Name: GoRedisCounterAlone, Open: at(openRedis(throughGoRedis, slidegate.SlidingCounter, alone))},
	}
}

// A connecting makes a client of the store and what closes it.
type connecting func(addr string) (redisstore.Client, func())

func throughRueidis(addr string) (redisstore.Client, func()) {
	c := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true}))
	return rueidisstore.New(c), c.Close
}

func throughGoRedis(addr string) (redisstore.Client, func()) {
	c := goRedis(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	return goredisstore.New(c), func() { _ = c.Close() }
}

func goRedis(options *redis.Options) *redis.Client {
	logging.Disable() // it tells what an old server does not know
	return redis.NewClient(options)
}

func openRedis(connect connecting, algorithm slidegate.Algorithm, options ...redisstore.Option) func(string, int64, time.Duration) Limiter {
	return func(addr string, quota int64, window time.Duration) Limiter {
		client, stop := connect(addr)
		limit := slidegate.Per(window, quota)
		limit.Algorithm = algorithm
		// Where the machine stands still for a while, others wait for longer than our default.
		options := append([]redisstore.Option{redisstore.WithTimeout(3 * time.Second)}, options...)
		return Limiter{Take: take(slidegate.MustNew(redisstore.New(client, options...), limit)), Close: stop}
	}
}

// A leastClient is a client of the store that runs another script than it is told to.
type leastClient func(ctx context.Context, keys, args []string) ([]int64, error)

// The scripts of floors reply what the store wants to hear: now, and of each request that it was admitted, as the first unit.
const (
	leastCounter = `
local call, keys, life = redis.call, KEYS, ARGV[3]
local reply = {call('TIME')[1] * 1000}
for i = 1, #keys do
  call('GET', keys[i])
  call('PSETEX', keys[i], life, '012345678')
  reply[i + 1] = 257
end
return reply`
	leastLog = `
local call, keys, life = redis.call, KEYS, ARGV[3]
local reply = {call('TIME')[1] * 1000}
for i = 1, #keys do
  local found = call('GET', keys[i]) or '012345678901234567890123456'
  call('PSETEX', keys[i], life, found .. '0')
  reply[i + 1] = 257
end
return reply`
)

// least makes a client of the store that runs a script of a floor in place of any other.
func least(connect connecting, source string) connecting {
	return func(addr string) (redisstore.Client, func()) {
		c, stop := connect(addr)
		script := redisstore.NewScript("least", source)
		return leastClient(func(ctx context.Context, keys, args []string) ([]int64, error) {
			return c.Run(ctx, script, keys, args)
		}), stop
	}
}

// Prompt implements [redisstore.PromptClient], as the clients do that it stands for.
func (leastClient) Prompt() bool { return true }

// Run implements [redisstore.Client].
func (c leastClient) Run(ctx context.Context, _ *redisstore.Script, keys, args []string) ([]int64, error) {
	return c(ctx, keys, args)
}

func openRedisRate(addr string, quota int64, window time.Duration) Limiter {
	ctx, client := context.Background(), goRedis(&redis.Options{Addr: addr})
	limiter, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: int(quota), Burst: int(quota), Period: window}
	take := func(key string) (Verdict, int64) {
		r, err := limiter.Allow(ctx, key, limit)
		if err != nil {
			return Failed, 0
		}
		return verdict(r.Allowed > 0, nil), int64(r.Remaining) + int64(r.ResetAfter)
	}
	return Limiter{Take: take, Close: func() { _ = client.Close() }}
}

func openRedisUlule(addr string, quota int64, window time.Duration) Limiter {
	client := goRedis(&redis.Options{Addr: addr})
	l := ululeLimiter(must(ululeredis.NewStore(client)), quota, window)
	l.Close = func() { _ = client.Close() }
	return l
}

func openRedisThrottled(addr string, quota int64, window time.Duration) Limiter {
	ctx, client := context.Background(), goRedis(&redis.Options{Addr: addr})
	limiter := must(throttled.NewGCRARateLimiterCtx(must(throttledredis.NewCtx(client, "throttled:")), throttledQuota(quota, window)))
	take := func(key string) (Verdict, int64) {
		limited, result, err := limiter.RateLimitCtx(ctx, key, 1)
		return verdict(!limited, err), int64(result.Remaining) + int64(result.ResetAfter)
	}
	return Limiter{Take: take, Close: func() { _ = client.Close() }}
}
