package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// A slow store takes its time for each call, and no more than its timeout or than its caller has.
type slow struct {
	slidegate.Store
	takes, timeout time.Duration
}

func (s *slow) wait(ctx context.Context) error {
	select {
	case <-time.After(min(s.takes, s.timeout)):
	case <-ctx.Done():
		return fmt.Errorf("slow: %w", ctx.Err())
	}
	if s.takes > s.timeout {
		return fmt.Errorf("%w: slow: no answer within %s", slidegate.ErrUnavailable, s.timeout)
	}
	return nil
}

func (s *slow) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &slowPlan{plan, s}, err
}

type slowPlan struct {
	slidegate.Plan
	s *slow
}

func (p *slowPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.s.wait(ctx); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p *slowPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.s.wait(ctx); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p *slowPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := p.s.wait(ctx); err != nil {
		return err
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

const deadline = 50 * time.Millisecond

// newSlow returns a slow store in memory, with a deadline in front.
func newSlow(t *testing.T) (*slow, *wrap.DeadlineStore) {
	memory := memstore.New()
	t.Cleanup(func() { _ = memory.Close() })
	s := &slow{Store: memory, timeout: deadline}
	return s, wrap.Deadline(s, deadline)
}

// asks takes one unit after the other, in either way, and returns what came of it: a for admitted, u for a store that was unavailable, and how long it took.
func asks(t *testing.T, ctx context.Context, l *slidegate.Limiter, n int) (verdicts string, took time.Duration) {
	t.Helper()
	begin := time.Now()
	for i := range n {
		d, err := slidegate.Decision{}, error(nil)
		if i%2 == 0 {
			d, err = l.Take(ctx, "user:42")
		} else {
			d.Allowed, err = l.Allow(ctx, "user:42")
		}
		switch {
		case err == nil && d.Allowed:
			verdicts += "a"
		case errors.Is(err, slidegate.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			verdicts += "u"
		default:
			t.Errorf("%v, %v", d, err)
		}
	}
	return verdicts, time.Since(begin)
}

// TestARequestHasOneDeadline: all its calls together take no longer than one may, and calls of no request have it each.
func TestARequestHasOneDeadline(t *testing.T) {
	for _, c := range []struct {
		takes     time.Duration // each call
		isRequest bool
		verdicts  string
		took      time.Duration
	}{
		{10 * time.Millisecond, true, "aaaaauuu", deadline},
		{15 * time.Millisecond, true, "aaauuuuu", deadline},
		{time.Second, true, "uuuuuuuu", deadline},
		{15 * time.Millisecond, false, "aaaaaaaa", 8 * 15 * time.Millisecond},
		{time.Second, false, "uuuuuuuu", 8 * deadline},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow, store := newSlow(t)
			slow.takes = c.takes
			ctx := t.Context()
			if c.isRequest {
				ctx = wrap.Request(ctx)
			}
			l := slidegate.MustNew(store, slidegate.PerHour(100))
			if verdicts, took := asks(t, ctx, l, len(c.verdicts)); verdicts != c.verdicts || took != c.took {
				t.Errorf("%+v: %s after %s", c, verdicts, took)
			}
		})
	}
}

// TestOnlyTimeInCallsCounts: calls at the same time count once, and what lies between calls does not.
func TestOnlyTimeInCallsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, store := newSlow(t)
		slow.takes = 20 * time.Millisecond
		l := slidegate.MustNew(store, slidegate.PerHour(100))
		ctx := wrap.Request(t.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { asks(t, ctx, l, 1) })
		}
		all.Wait()
		<-time.After(time.Hour)
		d, err := l.Take(ctx, "user:42")
		if err != nil {
			t.Fatalf("after ten calls of 20 ms at once: %v", err)
		}
		begin := time.Now()
		if err := l.Refund(ctx, &d); !errors.Is(err, slidegate.ErrUnavailable) || time.Since(begin) != 10*time.Millisecond {
			t.Errorf("of 50 ms 40 are spent: %v after %s", err, time.Since(begin))
		}
	})
}

// TestAFallbackDecidesWithinTheDeadline, also where it has something to charge in the primary first; calls that were cut short do not open
// a circuit behind.
func TestAFallbackDecidesWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, backup := memstore.New(), memstore.New()
		defer memory.Close()
		defer backup.Close()
		slow := &slow{Store: memory, timeout: deadline, takes: time.Second}
		circuit := wrap.Circuit(slow)
		l := slidegate.MustNew(wrap.Fallback(wrap.Deadline(circuit, deadline), backup), slidegate.PerHour(100), slidegate.PerMinute(50))
		for range 4 { // what is then owed
			asks(t, wrap.Request(t.Context()), l, 1)
		}
		slow.takes = 20 * time.Millisecond
		for range 20 { // a look, two charges and the decision are 80 ms
			if verdicts, took := asks(t, wrap.Request(t.Context()), l, 1); verdicts != "a" || took > deadline {
				t.Errorf("%s after %s", verdicts, took)
			}
		}
		if circuit.State() != wrap.Closed {
			t.Error("the circuit opened")
		}
	})
}

// TestWhoGivesUpIsNotLate: the caller's own end is his, not the store's.
func TestWhoGivesUpIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, store := newSlow(t)
		slow.takes = 20 * time.Millisecond
		l := slidegate.MustNew(store, slidegate.PerHour(100))
		ctx, cancel := context.WithTimeout(wrap.Request(t.Context()), 30*time.Millisecond)
		defer cancel()
		asks(t, ctx, l, 1)
		if _, err := l.Take(ctx, "user:42"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, slidegate.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// TestADeadlineKeepsTheLaws of the store behind it.
func TestADeadlineKeepsTheLaws(t *testing.T) {
	gatetest.TestStore(t, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
		return wrap.Deadline(memstore.New(memstore.WithClock(clock.Now)), time.Minute)
	})
}

// TestADeadlineThatCannotBe is told by New.
func TestADeadlineThatCannotBe(t *testing.T) {
	for want, store := range map[string]slidegate.Store{
		"the store is nil":           wrap.Deadline(nil, time.Second),
		"0s: allowed is 1ms to 1m0s": wrap.Deadline(memstore.New(), 0),
		"2m0s: allowed is 1ms to":    wrap.Deadline(memstore.New(), 2*time.Minute),
	} {
		if _, err := slidegate.New(store, slidegate.PerHour(1)); !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestADeadlineIsAsJointAsItsStore, within a request too.
func TestADeadlineIsAsJointAsItsStore(t *testing.T) {
	g := pair(wrap.Deadline(new(joint), deadline))
	if !g.Atomic("x", "x") || g.Atomic("x", "y") {
		t.Error("it says otherwise")
	}
	if d, err := g.Take(wrap.Request(t.Context()), "x", "x"); err != nil || !d.Allowed || d.At().UnixMilli() != 7 {
		t.Errorf("%v, %v", d, err)
	}
}
