package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// TestChild is what this test binary does as a child of one of the tests below, and nothing else.
func TestChild(t *testing.T) {
	role := os.Getenv("REDISTEST_CHILD")
	if role == "" {
		return
	}
	servers := 1
	if role == "crowds" {
		servers = 12
	}
	for range servers {
		s := redistest.Standalone(t)
		fmt.Printf("server %d %s %s\n", s.PID(), s.Addr, s.Dir)
	}
	switch role {
	case "fails":
		t.Fatal("as it should")
	case "panics":
		panic("as it should")
	case "crashes":
		crash := make(chan struct{})
		go func() { defer close(crash); panic("as it should") }()
		<-crash
	}
	io.Copy(io.Discard, os.Stdin) // until the parent closes it, or kills
}

// A child is another process of this test binary, and the servers that it has started.
type child struct {
	cmd     *exec.Cmd
	input   io.Closer
	output  *bufio.Reader
	servers []childServer
}

type childServer struct {
	pid       int
	addr, dir string
}

func newChild(t *testing.T, role string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(append(os.Environ(), "REDISTEST_CHILD="+role), env...)
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
	return &child{cmd: cmd, input: input, output: bufio.NewReader(output)}
}

// awaitServers reads of n servers that have been started.
func (c *child) awaitServers(t *testing.T, n int) {
	t.Helper()
	for range n {
		line, err := c.output.ReadString('\n')
		var s childServer
		if _, scanErr := fmt.Sscanf(line, "server %d %s %s", &s.pid, &s.addr, &s.dir); err != nil || scanErr != nil {
			t.Fatalf("the child said %q: %v, %v", line, err, scanErr)
		}
		c.servers = append(c.servers, s)
	}
}

// end lets the child end by itself and returns what else it said.
func (c *child) end() string {
	c.input.Close()
	rest, _ := io.ReadAll(c.output)
	c.cmd.Wait()
	return string(rest)
}

// gone tells whether nobody listens any more and nothing is left on disk. The process may still be in
// the table of processes, since its parent is not there to see it off.
func gone(s childServer) bool {
	c, err := redistest.Dial(s.addr)
	if err == nil {
		c.Close()
		return false
	}
	_, err = os.Stat(s.dir)
	return errors.Is(err, fs.ErrNotExist)
}

// TestServersGoWithTheirTest, however it ends.
func TestServersGoWithTheirTest(t *testing.T) {
	for _, c := range []struct {
		role string
		end  func(*child)
		says string
	}{
		{"passes", func(c *child) {}, "PASS"},
		{"fails", func(c *child) {}, "as it should"},
		{"panics", func(c *child) {}, "--- FAIL"},
		{"crashes", func(c *child) {}, ""}, // it says so on its standard error
		{"killed", func(c *child) { c.cmd.Process.Kill() }, ""},
		{"interrupted", func(c *child) { c.cmd.Process.Signal(syscall.SIGINT) }, ""},
	} {
		t.Run(c.role, func(t *testing.T) {
			child := newChild(t, c.role)
			child.awaitServers(t, 1)
			c.end(child)
			if said := child.end(); !strings.Contains(said, c.says) {
				t.Errorf("the child said %q", said)
			}
			redistest.Await(t, soon, "nothing left of "+child.servers[0].dir, func() bool { return gone(child.servers[0]) })
		})
	}
}

// TestTestsSideBySideDoNotDisturbEachOther: four processes that start twelve servers each get
// different ports, and every server is the one that was started.
func TestTestsSideBySideDoNotDisturbEachOther(t *testing.T) {
	var children []*child
	for range 4 {
		children = append(children, newChild(t, "crowds"))
	}
	seen := map[string]bool{}
	for _, c := range children {
		c.awaitServers(t, 12)
		for _, s := range c.servers {
			if seen[s.addr] {
				t.Errorf("two servers at %s", s.addr)
			}
			seen[s.addr] = true
			if got := pidAt(t, s.addr); got != fmt.Sprint(s.pid) {
				t.Errorf("process %s at %s, want %d", got, s.addr, s.pid)
			}
		}
	}
	for _, c := range children {
		c.end()
	}
}

func pidAt(t *testing.T, addr string) string {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	info, err := c.Do("INFO", "server")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info.(string), "process_id:")
	pid, _, _ := strings.Cut(rest, "\r\n")
	return pid
}

// TestTheServerIsTheOneNamed in the environment, else redis-server, else valkey-server, and without
// any the test fails and says what to install.
func TestTheServerIsTheOneNamed(t *testing.T) {
	binary := redistest.Binary(t)
	only := func(name string) string {
		dir := t.TempDir()
		script := "#!/bin/sh\nexec " + binary + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		name  string
		env   []string
		fails string
	}{
		{"named", []string{"PATH=", "SLIDEGATE_REDIS_SERVER=" + binary}, ""},
		{"redis", []string{"PATH=" + only("redis-server"), "SLIDEGATE_REDIS_SERVER="}, ""},
		{"valkey", []string{"PATH=" + only("valkey-server"), "SLIDEGATE_REDIS_SERVER="}, ""},
		{"none", []string{"PATH=" + t.TempDir(), "SLIDEGATE_REDIS_SERVER="}, "install the package redis-server"},
		{"wrong", []string{"SLIDEGATE_REDIS_SERVER=nobody-has-this"}, "SLIDEGATE_REDIS_SERVER names no program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			child := newChild(t, c.name, c.env...)
			if c.fails == "" {
				child.awaitServers(t, 1)
			}
			said := child.end()
			if !strings.Contains(said, c.fails) || strings.Contains(said, "FAIL") == (c.fails == "") {
				t.Errorf("the child said %q", said)
			}
			for _, s := range child.servers {
				redistest.Await(t, soon, "nothing left of "+s.dir, func() bool { return gone(s) })
			}
		})
	}
}
