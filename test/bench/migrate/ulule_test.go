package migrate

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

func ululeBefore(next http.Handler) http.Handler {
	rate := limiter.Rate{Period: time.Hour, Limit: 100} // or NewRateFromFormatted("100-H")
	middleware := stdlib.NewMiddleware(limiter.New(memory.NewStore(), rate))
	return middleware.Handler(next)
}

func ululeAfter(store slidegate.Store, next http.Handler) http.Handler {
	limiter := slidegate.MustNew(store, slidegate.PerHour(100).Named("api"))
	gate := httpgate.MustNew(limiter, httpgate.IPv6Prefix(128), httpgate.Headers(httpgate.Legacy))
	return gate.Wrap(next)
}

// TestUlule: both admit the same, with the same fields but for the times.
func TestUlule(t *testing.T) {
	alike(t, ululeBefore(served), ululeAfter(memoryStore(t), served))
}

func ululeRedisBefore(client *redis.Client, next http.Handler) (http.Handler, error) {
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	rate := limiter.Rate{Period: time.Hour, Limit: 100}
	return stdlib.NewMiddleware(limiter.New(store, rate)).Handler(next), nil
}

func ululeRedisAfter(client *redis.Client, next http.Handler) http.Handler {
	return ululeAfter(redisstore.New(goredis.New(client)), next)
}

// TestUluleOnRedis: the same over one Redis, where neither reads what the other wrote.
func TestUluleOnRedis(t *testing.T) {
	client := redisClient(t)
	before, err := ululeRedisBefore(client, served)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, before, ululeRedisAfter(client, served))
}
