package slidegate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

// A Group makes one decision over several keys: of a login, say, over the address, the account and
// everybody. It has a limiter for each key. A request is admitted only if every limit of every limiter has
// room, and then every one is charged; otherwise none is. The answer is a [Decision] over all limits in
// their order, and its waits are those of all of them.
//
// # One act, or one after another
//
// Where all limiters are over one store that is a [JointStore], a decision is one act: at no time does anybody
// see a part of it. The memory store always decides so, and the Redis store does on a single server; on a
// cluster it does where the keys are in one hash slot. [Group.Atomic] tells.
//
// Elsewhere the limiters are asked one after another, in their order, and the first that refuses ends it:
// what the others have charged is given back at once, also where ctx has ended. That takes a second at
// most. No limit ever admits more than its quota, but until the units are back others may be refused for want of them, so
// put first the limiter that refuses most and that fewest share. Units that cannot be given back, since the
// store has failed, count until they leave their windows. The states in a refusal are read anew when all is
// back; a limiter that cannot be asked any more shows what it showed last, or as untouched. Every wait is counted
// by the clock of its own store, and is longer than needed by the time that the others took.
//
// A Group is safe for concurrent use and needs no closing; its stores may.
type Group struct {
	limiters int
	parts    []part // the limiters that have limits
	limits   []Limit
	joint    JointPlan // nil where no decision is one act
	smallest int64     // quota
	blocked  bool
}

// A part is a limiter of a group, as the group asks it.
type part struct {
	plan     Plan
	limits   []Limit
	key      int // which of the keys is its
	from, to int // its limits among those of the group
}

// giveBackTime bounds giving back what a refused request had charged.
const giveBackTime = time.Second

// NewGroup returns a group of one to MaxLimits limiters with at most MaxLimits limits in all, whose
// names must differ. They may be over different stores. A limiter of [Unlimited] takes part with no limit, and with one of
// [Blocked] every request is refused: no store is asked, and the answer has no limits. Every error wraps
// [ErrInvalidLimit].
func NewGroup(limiters ...*Limiter) (*Group, error) {
	if len(limiters) < 1 || len(limiters) > MaxLimits {
		return nil, fmt.Errorf("%w: %d limiters: allowed is 1 to %d in one group", ErrInvalidLimit, len(limiters), MaxLimits)
	}
	g := &Group{limiters: len(limiters), smallest: math.MaxInt64}
	for i, l := range limiters {
		if l == nil {
			return nil, fmt.Errorf("%w: limiter %d of the group is nil", ErrInvalidLimit, i+1)
		}
		if err := g.add(l, i); err != nil {
			return nil, err
		}
	}
	if len(g.limits) > MaxLimits {
		return nil, fmt.Errorf("%w: %d limits: allowed is up to %d in one group", ErrInvalidLimit, len(g.limits), MaxLimits)
	}
	if err := g.bindJoint(limiters); err != nil {
		return nil, err
	}
	return g, nil
}

// MustNewGroup is NewGroup for limiters that are known to go together. It panics on an error.
func MustNewGroup(limiters ...*Limiter) *Group {
	g, err := NewGroup(limiters...)
	if err != nil {
		panic(err)
	}
	return g
}

// add makes a limiter the part of the group that counts the key at position i.
func (g *Group) add(l *Limiter, i int) error {
	g.blocked = g.blocked || l.blocked
	if l.plan == nil {
		return nil
	}
	for _, limit := range l.limits {
		for _, other := range g.limits {
			if other.Name == limit.Name {
				return fmt.Errorf("%w: two limits of the group have the name %q: names must differ, as in address=5/1m and account=5/1m", ErrInvalidLimit, limit.Name)
			}
		}
	}
	from := len(g.limits)
	g.limits = append(g.limits, l.limits...)
	g.smallest = min(g.smallest, l.smallest)
	g.parts = append(g.parts, part{l.plan, l.limits, i, from, len(g.limits)})
	return nil
}

// bindJoint makes decisions one act where the store can.
func (g *Group) bindJoint(limiters []*Limiter) error {
	if len(g.parts) < 2 {
		return nil
	}
	store := limiters[g.parts[0].key].store
	parts := make([][]Limit, len(g.parts))
	for i, p := range g.parts {
		if !sameStore(store, limiters[p.key].store) {
			return nil
		}
		parts[i] = p.limits
	}
	s, ok := store.(JointStore)
	if !ok {
		return nil
	}
	joint, err := s.BindJoint(parts)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	g.joint = joint
	return err
}

// sameStore tells whether two stores are one. Those that cannot be compared may not be.
func sameStore(a, b Store) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Limits returns a copy of the limits of all limiters, in their order.
func (g *Group) Limits() []Limit { return append([]Limit(nil), g.limits...) }

