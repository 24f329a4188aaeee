package redisfaults_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestGoroutinesComeBack from a server that was frozen, and few are with it meanwhile however many
// asked. Not side by side with others, whose goroutines would be counted.
func TestGoroutinesComeBack(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Standalone(t)
			r := newRig(t, c.connect(t, to(server)), redisstore.WithTimeout(20*time.Millisecond))
			redistest.Await(t, backIn, "a decision", func() bool { return r.take() == nil })
			before := runtime.NumGoroutine()
			server.Freeze()
			for range 20 {
				r.takeFor(0, 100)
				ctx, cancel := context.WithCancel(background)
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() { r.Take(ctx, key) })
				}
				cancel()
				callers.Wait()
			}
			if n := runtime.NumGoroutine() - before; n > 1000 {
				t.Errorf("%d goroutines more after 4000 calls", n)
			}
			server.Thaw()
			r.awaitBack(t)
			redistest.Await(t, 15*time.Second, "goroutines that have come back", func() bool { return runtime.NumGoroutine() <= before+20 })
			if n := r.store.Stats().Overdue; n != 0 {
				t.Errorf("%d calls overdue", n)
			}
		})
	}
}
