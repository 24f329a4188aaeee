package memstore

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// A plan decides over the limits it was bound to.
type plan struct {
	store  *Store
	limits []limit
	from   int // where the readings of its limits are in an answer: behind those of other parts
}

var _ slidegate.QuickPlan = (*plan)(nil)

// state returns the state of a limit in the slot at position i, nil if the key has none.
func (sh *shard) state(i int, l *limit) *state {
	if i < 0 {
		return nil
	}
	if st := &sh.slots[i].state; st.tag() == l.tag {
		return st
	}
	if n := sh.chainedNode(i, l); n != nil {
		return &n.state
	}
	return nil
}

// lookup is state of a key, in one step for the usual case: a key with one limit, in the slot where its probe begins.
func (sh *shard) lookup(p print, l *limit) *state {
	if n := len(sh.slots); n > 0 {
		if s := &sh.slots[home(p, n)]; s.low == p.low && s.high == p.high && s.tag() == l.tag {
			return &s.state
		}
	}
	return sh.state(sh.find(p), l)
}

func (sh *shard) chainedNode(i int, l *limit) *node {
	for n := sh.first(i); n != nil; n = sh.next(n) {
		if n.limit == l.id {
			return n
		}
	}
	return nil
}

// stateAfter is state for one limit after another: last is what it returned for the limit before. A chain
// is mostly in the order in which limits are declared, so the next node is mostly the right one.
func (sh *shard) stateAfter(i int, l *limit, last *node) (*state, *node) {
	if i < 0 {
		return nil, nil
	}
	if st := &sh.slots[i].state; st.tag() == l.tag {
		return st, nil
	}
	if last != nil {
		if n := sh.next(last); n != nil && n.limit == l.id {
			return &n.state, n
		}
	}
	n := sh.chainedNode(i, l)
	if n == nil {
		return nil, nil
	}
	return &n.state, n
}

// read returns how a limit stands at now for a request of cost, and for a log the index of the
// oldest entry that counts. A limit without a state is completely free.
func (sh *shard) read(st *state, l *limit, now, cost int64) (r slidegate.Reading, live int, room bool) {
	if l.counter {
		var c window.Counter
		if st != nil {
			c = sh.load(st).Roll(now, l.span)
		} else {
			c.Start = window.Floor(now, l.span)
		}
		return slidegate.Reading{At: c.Start, Units: c.Cur, Back: c.Prev}, 0, cost == 0 || c.Fits(now, l.span, l.quota-cost)
	}
	if st == nil {
		return r, 0, true
	}
	r, live = sh.readLog(st, l, now, cost)
	return r, live, cost == 0 || r.Units+cost <= l.quota
}

// charge spends cost units of a limit with room and returns how it stands then. r and live are
// what read returned.
func (sh *shard) charge(st *state, l *limit, now, cost int64, r slidegate.Reading, live int) slidegate.Reading {
	r.Units += cost
	if l.counter {
		sh.save(st, window.Counter{Start: r.At, Prev: r.Back, Cur: r.Units})
		return r
	}
	sh.chargeLog(st, l, now, cost, live)
	r.At = st.at()
	return r
}

// open returns a first charge of a limit, as a state.
func (sh *shard) open(l *limit, now, cost int64) (state, slidegate.Reading) {
	if l.counter {
		var st state
		c := window.Counter{Start: window.Floor(now, l.span), Cur: cost}
		sh.save(&st, c)
		return st, slidegate.Reading{At: c.Start, Units: cost}
	}
	at := window.Record(now, l.resolution, 0, false)
	return newState(at, uint64(cost)), slidegate.Reading{At: at, Units: cost}
}

