package rls

import (
	"context"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// decideTogether charges every descriptor of an admitted request, and none of a refused one. Rules in shadow mode have no
// say, and hits are given back, where the rest admits.
func (s *Service) decideTogether(ctx context.Context, b *bound, asks []ask) (admitted bool, err error) {
	t := &trial{groups: &b.groups}
	admitted, err = t.admits(ctx, asks)
	if err == nil && admitted {
		err = s.each(ctx, asks, unlessKnown((*ask).do))
	}
	if err == nil && admitted {
		return true, nil
	}
	t.undo(ctx)
	if err == nil {
		err = s.each(ctx, asks, unlessKnown((*ask).look))
	}
	return false, err
}

func unlessKnown(do func(*ask, context.Context) error) func(*ask, context.Context) error {
	return func(a *ask, ctx context.Context) error {
		if a.known {
			return nil
		}
		return do(a, ctx)
	}
}

// A trial is the charges of a request that may yet be refused.
type trial struct {
	groups *groups
	undos  []func(context.Context) error
	asks   []*ask // that were charged
}

// undoTime bounds giving back what a refused request was charged.
const undoTime = time.Second

// undo gives everything back, also where the caller has gone. Nobody can be told if that fails: units that do not come
// back count until they leave their windows. How these descriptors stand is to be looked at anew.
func (t *trial) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for _, undo := range t.undos {
		_ = undo(ctx)
	}
	for _, a := range t.asks {
		a.known, a.charged = a.over, 0
	}
}

// admits takes for all asks that have a say, and tells whether they admit the request. What refuses without a charge comes first.
func (t *trial) admits(ctx context.Context, asks []ask) (bool, error) {
	var spenders, quotas []*ask
	for i := range asks {
		a := &asks[i]
		switch {
		case a.limit == nil || a.shadow || a.negative:
		case a.quota:
			quotas = append(quotas, a)
		case a.spends() && a.hits == a.most():
			spenders = append(spenders, a)
		default:
			if err := a.look(ctx); err != nil || a.over {
				return false, err
			}
		}
	}
	if admitted, err := t.takeAll(ctx, spenders); err != nil || !admitted {
		return false, err
	}
	return t.takeAny(ctx, quotas)
}

// takeAll takes for all or none, in one act where the store can.
func (t *trial) takeAll(ctx context.Context, asks []*ask) (bool, error) {
	if group, err := t.groups.of(asks); group != nil || err != nil {
		if err != nil {
			return false, err
		}
		return t.takeGroup(ctx, group, asks)
	}
	for _, a := range asks {
		if err := t.take(ctx, a); err != nil || a.over {
			return false, err
		}
	}
	return true, nil
}

// takeAny takes for each, and tells whether one was admitted, or there is none.
func (t *trial) takeAny(ctx context.Context, asks []*ask) (bool, error) {
	admitted := len(asks) == 0
	for _, a := range asks {
		if err := t.take(ctx, a); err != nil {
			return false, err
		}
		admitted = admitted || !a.over
	}
	return admitted, nil
}

func (t *trial) take(ctx context.Context, a *ask) error {
	err := a.takeWhole(ctx)
	if a.charged > 0 {
		t.undos = append(t.undos, func(ctx context.Context) error { return a.limiter.Refund(ctx, a.decision) })
		t.asks = append(t.asks, a)
	}
	return err
}

func (t *trial) takeGroup(ctx context.Context, group *slidegate.Group, asks []*ask) (bool, error) {
	keys := make([]string, len(asks))
	for i, a := range asks {
		keys[i] = a.Key
	}
	d, err := group.TakeN(ctx, asks[0].hits, keys...)
	if err != nil {
		return false, err
	}
	for i, a := range asks {
		if a.is(d.State(i), d.Refuses(i)); d.Allowed {
			a.charged = a.hits
		}
	}
	if d.Allowed {
		t.undos = append(t.undos, func(ctx context.Context) error { return group.Refund(ctx, &d) })
		t.asks = append(t.asks, asks...)
	}
	return d.Allowed, nil
}

// groups are those of the limiters that were asked for together, as long as they are not many.
type groups struct {
	mu  sync.Mutex
	all map[groupKey]*slidegate.Group
}

type groupKey [slidegate.MaxLimits]*limiter

const mostGroups = 1000

// of returns the group of the asks, nil where one cannot decide: it has one cost for all, and names that differ.
func (g *groups) of(asks []*ask) (*slidegate.Group, error) {
	if len(asks) < 2 || len(asks) > slidegate.MaxLimits {
		return nil, nil
	}
	var key groupKey
	for i, a := range asks {
		for j := range i {
			if key[j].limit.Name == a.limiter.limit.Name {
				return nil, nil
			}
		}
		if a.hits != asks[0].hits {
			return nil, nil
		}
		key[i] = a.limiter
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.all[key]; found != nil {
		return found, nil
	}
	limiters := make([]*slidegate.Limiter, len(asks))
	for i, a := range asks {
		limiters[i] = a.limiter.Limiter
	}
	made, err := slidegate.NewGroup(limiters...)
	if err != nil {
		return nil, err
	}
	if g.all == nil || len(g.all) >= mostGroups {
		g.all = map[groupKey]*slidegate.Group{}
	}
	g.all[key] = made
	return made, nil
}
