package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// A fault is a row of the table: adding one is one line here and one on the page.
type fault struct {
	name   string       // of the subtest
	what   string       // happens, as the page has it
	redis  func(*stage) // which servers there are
	breaks func(*stage)
	lasts  time.Duration // from then until it is mended
	mends  func(*stage)
	effect
	forgets bool // what was charged is gone
}

// An effect is what becomes of decisions while a fault lasts.
type effect uint8

const (
	none effect = iota // all are made
	some               // some are not made
	few                // some may not be made
	all                // none is made
	away               // those of the replica at hand wait, or are not asked for; all others are made
)

// long is longer than anybody may wait: whoever waits for the end of the fault is found out.
const long = timeout + slack + 750*time.Millisecond

var faults = []fault{
	{"Killed", "Redis crashes and starts empty", alone, kill, long, start, all, true},
	{"Restarted", "Redis crashes and is back at once, empty", alone, restart, 0, nothing, some, true},
	{"Persistent", "Redis crashes and starts with what it held (AOF)", onDisk, kill, long, start, all, false},
	{"Frozen", "Redis stands still (SIGSTOP)", alone, freeze, long, thaw, all, false},
	{"Slow", "every answer of Redis comes too late", alone, delay, long, pass, all, false},
	{"Laggard", "every answer of Redis takes a fifth of the timeout", alone, lag, long, pass, none, false},
	{"Lost", "the network loses everything", alone, blackhole, long, pass, all, false},
	{"Refused", "nothing listens where Redis was", alone, refuse, long, pass, all, false},
	{"Cut", "connections are cut, again and again", alone, cut, 0, nothing, some, false},
	{"Flapping", "Redis comes and goes, again and again", alone, flap, 0, nothing, some, false},
	{"ScriptsFlushed", "Redis forgets the scripts, again and again (SCRIPT FLUSH)", alone, flushScripts, 0, nothing, none, false},
	{"Emptied", "Redis forgets everything (FLUSHALL)", alone, flushAll, 0, nothing, none, true},
	{"Full", "Redis has no memory left (noeviction)", alone, fill, long, drain, some, false},
	{"Demoted", "Redis is made a replica, and a primary again (READONLY)", alone, demote, long, promote, some, false},
	{"Moved", "a replica is promoted, then the address moves to it", replicated, swap, long, retarget, some, true},
	{"FailedOver", "the primary crashes and a sentinel promotes the replica", sentinel, kill, 0, awaitFailover, some, true},
	{"Commanded", "a sentinel is told to promote the replica of a primary that is well", sentinel, failover, 0, nothing, few, true},
	{"Late", "Redis is not there yet at the start", absent, nothing, long, start, all, false},
	{"ReplicaKilled", "one of two replicas of the command crashes and is started again", alone, killReplica, time.Second, startReplica, away, false},
	{"ReplicaEnded", "one of two replicas is told to end (SIGTERM) and is started again", alone, endReplica, 0, startReplica, away, false},
	{"ReplicaFrozen", "one of two replicas stands still (SIGSTOP)", alone, freezeReplica, time.Second, thawReplica, away, false},
}

// The servers that there are.

func alone(s *stage) {
	s.server = redistest.Standalone(s.t, redistest.With("maxmemory-policy", "noeviction"))
	s.proxy = redistest.NewProxy(s.t, s.server.Addr)
}

func onDisk(s *stage) {
	s.server = redistest.Standalone(s.t, redistest.With("appendonly", "yes"), redistest.With("appendfsync", "always"))
	s.proxy = redistest.NewProxy(s.t, s.server.Addr)
}

func absent(s *stage) {
	s.server = redistest.NewServer(s.t)
	s.proxy = redistest.NewProxy(s.t, s.server.Addr)
}

func replicated(s *stage) {
	s.pair = redistest.PrimaryReplica(s.t)
	s.server = s.pair.Primary
	s.proxy = redistest.NewProxy(s.t, s.server.Addr)
}

func sentinel(s *stage) {
	s.watched = redistest.Sentinel(s.t)
	s.server = s.watched.Primary
}

// How things break and are mended.

func nothing(*stage)         {}
func kill(s *stage)          { s.server.Kill() }
func start(s *stage)         { s.server.Start() }
func restart(s *stage)       { s.server.Kill(); s.server.Start() }
func freeze(s *stage)        { s.server.Freeze() }
func thaw(s *stage)          { s.server.Thaw() }
func delay(s *stage)         { s.proxy.Delay(2 * timeout) }
func lag(s *stage)           { s.proxy.Delay(timeout / 5) }
func blackhole(s *stage)     { s.proxy.Blackhole() }
func refuse(s *stage)        { s.proxy.Refuse() }
func pass(s *stage)          { s.proxy.Pass() }
func flushAll(s *stage)      { s.server.Flush() }
func fill(s *stage)          { s.server.Set("maxmemory", "1") }
func drain(s *stage)         { s.server.Set("maxmemory", "0") }
func demote(s *stage)        { s.server.Do("REPLICAOF", "127.0.0.1", "1") }
func promote(s *stage)       { s.server.Do("REPLICAOF", "NO", "ONE") }
func swap(s *stage)          { s.pair.Swap(); s.server = s.pair.Primary }
func retarget(s *stage)      { s.proxy.Retarget(s.server.Addr) }
func failover(s *stage)      { s.watched.Failover(); s.server = s.watched.Primary }
func killReplica(s *stage)   { s.open.kill() }
func startReplica(s *stage)  { s.open.start() }
func freezeReplica(s *stage) { s.open.signal(syscall.SIGSTOP) }
func thawReplica(s *stage)   { s.open.signal(syscall.SIGCONT) }