// Allow implements [slidegate.QuickPlan].
func (p *plan) Allow(_ context.Context, key string, cost int64) (bool, error) {
	s, l := p.store, &p.limits[0]
	pr := s.print(key)
	sh := s.shard(pr)
	if len(p.limits) == 1 {
		sh.mu.Lock()
		if st := sh.lookup(pr, l); st != nil {
			now := s.now()
			var allowed, done bool
			switch {
			case cost < 1: // admit knows what that is
			case l.counter:
				allowed, done = st.allowCounter(l, now, cost)
			default:
				allowed, done = sh.allowLog(st, l, now, cost)
			}
			if !done {
				_, allowed = sh.admit(st, l, now, cost)
			}
			sh.mu.Unlock()
			return allowed, nil
		}
		sh.mu.Unlock()
	}
	allowed, _, _, err := p.takeNew(pr, sh, cost)
	return allowed, err
}

// admit decides a request and charges it if there is room.
func (sh *shard) admit(st *state, l *limit, now, cost int64) (r slidegate.Reading, room bool) {
	if r, room, done := sh.quick(st, l, now, cost); done {
		return r, room
	}
	r, live, room := sh.read(st, l, now, cost)
	if room && cost > 0 {
		r = sh.charge(st, l, now, cost, r, live)
	}
	return r, room
}

// allowLog is quick for the verdict alone, of a log.
func (sh *shard) allowLog(st *state, l *limit, now, cost int64) (allowed, done bool) {
	word := st.word
	if word&spilled == 0 {
		_, allowed, done = quickInSlot(st, l, now, cost)
		return allowed, done
	}
	if word&fewBit != 0 {
		return false, false
	}
	log := sh.rings.at(word)
	if !window.Counts(log.oldest, now, l.span) {
		return false, false
	}
	if log.total-log.before+cost > l.quota {
		return false, true
	}
	if st.at() < now || l.resolution > 1 || log.shift == 0 && l.wide {
		return false, false
	}
	log.add(cost, st.at())
	return true, true
}

// allowCounter is quick for the verdict alone, of a counter.
func (st *state) allowCounter(l *limit, now, cost int64) (allowed, done bool) {
	if st.word&spilled != 0 || now >= st.at()+l.span {
		return false, false
	}
	used := int64(st.word&countMask) + cost
	if used > l.quota {
		return false, true
	}
	if used+int64(st.word>>counted) > l.quota || used > countMask {
		return false, false // it takes weighing, or a pair
	}
	st.word += uint64(cost)
	return true, true
}

// quick is admit for the usual case, in few steps: a counter in the window that it is in already, and a
// log of which nothing has left. Where that is not so it changes nothing and is not done.
func (sh *shard) quick(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	if cost < 1 {
		return r, false, false
	}
	if !l.counter {
		return sh.quickLog(st, l, now, cost)
	}
	if st.word&spilled != 0 || now >= st.at()+l.span {
		return r, false, false
	}
	r = slidegate.Reading{At: st.at(), Units: int64(st.word & countMask), Back: int64(st.word >> counted)}
	if r.Units+cost > l.quota {
		return r, false, true
	}
	if used := r.Units + cost; used+r.Back > l.quota || used > countMask {
		return r, false, false // it takes weighing, or a pair
	}
	st.word += uint64(cost)
	r.Units += cost
	return r, true, true
}

func (sh *shard) quickLog(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	if st.word&spilled == 0 {
		return quickInSlot(st, l, now, cost)
	}
	if st.word&fewBit != 0 {
		return sh.quickFew(st, l, now, cost)
	}
	log := sh.rings.at(st.word)
	if !window.Counts(log.oldest, now, l.span) {
		return r, false, false
	}
	r = slidegate.Reading{At: st.at(), Units: log.total - log.before}
	switch need := r.Units + cost - l.quota; {
	case need == 1:
		r.Back = log.oldest // an entry has one unit at least
		return r, false, true
	case need > 1, st.at() < now || l.resolution > 1 || log.shift == 0 && l.wide:
		return r, false, false
	}
	log.add(cost, st.at())
	r.Units += cost
	return r, true, true
}

