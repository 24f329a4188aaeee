package bench

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A program is a server in a process of its own, at a free port of 127.0.0.1.
type program struct {
	addr string

	cmd   *exec.Cmd
	said  bytes.Buffer // on stderr; read once it has ended
	ended chan struct{}
}

// startTime is how long a program may take to listen.
const startTime = 20 * time.Second

// startProgram starts a program that listens on an address, and returns when it does. What it prints is dropped, unless it ends.
func startProgram(addr string, cmd *exec.Cmd) (*program, error) {
	p := &program{addr: addr, cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(p.ended)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s has ended: %s", filepath.Base(cmd.Path), strings.TrimSpace(p.said.String()))
		case <-tick.C:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			return p, c.Close()
		}
	}
	p.stop()
	return nil, fmt.Errorf("%s does not listen on %s within %s: %s", filepath.Base(cmd.Path), addr, startTime, p.said.String())
}

func (p *program) stop() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.ended
}

// freeAddr returns an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// programs are the servers of a run, and where they were built. The zero value has none; one goroutine at a time may use it.
type programs struct {
	dir     string
	built   map[string]string
	running []*program
}

// build compiles a package once and returns the path of the program: one of this workspace, or, with a version behind an @,
// one of others with what its own go.mod requires.
func (s *programs) build(pkg string) (path string, err error) {
	if path := s.built[pkg]; path != "" {
		return path, nil
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "slidegate-bench-"); err != nil {
			return "", err
		}
	}
	name, _, isForeign := strings.Cut(pkg, "@")
	cmd := exec.Command("go", "build", "-o", s.dir+"/", pkg)
	if isForeign {
		cmd = exec.Command("go", "install", pkg)
		cmd.Env = append(os.Environ(), "GOBIN="+s.dir, "GOWORK=off")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	if s.built == nil {
		s.built = map[string]string{}
	}
	s.built[pkg] = filepath.Join(s.dir, filepath.Base(name))
	return s.built[pkg], nil
}

// start builds a package and starts it. The command is prepared to listen on an address.
func (s *programs) start(pkg string, prepare func(cmd *exec.Cmd, addr string)) (addr string, err error) {
	path, err := s.build(pkg)
	if err != nil {
		return "", err
	}
	if addr, err = freeAddr(); err != nil {
		return "", err
	}
	cmd := exec.Command(path)
	prepare(cmd, addr)
	p, err := startProgram(addr, cmd)
	if err != nil {
		return "", err
	}
	s.running = append(s.running, p)
	return addr, nil
}

// stop ends all programs and removes what was built.
func (s *programs) stop() {
	for _, p := range s.running {
		p.stop()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // what is left is where systems keep what may be removed
	}
	*s = programs{}
}