// Atomic tells whether a decision over these keys is one act. Only on a Redis cluster do the keys matter.
func (g *Group) Atomic(keys ...string) bool {
	if g.check(keys) != nil {
		return false
	}
	return g.blocked || len(g.parts) < 2 || g.isJoint(newReceipt(g, keys))
}

func (g *Group) isJoint(r *receipt) bool { return g.joint != nil && g.joint.Joint(r.asked) }

// A receipt is what a decision of a group has beside its readings: who they are of.
type receipt struct {
	rest
	group *Group
	keys  [MaxLimits]string // of the limiters
	asked []string          // of the parts

	// Readings are told as by the clock of the first part. A part whose own clock stood elsewhere has
	// had its times shifted by so many milliseconds.
	shift [MaxLimits]int64
	begun bool // a part has answered
}

func newReceipt(g *Group, keys []string) *receipt {
	r := &receipt{group: g}
	copy(r.keys[:], keys)
	r.asked = r.keys[:len(keys)]
	if len(g.parts) < len(keys) {
		r.asked = nil
		for _, p := range g.parts {
			r.asked = append(r.asked, keys[p.key])
		}
	}
	return r
}

func (r *receipt) keyOf(limit int) string {
	i := 0
	for limit >= r.group.parts[i].to {
		i++
	}
	return r.asked[i]
}

// Take decides a request of cost 1, with a key for each limiter in their order. See [Group.TakeN].
func (g *Group) Take(ctx context.Context, keys ...string) (Decision, error) {
	return g.TakeN(ctx, 1, keys...)
}

// TakeN decides a request that spends cost units of every key, one key for each limiter in their order, as
// [Limiter.TakeN] does for one. The errors are the same; [ErrInvalidKey] is also wrapped where the keys are not as
// many as the limiters.
func (g *Group) TakeN(ctx context.Context, cost int64, keys ...string) (d Decision, err error) {
	r, err := g.begin(&d, cost, keys)
	if r == nil {
		return d, err
	}
	var a Answer
	if g.isJoint(r) {
		a, err = g.joint.Take(ctx, r.asked, cost)
	} else {
		err = g.takeInOrder(ctx, r, cost, &a)
	}
	if err != nil {
		return d, err
	}
	d.fillGroup(r, &a)
	if d.Allowed {
		d.held = cost
	}
	return d, nil
}

// Peek is PeekN of cost 1.
func (g *Group) Peek(ctx context.Context, keys ...string) (Decision, error) {
	return g.PeekN(ctx, 1, keys...)
}

// PeekN says whether TakeN would admit, as [Limiter.PeekN] does for one key. It changes nothing.
func (g *Group) PeekN(ctx context.Context, cost int64, keys ...string) (d Decision, err error) {
	r, err := g.begin(&d, cost, keys)
	if r == nil {
		return d, err
	}
	var a Answer
	if g.isJoint(r) {
		a, err = g.joint.Peek(ctx, r.asked, cost)
	} else {
		err = g.peekInOrder(ctx, r, cost, &a)
	}
	if err != nil {
		return d, err
	}
	d.fillGroup(r, &a)
	return d, nil
}

// TakeUpTo charges cost units of every key, or as many as there is room for everywhere where that is less, as
// [Limiter.TakeUpTo] does for one key.
func (g *Group) TakeUpTo(ctx context.Context, cost int64, keys ...string) (Decision, error) {
	return takeUpTo(min(cost, g.smallest), func(n int64) (Decision, error) { return g.TakeN(ctx, n, keys...) })
}

// Refund gives back what the decision charged, in every limit of every limiter, as [Limiter.Refund] does, and
// in one act where a decision over its keys is. Elsewhere all limiters are asked, also if one fails. The decision may
// come from another group; one that a [Limiter] made is refused with an error that wraps [ErrInvalidLimit].
func (g *Group) Refund(ctx context.Context, d *Decision) error {
	if d == nil {
		return nil
	}
	return g.RefundN(ctx, d, d.held)
}

// RefundN gives back n of the units that the decision charged, as [Limiter.RefundN] does.
func (g *Group) RefundN(ctx context.Context, d *Decision, n int64) error {
	switch {
	case n < 0:
		return &CostError{Cost: n}
	case d == nil || n == 0 || d.held == 0:
		return nil
	case d.receipt() == nil:
		return fmt.Errorf("%w: the decision was made by a Limiter: give it back to one", ErrInvalidLimit)
	}
	return d.receipt().refund(ctx, d, n)
}

// refund gives back up to n units, n > 0, of what the decision whose receipt it is holds.
func (r *receipt) refund(ctx context.Context, d *Decision, n int64) error {
	g, charged := r.group, d.answer()
	n = min(n, d.held)
	d.held -= n
	if !g.isJoint(r) {
		return g.refundInOrder(ctx, r, n, &charged, len(g.parts))
	}
	for i := range g.parts {
		r.shiftBack(i, &charged)
	}
	return g.joint.Refund(ctx, r.asked, charged, n)
}

