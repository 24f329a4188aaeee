package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate"
)

// widest are the largest gaps that words of two units, of three and so on hold.
var widest = []int64{1<<59 - 1, 1<<29 - 1, 1<<19 - 1, 1<<14 - 1, 1<<11 - 1, 1<<9 - 1, 1<<8 - 1}

// packedOf returns the word of units with such gaps, and whether it holds them.
func packedOf(gaps ...int64) (word uint64, fits bool) {
	word, fits = 1, true
	for _, gap := range gaps {
		if word, fits = packMore(word, gap); !fits {
			return 0, false
		}
	}
	return word, true
}

// TestAPackedWordHoldsWhatItsBitsAllow: of each number of units, the widest gaps and none wider, wherever those are.
func TestAPackedWordHoldsWhatItsBitsAllow(t *testing.T) {
	for i, most := range widest {
		n := i + 1
		for at := range n {
			gaps := make([]int64, n)
			gaps[at] = most
			word, fits := packedOf(gaps...)
			if units, span := packedSpan(word); !fits || units != int64(n+1) || span != most || word&(spilled|packedBit) != packedBit {
				t.Errorf("%d units, gap %d of %d: %v, %d units over %d ms in %x", n+1, at, most, fits, units, span, word)
			}
			gaps[at]++
			if _, fits := packedOf(gaps...); fits && n > 1 {
				t.Errorf("%d units, gap %d of %d: it fits", n+1, at, gaps[at])
			}
		}
		all := make([]int64, n)
		for i := range all {
			all[i] = most
		}
		word, fits := packedOf(all...)
		if units, span := packedSpan(word); !fits || units != int64(n+1) || span != int64(n)*most {
			t.Errorf("%d units, all gaps %d: %v, %d units over %d ms", n+1, most, fits, units, span)
		}
	}
	if _, fits := packedOf(make([]int64, packedUnits)...); fits {
		t.Errorf("%d units fit", packedUnits+1)
	}
}

// TestAFewIsKeptAsItIs, in a packed word or in a block: its units are found again, at their times.
func TestAFewIsKeptAsItIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var packed, blocks int
	for range 50_000 {
		var (
			sh   shard
			f    few
			at   = rng.Int64N(1<<41) - 1<<40
			n    = rng.IntN(fewUnits + 1)
			most = append([]int64{0, 1, 1 << 27}, widest[1:]...)[rng.IntN(9)] // of a gap, but for one more
			fits = n <= packedUnits
		)
		for i := range n {
			if i > 0 {
				gap := rng.Int64N(most + 2)
				at, fits = at+gap, fits && gap <= widest[n-2]
			}
			f.push(at, 1)
		}
		word := sh.pack(&f, at)
		switch {
		case n < 2:
			if word != uint64(n) {
				t.Fatalf("%d units are %x", n, word)
			}
		case (word&(spilled|packedBit) == packedBit) != fits:
			t.Fatalf("%v is packed: %v, want %v", f[:n+1], !fits, fits)
		case fits:
			packed++
			st := newState(at, word)
			got := st.few()
			if units, span := packedSpan(word); got != f || units != int64(n) || span != at-f.time(0, at) || st.held() != n {
				t.Fatalf("%v came back as %v, of %d units over %d ms", f[:n+1], got[:n+1], units, span)
			}
		default:
			if blocks++; *sh.fews.at(word) != f {
				t.Fatalf("%v is kept as %v", f[:n+1], sh.fews.at(word))
			}
		}
	}
	if packed < 5000 || blocks < 5000 {
		t.Errorf("%d were packed, %d were not", packed, blocks)
	}
}

// TestEveryFormSaysHowMuchIsUsed: of a log of any length, in any form.
func TestEveryFormSaysHowMuchIsUsed(t *testing.T) {
	l := newLimit(slidegate.PerMinute(100), 0)
	sh, st := &shard{}, newState(0, 1)
	forms := map[bool]int{}
	for n := int64(2); n <= 40; n++ {
		_, live := sh.readLog(&st, &l, n, 1)
		sh.chargeLog(&st, &l, n, 1, live)
		forms[st.word&(spilled|fewBit) == spilled|fewBit]++
		if got := sh.used(&st, n, l.span, false); got != n {
			t.Errorf("%d of %d units are used", got, n)
		}
	}
	if forms[true] != fewUnits-packedUnits {
		t.Errorf("%d lengths were a few", forms[true])
	}
}
