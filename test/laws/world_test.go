package laws

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"pgregory.net/rapid"
)

// A world is a plan and its changes over a stage, and a record of what was done.
type world struct {
	t *rapid.T
	*stage
	versions []plan
	limiters [][]*slidegate.Limiter // of each process, by version
	keys     []string
	books    map[string]*book
	earliest int64 // that the clock has shown
	setBack  bool  // it was

	admitted func(*admission, *book) // is told of each, if it is there
}

// newWorld opens a stage for a plan and its changes, at a time that is drawn.
func newWorld(t *rapid.T, open opener, versions []plan, keys ...string) *world {
	// No multiple of a common window, and both sides of the epoch.
	at := rapid.OneOf(rapid.Just(int64(1_757_750_412_345)), rapid.Int64Range(-5000, 5000)).Draw(t, "clock")
	return enter(t, open(t, gatetest.NewClock(time.UnixMilli(at))), versions, keys...)
}

func enter(t *rapid.T, s *stage, versions []plan, keys ...string) *world {
	w := &world{t: t, stage: s, versions: versions, keys: keys, books: map[string]*book{}}
	w.earliest = w.now()
	for _, store := range s.stores {
		var of []*slidegate.Limiter
		for _, p := range versions {
			of = append(of, w.limiter(store, p))
		}
		w.limiters = append(w.limiters, of)
	}
	for _, key := range keys {
		w.books[key] = &book{limits: versions[0]}
	}
	return w
}

func (w *world) limiter(store slidegate.Store, p plan) *slidegate.Limiter {
	l, err := slidegate.New(store, p...)
	if err != nil {
		w.t.Fatalf("%#v: %v", p, err)
	}
	return l
}

// meter returns a limiter over the same state with so large quotas that what is used is never more.
func (w *world) meter(process int) *slidegate.Limiter {
	return w.limiter(w.stores[process], w.versions[0].with(func(int64) int64 { return slidegate.MaxQuota }))
}

// now returns the clock, and 0 where it is not ours.
func (w *world) now() int64 {
	if w.clock == nil {
		return 0
	}
	return w.clock.Now().UnixMilli()
}

// must fails a check whose call failed.
func (w *world) must(verb verb, err error) {
	if err != nil {
		w.t.Fatalf("%s: %v", verb, err)
	}
}

func (w *world) peek(l *slidegate.Limiter, key string, cost int64) slidegate.Decision {
	d, err := l.PeekN(background, key, cost)
	w.must(peek, err)
	return d
}

// take decides by a version of the plan in a process, and writes down what was admitted.
func (w *world) take(process, version int, key string, cost int64) slidegate.Decision {
	l := w.limiters[process][version]
	var d slidegate.Decision
	var err error
	if cost == 1 {
		d, err = l.Take(background, key)
	} else {
		d, err = l.TakeN(background, key, cost)
	}
	w.must(take, err)
	if d.Allowed && cost > 0 {
		a := w.note(version, key, cost)
		w.books[key].receipts = append(w.books[key].receipts, receipt{d, process, a})
	}
	return d
}

// allow is take of one unit for the verdict alone, so there is no receipt.
func (w *world) allow(process, version int, key string) bool {
	ok, err := w.limiters[process][version].Allow(background, key)
	w.must(allow, err)
	if ok {
		w.note(version, key, 1)
	}
	return ok
}

// note writes down what was admitted.
func (w *world) note(version int, key string, cost int64) *admission {
	a := w.books[key].admit(w.now(), cost, w.versions[version])
	a.version = version
	if w.admitted != nil {
		w.admitted(a, w.books[key])
	}
	return a
}

// room returns the units that every limit would admit now.
func (w *world) room(process, version int, key string) int64 {
	d := w.peek(w.limiters[process][version], key, 0)
	least := d.State(0).Remaining
	for i := range d.Len() {
		least = min(least, d.State(i).Remaining)
	}
	return least
}

// fill takes all that there is room for, so that the next request of that version is refused.
func (w *world) fill(process, version int, key string) {
	if n := w.room(process, version, key); n > 0 {
		if d := w.take(process, version, key, n); !d.Allowed {
			w.t.Fatalf("%d units remain, and they are refused: %s", n, d)
		}
	}
}

// giveBack refunds units of a receipt.
func (w *world) giveBack(key string, which int, units int64) {
	b := w.books[key]
	if len(b.receipts) == 0 {
		return
	}
	r := &b.receipts[which%len(b.receipts)]
	units = min(units, r.decision.Held())
	if units == 0 {
		return
	}
	err := w.limiters[r.process][0].RefundN(background, &r.decision, units)
	if w.outage != nil && errors.Is(err, slidegate.ErrUnavailable) {
		return // it was charged in Redis, and that is away
	}
	w.must(refund, err)
	b.giveBack(r.admission, units, w.now())
}

