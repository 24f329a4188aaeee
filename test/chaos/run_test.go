package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/servetest"
	"github.com/slidegate/slidegate/wrap"
)

// A run is one fault on its stage. Times are those at which each part of it was over.
type run struct {
	fault
	*stage
	breaking, broken, mending, mended time.Time
}

func (r *run) play() {
	var before []state
	if r.server.Running() {
		r.speak()
		r.awaitBinding(time.Time{})
		r.hush()
		before = r.states()
	}
	r.speak()
	r.breaking = time.Now()
	r.breaks(r.stage)
	r.broken = time.Now()
	if r.effect == all {
		r.awaitOutage()
	}
	<-time.After(r.lasts - time.Since(r.broken))
	r.mending = time.Now()
	r.mends(r.stage)
	r.mended = time.Now()
	r.awaitDecided()
	r.awaitBinding(time.Now())
	r.hush()
	if before != nil {
		r.awaitStates(before)
	}
}

// awaitOutage wants operators to see what everybody else does.
func (r *run) awaitOutage() {
	r.t.Helper()
	r.awaitCircuits(1)
	for _, c := range []struct {
		at     *servetest.Replica
		status int
		says   string
	}{{r.open, http.StatusOK, "requests pass"}, {r.closed, http.StatusServiceUnavailable, "requests get 503"}, {r.sharing, http.StatusOK, "by its share"}} {
		if status, text := c.at.Get("/readyz"); status != c.status || !strings.Contains(text, c.says) {
			r.t.Errorf("%s: /readyz is %d, %q", c.at.Name, status, text)
		}
	}
}

// awaitCircuits wants the metrics of all replicas to say that the circuit is open (1), or that it is not (0).
func (r *run) awaitCircuits(open float64) {
	r.t.Helper()
	for _, at := range r.replicas {
		redistest.Await(r.t, servetest.Patience, fmt.Sprintf("%s: slidegate_circuit_open is %v", at.Name, open), func() bool {
			return at.Metrics()["slidegate_circuit_open"] == open
		})
	}
}

// awaitDecided wants everybody's requests to be decided soon after the fault is mended, by Redis, and then all of them.
func (r *run) awaitDecided() {
	r.t.Helper()
	var last time.Duration
	for _, v := range r.voices {
		redistest.Await(r.t, time.Until(r.mended.Add(backIn+2*slack)), v.name+": a decision after the fault", func() bool {
			calls := v.heard(r.mended)
			first := slices.IndexFunc(calls, isDecided)
			if first >= 0 {
				last = max(last, calls[first].end.Sub(r.mended))
			}
			return first >= 0
		})
	}
	r.t.Logf("everybody's requests were decided again %s after the fault", last)
	const steady = 15
	redistest.Await(r.t, servetest.Patience, "decisions stay", func() bool {
		for _, v := range r.voices {
			calls := v.heard(r.mended)
			if len(calls) < steady || slices.ContainsFunc(calls[len(calls)-steady:], isUndecided) {
				return false
			}
		}
		return true
	})
	r.awaitCircuits(0)
	for _, c := range r.circuits {
		redistest.Await(r.t, servetest.Patience, "the circuit is closed", func() bool { return c.State() == wrap.Closed })
	}
}

// awaitBinding wants every budget to be spent and to have room again since a time.
func (r *run) awaitBinding(since time.Time) {
	r.t.Helper()
	for _, b := range []*budget{r.crowd, r.rules} {
		redistest.Await(r.t, servetest.Patience, b.name+": the limit binds", func() bool {
			var n [wrong + 1]int
			for _, v := range r.voices {
				if v.budget == b {
					for _, c := range v.heard(since) {
						n[c.verdict]++
					}
				}
			}
			return n[refused] > 5 && n[admitted] > b.quota/2
		})
	}
}

func (r *run) check() {
	for _, v := range r.voices {
		r.checkWaits(v)
		r.checkEffect(v)
	}
	if n := r.undecided(r.breaking, r.mended); r.effect == some && n == 0 {
		r.t.Error("the fault kept nobody from being decided")
	}
	byShare := map[string]float64{
		"fallback": float64(r.fallback.Stats().Decided), "sharing": r.sharing.Metrics()["slidegate_fallback_decisions_total"],
	}
	for name, n := range byShare {
		if r.effect == all && n == 0 {
			r.t.Errorf("%s decided nothing by its share", name)
		}
	}
	if r.effect != away {
		r.checkCounts()
	}
	r.checkBudgets()
}

// checkCounts wants the service to have been asked for those alone who were let through, and the metrics to have counted
// who could not be decided.
func (r *run) checkCounts() {
	through, undecided := 0, map[*servetest.Replica]int{}
	for _, v := range r.voices {
		calls := v.heard(time.Time{})
		if strings.HasSuffix(v.name, "proxy") {
			through += count(calls, func(c call) bool { return c.verdict == admitted || c.verdict == passed })
		}
		if v.budget == r.crowd {
			undecided[v.at] += count(calls, isUndecided)
		}
	}
	if n := int(r.upstream.served.Load()); n != through {
		r.t.Errorf("%d requests were let through, and %d reached the service", through, n)
	}
	for _, at := range r.replicas {
		if n := int(at.Metrics()["slidegate_store_errors_total"]); n != undecided[at] {
			r.t.Errorf("%s: %d requests were not decided, and %d were counted", at.Name, undecided[at], n)
		}
	}
}

