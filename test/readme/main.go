// The program with a Redis client that the README shows: the root module, which checks the README, has none.
package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/wrap"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store := wrap.Circuit(redisstore.New(goredis.New(client)), wrap.Ignore(redisstore.ErrNewerFormat))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(100))
	d, err := limiter.Take(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Remaining(), err)
}
