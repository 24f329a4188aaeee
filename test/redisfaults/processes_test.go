package redisfaults_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	processes   = 16
	sharedQuota = 2000
	childEnv    = "REDISFAULTS_CHILD" // address, client and clock of a child
)

// TestManyProcessesAreOneLimiter: sixteen of them ask for one key, and admit exactly its quota. Half
// of them have clocks that are decades and minutes apart, which makes no difference. Not side by side
// with tests of faults: it keeps the machine busy.
func TestManyProcessesAreOneLimiter(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { testManyProcesses(t, c.name, c.connect) })
	}
}

func testManyProcesses(t *testing.T, name string, connect connect) {
	server := redistest.Standalone(t)
	reports := make([]report, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			clock := "real"
			if i%2 == 1 {
				clock = strconv.Itoa(5 * i)
			}
			reports[i] = runChild(server.Addr + "," + name + "," + clock)
		})
	}
	all.Wait()
	sum := int64(0)
	for i, r := range reports {
		if r.err != nil {
			t.Fatalf("process %d: %v", i, r.err)
		}
		sum += r.admitted
		if apart := time.Since(time.UnixMilli(r.at)); apart < 0 || apart > time.Minute {
			t.Errorf("process %d decided by a clock that is %s behind the server's", i, apart)
		}
	}
	if sum != sharedQuota {
		t.Errorf("%d processes admitted %d, want %d", processes, sum, sharedQuota)
	}
	l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)), shared)
	if d, err := l.Peek(background, key); err != nil || d.Remaining() != 0 || d.ResetAfter() > time.Hour {
		t.Errorf("in the end: %v, %v", d, err)
	}
}

var shared = slidegate.PerHour(sharedQuota).Named("shared")

// A report is what a child found.
type report struct {
	admitted int64
	at       int64 // of its last decision, in milliseconds since the Unix epoch
	err      error
}

func runChild(env string) (r report) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+env)
	out, err := cmd.CombinedOutput()
	_, line, _ := bytes.Cut(out, []byte("report "))
	if _, scanErr := fmt.Sscanf(string(line), "%d %d", &r.admitted, &r.at); err != nil || scanErr != nil {
		r.err = fmt.Errorf("%v, %v: %s", err, scanErr, out)
	}
	return r
}

// TestChild is one of the processes. Its clock is the real one, or one that began at the year 2000
// and is some minutes ahead of that.
func TestChild(t *testing.T) {
	fields := strings.Split(os.Getenv(childEnv), ",")
	if len(fields) != 3 {
		return
	}
	var client redisstore.Client
	for _, c := range clients {
		if c.name == fields[1] {
			client = c.connect(t, target{addrs: fields[:1]})
		}
	}
	if fields[2] == "real" {
		askForAll(t, client)
		return
	}
	minutes, err := strconv.Atoi(fields[2])
	mustDo(t, err)
	outside := newBridge(client)
	defer outside.close()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Duration(minutes) * time.Minute)
		if time.Now().Year() != 2000 {
			t.Fatal("the clock is not the one of the bubble")
		}
		askForAll(t, outside)
	})
}

// askForAll asks for more than there is, four at a time, and reports.
func askForAll(t *testing.T, client redisstore.Client) {
	l, err := slidegate.New(redisstore.New(client, redisstore.WithTimeout(generous)), shared)
	mustDo(t, err)
	var admitted, at atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range sharedQuota / 8 {
				d, err := l.Take(background, key)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
				at.Store(d.At().UnixMilli())
			}
		})
	}
	callers.Wait()
	fmt.Println("report", admitted.Load(), at.Load())
}

// A bridge lets a store in a bubble of package synctest, whose clock is its own, ask a client that is
// outside of it, where the network is. Nothing that is made inside may be used outside.
type bridge struct {
	client   redisstore.Client
	requests chan request
	replies  chan chan answer // made outside, and lent
}

type request struct {
	script     *redisstore.Script
	keys, args []string
	reply      chan answer
}

type answer struct {
	integers []int64
	err      error
}

func newBridge(client redisstore.Client) *bridge {
	const width = 8
	b := &bridge{client: client, requests: make(chan request), replies: make(chan chan answer, width)}
	for range width {
		b.replies <- make(chan answer)
		go func() {
			for r := range b.requests {
				integers, err := b.client.Run(background, r.script, r.keys, r.args)
				r.reply <- answer{integers, err}
			}
		}()
	}
	return b
}

func (b *bridge) close() { close(b.requests) }

// Run implements [redisstore.Client].
func (b *bridge) Run(_ context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	reply := <-b.replies
	defer func() { b.replies <- reply }()
	b.requests <- request{s, keys, args, reply}
	a := <-reply
	return a.integers, a.err
}
