package bans

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// Wrap returns a store that refuses the banned and leaves everybody else to store. A refused request is not charged, and
// the store is not asked about it; each of its limits answers that nothing is left until the very millisecond at which the
// ban is over.
func (l *List) Wrap(store slidegate.Store) slidegate.Store {
	if joint, ok := store.(slidegate.JointStore); ok {
		return &jointStore{wrapped{l, store}, joint}
	}
	return &wrapped{l, store}
}

type wrapped struct {
	list *List
	slidegate.Store
}

// Bind implements [slidegate.Store].
func (w *wrapped) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	next, err := w.Store.Bind(limits)
	if err != nil {
		return nil, err
	}
	p := plan{Plan: next, gate: gate{w.list, limits}}
	if quick, ok := next.(slidegate.QuickPlan); ok {
		return &quickPlan{p, quick}, nil
	}
	return &p, nil
}

type jointStore struct {
	wrapped
	joint slidegate.JointStore
}

// BindJoint implements [slidegate.JointStore].
func (j *jointStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	next, err := j.joint.BindJoint(parts)
	if err != nil {
		return nil, err
	}
	return &jointPlan{next, gate{j.list, slices.Concat(parts...)}}, nil
}

// A gate refuses over some limits.
type gate struct {
	list   *List
	limits []slidegate.Limit
}

// refuse answers a request of a key that is banned; ok is false where it is not, and where nothing is asked for.
func (g *gate) refuse(cost int64, keys ...string) (a slidegate.Answer, ok bool) {
	var until time.Time
	for _, key := range keys {
		if u := g.list.Banned(key); u.After(until) {
			until = u
		}
	}
	if until.IsZero() || cost == 0 {
		return a, false
	}
	a.Now = g.list.now().UnixMilli()
	for i, l := range g.limits {
		a.Readings[i] = full(l, until.UnixMilli(), cost)
	}
	return a, true
}

// full is a limit of which nothing is left before until, when cost units fit: a log by one charge that leaves then, and a
// counter by a window before that is so heavy that even its last millisecond weighs the whole quota.
func full(l slidegate.Limit, until, cost int64) slidegate.Reading {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		heavy := int64(math.MaxInt64 / 2)
		if l.Quota <= heavy/span {
			heavy = l.Quota * span
		}
		fits := window.Counter{Prev: heavy}.WaitUntil(0, span, l.Quota-cost)
		return slidegate.Reading{At: until - fits, Back: heavy}
	}
	return slidegate.Reading{At: until - span, Units: l.Quota, Back: until - span}
}

type plan struct {
	slidegate.Plan
	gate
}

func (p *plan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if a, ok := p.refuse(cost, key); ok {
		return a, nil
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p *plan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if a, ok := p.refuse(cost, key); ok {
		return a, nil
	}
	return p.Plan.Peek(ctx, key, cost)
}

// Charges implements [slidegate.ChargesPlan], where the plan behind does.
func (p *plan) Charges(ctx context.Context, key string, most int) ([][]slidegate.Charge, error) {
	lister, ok := p.Plan.(slidegate.ChargesPlan)
	if !ok {
		return nil, fmt.Errorf("%w: the store cannot list charges", errors.ErrUnsupported)
	}
	return lister.Charges(ctx, key, most)
}

type quickPlan struct {
	plan
	quick slidegate.QuickPlan
}

// Allow implements [slidegate.QuickPlan].
func (p *quickPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	if _, ok := p.refuse(cost, key); ok {
		return false, nil
	}
	return p.quick.Allow(ctx, key, cost)
}

// TakeOne implements [slidegate.QuickPlan].
func (p *quickPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	if a, ok := p.refuse(cost, key); ok {
		return false, a.Now, a.Readings[0], nil
	}
	return p.quick.TakeOne(ctx, key, cost)
}

type jointPlan struct {
	slidegate.JointPlan
	gate
}

func (p *jointPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	if a, ok := p.refuse(cost, keys...); ok {
		return a, nil
	}
	return p.JointPlan.Take(ctx, keys, cost)
}

func (p *jointPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	if a, ok := p.refuse(cost, keys...); ok {
		return a, nil
	}
	return p.JointPlan.Peek(ctx, keys, cost)
}
