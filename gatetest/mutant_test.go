package gatetest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// A recorder is a testing.TB that fails for itself alone.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Cleanup(func())        {}
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }

// fails tells whether a law finds fault with the stores of f.
func fails(t *testing.T, law gatetest.Law, f gatetest.Factory) bool {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { r.failed = recover() != nil || r.failed }()
		law.Check(r, f)
	}()
	<-done
	return r.failed
}

// A mutant is an oracle with one fault.
type mutant struct {
	slidegate.Store
	bind  func(plan, free slidegate.Plan) slidegate.Plan
	joint func(plan, free slidegate.JointPlan) slidegate.JointPlan // nil: one key after another
	with  func(slidegate.Limit) slidegate.Limit
}

func (m *mutant) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	limits = slices.Clone(limits)
	free := slices.Clone(limits)
	for i := range limits {
		if m.with != nil {
			limits[i] = m.with(limits[i])
		}
		free[i] = limits[i]
		free[i].Quota = slidegate.MaxQuota
	}
	plan, err := m.Store.Bind(limits)
	if err != nil || m.bind == nil {
		return plan, err
	}
	unchecked, err := m.Store.Bind(free)
	return m.bind(plan, unchecked), err
}

func (m *mutant) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if m.joint == nil {
		return nil, errors.ErrUnsupported
	}
	free := make([][]slidegate.Limit, len(parts))
	for i := range parts {
		free[i] = slices.Clone(parts[i])
		for j := range free[i] {
			free[i][j].Quota = slidegate.MaxQuota
		}
	}
	store := m.Store.(slidegate.JointStore)
	plan, err := store.BindJoint(parts)
	if err != nil {
		return nil, err
	}
	unchecked, err := store.BindJoint(free)
	return m.joint(plan, unchecked), err
}

// A joint plan with a verb replaced.
type alteredJoint struct {
	slidegate.JointPlan
	take   func(keys []string, cost int64) (slidegate.Answer, error)
	refund func(keys []string, a slidegate.Answer, cost int64) error
}

func (p *alteredJoint) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	if p.take != nil {
		return p.take(keys, cost)
	}
	return p.JointPlan.Take(ctx, keys, cost)
}

func (p *alteredJoint) Refund(ctx context.Context, keys []string, a slidegate.Answer, cost int64) error {
	if p.refund != nil {
		return p.refund(keys, a, cost)
	}
	return p.JointPlan.Refund(ctx, keys, a, cost)
}

// A plan with one verb replaced.
type altered struct {
	slidegate.Plan
	take   func(key string, cost int64) (slidegate.Answer, error)
	peek   func(key string, cost int64) (slidegate.Answer, error)
	refund func(key string, a slidegate.Answer, cost int64) error
	reset  func(key string) error
}

func (p *altered) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.take != nil {
		return p.take(key, cost)
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p *altered) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.peek != nil {
		return p.peek(key, cost)
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p *altered) Refund(ctx context.Context, key string, a slidegate.Answer, cost int64) error {
	if p.refund != nil {
		return p.refund(key, a, cost)
	}
	return p.Plan.Refund(ctx, key, a, cost)
}

func (p *altered) Reset(ctx context.Context, key string) error {
	if p.reset != nil {
		return p.reset(key)
	}
	return p.Plan.Reset(ctx, key)
}

