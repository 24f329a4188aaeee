package memstore

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// clone returns a shard with what states have outside of them, and nothing in common with sh.
func (sh *shard) clone() *shard {
	c := &shard{}
	c.fews = slab[few]{slices.Clone(sh.fews.values), slices.Clone(sh.fews.free)}
	c.pairs = slab[pair]{slices.Clone(sh.pairs.values), slices.Clone(sh.pairs.free)}
	c.rings = slab[ring]{slices.Clone(sh.rings.values), slices.Clone(sh.rings.free)}
	for i := range c.rings.values {
		c.rings.values[i].words = slices.Clone(c.rings.values[i].words)
	}
	return c
}

// contents are what a state has recorded, whatever has left.
func (sh *shard) contents(st *state, l *limit) any {
	switch {
	case l.counter:
		return sh.load(st)
	case st.word&(spilled|packedBit) == packedBit:
		f := st.few()
		return f.charges(0, fewUnits, st.at())
	case st.word&spilled == 0:
		return []slidegate.Charge{{At: st.at(), Units: int64(st.word)}}
	case st.word&fewBit != 0:
		return sh.fews.at(st.word).charges(0, fewUnits, st.at())
	}
	return entriesOf(sh.rings.at(st.word), st.at())
}

// isUsual tells whether the quick way is to decide: where nothing of a log has left, and a counter is in the window that it was in, and
// neither has to be brought into another form or to be searched.
func (sh *shard) isUsual(st *state, l *limit, now, cost int64) bool {
	if l.counter {
		c := sh.load(st)
		used := c.Cur + cost
		return st.word&spilled == 0 && now < c.Start+l.span && (used > l.quota || used+c.Prev <= l.quota && used <= countMask)
	}
	var oldest, units int64
	room := true
	switch {
	case st.word&(spilled|packedBit) == packedBit:
		f, one := st.few(), cost == 1
		oldest, units = f.time(0, st.at()), int64(f.len())
		if room = one && units < packedUnits; room { // and all gaps find the bits they need
			f.push(max(st.at(), now), 1)
			bits := gapsAt / units
			for i := range f.len() - 1 {
				room = room && f.time(i+1, max(st.at(), now))-f.time(i, max(st.at(), now)) < 1<<bits
			}
		}
	case st.word&spilled == 0:
		oldest, units = st.at(), int64(st.word)
		room = st.at() >= now || l.few && units == 1 && cost == 1
	case st.word&fewBit != 0:
		f := sh.fews.at(st.word)
		oldest, units = f.time(0, st.at()), int64(f.len())
		room = units+cost <= fewUnits
	default:
		log := sh.rings.at(st.word)
		oldest, units = log.time(0, st.at()), log.upTo(int(log.n))-log.upTo(0)
		room = st.at() >= now && (log.shift == 1 || !l.wide)
	}
	need := units + cost - l.quota
	switch {
	case !window.Counts(oldest, now, l.span):
		return false
	case need > 0:
		return need == 1 || st.word&(spilled|packedBit) == 0
	}
	return l.resolution == 1 && room
}

