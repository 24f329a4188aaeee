package memstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// naive is what a ring has to behave like: times and units in plain slices.
type naive struct{ times, units []int64 }

func (m *naive) live(now, span int64) int {
	i := slices.IndexFunc(m.times, func(e int64) bool { return now-e < span })
	if i < 0 {
		return len(m.times)
	}
	return i
}

func (m *naive) sum(from int) (total int64) {
	for _, u := range m.units[from:] {
		total += u
	}
	return total
}

func (m *naive) leaver(live int, need int64) int64 {
	for i := live; ; i++ {
		if need -= m.units[i]; need <= 0 {
			return m.times[i]
		}
	}
}

func (m *naive) charge(live int, at, cost int64) {
	m.times, m.units = m.times[live:], m.units[live:]
	if n := len(m.times); n > 0 && m.times[n-1] == at {
		m.units[n-1] += cost
		return
	}
	m.times, m.units = append(m.times, at), append(m.units, cost)
}

func (m *naive) refund(at, cost, now, span int64) {
	i := slices.Index(m.times, at)
	if i < 0 || now-at >= span {
		return
	}
	m.units[i] -= min(cost, m.units[i])
	if m.units[i] == 0 {
		m.times, m.units = slices.Delete(m.times, i, i+1), slices.Delete(m.units, i, i+1)
	}
}

// isOfUnits tells whether each unit of a log stands for itself: in a packed word, or in a few.
func (st *state) isOfUnits() bool {
	return st.word&(spilled|packedBit) == packedBit || st.word&(spilled|fewBit) == spilled|fewBit
}

// TestLogIsItsEntries runs random charges, reads and refunds on a log and on plain slices.
func TestLogIsItsEntries(t *testing.T) {
	for _, c := range []struct {
		name string
		l    slidegate.Limit
		from int64 // the clock's first reading
		jump int64 // the most it moves
	}{
		{"packed", slidegate.Per(time.Second, 8), 1_757_750_400_000, 280},
		{"packed, and large gaps", slidegate.Per(20*24*time.Hour, 5), -5_000, 1 << 29},
		{"packed, and of one time", slidegate.Per(time.Second, 8), 1_757_750_400_000, 9},
		{"few", slidegate.Per(time.Second, 12), 1_757_750_400_000, 80},
		{"few, where the low bits wrap", slidegate.Per(20*24*time.Hour, 12), 1<<40 - 1<<31, 1 << 28},
		{"few, and a ring at times", slidegate.Per(time.Second, 18), -5_000, 300},
		{"few, with silences", slidegate.Per(time.Second, 12), 1_757_750_400_000, 3_000},
		{"few, a ring, and silences", slidegate.Per(time.Second, 60), 1_757_750_400_000, 1_300},
		{"narrow", slidegate.Per(time.Second, 40), 1_757_750_400_000, 80},
		{"narrow, where the low bits wrap", slidegate.Per(20*24*time.Hour, 1000), 1<<40 - 1<<31, 1 << 28},
		{"narrow, before the epoch", slidegate.Per(time.Second, 40), -5_000, 80},
		{"wide by quota", slidegate.Per(time.Second, 1e12), 1_757_750_400_000, 80},
		{"wide by window", slidegate.Per(365*24*time.Hour, 40), 1_757_750_400_000, 1 << 31},
		{"coarse", slidegate.Per(time.Minute, 40).WithResolution(time.Second), 1_757_750_400_000, 4_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			l := newLimit(c.l, 0)
			sh, model, now := &shard{}, &naive{}, c.from
			st := new(newState(now, 1))
			model.charge(0, now, 1)
			newest := now
			for step := range 20_000 {
				now += rng.Int64N(c.jump) - c.jump/8
				cost := 1 + rng.Int64N(max(1, l.quota/8))
				if st.word == 0 { // emptied by a refund
					*st, newest = newState(now, 1), now
					model.charge(len(model.times), now, 1)
				}
				r, live := sh.readLog(st, &l, now, cost)
				gone := model.live(now, l.span)
				if model.sum(gone) != r.Units {
					t.Fatalf("step %d: %d units count, want %d", step, r.Units, model.sum(gone))
				}
				if st.isOfUnits() {
					if want := model.sum(0) - model.sum(gone); live != int(want) {
						t.Fatalf("step %d: %d units have left, want %d", step, live, want)
					}
				} else if live != gone {
					t.Fatalf("step %d: %d entries have left, want %d", step, live, gone)
				}
				smaller := l
				smaller.quota = r.Units - 1 // nothing has to leave for a cost of nothing, though it is exceeded
				if look, _ := sh.readLog(st, &smaller, now, 0); look.Back != 0 || look.Units != r.Units {
					t.Fatalf("step %d: a look finds %+v, want %d units", step, look, r.Units)
				}
				need := r.Units + cost - l.quota
				if need > 0 {
					if want := model.leaver(gone, need); r.Back != want {
						t.Fatalf("step %d: unit %d leaves as of %d, want %d", step, need, r.Back, want)
					}
				} else {
					if r.Back != 0 {
						t.Fatalf("step %d: there is room, and a unit of %d has to leave", step, r.Back)
					}
					at := max(newest, (now+l.resolution-1)/l.resolution*l.resolution)
					if l.resolution == 1 {
						at = max(newest, now)
					}
					sh.chargeLog(st, &l, now, cost, live)
					model.charge(model.live(now, l.span), at, cost)
					newest = at
					if st.at() != at {
						t.Fatalf("step %d: recorded at %d, want %d", step, st.at(), at)
					}
				}
				if rng.IntN(4) == 0 {
					i := rng.IntN(len(model.times))
					at, units := model.times[i], 1+rng.Int64N(model.units[i]+1)
					model.refund(at, units, now, l.span)
					if left := sh.refundLog(st, &l, now, at, units); left != (len(model.times) > 0) {
						t.Fatalf("step %d: left is %v with %d entries", step, left, len(model.times))
					}
					if n := len(model.times); n > 0 {
						newest = model.times[n-1]
					} else {
						if st.at() != newest {
							t.Fatalf("step %d: what was emptied is of %d, want %d still", step, st.at(), newest)
						}
						sh.release(st, false)
						st.word = 0
					}
				}
			}
		})
	}
}

