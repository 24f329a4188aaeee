package slidegate

import (
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate/internal/window"
)

// A Decision is the answer to one request: a value that may be kept, and that allocates nothing with
// up to three limits. Its waits are worked out when asked for, all from the one reading of the
// store's clock.
type Decision struct {
	// Allowed says whether the request was admitted; for a Peek, whether it would have been.
	Allowed bool

	// Cost is the number of units asked for.
	Cost int64

	held   int64 // units that Refund can give back
	now    int64
	limits []Limit
	key    string

	// A Decision is copied wherever it goes, so the readings of up to three limits are part of it
	// and those of more are elsewhere.
	readings [inPlace]Reading
	rest     *rest
}

// A rest is what few decisions have.
type rest struct {
	readings [MaxLimits - inPlace]Reading
	receipt  *receipt // of a group's decision
}

// inPlace is the number of limits up to which a decision allocates nothing.
const inPlace = 3

// reading returns what the store read of the i-th limit.
func (d *Decision) reading(i int) *Reading {
	if i < inPlace {
		return &d.readings[i]
	}
	return &d.rest.readings[i-inPlace]
}

// fill takes over a store's answer.
func (d *Decision) fill(a *Answer) {
	d.Allowed, d.now = a.Allowed, a.Now
	copy(d.readings[:], a.Readings[:])
	if len(d.limits) > inPlace {
		d.rest = &rest{readings: [MaxLimits - inPlace]Reading(a.Readings[inPlace:])}
	}
}

// answer returns the store's answer again.
func (d *Decision) answer() Answer {
	a := Answer{Allowed: d.Allowed, Now: d.now}
	copy(a.Readings[:], d.readings[:])
	if d.rest != nil {
		copy(a.Readings[inPlace:], d.rest.readings[:])
	}
	return a
}

// A State is how one limit stands after a decision.
type State struct {
	Limit Limit

	// Remaining units would be admitted right now; never negative.
	Remaining int64

	// ResetIn is the time until the limit is completely full again if nothing else is charged.
	ResetIn time.Duration

	// RetryIn is 0 if the limit has room for the request, else the time until it would fit if
	// nothing else is charged. Both are tight to the millisecond.
	RetryIn time.Duration
}

// Len returns the number of limits that were asked; 0 for [Unlimited] and [Blocked].
func (d *Decision) Len() int { return len(d.limits) }

// Key returns the key that was asked for, of a [Group] the first. Keys are people: mind where it is
// written.
func (d *Decision) Key() string { return d.key }

// KeyOf returns the key that the i-th limit counts: of a [Group] that of its limiter, else Key. It
// panics unless 0 <= i < Len.
func (d *Decision) KeyOf(i int) string {
	_ = d.limits[i]
	if r := d.receipt(); r != nil {
		return r.keyOf(i)
	}
	return d.key
}

// Keys returns a copy of the keys that were asked for: of a [Group] one for each of its limiters, else Key alone.
func (d *Decision) Keys() []string {
	if r := d.receipt(); r != nil {
		return append([]string(nil), r.keys[:r.group.limiters]...)
	}
	return []string{d.key}
}

// receipt returns what a group knows of its decision, nil if no group made it.
func (d *Decision) receipt() *receipt {
	if d.rest == nil {
		return nil
	}
	return d.rest.receipt
}

// At returns the store's clock at the decision, in whole milliseconds; the zero time where no store
// was asked.
func (d *Decision) At() time.Time {
	if len(d.limits) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(d.now)
}

// String describes the decision without its key: "admitted, 99 of 100/1m left, full in 1m0s" or
// "refused by burst=10/1s, 0 left, retry in 300ms".
func (d Decision) String() string {
	b := d.Binding()
	switch {
	case d.Allowed && d.Len() == 0:
		return "admitted without limits"
	case d.Allowed:
		return fmt.Sprintf("admitted, %d of %s left, full in %s", b.Remaining, b.Limit, b.ResetIn)
	case d.Len() == 0:
		return "refused without limits"
	}
	return fmt.Sprintf("refused by %s, %d left, retry in %s", b.Limit, b.Remaining, d.RetryAfter())
}

// Charged tells whether units were charged that have not been given back through this Decision.
func (d *Decision) Charged() bool { return d.held > 0 }

// Held returns the units that were charged and have not been given back through this Decision.
func (d *Decision) Held() int64 { return d.held }

