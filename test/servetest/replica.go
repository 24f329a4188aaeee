package servetest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

// Patience is how long may take what takes milliseconds on an idle machine.
const Patience = 30 * time.Second

// The doors of a process, as its start names them.
const (
	Proxy = "listening"
	Auth  = "auth"
	API   = "api"
	RLS   = "rls http"
	Admin = "admin"
)

// A Replica is one place at which the command serves, by one process after another. Calls that cannot be done fail the
// test, so they belong in the test's own goroutine; Door, PID, Said and Try may be called from any.
type Replica struct {
	Name string

	t      testing.TB
	binary string
	args   []string
	dir    string

	mu   sync.Mutex
	runs int
	now  *process
}

// A process is one run of the command.
type process struct {
	*os.Process
	log   string        // the path of what it says
	done  chan struct{} // closed when it has ended
	err   error         // how, once done is closed
	doors map[string]string
}

// Start starts a process of slidegate serve, with an admin door, and ends whatever process there is with the test.
// Nothing of this process's environment that the command would heed reaches it.
func Start(t testing.TB, binary, name string, args ...string) *Replica {
	t.Helper()
	r := &Replica{t: t, binary: binary, Name: name, args: args, dir: t.TempDir()}
	t.Cleanup(func() { r.Kill() })
	r.Start()
	return r
}

// Start starts another process, once that before has ended, and waits until its doors are open.
func (r *Replica) Start() {
	r.t.Helper()
	p, err := r.launch()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.now = p
	r.mu.Unlock()
	redistest.Await(r.t, Patience, "the command serves", func() bool {
		doors := doorsOf(p.said())
		r.mu.Lock()
		defer r.mu.Unlock()
		p.doors = doors
		return doors[Admin] != "" || p.ended()
	})
	if p.ended() {
		r.t.Fatalf("%s ended: %v\n%s", r.Name, p.err, p.said())
	}
}

func (r *Replica) launch() (*process, error) {
	r.runs++
	p := &process{done: make(chan struct{}), log: filepath.Join(r.dir, fmt.Sprintf("log.%d", r.runs))}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(r.binary, append([]string{"serve", "--admin", "127.0.0.1:0"}, r.args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SLIDEGATE_") })
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, attributes()
	started := make(chan error)
	go p.run(cmd, started)
	return p, <-started
}

// run keeps its thread to itself for as long as the process lives: on Linux the process is killed when the thread that
// started it ends, which is then when the test binary ends.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	p.Process = cmd.Process
	if started <- err; err == nil {
		p.err = cmd.Wait()
		close(p.done)
	}
}

func (p *process) said() string {
	text, _ := os.ReadFile(p.log) // it is there since before the process was
	return string(text)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

var doorPattern = regexp.MustCompile(`(?m)^(?:slidegate: (listening) on|  (auth|api|rls http|admin)) +(http://[^/\s]+)`)

// doorsOf returns the URLs that a start names, by what it says of them.
func doorsOf(said string) map[string]string {
	doors := map[string]string{}
	for _, m := range doorPattern.FindAllStringSubmatch(said, -1) {
		doors[m[1]+m[2]] = m[3]
	}
	return doors
}

func (r *Replica) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Door returns the URL of a door of the process that there is now, without a path.
func (r *Replica) Door(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.doors[name]
}

// PID returns the process that there is now.
func (r *Replica) PID() int { return r.process().Pid }

// Said returns what the process that there is now, or the last one, has written.
func (r *Replica) Said() string { return r.process().said() }

// Signal sends a signal to the process.
func (r *Replica) Signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.process().Signal(s); err != nil {
		r.t.Errorf("%s: %s: %v", r.Name, s, err)
	}
}

// Kill ends the process at once, frozen or not.
func (r *Replica) Kill() {
	if p := r.process(); p != nil {
		_ = p.Kill() // an error is of a process that has ended
		<-p.done
	}
}

// AwaitEnd waits until the process has ended by itself, and wants it to have ended well.
func (r *Replica) AwaitEnd() {
	r.t.Helper()
	p := r.process()
	redistest.Await(r.t, Patience, r.Name+" ends", p.ended)
	if p.err != nil {
		r.t.Errorf("%s ended with %v", r.Name, p.err)
	}
}

// Get asks at a path of the admin address.
func (r *Replica) Get(path string) (status int, body string) {
	r.t.Helper()
	status, body, err := r.Try(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, body
}

// Try is Get for a process that may be away.
func (r *Replica) Try(path string) (status int, body string, err error) {
	client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(r.Door(Admin) + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metrics returns those of the process, by name and labels as they are written. A busy machine may be too slow to ask in the time that
// the process gives a client, who asks again then.
func (r *Replica) Metrics() (all map[string]float64) {
	r.t.Helper()
	redistest.Await(r.t, Patience, r.Name+" tells its metrics", func() bool {
		_, text, err := r.Try("/metrics")
		all = ParseMetrics(text)
		return err == nil
	})
	return all
}

// ParseMetrics reads what /metrics says. Metrics with a blank in a label are left out.
func ParseMetrics(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = n
		}
	}
	return all
}