// TestRingFollowsWhatIsHeld: memory is for the entries there are, at most for what a window can hold.
func TestRingFollowsWhatIsHeld(t *testing.T) {
	l := newLimit(slidegate.Per(time.Second, 1000), 0)
	sh, st := &shard{}, new(newState(0, 1))
	charge := func(now int64) {
		_, live := sh.readLog(st, &l, now, 1)
		sh.chargeLog(st, &l, now, 1, live)
		if st.word&(spilled|fewBit) == spilled && sh.rings.at(st.word).shift != 0 {
			t.Fatalf("at %d a narrow log has a wide ring", now)
		}
	}
	for now := int64(1); now < 1000; now++ {
		charge(now)
	}
	if st.word&fewBit != 0 {
		t.Fatal("a thousand units are a few")
	}
	log := sh.rings.at(st.word)
	if log.n != 1000 || log.cap() != 1000 {
		t.Fatalf("a full log of 1000 has %d entries in a ring of %d", log.n, log.cap())
	}
	for now := int64(5000); now < 60_000; now += 2000 {
		charge(now)
	}
	if log := sh.rings.at(st.word); log.cap() > 2*smallRing {
		t.Errorf("a log of %d entries keeps a ring of %d", log.n, log.cap())
	}
}

// TestNarrowRingWidens: a limiter with a larger quota goes on with the same log.
func TestNarrowRingWidens(t *testing.T) {
	small, large := newLimit(slidegate.Per(time.Second, 10), 0), newLimit(slidegate.Per(time.Second, 1e12), 0)
	sh, st := &shard{}, new(newState(0, 1))
	for now, l := range []*limit{&small, &small, &large, &large, &small} {
		r, live := sh.readLog(st, l, int64(now), 1)
		if r.Units+1 > l.quota {
			break
		}
		cost := int64(1)
		if l == &large {
			cost = 1 << 33
		}
		sh.chargeLog(st, l, int64(now), cost, live)
	}
	if r, _ := sh.readLog(st, &large, 5, 1); r.Units != 3+2*(1<<33) {
		t.Fatalf("%d units count, want %d", r.Units, 3+2*(1<<33))
	}
}

