package memstore

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// A print is the seeded 128-bit fingerprint that stands for a key. low is never 0.
type print struct{ high, low uint64 }

// A slot is a key with the state of its one limit or, if it has several, the first of a chain of nodes:
// 32 bytes, half a cache line, no pointer. An empty slot has low 0.
type slot struct {
	print
	state
}

// A shard holds the keys of one part of the fingerprints, in a table with linear probing, under
// one lock. All limits of a key are in one shard, so a decision over them is one act.
type shard struct {
	mu sync.Mutex
	parts
	keys int

	soonest []candidate  // keys that would be idle soonest, the first of them last
	nextDue atomic.Int64 // no state stops to matter before

	_ [56]byte // a shard's lock shares no cache line with the next shard
}

// The parts of a shard are what its keys are made of.
type parts struct {
	slots []slot
	nodes slab[node] // states of keys of several limits
	fews  slab[few]
	rings slab[ring]
	pairs slab[pair]
}

// A node is a state of a key that has several.
type node struct {
	state
	limit uint32 // id of the identity
	next  uint32 // 1 + index of the key's next node; 0 for none
}

// first returns the first node of the slot at position i, nil if it has none.
func (sh *shard) first(i int) *node {
	st := &sh.slots[i].state
	if st.tag() != chained || st.word == 0 {
		return nil
	}
	return &sh.nodes.values[st.word-1]
}

func (sh *shard) next(n *node) *node {
	if n.next == 0 {
		return nil
	}
	return &sh.nodes.values[n.next-1]
}

// link stores a node and returns 1 + its index.
func (sh *shard) link(n node) uint64 { return sh.nodes.add(n)&^spilled + 1 }

// unlink removes a node, given as 1 + its index, and returns the one behind it.
func (sh *shard) unlink(n uint32, counter bool) (next uint64) {
	node := &sh.nodes.values[n-1]
	next = uint64(node.next)
	sh.release(&node.state, counter)
	sh.nodes.remove(uint64(n - 1))
	return next
}

// A candidate for eviction: a key, and when it would be idle as its state stood when it was noted.
type candidate struct {
	print
	at, units int64
}

// home is where a fingerprint's probe begins: order-preserving, so any table length will do.
func home(p print, slots int) int {
	hi, _ := bits.Mul64(p.low, uint64(slots))
	return int(hi)
}

