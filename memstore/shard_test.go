package memstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// seconds are the kinds of a shard whose one limit is a log of a second.
var seconds = []kind{{span: 1000}}

// filled returns a shard with keys of one unit each, newest first, which are idle at 1000 and later.
func filled(keys int) (*shard, []print) {
	sh, prints := &shard{}, make([]print, keys)
	for i := range prints {
		prints[i] = print{uint64(i), uint64(i)*0x9e3779b97f4a7c15 | 1}
		sh.insert(prints[i], newState(int64(keys-i), 1))
	}
	return sh, prints
}

// TestATableGrowsByHalf when another key would take more than four fifths of it.
func TestATableGrowsByHalf(t *testing.T) {
	sizes := map[int]int{1: 8, 6: 8, 7: 12, 9: 12, 10: 18, 14: 18, 15: 27, 21: 27, 22: 40, 32: 40, 33: 60, 48: 60, 49: 90}
	for keys, slots := range sizes {
		if sh, _ := filled(keys); len(sh.slots) != slots {
			t.Errorf("%d keys are in a table of %d, want %d", keys, len(sh.slots), slots)
		}
	}
}

// TestAnEmptierTableShrinks to what its keys need and half as much, where less than a fifth of it is taken.
func TestAnEmptierTableShrinks(t *testing.T) {
	for _, c := range []struct{ most, keys, before, after int }{
		{6, 6, 8, 8}, {6, 1, 8, 8}, {7, 3, 12, 12}, {7, 2, 12, 8}, {32, 8, 40, 40}, {32, 7, 40, 10}, {100, 27, 135, 135}, {100, 26, 135, 39},
	} {
		sh, prints := filled(c.most)
		for _, p := range prints[c.keys:] {
			sh.remove(sh.find(p))
		}
		if len(sh.slots) != c.before {
			t.Fatalf("%d keys are in a table of %d, want %d", c.most, len(sh.slots), c.before)
		}
		first := &sh.slots[0]
		sh.shrink(seconds)
		if moved := first != &sh.slots[0]; len(sh.slots) != c.after || moved != (c.after < c.before) {
			t.Errorf("%d keys in a table of %d: it is %d long then, and moved: %v; want %d", c.keys, c.before, len(sh.slots), moved, c.after)
		}
		for _, p := range prints[:c.keys] {
			if sh.find(p) < 0 {
				t.Fatalf("a key of %d is lost", c.keys)
			}
		}
	}
	sh, prints := filled(1)
	sh.remove(sh.find(prints[0]))
	if sh.shrink(seconds); sh.slots != nil {
		t.Error("a shard without keys keeps a table")
	}
}

// TestASlabUsesWhatIsFree before it grows, down to the last, and forgets what was there.
func TestASlabUsesWhatIsFree(t *testing.T) {
	var s slab[pair]
	words := map[uint64]bool{}
	for i := range int64(3) {
		words[s.add(pair{i, i})] = true
	}
	for range 2 {
		for word := range words {
			if s.remove(word); *s.at(word) != (pair{}) {
				t.Error("what was removed is there still")
			}
		}
		for i := range int64(3) {
			if word := s.add(pair{i, 7}); !words[word] || *s.at(word) != (pair{i, 7}) {
				t.Errorf("%x is %v", word, *s.at(word))
			}
		}
		if len(s.values) != 3 || len(s.free) != 0 || len(words) != 3 {
			t.Errorf("three values of %d words take %d places, and %d are free", len(words), len(s.values), len(s.free))
		}
	}
}

// TestASlabIsSparse where it has more than 64 values, and uses less than a quarter of them.
func TestASlabIsSparse(t *testing.T) {
	for _, c := range []struct {
		values, free int
		want         bool
	}{
		{0, 0, false}, {64, 64, false}, {65, 48, false}, {65, 49, true}, {66, 49, false}, {66, 50, true},
		{68, 51, false}, {68, 52, true}, {1000, 750, false}, {1000, 751, true},
	} {
		s := slab[pair]{make([]pair, c.values), make([]uint32, c.free)}
		if got := s.sparse(); got != c.want {
			t.Errorf("%d of %d are free: %v, want %v", c.free, c.values, got, c.want)
		}
	}
}

