package linear

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
	"golang.org/x/sys/unix"
)

const (
	envRedis   = "LINEAR_REDIS"   // the address; a child is who has it
	envLibrary = "LINEAR_LIBRARY" // its name
)

// sinceBoot is a clock that all processes of a machine share, and that nobody sets.
func sinceBoot() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// A child is another process of this test binary: a crowd that asks when it is told to.
type child struct {
	cmd    *exec.Cmd
	orders *json.Encoder
	input  io.Closer
	output *bufio.Reader
}

// An order is for a child: the crowd that it is.
type order struct {
	Process int
	Seed    uint64
	Name    string
}

func startChild(t *testing.T, addr, library string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), envRedis+"="+addr, envLibrary+"="+library)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, json.NewEncoder(input), input, bufio.NewReader(output)}
	t.Cleanup(func() {
		c.input.Close()
		io.Copy(io.Discard, c.output)
		c.cmd.Wait()
	})
	if line, err := c.output.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	return c
}

// TestChild is what this test binary does as a child, and nothing else.
func TestChild(t *testing.T) {
	addr := os.Getenv(envRedis)
	if addr == "" {
		return
	}
	l := slidegate.MustNew(storeOn(libraries[os.Getenv(envLibrary)](t, addr)), limits()...)
	if _, err := l.Peek(background, "ready"); err != nil { // it has connected
		t.Fatal(err)
	}
	fmt.Println("ready")
	answers := json.NewEncoder(os.Stdout)
	for orders := json.NewDecoder(os.Stdin); ; { // until the parent closes it, or is gone
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		c := crowd{callers: 4, calls: 30, keys: 2, process: o.Process, seed: o.Seed, name: o.Name}
		history, err := c.ask(l, sinceBoot)
		if err != nil {
			t.Fatal(err)
		}
		if err := answers.Encode(history); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDecisionsOfProcesses that share one Redis are linearizable together, whichever client each has.
func TestDecisionsOfProcesses(t *testing.T) {
	server := redistest.Standalone(t)
	var children []*child
	for _, library := range []string{"rueidis", "goredis", "rueidis", "goredis"} {
		children = append(children, startChild(t, server.Addr, library))
	}
	var seen census
	for seed := range uint64(20) {
		history := together(t, children, seed)
		seen.add(history)
		mustBeLinearizable(t, history)
	}
	seen.mustShowSomething(t)
	if seen.abroad < 1000 {
		t.Errorf("only %d pairs of calls of different processes overlapped", seen.abroad)
	}
}

// together lets all children ask at the same time, and returns what they were told as one history.
func together(t *testing.T, children []*child, seed uint64) (history []operation) {
	t.Helper()
	for i, c := range children {
		if err := c.orders.Encode(order{Process: i, Seed: seed, Name: fmt.Sprint(seed)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range children {
		line, err := c.output.ReadBytes('\n')
		var part []operation
		if err == nil {
			err = json.Unmarshal(line, &part)
		}
		if err != nil {
			t.Fatalf("a child said %q: %v", line, err)
		}
		history = append(history, part...)
	}
	return history
}
