package memstore

import "github.com/slidegate/slidegate/internal/window"

// A ring holds the entries of one sliding log, oldest first. Each entry has its recorded time and
// the running total of units up to and including it, so the units of any stretch are one
// subtraction, the unit that must leave is found by bisection, and dropping the old moves one index.
//
// A narrow ring packs an entry into eight bytes: the low 32 bits of both numbers. That is exact,
// not approximate: the newest time and the total are known in full, and what is held spans less
// than 2^32 milliseconds and units of them. Limits that could hold more have wide rings.
type ring struct {
	narrow []narrowEntry
	wide   []wideEntry
	head   int   // index of the oldest entry
	n      int   // entries held
	before int64 // running total before the oldest entry
	total  int64 // running total of the newest entry
}

type narrowEntry struct{ time, total uint32 }

type wideEntry struct{ time, total int64 }

const (
	narrowSpan  = 1 << 31 // milliseconds: window and resolution together stay below 2^32
	narrowQuota = 1 << 31 // units
	smallRing   = 4       // entries of a new ring
)

func (r *ring) cap() int {
	if r.wide != nil {
		return len(r.wide)
	}
	return len(r.narrow)
}

// index turns the i-th oldest into a position.
func (r *ring) index(i int) int {
	i += r.head
	if c := r.cap(); i >= c {
		i -= c
	}
	return i
}

// time returns the recorded time of the i-th oldest entry; newest is the time of the last.
func (r *ring) time(i int, newest int64) int64 {
	i = r.index(i)
	if r.wide != nil {
		return r.wide[i].time
	}
	return newest - int64(uint32(newest)-r.narrow[i].time)
}

// upTo returns the running total before the i-th oldest entry.
func (r *ring) upTo(i int) int64 {
	if i == 0 {
		return r.before
	}
	i = r.index(i - 1)
	if r.wide != nil {
		return r.wide[i].total
	}
	return r.total - int64(uint32(r.total)-r.narrow[i].total)
}

// live returns the index of the oldest entry that counts at now, n if none does. It is the head
// or close to it nearly always, so it gallops before it bisects.
func (r *ring) live(now, span, newest int64) int {
	if r.n == 0 || !window.Counts(newest, now, span) {
		return r.n
	}
	if window.Counts(r.time(0, newest), now, span) {
		return 0
	}
	low, high, step := 0, r.n-1, 1 // low does not count, high does
	for low+step < high {
		if window.Counts(r.time(low+step, newest), now, span) {
			high = low + step
			break
		}
		low += step
		step *= 2
	}
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
	base := r.upTo(live)
	if r.upTo(live+1)-base >= need {
		return r.time(live, newest)
	}
	low, high := live, r.n-1 // up to low is too little, up to high is enough
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

// drop forgets the n oldest entries.
func (r *ring) drop(n int) {
	if n == 0 {
		return
	}
	r.before = r.upTo(n)
	r.head = r.index(n)
	r.n -= n
	if r.n == 0 {
		r.head, r.before, r.total = 0, 0, 0
	}
}

// push appends an entry; there is room.
func (r *ring) push(time, units int64) {
	r.total += units
	r.n++
	r.set(r.n-1, time, r.total)
}

// set writes the i-th oldest entry.
func (r *ring) set(i int, time, total int64) {
	i = r.index(i)
	if r.wide != nil {
		r.wide[i] = wideEntry{time, total}
	} else {
		r.narrow[i] = narrowEntry{uint32(time), uint32(total)}
	}
}

// add adds units to the newest entry.
func (r *ring) add(units, newest int64) {
	r.total += units
	r.set(r.n-1, newest, r.total)
}

// resize moves the entries to a ring of c entries, at least n.
func (r *ring) resize(c int, wide bool, newest int64) {
	next := ring{n: r.n, before: r.before, total: r.total}
	if wide {
		next.wide = make([]wideEntry, c)
	} else {
		next.narrow = make([]narrowEntry, c)
	}
	for i := range r.n {
		next.set(i, r.time(i, newest), r.upTo(i+1))
	}
	*r = next
}

// fit makes room for one more entry of l, and gives memory back where most of it is unused.
func (r *ring) fit(l *limit, newest int64) {
	c := r.cap()
	switch {
	case r.n == c:
		c = min(max(smallRing, 2*c), max(l.entries, c+1))
	case c > 2*smallRing && r.n < c/4:
		c = c / 2
	default:
		return
	}
	r.resize(c, r.wide != nil || l.wide, newest)
}

// refund takes up to units out of the entry recorded at time, if it counts at now, and returns the
// time of the newest entry then.
func (r *ring) refund(time, units, now, span, newest int64) int64 {
	low, high := r.live(now, span, newest), r.n
	for low < high {
		mid := int(uint(low+high) / 2)
		if r.time(mid, newest) < time {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == r.n || r.time(low, newest) != time {
		return newest
	}
	held := r.upTo(low+1) - r.upTo(low)
	units = min(units, held)
	if units < held {
		r.lower(low, 0, units, newest)
		return newest
	}
	if low == 0 {
		r.drop(1)
		return newest
	}
	if low == r.n-1 {
		last := r.time(low-1, newest)
		r.n, r.total = r.n-1, r.total-units
		return last
	}
	r.lower(low, 1, units, newest)
	return newest
}

// lower takes units off every running total from entry i on, of which the first gone fall away.
func (r *ring) lower(i, gone int, units, newest int64) {
	for j := i + gone; j < r.n; j++ {
		time, total := r.time(j, newest), r.upTo(j+1)
		r.set(j-gone, time, total-units)
	}
	r.n -= gone
	r.total -= units
}