// TestASparseSlabShrinks: when most of the keys go whose states have something outside of them, in any form, so does that, though the
// table has keys enough.
func TestASparseSlabShrinks(t *testing.T) {
	for _, c := range []struct {
		form   string
		limits []slidegate.Limit
		cost   int64
		times  int64
		used   func(sh *shard) (values, free int)
	}{
		{"nodes", []slidegate.Limit{slidegate.PerSecond(9), slidegate.PerSecond(9).Named("x")}, 1, 1,
			func(sh *shard) (int, int) { return len(sh.nodes.values), len(sh.nodes.free) }},
		{"fews", []slidegate.Limit{slidegate.PerSecond(90)}, 1, packedUnits + 1,
			func(sh *shard) (int, int) { return len(sh.fews.values), len(sh.fews.free) }},
		{"rings", []slidegate.Limit{slidegate.PerSecond(90)}, 20, 2,
			func(sh *shard) (int, int) { return len(sh.rings.values), len(sh.rings.free) }},
		{"pairs", []slidegate.Limit{slidegate.PerSecond(1e12).Counter()}, 1e10, 1,
			func(sh *shard) (int, int) { return len(sh.pairs.values), len(sh.pairs.free) }},
	} {
		const stay, all, others = 20, 100, 30
		now := int64(0)
		s := New(at(&now), WithMaxKeys(keysPerShard))
		lim, other, sh := slidegate.MustNew(s, c.limits...), slidegate.MustNew(s, slidegate.PerHour(1)), &s.shards[0]
		take := func(from, to int) {
			for i := range int64(to-from) * c.times {
				now++
				if d, err := lim.TakeN(ctx, strconv.Itoa(from+int(i/c.times)), c.cost); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
			}
		}
		take(stay, all)
		now += 10_000
		take(0, stay)
		for i := range others {
			other.Allow(ctx, "other"+strconv.Itoa(i))
		}
		before, _ := c.used(sh)
		s.Sweep()
		after, free := c.used(sh)
		if per := len(c.limits); before != all*per || after != stay*per || free != 0 || len(sh.slots) != (stay+others)*3/2 {
			t.Errorf("%s of %d keys, then of %d: %d became %d, of which %d are free, in a table of %d", c.form, all, stay, before, after, free, len(sh.slots))
		}
		for i := range stay {
			if d, _ := lim.Peek(ctx, strconv.Itoa(i)); d.Remaining() != c.limits[0].Quota-c.times*c.cost {
				t.Errorf("%s: a key that stays has %d units, want %d", c.form, c.limits[0].Quota-d.Remaining(), c.times*c.cost)
			}
		}
	}
}

// soonestOf returns what each key of a shard would be ranked by, the latest first.
func soonestOf(sh *shard, now int64, kinds []kind) (all []candidate) {
	for i := range sh.slots {
		if s := &sh.slots[i]; s.low != 0 {
			at, units := sh.idleAt(i, now, kinds)
			all = append(all, candidate{s.print, at, units})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.units, a.units))
	})
	return all
}

// TestRankingFindsTheSoonest, one for every 32 keys and one at least, the soonest of them last.
func TestRankingFindsTheSoonest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for keys, most := range map[int]int{0: 0, 1: 1, 31: 1, 63: 1, 64: 2, 95: 2, 96: 3, 200: 6, 640: 20, 3000: 93} {
		for range 20 {
			sh := &shard{}
			for range keys {
				sh.insert(print{rng.Uint64(), rng.Uint64() | 1}, newState(rng.Int64N(int64(keys))-10, 1+rng.Uint64N(5)))
			}
			all := soonestOf(sh, 0, seconds)
			sh.rank(0, seconds)
			if len(sh.soonest) != most {
				t.Fatalf("%d of %d keys are candidates, want %d", len(sh.soonest), keys, most)
			}
			for i, want := range all[keys-most:] {
				if got := sh.soonest[i]; got.at != want.at || got.units != want.units {
					t.Fatalf("%d keys: candidate %d is idle at %d with %d units, want %d and %d", keys, i, got.at, got.units, want.at, want.units)
				}
			}
		}
	}
}

