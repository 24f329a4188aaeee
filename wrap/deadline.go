package wrap

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// A DeadlineStore bounds what a request waits for all that it asks. Make one with [Deadline]. It is safe for concurrent use and
// needs no closing; the store behind it may.
type DeadlineStore struct {
	store   slidegate.Store
	most    time.Duration
	spent   error // what a call gets of which nothing is left
	invalid error // a store or a time that cannot be used
}

// Deadline returns a store that has d for all calls together whose contexts come from one [Request], 1 ms to 1 minute. The store behind
// bounds a call by d already, as redisstore.WithTimeout says, and that is all that other calls are bounded by. A call for
// which nothing is left is not made; it fails, as one does that takes longer than what is left, with an error that wraps
// [slidegate.ErrUnavailable].
//
// It belongs in front of the [Circuit], for which a call that had little time is no evidence, and behind what decides when it fails.
// A nil store, or a time that is not allowed, is reported by [slidegate.New], with an error that wraps [slidegate.ErrInvalidLimit].
func Deadline(store slidegate.Store, d time.Duration) *DeadlineStore {
	s := &DeadlineStore{store: store, most: d, spent: fmt.Errorf("%w: nothing is left of the %s that a request has for its store", slidegate.ErrUnavailable, d)}
	if store == nil {
		s.invalid = fmt.Errorf("%w: deadline: the store is nil: give the one to wrap", slidegate.ErrInvalidLimit)
	} else if d < time.Millisecond || d > time.Minute {
		s.invalid = fmt.Errorf("%w: deadline: %s: allowed is 1ms to 1m0s", slidegate.ErrInvalidLimit, d)
	}
	return s
}

type requestKey struct{}

// Request returns a context under which all calls of a [Deadline] store are those of one request: of several limiters, or of one
// that is asked several times. What counts is the time in which a call is under way, so a refund that comes an hour later has what was left.
func Request(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, new(request))
}

// A request is the time that its calls have taken, those at the same time once.
type request struct {
	mu    sync.Mutex // never held while a store is asked
	calls int        // under way
	since time.Time  // there are some
	took  time.Duration
}

// enter begins a call and returns what those before took.
func (r *request) enter() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.calls == 1 {
		r.since = time.Now()
		return r.took
	}
	return r.took + time.Since(r.since)
}

func (r *request) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	if r.calls == 0 {
		r.took += time.Since(r.since)
	}
}

// within makes a call in what is left of a request.
func within[T any](ctx context.Context, s *DeadlineStore, call func(context.Context) (T, error)) (result T, err error) {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return call(ctx)
	}
	left := s.most - r.enter()
	defer r.leave()
	switch {
	case left <= 0:
		return result, s.spent
	case left == s.most: // which the store sees to
		return call(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if result, err = call(bounded); err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = s.spent
	}
	return result, err
}

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan].
func (s *DeadlineStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	next, err := s.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	return &deadlinePlan{s, quick(next)}, nil
}

// BindJoint implements [slidegate.JointStore], where the wrapped store does.
func (s *DeadlineStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	next, err := bindJoint(s.store, parts)
	if err != nil {
		return nil, err
	}
	return &jointDeadlinePlan{s, next}, nil
}

// A deadlinePlan asks the plan behind it in the time that is left.
type deadlinePlan struct {
	s    *DeadlineStore
	next slidegate.QuickPlan
}

func (p *deadlinePlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return within(ctx, p.s, func(ctx context.Context) (slidegate.Answer, error) { return p.next.Take(ctx, key, cost) })
}

func (p *deadlinePlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return within(ctx, p.s, func(ctx context.Context) (slidegate.Answer, error) { return p.next.Peek(ctx, key, cost) })
}

func (p *deadlinePlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	_, err := within(ctx, p.s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.next.Refund(ctx, key, charged, cost)
	})
	return err
}

func (p *deadlinePlan) Reset(ctx context.Context, key string) error {
	_, err := within(ctx, p.s, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.next.Reset(ctx, key) })
	return err
}

// Allow implements [slidegate.QuickPlan].
func (p *deadlinePlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	return within(ctx, p.s, func(ctx context.Context) (bool, error) { return p.next.Allow(ctx, key, cost) })
}

// TakeOne implements [slidegate.QuickPlan].
func (p *deadlinePlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	a, err := within(ctx, p.s, func(ctx context.Context) (a slidegate.Answer, err error) {
		a.Allowed, a.Now, a.Readings[0], err = p.next.TakeOne(ctx, key, cost)
		return a, err
	})
	return a.Allowed, a.Now, a.Readings[0], err
}

// A jointDeadlinePlan is a deadlinePlan over several keys.
type jointDeadlinePlan struct {
	s    *DeadlineStore
	next slidegate.JointPlan
}

func (p *jointDeadlinePlan) Joint(keys []string) bool { return p.next.Joint(keys) }

func (p *jointDeadlinePlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return within(ctx, p.s, func(ctx context.Context) (slidegate.Answer, error) { return p.next.Take(ctx, keys, cost) })
}

func (p *jointDeadlinePlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return within(ctx, p.s, func(ctx context.Context) (slidegate.Answer, error) { return p.next.Peek(ctx, keys, cost) })
}

func (p *jointDeadlinePlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	_, err := within(ctx, p.s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.next.Refund(ctx, keys, charged, cost)
	})
	return err
}
