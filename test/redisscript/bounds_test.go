package redisscript

import (
	"fmt"
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

// listed returns the units of the charges that are listed.
func (s *scripts) listed(key string, l slidegate.Limit) (units int64, err error) {
	all, err := s.list(key, l, 100)
	for _, c := range all {
		units += c.units
	}
	return units, err
}

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
		{"counter of one unit", now, counterOf(now/window, 0, 1), 1},
		{"counter of one unit before", now - now%window, counterOf(now/window, 1, 0), 1},
		{"shortest counter", 5000, counterOf(0, 0, 7), 7},
		{"counter that is cut", 5000, counterOf(0, 0, 7)[:4], -1},
		{"counter without its last number", now, counterOf(now/window, 133, 0)[:8], -1},
		{"counter whose last number is cut", now, counterOf(now/window, 0, 133)[:8], -1},
		{"counter whose number before is cut", now, counterOf(now/window, 0, 1)[:6] + "\xc0\x01", -1},
		{"counter whose long number before is cut", now, counterOf(now/window, 0, 1)[:6] + "\xe0\x80\x02", -1},
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
		{"log with more units than its entries, charged later", now + 5, smallOf(now, window, 3, 1, one(window)), -1},
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
			if units, err := s.listed("u", l); err != nil || units != c.units && c.units >= 0 {
				t.Errorf("%s: %d units are listed, %v", c.name, units, err)
			}
			if c.units >= most {
				continue
			}
			s.replaced = 0
			with, _ := s.Bind([]slidegate.Limit{limit})
			taken, err := with.Take(background, "u", 1)
			if r := taken.Readings[0]; err != nil || !taken.Allowed || r.Units+r.Back != max(0, c.units)+1 || s.replaced != max(0, -c.units) {
				t.Errorf("%s: a charge reads %+v, %v, and replaces %d values", c.name, r, err, s.replaced)
			}
		}
	}
}

// TestAHeadThatContradictsItselfIsNotListed: nobody who looks is told of charges that no decision counts.
func TestAHeadThatContradictsItselfIsNotListed(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	const now = 1_800_000_000_000
	s.clock.SetMilli(now)
	l := slidegate.PerMinute(1000).Named("x")
	for name, value := range map[string]string{
		"without a newest entry":          smallOf(now, 1, 1, 0, one(1)),
		"with less than its newest entry": smallOf(now, 0, 1, 2),
		"that is a window old":            smallOf(now-60_000, 0, 1, 1),
	} {
		s.put(t, s.key("u", l), []string{"SET", "", value})
		if units, err := s.listed("u", l); units != 0 || err != nil {
			t.Errorf("a log %s: %d units are listed, %v", name, units, err)
		}
	}
}

// TestRefundsAtTheBounds: what is given back is of a log that is sound, and of a charge that still counts.
func TestRefundsAtTheBounds(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	const far, window, now = 1 << 52, 1 << 16, 1_800_000_000_000
	l := slidegate.Per(window*time.Millisecond, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	for _, c := range []struct {
		name    string
		now, at int64
		value   string
		given   bool // back
	}{
		{"the newest", now, now, smallOf(now, 0, 7, 7), true},
		{"the oldest", now, now - 9, smallOf(now, 9, 14, 7, many(7, 9)), true},
		{"older than the oldest", now, now - 10, smallOf(now, 9, 14, 7, many(7, 9)), false},
		{"between two", now, now - 8, smallOf(now, 9, 14, 7, many(7, 9)), false},
		{"newer than the newest", now, now + 1, smallOf(now, 9, 14, 7, many(7, 9)), false},
		{"the last moment that counts", now + window - 1, now, smallOf(now, 0, 7, 7), true},
		{"a charge that has left", now + window, now, smallOf(now, 0, 7, 7), false},
		{"the last time", far, far, smallOf(far, 0, 7, 7), true},
		{"behind the last time", far, far + 1, smallOf(far+1, 0, 7, 7), false},
		{"the first time", -far, -far, smallOf(-far, 0, 7, 7), true},
		{"before the first time", -far, -far - 1, smallOf(-far-1, 0, 7, 7), false},
		{"no newest entry", now, now - 9, smallOf(now, 9, 7, 0, many(7, 9)), false},
		{"less than the newest entry", now, now, smallOf(now, 0, 6, 7), false},
		{"a head that is cut", now, now, smallOf(now, 0, 7, 7)[:26], false},
		{"a large log that is cut", now, now, "\xf5\x0a" + smallOf(now, 0, 7, 7, strings.Repeat("\x00", 108))[2:], false},
	} {
		s.put(t, s.key("u", l), []string{"SET", "", c.value})
		s.clock.SetMilli(c.now)
		charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: c.at}}}
		if err := plan.Refund(background, "u", charged, 2); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got, err := s.conn.Do("GET", s.key("u", l)); err != nil || got != c.value != c.given {
			t.Errorf("%s: %q became %q, %v", c.name, c.value, got, err)
		}
	}
}