// quickInSlot is quickLog for a log that is in its slot.
func quickInSlot(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	if st.word&packedBit != 0 {
		return quickPacked(st, l, now, cost)
	}
	return quickOne(st, l, now, cost)
}

// quickOne is quickLog for a log of one entry.
func quickOne(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	if !window.Counts(st.at(), now, l.span) {
		return r, false, false
	}
	r = slidegate.Reading{At: st.at(), Units: int64(st.word)}
	switch {
	case r.Units+cost > l.quota:
		r.Back = r.At
		return r, false, true
	case r.At >= now && l.resolution == 1:
		st.word += uint64(cost)
		r.Units += cost
		return r, true, true
	case l.few && st.word == 1 && cost == 1 && l.resolution == 1: // two units
		st.word, _ = packMore(st.word, now-r.At)
		st.setAt(now)
		return slidegate.Reading{At: now, Units: 2}, true, true
	}
	return r, false, false
}

func (sh *shard) quickFew(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	f := sh.fews.at(st.word)
	oldest := f.time(0, st.at())
	if !window.Counts(oldest, now, l.span) {
		return r, false, false
	}
	r = slidegate.Reading{At: st.at(), Units: int64(f.len())}
	switch need := r.Units + cost - l.quota; {
	case need == 1:
		r.Back = oldest
		return r, false, true
	case need > 1, l.resolution > 1, !f.room(0, cost):
		return r, false, false
	}
	r.At, r.Units = max(r.At, now), r.Units+cost
	f.push(r.At, cost)
	st.setAt(r.At)
	return r, true, true
}

// TakeOne implements [slidegate.QuickPlan].
func (p *plan) TakeOne(_ context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	s, l := p.store, &p.limits[0]
	pr := s.print(key)
	sh := s.shard(pr)
	sh.mu.Lock()
	st := sh.lookup(pr, l)
	now = s.now()
	if st != nil {
		r, allowed = sh.admit(st, l, now, cost)
		sh.mu.Unlock()
		return allowed, now, r, nil
	}
	sh.mu.Unlock()
	return p.takeNew(pr, sh, cost)
}

// takeNew is take for the quick ways to ask, where the key has no state or the limits are several. It
// is kept out of its callers, whose frames would have to hold an Answer.
//
//go:noinline
func (p *plan) takeNew(pr print, sh *shard, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	var answer slidegate.Answer
	err = p.take(pr, sh, cost, &answer)
	return answer.Allowed, answer.Now, answer.Readings[0], err
}

// Take implements [slidegate.Plan].
func (p *plan) Take(_ context.Context, key string, cost int64) (answer slidegate.Answer, err error) {
	pr := p.store.print(key)
	err = p.take(pr, p.store.shard(pr), cost, &answer)
	return answer, err
}

// A finding is what a decision read of one limit, for the charge that may follow.
type finding struct {
	st    *state // nil if the key has none
	live  int
	quick bool // a ring with room, of which nothing has left
}

// take decides under the lock of the key's shard. Where a new key finds the store full it lets go
// of the lock, makes room and decides afresh.
func (p *plan) take(pr print, sh *shard, cost int64, answer *slidegate.Answer) error {
	s := p.store
	var found [slidegate.MaxLimits]finding
	for {
		sh.mu.Lock()
		answer.Now = s.now()
		i := sh.find(pr)
		if i < 0 && s.closed.Load() {
			sh.mu.Unlock()
			*answer = slidegate.Answer{Now: answer.Now}
			return errClosed
		}
		if !p.decide(sh, i, cost, answer, &found) || cost == 0 {
			sh.mu.Unlock()
			return nil
		}
		if i >= 0 || s.reserve(1) {
			due, opened := p.chargeAll(sh, pr, i, answer, cost, &found)
			sh.mu.Unlock()
			if opened {
				s.arm(answer.Now, due)
			}
			return nil
		}
		sh.mu.Unlock()
		if !s.makeRoom(sh, 1) {
			*answer = slidegate.Answer{Now: answer.Now}
			return errFull
		}
	}
}

