package wrap

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// A mark tells the refund of an admitted request what became of it. It goes where the answer goes, in a Back, which no
// store makes negative: of a log with room Back is 0 and nobody reads it, and the Back of a counter is weighed into its Units.
type mark int64

const (
	byBackup   mark = -1 // a FallbackStore asked its backup
	notCharged mark = -2 // a shadow let a refused request pass
)

// markAt returns which of the limits bears the mark: the first log, else the first.
func markAt(limits []slidegate.Limit) int {
	for i := range limits {
		if limits[i].Algorithm == slidegate.SlidingLog {
			return i
		}
	}
	return 0
}

// put marks an admitted answer over limits. What is used stays what it is; a counter that bears a mark is told to be full
// again later than it is.
func (m mark) put(limits []slidegate.Limit, a *slidegate.Answer) {
	i := markAt(limits)
	r, span := &a.Readings[i], limits[i].Window.Milliseconds()
	if limits[i].Algorithm == slidegate.SlidingCounter {
		used := counter(*r).Used(a.Now, span)
		r.Units = used - window.Counter{Start: r.At, Prev: int64(m)}.Used(a.Now, span)
	}
	r.Back = int64(m)
}

// on tells whether an answer over limits bears the mark.
func (m mark) on(limits []slidegate.Limit, a *slidegate.Answer) bool {
	return a.Readings[markAt(limits)].Back == int64(m)
}

// counter returns the counter that a reading is of.
func counter(r slidegate.Reading) window.Counter {
	return window.Counter{Start: r.At, Prev: r.Back, Cur: r.Units}
}

// used returns the units of a limit that count.
func used(l *slidegate.Limit, now int64, r slidegate.Reading) int64 {
	if l.Algorithm == slidegate.SlidingCounter {
		return counter(r).Used(now, l.Window.Milliseconds())
	}
	return r.Units
}