// plainLog is a large log of 58 units, one every 10 ms, with two full slots: two in the front, 50 in the first page, three in the
// second, two in the back, and the newest.
func plainLog() *layout {
	y := &layout{first: 0, cap: 2, newest: start, last: 1}
	add := func(n int) part {
		p := part{strings.Repeat(one(10), n), y.newest, y.sum}
		for range n {
			y.entries = append(y.entries, charged{y.newest, 1})
			y.newest, y.sum = y.newest+10, y.sum+1
		}
		return p
	}
	y.front, y.pages, y.back = add(2), []part{add(50), add(3)}, add(2)
	y.entries, y.sum = append(y.entries, charged{y.newest, 1}), y.sum+1
	return y
}

// TestBoundsOfALargeLog: one that says of itself what cannot be is found out when that is needed. It counts for nothing then,
// no refund touches it, and the next charge replaces it.
func TestBoundsOfALargeLog(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.Per(time.Minute, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	set := func(at int, n byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = n; return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	size := len(plainLog().value())
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		left   int64 // milliseconds from its beginning that have left
		units  int64 // that count, -1 if it is not understood
	}{
		{"as many pages as slots", cut(size), 25, 55},
		{"a page more than slots", set(pagesAt-4, 3), 25, -1},
		{"a ring that begins behind its last slot", set(pagesAt-7, 2), 25, -1},
		{"a page that is shorter by a byte", cut(size - 1), 535, -1},
		{"a ring that is shorter by a byte", cut(pagesAt - 1), 25, -1},
		{"a page that says that it has more than fits", set(pagesAt+13, areaSize+1), 515, 6},
		{"a back of more than fits", set(backAt-3, areaSize+1), 5, -1},
		{"a front of more than fits", set(backAt-1, areaSize+1), 5, -1},
		{"a front that ends before it begins", set(backAt-2, 3), 5, -1},
		{"a front that is used up", func(b []byte) []byte {
			b[14], b[20], b[32], b[backAt-2] = 550&0xff, 56, 2, 2 // span, units, total before, dropped
			return b
		}, 15, 56},
		{"the form of a small log", set(1, 9), 5, -1},
	} {
		value := string(c.damage([]byte(plainLog().value())))
		s.put(t, s.key("u", l), []string{"SET", "", value})
		s.clock.SetMilli(start + c.left + l.Window.Milliseconds())
		if a, err := plan.Peek(background, "u", 1); err != nil || a.Readings[0].Units != max(0, c.units) || c.units < 0 && a.Readings[0].At != 0 {
			t.Errorf("%s: a peek reads %+v, %v", c.name, a.Readings[0], err)
		}
		if a, err := plan.Peek(background, "u", l.Quota-c.units+3); err != nil || c.units > 0 && (a.Readings[0].Units != c.units || a.Readings[0].Back == 0) {
			t.Errorf("%s: a peek for the third to leave reads %+v, %v", c.name, a.Readings[0], err)
		}
		want := c.units
		if c.units < 0 {
			want = 1 // the newest stands in the head
		}
		looksLarge := value[1] == '\x0a' && value[backAt-2] <= value[backAt-1] // else what stands there is listed
		if units, err := s.listed("u", l); err != nil || looksLarge && units != want {
			t.Errorf("%s: %d units are listed, want %d, %v", c.name, units, want, err)
		}
		for _, at := range []int64{560, 570} { // the last of the back, the newest
			if c.units >= 0 || value[1] == '\x09' {
				break
			}
			charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: start + at}}}
			if err := plan.Refund(background, "u", charged, 1); err != nil {
				t.Errorf("%s: a refund: %v", c.name, err)
			}
			if got, err := s.conn.Do("GET", s.key("u", l)); got != value {
				t.Errorf("%s: a refund changed it, %v", c.name, err)
			}
		}
		if c.units > 0 { // one of the back is given back
			charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: start + 560}}}
			if err := plan.Refund(background, "u", charged, 1); err != nil {
				t.Errorf("%s: a refund: %v", c.name, err)
			}
			c.units--
		}
		s.replaced = 0
		a, err := plan.Take(background, "u", 1)
		if err != nil || a.Readings[0].Units != max(0, c.units)+1 || s.replaced != max(0, -c.units) {
			t.Errorf("%s: a charge reads %+v, %v, and replaces %d values", c.name, a.Readings[0], err, s.replaced)
		}
	}
}

