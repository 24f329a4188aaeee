package laws

import (
	"pgregory.net/rapid"
)

// RefusalChangesNothing that is stored, not a byte and no expiry: it writes nothing, drops nothing that has left the window,
// and prolongs nothing, however often somebody asks.
//
// It is promised in docs/algorithms.md, What is charged, and in docs/redis.md, What is stored.
func RefusalChangesNothing(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	w.fill(process, version, "k")
	before := w.snapshot(w)
	for range rapid.IntRange(1, 3).Draw(t, "times") {
		cost := costOf(w.versions[version]).Draw(t, "cost refused")
		if d := w.take(process, version, "k", cost); d.Allowed {
			t.Fatalf("it is full, and %d units are admitted", cost)
		}
		if w.allow(process, version, "k") {
			t.Fatal("it is full, and a unit is allowed")
		}
	}
	w.same(w.snapshot(w), before, "what is stored after a refusal")
}

// PeekForetellsTakeAndWritesNothing: its verdict and every retry are those of the take that follows, and of a refusal all else too;
// and not a byte of what is stored changes, no expiry does, and no key comes to be.
//
// It is promised in docs/algorithms.md, What is charged, and in docs/redis.md, What is stored.
func PeekForetellsTakeAndWritesNothing(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "k", "new")
	w.keys = w.keys[:1]
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	key := rapid.SampledFrom([]string{"k", "k", "k", "new"}).Draw(t, "key")
	cost := rapid.OneOf(rapid.Just(int64(0)), costOf(w.versions[version])).Draw(t, "cost")
	w.keys = append(w.keys, "new")
	before := w.snapshot(w)
	d := w.peek(w.limiters[process][version], key, cost)
	for _, l := range w.limiters[process] {
		w.peek(l, key, 1)
	}
	w.same(w.snapshot(w), before, "what is stored after a look")
	taken := w.take(process, version, key, cost)
	if taken.Allowed != d.Allowed {
		t.Fatalf("a look at %d units says %v, and the take %v", cost, d.Allowed, taken.Allowed)
	}
	w.same(retries(taken), retries(d), "the retries of a take of %d and of a look before", cost)
	if !taken.Allowed {
		w.same(statesOf(taken), statesOf(d), "a refusal of %d and a look before", cost)
	}
}

// TakingManyIsTakingOneByOne: n units at once and n times one unit, at one instant and where they fit, are the same for all that
// comes after.
//
// It follows from docs/algorithms.md, Resolution: charges of one recorded time share an entry.
func TakingManyIsTakingOneByOne(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "many", "one by one")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	room := w.room(process, version, "many")
	if room == 0 {
		return
	}
	n := rapid.Int64Range(1, min(room, 12)).Draw(t, "n")
	if d := w.take(process, version, "many", n); !d.Allowed {
		t.Fatalf("%d units remain, and %d at once are refused", room, n)
	}
	for i := range n {
		ok := false
		if rapid.Bool().Draw(t, "for the verdict alone") {
			ok = w.allow(process, version, "one by one")
		} else {
			ok = w.take(process, version, "one by one", 1).Allowed
		}
		if !ok {
			t.Fatalf("%d units remain, and of %d single ones the one after %d is refused", room, n, i)
		}
	}
	w.stayAlike(process, []verb{take, allow, fill, pass, pass, peek, back})
}

// TakeThenRefundIsNothing: what is charged and given back, at once or in two parts, is as if it had not been, for all that comes
// after.
//
// It is promised in docs/algorithms.md, What is charged. A clock that is set back later shows that the charge dropped what had
// left the window.
func TakeThenRefundIsNothing(t *rapid.T, open opener) {
	w := newWorld(t, open, versionsOf(anyWindow).Draw(t, "plans"), "refunded", "untouched")
	w.live("history", anyWay(t))
	process, version := w.process(), w.version()
	cost := w.cost(w.versions[version])
	part := rapid.Int64Range(0, cost).Draw(t, "part")
	d := w.take(process, version, "refunded", cost)
	for _, units := range []int64{part, cost} {
		w.must(refund, w.limiters[process][w.version()].RefundN(background, &d, units))
	}
	if d.Charged() {
		t.Fatalf("all is given back, and the receipt holds %d", d.Held())
	}
	w.books["refunded"].forget()
	w.books["untouched"].forget() // so that neither has receipts
	w.stayAlike(process, []verb{take, allow, fill, pass, pass, peek})
}

// stayAlike draws what comes after, plays it for both keys, and compares how they stand: first, and after each step.
func (w *world) stayAlike(process int, verbs []verb) {
	costs := rapid.SliceOfN(costOf(w.versions[0]), 1, 2).Draw(w.t, "costs asked for")
	alike := func(when any) {
		l := w.limiters[process][0]
		w.same(w.stands(l, w.keys[0], costs...), w.stands(l, w.keys[1], costs...), "%q and %q, after %#v", w.keys[0], w.keys[1], when)
	}
	alike("that")
	for _, s := range rapid.SliceOfN(stepOf(w.versions, len(w.stores), verbs), 0, 6).Draw(w.t, "what comes after") {
		w.play(s, w.keys...)
		alike(s)
	}
}
