package laws

import (
	"time"

	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// TimeRunningBackFreesNothing: when the clock is set back, no limit has more room than before, what was refused stays refused
// until the moment that was told, and when the clock is where it was again there is no more room than there was.
//
// It is promised in docs/algorithms.md, The clock.
func TimeRunningBackFreesNothing(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	if rapid.Bool().Draw(t, "full") {
		w.fill(process, version, "k")
	}
	limiter, cost, now := w.limiters[process][version], w.cost(w.versions[version]), w.now()
	first := w.stands(limiter, "k")
	refused := w.peek(limiter, "k", cost)
	// freed compares room with what there was, less what was taken since.
	freed := func(taken int64) {
		for i, s := range w.stands(limiter, "k").states {
			if was := first.states[i].Remaining; s.Remaining > max(0, was-taken) {
				t.Fatalf("%s: when the clock is set from %d to %d %d units remain where %d did, of which %d were taken", s.Limit, now, w.now(), s.Remaining, was, taken)
			}
		}
	}
	taken := int64(0)
	for _, ms := range rapid.SliceOfN(spanOf(w.versions[0]), 1, 4).Draw(t, "back by") {
		w.set(now - ms)
		freed(taken)
		d := w.peek(limiter, "k", cost)
		if was := now + refused.RetryAfter().Milliseconds(); !refused.Allowed && w.now()+d.RetryAfter().Milliseconds() < was {
			t.Fatalf("refused until %d, and when the clock is set back to %d only until %d", was, w.now(), w.now()+d.RetryAfter().Milliseconds())
		}
		// What is taken there counts when the clock is where it was, if no window has passed until then.
		if n := rapid.Int64Range(0, 1).Draw(t, "units"); n > 0 && ms < w.shortest() && w.take(process, version, "k", n).Allowed {
			taken += n
		}
	}
	w.set(now)
	freed(taken)
}

// shortest returns the shortest window, in milliseconds, or less: for a counter's units lose weight.
func (w *world) shortest() int64 {
	least := slidegate.MaxWindow
	for _, l := range w.versions[0] {
		if least = min(least, l.Window); l.Algorithm == slidegate.SlidingCounter {
			return 0
		}
	}
	return least.Milliseconds()
}

// IdleForAWindowLeavesNothing: when every limit of a key is full again the key is gone, in memory with the next sweep, in Redis
// by itself; and then it is as one never seen. On Redis it is the server's clock that runs.
//
// It is promised in docs/redis.md, What is stored, and in docs/operations.md, How much it holds.
func IdleForAWindowLeavesNothing(t *rapid.T, open opener) {
	versions := versionsOf(shortWindow).Draw(t, "plans")
	w := newWorld(t, open, versions, "k", "another")
	if _, inMemory := w.inside.(memory); !inMemory {
		w = enter(t, open(t, nil), versions, "k", "another")
	}
	w.live("history", anyWay(t))
	last := int64(0)
	for process := range w.limiters {
		for _, key := range w.keys {
			for _, s := range statesOf(w.peek(w.limiters[process][0], key, 0)) {
				last = max(last, s.ResetIn.Milliseconds())
			}
		}
	}
	if w.clock == nil {
		w.await(last)
	} else if w.move(last); w.left(t) != 0 {
		t.Fatalf("every limit is full after %dms, and %d keys are held", last, w.left(t))
	}
	for i, s := range statesOf(w.peek(w.limiters[0][0], "k", 0)) {
		if s.Remaining != w.holds(versions[0][i].Quota) {
			t.Fatalf("%s: nothing is held, and %d remain", s.Limit, s.Remaining)
		}
	}
}

// await waits until nothing is held on the server's own clock: after so many milliseconds it should be so.
func (w *world) await(ms int64) {
	for deadline := time.Now().Add(ample); w.left(w.t) != 0; {
		if time.Now().After(deadline) {
			w.t.Fatalf("every limit is full after %dms, and after %s %d keys are held", ms, ample, w.left(w.t))
		}
		<-time.After(time.Millisecond)
	}
}