// TestNothingIsLeftOfALargeLog that has no entry but its newest, where that is given back.
func TestNothingIsLeftOfALargeLog(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.Per(time.Minute, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	y := &layout{entries: []charged{{start, 3}}, back: part{"", start, 0}, cap: 1, newest: start, last: 3, sum: 3}
	s.put(t, s.key("u", l), []string{"SET", "", y.value()})
	charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: start}}}
	if err := plan.Refund(background, "u", charged, 3); err != nil {
		t.Fatal(err)
	}
	if n, err := s.conn.Do("EXISTS", s.key("u", l)); n != int64(0) {
		t.Errorf("there is a key, %v", err)
	}
}

// TestCountersAroundTheEpoch, where windows have the least numbers, of either sign: each counts by itself, wherever the clock steps to.
func TestCountersAroundTheEpoch(t *testing.T) {
	server := redistest.Standalone(t)
	l := slidegate.PerMinute(100).Counter().Named("x")
	s := newScripts(t, server, newClock())
	for from := int64(-5); from <= 5; from++ {
		for to := int64(-5); to <= 5; to++ {
			w := newTwins(s, []slidegate.Limit{l})
			s.prefix = fmt.Sprint(from, to)
			for _, n := range []int64{from, to, to} {
				s.clock.SetMilli(n*l.Window.Milliseconds() + 20_000)
				if err := w.take(0, "k", 3); err != nil {
					t.Fatalf("from window %d to %d: %v", from, to, err)
				}
			}
		}
	}
}

