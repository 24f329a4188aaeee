package wrap

import (
	"context"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
)

// A ShadowStore lets everything pass. Make one with [Shadow]. It is safe for concurrent use and needs no closing; the store
// behind it may.
type ShadowStore struct {
	store   slidegate.Store
	refused func(limits []slidegate.Limit)
	invalid error // a store that cannot be used
}

// Shadow returns a store that decides and charges as another one does, and refuses nobody: what would be refused is answered as
// admitted, is not charged, and has the readings of the refusal, so remaining units are true, and the reset too but of a counter,
// whose is told later than it is. It is for looking at what limits
// would do before they do it, whatever asks: an HTTP or gRPC gate, a job, the command.
//
// For each request that would be refused, refused is called with the limits that were asked, which are shared and not to be
// modified, on the caller's goroutine and for several callers at once; nil for nobody. Or put [Observe] between Shadow and
// the store: it sees the verdicts as they are.
//
// An option of a gate, such as httpgate.Shadow, hides the gate from the client: no field, no failure of the store. This
// store does not know the gate. Fields tell the client what is left, 0 where he would be refused; an error of the store stays
// an error, with which the gate fails open or closed as it is told to; [slidegate.Limiter.Wait] does not wait, and every
// limiter over this store is in shadow, those over the store behind it are not.
//
// A nil store is reported by [slidegate.New], with an error that wraps [slidegate.ErrInvalidLimit].
func Shadow(store slidegate.Store, refused func(limits []slidegate.Limit)) *ShadowStore {
	s := &ShadowStore{store: store, refused: refused}
	if store == nil {
		s.invalid = fmt.Errorf("%w: shadow: the store is nil: give the one to wrap", slidegate.ErrInvalidLimit)
	}
	if refused == nil {
		s.refused = func([]slidegate.Limit) {}
	}
	return s
}

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan].
func (s *ShadowStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	next, err := s.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	return &shadowPlan{shade{s, limits}, quick(next)}, nil
}

// BindJoint implements [slidegate.JointStore], where the wrapped store does.
func (s *ShadowStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	next, err := bindJoint(s.store, parts)
	if err != nil {
		return nil, err
	}
	return &jointShadowPlan{shade{s, slices.Concat(parts...)}, next}, nil
}

// A shade makes admissions of refusals over its limits.
type shade struct {
	s      *ShadowStore
	limits []slidegate.Limit
}

// pass lets a refused request pass. Its refund, if one comes, has nothing to give back.
func (p *shade) pass(a *slidegate.Answer) {
	if !a.Allowed {
		a.Allowed = true
		notCharged.put(p.limits, a)
	}
}

func (p *shade) taken(a slidegate.Answer, err error) (slidegate.Answer, error) {
	if err == nil && !a.Allowed {
		p.s.refused(p.limits)
		p.pass(&a)
	}
	return a, err
}

func (p *shade) peeked(a slidegate.Answer, err error) (slidegate.Answer, error) {
	if err == nil {
		p.pass(&a)
	}
	return a, err
}

// A shadowPlan asks the plan behind it, and refuses nobody.
type shadowPlan struct {
	shade
	next slidegate.QuickPlan
}

func (p *shadowPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.taken(p.next.Take(ctx, key, cost))
}

func (p *shadowPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.peeked(p.next.Peek(ctx, key, cost))
}

func (p *shadowPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if notCharged.on(p.limits, &charged) {
		return nil
	}
	return p.next.Refund(ctx, key, charged, cost)
}

func (p *shadowPlan) Reset(ctx context.Context, key string) error { return p.next.Reset(ctx, key) }

// Allow implements [slidegate.QuickPlan].
func (p *shadowPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	allowed, err := p.next.Allow(ctx, key, cost)
	if err == nil && !allowed {
		p.s.refused(p.limits)
	}
	return err == nil, err
}

// TakeOne implements [slidegate.QuickPlan].
func (p *shadowPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	var a slidegate.Answer
	a.Allowed, a.Now, a.Readings[0], err = p.next.TakeOne(ctx, key, cost)
	a, err = p.taken(a, err)
	return a.Allowed, a.Now, a.Readings[0], err
}

// A jointShadowPlan asks a joint plan, and refuses nobody.
type jointShadowPlan struct {
	shade
	next slidegate.JointPlan
}

func (p *jointShadowPlan) Joint(keys []string) bool { return p.next.Joint(keys) }

func (p *jointShadowPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.taken(p.next.Take(ctx, keys, cost))
}

func (p *jointShadowPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.peeked(p.next.Peek(ctx, keys, cost))
}

func (p *jointShadowPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	if notCharged.on(p.limits, &charged) {
		return nil
	}
	return p.next.Refund(ctx, keys, charged, cost)
}
