package redisscript

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// entryOf is an entry as it is stored.
func entryOf(units, gap int64) string {
	if units == 1 {
		return one(gap)
	}
	return many(units, gap)
}

// A part is what lies together in a large log: entries in an area or in a page.
type part struct {
	bytes string
	time  int64 // of the first entry
	total int64 // units before it
}

// A layout is a log, and what it has where: a large one, or a small one, which has nothing but a back.
type layout struct {
	small             bool
	entries           []charged // the newest too
	front, back       part
	pages             []part
	first, cap        int // of the ring
	base              int64
	dropped           int // bytes before the front
	newest, last, sum int64
}

// layout draws a log of so many pages, a small one for -1: entries of all sizes, in parts that are more or less full, with running
// totals that begin anywhere, in a ring that begins anywhere.
func (d draw) layout(pages int) *layout {
	y := &layout{small: pages < 0, newest: start - d.Int64N(2)*2*start} // before the epoch, too
	wide, large := 1+d.IntN(22), d.IntN(3)*d.IntN(16)
	if y.small {
		y.back = d.part(y, 1+d.IntN(75), wide, large, false)
	} else {
		y.dropped = d.IntN(20)
		y.front = d.part(y, areaSize-y.dropped, wide, large, true)
		for range pages {
			y.pages = append(y.pages, d.part(y, areaSize, wide, large, true))
		}
		y.back = part{"", y.newest, y.sum}
		if d.IntN(4) > 0 {
			y.back = d.part(y, areaSize, wide, large, false)
		}
	}
	y.last = 1 + d.Int64N(2)*d.Int64N(9)
	y.entries = append(y.entries, charged{y.newest, y.last})
	y.cap = max(1, pages+d.IntN(4))
	y.first = d.IntN(y.cap)
	// The totals wrap somewhere, or right before a part.
	y.base, y.sum = d.Int64N(1<<48), y.sum+y.last
	if all := append(y.pages, y.back); d.IntN(2) == 0 {
		y.base = 1<<48 + d.Int64N(3) - all[d.IntN(len(all))].total
	}
	y.base &= 1<<48 - 1
	return y
}

// part draws one of at most so many bytes, behind what there is. Where the gap of its last entry is not used, it is loose: any.
func (d draw) part(y *layout, most, wide, large int, loose bool) part {
	p, before, units := part{"", y.newest, y.sum}, "", int64(0)
	few := d.IntN(3) > 0
	for {
		e, gap := charged{y.newest, 1}, 1+d.Int64N(1<<wide)
		if d.IntN(4) == 0 { // as long as a number of so many bytes can say, or a bit longer
			gap = 1<<[]int{6, 13, 20}[d.IntN(3)] - 1 + d.Int64N(3)
		}
		if d.IntN(3) == 0 {
			e.units += d.Int64N(1 << large)
		}
		next := p.bytes + entryOf(e.units, gap)
		if len(next) > most || few && p.bytes != "" && d.IntN(3) == 0 {
			break
		}
		before, units, p.bytes = p.bytes, e.units, next
		y.entries, y.newest, y.sum = append(y.entries, e), y.newest+gap, y.sum+e.units
	}
	if other := before + entryOf(units, 1+d.Int64N(99)); loose && len(other) <= most {
		p.bytes = other
	}
	return p
}

// value is a layout as it is stored. What is not used of it has bytes that would be noticed.
func (y *layout) value() string {
	number := func(n int64, size int) string { return string(bigEndian(uint64(n), size)) }
	area := func(s string) string { return s + strings.Repeat("\xff", areaSize-len(s)) }
	total := func(p part) string { return number((y.base+p.total)&(1<<48-1), 6) }
	if y.small {
		return smallOf(y.newest, y.newest-y.entries[0].at, y.sum, y.last, y.back.bytes)
	}
	var b strings.Builder
	b.WriteString("\xf5\x0a" + number(y.newest, 7) + number(y.newest-y.entries[0].at, 6) + number(y.sum, 6) + number(y.last, 6) + number(y.base, 6))
	b.WriteString(number(int64(len(y.back.bytes)), 1) + number(int64(y.dropped), 1) + number(int64(y.dropped+len(y.front.bytes)), 1))
	b.WriteString(area(y.back.bytes) + area(strings.Repeat("\xff", y.dropped)+y.front.bytes))
	b.WriteString(number(y.back.time, 7) + total(y.back) + number(int64(y.first), 3) + number(int64(len(y.pages)), 3) + number(int64(y.cap), 3))
	slots := make([]string, y.cap)
	for i := range slots {
		slots[i] = strings.Repeat("\xff", pageSize)
	}
	for j, p := range y.pages {
		slots[(y.first+j)%y.cap] = number(p.time, 7) + total(p) + number(int64(len(p.bytes)), 1) + area(p.bytes)
	}
	return b.String() + strings.Join(slots, "")
}