// find returns the position of a key, -1 if the shard does not hold it.
func (sh *shard) find(p print) int {
	if len(sh.slots) == 0 {
		return -1
	}
	for i := home(p, len(sh.slots)); ; {
		s := &sh.slots[i]
		if s.low == p.low && s.high == p.high {
			return i
		}
		if s.low == 0 {
			return -1
		}
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
}

const (
	minSlots = 8
	// A table grows to half as much again when four fifths are taken.
	fullOf, fullTo = 4, 5
)

// insert adds a key that the shard does not hold, with a first state.
func (sh *shard) insert(p print, st state) int {
	if (sh.keys+1)*fullTo > len(sh.slots)*fullOf {
		sh.rehash(max(minSlots, len(sh.slots)+len(sh.slots)/2))
	}
	sh.keys++
	return sh.place(slot{p, st})
}

func (sh *shard) place(s slot) int {
	i := home(s.print, len(sh.slots))
	for sh.slots[i].low != 0 {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	sh.slots[i] = s
	return i
}

func (sh *shard) rehash(slots int) {
	old := sh.slots
	sh.slots = make([]slot, slots)
	for i := range old {
		if old[i].low != 0 {
			sh.place(old[i])
		}
	}
}

// remove takes the slot at position i out and closes the gap, so that no probe is cut short. Its
// states have been released.
func (sh *shard) remove(i int) {
	n := len(sh.slots)
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		if sh.slots[j].low == 0 {
			break
		}
		// The slot at j may move into the gap at i unless its home lies cyclically in (i, j].
		h := home(sh.slots[j].print, n)
		if i <= j && (h <= i || h > j) || i > j && h <= i && h > j {
			sh.slots[i] = sh.slots[j]
			i = j
		}
	}
	sh.slots[i] = slot{}
	if sh.keys--; sh.keys == 0 {
		sh.nextDue.Store(math.MaxInt64)
	}
}

// states calls f for every state of the key at position i, with the id of its limit.
func (sh *shard) states(i int, f func(st *state, id uint32)) {
	if st := &sh.slots[i].state; st.tag() != chained {
		f(st, uint32(st.tag()))
		return
	}
	for n := sh.first(i); n != nil; n = sh.next(n) {
		f(&n.state, n.limit)
	}
}

// forget removes the key at position i with all its states.
func (sh *shard) forget(i int, kinds []kind) {
	if st := &sh.slots[i].state; st.tag() != chained {
		sh.release(st, kinds[st.tag()].counter)
	} else {
		for next := st.word; next != 0; {
			n := uint32(next)
			next = sh.unlink(n, kinds[sh.nodes.values[n-1].limit].counter)
		}
	}
	sh.remove(i)
}

// due returns when a key is idle: the latest resetAt of its states.
func (sh *shard) due(i int, kinds []kind) int64 {
	latest := int64(math.MinInt64)
	sh.states(i, func(st *state, id uint32) {
		k := kinds[id]
		latest = max(latest, sh.resetAt(st, k.span, k.counter))
	})
	return latest
}

// sweep drops the keys whose states have all stopped to matter and returns their number.
func (sh *shard) sweep(now int64, kinds []kind) (dropped int) {
	next := int64(math.MaxInt64)
	for i := 0; i < len(sh.slots); {
		if sh.slots[i].low == 0 {
			i++
			continue
		}
		if due := sh.due(i, kinds); due > now {
			next = min(next, due)
			i++
			continue
		}
		sh.forget(i, kinds) // what moved into the gap is looked at next
		dropped++
	}
	sh.nextDue.Store(next)
	sh.shrink(kinds)
	return dropped
}

// shrink gives back what an emptier shard does not need.
func (sh *shard) shrink(kinds []kind) {
	switch {
	case sh.keys == 0:
		sh.parts, sh.soonest = parts{}, nil
	case len(sh.slots) > minSlots && sh.keys*5 < len(sh.slots),
		sh.nodes.sparse(), sh.fews.sparse(), sh.rings.sparse(), sh.pairs.sparse():
		sh.rebuild(kinds)
	}
}

// rebuild moves everything into tables and slabs of just the size it needs.
func (sh *shard) rebuild(kinds []kind) {
	old := sh.parts
	sh.parts = parts{slots: make([]slot, max(minSlots, sh.keys*3/2))}
	move := func(st state, counter bool) state {
		switch {
		case st.word&spilled == 0:
		case counter:
			st.word = sh.pairs.add(*old.pairs.at(st.word))
		case st.word&fewBit != 0:
			st.word = sh.fews.add(*old.fews.at(st.word)) | fewBit
		default:
			st.word = sh.rings.add(*old.rings.at(st.word))
		}
		return st
	}
	for i := range old.slots {
		s := old.slots[i]
		switch {
		case s.low == 0:
			continue
		case s.tag() != chained:
			s.state = move(s.state, kinds[s.tag()].counter)
		default:
			next := s.word
			s.word = 0
			for next != 0 { // in reverse: the order of a chain is only for speed
				n := old.nodes.values[next-1]
				next = uint64(n.next)
				n.state, n.next = move(n.state, kinds[n.limit].counter), uint32(s.word)
				s.word = sh.link(n)
			}
		}
		sh.place(s)
	}
}

// evict forgets the key that would be idle soonest, of several the one with the fewest units
// used, and tells whether there was one and whether it still counted.
func (sh *shard) evict(now int64, kinds []kind) (gone, counted bool) {
	for range 2 {
		for len(sh.soonest) > 0 {
			last := len(sh.soonest) - 1
			c := sh.soonest[last]
			sh.soonest = sh.soonest[:last]
			i := sh.find(c.print)
			if i < 0 {
				continue
			}
			at, units := sh.idleAt(i, now, kinds)
			if at > c.at || units > c.units {
				sh.note(candidate{c.print, at, units}) // charged since: its turn may come later
				continue
			}
			sh.forget(i, kinds)
			return true, at > now
		}
		sh.rank(now, kinds)
	}
	return false, false
}

// idleAt returns when a key would be idle, and the units it uses until then.
func (sh *shard) idleAt(i int, now int64, kinds []kind) (at, units int64) {
	at = math.MinInt64
	sh.states(i, func(st *state, id uint32) {
		k := kinds[id]
		at = max(at, sh.resetAt(st, k.span, k.counter))
		units += sh.used(st, now, k.span, k.counter)
	})
	return at, units
}

// note adds a key that is new, or idle sooner or later than before, to the candidates if it
// belongs there, so that no key that is not noted would be idle sooner than one that is.
func (sh *shard) note(c candidate) {
	n := len(sh.soonest)
	if n == 0 || !c.before(sh.soonest[0]) {
		return
	}
	i := sort.Search(n, func(i int) bool { return !c.before(sh.soonest[i]) })
	sh.soonest = slices.Insert(sh.soonest, i, c)
	if n >= 2*sh.candidates() {
		sh.soonest = slices.Delete(sh.soonest, 0, n-sh.candidates()) // the latest
	}
}

// renote notes the key at position i as it stands, where there are candidates.
func (sh *shard) renote(i int, now int64, kinds []kind) {
	if len(sh.soonest) > 0 {
		s := &sh.slots[i]
		at, units := sh.idleAt(i, now, kinds)
		sh.note(candidate{s.print, at, units})
	}
}

// candidates is how many keys rank notes.
func (sh *shard) candidates() int { return max(1, sh.keys/32) }

// rank notes the keys that would be idle soonest: a part of the shard at a time, so that an
// eviction looks at a few dozen keys on average and never at all of them.
func (sh *shard) rank(now int64, kinds []kind) {
	most := sh.candidates()
	top := sh.soonest[:0] // once it is full a heap: the latest of the soonest at its root
	for i := range sh.slots {
		s := &sh.slots[i]
		if s.low == 0 {
			continue
		}
		at, units := sh.idleAt(i, now, kinds)
		c := candidate{s.print, at, units}
		switch {
		case len(top) < most:
			if top = append(top, c); len(top) == most {
				slices.SortFunc(top, latestFirst) // which makes it one
			}
		case c.before(top[0]):
			top[0] = c
			sink(top, 0)
		}
	}
	slices.SortFunc(top, latestFirst)
	sh.soonest = top
}

// latestFirst puts in front who is to be evicted last.
func latestFirst(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.units, a.units))
}

// before tells whether c is to be evicted before d.
func (c candidate) before(d candidate) bool {
	return c.at < d.at || c.at == d.at && c.units < d.units
}

// sink restores the heap below i.
func sink(heap []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child].before(heap[child+1]) {
			child++
		}
		if !heap[i].before(heap[child]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
