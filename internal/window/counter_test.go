package window

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const (
	maxUnits = 1_000_000_000_000
	maxSpan  = 3650 * 24 * 3600 * 1000
)

// floor is the definition: the multiple of span at or before now, counted in exact integers.
func floor(now, span int64) int64 {
	q, m := new(big.Int).DivMod(big.NewInt(now), big.NewInt(span), new(big.Int))
	if m.Sign() < 0 {
		panic("DivMod is Euclidean")
	}
	return q.Int64() * span
}

// used is the definition of a counter's use at t, from what was stored: the window that t is in
// decides which count is whole, which is weighed and which is out of sight.
func used(c Counter, t, span int64) int64 {
	prev, cur, elapsed := c.Prev, c.Cur, t-c.Start
	if elapsed < 0 {
		elapsed = 0
	}
	for elapsed >= span && (prev != 0 || cur != 0) {
		prev, cur, elapsed = cur, 0, elapsed-span
	}
	if prev == 0 {
		return cur
	}
	return int64(math.Floor(float64(prev)*float64(span-elapsed)/float64(span))) + cur
}

// wait is the definition of a wait: try every millisecond.
func wait(c Counter, now, span, target int64) int64 {
	for w := int64(0); ; w++ {
		if used(c, now+w, span) <= target {
			return w
		}
	}
}

// TestFloorAndCeilAreMultiples on both sides of the epoch.
func TestFloorAndCeilAreMultiples(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		span, now := 1+rng.Int64N(50), rng.Int64N(400)-200
		if i%2 == 0 {
			span, now = 1+rng.Int64N(maxSpan), rng.Int64N(1<<51)-1<<50
		}
		f, c := Floor(now, span), Ceil(now, span)
		if f != floor(now, span) {
			t.Fatalf("Floor(%d, %d) is %d, want %d", now, span, f, floor(now, span))
		}
		if c < now || c-now >= span || floor(c, span) != c {
			t.Fatalf("Ceil(%d, %d) is %d", now, span, c)
		}
	}
}

// TestWaitIsTheFirstMillisecondThatFits, found by trying all, for every small counter.
func TestWaitIsTheFirstMillisecondThatFits(t *testing.T) {
	for _, span := range []int64{1, 2, 3, 7, 10} {
		for _, start := range []int64{0, -3 * span, 5 * span} {
			for prev := range int64(9) {
				for cur := range int64(9) {
					c := Counter{Start: start, Prev: prev, Cur: cur}
					for now := start - 3; now < start+2*span+3; now++ {
						rolled := c.Roll(now, span)
						if got, want := rolled.Used(now, span), used(c, now, span); got != want {
							t.Fatalf("%+v of span %d uses %d at %d, want %d", c, span, got, now, want)
						}
						for target := range int64(9) {
							checkWait(t, c, rolled, now, span, target, wait(c, now, span, target))
						}
					}
				}
			}
		}
	}
}

func checkWait(t *testing.T, c, rolled Counter, now, span, target, want int64) {
	t.Helper()
	got := rolled.WaitUntil(now, span, target)
	if got != want || rolled.Fits(now, span, target) != (want == 0) {
		t.Fatalf("%+v of span %d at %d waits %d for %d units (fits now: %v), want %d", c, span, now, got, target, rolled.Fits(now, span, target), want)
	}
}

// anything returns a number up to most, of every magnitude alike.
func anything(rng *rand.Rand, most int64) int64 {
	switch rng.IntN(12) {
	case 0:
		return most - rng.Int64N(min(most, 3)+1)
	case 1:
		return rng.Int64N(min(most, 3) + 1)
	}
	return min(most, int64(math.Exp(rng.Float64()*math.Log(float64(most)+1))))
}

// TestWaitsAreTightAtAnySize: at the wait the counter fits, a millisecond earlier it does not, by
// the formula itself; counts up to 10^12, windows up to 3650 days, times before the epoch, clocks
// behind the start. Products beyond 2^53 are where a closed form in doubles goes wrong.
func TestWaitsAreTightAtAnySize(t *testing.T) {
	const seed1, seed2, rounds = 3, 4, 300_000
	rng := rand.New(rand.NewPCG(seed1, seed2))
	waited, big := 0, 0
	for range rounds {
		span := 1 + anything(rng, maxSpan-1)
		start := floor(rng.Int64N(1<<44)-1<<43, span)
		c := Counter{Start: start, Prev: anything(rng, maxUnits), Cur: anything(rng, maxUnits)}
		now := start + anything(rng, 2*span+1)
		if rng.IntN(8) == 0 {
			now = start - anything(rng, span)
		}
		rolled := c.Roll(now, span)
		if got, want := rolled.Used(now, span), used(c, now, span); got != want {
			t.Fatalf("%+v of span %d uses %d at %d, want %d", c, span, got, now, want)
		}
		target := anything(rng, maxUnits)
		if rng.IntN(3) == 0 { // just below what is used: the first unit to leave
			target = max(0, used(c, now, span)-1-rng.Int64N(3))
		}
		w := rolled.WaitUntil(now, span, target)
		if at := used(c, now+w, span); at > target {
			t.Fatalf("%+v of span %d at %d: after %d it uses %d, more than %d", c, span, now, w, at, target)
		}
		if w > 0 {
			waited++
			if early := used(c, now+w-1, span); early <= target {
				t.Fatalf("%+v of span %d at %d: %d is too long for %d: a millisecond earlier it uses %d", c, span, now, w, target, early)
			}
		}
		if rolled.Fits(now, span, target) != (w == 0) {
			t.Fatalf("%+v of span %d at %d: fits %d is %v, wait %d", c, span, now, target, rolled.Fits(now, span, target), w)
		}
		if float64(c.Prev)*float64(span) > 1<<53 {
			big++
		}
	}
	if waited < rounds/10 || big < rounds/10 {
		t.Errorf("only %d waits and %d large products in %d rounds: the law shows little", waited, big, rounds)
	}
}

