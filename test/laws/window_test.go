package laws

import (
	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// NoWindowHoldsMoreThanTheQuota: when a sliding log admits, the window of its length that ends there, open at its far end,
// holds no more units than the quota that admitted, counted one by one through all that was admitted. So no
// half-open window does, wherever it lies. It holds in recorded time, also when the clock is set back, and in time as read
// while that runs on. Units that were given back count no more, a reset begins afresh.
//
// With a fallback, the bound is the quota and the shares of all processes, however often Redis goes and comes.
//
// It is the headline of docs/algorithms.md, in What counts; the bound of a fallback is that of docs/wrapping.md.
func NoWindowHoldsMoreThanTheQuota(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	verbs := forward
	if w.outage == nil { // two stores agree on no recorded time
		verbs = anyWay(t)
	}
	w.countWindows()
	w.live("history", verbs)
}

// countWindows counts, whenever something is admitted, what the windows of the logs hold that end there.
func (w *world) countWindows() {
	w.admitted = func(a *admission, b *book) {
		for i, l := range w.versions[a.version] {
			if l.Algorithm != slidegate.SlidingLog {
				continue
			}
			span, bound := l.Window.Milliseconds(), w.bound(l.Quota)
			if w.outage != nil {
				bound = w.bound(w.largest(i)) // what the others admitted by a larger quota they know alone
			}
			if n := b.within(i, a.at, span); n > bound && !w.setBack {
				w.t.Fatalf("%s: the window that ends at %d holds %d units, the bound is %d", l, a.at, n, bound)
			}
			if n := b.recordedWithin(i, a.in[i].recorded, span); n > bound && w.outage == nil {
				w.t.Fatalf("%s: the window that ends at %d as recorded holds %d units, the bound is %d", l, a.in[i].recorded, n, bound)
			}
		}
	}
}

// largest returns the largest quota that a version of the plan gives the i-th limit.
func (w *world) largest(i int) (most int64) {
	for _, p := range w.versions {
		most = max(most, p[i].Quota)
	}
	return most
}

// CounterErrsWithinItsBound: a sliding counter is an approximation, and this is by how much. A true window, wherever it lies,
// holds at most twice the quota, and with a fallback twice the quota and the shares. What counts as used is off from what the
// true window up to now holds by no more than the units of the aligned window before, which are a quota at most: they
// are taken to be spread evenly, and the worst is that all of them lay at one end.
//
// It is promised in docs/algorithms.md, It is an approximation.
func CounterErrsWithinItsBound(t *rapid.T, open opener) {
	versions := versionsOf(anyWindow).Draw(t, "plans")
	for i := range versions { // there is a counter
		versions[i][0].Resolution, versions[i][0].Algorithm = 0, slidegate.SlidingCounter
	}
	w := newWorld(t, open, versions, "k")
	w.admitted = func(a *admission, b *book) {
		for i, l := range versions[0] {
			if l.Algorithm != slidegate.SlidingCounter {
				continue
			}
			if n, most := b.within(i, a.at, l.Window.Milliseconds()), 2*w.bound(w.largest(i)); n > most {
				t.Fatalf("%s: the window that ends at %d holds %d units, the bound is %d", l, a.at, n, most)
			}
		}
	}
	w.live("history", forward)
	if w.outage != nil {
		return // each store has an estimate of its own
	}
	for i, s := range w.stands(w.meter(0), "k").states {
		if s.Limit.Algorithm != slidegate.SlidingCounter {
			continue
		}
		b, span := w.books["k"], s.Limit.Window.Milliseconds()
		estimate, truth := s.Limit.Quota-s.Remaining, b.within(i, w.now(), span)
		prev, _, _ := counts(s.Limit, b.charges(i), w.now())
		if prev > w.largest(i) || max(estimate-truth, truth-estimate) > prev {
			t.Fatalf("%s: at %d %d count as used, the true window holds %d, and %d were admitted in the aligned window before", s.Limit, w.now(), estimate, truth, prev)
		}
	}
}