func awaitFailover(s *stage) {
	s.watched.AwaitFailover()
	s.server = s.watched.Primary
}

// again does something n times, so often.
func again(n int, every time.Duration, do func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range n {
		do()
		<-tick.C
	}
}

func cut(s *stage) { again(10, 100*time.Millisecond, s.proxy.CutAll) }
func flushScripts(s *stage) {
	again(60, 25*time.Millisecond, func() { s.server.Do("SCRIPT", "FLUSH") })
}

func flap(s *stage) {
	isOpen := true
	again(8, 300*time.Millisecond, func() {
		if isOpen {
			s.proxy.Refuse()
		} else {
			s.proxy.Pass()
		}
		isOpen = !isOpen
	})
}

// endReplica ends a replica while a request is under way in it, which has its answer all the same.
func endReplica(s *stage) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.open.door("listening")+"/slow", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("X-Client", "patient")
	status := make(chan string, 1)
	go func() {
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			status <- err.Error()
			return
		}
		response.Body.Close()
		status <- response.Status
	}()
	<-s.upstream.slow
	s.open.signal(syscall.SIGTERM)
	redistest.Await(s.t, patience, "the replica says that it drains", func() bool {
		status, _ := s.open.get("/readyz")
		return status == http.StatusServiceUnavailable
	})
	close(s.upstream.letGo)
	if got := <-status; got != "200 OK" {
		s.t.Errorf("what was under way got %s", got)
	}
	s.open.await()
}

// TestFaults breaks and mends, one fault after another, while everybody asks.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := &run{fault: f, stage: newStage(t, f.redis)}
			defer r.checkPolicies() // also where play gives up
			r.play()
			r.check()
			r.end()
		})
	}
}

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
	for _, at := range []*replica{r.open, r.closed} {
		redistest.Await(r.t, patience, at.name+": the circuit is open", func() bool { return at.metrics()["slidegate_circuit_open"] == 1 })
	}
	if status, text := r.open.get("/readyz"); status != http.StatusOK || !strings.Contains(text, "requests pass") {
		r.t.Errorf("open: /readyz is %d, %q", status, text)
	}
	if status, text := r.closed.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "requests get 503") {
		r.t.Errorf("closed: /readyz is %d, %q", status, text)
	}
}

// awaitDecided wants everybody's requests to be decided soon after the fault is mended, by Redis, and then all of them.
func (r *run) awaitDecided() {
	r.t.Helper()
	for _, v := range r.voices {
		redistest.Await(r.t, time.Until(r.mended.Add(backIn+2*slack)), v.name+": a decision after the fault", func() bool {
			return slices.ContainsFunc(v.heard(r.mended), isDecided)
		})
	}
	const steady = 15
	redistest.Await(r.t, patience, "decisions stay", func() bool {
		for _, v := range r.voices {
			calls := v.heard(r.mended)
			if len(calls) < steady || slices.ContainsFunc(calls[len(calls)-steady:], isUndecided) {
				return false
			}
		}
		return true
	})
	for _, c := range r.circuits {
		redistest.Await(r.t, patience, "the circuit is closed", func() bool { return c.State() == wrap.Closed })
	}
}

// awaitBinding wants every budget to be spent and to have room again since a time.
func (r *run) awaitBinding(since time.Time) {
	r.t.Helper()
	for _, b := range []*budget{r.crowd, r.rules} {
		redistest.Await(r.t, patience, b.name+": the limit binds", func() bool {
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
	if n := r.fallback.Stats().Decided; r.effect == all && n == 0 {
		r.t.Error("the fallback was not needed")
	}
	if r.effect != away {
		r.checkCounts()
	}
	r.checkBudgets()
}

// checkCounts wants the service to have been asked for those alone who were let through, and the metrics to have counted
// who could not be decided.
func (r *run) checkCounts() {
	through, undecided := 0, map[*replica]int{}
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
	for _, at := range []*replica{r.open, r.closed} {
		if n := int(at.metrics()["slidegate_store_errors_total"]); n != undecided[at] {
			r.t.Errorf("%s: %d requests were not decided, and %d were counted", at.name, undecided[at], n)
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
		ok := c.verdict.isDecision() || c.verdict == v.undecided && c.verdict != wrong || c.verdict == lost && r.isAway(v, c)
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
		if n > len(during)/20 { // a busy machine may keep one from its answer in time
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
// who ask after it has forgotten; a fallback holds to its share.
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
		if n := most(byRedis, b.window); n > bound || n < b.quota/2 {
			r.t.Errorf("%s: Redis admitted %d in one window, want %d at most, and %d at least since all is asked for", b.name, n, bound, b.quota/2)
		}
		if n := most(byAnybody, b.window); b == r.crowd && n > bound+share {
			r.t.Errorf("%s: %d were admitted in one window, want %d at most", b.name, n, bound+share)
		}
	}
}

// end tells the replicas to end, and looks at what they said.
func (r *run) end() {
	for _, at := range []*replica{r.open, r.closed} {
		at.signal(syscall.SIGTERM)
		at.await()
		said := at.process().log.String()
		if strings.Contains(said, "panic") || strings.Contains(said, "DATA RACE") || strings.Contains(said, who) || strings.Count(said, "level=") > 12 {
			r.t.Errorf("%s said\n%s", at.name, said)
		}
	}
}
