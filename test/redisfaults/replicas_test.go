package redisfaults_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

const replicaEnv = "REDISFAULTS_REPLICA" // the address of the Redis of a process that is counted

// A replica is a process that is counted. It leaves when leave is closed.
type replica struct {
	cmd   *exec.Cmd
	leave io.Closer
}

func startReplica(t *testing.T, addr string) replica {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReplica$")
	cmd.Env = append(os.Environ(), replicaEnv+"="+addr)
	in, err := cmd.StdinPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return replica{cmd, in}
}

// counting counts the processes of these tests, which live for a second.
func counting(t *testing.T, store *redisstore.Store) *wrap.Replicas {
	t.Helper()
	r, err := wrap.CountReplicas(store, wrap.WithLife(time.Second))
	mustDo(t, err)
	return r
}

// TestReplica is one of the processes.
func TestReplica(t *testing.T) {
	addr := os.Getenv(replicaEnv)
	if addr == "" {
		return
	}
	r := counting(t, redisstore.New(clients[0].connect(t, target{addrs: []string{addr}}), redisstore.WithTimeout(generous)))
	ctx, end := context.WithCancel(background)
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the parent closes it, or ends
		end()
	}()
	r.Run(ctx)
}

// TestProcessesAreCounted in a real Redis: those that come, one that is killed, one that leaves, and all of them again after the
// Redis has lost what it knew.
func TestProcessesAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	r := counting(t, redisstore.New(clients[0].connect(t, to(server)), redisstore.WithTimeout(generous)))
	counts := func(want int, why string) {
		t.Helper()
		redistest.Await(t, generous, why, func() bool {
			mustDo(t, r.Beat(background))
			return r.Live() == want
		})
	}
	counts(1, "this process alone")
	others := []replica{startReplica(t, server.Addr), startReplica(t, server.Addr), startReplica(t, server.Addr)}
	counts(4, "all processes are counted")
	server.Do("FLUSHALL")
	mustDo(t, r.Beat(background))
	if live := r.Live(); live != 4 {
		t.Errorf("%d live once the Redis has forgotten them", live)
	}
	counts(4, "all have come back")
	mustDo(t, others[0].cmd.Process.Kill())
	counts(3, "one that was killed is off the count")
	mustDo(t, others[1].leave.Close())
	counts(2, "one that left is off the count")
}

// TestReplicasAreCountedByTheInjectedClock: a life is over when that says so, on a server and on a cluster.
func TestReplicasAreCountedByTheInjectedClock(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]target{"single": to(redistest.Standalone(t)), "cluster": toCluster(redistest.Cluster(t))} {
		var now atomic.Int64
		clock := redisstore.WithClock(func() time.Time { return time.UnixMilli(now.Load()) })
		store := redisstore.New(clients[0].connect(t, at), redisstore.WithTimeout(generous), clock)
		stays, goes := counting(t, store), counting(t, store)
		mustDo(t, goes.Beat(background))
		for _, step := range []struct {
			after int64 // milliseconds
			want  int
		}{{0, 2}, {999, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 1}} { // fewer are believed at the fourth beat
			now.Add(step.after)
			mustDo(t, stays.Beat(background))
			if live := stays.Live(); live != step.want {
				t.Errorf("%s: at %d ms %d live, want %d", name, now.Load(), live, step.want)
			}
		}
	}
}