// begin fills in what is known before a store is asked. There is no receipt where none is to be asked.
func (g *Group) begin(d *Decision, cost int64, keys []string) (*receipt, error) {
	d.Cost = cost
	if err := g.check(keys); err != nil {
		return nil, err
	}
	d.key = keys[0]
	if uint64(cost) > uint64(g.smallest) {
		return nil, neverFits(g.limits, cost)
	}
	if g.blocked || len(g.parts) == 0 {
		d.Allowed = !g.blocked
		return nil, nil
	}
	return newReceipt(g, keys), nil
}

func (g *Group) check(keys []string) error {
	if len(keys) != g.limiters {
		return &keysError{len(keys), g.limiters}
	}
	for _, key := range keys {
		if key == "" {
			return ErrInvalidKey
		}
	}
	return nil
}

// A keysError says that the keys are not as many as the limiters.
type keysError struct{ keys, limiters int }

func (e *keysError) Error() string {
	return fmt.Sprintf("slidegate: %d keys for a group of %d limiters: give one for each, in their order", e.keys, e.limiters)
}

func (e *keysError) Unwrap() error { return ErrInvalidKey }

// fillGroup takes over the answer to a group.
func (d *Decision) fillGroup(r *receipt, a *Answer) {
	d.Allowed, d.now, d.limits = a.Allowed, a.Now, r.group.limits
	copy(d.readings[:], a.Readings[:])
	copy(r.rest.readings[:], a.Readings[inPlace:])
	r.rest.receipt = r
	d.rest = &r.rest
}

// takeInOrder asks one part after another until one refuses. Then what the others have charged is given back, and it
// is looked how they stand.
func (g *Group) takeInOrder(ctx context.Context, r *receipt, cost int64, all *Answer) error {
	all.Allowed = true
	for i := range g.parts {
		a, err := g.parts[i].plan.Take(ctx, r.asked[i], cost)
		if err != nil {
			g.giveBack(ctx, r, cost, all, i)
			return err
		}
		if r.put(i, &a, all); !a.Allowed {
			g.giveBack(ctx, r, cost, all, i)
			g.lookAround(ctx, r, cost, all, i)
			return nil
		}
	}
	return nil
}

// giveBack takes back what the first n parts have charged. Nobody can be told if that fails: the request is refused in
// any case.
func (g *Group) giveBack(ctx context.Context, r *receipt, cost int64, charged *Answer, n int) {
	if n == 0 || cost == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	_ = g.refundInOrder(ctx, r, cost, charged, n)
}

// lookAround reads how all parts stand but the one that refused.
func (g *Group) lookAround(ctx context.Context, r *receipt, cost int64, all *Answer, refused int) {
	for i := range g.parts {
		if i == refused {
			continue
		}
		if a, err := g.parts[i].plan.Peek(ctx, r.asked[i], cost); err == nil {
			r.put(i, &a, all)
		}
	}
}

func (g *Group) peekInOrder(ctx context.Context, r *receipt, cost int64, all *Answer) error {
	all.Allowed = true
	for i := range g.parts {
		a, err := g.parts[i].plan.Peek(ctx, r.asked[i], cost)
		if err != nil {
			return err
		}
		r.put(i, &a, all)
	}
	return nil
}

func (g *Group) refundInOrder(ctx context.Context, r *receipt, cost int64, charged *Answer, n int) error {
	var failed error
	for i := range n {
		a := r.cut(i, charged)
		failed = errors.Join(failed, g.parts[i].plan.Refund(ctx, r.asked[i], a, cost))
	}
	return failed
}

// put puts the answer of a part into that of the group, which has the clock of the part that answered first.
func (r *receipt) put(i int, a, all *Answer) {
	if !r.begun {
		all.Now, r.begun = a.Now, true
	}
	all.Allowed = all.Allowed && a.Allowed
	r.shift[i] = all.Now - a.Now
	p := &r.group.parts[i]
	copy(all.Readings[p.from:p.to], a.Readings[:])
	r.move(i, all, r.shift[i])
}

// cut returns the answer of a part, by its own clock.
func (r *receipt) cut(i int, all *Answer) Answer {
	a := *all
	r.shiftBack(i, &a)
	p := &r.group.parts[i]
	a.Now -= r.shift[i]
	copy(a.Readings[:], a.Readings[p.from:p.to])
	return a
}

func (r *receipt) shiftBack(i int, all *Answer) { r.move(i, all, -r.shift[i]) }

// move shifts the times in the readings of a part.
func (r *receipt) move(i int, all *Answer, by int64) {
	p := &r.group.parts[i]
	for j := range p.limits {
		all.Readings[p.from+j].At += by
		if p.limits[j].Algorithm == SlidingLog {
			all.Readings[p.from+j].Back += by
		}
	}
}
