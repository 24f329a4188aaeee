package rueidis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
)

func ExampleNew() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:1"}, // where nobody listens
		DisableCache: true,                    // the store has no use for it
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	limiter := slidegate.MustNew(redisstore.New(rueidisstore.New(client)), slidegate.PerMinute(100))
	limiter.Take(context.Background(), "user:42")
	// Output: dial tcp 127.0.0.1:1: connect: connection refused
}

// A lazy client needs no Redis when the program starts.
func ExampleLazy() {
	client := rueidisstore.Lazy(rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:1"}, // where nobody listens
		DisableCache: true,
	})
	defer client.Close()
	store := redisstore.New(client, redisstore.WithTimeout(10*time.Second))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(100))
	_, err := limiter.Take(context.Background(), "user:42")
	fmt.Println(err)
	// Output: slidegate: store unavailable: redis: dial tcp 127.0.0.1:1: connect: connection refused
}