// TestWhoGoesIsTheSoonest of all keys, and has the fewest units of those that are as soon, whatever has been charged, given back
// and reset since they were ranked.
func TestWhoGoesIsTheSoonest(t *testing.T) {
	for _, keys := range []int{1, 2, 40, 200} {
		rng := rand.New(rand.NewPCG(9, uint64(keys)))
		now := int64(-30_000) // before the epoch at first
		s := New(at(&now), WithMaxKeys(keysPerShard))
		sh := &s.shards[0]
		lims := []*slidegate.Limiter{
			slidegate.MustNew(s, slidegate.PerMinute(40)), slidegate.MustNew(s, slidegate.Per(time.Second, 5)),
			slidegate.MustNew(s, slidegate.PerMinute(90).Named("x"), slidegate.PerHour(9).Named("y")),
		}
		var taken []slidegate.Decision
		for step := range 4000 {
			lim, key := lims[rng.IntN(len(lims))], strconv.Itoa(rng.IntN(3*keys))
			switch n := rng.IntN(10); {
			case n < 7 && (sh.keys < keys || n < 2):
				if d, _ := lim.TakeN(ctx, key, 1+rng.Int64N(4)); d.Allowed {
					taken = append(taken, d)
				}
			case n == 7 && len(taken) > 0:
				i := max(0, len(taken)-1-rng.IntN(5))
				lims[0].Refund(ctx, &taken[i])
				taken = slices.Delete(taken, i, i+1)
			case n == 8 && rng.IntN(4) == 0:
				lim.Reset(ctx, key)
			default:
				now += rng.Int64N(20)
			}
			if sh.keys < keys {
				continue
			}
			all := soonestOf(sh, now, s.kinds())
			want := all[len(all)-1]
			gone, counted := sh.evict(now, s.kinds())
			s.keys.Add(-1)
			left := soonestOf(sh, now, s.kinds())
			i := slices.IndexFunc(all, func(c candidate) bool { return sh.find(c.print) < 0 })
			if !gone || len(left) != len(all)-1 || all[i].at != want.at || all[i].units != want.units || counted != (want.at > now) {
				t.Fatalf("step %d: %d of %d keys are left; who went was idle at %d with %d units, want %d and %d; counted is %v at %d",
					step, len(left), len(all), all[i].at, all[i].units, want.at, want.units, counted, now)
			}
		}
		for i := sh.keys; i > 0; i-- {
			if gone, _ := sh.evict(now, s.kinds()); !gone || sh.keys != i-1 {
				t.Fatalf("of %d keys none can go", i)
			}
		}
		if gone, counted := sh.evict(now, s.kinds()); gone || counted {
			t.Error("a key went of a shard without one")
		}
	}
}

// TestCandidatesAreFew: those that are noted as sooner than the ones that were ranked push out the latest, from twice as many on.
func TestCandidatesAreFew(t *testing.T) {
	sh, prints := filled(64)
	sh.rank(0, seconds)
	for i, want := range []int{3, 4, 3, 4, 3} {
		sooner := candidate{prints[0], int64(900 - i), 1}
		sh.note(sooner)
		if n := len(sh.soonest); n != want || sh.soonest[n-1] != sooner || !slices.IsSortedFunc(sh.soonest, latestFirst) {
			t.Fatalf("note %d: the candidates are %v, want %d", i, sh.soonest, want)
		}
	}
	before := slices.Clone(sh.soonest)
	if sh.note(candidate{prints[0], before[0].at, before[0].units}); !slices.Equal(sh.soonest, before) {
		t.Errorf("who is no sooner than the latest is noted: %v", sh.soonest)
	}
}
