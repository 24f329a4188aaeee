package migrate

import (
	"context"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

// An asking decides a request of a key: whether it is admitted, how many are left, and how long to wait if it is refused.
type asking func(ctx context.Context, key string) (allowed bool, left int64, wait time.Duration, err error)

func redisRateBefore(client *redis.Client) asking {
	limiter := redis_rate.NewLimiter(client)
	return func(ctx context.Context, key string) (bool, int64, time.Duration, error) {
		r, err := limiter.Allow(ctx, key, redis_rate.PerHour(100))
		if err != nil {
			return false, 0, 0, err
		}
		return r.Allowed > 0, int64(r.Remaining), r.RetryAfter, nil
	}
}

func redisRateAfter(client *redis.Client) asking {
	limiter := slidegate.MustNew(redisstore.New(goredis.New(client)), slidegate.PerHour(100).Named("api"))
	return func(ctx context.Context, key string) (bool, int64, time.Duration, error) {
		d, err := limiter.Take(ctx, key)
		if err != nil {
			return false, 0, 0, err
		}
		return d.Allowed, d.Remaining(), d.RetryAfter(), nil
	}
}

// TestRedisRate: both admit the same of a burst, over one Redis. Then they differ: GCRA gives the next unit back after a
// hundredth of the hour, a log when the first has left the hour.
func TestRedisRate(t *testing.T) {
	client := redisClient(t)
	before, after := redisRateBefore(client), redisRateAfter(client)
	for n := range 101 {
		allowed, left, waitBefore, err := before(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		gotAllowed, gotLeft, waitAfter, err := after(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		if gotAllowed != allowed || gotLeft != left || allowed != (n < 100) {
			t.Fatalf("request %d: %v and %d left before, %v and %d after", n+1, allowed, left, gotAllowed, gotLeft)
		}
		if n == 100 && (waitBefore > time.Hour/100 || waitAfter < time.Hour/2) {
			t.Errorf("the waits are %s before and %s after, want at most 36s and nearly an hour", waitBefore, waitAfter)
		}
	}
}

func redisRateBurstBefore(ctx context.Context, client *redis.Client, key string) (bool, error) {
	limit := redis_rate.Limit{Rate: 100, Burst: 10, Period: time.Hour}
	r, err := redis_rate.NewLimiter(client).Allow(ctx, key, limit)
	return err == nil && r.Allowed > 0, err
}

func redisRateBurstAfter(ctx context.Context, client *redis.Client, key string) (bool, error) {
	limiter := slidegate.MustNew(redisstore.New(goredis.New(client)),
		slidegate.PerHour(100).Named("sustained"),
		slidegate.Per(6*time.Minute, 10).Named("burst"), // Burst, in Period × Burst / Rate
	)
	return limiter.Allow(ctx, key)
}

// TestRedisRateBurst: a burst that is smaller than the rate is a limit of its own.
func TestRedisRateBurst(t *testing.T) {
	client := redisClient(t)
	for n := range 11 {
		before, err := redisRateBurstBefore(t.Context(), client, "ann")
		if err != nil {
			t.Fatal(err)
		}
		after, err := redisRateBurstAfter(t.Context(), client, "ann")
		if err != nil || before != after || after != (n < 10) {
			t.Errorf("request %d: %v before, %v after, %v", n+1, before, after, err)
		}
	}
}
