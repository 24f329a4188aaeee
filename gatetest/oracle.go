package gatetest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// An Oracle is a store that is right because it is simple: it keeps every charge by itself in a
// slice, counts by looking at all of them, and finds nothing by a formula that could be wrong. It
// shares no code with the arithmetic it is there to check. It is slow, it forgets nothing, and it is
// exact for clocks within 2^50 milliseconds of the Unix epoch.
type Oracle struct {
	clock *Clock
	mu    sync.Mutex
	logs  map[place][]charge
	pairs map[place]*pair
}

// A place is where the state of one limit of one key lives.
type place struct {
	key, name string
	algorithm slidegate.Algorithm
	window    time.Duration
}

type charge struct{ at, units int64 }

// A pair is a sliding counter: counts of the window that begins at start and of the one before.
type pair struct{ start, prev, cur int64 }

// NewOracle returns an empty oracle that reads its time from clock.
func NewOracle(clock *Clock) *Oracle {
	return &Oracle{clock: clock, logs: map[place][]charge{}, pairs: map[place]*pair{}}
}

// Bind implements [slidegate.Store].
func (o *Oracle) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	return &oraclePlan{o, limits}, nil
}

type oraclePlan struct {
	o      *Oracle
	limits []slidegate.Limit
}

func (p *oraclePlan) Take(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	now := p.o.clock.Now().UnixMilli()
	answer := p.look(key, now, cost)
	if !answer.Allowed || cost == 0 {
		return answer, nil
	}
	for i, l := range p.limits {
		answer.Readings[i] = p.o.spend(at(key, l), l, now, cost)
	}
	return answer, nil
}

func (p *oraclePlan) Peek(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	return p.look(key, p.o.clock.Now().UnixMilli(), cost), nil
}

func (p *oraclePlan) Refund(_ context.Context, key string, charged slidegate.Answer, cost int64) error {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	now := p.o.clock.Now().UnixMilli()
	for i, l := range p.limits {
		p.o.giveBack(at(key, l), l, now, charged.Readings[i].At, cost)
	}
	return nil
}

func (p *oraclePlan) Reset(_ context.Context, key string) error {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	for _, l := range p.limits {
		delete(p.o.logs, at(key, l))
		delete(p.o.pairs, at(key, l))
	}
	return nil
}

// BindJoint implements [slidegate.JointStore].
func (o *Oracle) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	p := &oracleJointPlan{o: o}
	for _, limits := range parts {
		p.parts = append(p.parts, &oraclePlan{o, limits})
	}
	return p, nil
}

type oracleJointPlan struct {
	o     *Oracle
	parts []*oraclePlan
}

func (p *oracleJointPlan) Joint([]string) bool { return true }

func (p *oracleJointPlan) Take(_ context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	now := p.o.clock.Now().UnixMilli()
	answer := p.look(keys, now, cost)
	if !answer.Allowed || cost == 0 {
		return answer, nil
	}
	i := 0
	for j, part := range p.parts {
		for _, l := range part.limits {
			answer.Readings[i] = p.o.spend(at(keys[j], l), l, now, cost)
			i++
		}
	}
	return answer, nil
}

func (p *oracleJointPlan) Peek(_ context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	return p.look(keys, p.o.clock.Now().UnixMilli(), cost), nil
}

func (p *oracleJointPlan) Refund(_ context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	now, i := p.o.clock.Now().UnixMilli(), 0
	for j, part := range p.parts {
		for _, l := range part.limits {
			p.o.giveBack(at(keys[j], l), l, now, charged.Readings[i].At, cost)
			i++
		}
	}
	return nil
}

// look puts together what each part alone would say.
func (p *oracleJointPlan) look(keys []string, now, cost int64) slidegate.Answer {
	all, i := slidegate.Answer{Allowed: true, Now: now}, 0
	for j, part := range p.parts {
		one := part.look(keys[j], now, cost)
		all.Allowed = all.Allowed && one.Allowed
		i += copy(all.Readings[i:], one.Readings[:len(part.limits)])
	}
	return all
}