// TestEveryLawCanFail: each law finds a store with the fault that it is there to find.
func TestEveryLawCanFail(t *testing.T) {
	ctx := context.Background()
	window := func(d time.Duration) func(slidegate.Limit) slidegate.Limit {
		return func(l slidegate.Limit) slidegate.Limit { l.Window = max(l.Window+d, time.Millisecond); return l }
	}
	take := func(f func(plan, free slidegate.Plan, key string, cost int64) (slidegate.Answer, error)) func(plan, free slidegate.Plan) slidegate.Plan {
		return func(plan, free slidegate.Plan) slidegate.Plan {
			return &altered{Plan: plan, take: func(key string, cost int64) (slidegate.Answer, error) { return f(plan, free, key, cost) }}
		}
	}
	takeJoint := func(f func(plan, free slidegate.JointPlan, keys []string, cost int64) (slidegate.Answer, error)) func(plan, free slidegate.JointPlan) slidegate.JointPlan {
		return func(plan, free slidegate.JointPlan) slidegate.JointPlan {
			return &alteredJoint{JointPlan: plan, take: func(keys []string, cost int64) (slidegate.Answer, error) { return f(plan, free, keys, cost) }}
		}
	}
	faults := map[string]mutant{
		"several keys are charged when one refuses": {joint: takeJoint(func(plan, free slidegate.JointPlan, keys []string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Take(ctx, keys, cost)
			if !a.Allowed {
				_, err = free.Take(ctx, keys, cost)
			}
			return a, err
		})},
		"several keys are decided and charged in two acts": {joint: takeJoint(func(plan, free slidegate.JointPlan, keys []string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Peek(ctx, keys, cost)
			if runtime.Gosched(); a.Allowed {
				return free.Take(ctx, keys, cost)
			}
			return a, err
		})},
		"several keys are counted as the first": {joint: takeJoint(func(plan, _ slidegate.JointPlan, keys []string, cost int64) (slidegate.Answer, error) {
			return plan.Take(ctx, slices.Repeat(keys[:1], len(keys)), cost)
		})},
		"the second of several keys refuses nothing": {joint: takeJoint(func(plan, free slidegate.JointPlan, keys []string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Take(ctx, keys, cost)
			if other := []string{keys[0], "nobody"}; !a.Allowed && len(keys) == 2 {
				b, err := plan.Peek(ctx, other, cost)
				if b.Allowed {
					return free.Take(ctx, keys, cost)
				}
				return a, err
			}
			return a, err
		})},
		"refunds of several keys do nothing": {joint: func(plan, _ slidegate.JointPlan) slidegate.JointPlan {
			return &alteredJoint{JointPlan: plan, refund: func([]string, slidegate.Answer, int64) error { return nil }}
		}},
		"refunds of several keys give doubly": {joint: func(plan, _ slidegate.JointPlan) slidegate.JointPlan {
			return &alteredJoint{JointPlan: plan, refund: func(keys []string, a slidegate.Answer, cost int64) error { return plan.Refund(ctx, keys, a, 2*cost) }}
		}},
		"refusals are charged": {bind: take(func(plan, free slidegate.Plan, key string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Take(ctx, key, cost)
			if !a.Allowed {
				_, err = free.Take(ctx, key, cost)
			}
			return a, err
		})},
		"a charge counts a millisecond too long":  {with: window(time.Millisecond)},
		"a charge counts a millisecond too short": {with: window(-time.Millisecond)},
		"waits are a millisecond too long": {bind: take(func(plan, _ slidegate.Plan, key string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Take(ctx, key, cost)
			if !a.Allowed {
				a.Readings[0].Back++
			}
			return a, err
		})},
		"decided and charged in two acts": {bind: take(func(plan, free slidegate.Plan, key string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Peek(ctx, key, cost)
			if runtime.Gosched(); a.Allowed {
				return free.Take(ctx, key, cost)
			}
			return a, err
		})},
		"a cost of zero is charged": {bind: take(func(plan, _ slidegate.Plan, key string, cost int64) (slidegate.Answer, error) {
			return plan.Take(ctx, key, max(1, cost))
		})},
		"peeks are charged": {bind: func(plan, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: plan, peek: func(key string, cost int64) (slidegate.Answer, error) { return plan.Take(ctx, key, cost) }}
		}},
		"everybody is one key": {bind: func(plan, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: plan,
				take: func(_ string, cost int64) (slidegate.Answer, error) { return plan.Take(ctx, "all", cost) },
				peek: func(_ string, cost int64) (slidegate.Answer, error) { return plan.Peek(ctx, "all", cost) }}
		}},
		"names are ignored": {with: func(l slidegate.Limit) slidegate.Limit { l.Name = "same"; return l }},
		"refunds do nothing": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: p, refund: func(string, slidegate.Answer, int64) error { return nil }}
		}},
		"refunds give doubly": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: p, refund: func(k string, a slidegate.Answer, c int64) error { return p.Refund(ctx, k, a, 2*c) }}
		}},
		"refunds forget a key": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: p, refund: func(k string, _ slidegate.Answer, _ int64) error { return p.Reset(ctx, k) }}
		}},
		"refunds take from the newest charge": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: p, refund: func(k string, _ slidegate.Answer, c int64) error {
				newest, err := p.Peek(ctx, k, 1)
				if err != nil {
					return err
				}
				return p.Refund(ctx, k, newest, c)
			}}
		}},
		"a clock that steps back refills": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			var mu sync.Mutex
			latest := map[string]int64{}
			return &altered{Plan: p, take: func(key string, cost int64) (slidegate.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				a, err := p.Peek(ctx, key, cost)
				if err == nil && a.Now < latest[key] {
					err = p.Reset(ctx, key)
				}
				if latest[key] = a.Now; err != nil {
					return a, err
				}
				return p.Take(ctx, key, cost)
			}}
		}},
		"times are kept in 32 bits": {bind: take(func(plan, _ slidegate.Plan, key string, cost int64) (slidegate.Answer, error) {
			a, err := plan.Take(ctx, key, cost)
			if !a.Allowed {
				a.Readings[0].Back = a.Now - (a.Now-a.Readings[0].Back)&(1<<32-1)
			}
			return a, err
		})},
		"resolutions are ignored": {with: func(l slidegate.Limit) slidegate.Limit { l.Resolution = 0; return l }},
		"resets do nothing": {bind: func(p, _ slidegate.Plan) slidegate.Plan {
			return &altered{Plan: p, reset: func(string) error { return nil }}
		}},
		"counters are logs": {with: func(l slidegate.Limit) slidegate.Limit { l.Algorithm = slidegate.SlidingLog; return l }},
		"logs are counters": {with: func(l slidegate.Limit) slidegate.Limit {
			l.Algorithm, l.Resolution = slidegate.SlidingCounter, 0
			return l
		}},
	}
	found := map[string]bool{}
	for name, m := range faults {
		caught := false
		for _, law := range gatetest.Laws() {
			if fails(t, law, func(_ testing.TB, clock *gatetest.Clock) slidegate.Store {
				store := m
				store.Store = gatetest.NewOracle(clock)
				return &store
			}) {
				found[law.Name], caught = true, true
			}
		}
		if !caught {
			t.Errorf("no law finds that %s", name)
		}
	}
	for _, law := range gatetest.Laws() {
		if !found[law.Name] {
			t.Errorf("the law %s found none of the faults", law.Name)
		}
	}
}
