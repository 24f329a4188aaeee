package model

import "testing"

// The model of remembered refusals: a process that remembers what a store refused it, callers of it who ask and reset at
// the same time, and another process that resets and takes. The limit is one unit.
const (
	span    = 4 // ticks of a window
	longest = 2 // ticks that a refusal is remembered
)

type denials struct {
	held       int8 // ticks until the unit in the store leaves, 0 where there is none
	remembered int8 // ticks that a refusal is remembered for, 0 where none is

	asking   bool // a caller waits for the store
	began    int8 // ticks since then
	answered int8 // ticks for which what it was told is to be remembered, 0 where it was told nothing yet, or was admitted
	changed  bool // the key, since then

	resetting int8 // a caller of this process: 1 before the store has done it, 2 before it is forgotten here
	foreign   int8 // ticks since another process reset the key, at most longest: that is too long ago to matter
}

// A denialsSetup says what is wrong.
type denialsSetup struct {
	remembersAlways bool // also when the key changed meanwhile
	forgetsFirst    bool // before the store has reset
	uncapped        bool
}

func (c denialsSetup) next(d denials, to func(string, denials)) {
	to("tick", d.tick())
	c.ask(d, to)
	c.reset(d, to)
	if d.held > 0 {
		d := d
		d.held, d.foreign = 0, 0
		to("another process resets", d)
	} else {
		d := d
		d.held = span
		to("another process takes", d)
	}
}

func (d denials) tick() denials {
	d.held, d.remembered = max(0, d.held-1), max(0, d.remembered-1)
	d.foreign = min(d.foreign+1, longest)
	if d.asking {
		d.began = min(d.began+1, span)
	}
	return d
}

// ask is a caller of this process whom memory does not answer.
func (c denialsSetup) ask(d denials, to func(string, denials)) {
	switch {
	case !d.asking && d.remembered == 0:
		d.asking, d.began, d.answered, d.changed = true, 0, 0, false
		to("a caller asks", d)
	case d.asking && d.answered == 0 && d.held == 0:
		d.held, d.asking = span, false
		to("the store admits", d)
	case d.asking && d.answered == 0:
		d.answered = d.held + d.began // until then, counted from the call
		if !c.uncapped {
			d.answered = min(d.answered, longest)
		}
		to("the store refuses", d)
	case d.asking:
		if !d.changed || c.remembersAlways {
			d.remembered = max(0, d.answered-d.began)
		}
		d.asking, d.began, d.answered, d.changed = false, 0, 0, false
		to("the caller hears", d)
	}
}

// reset is a caller of this process who resets the key.
func (c denialsSetup) reset(d denials, to func(string, denials)) {
	forget := func(d *denials) { d.remembered, d.changed = 0, true }
	switch d.resetting {
	case 0:
		d.resetting = 1
		if c.forgetsFirst {
			forget(&d)
		}
		to("a caller resets", d)
	case 1:
		d.held, d.resetting = 0, 2
		to("the store resets", d)
	case 2:
		d.resetting = 0
		if !c.forgetsFirst {
			forget(&d)
		}
		to("the reset is done", d)
	}
}

// seenLate is how old another process's reset is when a refusal hides it: within the longest time of one. A refusal that the store would
// not give, with no such reset and none under way here, would be wrong.
var seenLate = bound[denials]{"another's reset is hidden for ticks", func(d denials) (held, most int) {
	if d.remembered > 0 && d.held == 0 && d.resetting != 2 {
		return int(d.foreign) + 1, longest
	}
	return 0, longest
}, longest}

func (c denialsSetup) space() space[denials] {
	return space[denials]{denials{foreign: longest}, c.next, []bound[denials]{seenLate}}
}

var denialsSpaces = map[string]space[denials]{"remembered refusals": denialsSetup{}.space()}

func TestDenials(t *testing.T) {
	for name, s := range denialsSpaces {
		t.Run(name, func(t *testing.T) { s.mustHold(t, name) })
	}
}

func TestFaultsOfDenialsAreFound(t *testing.T) {
	for name, c := range map[string]denialsSetup{
		"what changed meanwhile is remembered": {remembersAlways: true},
		"it forgets before the store resets":   {forgetsFirst: true},
		"a refusal is remembered to its retry": {uncapped: true},
	} {
		t.Run(name, func(t *testing.T) { c.space().mustBreak(t, seenLate.name) })
	}
}
