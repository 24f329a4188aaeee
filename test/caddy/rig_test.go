package caddy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	_ "github.com/slidegate/slidegate/caddygate" // so that a change of what is built is a change of the test
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	root  = "../.."
	build = "go build -o bin/caddy ./caddygate/cmd/caddy" // as docs/caddy.md says

	patience = 30 * time.Second // with a busy machine
)

// binary is the Caddy that TestMain built.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "slidegate-caddy-")
	if err == nil {
		binary = filepath.Join(dir, "caddy")
		cmd := exec.Command("go", strings.Fields(strings.Replace(build, "bin/caddy", binary, 1))[1:]...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, build+":", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// A server is a Caddy process.
type server struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan error // how it ended, once
	dir   string
	admin string // the address of its admin API
	addr  string // of its site
	log   logged

	stopped bool
	through string // the Unix socket that requests go through; empty for addr
}

// logged is what a process writes.
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

// freeAddr returns an address on which nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs a Caddy with one site, of which body is what stands in it, and stops it with the test.
// environment is added to the process's own.
func start(t testing.TB, body string, environment ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), admin: freeAddr(t), addr: freeAddr(t)}
	s.cmd = exec.Command(binary, "run", "--config", s.write(s.site(body)), "--adapter", "caddyfile")
	s.cmd.Env = append(s.environment(), environment...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = &s.log, &s.log, attributes()
	s.ended = make(chan error, 1)
	started := make(chan error)
	go s.run(started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	redistest.Await(t, patience, "Caddy answers", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return s
}

// run keeps its thread to itself for as long as Caddy lives: on Linux Caddy is killed when the thread that
// started it ends, which is then when the test binary ends.
func (s *server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	if started <- err; err == nil {
		s.ended <- s.cmd.Wait()
	}
}

// environment keeps Caddy from writing anywhere else.
func (s *server) environment() []string {
	return append(os.Environ(), "HOME="+s.dir, "XDG_DATA_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
}

// site is a Caddyfile with one site. A body that begins with global options has them up to a line of dashes.
func (s *server) site(body string) string {
	options, inner, ok := strings.Cut(body, "\n---\n")
	if !ok {
		options, inner = "", body
	}
	return fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n%s\n}\n\nhttp:// {\n\tbind 127.0.0.1\n%s\n}\n",
		s.admin, "\thttp_port "+s.port()+"\n"+options, inner)
}

func (s *server) port() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return port
}

func (s *server) write(caddyfile string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.dir, "Caddyfile")
	if err := os.WriteFile(path, []byte(caddyfile), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// stop ends Caddy as an operator does, and expects it to end well.
func (s *server) stop() {
	s.t.Helper()
	if s.stopped {
		return
	}
	s.stopped = true
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an error is of a process that has ended, and how is told below
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := <-s.ended; err != nil {
		s.t.Errorf("Caddy ended with %v", err)
	}
	text := s.log.String()
	if s.t.Failed() || strings.Contains(text, "panic") {
		s.t.Errorf("the log of Caddy:\n%s", text)
	}
}

// reload gives Caddy another site through its admin API, and returns what is wrong with it.
func (s *server) reload(body string) error {
	s.t.Helper()
	response, err := http.Post("http://"+s.admin+"/load", "text/caddyfile", strings.NewReader(s.site(body)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return err
}

func (s *server) mustReload(body string) {
	s.t.Helper()
	if err := s.reload(body); err != nil {
		s.t.Fatal(err)
	}
}

// ask gets what the admin API has at a path.
func (s *server) ask(path string) string {
	s.t.Helper()
	response, err := http.Get("http://" + s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// A response is what a client sees.
type response struct {
	status int
	header http.Header
	body   string
}

// get sends a request. The fields are lines, and From: says which address to connect from.
func (s *server) get(path string, fields ...string) *response {
	s.t.Helper()
	r, err := s.try(path, fields...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// try is get for any goroutine.
func (s *server) try(path string, fields ...string) (*response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: patience}
	for _, field := range fields {
		switch name, value, _ := strings.Cut(field, ": "); name {
		case "From":
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(value)}
		case "Host":
			request.Host = value
		default:
			request.Header.Add(name, value)
		}
	}
	dial := dialer.DialContext
	if s.through != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", s.through)
		}
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	got, err := client.Do(request)
	// While a configuration takes the place of another, Caddy resets a connection that the old one had accepted and
	// not read from: the request reached no handler.
	for range 2 {
		if errors.Is(err, syscall.ECONNRESET) {
			got, err = client.Do(request)
		}
	}
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return &response{got.StatusCode, got.Header, string(body)}, err
}

// want sends a request and checks its status, and the field RateLimit if there is one to be.
func (s *server) want(status int, field, path string, fields ...string) *response {
	s.t.Helper()
	r := s.get(path, fields...)
	if got := strings.Join(r.header.Values("RateLimit"), ", "); r.status != status || got != field {
		s.t.Errorf("%s %q: status %d, RateLimit %q, want %d, %q", path, fields, r.status, got, status, field)
	}
	return r
}

// counter returns the value of a metric, as it is written with its labels.
func (s *server) counter(name string) float64 {
	s.t.Helper()
	for line := range strings.Lines(s.ask("/metrics")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
	}
	s.t.Errorf("no metric %s", name)
	return -1
}
