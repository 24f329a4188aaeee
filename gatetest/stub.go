package gatetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// A FailingStore cannot be asked: every call fails. It counts them, so that a gate's test can tell
// that it was asked, and how often. It is safe for concurrent use.
type FailingStore struct {
	err   error
	calls atomic.Int64
}

// Failing returns a store whose every call fails as a real store's would: with an error that
// wraps [slidegate.ErrUnavailable] and err. The error of a context, context.Canceled or
// context.DeadlineExceeded, is returned as it is: that is how a store says that the caller gave up.
// Bind succeeds, so a limiter can be built. A nil err stands for a broken connection.
func Failing(err error) *FailingStore {
	switch {
	case err == nil:
		err = fmt.Errorf("%w: connection refused", slidegate.ErrUnavailable)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, slidegate.ErrUnavailable):
	default:
		err = fmt.Errorf("%w: %w", slidegate.ErrUnavailable, err)
	}
	return &FailingStore{err: err}
}

// Calls returns the number of calls of Take, Peek, Refund and Reset so far. Bind is not counted.
func (s *FailingStore) Calls() int { return int(s.calls.Load()) }

// Bind implements [slidegate.Store].
func (s *FailingStore) Bind([]slidegate.Limit) (slidegate.Plan, error) { return failingPlan{s}, nil }

type failingPlan struct{ s *FailingStore }

func (p failingPlan) fail() error {
	p.s.calls.Add(1)
	return p.s.err
}

func (p failingPlan) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, p.fail()
}

func (p failingPlan) Peek(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, p.fail()
}

func (p failingPlan) Refund(context.Context, string, slidegate.Answer, int64) error { return p.fail() }

func (p failingPlan) Reset(context.Context, string) error { return p.fail() }

// Slow returns a store that asks another one, d later, as one behind a network does. Calls do not
// wait for each other. A call whose context ends first returns the context's error and has
// charged nothing. It waits on the runtime's timers, so in a testing/synctest bubble it takes no time.
func Slow(store slidegate.Store, d time.Duration) slidegate.Store { return slowStore{store, d} }

type slowStore struct {
	store slidegate.Store
	d     time.Duration
}

func (s slowStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	return slowPlan{plan, s.d}, nil
}

type slowPlan struct {
	plan slidegate.Plan
	d    time.Duration
}

func (p slowPlan) wait(ctx context.Context) error {
	timer := time.NewTimer(p.d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (p slowPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.wait(ctx); err != nil {
		return slidegate.Answer{}, err
	}
	return p.plan.Take(ctx, key, cost)
}

func (p slowPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.wait(ctx); err != nil {
		return slidegate.Answer{}, err
	}
	return p.plan.Peek(ctx, key, cost)
}

func (p slowPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.plan.Refund(ctx, key, charged, cost)
}

func (p slowPlan) Reset(ctx context.Context, key string) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.plan.Reset(ctx, key)
}
