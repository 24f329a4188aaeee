package goredis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:1", // where nobody listens
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	store := redisstore.New(goredis.New(client), redisstore.WithTimeout(10*time.Second))
	limiter, err := slidegate.New(store, slidegate.PerMinute(100)) // Redis may come up later
	if err != nil {
		panic(err)
	}
	_, err = limiter.Take(context.Background(), "user:42")
	fmt.Println(err)
	// Output: slidegate: store unavailable: redis: dial tcp 127.0.0.1:1: connect: connection refused
}

// A Ring is refused when the limiter is made.
func ExampleNew_ring() {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := slidegate.New(redisstore.New(goredis.New(ring)), slidegate.PerMinute(100))
	fmt.Println(err)
	// Output: slidegate: invalid limit: redis store: a redis.Ring moves the keys of a server that is down to the others, and their history stays behind: use a redis.ClusterClient, or a redis.Client of one server
}
