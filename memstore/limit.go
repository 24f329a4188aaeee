package memstore

import (
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// An identity is what a limit's state is found by, beside the key.
type identity struct {
	name      string
	algorithm slidegate.Algorithm
	window    time.Duration
}

// A limit is a slidegate.Limit in the numbers that decisions use.
type limit struct {
	id         uint32 // of its identity in this store
	tag        int    // the same, where a slot has room for it
	counter    bool
	few        bool  // may be a few
	wide       bool  // needs wide rings
	span       int64 // window, in milliseconds
	quota      int64
	resolution int64 // in milliseconds
	entries    int   // the most a log can hold
}

func newLimit(l slidegate.Limit, id uint32) limit {
	span := l.Window.Milliseconds()
	resolution := max(1, l.Resolution.Milliseconds())
	return limit{
		id:         id,
		tag:        tagOf(id),
		counter:    l.Algorithm == slidegate.SlidingCounter,
		few:        span < narrowSpan,
		wide:       span >= narrowSpan || l.Quota >= narrowQuota,
		span:       span,
		quota:      l.Quota,
		resolution: resolution,
		entries:    int(min(l.Quota, (span+resolution-1)/resolution+1, math.MaxInt32)),
	}
}

func tagOf(id uint32) int {
	if id < chained {
		return int(id)
	}
	return noTag
}

// A state is one limit of one key, in 16 bytes without a pointer: a time with a tag, and a word.
//
//	       sliding log                      sliding counter
//	time   recorded time of the newest      start of the current window
//	word   units of the only entry, or      units of the window before << 31 | units of
//	       packedBit | a handful, or        the current one, or spilled | index of a pair
//	       spilled | fewBit | index of a
//	       few, or spilled | index of a
//	       ring
//
// The tag is that of the limit where the state is in its key's slot.
type state struct {
	time int64 // << tagBits | tag
	word uint64
}

const (
	tagBits = 14
	tagMask = 1<<tagBits - 1
	chained = tagMask // the tag of a slot whose word is the index of a node
	noTag   = -1      // of a limit whose states are always in nodes

	// maxTime bounds the times that a state can hold: 8,900 years from the epoch, with room for a window.
	maxTime = 1 << (62 - tagBits)
)

func (st *state) at() int64      { return st.time >> tagBits }
func (st *state) tag() int       { return int(st.time & tagMask) }
func (st *state) setAt(at int64) { st.time = at<<tagBits | st.time&tagMask }

// newState returns the state of a limit for a node or, with its tag, for a slot.
func newState(at int64, word uint64) state { return state{time: at << tagBits, word: word} }

// tagged returns the state with another tag.
func (st state) tagged(tag int) state {
	return state{time: st.time&^tagMask | int64(tag), word: st.word}
}

const (
	spilled   = 1 << 63
	counted   = 31 // bits of a count that needs no pair
	countMask = 1<<counted - 1
)

// A pair is the counts of a counter that are too large for a word.
type pair struct{ prev, cur int64 }

// load returns the counter as it is stored.
func (sh *shard) load(st *state) window.Counter {
	if st.word&spilled != 0 {
		p := sh.pairs.at(st.word)
		return window.Counter{Start: st.at(), Prev: p.prev, Cur: p.cur}
	}
	return window.Counter{Start: st.at(), Prev: int64(st.word >> counted), Cur: int64(st.word & countMask)}
}

// save stores a counter.
func (sh *shard) save(st *state, c window.Counter) {
	st.setAt(c.Start)
	if st.word&spilled != 0 {
		*sh.pairs.at(st.word) = pair{c.Prev, c.Cur}
		return
	}
	if c.Prev > countMask || c.Cur > countMask {
		st.word = sh.pairs.add(pair{c.Prev, c.Cur})
		return
	}
	st.word = uint64(c.Prev)<<counted | uint64(c.Cur)
}

// readLog reads a log at now, for a request of cost: what counts, and where it has no room the
// unit that has to leave. live is the index of the oldest entry that counts.
func (sh *shard) readLog(st *state, l *limit, now, cost int64) (r slidegate.Reading, live int) {
	if st.word&spilled == 0 {
		if st.word&packedBit != 0 {
			f := st.few()
			return readFew(&f, st.at(), l, now, cost)
		}
		if !window.Counts(st.at(), now, l.span) {
			return r, 1
		}
		r.At, r.Units = st.at(), int64(st.word)
		if cost > 0 && r.Units+cost > l.quota {
			r.Back = st.at()
		}
		return r, 0
	}
	if st.word&fewBit != 0 {
		return readFew(sh.fews.at(st.word), st.at(), l, now, cost)
	}
	log := sh.rings.at(st.word)
	live = log.live(now, l.span, st.at())
	if live == int(log.n) {
		return r, live
	}
	r.At, r.Units = st.at(), log.total-log.upTo(live)
	if need := r.Units + cost - l.quota; cost > 0 && need > 0 {
		r.Back = log.leaver(live, need, st.at())
	}
	return r, live
}

func readFew(f *few, newest int64, l *limit, now, cost int64) (r slidegate.Reading, live int) {
	live = f.live(now, l.span, newest)
	if live == f.len() {
		return r, live
	}
	r.At, r.Units = newest, int64(f.len()-live)
	if need := r.Units + cost - l.quota; cost > 0 && need > 0 {
		r.Back = f.time(live+int(need)-1, newest)
	}
	return r, live
}

// chargeLog records cost units at now and drops what has left the window: the entries before live.
func (sh *shard) chargeLog(st *state, l *limit, now, cost int64, live int) {
	at := window.Record(now, l.resolution, st.at(), true)
	switch {
	case st.word&spilled == 0:
		if sh.chargeInSlot(st, l, at, cost, live) {
			return
		}
		live = 0
	case st.word&fewBit != 0:
		if sh.chargeFew(st, l, at, cost, live) {
			return
		}
		live = 0
	}
	log := sh.rings.at(st.word)
	log.drop(live, st.at())
	if l.wide && log.shift == 0 {
		log.resize(log.cap(), true, st.at())
	}
	if at == st.at() { // so it counts still
		log.add(cost, at)
		return
	}
	log.fit(l, st.at())
	log.push(at, cost)
	st.setAt(at)
}

// few returns the units of a log in its slot.
func (st *state) few() (f few) {
	if st.word&packedBit != 0 {
		return unpack(st.word, st.at())
	}
	f.push(st.at(), int64(st.word))
	return f
}

// held returns how many live tell that all of a log in its slot has left: its units, or one for the only entry.
func (st *state) held() int {
	if st.word&packedBit != 0 {
		units, _ := packedSpan(st.word)
		return int(units)
	}
	return 1
}

// chargeInSlot is chargeLog for a log in its slot. Where the units are too many it makes a ring of those that count,
// and is not done.
func (sh *shard) chargeInSlot(st *state, l *limit, at, cost int64, live int) (done bool) {
	packed, newest, units := st.word&packedBit != 0, st.at(), int64(st.word)
	switch {
	case live == st.held():
		st.word = uint64(cost)
	case !packed && at == newest:
		st.word += uint64(cost)
	case !packed && (!l.few || units+cost > fewUnits):
		var log ring
		log.fit(l, newest)
		log.push(newest, units)
		st.word = sh.rings.add(log)
		return false
	default:
		f := st.few()
		f.cut(0, live)
		if !f.room(0, cost) {
			st.word = sh.rings.add(f.ring(l, newest))
			return false
		}
		f.push(at, cost)
		st.word = sh.pack(&f, at)
	}
	st.setAt(at)
	return true
}

// chargeFew is chargeLog for a few. Where the units are too many it makes a ring of those that count,
// and is not done.
func (sh *shard) chargeFew(st *state, l *limit, at, cost int64, live int) (done bool) {
	f := sh.fews.at(st.word)
	switch {
	case live == f.len():
		sh.fews.remove(st.word)
		st.setAt(at)
		st.word = uint64(cost)
	case f.room(live, cost):
		f.cut(0, live)
		f.push(at, cost)
		st.setAt(at)
	default:
		f.cut(0, live)
		log := f.ring(l, st.at())
		sh.fews.remove(st.word)
		st.word = sh.rings.add(log)
		return false
	}
	return true
}

// refundLog takes back cost units recorded at time and tells whether anything is left.
func (sh *shard) refundLog(st *state, l *limit, now, time, cost int64) (left bool) {
	if st.word&(spilled|packedBit) == packedBit {
		f := st.few()
		newest := f.refund(time, cost, now, l.span, st.at())
		st.word = sh.pack(&f, newest)
		st.setAt(newest)
		return f.len() > 0
	}
	if st.word&spilled == 0 {
		if st.at() == time && window.Counts(time, now, l.span) {
			st.word -= min(uint64(cost), st.word)
		}
		return st.word > 0
	}
	if st.word&fewBit != 0 {
		f := sh.fews.at(st.word)
		st.setAt(f.refund(time, cost, now, l.span, st.at()))
		return f.len() > 0
	}
	log := sh.rings.at(st.word)
	st.setAt(log.refund(time, cost, now, l.span, st.at()))
	return log.n > 0
}

// refundCounter takes back cost units of the window that began at start.
func (sh *shard) refundCounter(st *state, l *limit, start, cost int64) (left bool) {
	c := sh.load(st)
	switch start {
	case c.Start:
		c.Cur -= min(cost, c.Cur)
	case c.Start - l.span:
		c.Prev -= min(cost, c.Prev)
	}
	sh.save(st, c)
	return c.Prev > 0 || c.Cur > 0
}

// resetAt returns the very millisecond at which a limit is completely full again, if nothing else
// is charged: from then on its state does not matter.
func (sh *shard) resetAt(st *state, span int64, counter bool) int64 {
	if !counter {
		return st.at() + span
	}
	return st.at() + sh.load(st).WaitUntil(st.at(), span, 0)
}

// used returns the units of a state at now.
func (sh *shard) used(st *state, now, span int64, counter bool) int64 {
	if counter {
		return sh.load(st).Roll(now, span).Used(now, span)
	}
	if st.word&spilled == 0 {
		if st.word&packedBit != 0 {
			units, _ := packedSpan(st.word)
			return units
		}
		return int64(st.word)
	}
	if st.word&fewBit != 0 {
		return int64(sh.fews.at(st.word).len())
	}
	log := sh.rings.at(st.word)
	return log.total - log.before
}

// release gives back what a state that goes holds outside of it.
func (sh *shard) release(st *state, counter bool) {
	if st.word&spilled == 0 {
		return
	}
	switch {
	case counter:
		sh.pairs.remove(st.word)
	case st.word&fewBit != 0:
		sh.fews.remove(st.word)
	default:
		sh.rings.remove(st.word)
	}
}