// TestManyUnitsWidenARingAtOnce: a limiter with a larger quota over the same state adds to the newest entry more than a
// narrow ring can hold, by each way to ask.
func TestManyUnitsWidenARingAtOnce(t *testing.T) {
	const many = 5_000_000_000
	for _, ask := range []string{"Allow", "Take"} {
		clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
		store := New(WithClock(clock.Now))
		narrow := slidegate.MustNew(store, slidegate.PerSecond(50).Named("x"))
		limit := slidegate.PerSecond(1e12).Named("x")
		wide := slidegate.MustNew(store, limit)
		plan, err := store.Bind([]slidegate.Limit{limit})
		if err != nil {
			t.Fatal(err)
		}
		narrow.TakeN(t.Context(), "k", 20)
		clock.Advance(time.Millisecond)
		narrow.TakeN(t.Context(), "k", 21)
		if ask == "Allow" {
			plan.(slidegate.QuickPlan).Allow(t.Context(), "k", many)
		} else {
			wide.TakeN(t.Context(), "k", many)
		}
		clock.Advance(999 * time.Millisecond)
		if d, err := wide.Peek(t.Context(), "k"); err != nil || limit.Quota-d.Remaining() != 21+many {
			t.Errorf("%s: %d units count, want %d", ask, limit.Quota-d.Remaining(), 21+many)
		}
	}
}

