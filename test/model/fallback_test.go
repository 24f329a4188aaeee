package model

import (
	"fmt"
	"testing"
)

// The model of a fallback: processes over one store that is asked first, each with a backup that decides by a share. Any call
// of the store may be answered, fail, or be done and not heard of, so every outage there can be is one of these, for all
// processes or for one. What is owed is taken over in steps, between which others ask.
const (
	maxProcesses = 3
	ticks        = 3 // of a window
)

type fallback struct {
	store  [ticks]int8
	backup [maxProcesses][ticks]int8
	owed   [maxProcesses]int8
	moving [maxProcesses]int8 // that a process is charging to the store
	total  [ticks]int8

	begun    [ticks]int8 // processes that were started again, and have forgotten
	refilled bool        // the store admitted while nobody owed and more than the quota had been admitted
}

// A fallbackSetup says how many processes there are and what may happen, and what is wrong.
type fallbackSetup struct {
	processes, quota, share int8
	one                     bool // window: no time passes
	refunds, restarts       bool
	forgets                 bool // the backup, when the store is back
	neverOwes               bool
	refundsTwice            bool
}

func (c fallbackSetup) next(f fallback, to func(string, fallback)) {
	if !c.one {
		to("tick", f.tick())
	}
	for i := range int(c.processes) {
		for cost := int8(1); cost <= min(2, c.quota); cost++ {
			c.take(f, i, cost, to)
		}
		if f.moving[i] > 0 {
			c.takeOver(f, i, to)
		}
		if c.restarts && f.begun == [ticks]int8{} {
			g := f
			g.backup[i], g.owed[i], g.moving[i], g.begun[0] = [ticks]int8{}, 0, 0, 1
			to(fmt.Sprintf("%d is started again", i), g)
		}
	}
	if c.refunds {
		c.refund(f, to)
	}
}

func (f fallback) tick() fallback {
	for i := ticks - 1; i > 0; i-- {
		f.store[i], f.total[i], f.begun[i] = f.store[i-1], f.total[i-1], f.begun[i-1]
		for j := range f.backup {
			f.backup[j][i] = f.backup[j][i-1]
		}
	}
	f.store[0], f.total[0], f.begun[0] = 0, 0, 0
	for j := range f.backup {
		f.backup[j][0] = 0
	}
	return f
}

// take is a request of a process. What it owes is looked at first, but others of the process may have come to owe since.
func (c fallbackSetup) take(f fallback, i int, cost int8, to func(string, fallback)) {
	if f.owed[i] > 0 && f.moving[i] == 0 {
		g := f
		g.moving[i] = min(f.owed[i], int8(sum(f.backup[i][:]...)), c.quota)
		g.owed[i] = 0
		to(fmt.Sprintf("%d finds the store back", i), g)
	}
	c.byBackup(f, i, cost, "", to)
	if sum(f.store[:]...)+int(cost) > int(c.quota) {
		return
	}
	g := f
	g.store[0] += cost
	c.byBackup(g, i, cost, ", charged and unheard by the store", to)
	g.total[0] += cost
	g.refilled = c.one && f.owed == [maxProcesses]int8{} && f.moving == [maxProcesses]int8{} && sum(g.total[:]...) > int(c.quota)
	if c.forgets {
		g.backup[i] = [ticks]int8{}
	}
	to(fmt.Sprintf("%d takes %d of the store", i, cost), g)
}

// byBackup is a request that the store does not answer.
func (c fallbackSetup) byBackup(f fallback, i int, cost int8, how string, to func(string, fallback)) {
	if sum(f.backup[i][:]...)+int(cost) > int(c.share) {
		if how != "" {
			to(fmt.Sprintf("%d is refused %d by its share%s", i, cost, how), f)
		}
		return
	}
	f.backup[i][0] += cost
	f.total[0] += cost
	if !c.neverOwes {
		// More than the share is never taken over, so it need not be told apart.
		f.owed[i] = min(f.owed[i]+cost, c.share)
	}
	to(fmt.Sprintf("%d takes %d of its share%s", i, cost, how), f)
}

