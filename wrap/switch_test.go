package wrap_test

import (
	"context"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// A switchable store is another one that can be away.
type switchable struct {
	slidegate.Store
	err atomic.Pointer[error] // nil while it is there
}

func newSwitch(store slidegate.Store) *switchable { return &switchable{Store: store} }

func (s *switchable) off(err error) { s.err.Store(&err) }
func (s *switchable) on()           { s.err.Store(nil) }

func (s *switchable) failure() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *switchable) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	plan, err := s.Store.Bind(limits)
	return &switchablePlan{plan, s}, err
}

func (s *switchable) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	plan, err := s.Store.(slidegate.JointStore).BindJoint(parts)
	return &switchableJointPlan{plan, s}, err
}

type switchablePlan struct {
	slidegate.Plan
	s *switchable
}

func (p *switchablePlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.s.failure(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p *switchablePlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.s.failure(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p *switchablePlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := p.s.failure(); err != nil {
		return err
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

func (p *switchablePlan) Reset(ctx context.Context, key string) error {
	if err := p.s.failure(); err != nil {
		return err
	}
	return p.Plan.Reset(ctx, key)
}

type switchableJointPlan struct {
	slidegate.JointPlan
	s *switchable
}

func (p *switchableJointPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	if err := p.s.failure(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.JointPlan.Take(ctx, keys, cost)
}

func (p *switchableJointPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	if err := p.s.failure(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.JointPlan.Peek(ctx, keys, cost)
}

func (p *switchableJointPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	if err := p.s.failure(); err != nil {
		return err
	}
	return p.JointPlan.Refund(ctx, keys, charged, cost)
}