// reserve counts n more keys in, if there is room for all of them.
func (s *Store) reserve(n int64) bool {
	for {
		held := s.keys.Load()
		if held+n > s.maxKeys {
			return false
		}
		if s.keys.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// decide reads every limit and tells whether all have room.
func (p *plan) decide(sh *shard, i int, cost int64, answer *slidegate.Answer, found *[slidegate.MaxLimits]finding) bool {
	answer.Allowed = true
	var last *node
	for j := range p.limits {
		l, r, f := &p.limits[j], &answer.Readings[p.from+j], &found[p.from+j]
		var room bool
		f.st, last = sh.stateAfter(i, l, last)
		if *r, f.quick = sh.readQuick(f.st, l, answer.Now, cost); f.quick {
			f.live = 0
			continue
		}
		*r, f.live, room = sh.read(f.st, l, answer.Now, cost)
		answer.Allowed = answer.Allowed && room
	}
	return answer.Allowed
}

// readQuick is read for a ring with room of which nothing has left, in few steps. Where that is not so it tells that.
func (sh *shard) readQuick(st *state, l *limit, now, cost int64) (r slidegate.Reading, done bool) {
	if l.counter || st == nil || st.word&(spilled|fewBit) != spilled {
		return r, false
	}
	log := sh.rings.at(st.word)
	if units := log.total - log.before; window.Counts(log.oldest, now, l.span) && units+cost <= l.quota {
		return slidegate.Reading{At: st.at(), Units: units}, true
	}
	return r, false
}

// chargeQuick is charge for what readQuick has read, where the newest entry takes it.
func (sh *shard) chargeQuick(st *state, l *limit, now, cost int64, r *slidegate.Reading) (done bool) {
	log := sh.rings.at(st.word)
	if r.At < now || l.resolution > 1 || log.shift == 0 && l.wide {
		return false
	}
	log.add(cost, r.At)
	r.Units += cost
	return true
}

// chargeAll charges every limit of what decide found, opens what is missing, and returns the shard's
// next due and whether it opened anything. What is there is charged first: opening moves states.
func (p *plan) chargeAll(sh *shard, pr print, i int, answer *slidegate.Answer, cost int64, found *[slidegate.MaxLimits]finding) (due int64, opened bool) {
	if p.chargeFound(sh, answer, cost, found) == len(p.limits) {
		return 0, false
	}
	return p.openMissing(sh, pr, i, answer, cost, found), true
}

// chargeFound charges the limits that have a state and returns their number.
func (p *plan) chargeFound(sh *shard, answer *slidegate.Answer, cost int64, found *[slidegate.MaxLimits]finding) (n int) {
	for j := range p.limits {
		if r, f := &answer.Readings[p.from+j], &found[p.from+j]; f.st != nil {
			n++
			if f.quick && sh.chargeQuick(f.st, &p.limits[j], answer.Now, cost, r) {
				continue
			}
			*r = sh.charge(f.st, &p.limits[j], answer.Now, cost, *r, f.live)
		}
	}
	return n
}

// openMissing opens the limits that have no state, and returns the shard's next due.
func (p *plan) openMissing(sh *shard, pr print, i int, answer *slidegate.Answer, cost int64, found *[slidegate.MaxLimits]finding) (due int64) {
	due = sh.nextDue.Load()
	for j := range p.limits {
		if found[p.from+j].st == nil {
			l := &p.limits[j]
			var st state
			st, answer.Readings[p.from+j] = sh.open(l, answer.Now, cost)
			due = min(due, sh.resetAt(&st, l.span, l.counter))
			i = sh.add(pr, i, l, st)
		}
	}
	sh.nextDue.Store(due)
	sh.renote(i, answer.Now, p.store.kinds())
	return due
}

// add gives the key at position i, or a new one if that is negative, one more state.
func (sh *shard) add(pr print, i int, l *limit, st state) int {
	if i < 0 {
		if l.tag != noTag {
			return sh.insert(pr, st.tagged(l.tag))
		}
		i = sh.insert(pr, state{}.tagged(chained))
	} else if first := &sh.slots[i].state; first.tag() != chained {
		*first = state{word: sh.link(node{state: *first, limit: uint32(first.tag())})}.tagged(chained)
	}
	added := sh.link(node{state: st, limit: l.id})
	last := sh.first(i)
	if last == nil {
		sh.slots[i].word = added
		return i
	}
	for last.next != 0 {
		last = sh.next(last)
	}
	last.next = uint32(added)
	return i
}

// Peek implements [slidegate.Plan].
func (p *plan) Peek(_ context.Context, key string, cost int64) (answer slidegate.Answer, err error) {
	pr := p.store.print(key)
	sh := p.store.shard(pr)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	answer.Now = p.store.now()
	if p.store.closed.Load() {
		return answer, errClosed
	}
	var found [slidegate.MaxLimits]finding
	p.decide(sh, sh.find(pr), cost, &answer, &found)
	return answer, nil
}

// Refund implements [slidegate.Plan].
func (p *plan) Refund(_ context.Context, key string, charged slidegate.Answer, cost int64) error {
	return p.edit(key, p.giveBack(&charged, cost))
}

// giveBack returns what edit does to refund.
func (p *plan) giveBack(charged *slidegate.Answer, cost int64) editor {
	return func(sh *shard, st *state, j int, now int64) (keep bool) {
		l, at := &p.limits[j], charged.Readings[p.from+j].At
		if l.counter {
			return sh.refundCounter(st, l, at, cost)
		}
		return sh.refundLog(st, l, now, at, cost)
	}
}

// Reset implements [slidegate.Plan].
func (p *plan) Reset(_ context.Context, key string) error {
	return p.edit(key, func(*shard, *state, int, int64) bool { return false })
}

// An editor changes the state of the j-th limit and tells whether anything of it is left.
type editor func(sh *shard, st *state, j int, now int64) (keep bool)

// edit calls f for the state of every limit of a key and removes those that f does not keep, and
// the key with the last of them.
func (p *plan) edit(key string, f editor) error {
	s := p.store
	if s.closed.Load() {
		return errClosed
	}
	pr := s.print(key)
	sh := s.shard(pr)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p.editLocked(sh, pr, s.now(), f)
	return nil
}

func (p *plan) editLocked(sh *shard, pr print, now int64, f editor) {
	s, i := p.store, sh.find(pr)
	if i < 0 {
		return
	}
	for j := range p.limits {
		st := sh.state(i, &p.limits[j])
		if st == nil || f(sh, st, j, now) {
			continue
		}
		if sh.close(i, &p.limits[j]) {
			s.removed(sh)
			return
		}
	}
	// The key may be idle sooner now than a sweep expects.
	kinds := s.kinds()
	sh.nextDue.Store(min(sh.nextDue.Load(), sh.due(i, kinds)))
	sh.renote(i, now, kinds)
}

// removed counts a key out that was in sh. What became empty keeps no large table, and no timer.
func (s *Store) removed(sh *shard) {
	if sh.keys == 0 && len(sh.slots) > minSlots {
		sh.shrink(nil)
	}
	if s.keys.Add(-1) == 0 {
		s.disarm()
	}
}

// close removes a limit's state from the slot at position i, and tells whether the key went too.
func (sh *shard) close(i int, l *limit) (gone bool) {
	first := &sh.slots[i].state
	if first.tag() != chained {
		sh.release(first, l.counter)
		sh.remove(i)
		return true
	}
	if n := sh.first(i); n.limit == l.id {
		first.word = sh.unlink(uint32(first.word), l.counter)
	} else {
		for sh.next(n).limit != l.id {
			n = sh.next(n)
		}
		n.next = uint32(sh.unlink(n.next, l.counter))
	}
	if first.word != 0 {
		return false
	}
	sh.remove(i)
	return true
}