// TestFewUnitsNeedOneLine: a log is in its slot up to packedUnits, a block of 64 bytes up to fewUnits, a ring beyond, and
// nothing outside of its slot again once all but the newest charge have left.
func TestFewUnitsNeedOneLine(t *testing.T) {
	l := newLimit(slidegate.Per(time.Second, 1000), 0)
	sh, st := &shard{}, new(newState(0, 1))
	for i := int64(1); i <= fewUnits; i++ {
		if i > 1 {
			_, live := sh.readLog(st, &l, i, 1)
			sh.chargeLog(st, &l, i, 1, live)
		}
		few := st.word&(spilled|fewBit) == spilled|fewBit
		if few != (i > packedUnits) || len(sh.rings.values) > 0 || len(sh.fews.values) > 0 != few {
			t.Fatalf("with %d units: a few is %v, %d rings, %d blocks", i, few, len(sh.rings.values), len(sh.fews.values))
		}
	}
	full := *st
	_, live := sh.readLog(st, &l, 5000, 1)
	if sh.chargeLog(st, &l, 5000, 1, live); st.word != 1 || len(sh.fews.free) != 1 {
		t.Errorf("after a silence: word %x, %d blocks given back; want one unit in place and the block", st.word, len(sh.fews.free))
	}
	*st = full
	sh.fews.free = nil
	copy(sh.fews.at(st.word)[:], []uint32{fewUnits, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	if _, live = sh.readLog(st, &l, 16, 1); live != 0 {
		t.Fatalf("%d units of %d have left", live, fewUnits)
	}
	if sh.chargeLog(st, &l, 16, 1, live); st.word&fewBit != 0 || sh.rings.at(st.word).n != fewUnits+1 {
		t.Errorf("one unit more than a few is no ring of %d entries", fewUnits+1)
	}
	two := newState(0, 1)
	if sh.chargeLog(&two, &l, 1, fewUnits-1, 0); two.word&fewBit == 0 {
		t.Errorf("%d units of two times are no few", fewUnits)
	}
	two.setAt(2)
	copy(sh.fews.at(two.word)[:], []uint32{fewUnits, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2})
	if sh.chargeLog(&two, &l, 1001, fewUnits-1, fewUnits-1); two.word&fewBit == 0 {
		t.Errorf("%d units are no few once others have left", fewUnits)
	}
}

// TestMoreLimitsThanTags: a store that has bound more limits than a slot can tell apart keeps the states of
// the later ones in nodes, and no answer differs.
func TestMoreLimitsThanTags(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
	store := New(WithClock(clock.Now))
	early := slidegate.MustNew(store, slidegate.PerMinute(2))
	kinds := append(store.kinds(), make([]kind, chained-1)...) // so that late has the first number that is no tag
	store.identities.kinds.Store(&kinds)
	late := slidegate.MustNew(store, slidegate.PerMinute(2).Named("late"))
	both := slidegate.MustNew(store, slidegate.PerMinute(2), slidegate.PerMinute(2).Named("late"), slidegate.PerMinute(3).Named("later"))
	for _, step := range []struct {
		name    string
		limiter *slidegate.Limiter
		want    bool
	}{
		{"early", early, true}, {"both", both, true}, {"early", early, false}, {"late", late, true},
		{"late", late, false}, {"both", both, false},
	} {
		if allowed, err := step.limiter.Allow(t.Context(), "k"); allowed != step.want || err != nil {
			t.Fatalf("%s: %v, %v; want %v", step.name, allowed, err, step.want)
		}
	}
	if err := late.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if allowed, _ := late.Allow(t.Context(), "k"); !allowed {
		t.Error("refused after a reset")
	}
	if allowed, _ := early.Allow(t.Context(), "k"); allowed {
		t.Error("a reset of one limit gave units of another back")
	}
	later := slidegate.MustNew(store, slidegate.PerMinute(3).Named("later"), slidegate.PerMinute(2).Named("late"))
	for i := range 20 { // of keys that have no tag at all
		for n, want := range []bool{true, true, false} {
			for _, limiter := range []*slidegate.Limiter{late, later} {
				key := fmt.Sprint(limiter == late, i)
				if allowed, err := limiter.Allow(t.Context(), key); allowed != want || err != nil {
					t.Fatalf("request %d of a key of late limits alone: %v, %v", n, allowed, err)
				}
			}
		}
	}
	clock.Advance(time.Minute)
	if n := store.Sweep(); n != 41 || store.Len() != 0 {
		t.Errorf("swept %d keys, %d are left", n, store.Len())
	}
	for i := range store.shards {
		if sh := &store.shards[i]; len(sh.nodes.values) != len(sh.nodes.free) {
			t.Errorf("%d nodes are left", len(sh.nodes.values)-len(sh.nodes.free))
		}
	}
}

// TestClockFarAway: a clock beyond what a state can hold is taken for the farthest that it can, and a
// decision is still a decision.
func TestClockFarAway(t *testing.T) {
	for _, c := range []struct {
		clock time.Time
		at    int64
	}{
		{time.Time{}, time.Time{}.UnixMilli()},
		{time.UnixMilli(math.MaxInt64 / 2), maxTime},
		{time.UnixMilli(math.MinInt64 / 2), -maxTime},
	} {
		for _, l := range []slidegate.Limit{slidegate.Per(3650*24*time.Hour, 2), slidegate.Per(3650*24*time.Hour, 2).Counter()} {
			limiter := slidegate.MustNew(New(WithClock(func() time.Time { return c.clock })), l)
			for i, want := range []bool{true, true, false} {
				d, err := limiter.Take(t.Context(), "k")
				if d.Allowed != want || err != nil || d.At().UnixMilli() != c.at {
					t.Errorf("%s at %d: request %d is %v at %d, %v; want %v at %d", l, c.clock.UnixMilli(), i, d.Allowed, d.At().UnixMilli(), err, want, c.at)
				}
			}
		}
	}
}

// TestAllowIsTake: the verdict alone is that of Take, and leaves the store as Take does.
func TestAllowIsTake(t *testing.T) {
	for _, l := range []slidegate.Limit{
		slidegate.Per(time.Second, 7), slidegate.Per(time.Second, 60), slidegate.Per(time.Second, 40).WithResolution(100 * time.Millisecond),
		slidegate.Per(time.Second, 1e12), slidegate.Per(time.Second, 60).Counter(), slidegate.Per(time.Second, 1e12).Counter(),
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		clock := gatetest.NewClock(time.UnixMilli(1_757_750_400_000))
		l = l.Named("x")
		store := New(WithClock(clock.Now))
		plan, err := store.Bind([]slidegate.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		quick, allows, takes := plan.(slidegate.QuickPlan), slidegate.MustNew(store, l), slidegate.MustNew(New(WithClock(clock.Now)), l)
		for step := range 5000 {
			clock.Advance(time.Duration(rng.Int64N(40)-6) * time.Millisecond)
			cost := int64(1)
			if step%5 == 0 {
				cost = rng.Int64N(l.Quota/3 + 2)
			}
			want, err := takes.TakeN(t.Context(), "k", cost)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := quick.Allow(t.Context(), "k", cost); got != want.Allowed || err != nil {
				t.Fatalf("%s, step %d: Allow of %d is %v, %v; Take %v", l, step, cost, got, err, want)
			}
			a, _ := allows.Peek(t.Context(), "k")
			b, _ := takes.Peek(t.Context(), "k")
			if a.String() != b.String() {
				t.Fatalf("%s, step %d: %s after Allow, %s after Take", l, step, a, b)
			}
		}
	}
}
