package rehearse

import (
	"context"
	"errors"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A Clock says when a store decides. [Memory] is one.
type Clock interface {
	At(now int64) // milliseconds since 1970
}

// A Judge decides the requests of a log by a policy, in their order.
type Judge struct {
	limiter   *slidegate.Limiter // nil where there are rules
	rehearsal *rules.Rehearsal
	place     int // of the policy in the book
	clock     Clock
	verdict   Verdict
}

// A Verdict is what became of a request.
type Verdict struct {
	Admitted bool

	Fits     bool               // false where the cost can never fit: there is no Decision then
	Decision slidegate.Decision // of limits
	Events   []*rules.Event     // of rules: their decisions, in order
}

// Judge returns what decides by a policy in memory, in a way, for the events of a book in which the policy has a place. Memory
// tells in the end whether verdicts can be wrong.
func (p *Policy) Judge(way Way, place int) (*Judge, *Memory, error) {
	memory := NewMemory(way, ManyKeys)
	j, err := p.JudgeOver(memory.Store(), memory, way, place)
	return j, memory, err
}

// JudgeOver is Judge over another store, on a clock that it reads.
func (p *Policy) JudgeOver(store slidegate.Store, clock Clock, way Way, place int) (_ *Judge, err error) {
	j := &Judge{place: place, clock: clock}
	if p.File == nil {
		limits := make([]slidegate.Limit, len(p.Limits))
		for i, l := range p.Limits {
			limits[i] = way.Recount(l)
		}
		j.limiter, err = slidegate.New(store, limits...)
		return j, err
	}
	o := p.options
	o.Store, o.Recount = store, way.Recount
	o.Observe = func(e *rules.Event) {
		event := *e
		j.verdict.Events = append(j.verdict.Events, &event)
	}
	j.rehearsal, err = rules.NewRehearsal(p.File, o)
	return j, err
}

// Decide decides an event. The verdict is good until the next one. An error is the store's or that of ctx.
func (j *Judge) Decide(ctx context.Context, e *timeline.Event, a *Asked) (v *Verdict, err error) {
	if j.rehearsal == nil {
		return j.DecideKey(ctx, e, a.parts[j.place].key)
	}
	j.clock.At(e.Time)
	v = &j.verdict
	v.Fits, v.Events = true, v.Events[:0]
	v.Admitted, err = j.rehearsal.Decide(ctx, a.Matching(j.place))
	return v, err
}

// DecideKey is Decide by limits, for a key.
func (j *Judge) DecideKey(ctx context.Context, e *timeline.Event, key string) (v *Verdict, err error) {
	j.clock.At(e.Time)
	v = &j.verdict
	v.Decision, v.Fits, err = Ask(ctx, j.limiter, e, key)
	v.Admitted = v.Decision.Allowed
	return v, err
}

// Forget has the store forget all that was counted of a subject.
func (j *Judge) Forget(ctx context.Context, a *Asked) error {
	if j.rehearsal == nil {
		return j.limiter.Reset(ctx, a.parts[j.place].key)
	}
	return j.rehearsal.Forget(ctx, a.Matching(j.place))
}

// Ask asks a limiter what an event does. A cost that can never fit is no failure: fits tells, and there is no decision.
func Ask(ctx context.Context, l *slidegate.Limiter, e *timeline.Event, key string) (d slidegate.Decision, fits bool, err error) {
	switch e.Op {
	case accesslog.Take:
		d, err = l.TakeN(ctx, key, e.Cost)
	case accesslog.Peek:
		d, err = l.PeekN(ctx, key, e.Cost)
	case accesslog.Reset:
		err = l.Reset(ctx, key)
	}
	if err == nil {
		return d, true, nil
	}
	return d, false, unlessCost(err)
}

func unlessCost(err error) error {
	var cost *slidegate.CostError
	if errors.As(err, &cost) {
		return nil
	}
	return err
}
