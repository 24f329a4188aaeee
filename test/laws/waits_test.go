package laws

import (
	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// RetryIsTight: a request that is refused is refused a millisecond before its retry, and admitted at it, if nothing else
// is charged. What an admitted one waits is nothing. The retry of each limit by itself is as tight.
//
// It is promised in docs/algorithms.md, What counts. Of a counter a backup may tell it earlier than it is, never later: where
// more than a unit is asked for, or more is used than the share, since that was larger.
func RetryIsTight(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	if rapid.IntRange(0, 3).Draw(t, "full") > 0 {
		w.fill(process, version, "k")
	}
	limiter, cost, now := w.limiters[process][version], w.cost(w.versions[version]), w.now()
	d, used, tight := w.peek(limiter, "k", cost), w.used(process, "k"), true
	if d.Allowed != (d.RetryAfter() == 0) {
		t.Fatalf("allowed %v, and the retry is %s", d.Allowed, d.RetryAfter())
	}
	each, err := limiter.Each()
	w.must(peek, err)
	for i, alone := range each {
		s := d.State(i)
		exact := !w.away() || s.Limit.Algorithm == slidegate.SlidingLog || cost == 1 && used[i] <= w.holds(s.Limit.Quota)
		tight = tight && exact
		retry := s.RetryIn.Milliseconds()
		if w.set(now + retry); exact && !w.peek(alone, "k", cost).Allowed {
			t.Fatalf("%s: %d units are refused at the retry of %dms", s.Limit, cost, retry)
		}
		if w.set(now + retry - 1); retry > 0 && w.peek(alone, "k", cost).Allowed {
			t.Fatalf("%s: %d units are admitted a millisecond before the retry of %dms", s.Limit, cost, retry)
		}
	}
	retry := d.RetryAfter().Milliseconds()
	if w.set(now + retry - 1); retry > 0 && w.take(process, version, "k", cost).Allowed {
		t.Fatalf("%d units are admitted a millisecond before the retry of %dms", cost, retry)
	}
	if w.set(now + retry); tight && !w.take(process, version, "k", cost).Allowed {
		t.Fatalf("%d units are refused at the retry of %dms", cost, retry)
	}
}

// ResetIsTight: at its reset a limit is completely full, and a millisecond before it is not, if nothing else is charged.
//
// It is promised in docs/algorithms.md, What counts. A backup keeps it for logs.
func ResetIsTight(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	limiter, now := w.limiters[process][version], w.now()
	for i, s := range statesOf(w.peek(limiter, "k", 0)) {
		if w.away() && s.Limit.Algorithm == slidegate.SlidingCounter {
			continue
		}
		left := func(ms int64) int64 {
			w.set(now + ms)
			return statesOf(w.peek(limiter, "k", 0))[i].Remaining
		}
		reset, full := s.ResetIn.Milliseconds(), w.holds(s.Limit.Quota)
		if n := left(reset); n != full {
			t.Fatalf("%s: at its reset of %dms %d of %d remain", s.Limit, reset, n, full)
		}
		if reset > 0 && left(reset-1) == full {
			t.Fatalf("%s: a millisecond before its reset of %dms it is full", s.Limit, reset)
		}
	}
}
