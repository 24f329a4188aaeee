package memstore

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// TestWhatALimitNeeds: the widths and the most entries of a log follow from its window, its quota and its resolution.
func TestWhatALimitNeeds(t *testing.T) {
	const second, month = time.Second, narrowSpan * time.Millisecond
	for _, c := range []struct {
		limit      slidegate.Limit
		few, wide  bool
		resolution int64
		entries    int
	}{
		{slidegate.Per(second, 100), true, false, 1, 100},
		{slidegate.Per(second, 1001), true, false, 1, 1001},
		{slidegate.Per(second, 5000), true, false, 1, 1001}, // a charge a millisecond, and one that leaves
		{slidegate.Per(second, 5000).WithResolution(2 * time.Millisecond), true, false, 2, 501},
		{slidegate.Per(second, 5000).WithResolution(second / 10), true, false, 100, 11},
		{slidegate.Per(1001*time.Millisecond, 5000).WithResolution(second / 10), true, false, 100, 12},
		{slidegate.Per(second, narrowQuota-1), true, false, 1, 1001},
		{slidegate.Per(second, narrowQuota), true, true, 1, 1001},
		{slidegate.Per(month-time.Millisecond, 100), true, false, 1, 100},
		{slidegate.Per(month, 100), false, true, 1, 100},
		{slidegate.Per(365*24*time.Hour, 1e12), false, true, 1, math.MaxInt32},
	} {
		want := limit{few: c.few, wide: c.wide, span: c.limit.Window.Milliseconds(), quota: c.limit.Quota, resolution: c.resolution, entries: c.entries}
		if got := newLimit(c.limit, 0); got != want {
			t.Errorf("%s: %+v, want %+v", c.limit, got, want)
		}
	}
}

// TestTagsAreTheFirstNumbers of limits; those for which a slot has no room have none.
func TestTagsAreTheFirstNumbers(t *testing.T) {
	for id, want := range map[uint32]int{0: 0, 1: 1, chained - 1: chained - 1, chained: noTag, chained + 1: noTag, math.MaxUint32: noTag} {
		if got := tagOf(id); got != want {
			t.Errorf("the tag of %d is %d, want %d", id, got, want)
		}
	}
}

// TestACounterThatFitsNeedsNoPair: a word holds two counts of 31 bits; what is larger, or once was, is outside of it.
func TestACounterThatFitsNeedsNoPair(t *testing.T) {
	for _, c := range []struct {
		prev, cur int64
		pairs     int
	}{
		{0, 0, 0}, {1, 2, 0}, {countMask, 0, 0}, {0, countMask, 0}, {countMask, countMask, 0},
		{countMask + 1, 0, 1}, {0, countMask + 1, 1}, {1 << 40, 1 << 41, 1},
	} {
		sh, st := &shard{}, state{}.tagged(5)
		for _, counts := range [][2]int64{{c.prev, c.cur}, {c.cur, c.prev}, {3, 4}} {
			want := window.Counter{Start: -7000, Prev: counts[0], Cur: counts[1]}
			sh.save(&st, want)
			if got := sh.load(&st); got != want || len(sh.pairs.values) != c.pairs || st.tag() != 5 {
				t.Errorf("%+v with %d pairs, want %+v with %d", got, len(sh.pairs.values), want, c.pairs)
			}
		}
	}
}

