package slidegate

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// MaxWaiters is the number of callers that may be in [Limiter.Wait] at a time, for each Limiter
// that does not say otherwise with [Limiter.WithMaxWaiters].
const MaxWaiters = 10_000

// A Limiter admits a request of a key only if every one of its limits has room, and then charges
// every one; otherwise it charges none. It is a plan over a store: limiters are cheap, several may
// share a store, and choosing another Limiter is how one request gets other limits than the next.
//
// A Limiter is safe for concurrent use and needs no closing; its store may.
type Limiter struct {
	store    Store
	plan     Plan
	quick    QuickPlan // plan, if it is one
	limits   []Limit
	unnamed  []bool
	smallest int64 // quota: no larger cost can ever fit
	blocked  bool  // without limits: refuse, not admit
	waiting  *atomic.Int64
	waiters  int64
}

// New returns a limiter over one to MaxLimits limits, whose names must differ. Every error wraps
// [ErrInvalidLimit].
func New(store Store, limits ...Limit) (*Limiter, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil: use memstore.New() or another store", ErrInvalidLimit)
	}
	if len(limits) < 1 || len(limits) > MaxLimits {
		return nil, fmt.Errorf("%w: %d limits: allowed is 1 to %d in one limiter", ErrInvalidLimit, len(limits), MaxLimits)
	}
	l := &Limiter{store: store, smallest: math.MaxInt64, waiting: new(atomic.Int64), waiters: MaxWaiters}
	for _, limit := range limits {
		if err := limit.Validate(); err != nil {
			return nil, err
		}
		named := limit.named()
		for _, other := range l.limits {
			if other.Name == named.Name {
				return nil, fmt.Errorf("%w: two limits have the name %q: names must differ, as in a=5/1s", ErrInvalidLimit, named.Name)
			}
		}
		l.limits = append(l.limits, named)
		l.unnamed = append(l.unnamed, named.Name == named.defaultName())
		l.smallest = min(l.smallest, limit.Quota)
	}
	var err error
	if l.plan, err = store.Bind(l.limits); err != nil {
		return nil, err
	}
	l.quick, _ = l.plan.(QuickPlan)
	return l, nil
}

