package redisstore

import (
	"context"

	"github.com/slidegate/slidegate"
)

// A jointPlan decides over several keys. For the scripts it is a plan over the limits of all parts: a request
// is stored keys, whatever they are made of, and its limits.
type jointPlan struct {
	*plan
	names []naming // of the parts
}

var _ slidegate.JointStore = (*Store)(nil)

// BindJoint implements [slidegate.JointStore].
func (s *Store) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	p := &jointPlan{}
	var all []slidegate.Limit
	for _, limits := range parts {
		all = append(all, limits...)
		p.names = append(p.names, newNaming(s.prefix, limits))
	}
	p.plan = newPlan(s, all)
	return p, nil
}

// Joint implements [slidegate.JointPlan]: a script on a cluster has the keys of one hash slot.
func (p *jointPlan) Joint(keys []string) bool {
	if !p.store.clustered() {
		return true
	}
	for _, key := range keys[1:] {
		if key != keys[0] && hashSlot(escape(key)) != hashSlot(escape(keys[0])) {
			return false
		}
	}
	return true
}

// Take implements [slidegate.JointPlan].
func (p *jointPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.take(ctx, p.callAll(p.takes, keys), cost)
}

// Peek implements [slidegate.JointPlan].
func (p *jointPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.peek(ctx, p.callAll(p.peeks, keys), cost)
}

// Refund implements [slidegate.JointPlan].
func (p *jointPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	return p.refund(ctx, p.callAll(p.refunds, keys), charged, cost)
}

// callAll returns a call with the keys of every limit of every part.
func (p *jointPlan) callAll(b *batcher, keys []string) *call {
	c := b.call()
	for i := range p.names {
		c.keys = p.names[i].keys(escape(keys[i]), c.keys)
	}
	if p.store.clustered() {
		c.slot = hashSlot(escape(keys[0]))
	}
	return c
}
