package window

import (
	"math/rand/v2"
	"testing"
)

// TestAChargeIsGoneExactlyAfterItsWindow, and not a millisecond before.
func TestAChargeIsGoneExactlyAfterItsWindow(t *testing.T) {
	for _, span := range []int64{1, 2, 1000, maxSpan} {
		for _, e := range []int64{-1 << 50, -span, -1, 0, 1, 1_757_750_400_000, 1 << 50} {
			for _, c := range []struct {
				now  int64
				want bool
			}{{e, true}, {e + span - 1, true}, {e + span, false}, {e + span + 1, false}, {e - 1, true}, {e - 5*span, true}} {
				if got := Counts(e, c.now, span); got != c.want {
					t.Errorf("a charge of %d with a span of %d counts at %d: %v, want %v", e, span, c.now, got, c.want)
				}
			}
		}
	}
}

// TestRecordedTimeNeverRunsBack, is never before the clock, and is held back by less than one
// resolution unless the clock stepped back.
func TestRecordedTimeNeverRunsBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 100_000 {
		now, newest, resolution := rng.Int64N(400)-200, rng.Int64N(400)-200, 1+rng.Int64N(30)
		alone := Record(now, resolution, newest, false)
		if alone < now || alone-now >= resolution || floor(alone, resolution) != alone {
			t.Fatalf("at %d with a resolution of %d: recorded at %d", now, resolution, alone)
		}
		if got, want := Record(now, resolution, newest, true), max(alone, newest); got != want {
			t.Fatalf("at %d with a resolution of %d after %d: recorded at %d, want %d", now, resolution, newest, got, want)
		}
	}
}
