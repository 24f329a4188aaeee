package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestRefundInParts gives back what was charged and no more, and a negative part is an error.
func TestRefundInParts(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10), slidegate.PerHour(20).Counter())
	d, _ := l.TakeN(background, "a", 6)
	for _, c := range []struct{ part, held, left int64 }{{0, 6, 4}, {2, 4, 6}, {3, 1, 9}, {9, 0, 10}, {1, 0, 10}} {
		if err := l.RefundN(background, &d, c.part); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, l, "a"); d.Held() != c.held || got[0] != c.left || got[1] != c.left+10 {
			t.Errorf("after %d more: %d held and %v left, want %d and %d", c.part, d.Held(), got, c.held, c.left)
		}
	}
	if err := l.Refund(background, &d); err != nil || d.Charged() {
		t.Errorf("the rest of nothing: %v", err)
	}
	d, _ = l.TakeN(background, "a", 6)
	var never *slidegate.CostError
	if err := l.RefundN(background, &d, -1); !errors.As(err, &never) || d.Held() != 6 {
		t.Errorf("a refund of -1: %v, %d held", err, d.Held())
	}
	if err := l.RefundN(background, nil, 1); err != nil {
		t.Errorf("nil: %v", err)
	}
}

// TestPartialRefundThatFailsIsSpent, as a whole one is; the rest is not.
func TestPartialRefundThatFailsIsSpent(t *testing.T) {
	store := memstore.New()
	l := slidegate.MustNew(store, slidegate.PerMinute(10))
	d, _ := l.TakeN(background, "a", 6)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.RefundN(background, &d, 2); !errors.Is(err, slidegate.ErrUnavailable) || d.Held() != 4 {
		t.Errorf("%v, %d held", err, d.Held())
	}
}

// TestTakeUpToChargesWhatFits, and never more than the quota.
func TestTakeUpToChargesWhatFits(t *testing.T) {
	for _, c := range []struct {
		used, cost, charged int64
		allowed             bool
	}{
		{0, 0, 0, true}, {0, 4, 4, true}, {7, 4, 3, true}, {9, 1, 1, true}, {10, 1, 0, false}, {10, 0, 0, true},
		{0, 11, 10, true}, {3, 1 << 62, 7, true}, {10, 1 << 62, 0, false},
	} {
		l, _ := newLimiter(t, slidegate.PerHour(20).Counter(), slidegate.PerMinute(10))
		if _, err := l.TakeN(background, "a", c.used); err != nil {
			t.Fatal(err)
		}
		d, err := l.TakeUpTo(background, "a", c.cost)
		if err != nil || d.Allowed != c.allowed || d.Held() != c.charged || c.allowed && d.Cost != c.charged {
			t.Errorf("%d of %d left: %s, %d charged, %v; want %d", c.cost, 10-c.used, d, d.Held(), err, c.charged)
		}
		if left := remaining(t, l, "a"); left[1] != 10-c.used-c.charged {
			t.Errorf("%d of %d left: then %d are", c.cost, 10-c.used, left[1])
		}
		if !c.allowed && d.RetryAfter() != time.Minute {
			t.Errorf("nothing left, and room in %s", d.RetryAfter())
		}
		if err := l.Refund(background, &d); err != nil {
			t.Fatal(err)
		}
		if left := remaining(t, l, "a"); left[1] != 10-c.used {
			t.Errorf("given back, %d are left of %d", left[1], 10-c.used)
		}
	}
}

// TestTakeUpToErrors are those of TakeN, and a limiter without limits has nothing to charge.
func TestTakeUpToErrors(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10))
	var never *slidegate.CostError
	if _, err := l.TakeUpTo(background, "a", -1); !errors.As(err, &never) {
		t.Errorf("a negative cost: %v", err)
	}
	if _, err := l.TakeUpTo(background, "", 1); !errors.Is(err, slidegate.ErrInvalidKey) {
		t.Errorf("an empty key: %v", err)
	}
	if d, err := slidegate.Unlimited().TakeUpTo(background, "a", 1<<62); err != nil || !d.Allowed || d.Charged() {
		t.Errorf("Unlimited: %s, %v", d, err)
	}
	if d, err := slidegate.Blocked().TakeUpTo(background, "a", 1); err != nil || d.Allowed {
		t.Errorf("Blocked: %s, %v", d, err)
	}
}

// TestTakeUpToAtOnce: whoever comes together gets the quota between them, and not a unit more.
func TestTakeUpToAtOnce(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(1000))
	var charged atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			d, err := l.TakeUpTo(context.Background(), "a", int64(20+i))
			if err != nil {
				t.Error(err)
			}
			charged.Add(d.Held())
		})
	}
	wg.Wait()
	if left := remaining(t, l, "a"); charged.Load() != 1000 || left[0] != 0 {
		t.Errorf("%d charged, %d left", charged.Load(), left[0])
	}
}