// MustNew is New for limits that are known to be right, such as those of a global variable. It
// panics on an error.
func MustNew(store Store, limits ...Limit) *Limiter {
	l, err := New(store, limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// Unlimited returns a limiter that admits everything, asks no store and charges nothing: a plan
// to choose for those who are not limited. Its decisions have no limits to speak of.
func Unlimited() *Limiter {
	return &Limiter{smallest: math.MaxInt64, waiting: new(atomic.Int64), waiters: MaxWaiters}
}

// Blocked returns a limiter that refuses everything, a cost of 0 too, asks no store, and names no
// time to retry.
func Blocked() *Limiter {
	l := Unlimited()
	l.blocked = true
	return l
}

// With returns a limiter over the same store with other limits: another plan. Where key, name,
// algorithm and window are the same, history is kept, also when the quota differs. An unnamed
// limit that differs from one of l's only in quota is refused, since its state would start
// afresh and that would be a refill: name both.
func (l *Limiter) With(limits ...Limit) (*Limiter, error) {
	if l.plan == nil {
		return nil, fmt.Errorf("%w: an Unlimited or Blocked limiter has no store to share", ErrInvalidLimit)
	}
	next, err := New(l.store, limits...)
	if err != nil {
		return nil, err
	}
	for i, limit := range next.limits {
		for j, old := range l.limits {
			if next.unnamed[i] && l.unnamed[j] && limit.Quota != old.Quota && limit.Window == old.Window && limit.Algorithm == old.Algorithm {
				return nil, fmt.Errorf("%w: %s differs from %s only in quota and neither has a name, so it would refill: name both, as in plan=%s",
					ErrInvalidLimit, limit, old, limit)
			}
		}
	}
	next.waiters = l.waiters
	return next, nil
}

// Each returns a limiter for each limit alone, over the same store and the same state, in declared order: to count in
// one limit what another has no room for, as [Limiter.TakeUpTo] of each does with what has been spent already. What
// one of them decides the others know nothing of, so requests are for l to decide. [Unlimited] and [Blocked] have no
// limits, and so none. Every error wraps [ErrInvalidLimit].
func (l *Limiter) Each() ([]*Limiter, error) {
	if len(l.limits) == 1 {
		return []*Limiter{l}, nil
	}
	each := make([]*Limiter, len(l.limits))
	for i, limit := range l.limits {
		alone, err := New(l.store, limit)
		if err != nil {
			return nil, err
		}
		alone.waiters = l.waiters
		each[i] = alone
	}
	return each, nil
}

// WithMaxWaiters returns a limiter over the same limits and state in which at most n callers may
// wait at a time. n below 1 lets nobody wait.
func (l *Limiter) WithMaxWaiters(n int) *Limiter {
	next := *l
	next.waiting, next.waiters = new(atomic.Int64), int64(n)
	return &next
}

// Limits returns a copy of the limits, in declared order and with their names filled in.
func (l *Limiter) Limits() []Limit { return append([]Limit(nil), l.limits...) }

// Allow reports whether a request of cost 1 is admitted, and charges it if so. It is the fastest
// way to ask. The errors are those of [Limiter.TakeN], and with one it reports false: who looks at that
// alone refuses everything while the store is away. To let requests pass then, refuse only what was refused:
//
//	if ok, err := limiter.Allow(ctx, key); err == nil && !ok {
//		return errTooMany
//	}
//
// An empty key is an error too, so see to it that there is one.
func (l *Limiter) Allow(ctx context.Context, key string) (bool, error) {
	if l.quick != nil && key != "" {
		return l.quick.Allow(ctx, key, 1)
	}
	d, err := l.TakeN(ctx, key, 1)
	return d.Allowed, err
}

// Take decides a request of cost 1. See [Limiter.TakeN].
func (l *Limiter) Take(ctx context.Context, key string) (d Decision, err error) {
	err = l.take(ctx, &d, key, 1)
	return d, err
}

// TakeN decides a request that spends cost units of key: admitted and charged in every limit, or
// refused and charged in none. A refusal is an answer, not an error. A cost of 0 is admitted and
// charges nothing.
//
// The error is [ErrInvalidKey] for an empty key, a [*CostError] for a cost that can never fit, or
// wraps [ErrUnavailable] if the store could not be asked; nothing was decided then. The context
// bounds the call of a store that does I/O; the memory store never blocks and does not look at it.
func (l *Limiter) TakeN(ctx context.Context, key string, cost int64) (d Decision, err error) {
	err = l.take(ctx, &d, key, cost)
	return d, err
}

// take fills a Decision in place, so that Take and TakeN are inlined and it is copied once.
func (l *Limiter) take(ctx context.Context, d *Decision, key string, cost int64) (err error) {
	d.key, d.Cost = key, cost
	if key == "" || uint64(cost) > uint64(l.smallest) {
		return l.badRequest(key, cost)
	}
	d.limits = l.limits
	if l.quick != nil && len(l.limits) == 1 {
		d.Allowed, d.now, d.readings[0], err = l.quick.TakeOne(ctx, key, cost)
	} else if l.plan != nil {
		err = l.takeAll(ctx, d)
	} else {
		d.Allowed = !l.blocked
		return nil
	}
	if err != nil {
		d.Allowed, d.limits = false, nil
		return err
	}
	if d.Allowed {
		d.held = cost
	}
	return nil
}

// takeAll asks a plan of several limits.
func (l *Limiter) takeAll(ctx context.Context, d *Decision) error {
	answer, err := l.plan.Take(ctx, d.key, d.Cost)
	if err == nil {
		d.fill(&answer)
	}
	return err
}

func (l *Limiter) badRequest(key string, cost int64) error {
	if key == "" {
		return ErrInvalidKey
	}
	return neverFits(l.limits, cost)
}

// neverFits returns the error of a cost that the limit with the smallest quota, of several the first, has no room for.
func neverFits(limits []Limit, cost int64) error {
	e := &CostError{Cost: cost}
	for i, limit := range limits {
		if i == 0 || limit.Quota < e.Limit.Quota {
			e.Limit = limit
		}
	}
	return e
}

// Peek is PeekN of cost 1.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.PeekN(ctx, key, 1)
}

// PeekN says whether TakeN would admit and what it would answer for retry; the rest of the
// Decision is the state as it stands, nothing deducted. It changes nothing and creates no key.
func (l *Limiter) PeekN(ctx context.Context, key string, cost int64) (d Decision, err error) {
	d.key, d.Cost = key, cost
	if key == "" || uint64(cost) > uint64(l.smallest) {
		return d, l.badRequest(key, cost)
	}
	d.limits = l.limits
	if l.plan == nil {
		d.Allowed = !l.blocked
		return d, nil
	}
	answer, err := l.plan.Peek(ctx, key, cost)
	if err != nil {
		d.limits = nil
		return d, err
	}
	d.fill(&answer)
	return d, nil
}

// Refund gives back the units that the decision charged, at the time they were recorded, in
// every limit. It works once for a Decision: the receipt in it is cleared, whatever comes of the
// call. Units that have left the window are gone, and a decision that charged nothing gives nothing
// back, so a refund never raises the remaining units above the quota. After a Reset a refund can
// only meet units charged since, at the same recorded time. [Limiter.RefundN] gives back a part.
//
// The decision may come from another limiter over the same store, or from a [Group], which then gives
// back all that it charged. The error wraps [ErrUnavailable].
func (l *Limiter) Refund(ctx context.Context, d *Decision) error {
	if d == nil {
		return nil
	}
	return l.RefundN(ctx, d, d.held)
}

// planOf returns a plan over the limits that charged the decision.
func (l *Limiter) planOf(d *Decision) (Plan, error) {
	if len(l.limits) == len(d.limits) && &l.limits[0] == &d.limits[0] {
		return l.plan, nil
	}
	if l.store == nil {
		return nil, fmt.Errorf("%w: an Unlimited or Blocked limiter cannot refund what another charged", ErrInvalidLimit)
	}
	return l.store.Bind(d.limits)
}

// Reset forgets the key in every limit: it is as one never seen.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if key == "" {
		return ErrInvalidKey
	}
	if l.plan == nil {
		return nil
	}
	return l.plan.Reset(ctx, key)
}

