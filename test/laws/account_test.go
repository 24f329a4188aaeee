package laws

import (
	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// UsedAndRemainingAreTheQuota: the units that are listed as charged, and as an account beside the store has them, weighed
// for a counter, and the units that remain are the quota together. Where a quota was lowered below what is used none
// remain, never less.
//
// It is promised in docs/algorithms.md, What counts and The sliding counter.
func UsedAndRemainingAreTheQuota(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	lists, err := w.limiter(w.decides(process), w.versions[version]).Charges(background, "k", 1<<30)
	w.must("charges", err)
	for i, s := range statesOf(w.peek(w.limiters[process][version], "k", 0)) {
		n := used(s.Limit, lists[i], w.now())
		if quota := w.holds(s.Limit.Quota); s.Remaining != max(0, quota-n) {
			t.Fatalf("%s: at %d %d of %d remain, and used are %d: %v", s.Limit, w.now(), s.Remaining, quota, n, lists[i])
		}
		if account := used(s.Limit, w.books["k"].charges(i), w.now()); w.outage == nil && n != account {
			t.Fatalf("%s: at %d %d are used, %v, and %d were admitted, %v", s.Limit, w.now(), n, lists[i], account, w.books["k"].charges(i))
		}
	}
}

// ChangingAQuotaKeepsHistory: whatever quota and resolution a plan has now, what is used is what was admitted, by whichever plan,
// and every limit is full at the same time. So nobody is refilled by a change, and nobody is charged twice.
//
// It is promised in docs/algorithms.md, Several limits.
func ChangingAQuotaKeepsHistory(t *rapid.T, open opener) {
	versions := versionsOf(anyWindow).Draw(t, "plans")
	w := newWorld(t, open, versions, "k")
	w.live("history", anyWay(t))
	process := w.process()
	meter := w.meter(process)
	for _, change := range append(versions, revised(versions[0]).Draw(t, "next change")) {
		next, err := w.limiters[process][0].With(change...)
		w.must("with", err)
		before, used := statesOf(w.peek(meter, "k", 0)), w.used(process, "k")
		for i, s := range statesOf(w.peek(next, "k", 0)) {
			if quota := w.holds(s.Limit.Quota); s.Remaining != max(0, quota-used[i]) {
				t.Fatalf("%s: %d are used, and by this change %d of %d remain", s.Limit, used[i], s.Remaining, quota)
			}
			if inexact := w.away() && s.Limit.Algorithm == slidegate.SlidingCounter; s.ResetIn != before[i].ResetIn && !inexact {
				t.Fatalf("%s: full in %s, and before this change in %s", s.Limit, s.ResetIn, before[i].ResetIn)
			}
			if n := w.books["k"].used(i, w.now()); w.outage == nil && used[i] != min(n, slidegate.MaxQuota) {
				t.Fatalf("%s: %d are used, and %d were admitted", s.Limit, used[i], n)
			}
		}
		if n := rapid.Int64Range(0, 2).Draw(t, "units by this change"); n > 0 && n <= change.with(w.holds).smallest() {
			d, err := next.TakeN(background, "k", n)
			w.must(take, err)
			if d.Allowed {
				w.books["k"].admit(w.now(), n, change)
			}
		}
	}
}

// used returns how many units count in the i-th limit.
func (b *book) used(i int, now int64) int64 { return used(b.limits[i], b.charges(i), now) }
