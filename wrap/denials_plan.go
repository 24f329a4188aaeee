package wrap

import (
	"context"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan].
func (d *DenialsStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	next, err := d.store.Bind(limits)
	if err != nil {
		return nil, err
	}
	return &denialsPlan{d, quick(next), limits}, nil
}

// BindJoint implements [slidegate.JointStore], where the wrapped store does. Refusals over several keys are not
// remembered: each would have to be forgotten with any of its keys.
func (d *DenialsStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	next, err := bindJoint(d.store, parts)
	if err != nil {
		return nil, err
	}
	return &jointDenialsPlan{d, next, parts}, nil
}

// A denialsPlan asks the plan behind it what it does not remember.
type denialsPlan struct {
	d      *DenialsStore
	next   slidegate.QuickPlan
	limits []slidegate.Limit
}

// A question is a request that is not remembered, as it stood before the store was asked.
type question struct {
	set     *denialSet
	print   print
	changes uint32
	began   time.Duration
}

// look returns what is remembered of a request, nil if nothing is.
func (p *denialsPlan) look(key string, cost int64) (q question, r *refusal) {
	q.print = p.d.print(key)
	q.set = p.d.set(q.print)
	q.changes = q.set.changesOf(q.print).Load()
	q.began = p.d.clock()
	if r = q.set.find(q.print, p, cost, q.began); r != nil {
		q.set.answered.Add(1)
	}
	return q, r
}

// learn takes note of an answer to a take.
func (p *denialsPlan) learn(q *question, cost int64, a *slidegate.Answer) {
	switch {
	case !a.Allowed:
		p.remember(q, cost, a)
	case cost > 0:
		q.set.forget(q.print, p.limits)
	}
}

func (p *denialsPlan) remember(q *question, cost int64, a *slidegate.Answer) {
	lasts := p.holds(cost, a)
	if lasts == 0 {
		return
	}
	q.set.remember(&refusal{
		print: q.print, plan: p, cost: cost, now: a.Now, began: q.began, lasts: lasts,
		readings: append([]slidegate.Reading(nil), a.Readings[:len(p.limits)]...),
	}, q.changes)
}

// holds returns how long a refusal is known to be as it is: until the first of the limits that refuse has room. The
// store's clock may have been up to a millisecond further than it said, so the last millisecond is not ours. It is 0
// if no limit refuses: then the store knows something that its readings do not say.
func (p *denialsPlan) holds(cost int64, a *slidegate.Answer) (lasts time.Duration) {
	for i := range p.limits {
		wait := retry(&p.limits[i], cost, a.Now, a.Readings[i])
		if wait <= 0 {
			continue
		}
		wait = min(wait, int64(p.d.most/time.Millisecond)+2) // so that it does not overflow
		known := min(p.d.most, time.Duration(wait-1)*time.Millisecond+1)
		if lasts == 0 || known < lasts {
			lasts = known
		}
	}
	return lasts
}

// retry returns the time until a limit has room for a request that was refused, in milliseconds; 0 if it has room.
func retry(l *slidegate.Limit, cost, now int64, r slidegate.Reading) int64 {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		return window.Counter{Start: r.At, Prev: r.Back, Cur: r.Units}.WaitUntil(now, span, l.Quota-cost)
	}
	if r.Units+cost <= l.Quota {
		return 0
	}
	return r.Back + span - now
}

// reading returns what the store would read of the i-th limit, as far as is known. Units of a log may have left since; the
// unit that has to leave, and the newest, have not.
func (r *refusal) reading(i int, now int64) slidegate.Reading {
	l, was := &r.plan.limits[i], r.readings[i]
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		c := window.Counter{Start: was.At, Prev: was.Back, Cur: was.Units}.Roll(now, span)
		return slidegate.Reading{At: c.Start, Units: c.Cur, Back: c.Prev}
	}
	if now-was.At >= span {
		return slidegate.Reading{} // all have left
	}
	return was
}

// at returns the store's clock, counted on and rounded up to whole milliseconds: it may have been anywhere in its
// millisecond, and anywhere in the time of the call.
func (r *refusal) at(now time.Duration) int64 {
	return r.now + int64((now-r.began+time.Millisecond-1)/time.Millisecond)
}

func (r *refusal) answer(now time.Duration) (a slidegate.Answer) {
	a.Now = r.at(now)
	for i := range r.readings {
		a.Readings[i] = r.reading(i, a.Now)
	}
	return a
}

func (p *denialsPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	q, known := p.look(key, cost)
	if known != nil {
		return known.answer(q.began), nil
	}
	a, err := p.next.Take(ctx, key, cost)
	if err == nil {
		p.learn(&q, cost, &a)
	}
	return a, err
}

// Peek is answered as Take is: of a refusal both say the same.
func (p *denialsPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	q, known := p.look(key, cost)
	if known != nil {
		return known.answer(q.began), nil
	}
	a, err := p.next.Peek(ctx, key, cost)
	if err == nil && !a.Allowed {
		p.remember(&q, cost, &a)
	}
	return a, err
}

func (p *denialsPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	err := p.next.Refund(ctx, key, charged, cost)
	p.d.forget(key, p.limits) // also if it failed: it may have been done
	return err
}

func (p *denialsPlan) Reset(ctx context.Context, key string) error {
	err := p.next.Reset(ctx, key)
	p.d.forget(key, p.limits)
	return err
}

func (d *DenialsStore) forget(key string, limits []slidegate.Limit) {
	print := d.print(key)
	d.set(print).forget(print, limits)
}

// Allow implements [slidegate.QuickPlan]. The verdict alone could not be remembered: it has no wait.
func (p *denialsPlan) Allow(ctx context.Context, key string, cost int64) (allowed bool, err error) {
	if len(p.limits) == 1 {
		allowed, _, _, err = p.TakeOne(ctx, key, cost)
		return allowed, err
	}
	q, known := p.look(key, cost)
	if known != nil {
		return false, nil
	}
	a, err := p.next.Take(ctx, key, cost)
	if err == nil {
		p.learn(&q, cost, &a)
	}
	return a.Allowed, err
}

// TakeOne implements [slidegate.QuickPlan].
func (p *denialsPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	q, known := p.look(key, cost)
	if known != nil {
		now = known.at(q.began)
		return false, now, known.reading(0, now), nil
	}
	var a slidegate.Answer
	a.Allowed, a.Now, a.Readings[0], err = p.next.TakeOne(ctx, key, cost)
	if err == nil {
		p.learn(&q, cost, &a)
	}
	return a.Allowed, a.Now, a.Readings[0], err
}

// A jointDenialsPlan passes decisions over several keys on, and sees what they change.
type jointDenialsPlan struct {
	d     *DenialsStore
	next  slidegate.JointPlan
	parts [][]slidegate.Limit
}

func (p *jointDenialsPlan) Joint(keys []string) bool { return p.next.Joint(keys) }

func (p *jointDenialsPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	a, err := p.next.Take(ctx, keys, cost)
	if err == nil && a.Allowed && cost > 0 {
		p.forget(keys)
	}
	return a, err
}

func (p *jointDenialsPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.next.Peek(ctx, keys, cost)
}

func (p *jointDenialsPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	err := p.next.Refund(ctx, keys, charged, cost)
	p.forget(keys)
	return err
}

func (p *jointDenialsPlan) forget(keys []string) {
	for i, key := range keys {
		p.d.forget(key, p.parts[i])
	}
}