// takeOver is one call of the store to charge what was owed, or as much as there is room for.
func (c fallbackSetup) takeOver(f fallback, i int, to func(string, fallback)) {
	again := f
	again.owed[i], again.moving[i] = min(f.owed[i]+f.moving[i], c.share), 0
	to(fmt.Sprintf("%d cannot take over", i), again)
	room := c.quota - int8(sum(f.store[:]...))
	if f.moving[i] > room {
		f.moving[i] = min(f.moving[i]-1, room)
		to(fmt.Sprintf("%d cannot take over all", i), f)
		return
	}
	again.store[0] += f.moving[i]
	to(fmt.Sprintf("%d takes over %d unheard", i, f.moving[i]), again)
	f.store[0] += f.moving[i]
	f.moving[i] = 0
	to(fmt.Sprintf("%d takes over", i), f)
}

// refund gives back a unit, where it was charged.
func (c fallbackSetup) refund(f fallback, to func(string, fallback)) {
	for age := range ticks {
		byStore := f.total[age]
		for i := range int(c.processes) {
			byStore -= f.backup[i][age]
			if f.backup[i][age] == 0 || f.total[age] == 0 {
				continue
			}
			g := f
			g.backup[i][age]--
			if c.refundsTwice {
				g.backup[i][age] = max(0, g.backup[i][age]-1)
			}
			g.total[age]--
			g.owed[i] = max(0, f.owed[i]-1)
			to(fmt.Sprintf("%d gives back a unit of its share, %d old", i, age), g)
		}
		if byStore > 0 && f.store[age] > 0 {
			g := f
			g.store[age]--
			g.total[age]--
			to(fmt.Sprintf("a unit of the store is given back, %d old", age), g)
		}
	}
}

// quotaAndShares is the bound, where so many processes may be started again in a window.
func (c fallbackSetup) quotaAndShares(restarts int) bound[fallback] {
	return bound[fallback]{"the quota and the shares", func(f fallback) (held, most int) {
		shares := int(c.share) * (int(c.processes) + sum(f.begun[:]...))
		return sum(f.total[:]...), int(c.quota) + shares
	}, int(c.quota) + int(c.share)*(int(c.processes)+restarts)}
}

// noRefill is that an outage refills nobody.
var noRefill = bound[fallback]{"nobody is refilled", func(f fallback) (held, most int) {
	if f.refilled {
		return 1, 0
	}
	return 0, 0
}, 0}

func (c fallbackSetup) space(bounds ...bound[fallback]) space[fallback] {
	return space[fallback]{fallback{}, c.next, bounds}
}

// The setups of a fallback: with shares of a half and a third, rounded down, and of a unit where there are more processes than
// units.
var (
	halves   = fallbackSetup{processes: 2, quota: 3, share: 1}
	thirds   = fallbackSetup{processes: 3, quota: 2, share: 1}
	whole    = fallbackSetup{processes: 1, quota: 2, share: 2, refunds: true}
	restarts = fallbackSetup{processes: 1, quota: 2, share: 2, restarts: true}
	settled  = fallbackSetup{processes: 2, quota: 4, share: 2, one: true}
)

var fallbackSpaces = map[string]space[fallback]{
	"fallback, two processes":             halves.space(halves.quotaAndShares(0)),
	"fallback, more processes than units": thirds.space(thirds.quotaAndShares(0)),
	"fallback, with refunds":              whole.space(whole.quotaAndShares(0)),
	"fallback, started again":             restarts.space(restarts.quotaAndShares(1)),
	"fallback, what is owed":              settled.space(settled.quotaAndShares(0), noRefill),
}

func TestFallback(t *testing.T) {
	for name, s := range fallbackSpaces {
		t.Run(name, func(t *testing.T) { s.mustHold(t, name) })
	}
}

func TestFaultsOfAFallbackAreFound(t *testing.T) {
	roundedUp, forgetting, owing, twice := halves, halves, settled, whole
	roundedUp.share = 2
	forgetting.forgets, owing.neverOwes, twice.refundsTwice = true, true, true
	for name, s := range map[string]space[fallback]{
		"a share is rounded up":         roundedUp.space(halves.quotaAndShares(0)),
		"a backup forgets":              forgetting.space(halves.quotaAndShares(0)),
		"a refund is sent twice":        twice.space(whole.quotaAndShares(0)),
		"what is owed is never charged": owing.space(noRefill),
	} {
		t.Run(name, func(t *testing.T) { s.mustBreak(t, s.bounds[0].name) })
	}
}
