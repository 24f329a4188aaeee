package model

import (
	"fmt"
	"testing"
)

// The model of a failover: a primary and a replica that is behind by any part of what was written, which may take its place
// at any moment. The old primary is dead then, or cut off from those around the new one and serves others for a while. Who
// asks does not matter: a take is one act of a server, whichever process sends it.
const (
	window    = 3 // ticks
	quota     = 2
	lag       = 1 // ticks without a replica after which a primary takes no charge: min-replicas-max-lag
	clockStep = 1 // ticks that a clock may be ahead or behind
)

// A redis is what a server holds: units by the age of their recorded time, which is below 0 where its clock is ahead.
type redis [clockStep + window + clockStep]int8

// A ledger is units by the age of the act itself.
type ledger [window]int8

// used returns the units that count for a server whose clock is ahead.
func (r redis) used(ahead int8) (n int) {
	for i, units := range r {
		if int8(i)-clockStep+ahead < window {
			n += int(units)
		}
	}
	return n
}

// charge drops what has left, and records units at the server's now, or at the newest time that it holds.
func (r *redis) charge(ahead int8, units int8) {
	for i := range r {
		if int8(i)-clockStep+ahead >= window {
			r[i] = 0
		}
	}
	at := clockStep - ahead
	for i := int8(0); i < at; i++ {
		if r[i] > 0 {
			at = i
		}
	}
	r[at] += units
}

func older[A redis | ledger](a A) (next A) {
	for i := 1; i < len(a); i++ {
		next[i] = a[i-1]
	}
	return next
}

// A failover is one state.
type failover struct {
	primary, replica redis
	old              redis // of a primary that is cut off
	ahead            int8  // the primary's clock
	jump             int8  // that the clock made at a failover in this window, forward

	kept    ledger // admitted, and the primary knows
	safe    ledger // of which the replica knows
	lost    ledger // admitted, and the primary does not know: a failover has lost them, or they are the old one's
	unheard ledger // charged, and nobody heard: the request is undecided

	ended  [2]int8 // ticks since another primary took its last charge; window if that is too long ago to matter
	isCut  bool
	cutFor int8
}

func (f failover) admitted() int { return sum(f.kept[:]...) + sum(f.lost[:]...) }

// primaries returns how many of them served in the window that ends now.
func (f failover) primaries() (n int) {
	n = 1
	for _, ticks := range f.ended {
		if ticks < window {
			n++
		}
	}
	return n
}

// A failoverSetup says what may happen, and what is wrong.
type failoverSetup struct {
	unheard, refunds, clocks bool
	stepsBack, stepsForth    bool // the clock of the one primary that there is
	resends, refundsTwice    bool
	asksReplica              bool // decides by what the replica has
}

func (c failoverSetup) next(f failover, to func(string, failover)) {
	to("tick", f.tick())
	if f.replica != f.primary || f.safe != f.kept {
		g := f
		g.replica, g.safe = f.primary, f.kept
		to("the replica catches up", g)
	}
	for cost := int8(1); cost <= quota; cost++ {
		c.take(f, cost, to)
	}
	if c.stepsBack {
		c.stepClock(f, to)
		return
	}
	c.failOver(f, to)
	if f.isCut {
		g := f
		g.isCut, g.cutFor, g.old = false, 0, redis{}
		to("the old primary is demoted", g)
	}
	for age := range window {
		if c.refunds && f.kept[age]+f.lost[age] > 0 {
			to(fmt.Sprintf("refund of a unit %d old", age), c.refund(f, age))
		}
	}
}

func (f failover) tick() failover {
	f.primary, f.replica, f.old = older(f.primary), older(f.replica), older(f.old)
	f.kept, f.safe, f.lost, f.unheard = older(f.kept), older(f.safe), older(f.lost), older(f.unheard)
	if f.isCut {
		f.cutFor = min(f.cutFor+1, lag)
	}
	for i := range f.ended {
		if !(i == 0 && f.oldServes()) {
			f.ended[i] = min(f.ended[i]+1, window)
		}
	}
	if f.ended == none {
		f.jump = 0
	}
	return f
}

func (f failover) oldServes() bool { return f.isCut && f.cutFor < lag }

func (c failoverSetup) take(f failover, cost int8, to func(string, failover)) {
	decides := f.primary
	if c.asksReplica {
		decides = f.replica
	}
	if decides.used(f.ahead)+int(cost) <= quota {
		g := f
		g.primary.charge(f.ahead, cost)
		if c.unheard {
			h := g
			h.unheard[0] += cost
			if c.resends && g.primary.used(g.ahead)+int(cost) <= quota {
				h.primary.charge(f.ahead, cost)
			}
			to(fmt.Sprintf("take of %d, unheard", cost), h)
		}
		g.kept[0] += cost
		to(fmt.Sprintf("take of %d", cost), g)
	}
	if f.oldServes() && f.old.used(0)+int(cost) <= quota {
		f.old.charge(0, cost)
		f.lost[0] += cost
		to(fmt.Sprintf("take of %d at the old primary", cost), f)
	}
}

