package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

func ExampleNew() {
	store := memstore.New()
	defer store.Close()
	login, err := slidegate.New(store, slidegate.Per(15*time.Minute, 2).Named("login"))
	if err != nil {
		panic(err)
	}
	for range 3 {
		ok, _ := login.Allow(context.Background(), "user:42")
		fmt.Println(ok)
	}
	// Output:
	// true
	// true
	// false
}

func ExampleWithClock() {
	now := time.Unix(0, 0)
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limiter := slidegate.MustNew(store, slidegate.PerSecond(1))
	ask := func() {
		d, _ := limiter.Take(context.Background(), "a")
		fmt.Println(d.Allowed, d.RetryAfter())
	}
	ask()
	now = now.Add(999 * time.Millisecond)
	ask()
	now = now.Add(time.Millisecond)
	ask()
	// Output:
	// true 0s
	// false 1ms
	// true 0s
}

func ExampleStore_Sweep() {
	now := time.Unix(0, 0)
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limiter := slidegate.MustNew(store, slidegate.PerSecond(1))
	limiter.Allow(context.Background(), "a")
	fmt.Println(store.Len(), store.Sweep(), store.Len())
	now = now.Add(time.Second)
	fmt.Println(store.Len(), store.Sweep(), store.Len())
	// Output:
	// 1 0 1
	// 1 1 0
}

func ExampleWithMaxKeys() {
	now := time.Unix(0, 0)
	store := memstore.New(memstore.WithClock(func() time.Time { return now }), memstore.WithMaxKeys(2))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1))
	for _, key := range []string{"a", "b", "c"} {
		now = now.Add(time.Second)
		limiter.Allow(context.Background(), key)
	}
	again, _ := limiter.Allow(context.Background(), "b")
	fmt.Println(store.Len(), store.Stats().Evicted, again) // "a" went: it would have been idle soonest
	// Output: 2 1 false
}

func ExampleRefuseNewKeys() {
	store := memstore.New(memstore.WithMaxKeys(1), memstore.RefuseNewKeys())
	defer store.Close()
	limiter := slidegate.MustNew(store, slidegate.PerHour(1))
	limiter.Allow(context.Background(), "a")
	_, err := limiter.Allow(context.Background(), "b")
	fmt.Println(errors.Is(err, slidegate.ErrUnavailable), store.Stats().Refused)
	// Output: true 1
}
