package wrap

import (
	"context"

	"github.com/slidegate/slidegate"
)

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan] where that of the wrapped store is.
func (c *CircuitStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	next, err := c.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	if quick, ok := next.(slidegate.QuickPlan); ok {
		return &quickCircuitPlan{circuitPlan{c, next}, quick}, nil
	}
	return &circuitPlan{c, next}, nil
}

// BindJoint implements [slidegate.JointStore], where the wrapped store does.
func (c *CircuitStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	next, err := bindJoint(c.store, parts)
	if err != nil {
		return nil, err
	}
	return &jointCircuitPlan{c, next}, nil
}

// A circuitPlan asks the plan behind it where the circuit lets it.
type circuitPlan struct {
	c    *CircuitStore
	next slidegate.Plan
}

func (p *circuitPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return slidegate.Answer{}, err
	}
	answer, err := p.next.Take(ctx, key, cost)
	p.c.leave(ctx, began, err)
	return answer, err
}

func (p *circuitPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return slidegate.Answer{}, err
	}
	answer, err := p.next.Peek(ctx, key, cost)
	p.c.leave(ctx, began, err)
	return answer, err
}

func (p *circuitPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	began, err := p.c.enter(ctx)
	if err != nil {
		return err
	}
	err = p.next.Refund(ctx, key, charged, cost)
	p.c.leave(ctx, began, err)
	return err
}

func (p *circuitPlan) Reset(ctx context.Context, key string) error {
	began, err := p.c.enter(ctx)
	if err != nil {
		return err
	}
	err = p.next.Reset(ctx, key)
	p.c.leave(ctx, began, err)
	return err
}

// A quickCircuitPlan is a circuitPlan in front of a quick plan.
type quickCircuitPlan struct {
	circuitPlan
	quick slidegate.QuickPlan
}

func (p *quickCircuitPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return false, err
	}
	allowed, err := p.quick.Allow(ctx, key, cost)
	p.c.leave(ctx, began, err)
	return allowed, err
}

func (p *quickCircuitPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return false, 0, slidegate.Reading{}, err
	}
	allowed, now, r, err = p.quick.TakeOne(ctx, key, cost)
	p.c.leave(ctx, began, err)
	return allowed, now, r, err
}

// A jointCircuitPlan is a circuit in front of a joint plan.
type jointCircuitPlan struct {
	c    *CircuitStore
	next slidegate.JointPlan
}

// Joint asks nobody, so the circuit does not matter.
func (p *jointCircuitPlan) Joint(keys []string) bool { return p.next.Joint(keys) }

func (p *jointCircuitPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return slidegate.Answer{}, err
	}
	answer, err := p.next.Take(ctx, keys, cost)
	p.c.leave(ctx, began, err)
	return answer, err
}

func (p *jointCircuitPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	began, err := p.c.enter(ctx)
	if err != nil {
		return slidegate.Answer{}, err
	}
	answer, err := p.next.Peek(ctx, keys, cost)
	p.c.leave(ctx, began, err)
	return answer, err
}

func (p *jointCircuitPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	began, err := p.c.enter(ctx)
	if err != nil {
		return err
	}
	err = p.next.Refund(ctx, keys, charged, cost)
	p.c.leave(ctx, began, err)
	return err
}