// TestEachLimitAlone shares its state with the limiter, and charges no other limit.
func TestEachLimitAlone(t *testing.T) {
	// Neither limit has a name, and one differs from the other only in quota: With would not tell them apart.
	l, _ := newLimiter(t, slidegate.PerMinute(10), slidegate.PerMinute(30), slidegate.PerHour(20).Counter())
	if _, err := l.TakeN(background, "a", 6); err != nil {
		t.Fatal(err)
	}
	each, err := l.WithMaxWaiters(0).Each()
	if err != nil || len(each) != 3 {
		t.Fatalf("%d limiters, %v", len(each), err)
	}
	for i, charged := range []int64{4, 24, 14} {
		d, err := each[i].TakeUpTo(background, "a", 100)
		if err != nil || d.Held() != charged || d.State(0).Limit != l.Limits()[i] {
			t.Errorf("limit %d: %s, %d charged, %v", i, d, d.Held(), err)
		}
		if _, err := each[i].Wait(background, "a"); !errors.Is(err, slidegate.ErrTooManyWaiters) {
			t.Errorf("limit %d: waiting: %v", i, err)
		}
		left := remaining(t, l, "a")
		for j, others := range []int64{4, 24, 14} {
			if want := others * int64(max(0, min(1, j-i))); left[j] != want {
				t.Errorf("after limit %d, limit %d has %d left, want %d", i, j, left[j], want)
			}
		}
	}
	alone, _ := newLimiter(t, slidegate.PerMinute(10))
	if each, err := alone.Each(); err != nil || len(each) != 1 || each[0] != alone {
		t.Errorf("of one limit: %v, %v", each, err)
	}
	for _, none := range []*slidegate.Limiter{slidegate.Unlimited(), slidegate.Blocked()} {
		if each, err := none.Each(); err != nil || len(each) != 0 {
			t.Errorf("without limits: %v, %v", each, err)
		}
	}
}

// A bindsOnce store binds once, and then cannot.
type bindsOnce struct {
	slidegate.Store
	bound bool
	err   error
}

func (s *bindsOnce) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.bound {
		return nil, s.err
	}
	s.bound = true
	return s.Store.Bind(limits)
}

// TestEachOfAStoreThatCannotBind says so.
func TestEachOfAStoreThatCannotBind(t *testing.T) {
	unable := errors.New("unable")
	l := slidegate.MustNew(&bindsOnce{Store: memstore.New(), err: unable}, slidegate.PerMinute(1), slidegate.PerHour(9))
	if each, err := l.Each(); !errors.Is(err, unable) || each != nil {
		t.Errorf("%v, %v", each, err)
	}
}

func ExampleLimiter_Each() {
	ctx := context.Background()
	store, _ := exampleStore()
	tokens := slidegate.MustNew(store, slidegate.PerMinute(1000), slidegate.PerDay(100_000))
	each, err := tokens.Each()
	if err != nil {
		panic(err)
	}
	for _, limit := range each { // an answer took 3000, and nobody had asked
		d, err := limit.TakeUpTo(ctx, "user:42", 3000)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Binding().Limit, "counts", d.Held())
	}
	// Output:
	// 1000/1m counts 1000
	// 100000/1d counts 3000
}

func ExampleLimiter_RefundN() {
	ctx := context.Background()
	store, _ := exampleStore()
	tokens := slidegate.MustNew(store, slidegate.PerMinute(1000))
	d, _ := tokens.TakeN(ctx, "user:42", 600) // the most that the answer may take
	fmt.Println(d.Remaining(), "left")

	if err := tokens.RefundN(ctx, &d, 400); err != nil { // it took 200
		panic(err)
	}
	now, _ := tokens.Peek(ctx, "user:42")
	fmt.Println(now.Remaining(), "left,", d.Held(), "held")
	// Output:
	// 400 left
	// 800 left, 200 held
}

func ExampleLimiter_TakeUpTo() {
	ctx := context.Background()
	store, _ := exampleStore()
	tokens := slidegate.MustNew(store, slidegate.PerMinute(1000))
	tokens.TakeN(ctx, "user:42", 900) // an estimate

	d, err := tokens.TakeUpTo(ctx, "user:42", 250) // it took 1150
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Held(), "charged,", 250-d.Held(), "did not fit,", d.Remaining(), "left")
	// Output: 100 charged, 150 did not fit, 0 left
}
