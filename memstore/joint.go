package memstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/slidegate/slidegate"
)

// A jointPlan decides over several keys, each with a plan of its own.
type jointPlan struct {
	store *Store
	parts []plan
}

var _ slidegate.JointStore = (*Store)(nil)

// BindJoint implements [slidegate.JointStore].
func (s *Store) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	p := &jointPlan{store: s}
	from := 0
	for _, limits := range parts {
		bound, err := s.Bind(limits)
		if err != nil {
			return nil, err
		}
		part := *bound.(*plan)
		part.from = from
		from += len(limits)
		p.parts = append(p.parts, part)
	}
	return p, nil
}

// Joint implements [slidegate.JointPlan]: a process can lock what it likes.
func (p *jointPlan) Joint([]string) bool { return true }

// A grip is the keys of one decision and their shards, of which several keys may have one, as the same key may
// stand for several parts. Who holds more than one shard has taken them in the order in which they are in the store, so
// nobody waits for who waits for him.
type grip struct {
	n      int
	prints [slidegate.MaxLimits]print
	shards [slidegate.MaxLimits]*shard
	slots  [slidegate.MaxLimits]int // under the locks: as find returns them
	order  [slidegate.MaxLimits]int // numbers of the shards, rising
}

func (p *jointPlan) grip(keys []string) grip {
	s, g := p.store, grip{n: len(keys)}
	for i, key := range keys {
		g.prints[i] = s.print(key)
		g.shards[i] = s.shard(g.prints[i])
		g.order[i] = int(g.prints[i].high >> s.shift)
	}
	slices.Sort(g.order[:g.n])
	return g
}

func (g *grip) lock(s *Store) {
	for i, number := range g.order[:g.n] {
		if i == 0 || number != g.order[i-1] {
			s.shards[number].mu.Lock()
		}
	}
}

func (g *grip) unlock(s *Store) {
	for i, number := range g.order[:g.n] {
		if i == 0 || number != g.order[i-1] {
			s.shards[number].mu.Unlock()
		}
	}
}

// find finds the keys. It returns how many are new, and the shard of one that is.
func (g *grip) find() (added int64, sh *shard) {
	for i := range g.n {
		if g.slots[i] = g.shards[i].find(g.prints[i]); g.slots[i] < 0 && !slices.Contains(g.prints[:i], g.prints[i]) {
			added, sh = added+1, g.shards[i]
		}
	}
	return added, sh
}

// errNarrow is of a store whose bound no eviction can help.
var errNarrow = fmt.Errorf("%w: the memory store may hold fewer keys than this decision has", slidegate.ErrUnavailable)

// Take implements [slidegate.JointPlan]. Where new keys find the store full it lets go of the locks, makes room
// and decides afresh.
func (p *jointPlan) Take(_ context.Context, keys []string, cost int64) (answer slidegate.Answer, err error) {
	s, g := p.store, p.grip(keys)
	var found [slidegate.MaxLimits]finding
	for {
		g.lock(s)
		answer.Now = s.now()
		if s.closed.Load() {
			g.unlock(s)
			return slidegate.Answer{Now: answer.Now}, errClosed
		}
		added, sh := g.find()
		if !p.decide(&g, cost, &answer, &found) || cost == 0 {
			g.unlock(s)
			return answer, nil
		}
		if s.reserve(added) {
			due := p.charge(&g, cost, &answer, &found)
			g.unlock(s)
			if due != math.MaxInt64 {
				s.arm(answer.Now, due)
			}
			return answer, nil
		}
		g.unlock(s)
		if added > s.maxKeys {
			return slidegate.Answer{Now: answer.Now}, errNarrow
		}
		if !s.makeRoom(sh, added) {
			return slidegate.Answer{Now: answer.Now}, errFull
		}
	}
}

// decide reads every limit and tells whether all have room.
func (p *jointPlan) decide(g *grip, cost int64, answer *slidegate.Answer, found *[slidegate.MaxLimits]finding) bool {
	all := true
	for i := range p.parts {
		room := p.parts[i].decide(g.shards[i], g.slots[i], cost, answer, found)
		all = all && room
	}
	answer.Allowed = all
	return all
}

// charge charges every limit of what decide found, and returns the next due of the shards where it opened some. What is
// there is charged first, of every part: opening moves states.
func (p *jointPlan) charge(g *grip, cost int64, answer *slidegate.Answer, found *[slidegate.MaxLimits]finding) (due int64) {
	var missing [slidegate.MaxLimits]bool
	for i := range p.parts {
		part := &p.parts[i]
		missing[i] = part.chargeFound(g.shards[i], answer, cost, found) < len(part.limits)
	}
	due = math.MaxInt64
	for i := range p.parts {
		if sh, pr := g.shards[i], g.prints[i]; missing[i] {
			due = min(due, p.parts[i].openMissing(sh, pr, sh.find(pr), answer, cost, found))
		}
	}
	return due
}

// Peek implements [slidegate.JointPlan].
func (p *jointPlan) Peek(_ context.Context, keys []string, cost int64) (answer slidegate.Answer, err error) {
	s, g := p.store, p.grip(keys)
	g.lock(s)
	defer g.unlock(s)
	answer.Now = s.now()
	if s.closed.Load() {
		return answer, errClosed
	}
	g.find()
	var found [slidegate.MaxLimits]finding
	p.decide(&g, cost, &answer, &found)
	return answer, nil
}

// Refund implements [slidegate.JointPlan].
func (p *jointPlan) Refund(_ context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	s, g := p.store, p.grip(keys)
	if s.closed.Load() {
		return errClosed
	}
	g.lock(s)
	defer g.unlock(s)
	now := s.now()
	for i := range p.parts {
		p.parts[i].editLocked(g.shards[i], g.prints[i], now, p.parts[i].giveBack(&charged, cost))
	}
	return nil
}
