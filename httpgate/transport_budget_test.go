package httpgate

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBudgetPromisesNoMore: what a budget remembers of many words, in any order, is never more than the
// words promise together, stays in order, and takes bounded memory.
func TestBudgetPromisesNoMore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := budget{span: time.Duration(1 + random.Int64N(int64(time.Minute)))}
		var all []word
		now, charged := time.Duration(0), int64(0)
		for range 1000 {
			now += time.Duration(random.Int64N(int64(time.Second) / 10))
			charged += random.Int64N(3)
			w := word{at: now + b.span + time.Duration(random.Int64N(3e9)-1e9), free: 1 + random.Int64N(5), seen: charged - random.Int64N(3)}
			all = append(all, w)
			b.later(w)
			b.ripen(now, now, charged)
			if len(b.words) > 4*cuts {
				t.Fatalf("%d words are kept", len(b.words))
			}
			most := int64(0)
			for _, w := range all {
				if w.at <= now {
					most = max(most, w.left(charged))
				}
			}
			if got := b.full.left(charged); got > most {
				t.Fatalf("promises %d, there are %d", got, most)
			}
			for i := 1; i < len(b.words); i++ {
				if b.words[i].at <= b.words[i-1].at || b.words[i].seen < b.words[i-1].seen {
					t.Fatalf("out of order: %v", b.words[i-1:i+1])
				}
			}
		}
	}
}

// TestBudgetForgetsLittle: of words that come regularly none is heard of later than by a small part of
// the span.
func TestBudgetForgetsLittle(t *testing.T) {
	b := budget{quota: 1_000_000, complete: true, span: time.Minute}
	for i := range time.Duration(60_000) {
		now := i * time.Millisecond
		b.later(word{at: now + b.span, free: b.quota, seen: int64(i)})
	}
	if len(b.words) > 2*cuts+2 {
		t.Errorf("%d words are kept", len(b.words))
	}
	for now := b.span; now < 2*b.span; now += time.Second {
		b.ripen(now, 2*b.span, 1_000_000)
		if late := (now - b.span).Milliseconds() - b.full.seen; late < 0 || late > (2*b.span/cuts).Milliseconds() {
			t.Fatalf("at %s it has heard of %d, %d late", now, b.full.seen, late)
		}
	}
}