// Wait is WaitN of cost 1.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN blocks until the request is admitted. It sleeps as long as the refusal says and asks again,
// so of several waiters the first to ask is served; there is no queue. It fails at once, and
// charges nothing, if the cost can never fit ([*CostError]), if the request would not be admitted
// before the deadline of ctx ([*WaitError]), or if too many wait already ([ErrTooManyWaiters]). When
// ctx ends it returns the context's error; somebody who leaves is not charged. The other errors
// are those of TakeN. It sleeps on the runtime's timers, also where the store has another clock.
func (l *Limiter) WaitN(ctx context.Context, key string, cost int64) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	d, err := l.TakeN(ctx, key, cost)
	if err != nil || d.Allowed {
		return d, err
	}
	if len(d.limits) == 0 {
		return d, ErrBlocked
	}
	if !l.enter() {
		return d, fmt.Errorf("%w: %s", ErrTooManyWaiters, strconv.FormatInt(max(0, l.waiters), 10)+" may wait")
	}
	defer l.waiting.Add(-1)
	for {
		if err := sleep(ctx, d.RetryAfter()); err != nil {
			return d, err
		}
		if d, err = l.TakeN(ctx, key, cost); err != nil || d.Allowed {
			return d, err
		}
	}
}

// enter counts one more waiter in, if there is room for it.
func (l *Limiter) enter() bool {
	for {
		n := l.waiting.Load()
		if n >= l.waiters {
			return false
		}
		if l.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left <= d {
			return &WaitError{Need: d, Left: max(0, left), err: context.DeadlineExceeded}
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() // both may have come: who leaves is not charged
}
