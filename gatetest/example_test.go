package gatetest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

func ExampleClock() {
	clock := gatetest.NewClock(time.UnixMilli(0))
	limiter := slidegate.MustNew(gatetest.NewOracle(clock), slidegate.PerSecond(1))
	for range 3 {
		d, _ := limiter.Take(context.Background(), "a")
		fmt.Println(d)
		clock.Advance(d.RetryAfter() + 400*time.Millisecond)
	}
	// Output:
	// admitted, 0 of 1/1s left, full in 1s
	// refused by 1/1s, 0 left, retry in 600ms
	// admitted, 0 of 1/1s left, full in 1s
}

func ExampleNewOracle() {
	clock := gatetest.NewClock(time.UnixMilli(0))
	limiter := slidegate.MustNew(gatetest.NewOracle(clock), slidegate.PerMinute(10))
	d, _ := limiter.TakeN(context.Background(), "a", 4)
	fmt.Println(d.Remaining(), d.ResetAfter())
	// Output: 6 1m0s
}

func ExampleFailing() {
	store := gatetest.Failing(errors.New("no route to host"))
	limiter := slidegate.MustNew(store, slidegate.PerMinute(10))
	_, err := limiter.Take(context.Background(), "a")
	fmt.Println(err)
	fmt.Println(errors.Is(err, slidegate.ErrUnavailable), store.Calls())
	// Output:
	// slidegate: store unavailable: no route to host
	// true 1
}

func ExampleSlow() {
	store := gatetest.Slow(gatetest.NewOracle(new(gatetest.Clock)), time.Hour)
	limiter := slidegate.MustNew(store, slidegate.PerMinute(10))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := limiter.Take(ctx, "a")
	fmt.Println(err)
	// Output: context canceled
}

func ExampleAllScenarios() {
	s := gatetest.AllScenarios()[0]
	fmt.Println(s.ID, s.AllLimits())
	for _, step := range s.Steps[:4] {
		fmt.Println(step.T, step.Op, step.Key, step.Expect.Allowed, step.Expect.Remaining, step.Expect.Retry)
	}
	// Output:
	// L01 [t0=3/1s,resolution=1ms]
	// 0 take default true 2 0
	// 0 take default true 1 0
	// 0 take default true 0 0
	// 0 take default false 0 1000
}
