package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

// A panicking client.
type panicky struct{ *fake }

func (panicky) Prompt() bool { return true }
func (panicky) Run(context.Context, *Script, []string, []string) ([]int64, error) {
	panic("a bug of the client")
}

// TestAPanicOfTheClientIsNotKept: it is a call that failed, and it leaves nothing behind.
func TestAPanicOfTheClientIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(panicky{new(fake)})
		p := bind(t, s, named(t, "10/m"))
		for range 300 {
			if _, err := p.Take(background, "u", 1); !errors.Is(err, slidegate.ErrUnavailable) {
				t.Fatalf("a client that panics: %v", err)
			}
			<-time.After(time.Second)
		}
		synctest.Wait()
		if n := s.Stats().Overdue; n != 0 {
			t.Errorf("%d calls overdue", n)
		}
	})
}

// frozenNode is a cluster of which the node of slots below 5461 is frozen.
type frozenNode struct{ *fake }

func (frozenNode) Clustered() bool { return true }
func (f frozenNode) Run(ctx context.Context, s *Script, keys, args []string) ([]int64, error) {
	tag := keys[0][strings.IndexByte(keys[0], '{')+1 : strings.IndexByte(keys[0], '}')]
	if hashSlot(tag) < 5461 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.fake.Run(ctx, s, keys, args)
}

// TestOneFrozenNodeOfAClusterIsNotAll: a thousand requests a second, a third of them for a node that does not answer.
func TestOneFrozenNodeOfAClusterIsNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(frozenNode{new(fake)})
		p := bind(t, s, named(t, "10/m"))
		var mu sync.Mutex
		var ok, bad int
		var wg sync.WaitGroup
		for i := range 5000 { // a thousand requests a second for five seconds
			key := "user:" + strconv.Itoa(i)
			wg.Go(func() {
				_, err := p.Take(t.Context(), key, 1)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case hashSlot(key) < 5461:
				case err == nil:
					ok++
				default:
					bad++
				}
			})
			<-time.After(time.Millisecond)
		}
		wg.Wait()
		if bad > 0 {
			t.Errorf("of the keys of nodes that are well %d were decided, %d were not", ok, bad)
		}
		<-time.After(2 * time.Second)
	})
}

// A slow place to log to.
type slowLog struct{ slog.Handler }

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }
func (slowLog) Handle(context.Context, slog.Record) error {
	<-time.After(10 * time.Second)
	return nil
}

// TestTheDeadlineHoldsWhateverTheLogDoes: a pipe that nobody reads, say.
func TestTheDeadlineHoldsWhateverTheLogDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		s := New(g, WithLogger(slog.New(slowLog{slog.DiscardHandler})))
		p := bind(t, s, named(t, "10/m"))
		all := takeAll(t.Context(), p, 20)
		for range 20 {
			if o := <-all; o.took != DefaultTimeout {
				t.Errorf("answered after %s", o.took)
			}
		}
		close(g.gate)
		<-time.After(time.Minute)
	})
}

// serial is a server that runs one call after the other: each takes 100 µs, and 3 µs for each decision. That
// is 219,000 decisions a second.
type serial struct{ turn chan struct{} }

func (f *serial) Run(_ context.Context, s *Script, keys, args []string) ([]int64, error) {
	f.turn <- struct{}{}
	<-time.After(100*time.Microsecond + time.Duration(len(keys))*3*time.Microsecond)
	<-f.turn
	return sent{s, keys, args}.answer(), nil
}

// TestAnOverloadedServerDecidesAllItCan: of twice as many callers as it can serve, half are.
func TestAnOverloadedServerDecidesAllItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&serial{make(chan struct{}, 1)})
		p := bind(t, s, named(t, "10/m"))
		var ok, failed atomic.Int64
		for range 2000 { // 0.2 s
			for range 40 {
				go func() {
					if _, err := p.Take(t.Context(), "u", 1); err == nil {
						ok.Add(1)
					} else {
						failed.Add(1)
					}
				}()
			}
			<-time.After(100 * time.Microsecond)
		}
		if n := ok.Load(); n < 40_000 {
			t.Errorf("%d decisions in 0.2 s, %d failed", n, failed.Load())
		}
		<-time.After(3 * time.Second)
	})
}