func (w *world) reset(process, version int, key string) {
	err := w.limiters[process][version].Reset(background, key)
	if w.outage == nil || !errors.Is(err, slidegate.ErrUnavailable) {
		w.must(reset, err)
	}
	w.books[key].forget()
}

// move sets the clock on, or back.
func (w *world) move(ms int64) { w.set(w.now() + ms) }

func (w *world) set(ms int64) {
	if w.clock == nil {
		return // it runs by itself
	}
	w.clock.SetMilli(min(1<<45, max(-1<<45, ms)))
	w.earliest = min(w.earliest, w.now())
}

// play does a step for each of the keys.
func (w *world) play(s step, keys ...string) {
	switch s.verb {
	case pass:
		w.move(s.ms)
	case back:
		w.setBack = true
		w.move(-s.ms)
	case leave, come:
		w.outage.on.Store(s.verb == leave)
	case crowd:
		w.crowd(s, keys)
	}
	for _, key := range keys {
		switch s.verb {
		case take:
			w.take(s.process, s.version, key, s.cost)
		case allow:
			w.allow(s.process, s.version, key)
		case fill:
			w.fill(s.process, s.version, key)
		case peek:
			w.peek(w.limiters[s.process][s.version], key, s.cost)
		case refund:
			w.giveBack(key, s.n, s.cost)
		case reset:
			w.reset(s.process, s.version, key)
		}
	}
}

// crowd makes logs long, where there is room. The keys are alike.
func (w *world) crowd(s step, keys []string) {
	for ok, n := true, 0; ok && n < s.n; n++ {
		for _, key := range keys {
			ok = w.take(s.process, s.version, key, s.cost).Allowed
		}
		w.move(s.ms)
	}
}

// live draws a history of the verbs and plays it for the keys. With a fallback Redis comes and goes.
func (w *world) live(label string, verbs []verb) {
	if w.outage != nil {
		verbs = slices.Concat(verbs, []verb{leave, come})
	}
	for _, s := range historyOf(w.versions, len(w.stores), verbs).Draw(w.t, label) {
		w.play(s, w.keys...)
	}
}

// What histories are made of: all there is to do while time runs on, and what a clock that may be set back leaves. A unit
// that is given back after that is not as if it had not been charged: the charge dropped what had left the window.
var (
	forward  = []verb{take, take, take, allow, crowd, fill, pass, pass, pass, peek, refund, refund, reset}
	bothWays = []verb{take, take, take, allow, crowd, fill, pass, pass, pass, peek, back, reset}
)

func anyWay(t *rapid.T) []verb {
	if rapid.Bool().Draw(t, "clock set back") {
		return bothWays
	}
	return forward
}

// process draws one. What it owes to Redis after an outage it charges there when it is asked for the key, so it is asked.
func (w *world) process() int {
	p := rapid.IntRange(0, len(w.stores)-1).Draw(w.t, "by process")
	for _, key := range w.keys {
		if w.outage != nil {
			w.room(p, 0, key)
		}
	}
	return p
}

// version draws one.
func (w *world) version() int { return rapid.IntRange(0, len(w.versions)-1).Draw(w.t, "by version") }

// cost draws one that the store that decides can admit.
func (w *world) cost(p plan) int64 { return costOf(p.with(w.holds)).Draw(w.t, "cost asked for") }

// used returns how many units of each limit count in the eyes of a process.
func (w *world) used(process int, key string) (all []int64) {
	for _, s := range statesOf(w.peek(w.meter(process), key, 0)) {
		all = append(all, w.holds(slidegate.MaxQuota)-s.Remaining)
	}
	return all
}

// A standing is how a key stands: what remains in each limit and when it is full, and what requests would be told.
type standing struct {
	states []slidegate.State
	told   []told
}

type told struct {
	cost    int64
	allowed bool
	retry   []time.Duration // of each limit
}

// stands returns how a key stands in the eyes of a limiter, for requests of some costs.
func (w *world) stands(l *slidegate.Limiter, key string, costs ...int64) (s standing) {
	s.states = statesOf(w.peek(l, key, 0))
	for _, cost := range costs {
		d := w.peek(l, key, cost)
		s.told = append(s.told, told{cost, d.Allowed, retries(d)})
	}
	return s
}

func statesOf(d slidegate.Decision) (all []slidegate.State) {
	for i := range d.Len() {
		all = append(all, d.State(i))
	}
	return all
}

func retries(d slidegate.Decision) (all []time.Duration) {
	for i := range d.Len() {
		all = append(all, d.State(i).RetryIn)
	}
	return all
}

// same fails a check where two of anything are not as one.
func (w *world) same(got, want any, format string, args ...any) {
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		w.t.Fatalf("at %d: %s:\n got %s\nwant %s", w.now(), fmt.Sprintf(format, args...), a, b)
	}
}