// TestTheQuickWayIsTheLongWay in the usual case, by each way to ask: it answers alike, and leaves the same. Elsewhere it changes nothing,
// and admits nothing.
func TestTheQuickWayIsTheLongWay(t *testing.T) {
	const ms = time.Millisecond
	log := func(quota int64) slidegate.Limit { return slidegate.Per(4*ms, quota) }
	counter := func(quota int64) slidegate.Limit { return slidegate.Per(4*ms, quota).Counter() }
	for _, c := range []struct {
		name   string
		limits []slidegate.Limit // over one state; the first charges it
		most   int64             // that is charged at once
	}{
		{"one charge", []slidegate.Limit{log(2), log(3), log(1), log(9).WithResolution(2 * ms)}, 3},
		{"a handful", []slidegate.Limit{log(8), log(5), log(3), log(100), log(9).WithResolution(2 * ms)}, 2},
		{"a few", []slidegate.Limit{log(9), log(5), log(15), log(100), log(9).WithResolution(2 * ms)}, 3},
		{"a few, up to as many as they may be", []slidegate.Limit{log(15), log(14), log(12), log(16), log(100)}, 5},
		{"a few, and more", []slidegate.Limit{log(20), log(14), log(12), log(16)}, 5},
		{"a ring", []slidegate.Limit{log(60), log(50), log(1e12), log(70).WithResolution(2 * ms)}, 19},
		{"a wide ring", []slidegate.Limit{log(1e12), log(30), log(50)}, 19},
		{"a coarse log", []slidegate.Limit{log(9).WithResolution(2 * ms), log(9), log(50)}, 4},
		{"a counter", []slidegate.Limit{counter(9), counter(12), counter(5)}, 3},
		{"a counter near what a word holds", []slidegate.Limit{counter(countMask), counter(countMask + 4), counter(countMask - 1), counter(1e12)}, countMask},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		now := int64(1_757_750_400_000)
		limits := make([]limit, len(c.limits))
		for i := range limits {
			limits[i] = newLimit(c.limits[i], 0)
		}
		sh := &shard{}
		st, _ := sh.open(&limits[0], now, 1)
		usual := map[bool]int{}
		for step := range 1_500 {
			now += rng.Int64N(4) - 1
			cost := rng.Int64N(3)
			if step%3 == 0 {
				cost = 1 + rng.Int64N(c.most)
			}
			if step%50 == 0 {
				now += 8 // of a counter the window before is over too
			}
			if c.most == countMask && rng.IntN(2) == 0 {
				cost = max(1, countMask-2+rng.Int64N(5)-sh.load(&st).Cur) // close to where a count becomes too large
			}
			for i := range limits {
				l := &limits[i]
				long, longSt := sh.clone(), st
				r, live, room := long.read(&longSt, l, now, cost)
				want := r
				if room && cost > 0 {
					want = long.charge(&longSt, l, now, cost, r, live)
				}
				isUsual := cost > 0 && sh.isUsual(&st, l, now, cost)
				usual[isUsual]++

				check := func(way string, short *shard, shortSt *state, got slidegate.Reading, admitted, done bool) {
					t.Helper()
					after := long.contents(&longSt, l)
					if !done {
						after = sh.contents(&st, l)
					}
					if admitted != (done && room) || done && got != want || !reflect.DeepEqual(short.contents(shortSt, l), after) {
						t.Fatalf("%s, step %d, %s of %d at %d: %v, %v, %+v, %v; want %v, %+v, %v", c.name, step, way, cost, now,
							admitted, done, got, short.contents(shortSt, l), room, want, after)
					}
				}
				short, shortSt := sh.clone(), st
				got, admitted, done := short.quick(&shortSt, l, now, cost)
				if check("a take", short, &shortSt, got, admitted, done); done != isUsual {
					t.Fatalf("%s, step %d: a take of %d at %d is done quickly: %v, want %v", c.name, step, cost, now, done, isUsual)
				}
				isRing := !l.counter && st.word&(spilled|fewBit) == spilled
				if cost > 0 {
					short, shortSt = sh.clone(), st
					if l.counter {
						admitted, done = shortSt.allowCounter(l, now, cost)
					} else {
						admitted, done = short.allowLog(&shortSt, l, now, cost)
						isUsual = isUsual && st.word&(spilled|fewBit) != spilled|fewBit || isRing && !room && window.Counts(sh.rings.at(st.word).oldest, now, l.span)
					}
					if check("a verdict", short, &shortSt, want, admitted, done); done != isUsual {
						t.Fatalf("%s, step %d: a verdict of %d at %d is quick: %v, want %v", c.name, step, cost, now, done, isUsual)
					}
				}
				short, shortSt = sh.clone(), st
				got, done = short.readQuick(&shortSt, l, now, cost)
				if quick := isRing && room && r.Units+cost <= l.quota && window.Counts(sh.rings.at(st.word).oldest, now, l.span); done != quick || done && got != r {
					t.Fatalf("%s, step %d: a ring is read quickly: %v, %+v; want %v, %+v", c.name, step, done, got, quick, r)
				}
				if done && cost > 0 {
					charged := short.chargeQuick(&shortSt, l, now, cost, &got)
					if charged {
						check("a charge", short, &shortSt, got, true, true)
					}
					if charged != isUsual || !charged && !reflect.DeepEqual(short.contents(&shortSt, l), sh.contents(&st, l)) {
						t.Fatalf("%s, step %d: a charge of %d at %d is quick: %v, want %v", c.name, step, cost, now, charged, isUsual)
					}
				}
			}
			l := &limits[0]
			if r, live, room := sh.read(&st, l, now, cost); room && cost > 0 {
				sh.charge(&st, l, now, cost, r, live)
			}
		}
		if usual[true] < 100 || usual[false] < 100 {
			t.Errorf("%s: the usual case was tried %d times, others %d times", c.name, usual[true], usual[false])
		}
	}
}

// TestALookupKnowsBothHalves of a print: keys that have one in common, and their place, are told apart, as are limits.
func TestALookupKnowsBothHalves(t *testing.T) {
	a, b := newLimit(slidegate.PerSecond(1), 0), newLimit(slidegate.PerSecond(1), 1)
	sh := &shard{}
	if sh.lookup(print{1, 1}, &a) != nil {
		t.Error("an empty shard holds a key")
	}
	held := print{1, 1 << 40}
	sh.add(held, -1, &a, newState(7, 1))
	for _, p := range []print{{2, 1 << 40}, {1, 1 << 41}, {2, 1 << 41}} {
		if sh.lookup(p, &a) != nil {
			t.Errorf("%v is taken for %v", p, held)
		}
	}
	if st := sh.lookup(held, &a); st == nil || st.at() != 7 {
		t.Error("a key is not found")
	}
	if sh.lookup(held, &b) != nil {
		t.Error("a key has a state of a limit that it was not charged in")
	}
	behind := print{2, 1 << 40} // another is where its probe begins
	sh.add(behind, -1, &a, newState(8, 1))
	sh.add(behind, sh.find(behind), &b, newState(9, 1))
	if st, st2 := sh.lookup(behind, &a), sh.lookup(behind, &b); st == nil || st2 == nil || st.at() != 8 || st2.at() != 9 {
		t.Errorf("of a key behind another, the states are %v and %v", st, st2)
	}
}

// TestAKeyThatIsNotHeldIsFree: its counter is one of the window that now is in, its log is empty.
func TestAKeyThatIsNotHeldIsFree(t *testing.T) {
	now := int64(1_757_750_412_345)
	plan, err := New(at(&now)).Bind([]slidegate.Limit{slidegate.PerMinute(5).Counter(), slidegate.PerMinute(5)})
	if err != nil {
		t.Fatal(err)
	}
	want := slidegate.Answer{Allowed: true, Now: now, Readings: [slidegate.MaxLimits]slidegate.Reading{{At: 1_757_750_400_000}}}
	for _, cost := range []int64{0, 1, 5} {
		if got, err := plan.Peek(t.Context(), "k", cost); got != want || err != nil {
			t.Errorf("a cost of %d: %+v, %v", cost, got, err)
		}
	}
}
