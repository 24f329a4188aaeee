package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Binary returns the path of the server that tests run, and fails the test if there is none.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := findBinary(os.Getenv("SLIDEGATE_REDIS_SERVER"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func findBinary(named string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("redistest: SLIDEGATE_REDIS_SERVER names no program: %w", err)
		}
		return filepath.Abs(path)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("redistest: neither redis-server nor valkey-server is in PATH: install the package redis-server " +
		"(scripts/need redis-server does it on Debian and Ubuntu; brew install redis on macOS), or name a server in SLIDEGATE_REDIS_SERVER")
}

// majorVersion returns the 7 of a server that says "Redis server v=7.0.15 sha=…".
func majorVersion(t testing.TB, binary string) int {
	t.Helper()
	out, err := exec.Command(binary, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("redistest: %s --version: %v\n%s", binary, err, out)
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	major, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		t.Fatalf("redistest: %s --version does not name a version: %s", binary, out)
	}
	return n
}

// A process is one run of a server.
type process struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	proc *os.Process
}

// launch runs a program in a directory and writes what it prints to the file "log" there.
func launch(dir, binary string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, attributes()
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run keeps its thread to itself for as long as the process lives: on Linux the process is killed
// when the thread that started it ends, which is then when the test binary ends.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		p.proc, p.pid = cmd.Process, cmd.Process.Pid
	}
	started <- err
	if err != nil {
		return
	}
	p.err = cmd.Wait()
	close(p.done)
}

func (p *process) signal(s syscall.Signal) error { return p.proc.Signal(s) }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once, frozen or not, and returns when it has ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL) // an error says that it has ended already
	<-p.done
}

// waitFor waits until the process has ended by itself.
func (p *process) waitFor(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// newDir makes a directory for a server that goes with the test. Its path is short, since that of a
// Unix socket may have about a hundred bytes only.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	remove, err := removeAtEnd(dir)
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return dir
}

// removeAtEnd starts a shell that removes the directory when its input ends: when remove is called,
// or when this process ends in a way that leaves it no time for that.
func removeAtEnd(dir string) (remove func(), err error) {
	input, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	cmd := exec.Command("/bin/sh", "-c", `read -r _; rm -rf -- "$0"`, dir)
	cmd.Env = []string{"PATH=/bin:/usr/bin"}
	cmd.Stdin, cmd.SysProcAttr = input, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		held.Close()
		return nil, err
	}
	return func() { held.Close(); cmd.Wait() }, nil
}

// logTail returns the last lines that the server in dir printed.
func logTail(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
