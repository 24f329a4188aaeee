package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

func ExampleCircuit() {
	redis := gatetest.Failing(errors.New("i/o timeout"))
	limiter := slidegate.MustNew(wrap.Circuit(redis), slidegate.PerMinute(100))
	var err error
	for range 1000 {
		_, err = limiter.Take(context.Background(), "user:42")
	}
	fmt.Println(err)
	fmt.Println(errors.Is(err, slidegate.ErrUnavailable), errors.Is(err, wrap.ErrOpen))
	fmt.Println(redis.Calls())
	// Output:
	// wrap: circuit open: slidegate: store unavailable: i/o timeout
	// true true
	// 5
}

func ExampleCircuitStore_Stats() {
	circuit := wrap.Circuit(gatetest.Failing(nil))
	limiter := slidegate.MustNew(circuit, slidegate.PerMinute(100))
	for range 1000 {
		limiter.Take(context.Background(), "user:42")
	}
	fmt.Printf("%s %+v\n", circuit.State(), circuit.Stats())
	// Output: open {Opened:1 Refused:995 Probes:0}
}

func ExampleOnChange() {
	gauge := 0
	circuit := wrap.Circuit(gatetest.Failing(nil), wrap.OnChange(func(s wrap.State, err error) {
		gauge = int(s) // 1 while it is open
		fmt.Println(s, err)
	}))
	limiter := slidegate.MustNew(circuit, slidegate.PerMinute(100))
	for range 1000 {
		limiter.Take(context.Background(), "user:42")
	}
	fmt.Println(gauge)
	// Output:
	// open slidegate: store unavailable: connection refused
	// 1
}

func ExampleWithLogger() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	circuit := wrap.Circuit(gatetest.Failing(nil), wrap.WithLogger(slog.New(handler)))
	limiter := slidegate.MustNew(circuit, slidegate.PerMinute(100))
	for range 1000 {
		limiter.Take(context.Background(), "user:42")
	}
	// Output:
	// level=ERROR msg="wrap: the store does not answer: the circuit is open" failures=5 error="slidegate: store unavailable: connection refused"
}

func ExampleIgnore() {
	errNewer := errors.New("a stored value was written by a newer version")
	redis := gatetest.Failing(errNewer) // for one key, and not for others
	limiter := slidegate.MustNew(wrap.Circuit(redis, wrap.Ignore(errNewer)), slidegate.PerMinute(100))
	for range 1000 {
		limiter.Take(context.Background(), "user:42")
	}
	fmt.Println(redis.Calls())
	// Output: 1000
}

func ExampleWithFailures() {
	redis := gatetest.Failing(nil)
	limiter := slidegate.MustNew(wrap.Circuit(redis, wrap.WithFailures(20)), slidegate.PerMinute(100))
	for range 1000 {
		limiter.Take(context.Background(), "user:42")
	}
	fmt.Println(redis.Calls())
	// Output: 20
}

func ExampleWithProbeInterval() {
	now := time.Unix(0, 0)
	redis := gatetest.Failing(nil)
	circuit := wrap.Circuit(redis, wrap.WithProbeInterval(250*time.Millisecond), wrap.WithClock(func() time.Time { return now }))
	limiter := slidegate.MustNew(circuit, slidegate.PerMinute(100))
	for range 10_000 { // a request every millisecond
		limiter.Take(context.Background(), "user:42")
		now = now.Add(time.Millisecond)
	}
	fmt.Println(redis.Calls(), circuit.Stats().Probes)
	// Output: 44 39
}

func ExampleDenials() {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	redis := memstore.New(memstore.WithClock(clock)) // as if it were across a network
	store := wrap.Denials(redis, wrap.WithDenialsClock(clock))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1))
	var d slidegate.Decision
	for range 900 { // a request every millisecond
		d, _ = limiter.Take(context.Background(), "user:42")
		now = now.Add(time.Millisecond)
	}
	fmt.Println(d.RetryAfter(), store.Stats().Answered)
	fmt.Println(limiter.Reset(context.Background(), "user:42"))
	fmt.Println(limiter.Allow(context.Background(), "user:42"))
	// Output:
	// 59.101s 898
	// <nil>
	// true <nil>
}

func ExampleWithCap() {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	redis := memstore.New(memstore.WithClock(clock))
	here := slidegate.MustNew(wrap.Denials(redis, wrap.WithCap(100*time.Millisecond), wrap.WithDenialsClock(clock)), slidegate.PerMinute(1))
	elsewhere := slidegate.MustNew(redis, slidegate.PerMinute(1))
	for range 2 {
		here.Take(context.Background(), "user:42")
	}
	elsewhere.Reset(context.Background(), "user:42")
	fmt.Println(here.Allow(context.Background(), "user:42"))
	now = now.Add(100 * time.Millisecond)
	fmt.Println(here.Allow(context.Background(), "user:42"))
	// Output:
	// false <nil>
	// true <nil>
}

