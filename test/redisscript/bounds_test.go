package redisscript

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// counterOf is a counter as it is stored: the number of its window, and the units of the one before and of this one.
func counterOf(window, prev, cur int64) string {
	n := 2 * window
	if window < 0 {
		n = -2*window - 1
	}
	return "\xf5\x0b" + packed(n) + packed(prev) + packed(cur)
}

// smallOf is a small log as it is stored.
func smallOf(newest, span, units, last int64, older ...string) string {
	return "\xf5\x09" + string(bigEndian(uint64(newest), 7)) + string(bigEndian(uint64(span), 6)) +
		string(bigEndian(uint64(units), 6)) + string(bigEndian(uint64(last), 6)) + strings.Join(older, "")
}

// one is an entry of one unit, and many one of several; the next came gap milliseconds later.
func one(gap int64) string         { return packed(2 * gap) }
func many(units, gap int64) string { return packed(2*gap+1) + packed(units) }

// TestBoundsOfWhatIsUnderstood: a value at the very bound of what may be stored counts, and one beyond it counts for nothing,
// and is replaced by the next charge.
func TestBoundsOfWhatIsUnderstood(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	const most, far, window, now = slidegate.MaxQuota, 1 << 52, 1 << 16, 1_800_000_000_000
	for _, c := range []struct {
		name  string
		now   int64
		value string
		units int64 // that count, -1 if it is not understood
	}{
		{"counter of the most units", now, counterOf(now/window, 0, most), most},
		{"counter of one more", now, counterOf(now/window, 0, most+1), -1},
		{"counter of the most units before", now + window, counterOf(now/window+1, most, 0), most},
		{"counter of one more before", now + window, counterOf(now/window+1, most+1, 0), -1},
		{"counter of the last window", far, counterOf(far/window, 0, 7), 7},
		{"counter of the window behind it", far, counterOf(far/window+1, 0, 7), -1},
		{"counter of the first window", -far, counterOf(-far/window, 0, 7), 7},
		{"counter of the window before it", -far, counterOf(-far/window-1, 0, 7), -1},
		{"shortest counter", 5000, counterOf(0, 0, 7), 7},
		{"counter that is cut", 5000, counterOf(0, 0, 7)[:4], -1},
		{"counter and a byte", 5000, counterOf(0, 0, 7) + "\x00", -1},

		{"log of the most units", now, smallOf(now, 0, most, most), most},
		{"log of one more", now, smallOf(now, 0, most+1, most+1), -1},
		{"log at the last time", far, smallOf(far, 0, 7, 7), 7},
		{"log behind it", far, smallOf(far+1, 0, 7, 7), -1},
		{"log at the first time", -far, smallOf(-far, 0, 7, 7), 7},
		{"log before it", -far, smallOf(-far-1, 0, 7, 7), -1},
		{"shortest log", now, smallOf(now, 0, 1, 1), 1},
		{"log that is cut", now, smallOf(now, 0, 1, 1)[:26], -1},
		{"longest small log", now, smallOf(now, 54, 55, 1, strings.Repeat(one(1), 54)), 55},
		{"log without a newest entry", now, smallOf(now, 1, 1, 0, one(1)), -1},
		{"log with less than its newest entry", now, smallOf(now, 0, 1, 2), -1},

		{"log that begins in the window", now, smallOf(now, window-1, 2, 1, one(window-1)), 2},
		{"log that began before", now, smallOf(now, window, 2, 1, one(window)), 1},
		{"log that leads to less than its newest time", now, smallOf(now, window, 2, 1, one(window-1)), -1},
		{"log that leads to more than its newest time", now, smallOf(now, window, 2, 1, one(window+1)), -1},
		{"log with more units than its entries", now, smallOf(now, window, 3, 1, one(window)), -1},
		{"log with less units than its entries", now, smallOf(now, window, 3, 3, one(window)), -1},
		{"log of which several began before", now, smallOf(now, 2*window, 9, 2, one(window-1), many(3, 1), many(3, window)), 2},
		{"log with an entry that is cut", now, smallOf(now, window, 4, 2, many(2, window)[:2]), -1},
	} {
		l := slidegate.Per(window*time.Millisecond, most).Named("x")
		if c.value[1] == '\x0b' {
			l = l.Counter()
		}
		plan, _ := s.Bind([]slidegate.Limit{l})
		for i, limit := range []slidegate.Limit{l, l.WithResolution(time.Second)} {
			if i == 1 && l.Algorithm == slidegate.SlidingCounter {
				break
			}
			s.clock.SetMilli(c.now)
			s.put(t, s.key("u", l), []string{"SET", "", c.value})
			peeked, err := plan.Peek(background, "u", 0)
			if r := peeked.Readings[0]; err != nil || r.Units+r.Back != max(0, c.units) {
				t.Errorf("%s: a peek reads %+v, %v", c.name, r, err)
			}
			if c.units >= most {
				continue
			}
			s.replaced = 0
			with, _ := s.Bind([]slidegate.Limit{limit})
			taken, err := with.Take(background, "u", 1)
			if err != nil || !taken.Allowed || taken.Readings[0].Units != max(0, c.units)+1 || s.replaced != max(0, -c.units) {
				t.Errorf("%s: a charge reads %+v, %v, and replaces %d values", c.name, taken.Readings[0], err, s.replaced)
			}
		}
	}
}