// TestUseNeverGrowsWhileNothingIsCharged, from any millisecond to a later one.
func TestUseNeverGrowsWhileNothingIsCharged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50_000 {
		span := 1 + anything(rng, maxSpan-1)
		c := Counter{Start: floor(rng.Int64N(1<<44), span), Prev: anything(rng, maxUnits), Cur: anything(rng, maxUnits)}
		now := c.Start - 2 + anything(rng, 2*span)
		later := now + anything(rng, span)
		if a, b := c.Roll(now, span).Used(now, span), c.Roll(later, span).Used(later, span); b > a {
			t.Fatalf("%+v of span %d uses %d at %d and %d at %d", c, span, a, now, b, later)
		}
		if a, b := c.Roll(now, span).Used(now, span), c.Roll(now+1, span).Used(now+1, span); b > a {
			t.Fatalf("%+v of span %d uses %d at %d and %d a millisecond later", c, span, a, now, b)
		}
	}
}

// TestTheStartNeverDecreases, and a counter rolled twice is the counter rolled once.
func TestTheStartNeverDecreases(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 50_000 {
		span := 1 + rng.Int64N(100)
		c := Counter{Start: floor(rng.Int64N(2000)-1000, span), Prev: rng.Int64N(9), Cur: rng.Int64N(9)}
		now := rng.Int64N(3000) - 1500
		r := c.Roll(now, span)
		if r.Start < c.Start || now >= c.Start && r.Start != floor(now, span) || floor(r.Start, span) != r.Start {
			t.Fatalf("%+v of span %d rolled to %d is %+v", c, span, now, r)
		}
		if twice := r.Roll(now, span); twice != r {
			t.Fatalf("%+v of span %d rolled to %d again is %+v", r, span, now, twice)
		}
		back := now - rng.Int64N(200)
		if again := r.Roll(back, span); again != r {
			t.Fatalf("%+v of span %d changed to %+v when the clock stepped back to %d", r, span, again, back)
		}
	}
}

// TestKnownCounters: figures that can be checked by hand.
func TestKnownCounters(t *testing.T) {
	for _, c := range []struct {
		counter          Counter
		now, span        int64
		used             int64
		target, untilFit int64
	}{
		{Counter{0, 6, 2}, 30_000, 60_000, 5, 4, 10_001 - 10_000 + 0}, // 6 x half is 3, and 2; a millisecond on, floor makes it 2
		{Counter{0, 10, 0}, 0, 10_000, 10, 9, 1},
		{Counter{0, 10, 0}, 0, 10_000, 10, 0, 9_001},
		{Counter{0, 0, 3}, 9_999, 10_000, 3, 0, 1 + 6_667},
		{Counter{-1000, 0, 1}, -1, 1000, 1, 0, 2},
		{Counter{0, 1 << 39, 0}, 0, 1 << 25, 1 << 39, 1<<39 - 1, 1}, // the product is 2^64, and wraps to 0
		{Counter{0, maxUnits, maxUnits}, maxSpan / 2, maxSpan, 3 * maxUnits / 2, 3*maxUnits/2 - 1, 1},
	} {
		t.Run(fmt.Sprint(c.counter), func(t *testing.T) {
			if got := c.counter.Used(c.now, c.span); got != c.used {
				t.Errorf("uses %d, want %d", got, c.used)
			}
			if got := c.counter.WaitUntil(c.now, c.span, c.target); got != c.untilFit {
				t.Errorf("waits %d for %d, want %d", got, c.target, c.untilFit)
			}
		})
	}
}

func FuzzWaitUntil(f *testing.F) {
	f.Add(int64(0), int64(6), int64(2), int64(30), int64(60), int64(4))
	f.Add(int64(1), int64(maxUnits), int64(maxUnits), int64(-5), int64(maxSpan), int64(0))
	f.Fuzz(func(t *testing.T, start, prev, cur, ahead, span, target int64) {
		bounded := func(n, most int64) int64 { return int64(uint64(n) % uint64(most+1)) }
		span = 1 + bounded(span, maxSpan-1)
		c := Counter{floor(start%(1<<44), span), bounded(prev, maxUnits), bounded(cur, maxUnits)}
		now, target := c.Start+ahead%(3*span), bounded(target, maxUnits)
		rolled := c.Roll(now, span)
		w := rolled.WaitUntil(now, span, target)
		if used(c, now+w, span) > target || w > 0 && used(c, now+w-1, span) <= target || w < 0 {
			t.Fatalf("%+v of span %d at %d: wait %d for %d", c, span, now, w, target)
		}
	})
}
