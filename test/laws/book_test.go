package laws

import (
	"math"
	"slices"

	"github.com/slidegate/slidegate"
)

// A book is all that was admitted to a key since it was new or reset: an account that is kept beside the store, unit for
// unit, and counted by looking at all of it.
type book struct {
	limits   plan
	all      []*admission
	receipts []receipt
}

// An admission is what one request was charged.
type admission struct {
	at      int64 // as read from the clock
	version int
	in      []entry // by limit
}

// An entry is an admission in one limit.
type entry struct {
	recorded int64 // time, or start of the window of a counter
	units    int64 // that have not been given back
	dropped  bool  // when it had left the window, by a later charge
}

type receipt struct {
	decision  slidegate.Decision
	process   int
	admission *admission
}

// admit writes down what was admitted by a version of the plan.
func (b *book) admit(now, cost int64, by plan) *admission {
	a := &admission{at: now}
	for i, l := range by {
		span := l.Window.Milliseconds()
		recorded := ceil(now, max(1, l.Resolution.Milliseconds()))
		if l.Algorithm == slidegate.SlidingCounter {
			recorded = floor(now, span)
		}
		for _, old := range b.all {
			e := &old.in[i]
			e.dropped = e.dropped || l.Algorithm == slidegate.SlidingLog && now-e.recorded >= span
			if e.units > 0 && !e.dropped {
				recorded = max(recorded, e.recorded)
			}
		}
		a.in = append(a.in, entry{recorded: recorded, units: cost})
	}
	b.all = append(b.all, a)
	return a
}

// giveBack takes units back where they have not left the window.
func (b *book) giveBack(a *admission, units, now int64) {
	for i, l := range b.limits {
		if l.Algorithm == slidegate.SlidingCounter || now-a.in[i].recorded < l.Window.Milliseconds() {
			a.in[i].units = max(0, a.in[i].units-units)
		}
	}
}

func (b *book) forget() { b.all, b.receipts = nil, nil }

// charges returns what is charged in the i-th limit.
func (b *book) charges(i int) (all []slidegate.Charge) {
	for _, a := range b.all {
		if e := a.in[i]; e.units > 0 && !e.dropped {
			all = append(all, slidegate.Charge{At: e.recorded, Units: e.units})
		}
	}
	return all
}

// within returns the units in the i-th limit that were admitted in (end-span, end], as read from the clock.
func (b *book) within(i int, end, span int64) (n int64) {
	for _, a := range b.all {
		if a.at > end-span && a.at <= end {
			n += a.in[i].units
		}
	}
	return n
}

// recordedWithin is within by recorded times.
func (b *book) recordedWithin(i int, end, span int64) (n int64) {
	for _, a := range b.all {
		if e := a.in[i]; e.recorded > end-span && e.recorded <= end {
			n += e.units
		}
	}
	return n
}

// used returns how many units of charges count at now.
func used(l slidegate.Limit, charges []slidegate.Charge, now int64) (n int64) {
	span := l.Window.Milliseconds()
	if l.Algorithm == slidegate.SlidingLog {
		for _, c := range charges {
			if now-c.At < span {
				n += c.Units
			}
		}
		return n
	}
	prev, cur, elapsed := counts(l, charges, now)
	return int64(math.Floor(float64(prev)*float64(span-elapsed)/float64(span))) + cur
}

// counts returns the units in the window of a counter before now's, those in now's, and how much of that has passed.
func counts(l slidegate.Limit, charges []slidegate.Charge, now int64) (prev, cur, elapsed int64) {
	span := l.Window.Milliseconds()
	start := floor(now, span)
	if len(charges) > 0 {
		start = max(start, slices.MaxFunc(charges, func(a, b slidegate.Charge) int { return int(a.At - b.At) }).At)
	}
	for _, c := range charges {
		switch c.At {
		case start:
			cur += c.Units
		case start - span:
			prev += c.Units
		}
	}
	return prev, cur, max(0, now-start)
}

// floor returns the largest multiple of step that is not after now.
func floor(now, step int64) int64 {
	for now%step != 0 {
		now -= (now%step + step) % step
	}
	return now
}

// ceil returns the smallest multiple of step that is not before now.
func ceil(now, step int64) int64 { return -floor(-now, step) }
