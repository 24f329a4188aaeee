package wrap

import (
	"context"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
)

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan].
func (o *ObservedStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if o.invalid != nil {
		return nil, o.invalid
	}
	next, err := o.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	return &observedPlan{o, quick(next), limits}, nil
}

// BindJoint implements [slidegate.JointStore], where the wrapped store does.
func (o *ObservedStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if o.invalid != nil {
		return nil, o.invalid
	}
	next, err := bindJoint(o.store, parts)
	if err != nil {
		return nil, err
	}
	return &jointObservedPlan{o, next, slices.Concat(parts...)}, nil
}

// An observedPlan tells of each call of the plan behind it.
type observedPlan struct {
	o      *ObservedStore
	next   slidegate.QuickPlan
	limits []slidegate.Limit
}

func (p *observedPlan) tell(op Op, key string, cost int64, began time.Time, allowed bool, err error) {
	e := Event{op, allowed, err, cost, time.Since(began), p.limits, nil}
	if p.o.keys {
		e.Keys = []string{key}
	}
	p.o.tell(e)
}

func (p *observedPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	began := time.Now()
	a, err := p.next.Take(ctx, key, cost)
	p.tell(OpTake, key, cost, began, a.Allowed, err)
	return a, err
}

func (p *observedPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	began := time.Now()
	a, err := p.next.Peek(ctx, key, cost)
	p.tell(OpPeek, key, cost, began, a.Allowed, err)
	return a, err
}

func (p *observedPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	began := time.Now()
	err := p.next.Refund(ctx, key, charged, cost)
	p.tell(OpRefund, key, cost, began, false, err)
	return err
}

func (p *observedPlan) Reset(ctx context.Context, key string) error {
	began := time.Now()
	err := p.next.Reset(ctx, key)
	p.tell(OpReset, key, 0, began, false, err)
	return err
}

// Allow implements [slidegate.QuickPlan].
func (p *observedPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	began := time.Now()
	allowed, err := p.next.Allow(ctx, key, cost)
	p.tell(OpTake, key, cost, began, allowed, err)
	return allowed, err
}

// TakeOne implements [slidegate.QuickPlan].
func (p *observedPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	began := time.Now()
	allowed, now, r, err = p.next.TakeOne(ctx, key, cost)
	p.tell(OpTake, key, cost, began, allowed, err)
	return allowed, now, r, err
}

// A jointObservedPlan tells of each call of a joint plan.
type jointObservedPlan struct {
	o      *ObservedStore
	next   slidegate.JointPlan
	limits []slidegate.Limit
}

func (p *jointObservedPlan) tell(op Op, keys []string, cost int64, began time.Time, allowed bool, err error) {
	e := Event{op, allowed, err, cost, time.Since(began), p.limits, nil}
	if p.o.keys {
		e.Keys = slices.Clone(keys)
	}
	p.o.tell(e)
}

func (p *jointObservedPlan) Joint(keys []string) bool { return p.next.Joint(keys) }

func (p *jointObservedPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	began := time.Now()
	a, err := p.next.Take(ctx, keys, cost)
	p.tell(OpTake, keys, cost, began, a.Allowed, err)
	return a, err
}

func (p *jointObservedPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	began := time.Now()
	a, err := p.next.Peek(ctx, keys, cost)
	p.tell(OpPeek, keys, cost, began, a.Allowed, err)
	return a, err
}

func (p *jointObservedPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	began := time.Now()
	err := p.next.Refund(ctx, keys, charged, cost)
	p.tell(OpRefund, keys, cost, began, false, err)
	return err
}