// begin puts a layout into both, and returns them.
func (y *layout) begin(t *testing.T, s *scripts, l slidegate.Limit) *twins {
	t.Helper()
	s.put(t, s.key("k", l), []string{"SET", "", y.value()})
	w := newTwins(s, []slidegate.Limit{l})
	for _, e := range y.entries {
		s.clock.SetMilli(e.at)
		a, err := w.theirs[0].Take(background, "k", e.units)
		if err != nil || !a.Allowed {
			t.Fatal(a, err)
		}
		w.receipts = append(w.receipts, receipt{0, "k", e.units, a})
	}
	return w
}

// TestLogsWhereverTheirEntriesLie: whatever is in the areas and in the pages, wherever the ring begins and the running
// totals wrap, a log counts what its entries say, tells when each unit leaves, takes the next charge, and gives all back.
func TestLogsWhereverTheirEntriesLie(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for seed := range 90 * *seeds {
		d := draw{rand.New(rand.NewPCG(seed, 21))}
		y := d.layout(int(seed%15) - 6)
		span := y.newest - y.entries[0].at
		l := slidegate.Per(time.Duration(span+1+d.Int64N(1000))*time.Millisecond, slidegate.MaxQuota).Named("x")
		if v, err := understand([]byte(y.value())); err != nil || v.units != y.sum {
			t.Fatalf("seed %d: %v, %d units are %d", seed, err, y.sum, v.units)
		}
		w := y.begin(t, s, l)
		for range 8 {
			if err := w.look(d, y, l); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := y.listed(d, s, l); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 6 {
			w := y.begin(t, s, l)
			s.clock.SetMilli(y.moment(d, l))
			if err := w.change(d, l); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := y.begin(t, s, l).empty(d, l); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if s.replaced != 0 {
			t.Fatalf("seed %d: %d values of our own were not understood", seed, s.replaced)
		}
	}
}

// empty gives all back in one of some orders, and looks whether a key is left.
func (w *twins) empty(d draw, l slidegate.Limit) error {
	order := d.Perm(len(w.receipts))
	switch d.IntN(4) {
	case 0:
		order = upTo(len(order))
	case 1:
		order = backwards(upTo(len(order)))
	}
	for _, i := range order {
		if err := w.refund(i, slidegate.MaxQuota); err != nil {
			return err
		}
		if err := w.agree(l, l.Quota-1); err != nil {
			return fmt.Errorf("after a refund of %d in the order %v: %w", i, order, err)
		}
	}
	if n, err := w.scripts.conn.Do("EXISTS", w.scripts.key("k", l)); err != nil || n != int64(0) {
		return fmt.Errorf("there is a key although all was given back, %v", err)
	}
	return nil
}

// agree looks whether what is stored is sound, and counts what it should.
func (w *twins) agree(l slidegate.Limit, cost int64) error {
	if _, err := w.scripts.stored(w.scripts.key("k", l)); err != nil {
		return err
	}
	return w.peek(0, "k", cost)
}

// TestFirstToLeave: whatever units a log's oldest entry has, and however long it is to the next, a charge that comes when it has left,
// and nothing else, counts what is left.
func TestFirstToLeave(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	gaps := []int64{8191, 8192, 8193, 65_000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 1 << 21, 1<<22 + 1<<9}
	for gap := range int64(66) {
		gaps = append(gaps, gap+1)
	}
	for _, gap := range gaps {
		for _, next := range []charged{{50, 2}, {1 << 25, 2}, {1 << 19, 1}, {5000, 1}} { // how long until the newest but one, and units
			l := slidegate.Per(time.Duration(gap+next.at+10)*time.Millisecond, 1000).Named("x")
			for _, units := range []int64{1, 2, 3, 6, 254} {
				y := &layout{small: true, newest: start + gap + next.at + 3, last: 1, sum: units + next.units + 2}
				y.entries = []charged{{start, units}, {start + gap, next.units}, {y.newest - 3, 1}, {y.newest, 1}}
				y.back.bytes = entryOf(units, gap) + entryOf(next.units, next.at) + one(3)
				w := y.begin(t, s, l)
				s.clock.SetMilli(start + l.Window.Milliseconds())
				if err := w.take(0, "k", 1); err != nil {
					t.Fatalf("%d units, %d ms before the next: %v", units, gap, err)
				}
				if err := w.agree(l, l.Quota-1); err != nil {
					t.Fatalf("%d units, %d ms before the next: %v", units, gap, err)
				}
			}
		}
	}
	if s.replaced != 0 {
		t.Errorf("%d values of our own were not understood", s.replaced)
	}
}

// TestFrontIsFilled to its last byte where a log becomes too long for a small one.
func TestFrontIsFilled(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.PerMinute(1000).Named("x")
	plan, _ := s.Bind([]slidegate.Limit{l})
	for range 80 {
		s.clock.Advance(10 * time.Millisecond)
		if a, err := plan.Take(background, "k", 1); err != nil || !a.Allowed {
			t.Fatal(a, err)
		}
	}
	if text, err := s.conn.Do("GET", s.key("k", l)); err != nil || text.(string)[1] != '\x0a' || text.(string)[backAt-1] != areaSize {
		t.Errorf("%q, %v", text, err)
	}
}

// moment draws a time at which some of the entries have left, often the very one at which one does.
func (y *layout) moment(d draw, l slidegate.Limit) int64 {
	return y.entries[d.IntN(len(y.entries))].at + l.Window.Milliseconds() + d.Int64N(3) - 1
}

// look asks for more than there is room, so that the time is told at which a unit leaves.
func (w *twins) look(d draw, y *layout, l slidegate.Limit) error {
	w.clock.SetMilli(y.moment(d, l))
	held, err := w.theirs[0].Peek(background, "k", 0)
	if err != nil {
		return err
	}
	for range 4 {
		need := 1 + d.Int64N(held.Readings[0].Units+1)
		if err := w.peek(0, "k", min(l.Quota, l.Quota-held.Readings[0].Units+need)); err != nil {
			return fmt.Errorf("%d of %d: %w", need, held.Readings[0].Units, err)
		}
	}
	return nil
}

// listed looks whether the charges that count are listed, all or the oldest of them.
func (y *layout) listed(d draw, s *scripts, l slidegate.Limit) error {
	edge := s.clock.Now().UnixMilli() - l.Window.Milliseconds()
	var want []charged
	for _, e := range y.entries {
		if e.at > edge {
			want = append(want, e)
		}
	}
	for _, most := range []int{len(want) + d.IntN(2), d.IntN(len(want) + 1)} {
		if got, err := s.list("k", l, most); err != nil || !slices.Equal(got, want[:min(most, len(want))]) {
			return fmt.Errorf("of %d charges %d are listed as %v, %v, want the first of %v", len(want), most, got, err, want)
		}
	}
	return nil
}

// change charges and gives back a few times, and looks at what is stored.
func (w *twins) change(d draw, l slidegate.Limit) error {
	for step := range 4 {
		var err error
		if d.IntN(2) < min(1, step) {
			err = w.refund(d.IntN(len(w.receipts)), 1+d.Int64N(3)*d.Int64N(1<<20))
		} else {
			w.advance(d.Int64N(3) * d.Int64N(100))
			err = w.take(0, "k", 1+d.Int64N(2)*d.Int64N(3))
		}
		if err != nil {
			return err
		}
		if err := w.agree(l, l.Quota-d.Int64N(50)); err != nil {
			return err
		}
	}
	return nil
}
