package redistest

import (
	"strconv"
	"testing"
)

// A ReplicatedPair is a primary with one replica that has all that the primary has.
type ReplicatedPair struct {
	Primary, Replica *Server

	t testing.TB
}

// PrimaryReplica starts a primary and its replica, which is in sync, and stops them when the test ends.
func PrimaryReplica(t testing.TB, options ...Option) *ReplicatedPair {
	t.Helper()
	options = append([]Option{With("repl-diskless-sync", "yes"), With("repl-diskless-sync-delay", "0")}, options...)
	p := &ReplicatedPair{t: t, Primary: Standalone(t, options...), Replica: Standalone(t, options...)}
	withoutTLS(p.Primary)
	p.Replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(p.Primary.Port))
	p.AwaitSync()
	return p
}

// AwaitSync waits until the replica has all that the primary has had so far.
func (p *ReplicatedPair) AwaitSync() {
	p.t.Helper()
	Await(p.t, settleTime, "a replica in sync", func() bool {
		primary, err := p.Primary.tryInfo("replication")
		if err != nil {
			return false
		}
		replica, err := p.Replica.tryInfo("replication")
		return err == nil && replica["role"] == "slave" && replica["master_link_status"] == "up" &&
			replica["slave_repl_offset"] == primary["master_repl_offset"]
	})
}

// Promote makes the replica a primary, and leaves the old primary as it is, which may be dead.
func (p *ReplicatedPair) Promote() {
	p.t.Helper()
	p.Replica.Do("REPLICAOF", "NO", "ONE")
}

// Swap lets the two change roles: the replica is promoted and the old primary follows it, so that
// it answers READONLY to whoever still writes to it. Primary and Replica change with them.
func (p *ReplicatedPair) Swap() {
	p.t.Helper()
	p.Promote()
	p.Primary, p.Replica = p.Replica, p.Primary
	p.Replica.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(p.Primary.Port))
	p.AwaitSync()
}

// A Watched is a primary with a replica and a sentinel that promotes the replica when the primary
// does not answer for one and a half seconds.
type Watched struct {
	*ReplicatedPair
	Sentinel *Server
	Name     string // of the primary, as the sentinel knows it
}

// Sentinel starts a primary, its replica and one sentinel, and stops them when the test ends.
func Sentinel(t testing.TB, options ...Option) *Watched {
	t.Helper()
	w := &Watched{ReplicatedPair: PrimaryReplica(t, options...), Name: "primary"}
	w.Sentinel = newSentinel(t, w)
	w.Sentinel.Start()
	// Sentinels look every ten seconds unless told otherwise, and those before 7 cannot be told.
	w.Sentinel.Try("SENTINEL", "DEBUG", "INFO-PERIOD", "200")
	w.Sentinel.Try("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "200")
	Await(t, settleTime, "a sentinel that knows the replica", func() bool {
		known, err := w.Sentinel.Try("SENTINEL", "REPLICAS", w.Name)
		replicas, _ := known.([]any)
		return err == nil && len(replicas) == 1 && fieldOf(replicas[0], "master-link-status") == "ok"
	})
	return w
}

func newSentinel(t testing.TB, w *Watched) *Server {
	t.Helper()
	s := &Server{t: t, binary: Binary(t), Dir: newDir(t), Port: reservePort(t), mode: "--sentinel"}
	s.Addr = addrOf(s.Port)
	s.configure("bind", "127.0.0.1")
	s.configure("protected-mode", "no")
	s.configure("sentinel", "monitor", w.Name, "127.0.0.1", strconv.Itoa(w.Primary.Port), "1")
	s.configure("sentinel", "down-after-milliseconds", w.Name, "1500")
	s.configure("sentinel", "failover-timeout", w.Name, "3000")
	if w.Primary.password != "" {
		s.configure("sentinel", "auth-pass", w.Name, w.Primary.password)
	}
	t.Cleanup(s.end)
	return s
}

// fieldOf reads a field of a reply that lists names and values.
func fieldOf(reply any, name string) string {
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			value, _ := list[i+1].(string)
			return value
		}
	}
	return ""
}

// AwaitFailover waits until the sentinel has promoted the replica, for instance after
// Primary.Kill. Primary and Replica change: Replica is the old primary, which may be dead.
func (w *Watched) AwaitFailover() {
	w.t.Helper()
	port := strconv.Itoa(w.Replica.Port)
	Await(w.t, settleTime, "the failover", func() bool {
		reply, err := w.Sentinel.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", w.Name)
		addr, _ := reply.([]any)
		if err != nil || len(addr) != 2 || addr[1] != port {
			return false
		}
		info, err := w.Replica.tryInfo("replication")
		return err == nil && info["role"] == "master"
	})
	w.Primary, w.Replica = w.Replica, w.Primary
}

// Failover lets the sentinel promote the replica of a primary that lives. The old primary follows
// it, and closes no connection for that: whoever writes to it is answered READONLY.
func (w *Watched) Failover() {
	w.t.Helper()
	w.Sentinel.Do("SENTINEL", "FAILOVER", w.Name)
	w.AwaitFailover()
	w.AwaitSync()
}
