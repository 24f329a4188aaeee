package memstore

import (
	"math/bits"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// A packed word is the sliding log of a key with up to packedUnits units, in its slot: no memory beside it and no
// second cache line to wait for. It says how many gaps there are between units and, oldest first from the low end,
// each gap in milliseconds, for all of them as many bits as are there for one: two units may be a lifetime apart, eight
// a quarter of a second each. What has larger gaps, or more units, becomes a few. Units recorded together have a gap of 0.
//
// Of a key with a handful of charges in its window, as most have, the log takes no more than a counter.
const (
	packedBit   = 1 << 62 // of a word that is not spilled: it is packed
	packedUnits = 8
	gapsAt      = 59 // bits of all gaps; their number stands above
	gapsMask    = 1<<gapsAt - 1
)

// gapBits is how many bits each of so many gaps has: gapsAt by their number, none where there is none.
const gapBits = "\x00\x3b\x1d\x13\x0e\x0b\x09\x08"

// gaps returns the number of gaps in a packed word, the bits of each, and the gaps.
func gaps(word uint64) (n int, width uint8, all uint64) {
	n = int(word >> gapsAt & (packedUnits - 1))
	return n, gapBits[n], word & gapsMask
}

// packedSpan returns the number of units in a packed word, and the time from the oldest to the newest.
func packedSpan(word uint64) (units, span int64) {
	n, width, all := gaps(word)
	for rest := all; rest != 0; rest >>= width {
		span += int64(rest & (1<<width - 1))
	}
	return int64(n) + 1, span
}

// packMore returns a packed word with a unit more that comes gap after the newest. A word that is not packed stands for a
// single unit. It does not fit if a gap then needs more bits than are left for it.
func packMore(word uint64, gap int64) (next uint64, fits bool) {
	n, width, all := gaps(word)
	if n+1 >= packedUnits {
		return next, false
	}
	wide := gapBits[n+1]
	largest := uint64(gap)
	for i := range n {
		g := all & (1<<width - 1)
		all >>= width
		largest |= g
		next |= g << (uint8(i) * wide)
	}
	next |= uint64(gap) << (uint8(n) * wide)
	return packedBit | uint64(n+1)<<gapsAt | next, bits.Len64(largest) <= int(wide)
}

// unpack returns the units of a packed word as a few; newest is the time of the last.
func unpack(word uint64, newest int64) (f few) {
	n, width, all := gaps(word)
	_, span := packedSpan(word)
	at := newest - span
	f.push(at, 1)
	for range n {
		at += int64(all & (1<<width - 1))
		all >>= width
		f.push(at, 1)
	}
	return f
}

// pack returns a word that holds the units of a few: packed if that is possible, of a few of its own if not, 0 where there are none.
func (sh *shard) pack(f *few, newest int64) (word uint64) {
	word = uint64(f.len())
	for i := 1; i < f.len(); i++ {
		var fits bool
		if word, fits = packMore(word, f.time(i, newest)-f.time(i-1, newest)); !fits {
			return sh.fews.add(*f) | fewBit
		}
	}
	return word
}

// quickPacked is quickLog for a packed word.
func quickPacked(st *state, l *limit, now, cost int64) (r slidegate.Reading, room, done bool) {
	units, span := packedSpan(st.word)
	oldest := st.at() - span
	if !window.Counts(oldest, now, l.span) {
		return r, false, false
	}
	r = slidegate.Reading{At: st.at(), Units: units}
	switch need := r.Units + cost - l.quota; {
	case need == 1:
		r.Back = oldest
		return r, false, true
	case need > 1, l.resolution > 1, cost > 1:
		return r, false, false
	}
	at := max(r.At, now)
	word, fits := packMore(st.word, at-r.At)
	if !fits {
		return r, false, false
	}
	st.word = word
	st.setAt(at)
	r.At, r.Units = at, units+1
	return r, true, true
}