// State returns how the i-th limit stands, in declared order. It panics unless 0 <= i < Len.
func (d *Decision) State(i int) State {
	return State{
		Limit:     d.limits[i],
		Remaining: d.remaining(i),
		ResetIn:   milliseconds(d.reset(i)),
		RetryIn:   milliseconds(d.retry(i)),
	}
}

// remaining, reset and retry are the one place that knows them, in units and milliseconds.
func (d *Decision) remaining(i int) int64 { return max(0, d.limits[i].Quota-d.used(i)) }

func (d *Decision) used(i int) int64 {
	if d.limits[i].Algorithm == SlidingCounter {
		c, span := d.counter(i)
		return c.Used(d.now, span)
	}
	return d.reading(i).Units
}

func (d *Decision) reset(i int) int64 {
	if d.limits[i].Algorithm == SlidingCounter {
		c, span := d.counter(i)
		return c.WaitUntil(d.now, span, 0)
	}
	if d.reading(i).Units == 0 {
		return 0
	}
	return d.leaves(i, d.reading(i).At)
}

func (d *Decision) retry(i int) int64 {
	if !d.Refuses(i) {
		return 0
	}
	if d.limits[i].Algorithm == SlidingCounter {
		c, span := d.counter(i)
		return c.WaitUntil(d.now, span, d.limits[i].Quota-d.Cost)
	}
	return d.leaves(i, d.reading(i).Back)
}

// Refuses tells whether the i-th limit has no room for the request. It panics unless 0 <= i < Len.
func (d *Decision) Refuses(i int) bool {
	// A request that was charged is counted in what is used already, and a cost of 0 always fits.
	return !d.Allowed && d.Cost > 0 && d.used(i)+d.Cost > d.limits[i].Quota
}

// leaves returns the time until a charge of a log, recorded at e, leaves the window.
func (d *Decision) leaves(i int, e int64) int64 {
	return e + d.limits[i].Window.Milliseconds() - d.now
}

func (d *Decision) counter(i int) (c window.Counter, span int64) {
	r := d.reading(i)
	return window.Counter{Start: r.At, Prev: r.Back, Cur: r.Units}, d.limits[i].Window.Milliseconds()
}

// Binding returns the state of the limit that a single-valued header speaks for: one that
// refuses, first; then the least remaining; then the longest to wait; then declared order. It is
// the zero State if there are no limits.
func (d *Decision) Binding() State {
	if i := d.BindingIndex(); i >= 0 {
		return d.State(i)
	}
	return State{}
}

// BindingIndex returns the index of the limit that Binding describes, -1 if there is none.
func (d *Decision) BindingIndex() int {
	if n := len(d.limits); n <= 1 {
		return n - 1
	}
	return d.bindingOfSeveral()
}

// bindingOfSeveral looks for the least remaining, since a limit that refuses has less than the cost, and one with room has not.
func (d *Decision) bindingOfSeveral() int {
	best, least := 0, d.remaining(0)
	for i := 1; i < len(d.limits); i++ {
		remaining := d.remaining(i)
		if remaining < least || remaining == least && d.waitsLonger(i, best) {
			best, least = i, remaining
		}
	}
	return best
}

// waitsLonger tells whether limit i has longer to wait than limit j, both refusing or neither.
func (d *Decision) waitsLonger(i, j int) bool {
	if d.Refuses(i) {
		return d.retry(i) > d.retry(j)
	}
	return d.reset(i) > d.reset(j)
}

// Remaining returns the remaining units of the binding limit.
func (d *Decision) Remaining() int64 {
	i := d.BindingIndex()
	if i < 0 {
		return 0
	}
	return d.remaining(i)
}

// ResetAfter returns the time until the binding limit is completely full again.
func (d *Decision) ResetAfter() time.Duration {
	i := d.BindingIndex()
	if i < 0 {
		return 0
	}
	return milliseconds(d.reset(i))
}

// RetryAfter returns the longest wait among the limits that refuse: after exactly so long the
// same request would be admitted if nothing else is charged, and one millisecond earlier it
// would not. It is 0 if the request was admitted, and for [Blocked], which never admits.
func (d *Decision) RetryAfter() time.Duration {
	longest := int64(0)
	if d.Allowed {
		return 0
	}
	for i := range d.limits {
		longest = max(longest, d.retry(i))
	}
	return milliseconds(longest)
}

// milliseconds saturates instead of wrapping: a clock can step back by more than a Duration holds.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
