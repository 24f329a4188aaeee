package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
)

// A connection is what some Redis library offers: a command, and its reply as integers.
type connection interface {
	Do(ctx context.Context, command ...string) ([]int64, error)
}

// An adapter makes it a client of the store.
type adapter struct{ c connection }

func (a adapter) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	reply, err := a.c.Do(ctx, command("EVALSHA", s.Hash(), keys, args)...)
	if errors.Is(err, errNoScript) {
		reply, err = a.c.Do(ctx, command("EVAL", s.Source(), keys, args)...)
	}
	return reply, err
}

func command(name, script string, keys, args []string) []string {
	all := append([]string{name, script, fmt.Sprint(len(keys))}, keys...)
	return append(all, args...)
}

var errNoScript = errors.New("NOSCRIPT No matching script")

// A toy stands for a Redis in this example: it says what it was asked, and admits everything.
type toy struct{ knows bool }

func (r *toy) Do(_ context.Context, command ...string) ([]int64, error) {
	fmt.Println(command[0], command[3])
	if command[0] == "EVALSHA" && !r.knows {
		return nil, errNoScript
	}
	r.knows = true
	return []int64{1000, 256*1 + 1}, nil // now, and how the limit stands: one unit, and that it was admitted
}

// A client of any Redis library is one method.
func ExampleClient() {
	limiter := slidegate.MustNew(redisstore.New(adapter{new(toy)}), slidegate.PerSecond(10).Named("burst"))
	for range 2 {
		d, err := limiter.Take(context.Background(), "user:42")
		fmt.Println(d, err)
	}
	// Output:
	// EVALSHA slidegate:{user:42}:burst:1s
	// EVAL slidegate:{user:42}:burst:1s
	// admitted, 9 of burst=10/1s left, full in 1s <nil>
	// EVALSHA slidegate:{user:42}:burst:1s
	// admitted, 9 of burst=10/1s left, full in 1s <nil>
}

func ExampleNew() {
	store := redisstore.New(adapter{&toy{knows: true}})
	_, err := slidegate.New(store, slidegate.PerMinute(100))
	fmt.Println(err)

	_, err = slidegate.New(redisstore.New(nil), slidegate.PerMinute(100))
	fmt.Println(err)
	// Output:
	// <nil>
	// slidegate: invalid limit: redis store: the client is nil: adapt one with package goredis or rueidis
}

func ExampleWithPrefix() {
	store := redisstore.New(adapter{&toy{knows: true}}, redisstore.WithPrefix("shop:eu"))
	limiter := slidegate.MustNew(store, slidegate.PerHour(5).Named("login").Counter())
	limiter.Allow(context.Background(), "ann")
	// Output: EVALSHA shop:eu:{ann}:login:1h,counter
}

func ExampleWithClock() {
	// Yesterday's requests, decided as they would have been then.
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	store := redisstore.New(adapter{&toy{knows: true}},
		redisstore.WithClock(func() time.Time { return now }),
		redisstore.WithPrefix("replay"))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5).Named("m"))
	limiter.Allow(context.Background(), "ann")
	// Output: EVALSHA replay:{ann}:m:1m
}

// A stuck connection never answers.
type stuck struct{}

func (stuck) Do(context.Context, ...string) ([]int64, error) { select {} }

func ExampleWithTimeout() {
	store := redisstore.New(adapter{stuck{}}, redisstore.WithTimeout(5*time.Millisecond))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5))
	_, err := limiter.Take(context.Background(), "ann")
	fmt.Println(err)
	fmt.Println(errors.Is(err, slidegate.ErrUnavailable), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// slidegate: store unavailable: redis: no answer within 5ms
	// true false
}

func ExampleWithFolding() {
	// Each decision is a call of its own, however many there are.
	store := redisstore.New(adapter{&toy{knows: true}}, redisstore.WithFolding(1))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5).Named("m"))
	limiter.Allow(context.Background(), "ann")
	fmt.Println(store.Stats().Folded)
	// Output:
	// EVALSHA slidegate:{ann}:m:1m
	// 0
}

func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	store := redisstore.New(adapter{stuck{}}, redisstore.WithTimeout(time.Millisecond), redisstore.WithLogger(logger))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5))
	for range 3 {
		limiter.Allow(context.Background(), "ann")
	}
	// Output: level=WARN msg="slidegate: Redis cannot be asked" error="no answer within 1ms"
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// A broken connection fails at once.
type broken struct{}

func (broken) Do(context.Context, ...string) ([]int64, error) { return nil, errors.New("broken pipe") }

func ExampleStore_Stats() {
	store := redisstore.New(adapter{broken{}})
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5))
	limiter.Allow(context.Background(), "ann")
	stats := store.Stats()
	fmt.Println(stats.Calls, stats.Failed, stats.Decisions)
	// Output: 1 1 0
}