func (c failoverSetup) stepClock(f failover, to func(string, failover)) {
	if f.ahead > -clockStep {
		g := f
		g.ahead--
		to("the clock is set back", g)
	}
	if c.stepsForth && f.ahead < clockStep {
		f.ahead++
		to("the clock is set forward", f)
	}
}

// failOver lets the replica take the place of a primary that is dead, or cut off.
func (c failoverSetup) failOver(f failover, to func(string, failover)) {
	g := f
	g.primary = f.replica
	for age := range window {
		g.kept[age] = min(f.kept[age], f.safe[age])
		g.lost[age] += f.kept[age] - g.kept[age]
	}
	g.safe = g.kept
	if c.clocks && f.ended == none {
		for step := int8(-clockStep); step <= clockStep; step++ {
			h := g
			h.ended[0], h.ahead, h.jump = 0, step, max(0, step-f.ahead)
			to(fmt.Sprintf("failover to a clock ahead by %d", step), h)
		}
	}
	if c.clocks {
		return
	}
	for i := range f.ended {
		if f.ended[i] == window && !(i == 0 && f.isCut) {
			h := g
			h.ended[i] = 0
			to("failover", h)
			break
		}
	}
	if !f.isCut && f.ended[0] == window {
		g.ended[0], g.isCut, g.old = 0, true, f.primary
		to("failover, and the old primary is cut off", g)
	}
}

// refund gives back a unit at the time recorded. Units of one time are the same: if the primary holds any there, it is one of
// those that it knows of.
func (c failoverSetup) refund(f failover, age int) failover {
	at := clockStep + age
	held := f.primary[at] > 0
	if held {
		f.primary[at]--
	}
	if c.refundsTwice && f.primary[at] > 0 {
		f.primary[at]--
	}
	if held && f.kept[age] > 0 || f.lost[age] == 0 {
		f.kept[age]--
	} else {
		f.lost[age]--
	}
	return f
}

var none = [2]int8{window, window}

// The bounds of a failover.
var (
	quotaAndLost = bound[failover]{"the quota and what was lost", func(f failover) (held, most int) {
		return f.admitted(), quota + sum(f.lost[:]...)
	}, 3 * quota}
	quotaOfEach = bound[failover]{"a quota for each primary", func(f failover) (held, most int) {
		return f.admitted(), quota * f.primaries()
	}, 3 * quota}
	chargedOnce = bound[failover]{"no more charged than asked for", func(f failover) (held, most int) {
		return f.primary.used(f.ahead), f.admitted() + sum(f.unheard[:]...)
	}, quota}
	inShorterWindow = bound[failover]{"the quota and what was lost, in a window shorter by the jump of the clock", func(f failover) (held, most int) {
		lost := sum(f.lost[:window-f.jump]...)
		return sum(f.kept[:window-f.jump]...) + lost, quota + lost
	}, 2 * quota}
)

func (c failoverSetup) space(bounds ...bound[failover]) space[failover] {
	begin := failover{ended: none}
	if c.stepsBack {
		begin.ahead = clockStep
	}
	return space[failover]{begin, c.next, bounds}
}

// failoverSpaces are those that the page has a row for.
var failoverSpaces = map[string]space[failover]{
	"failover":               failoverSetup{unheard: true}.space(quotaAndLost, quotaOfEach, chargedOnce),
	"failover, with refunds": failoverSetup{refunds: true}.space(quotaAndLost, quotaOfEach),
	"failover, clocks apart": failoverSetup{clocks: true}.space(inShorterWindow, bound[failover]{"two quotas", quotaOfEach.of, 2 * quota}),
	"a clock set back":       failoverSetup{stepsBack: true}.space(bound[failover]{"the quota", quotaAndLost.of, quota}),
}

func TestFailover(t *testing.T) {
	for name, s := range failoverSpaces {
		t.Run(name, func(t *testing.T) { s.mustHold(t, name) })
	}
}

// TestFaultsOfAFailoverAreFound, and so is the claim that clocks do not matter.
func TestFaultsOfAFailoverAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		setup  failoverSetup
		breaks bound[failover]
	}{
		"an undecided call is sent again":     {failoverSetup{unheard: true, resends: true}, chargedOnce},
		"a refund is sent twice":              {failoverSetup{refunds: true, refundsTwice: true}, quotaAndLost},
		"decisions are asked of the replica":  {failoverSetup{asksReplica: true}, quotaAndLost},
		"a clock may be set back and forth":   {failoverSetup{stepsBack: true, stepsForth: true}, quotaAndLost},
		"a clock that is ahead frees nothing": {failoverSetup{clocks: true}, quotaAndLost},
	} {
		t.Run(name, func(t *testing.T) { c.setup.space(c.breaks).mustBreak(t, c.breaks.name) })
	}
}