// isAway tells whether a call met a replica that was not there, or stood still.
func (r *run) isAway(v *voice, c call) bool {
	return r.effect == away && v.at == r.open && c.end.After(r.breaking) && c.begin.Before(r.mended)
}

// checkPolicies wants every answer to be one that was promised.
func (r *run) checkPolicies() {
	for _, v := range r.voices {
		r.checkPolicy(v)
	}
}

func (r *run) checkPolicy(v *voice) {
	for _, c := range v.heard(time.Time{}) {
		ok := c.verdict.isDecision() || c.verdict == v.undecided || c.verdict == lost && r.isAway(v, c)
		if !ok {
			r.t.Errorf("%s: a request was %s %s %s", v.name, c.verdict, r.when(c), c.note)
			return
		}
	}
}

// when tells when a call began.
func (r *run) when(c call) string {
	return fmt.Sprintf("%s after the fault began, %s after it was mended", c.begin.Sub(r.breaking), c.begin.Sub(r.mended))
}

// checkWaits wants no request to have waited past the deadline, and most not to have waited.
func (r *run) checkWaits(v *voice) {
	for _, c := range v.heard(time.Time{}) {
		if c.took() > timeout+slack && !r.isAway(v, c) {
			r.t.Errorf("%s: a request took %s, %s", v.name, c.took(), r.when(c))
		}
	}
	if r.effect != all {
		return
	}
	var waits []time.Duration
	for _, c := range v.within(r.broken, r.mending) {
		waits = append(waits, c.took())
	}
	slices.Sort(waits)
	if len(waits) == 0 || waits[len(waits)/2] > timeout/2 {
		r.t.Errorf("%s: of %d requests during the outage half waited for longer than half of the timeout: %s", v.name, len(waits), waits)
	}
}

// checkEffect wants decisions to be made, or not, as the table says.
func (r *run) checkEffect(v *voice) {
	if v.isBackup {
		return // it always decides
	}
	const settled = 100 * time.Millisecond // what was under way has come to its end
	during := v.within(r.breaking, r.mended)
	n := count(during, isUndecided)
	switch {
	case r.effect == all:
		dark := v.within(r.broken.Add(settled), r.mending)
		if n := count(dark, isDecided); n > 0 || len(dark) == 0 {
			r.t.Errorf("%s: of %d requests during the outage %d were decided", v.name, len(dark), n)
		}
	case r.effect == none || r.effect == away && v.at != r.open:
		if n > 2+len(during)/4 { // a busy machine may keep some from their answer in time
			r.t.Errorf("%s: of %d requests during the fault %d were not decided", v.name, len(during), n)
		}
	}
}

// undecided counts requests between two times.
func (r *run) undecided(from, to time.Time) (n int) {
	for _, v := range r.voices {
		n += count(v.within(from, to), isUndecided)
	}
	return n
}

// checkBudgets wants no window to hold more than the bound. Redis holds to the quota, and to another one for those
// who ask after it has forgotten; each fallback holds to its share.
func (r *run) checkBudgets() {
	for _, b := range []*budget{r.crowd, r.rules} {
		bound := b.quota
		if r.forgets {
			bound *= 2
		}
		var byRedis, byAnybody []call
		for _, v := range r.voices {
			if v.budget != b {
				continue
			}
			byAnybody = append(byAnybody, v.heard(time.Time{})...)
			if v.isBackup {
				continue
			}
			byRedis = append(byRedis, v.heard(time.Time{})...)
		}
		ofRedis, ofAll := most(byRedis, b.window), most(byAnybody, b.window)
		r.t.Logf("%s: in one window Redis admitted %d at most, and all together %d, of %d", b.name, ofRedis, ofAll, b.quota)
		if ofRedis > bound {
			r.t.Errorf("%s: Redis admitted %d in one window, want %d at most", b.name, ofRedis, bound)
		}
		if ofAll < b.quota/2 {
			r.t.Errorf("%s: %d were admitted in one window, want %d at least: all is asked for", b.name, ofAll, b.quota/2)
		}
		if b == r.crowd && ofAll > bound+shares {
			r.t.Errorf("%s: %d were admitted in one window, want %d at most", b.name, ofAll, bound+shares)
		}
	}
}

// end tells the replicas to end, and looks at what they said.
func (r *run) end() {
	for _, at := range r.replicas {
		at.Signal(syscall.SIGTERM)
		at.AwaitEnd()
		said := at.Said()
		if strings.Contains(said, "panic") || strings.Contains(said, "DATA RACE") || strings.Contains(said, who) || strings.Count(said, "level=") > 12 {
			r.t.Errorf("%s said\n%s", at.Name, said)
		}
	}
}
