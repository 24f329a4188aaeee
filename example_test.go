package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// A clock that is set by hand makes the examples say the same each time. Without WithClock a store
// reads the process clock.
func exampleStore() (store *memstore.Store, advance func(time.Duration)) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	store = memstore.New(memstore.WithClock(func() time.Time { return now }))
	return store, func(d time.Duration) { now = now.Add(d) }
}

func Example() {
	ctx := context.Background()
	store := memstore.New()
	defer store.Close()

	limiter, err := slidegate.New(store, slidegate.PerMinute(2))
	if err != nil {
		panic(err)
	}
	for range 3 {
		ok, err := limiter.Allow(ctx, "user:42")
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

func ExampleNew() {
	store, _ := exampleStore()
	limiter, err := slidegate.New(store, slidegate.PerSecond(10).Named("burst"), slidegate.PerHour(1000))
	fmt.Println(limiter.Limits(), err)

	_, err = slidegate.New(store, slidegate.PerMinute(0))
	fmt.Println(err)
	// Output:
	// [burst=10/1s 1000/1h] <nil>
	// slidegate: invalid limit: quota 0: allowed is 1 to 1000000000000
}

func ExampleMustNew() {
	store, _ := exampleStore()
	login := slidegate.MustNew(store, slidegate.Per(15*time.Minute, 5).Named("login"))
	fmt.Println(login.Limits())
	// Output: [login=5/15m]
}

// All limits have room, or none is charged.
func ExampleLimiter_Take() {
	ctx := context.Background()
	store, advance := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerSecond(1).Named("burst"), slidegate.PerHour(10).Named("hour"))
	for range 3 {
		d, err := limiter.Take(ctx, "user:42")
		if err != nil {
			panic(err) // only if the store could not be asked, or the key is empty
		}
		fmt.Println(d.Allowed, d.Binding().Limit.Name, d.State(1).Remaining, d.RetryAfter())
		advance(600 * time.Millisecond)
	}
	// Output:
	// true burst 9 0s
	// false burst 9 400ms
	// true burst 8 0s
}

func ExampleLimiter_TakeN() {
	ctx := context.Background()
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(10))
	for _, cost := range []int64{7, 7, 11} {
		d, err := limiter.TakeN(ctx, "user:42", cost)
		var never *slidegate.CostError
		if errors.As(err, &never) {
			fmt.Println(never)
			continue
		}
		fmt.Println(d)
	}
	// Output:
	// admitted, 3 of 10/1m left, full in 1m0s
	// refused by 10/1m, 3 left, retry in 1m0s
	// slidegate: cost 11 can never fit: limit "10/1m" admits at most 10 per 1m
}

func ExampleLimiter_Peek() {
	ctx := context.Background()
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1))
	for range 2 {
		d, _ := limiter.Peek(ctx, "user:42")
		fmt.Println(d.Allowed, d.Remaining())
	}
	limiter.Take(ctx, "user:42")
	d, _ := limiter.Peek(ctx, "user:42")
	fmt.Println(d.Allowed, d.Remaining(), d.RetryAfter())
	// Output:
	// true 1
	// true 1
	// false 0 1m0s
}

// Reserve what a request may cost, and give it back when it cost nothing.
func ExampleLimiter_Refund() {
	ctx := context.Background()
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(100))
	d, _ := limiter.TakeN(ctx, "user:42", 60)
	fmt.Println(d.Remaining())
	for range 2 { // the second time gives nothing
		if err := limiter.Refund(ctx, &d); err != nil {
			panic(err)
		}
	}
	now, _ := limiter.Peek(ctx, "user:42")
	fmt.Println(now.Remaining())
	// Output:
	// 40
	// 100
}

// What counts against a key, and when it leaves.
func ExampleLimiter_Charges() {
	store, advance := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(10))
	ctx := context.Background()
	limiter.TakeN(ctx, "user:42", 3)
	advance(20 * time.Second)
	limiter.Take(ctx, "user:42")

	charges, err := limiter.Charges(ctx, "user:42", 100)
	if err != nil {
		panic(err)
	}
	for i, limit := range limiter.Limits() {
		for _, c := range charges[i] {
			at := time.UnixMilli(c.At).UTC()
			fmt.Printf("%s: %d from %s, until %s\n", limit, c.Units, at.Format(time.TimeOnly), at.Add(limit.Window).Format(time.TimeOnly))
		}
	}
	// Output:
	// 10/1m: 3 from 10:00:00, until 10:01:00
	// 10/1m: 1 from 10:00:20, until 10:01:20
}

func ExampleLimiter_Reset() {
	ctx := context.Background()
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerHour(1))
	limiter.Take(ctx, "user:42")
	limiter.Reset(ctx, "user:42")
	fmt.Println(limiter.Allow(ctx, "user:42"))
	// Output: true <nil>
}