func ExampleFallback() {
	redis := &flaky{Store: memstore.New()} // as if it were across a network
	store := wrap.Fallback(wrap.Circuit(redis), memstore.New(), wrap.WithShare(1, 2))
	limiter := slidegate.MustNew(store, slidegate.PerHour(10).Named("login"))
	ctx := context.Background()

	redis.failing = true
	for range 6 {
		d, err := limiter.Take(ctx, "user:42")
		fmt.Println(d.Allowed, d.Remaining(), err)
	}
	redis.failing = false
	d, _ := limiter.Peek(ctx, "user:42")
	fmt.Println(d.Remaining(), "left in Redis")
	// Output:
	// true 4 <nil>
	// true 3 <nil>
	// true 2 <nil>
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
	// 5 left in Redis
}

func ExampleWithReplicas() {
	live := func() int { return 4 } // mostly Replicas.Live
	store := wrap.Fallback(gatetest.Failing(nil), memstore.New(), wrap.WithReplicas(live))
	limiter := slidegate.MustNew(store, slidegate.PerHour(100))
	d, _ := limiter.Take(context.Background(), "user:42")
	fmt.Println(d.Remaining(), "of a fourth")
	// Output: 24 of a fourth
}

func ExampleDeadline() {
	redis := memstore.New() // in a program: redisstore.New(client), of which 50 ms is the timeout
	store := wrap.Deadline(wrap.Circuit(redis), 50*time.Millisecond)
	account := slidegate.MustNew(store, slidegate.PerHour(100).Named("account"))
	address := slidegate.MustNew(store, slidegate.PerMinute(20).Named("address"))

	ctx := wrap.Request(context.Background()) // of one request: both together have 50 ms
	a, _ := account.Take(ctx, "user:42")
	b, _ := address.Take(ctx, "ip:203.0.113.9")
	fmt.Println(a.Remaining(), b.Remaining())
	// Output: 99 19
}

func ExampleCountReplicas() {
	redis := memstore.New() // in a program: redisstore.New(client)
	ctx := context.Background()
	var replicas []*wrap.Replicas
	for range 3 { // in a program: one in each process, and go replicas.Run(ctx)
		r, err := wrap.CountReplicas(redis)
		if err != nil {
			fmt.Println(err)
		}
		r.Beat(ctx)
		replicas = append(replicas, r)
	}
	replicas[0].Beat(ctx)
	fmt.Println(replicas[0].Live(), "live")
	// Output: 3 live
}

func ExampleWithLife() {
	_, err := wrap.CountReplicas(memstore.New(), wrap.WithLife(time.Minute)) // and a beat every twenty seconds
	fmt.Println(err)
	// Output: <nil>
}

func ExampleObserve() {
	refused := 0
	store := wrap.Observe(memstore.New(), func(e wrap.Event) {
		if e.Op == wrap.OpTake && e.Err == nil && !e.Allowed {
			refused++
		}
	})
	limiter := slidegate.MustNew(store, slidegate.PerMinute(2))
	for range 5 {
		limiter.Take(context.Background(), "user:42")
	}
	fmt.Println(refused)
	// Output: 3
}

func ExampleToLog() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{}
		}
		return a
	}})
	store := wrap.Observe(memstore.New(), wrap.ToLog(slog.New(handler)))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1).Named("login"))
	for range 2 {
		limiter.Take(context.Background(), "user:42")
	}
	// Output: level=INFO msg="wrap: the store was asked" op=take limits="[login=1/1m]" cost=1 allowed=false
}

func ExampleWithKeys() {
	store := wrap.Observe(memstore.New(), func(e wrap.Event) { fmt.Println(e.Op, e.Keys) }, wrap.WithKeys())
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1))
	limiter.Take(context.Background(), "user:42")
	// Output: take [user:42]
}

func ExampleShadow() {
	store := wrap.Shadow(memstore.New(), func(limits []slidegate.Limit) { fmt.Println("would be refused by one of", limits) })
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1).Named("login"))
	for range 2 {
		d, _ := limiter.Take(context.Background(), "user:42")
		fmt.Println(d.Allowed, d.Remaining())
	}
	// Output:
	// true 0
	// would be refused by one of [login=1/1m]
	// true 0
}
