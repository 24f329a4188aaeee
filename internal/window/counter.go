package window

import (
	"math"
	"math/bits"
)

// Counter is the state of a sliding counter: the units admitted in the current aligned window,
// which begins at Start, and in the one before.
type Counter struct {
	Start, Prev, Cur int64
}

// Floor returns the start of the aligned window that now is in: the largest multiple of span
// that is not after now, also before the epoch.
func Floor(now, span int64) int64 {
	r := now % span
	if r < 0 {
		r += span
	}
	return now - r
}

// Ceil returns the smallest multiple of step that is not before now.
func Ceil(now, step int64) int64 {
	f := Floor(now, step)
	if f == now {
		return f
	}
	return f + step
}

// Roll returns the counter as it stands at now. The start never decreases: a clock that is
// behind it leaves the counter as it is.
func (c Counter) Roll(now, span int64) Counter {
	if now < c.Start+span {
		return c
	}
	start := Floor(now, span)
	if start == c.Start+span {
		return Counter{Start: start, Prev: c.Cur}
	}
	return Counter{Start: start}
}

// Used returns the weighted units of a rolled counter at now.
func (c Counter) Used(now, span int64) int64 {
	if c.Prev == 0 {
		return c.Cur
	}
	return weigh(c.Prev, max(0, now-c.Start), span) + c.Cur
}

// Fits tells whether a rolled counter uses at most target units at now. It weighs only where the
// counts alone do not tell.
func (c Counter) Fits(now, span, target int64) bool {
	if c.Cur > target || c.Cur+c.Prev <= target {
		return c.Cur <= target
	}
	return c.Used(now, span) <= target
}

// weigh is the share of prev that still counts when elapsed of span has passed: one
// multiplication, one division and one floor in IEEE doubles, in this order, everywhere.
// It never grows with elapsed, since each of the three steps is monotone.
func weigh(prev, elapsed, span int64) int64 {
	product := float64(prev) * float64(span-elapsed)
	return int64(math.Floor(product / float64(span)))
}

// WaitUntil returns the smallest wait from now after which a rolled counter uses at most target
// units if nothing is charged; 0 if it does so already. Target is not negative.
func (c Counter) WaitUntil(now, span, target int64) int64 {
	if c.Fits(now, span, target) {
		return 0
	}
	// Within the current window the weight of prev falls; at its end cur takes prev's place.
	if c.Cur <= target {
		if e := firstElapsed(c.Prev, span, target-c.Cur); e < span {
			return c.Start + e - now
		}
	}
	return c.Start + span + firstElapsed(c.Cur, span, target) - now
}

// firstElapsed returns the smallest elapsed time at which at most target units of prev count.
func firstElapsed(prev, span, target int64) int64 {
	if prev <= target {
		return 0
	}
	// Where the product is exact in a double, the formula is exact too, and
	// floor(prev*(span-e)/span) <= target holds from prev*(span-e) < (target+1)*span on.
	if hi, lo := bits.Mul64(uint64(prev), uint64(span)); hi == 0 && lo < 1<<53 {
		return span - ((target+1)*span-1)/prev
	}
	return searchElapsed(prev, span, target)
}

// searchElapsed is firstElapsed for any product, searched with the formula itself. The closed form says where to begin:
// it is a step early, or two, or not at all, for doubles put it off by less than one. The formula in doubles has the last word.
func searchElapsed(prev, span, target int64) int64 {
	e := max(0, span-int64(math.Ceil(float64(target+1)*float64(span)/float64(prev))))
	for weigh(prev, e, span) > target { // it ends at span, where nothing is left
		e++
	}
	return e
}