func at(key string, l slidegate.Limit) place { return place{key, l.Name, l.Algorithm, l.Window} }

// look reads every limit and changes nothing.
func (p *oraclePlan) look(key string, now, cost int64) slidegate.Answer {
	answer := slidegate.Answer{Allowed: true, Now: now}
	for i, l := range p.limits {
		r, used := p.o.read(at(key, l), l, now)
		if cost > 0 && used+cost > l.Quota {
			answer.Allowed = false
			if l.Algorithm == slidegate.SlidingLog {
				r.Back = p.o.leaver(at(key, l), l, now, used+cost-l.Quota)
			}
		}
		answer.Readings[i] = r
	}
	return answer
}

// read returns the reading of a limit with room, and the units that count.
func (o *Oracle) read(pl place, l slidegate.Limit, now int64) (r slidegate.Reading, used int64) {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		c := o.rolled(pl, now, span)
		elapsed := max(0, now-c.start)
		weighted := math.Floor(float64(c.prev) * float64(span-elapsed) / float64(span))
		return slidegate.Reading{At: c.start, Units: c.cur, Back: c.prev}, int64(weighted) + c.cur
	}
	for _, c := range o.logs[pl] {
		if now-c.at < span {
			used += c.units
			r.At = c.at
		}
	}
	r.Units = used
	return r, used
}

// rolled returns the counter at now, a copy.
func (o *Oracle) rolled(pl place, now, span int64) pair {
	start := int64(math.Floor(float64(now)/float64(span))) * span
	c, ok := o.pairs[pl]
	if !ok {
		return pair{start: start}
	}
	if start <= c.start {
		return *c
	}
	if start-c.start == span {
		return pair{start: start, prev: c.cur}
	}
	return pair{start: start}
}

// leaver returns when the need-th oldest of the units that count was recorded, one by one.
func (o *Oracle) leaver(pl place, l slidegate.Limit, now, need int64) int64 {
	for _, c := range o.logs[pl] {
		if now-c.at >= l.Window.Milliseconds() {
			continue
		}
		if need -= c.units; need <= 0 {
			return c.at
		}
	}
	panic("gatetest: more units must leave than count")
}

// spend charges a limit that has room.
func (o *Oracle) spend(pl place, l slidegate.Limit, now, cost int64) slidegate.Reading {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		c := o.rolled(pl, now, span)
		c.cur += cost
		o.pairs[pl] = &c
		r, _ := o.read(pl, l, now)
		return r
	}
	var held []charge
	recorded := now
	if res := l.Resolution.Milliseconds(); res > 1 {
		recorded = int64(math.Ceil(float64(now)/float64(res))) * res
	}
	for _, c := range o.logs[pl] {
		if now-c.at < span {
			held = append(held, c)
			recorded = max(recorded, c.at)
		}
	}
	o.logs[pl] = append(held, charge{recorded, cost})
	r, _ := o.read(pl, l, now)
	return r
}

// giveBack takes up to cost units back that were recorded at the given time, if they count.
func (o *Oracle) giveBack(pl place, l slidegate.Limit, now, recorded, cost int64) {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingCounter {
		if c, ok := o.pairs[pl]; ok {
			switch recorded {
			case c.start:
				c.cur = max(0, c.cur-cost)
			case c.start - span:
				c.prev = max(0, c.prev-cost)
			}
			if c.cur == 0 && c.prev == 0 {
				delete(o.pairs, pl)
			}
		}
		return
	}
	var left []charge
	for _, c := range o.logs[pl] {
		if c.at == recorded && now-recorded < span {
			gone := min(cost, c.units)
			c.units -= gone
			cost -= gone
		}
		if c.units > 0 {
			left = append(left, c)
		}
	}
	o.logs[pl] = left
}