// TestWhatARefundLeavesOfACounter: no window has less than nothing, others keep what they have, and a counter of nothing goes.
func TestWhatARefundLeavesOfACounter(t *testing.T) {
	l := newLimit(slidegate.PerSecond(1e12).Counter(), 0)
	for _, c := range []struct {
		prev, cur, start, cost int64
		wantPrev, wantCur      int64
	}{
		{1, 1, 5000, 1, 1, 0}, {0, 1, 5000, 1, 0, 0}, {1, 1, 4000, 1, 0, 1}, {1, 0, 4000, 1, 0, 0},
		{2, 5, 5000, 3, 2, 2}, {5, 2, 4000, 3, 2, 2}, {2, 5, 5000, 9, 2, 0}, {5, 2, 4000, 9, 0, 2},
		{3, 4, 6000, 1, 3, 4}, {3, 4, 3000, 1, 3, 4}, {1e10, 2e10, 5000, 1e10, 1e10, 1e10}, {1e10, 2e10, 4000, 1e10, 0, 2e10},
	} {
		sh, st := &shard{}, new(state)
		sh.save(st, window.Counter{Start: 5000, Prev: c.prev, Cur: c.cur})
		left := sh.refundCounter(st, &l, c.start, c.cost)
		want := window.Counter{Start: 5000, Prev: c.wantPrev, Cur: c.wantCur}
		if got := sh.load(st); got != want || left != (want.Prev+want.Cur > 0) {
			t.Errorf("%d of the window at %d off %d and %d: %+v is left, and something is: %v", c.cost, c.start, c.prev, c.cur, got, left)
		}
	}
}

// entriesOf returns what a ring holds, oldest first.
func entriesOf(r *ring, newest int64) (all []slidegate.Charge) {
	for i := range int(r.n) {
		all = append(all, slidegate.Charge{At: r.time(i, newest), Units: r.upTo(i+1) - r.upTo(i)})
	}
	return all
}

// TestAFewBecomesARing of its charges, with room for twice as many, at most for what a window can hold, and for one more in any case.
func TestAFewBecomesARing(t *testing.T) {
	const newest = 1_757_750_400_000
	for _, c := range []struct {
		charges []int64 // units, a millisecond apart
		entries int     // of the limit
		room    int
	}{
		{[]int64{1}, 1, 2}, {[]int64{2}, 2, 2}, {[]int64{15}, 100, 4}, {[]int64{1, 1}, 2, 3}, {[]int64{1, 3}, 100, 4}, {[]int64{2, 1, 3}, 100, 6},
		{[]int64{2, 1, 3}, 5, 5}, {[]int64{2, 1, 3}, 4, 4}, {[]int64{2, 1, 3}, 3, 4}, {[]int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 100, 30},
	} {
		for _, wide := range []bool{false, true} {
			var f few
			var want []slidegate.Charge
			for i, units := range c.charges {
				at := int64(newest - len(c.charges) + 1 + i)
				f.push(at, units)
				want = append(want, slidegate.Charge{At: at, Units: units})
			}
			r := f.ring(&limit{entries: c.entries, wide: wide}, newest)
			if got := entriesOf(&r, newest); !slices.Equal(got, want) || r.cap() != c.room || (r.shift == 1) != wide {
				t.Errorf("%v at most %d: %v in a ring of %d, want room for %d", c.charges, c.entries, got, r.cap(), c.room)
			}
		}
	}
}

// TestARingFits what is to come: it doubles when it is full, up to what a window can hold, and halves when a quarter is not in use.
func TestARingFits(t *testing.T) {
	for _, c := range []struct{ room, held, entries, want int }{
		{0, 0, 100, 4}, {0, 0, 3, 3}, {0, 0, 1, 1}, {4, 4, 100, 8}, {4, 4, 6, 6}, {4, 4, 4, 5}, {4, 4, 1, 5}, {4, 3, 100, 4}, {3, 3, 100, 6},
		{8, 1, 100, 8}, {9, 1, 100, 4}, {9, 2, 100, 9}, {12, 2, 100, 6}, {12, 3, 100, 12}, {40, 9, 100, 20}, {40, 10, 100, 40},
	} {
		for _, wide := range []bool{false, true} {
			const newest = 1_757_750_400_000
			var r ring
			r.resize(c.room, wide, newest)
			for i := range c.held {
				r.push(int64(newest-c.held+1+i), int64(i+1))
			}
			before := entriesOf(&r, newest)
			r.fit(&limit{entries: c.entries}, newest)
			if after := entriesOf(&r, newest); r.cap() != c.want || (r.shift == 1) != wide || !slices.Equal(before, after) {
				t.Errorf("%d entries of %d in a ring of %d: it is one of %d then, want %d; %v became %v", c.held, c.entries, c.room, r.cap(), c.want, before, after)
			}
		}
	}
}
