package memstore

import "github.com/slidegate/slidegate/internal/window"

// A ring holds the entries of one sliding log, oldest first. Each entry has its recorded time and
// the running total of units up to and including it, so the units of any stretch are one
// subtraction, the unit that must leave is found by bisection, and dropping the old moves one index.
//
// A narrow ring packs an entry into one word: the low 32 bits of both numbers. That is exact, not
// approximate: the newest time and the total are known in full, and what is held spans less than
// 2^32 milliseconds and units of them. Limits that could hold more have wide rings, of two words
// an entry. A ring's header is one cache line, and a request that finds its oldest entry still
// counting reads no entry at all. A ring that a state has is never empty.
type ring struct {
	words  []uint64
	before int64 // running total before the oldest entry
	total  int64 // running total of the newest entry
	oldest int64 // recorded time of the oldest entry
	head   int32 // index of the oldest entry
	n      int32 // entries held
	shift  uint8 // 0 if narrow, 1 if wide: words an entry, as a power of two
}

const (
	narrowSpan  = 1 << 31 // milliseconds: window and resolution together stay below 2^32
	narrowQuota = 1 << 31 // units
	smallRing   = 4       // entries of a new ring
)

func (r *ring) cap() int { return len(r.words) >> r.shift }

// index turns the i-th oldest into a position.
func (r *ring) index(i int) int {
	i += int(r.head)
	if c := r.cap(); i >= c {
		i -= c
	}
	return i
}

// time returns the recorded time of the i-th oldest entry; newest is the time of the last.
func (r *ring) time(i int, newest int64) int64 {
	i = r.index(i)
	if r.shift != 0 {
		return int64(r.words[2*i])
	}
	return newest - int64(uint32(newest)-uint32(r.words[i]>>32))
}

// upTo returns the running total before the i-th oldest entry.
func (r *ring) upTo(i int) int64 {
	if i == 0 {
		return r.before
	}
	i = r.index(i - 1)
	if r.shift != 0 {
		return int64(r.words[2*i+1])
	}
	return r.total - int64(uint32(r.total)-uint32(r.words[i]))
}

// live returns the index of the oldest entry that counts at now, n if none does. It is the head
// or close to it nearly always, so it gallops before it bisects.
func (r *ring) live(now, span, newest int64) int {
	if window.Counts(r.oldest, now, span) {
		return 0
	}
	if !window.Counts(newest, now, span) {
		return int(r.n)
	}
	low, high, step := 0, int(r.n)-1, 1 // low does not count, high does
	for ; low+step < high && !window.Counts(r.time(low+step, newest), now, span); step *= 2 {
		low += step
	}
	high = min(high, low+step)
	for high-low > 1 {
		mid := int(uint(low+high) / 2)
		if window.Counts(r.time(mid, newest), now, span) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// leaver returns the time of the need-th oldest unit of those from entry live on.
func (r *ring) leaver(live int, need, newest int64) int64 {
	if live == 0 && need == 1 {
		return r.oldest // an entry has one unit at least
	}
	base := r.upTo(live)
	if r.upTo(live+1)-base >= need {
		return r.time(live, newest)
	}
	low, high := live, int(r.n)-1 // up to low is too little, up to high is enough
	for high-low > 1 {
		mid := int(uint(low+high) / 2)
		if r.upTo(mid+1)-base >= need {
			high = mid
		} else {
			low = mid
		}
	}
	return r.time(high, newest)
}

// drop forgets the n oldest entries; newest is the time of the last.
func (r *ring) drop(n int, newest int64) {
	if n == 0 {
		return
	}
	r.before = r.upTo(n)
	r.head = int32(r.index(n))
	r.n -= int32(n)
	r.oldest = r.time(0, newest)
}

// push appends an entry; there is room.
func (r *ring) push(time, units int64) {
	if r.n == 0 {
		r.oldest = time
	}
	r.total += units
	r.n++
	r.set(int(r.n)-1, time, r.total)
}

// set writes the i-th oldest entry.
func (r *ring) set(i int, time, total int64) {
	i = r.index(i)
	if r.shift != 0 {
		r.words[2*i], r.words[2*i+1] = uint64(time), uint64(total)
		return
	}
	r.words[i] = uint64(time)<<32 | uint64(uint32(total))
}

// add adds units to the newest entry.
func (r *ring) add(units, newest int64) {
	r.total += units
	if r.shift != 0 {
		r.set(int(r.n)-1, newest, r.total)
		return
	}
	i := int(r.head) + int(r.n) - 1
	if i >= len(r.words) {
		i -= len(r.words)
	}
	r.words[i] = uint64(newest)<<32 | uint64(uint32(r.total))
}

// resize moves the entries to a ring of c entries, at least n.
func (r *ring) resize(c int, wide bool, newest int64) {
	next := *r
	next.head, next.shift = 0, 0
	if wide {
		next.shift = 1
	}
	next.words = make([]uint64, c<<next.shift)
	for i := range int(r.n) {
		next.set(i, r.time(i, newest), r.upTo(i+1))
	}
	*r = next
}

// fit makes room for one more entry of l, and gives memory back where most of it is unused.
func (r *ring) fit(l *limit, newest int64) {
	c := r.cap()
	switch {
	case int(r.n) == c:
		c = min(max(smallRing, 2*c), max(l.entries, c+1))
	case c > 2*smallRing && int(r.n) < c/4:
		c = c / 2
	default:
		return
	}
	r.resize(c, r.shift != 0 || l.wide, newest)
}

// refund takes up to units out of the entry recorded at time, if it counts at now, and returns the
// time of the newest entry then.
func (r *ring) refund(time, units, now, span, newest int64) int64 {
	low, high := r.live(now, span, newest), int(r.n)
	for low < high {
		mid := int(uint(low+high) / 2)
		if r.time(mid, newest) < time {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == int(r.n) || r.time(low, newest) != time {
		return newest
	}
	held := r.upTo(low+1) - r.upTo(low)
	units = min(units, held)
	if units < held {
		r.lower(low, 0, units, newest)
		return newest
	}
	if low == 0 {
		r.drop(1, newest)
		return newest
	}
	if low == int(r.n)-1 {
		last := r.time(low-1, newest)
		r.n, r.total = r.n-1, r.total-units
		return last
	}
	r.lower(low, 1, units, newest)
	return newest
}

// lower takes units off every running total from entry i on, of which the first gone fall away.
func (r *ring) lower(i, gone int, units, newest int64) {
	for j := i + gone; j < int(r.n); j++ {
		time, total := r.time(j, newest), r.upTo(j+1)
		r.set(j-gone, time, total-units)
	}
	r.n -= int32(gone)
	r.total -= units
}
