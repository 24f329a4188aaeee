package model

import (
	"fmt"
	"testing"
)

// The model of equal shares by the number of live processes, which each learns when it beats in the store, of a quota in one
// long window. Who takes takes all there is: less is less. What the store is told of shares is left out for the same reason.
const beaters = 3 // processes at most

type replicas struct {
	runs, isCut, counted [beaters]bool // counted: its beat is in the store
	live                 [beaters]int8 // processes, as it last heard
	largest              [beaters]int8 // share that it had
	backup               [beaters]int8 // units that it admitted
	store                int8
}

func (r replicas) total() int { return int(r.store) + sum(r.backup[:]...) }

// A replicasSetup says what may happen, and what is wrong.
type replicasSetup struct {
	processes int8
	fades     bool // a process that is cut off is counted no more after a life
	comesBack bool // a process that was cut off may beat again
	starts    bool // processes may start while they are cut off
	alone     bool // a process does not count itself
}

const shared = 6 // units, of a quota that is shared

func (c replicasSetup) share(live int8) int8 {
	if c.alone {
		live--
	}
	return shared / max(1, live)
}

func (c replicasSetup) begin() (r replicas) {
	for i := range c.processes {
		r.runs[i], r.counted[i], r.live[i] = !c.starts, !c.starts, c.processes
		if c.starts {
			r.live[i], r.isCut[i] = 1, true
		}
		r.largest[i] = c.share(r.live[i])
	}
	return r
}

func (c replicasSetup) next(r replicas, to func(string, replicas)) {
	for i := range int(c.processes) {
		switch {
		case !r.runs[i]:
			r := r
			r.runs[i] = true
			to(fmt.Sprintf("%d starts", i), r)
			continue
		case r.isCut[i]:
			c.whileCut(r, i, to)
		default:
			c.whileHeard(r, i, to)
		}
		if share := c.share(r.live[i]); r.backup[i] < share {
			r := r
			r.backup[i] = share
			to(fmt.Sprintf("%d takes its share of %d", i, share), r)
		}
	}
}

func (c replicasSetup) whileCut(r replicas, i int, to func(string, replicas)) {
	if c.comesBack {
		r := r
		r.isCut[i] = false
		to(fmt.Sprintf("%d is heard again", i), r)
	}
	if c.fades && r.counted[i] {
		r.counted[i] = false
		to(fmt.Sprintf("a life without %d", i), r)
	}
}

func (c replicasSetup) whileHeard(r replicas, i int, to func(string, replicas)) {
	cut := r
	cut.isCut[i] = true
	to(fmt.Sprintf("%d is cut off", i), cut)
	if r.store == 0 {
		r := r
		r.store = shared
		to(fmt.Sprintf("%d takes all of the store", i), r)
	}
	r.counted[i] = true
	r.live[i] = 0
	for _, is := range r.counted {
		if is {
			r.live[i]++
		}
	}
	r.largest[i] = max(r.largest[i], c.share(r.live[i]))
	to(fmt.Sprintf("%d beats", i), r)
}

func (c replicasSetup) space(peak int) space[replicas] {
	quotaAndLargest := bound[replicas]{"the quota and the largest share of each", func(r replicas) (held, most int) {
		most = shared
		for i, is := range r.runs {
			if is {
				most += int(r.largest[i])
			}
		}
		return r.total(), most
	}, peak}
	inAll := bound[replicas]{"so many units", func(r replicas) (held, most int) { return r.total(), peak }, peak}
	return space[replicas]{c.begin(), c.next, []bound[replicas]{quotaAndLargest, inAll}}
}

var replicasSpaces = map[string]space[replicas]{
	"live processes": replicasSetup{processes: 3, comesBack: true}.space(2 * shared),
	"live processes, cut off one after another": replicasSetup{processes: 3, fades: true}.space(shared + shared/1 + shared/2 + shared/3),
	"live processes, cut off in turn":           replicasSetup{processes: 2, fades: true, comesBack: true}.space(shared + 2*shared),
	"live processes, started in an outage":      replicasSetup{processes: 3, starts: true, comesBack: true}.space(shared + 3*shared),
}

func TestReplicas(t *testing.T) {
	for name, s := range replicasSpaces {
		t.Run(name, func(t *testing.T) { s.mustHold(t, name) })
	}
}

// TestFaultsOfReplicasAreFound, and so is the claim that twice the quota is the bound whoever is cut off.
func TestFaultsOfReplicasAreFound(t *testing.T) {
	for name, c := range map[string]replicasSetup{
		"a process does not count itself":    {processes: 3, comesBack: true, alone: true},
		"who is cut off changes no share":    {processes: 3, fades: true},
		"who starts unheard has a part only": {processes: 3, starts: true, comesBack: true},
	} {
		t.Run(name, func(t *testing.T) { c.space(2*shared).mustBreak(t, "so many units") })
	}
}
