package test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"go.uber.org/goleak"
)

// TestMain finds goroutines that any test of this package leaves behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStoresLeaveNoGoroutine: built, used, waited on and closed, five hundred times.
func TestStoresLeaveNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t)
	for i := range 500 {
		store := memstore.New()
		l := slidegate.MustNew(store, slidegate.PerHour(1), slidegate.PerDay(5).Counter())
		if ok, err := l.Allow(background, strconv.Itoa(i)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		ctx, cancel := context.WithCancel(background)
		done := make(chan error)
		go func() {
			_, err := l.Wait(ctx, strconv.Itoa(i))
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for range 2 {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAStoreThatIsForgottenLeavesNoGoroutine: a timer is not a goroutine.
func TestAStoreThatIsForgottenLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(1))
	if ok, err := l.Allow(background, "a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// TestKeysGoByThemselves when their windows are over, without a request or a call, and the store
// goes on afterwards.
func TestKeysGoByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		second := slidegate.MustNew(store, slidegate.PerSecond(5))
		hour := slidegate.MustNew(store, slidegate.PerHour(1), slidegate.PerHour(9).Counter())
		for round := range 3 {
			for i := range 1000 {
				second.Allow(background, "second "+strconv.Itoa(i))
				hour.Allow(background, "hour "+strconv.Itoa(i))
			}
			if n := store.Len(); n != 2000 {
				t.Fatalf("round %d: %d keys", round, n)
			}
			<-time.After(10 * time.Second)
			synctest.Wait()
			if n := store.Len(); n != 1000 {
				t.Errorf("round %d: %d keys after ten seconds, want those of an hour", round, n)
			}
			if ok, _ := hour.Allow(background, "hour 7"); ok {
				t.Errorf("round %d: a key that counts was forgotten", round)
			}
			<-time.After(2 * time.Hour) // a counter's units weigh in the next window too
			synctest.Wait()
			if n := store.Len(); n != 0 {
				t.Errorf("round %d: %d keys after two hours", round, n)
			}
		}
	})
}

// TestManyWaitersAreServedInTime: as many as the quota in each window, and none early.
func TestManyWaitersAreServedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.PerMinute(10))
		began := time.Now()
		var mu sync.Mutex
		served := map[time.Duration]int{}
		var wg sync.WaitGroup
		for range 95 {
			wg.Go(func() {
				if _, err := l.Wait(background, "a"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				served[time.Since(began)]++
				mu.Unlock()
			})
		}
		wg.Wait()
		for i := range 10 {
			want := 10
			if i == 9 {
				want = 5
			}
			if n := served[time.Duration(i)*time.Minute]; n != want {
				t.Errorf("%d served at minute %d, want %d", n, i, want)
			}
		}
		if len(served) != 10 {
			t.Errorf("served at %d instants, want 10", len(served))
		}
	})
}

// TestACallerWhoLeavesFreesItsPlace among those who may wait.
func TestACallerWhoLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.PerMinute(1)).WithMaxWaiters(1)
		l.Allow(background, "a")
		for range 100 {
			ctx, cancel := context.WithTimeout(background, time.Hour)
			done := make(chan error)
			go func() {
				_, err := l.Wait(ctx, "a")
				done <- err
			}()
			synctest.Wait()
			if _, err := l.Wait(background, "a"); !errors.Is(err, slidegate.ErrTooManyWaiters) {
				t.Fatalf("a second waiter got %v", err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("the leaver got %v", err)
			}
		}
		if d, err := l.Wait(background, "a"); err != nil || !d.Allowed {
			t.Errorf("after a hundred leavers: %s, %v", d, err)
		}
	})
}