func ExampleLimiter_Wait() {
	store := memstore.New()
	defer store.Close()
	limiter := slidegate.MustNew(store, slidegate.Per(20*time.Millisecond, 1))
	for range 3 {
		d, err := limiter.Wait(context.Background(), "user:42")
		fmt.Println(d.Allowed, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	hourly := slidegate.MustNew(store, slidegate.PerHour(1))
	hourly.Take(ctx, "user:42")
	_, err := hourly.Wait(ctx, "user:42") // fails at once, not after a second
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// true
}

// A plan is a limiter over the same store; under the same name it keeps the history.
func ExampleLimiter_With() {
	ctx := context.Background()
	store, _ := exampleStore()
	free := slidegate.MustNew(store, slidegate.PerDay(100).Named("plan"))
	pro, err := free.With(slidegate.PerDay(1000).Named("plan"))
	if err != nil {
		panic(err)
	}
	free.TakeN(ctx, "user:42", 30)
	upgraded, _ := pro.Take(ctx, "user:42")
	fmt.Println(upgraded.Remaining())
	// Output: 969
}

func ExampleLimiter_WithMaxWaiters() {
	ctx := context.Background()
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(1)).WithMaxWaiters(0)
	limiter.Take(ctx, "user:42")
	_, err := limiter.Wait(ctx, "user:42")
	fmt.Println(errors.Is(err, slidegate.ErrTooManyWaiters))
	// Output: true
}

func ExampleUnlimited() {
	ctx := context.Background()
	store, _ := exampleStore()
	plans := map[string]*slidegate.Limiter{
		"staff":  slidegate.Unlimited(),
		"guest":  slidegate.MustNew(store, slidegate.PerHour(1)),
		"banned": slidegate.Blocked(),
	}
	for _, plan := range []string{"staff", "guest", "banned"} {
		for range 2 {
			d, _ := plans[plan].Take(ctx, plan)
			fmt.Println(plan, d)
		}
	}
	// Output:
	// staff admitted without limits
	// staff admitted without limits
	// guest admitted, 0 of 1/1h left, full in 1h0m0s
	// guest refused by 1/1h, 0 left, retry in 1h0m0s
	// banned refused without limits
	// banned refused without limits
}

// While the store is away a program that fails open refuses nothing, and one that fails closed everything.
func ExampleLimiter_Allow() {
	ctx := context.Background()
	there := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	away := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerMinute(1))
	for _, limiter := range []*slidegate.Limiter{there, there, away} {
		ok, err := limiter.Allow(ctx, "user:42")
		fmt.Println("admitted:", ok, "refused failing open:", err == nil && !ok, "failing closed:", !ok)
	}
	// Output:
	// admitted: true refused failing open: false failing closed: false
	// admitted: false refused failing open: true failing closed: true
	// admitted: false refused failing open: false failing closed: true
}

func ExampleBlocked() {
	blocked := slidegate.Blocked()
	d, err := blocked.Take(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.RetryAfter(), err)
	_, err = blocked.Wait(context.Background(), "user:42")
	fmt.Println(err)
	// Output:
	// false 0s <nil>
	// slidegate: blocked
}

func ExampleParseLimit() {
	for _, text := range []string{"100/m", "burst=10/1s", "day=1000000/1d,resolution=1m", "plan=5/60m,counter", "5/0s"} {
		fmt.Println(slidegate.ParseLimit(text))
	}
	// Output:
	// 100/1m <nil>
	// burst=10/1s <nil>
	// day=1000000/1d,resolution=1m <nil>
	// plan=5/1h,counter <nil>
	// 0/0s slidegate: invalid limit: window 0s: allowed is 1ms to 3650d in whole milliseconds
}

func ExampleParseDuration() {
	for _, text := range []string{"90s", "m", "1d12h", "soon"} {
		fmt.Println(slidegate.ParseDuration(text))
	}
	// Output:
	// 1m30s <nil>
	// 1m0s <nil>
	// 36h0m0s <nil>
	// 0s slidegate: "soon" is not a duration: write a number and one of d, h, m, s, ms, such as 90s or 1d
}

// A counter needs constant memory and is an approximation: the share of the window before that
// still counts is assumed to have been spread evenly.
func ExampleLimit_Counter() {
	ctx := context.Background()
	store, advance := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(10).Counter())
	limiter.TakeN(ctx, "user:42", 6)
	advance(90 * time.Second) // half of the next window: half of six still counts
	d, _ := limiter.Peek(ctx, "user:42")
	fmt.Println(d.Remaining())
	// Output: 7
}

// A million a day in at most 1,441 entries a key: units are held back up to a minute longer.
func ExampleLimit_WithResolution() {
	ctx := context.Background()
	store, advance := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerDay(1_000_000).WithResolution(time.Minute))
	advance(time.Second)
	d, _ := limiter.Take(ctx, "user:42")
	fmt.Println(d.ResetAfter())
	// Output: 24h0m59s
}

func ExampleLimit_Named() {
	fmt.Println(slidegate.PerMinute(100), slidegate.PerMinute(100).Named("api"))
	// Output: 100/1m api=100/1m
}

func ExampleLimit_Validate() {
	fmt.Println(slidegate.PerMinute(5).WithResolution(time.Hour).Validate())
	// Output: slidegate: invalid limit: resolution 1h0m0s: allowed is 1ms to the window of 1m in whole milliseconds
}

func ExampleDecision_State() {
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerSecond(10), slidegate.PerHour(1000))
	d, _ := limiter.TakeN(context.Background(), "user:42", 4)
	for i := range d.Len() {
		s := d.State(i)
		fmt.Println(s.Limit, s.Remaining, s.ResetIn, s.RetryIn)
	}
	// Output:
	// 10/1s 6 1s 0s
	// 1000/1h 996 1h0m0s 0s
}

func ExampleDecision_Binding() {
	store, _ := exampleStore()
	limiter := slidegate.MustNew(store, slidegate.PerHour(100), slidegate.PerSecond(5).Named("burst"))
	d, _ := limiter.Take(context.Background(), "user:42")
	fmt.Println(d.Binding().Limit, d.Remaining(), d.ResetAfter(), d.At().UTC().Format(time.TimeOnly))
	// Output: burst=5/1s 4 1s 10:00:00
}
