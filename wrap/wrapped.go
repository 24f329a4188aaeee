package wrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
)

// bindJoint binds several keys where the store can.
func bindJoint(store slidegate.Store, parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	joint, ok := store.(slidegate.JointStore)
	if !ok {
		return nil, fmt.Errorf("wrap: the wrapped store decides over one key: %w", errors.ErrUnsupported)
	}
	return joint.BindJoint(parts)
}

// quick returns a plan that can be asked in any way.
func quick(p slidegate.Plan) slidegate.QuickPlan {
	if q, ok := p.(slidegate.QuickPlan); ok {
		return q
	}
	return plain{p}
}

// A plain plan answers the quick questions by a take.
type plain struct{ slidegate.Plan }

func (p plain) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	a, err := p.Take(ctx, key, cost)
	return a.Allowed, err
}

func (p plain) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	a, err := p.Take(ctx, key, cost)
	return a.Allowed, a.Now, a.Readings[0], err
}
