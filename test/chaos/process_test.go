package chaos

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
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

// A replica is one place at which the command serves, by one process after another.
type replica struct {
	t    testing.TB
	name string
	args []string

	mu  sync.Mutex
	now *process
}

// A process is one run of the command.
type process struct {
	*os.Process
	log   logged
	done  chan struct{} // closed when it has ended
	err   error         // how, once done is closed
	doors map[string]string
}

// newReplica starts a process, and ends whatever process there is with the test.
func newReplica(t testing.TB, name string, args ...string) *replica {
	t.Helper()
	r := &replica{t: t, name: name, args: args}
	t.Cleanup(func() { r.kill() })
	r.start()
	return r
}

// start starts a process and waits until its doors are open.
func (r *replica) start() {
	r.t.Helper()
	p := &process{done: make(chan struct{})}
	cmd := exec.Command(binary, append([]string{"serve", "--admin", "127.0.0.1:0"}, r.args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SLIDEGATE_") })
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &p.log, &p.log, attributes()
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.now = p
	r.mu.Unlock()
	redistest.Await(r.t, patience, "the command serves", func() bool {
		doors := doorsOf(p.log.String())
		r.mu.Lock()
		defer r.mu.Unlock()
		p.doors = doors
		return doors["admin"] != "" || p.ended()
	})
	if p.ended() {
		r.t.Fatalf("%s ended: %v\n%s", r.name, p.err, p.log.String())
	}
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

// door returns the URL of a door of the process that there is now.
func (r *replica) door(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.doors[name]
}

func (r *replica) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.process().Signal(s); err != nil {
		r.t.Errorf("%s: %s: %v", r.name, s, err)
	}
}

// kill ends the process at once, frozen or not.
func (r *replica) kill() {
	if p := r.process(); p != nil {
		_ = p.Kill() // an error is of a process that has ended
		<-p.done
	}
}

// await waits until the process has ended by itself, and wants it to have ended well.
func (r *replica) await() {
	r.t.Helper()
	p := r.process()
	redistest.Await(r.t, patience, r.name+" ends", p.ended)
	if p.err != nil {
		r.t.Errorf("%s ended with %v", r.name, p.err)
	}
}

// get asks at a path of the admin address.
func (r *replica) get(path string) (status int, body string) {
	r.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(r.door("admin") + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// metrics returns those of the process that have no labels.
func (r *replica) metrics() map[string]float64 {
	r.t.Helper()
	_, text := r.get("/metrics")
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = n
		}
	}
	return all
}

// logged is what a process wrote.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// patience is how long may take what takes milliseconds on an idle machine.
const patience = 30 * time.Second