// TestCounterIsGivenBack, of this window and of the one before, no more than it has, until there is no key; also of the first windows
// of all, whose numbers are the shortest.
func TestCounterIsGivenBack(t *testing.T) {
	server := redistest.Standalone(t)
	l := slidegate.PerMinute(100).Counter().Named("x")
	for _, begin := range []int64{5000, start, -start} {
		s := newScripts(t, server, newClock())
		s.clock.SetMilli(begin)
		w := newTwins(s, []slidegate.Limit{l})
		for _, step := range []struct{ advance, cost int64 }{{0, 5}, {0, 3}, {l.Window.Milliseconds(), 2}} {
			w.advance(step.advance)
			if err := w.take(0, "k", step.cost); err != nil {
				t.Fatal(err)
			}
		}
		for step, i := range []int{0, 0, 2, 1, 2} {
			if err := w.refund(i, slidegate.MaxQuota); err != nil {
				t.Fatal(err)
			}
			if err := w.peek(0, "k", 95); err != nil {
				t.Errorf("step %d: %v", step, err)
			}
			if n, err := s.conn.Do("EXISTS", s.key("k", l)); err != nil || n != map[bool]int64{true: 1}[step < 2] {
				t.Errorf("step %d: %v keys, %v", step, n, err)
			}
		}
		if err := w.take(0, "k", 7); err != nil { // all there is is of the first window
			t.Fatal(err)
		}
		if err := w.refund(len(w.receipts)-1, 4); err != nil {
			t.Fatal(err)
		}
		if err := w.peek(0, "k", 98); err != nil {
			t.Errorf("%d: %v", begin, err)
		}
		if err := w.reset(0, "k"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEntriesThatDoNotAddUp to the newest time, or to the units that a large log says it has, are found out where they are counted.
func TestEntriesThatDoNotAddUp(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.Per(time.Minute, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	for _, c := range []struct {
		name string
		at   int // of the byte that is another
		is   byte
		left int64 // milliseconds from its beginning that have left
	}{
		{"a back that leads past the newest", backAt + 1, 2 * 11, 565},
		{"a back that does not lead to the newest", backAt + 1, 2 * 9, 569},
		{"less units than the entries have", 20, 57, 565},
	} {
		value := []byte(plainLog().value())
		value[c.at] = c.is
		s.put(t, s.key("u", l), []string{"SET", "", string(value)})
		s.clock.SetMilli(start + c.left + l.Window.Milliseconds())
		s.replaced = 0
		peeked, err := plan.Peek(background, "u", 1)
		if err != nil || peeked.Readings[0].Units != 0 {
			t.Errorf("%s: a peek reads %+v, %v", c.name, peeked.Readings[0], err)
		}
		taken, err := plan.Take(background, "u", 1)
		if err != nil || taken.Readings[0].Units != 1 || s.replaced != 1 {
			t.Errorf("%s: a charge reads %+v, %v, and replaces %d values", c.name, taken.Readings[0], err, s.replaced)
		}
	}
}

// TestPagesAreReadWhereTheyAreNeeded: while the front has what leaves first and the back has room, a charge looks at neither ring nor
// pages.
func TestPagesAreReadWhereTheyAreNeeded(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.Per(time.Minute, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	value := plainLog().value()
	s.put(t, s.key("u", l), []string{"SET", "", value[:len(value)-1]})
	s.clock.SetMilli(start + 5 + l.Window.Milliseconds())
	if a, err := plan.Take(background, "u", 1); err != nil || a.Readings[0].Units != 58 || s.replaced != 0 {
		t.Errorf("a charge reads %+v, %v, and replaces %d values", a.Readings[0], err, s.replaced)
	}
}

// TestTotalsThatLie say nothing of when a unit leaves: the wait is the longest then, until the newest has left.
func TestTotalsThatLie(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.Per(time.Minute, 1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	y := plainLog()
	y.pages[0].total = 500
	s.put(t, s.key("u", l), []string{"SET", "", y.value()})
	s.clock.SetMilli(y.newest)
	if a, err := plan.Peek(background, "u", 1000-58+5); err != nil || a.Readings[0] != (slidegate.Reading{Units: 58, At: y.newest, Back: y.newest}) {
		t.Errorf("%+v, %v", a.Readings[0], err)
	}
}

// TestValueOfTheOtherAlgorithm is nothing of ours: no refund touches it, and the next charge replaces it.
func TestValueOfTheOtherAlgorithm(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	const window, now = 1 << 16, start
	log, counter := smallOf(now, 0, 7, 7), counterOf(now/window, 3, 4)
	l := slidegate.Per(window*time.Millisecond, 100).Named("x")
	for _, c := range []struct {
		limit slidegate.Limit
		value string
	}{{l, counter}, {l.Counter(), log}, {l.Counter(), plainLog().value()}} {
		plan, _ := s.Bind([]slidegate.Limit{c.limit})
		s.put(t, s.key("u", c.limit), []string{"SET", "", c.value})
		for _, at := range []int64{now, now - now%window, plainLog().newest} {
			charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: at}}}
			if err := plan.Refund(background, "u", charged, 1); err != nil {
				t.Error(err)
			}
		}
		if got, err := s.conn.Do("GET", s.key("u", c.limit)); got != c.value {
			t.Errorf("%v: a refund changed it, %v", c.limit, err)
		}
		s.replaced = 0
		if a, err := plan.Take(background, "u", 5); err != nil || a.Readings[0].Units != 5 || s.replaced != 1 {
			t.Errorf("%v: a charge reads %+v, %v, and replaces %d values", c.limit, a.Readings[0], err, s.replaced)
		}
	}
}

// TestMoreThanTheQuotaIsRefused, also of a key that nothing is known of, and where what is there is nothing of ours.
func TestMoreThanTheQuotaIsRefused(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for _, l := range bothAlgorithms() {
		plan, _ := s.Bind([]slidegate.Limit{l})
		s.put(t, s.key("foreign", l), foreign["text"])
		for _, c := range []struct {
			key         string
			cost, units int64
		}{{"foreign", l.Quota + 1, 0}, {"u", l.Quota + 1, 0}, {"u", l.Quota, l.Quota}, {"u", l.Quota + 1, l.Quota}, {"u", 1, l.Quota}} {
			a, err := plan.Take(background, c.key, c.cost)
			if err != nil || a.Allowed != (c.cost == l.Quota) || a.Readings[0].Units != c.units {
				t.Errorf("%v: a charge of %d: %v, %+v, %v", l, c.cost, a.Allowed, a.Readings[0], err)
			}
		}
	}
}
