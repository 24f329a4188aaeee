package chaos

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/servetest"
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
	{"Unheard", "answers of Redis are lost, again and again", alone, loseAnswers, 0, pass, some, false},
	{"Flapping", "Redis comes and goes, again and again", alone, flap, 0, nothing, some, false},
	{"ScriptsFlushed", "Redis forgets the scripts, again and again (SCRIPT FLUSH)", alone, flushScripts, 0, nothing, none, false},
	{"Emptied", "Redis forgets everything (FLUSHALL)", alone, flushAll, 0, nothing, none, true},
	{"Full", "Redis has no memory left (noeviction)", alone, fill, long, drain, some, false},
	{"Forbidden", "the user of Redis may not run scripts any more (NOPERM)", alone, forbid, long, allow, all, false},
	{"Demoted", "Redis is made a replica, and a primary again (READONLY)", alone, demote, long, promote, some, false},
	{"Moved", "a replica is promoted, then the address moves to it", replicated, swap, long, retarget, some, true},
	{"FailedOver", "the primary crashes and a sentinel promotes the replica", sentinel, kill, 0, awaitFailover, some, true},
	{"Commanded", "a sentinel is told to promote the replica of a primary that is well", sentinel, failover, 0, nothing, few, true},
	{"NodeKilled", "a node of a cluster crashes and starts empty", cluster, kill, long, startNode, some, true},
	{"SlotMoved", "what is counted moves to another node of a cluster, and back, again and again", cluster, moveSlot, 0, nothing, none, false},
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

func cluster(s *stage) {
	s.cluster = redistest.Cluster(s.t)
	s.server = s.cluster.OwnerOf(s.cluster.SlotOf("{" + key + "}"))
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
func forbid(s *stage)        { s.server.Do("ACL", "SETUSER", "default", "-eval", "-evalsha") }
func allow(s *stage)         { s.server.Do("ACL", "SETUSER", "default", "+@all") }
func demote(s *stage)        { s.server.Do("REPLICAOF", "127.0.0.1", "1") }
func promote(s *stage)       { s.server.Do("REPLICAOF", "NO", "ONE") }
func swap(s *stage)          { s.pair.Swap(); s.server = s.pair.Primary }
func retarget(s *stage)      { s.proxy.Retarget(s.server.Addr) }
func failover(s *stage)      { s.watched.Failover(); s.server = s.watched.Primary }
func killReplica(s *stage)   { s.open.Kill() }
func startReplica(s *stage)  { s.open.Start() }
func freezeReplica(s *stage) { s.open.Signal(syscall.SIGSTOP) }
func thawReplica(s *stage)   { s.open.Signal(syscall.SIGCONT) }

func awaitFailover(s *stage) {
	s.watched.AwaitFailover()
	s.server = s.watched.Primary
}

func startNode(s *stage) {
	s.server.Start()
	s.cluster.AwaitOK()
}

func moveSlot(s *stage) {
	other := s.cluster.OtherThan(s.server)
	again(4, 250*time.Millisecond, func() {
		s.cluster.MoveSlot(s.cluster.SlotOf("{"+key+"}"), other)
		other, s.server = s.server, other
	})
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

func loseAnswers(s *stage) {
	again(30, 50*time.Millisecond, func() { s.proxy.CutReply("evalsha", 1) })
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
	ctx, cancel := context.WithTimeout(context.Background(), servetest.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.open.Door(servetest.Proxy)+"/slow", nil)
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
	select {
	case <-s.upstream.slow:
	case got := <-status:
		s.t.Fatalf("the service was not reached: %s", got)
	}
	s.open.Signal(syscall.SIGTERM)
	redistest.Await(s.t, servetest.Patience, "the replica says that it drains", func() bool {
		status, _ := s.open.Get("/readyz")
		return status == http.StatusServiceUnavailable
	})
	s.upstream.letGo()
	if got := <-status; got != "200 OK" {
		s.t.Errorf("what was under way got %s", got)
	}
	s.open.AwaitEnd()
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
