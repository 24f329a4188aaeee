package memstore

import "github.com/slidegate/slidegate/internal/window"

// A few is the sliding log of a key with few units, in one cache line without a pointer: the
// number of units, and for each the low 32 bits of its recorded time, oldest first. Those are exact
// for the reason that a narrow ring's are. Units recorded together have equal times.
//
// Most keys of most services never need more; a log that does becomes a ring.
type few [1 + fewUnits]uint32

const (
	fewUnits = 15
	fewBit   = 1 << 62 // of a spilled word: it finds a few, not a ring
)

func (f *few) len() int { return int(f[0]) }

// time returns the recorded time of the i-th oldest unit; newest is that of the last.
func (f *few) time(i int, newest int64) int64 {
	return newest - int64(uint32(newest)-f[1+i])
}

// live returns the number of units that have left the window.
func (f *few) live(now, span, newest int64) int {
	i, n := 0, f.len()
	for i < n && !window.Counts(f.time(i, newest), now, span) {
		i++
	}
	return i
}

// room tells whether units more fit once the oldest gone have been dropped.
func (f *few) room(gone int, units int64) bool { return int64(f.len()-gone)+units <= fewUnits }

// push appends units recorded at time; there is room.
func (f *few) push(time, units int64) {
	n := f.len()
	for range units {
		n++
		f[n] = uint32(time)
	}
	f[0] = uint32(n)
}

// cut takes units [from, to) out.
func (f *few) cut(from, to int) {
	if from == to {
		return
	}
	copy(f[1+from:], f[1+to:1+f.len()])
	f[0] -= uint32(to - from)
}

// refund takes up to units of those recorded at time out, if they count at now, and returns the
// recorded time of the newest unit then.
func (f *few) refund(time, units, now, span, newest int64) int64 {
	from := f.live(now, span, newest)
	for from < f.len() && f.time(from, newest) != time {
		from++
	}
	to := from
	for to < f.len() && int64(to-from) < units && f.time(to, newest) == time {
		to++
	}
	if from > 0 && to == f.len() {
		newest = f.time(from-1, newest)
	}
	f.cut(from, to)
	return newest
}

// ring returns the units as a ring with room for one entry more.
func (f *few) ring(l *limit, newest int64) ring {
	var r ring
	at, entries := newest+1, 0
	for i := range f.len() {
		if t := f.time(i, newest); t != at {
			at, entries = t, entries+1
		}
	}
	r.resize(min(max(smallRing, 2*entries), max(l.entries, entries+1)), l.wide, newest)
	for i := range f.len() {
		if t := f.time(i, newest); r.n > 0 && t == at {
			r.add(1, t)
		} else {
			r.push(t, 1)
			at = t
		}
	}
	return r
}
