package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	root     = "../.."
	patience = 30 * time.Second // with a busy machine
	version  = "v1.2.3-test"
)

var background = context.Background()

// binary is the command, built once by the line of the Dockerfile that builds it.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "slidegate-deploy-*")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "slidegate")
		if err := buildImage(binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func buildImage(to string) error {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^RUN (.* go build .*)$`).FindSubmatch(text)
	if line == nil || !strings.Contains(string(line[1]), " -o /slidegate ") {
		return errors.New("the Dockerfile has no line that builds /slidegate")
	}
	cmd := exec.Command("sh", "-c", strings.Replace(string(line[1]), " -o /slidegate ", " -o "+to+" ", 1))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", line[1], err, out)
	}
	return nil
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeFiles returns a directory with files, by their names in it.
func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// settings are environment variables.
type settings map[string]string

// with returns the settings with others in their place.
func (s settings) with(others settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, others)
	return all
}

// local are settings that a test has to change in any others: free ports of this machine.
func local(others settings) settings {
	return settings{"SLIDEGATE_LISTEN": "127.0.0.1:0", "SLIDEGATE_ADMIN": "127.0.0.1:0", "SLIDEGATE_LOG_FORMAT": "text"}.with(others)
}

// command is the command with the settings and with no others of its own.
func command(s settings, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	ours := func(setting string) bool { return strings.HasPrefix(setting, "SLIDEGATE_") }
	cmd.Env = slices.DeleteFunc(os.Environ(), ours)
	for name, value := range s {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// A running is a server process. It ends with its test.
type running struct {
	t          *testing.T
	cmd        *exec.Cmd
	url, admin string
	rls        string // POST /json, where that door is open
	mu         sync.Mutex
	said       strings.Builder
	ended      chan struct{}
}

// serve starts the command and waits until it listens.
func serve(t *testing.T, s settings, args ...string) *running {
	t.Helper()
	return await(t, command(s, args...))
}

func await(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, ended: make(chan struct{})}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go r.listen(pipe, ready)
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-r.ended
		cmd.Wait()
	})
	select {
	case <-ready:
	case <-r.ended:
		t.Fatalf("the server ended: %s", r.text())
	case <-time.After(patience):
		t.Fatalf("the server does not listen: %s", r.text())
	}
	return r
}

// listen keeps what the process says, and tells when its addresses are known.
func (r *running) listen(pipe io.Reader, ready chan<- struct{}) {
	defer close(r.ended)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		line := lines.Text()
		r.mu.Lock()
		r.said.WriteString(line + "\n")
		r.mu.Unlock()
		if at, ok := strings.CutPrefix(line, "slidegate: listening on "); ok {
			r.url = at
		} else if at, ok := strings.CutPrefix(line, "  rls http  "); ok {
			r.rls = strings.Fields(at)[0]
		} else if at, ok := strings.CutPrefix(line, "  admin     "); ok {
			r.admin = strings.TrimSuffix(strings.Fields(at)[0], "/healthz")
			close(ready)
		}
	}
}

func (r *running) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

// get returns the status and the body that a URL answers with.
func (r *running) get(url string) (status int, body string) {
	r.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// askRLS asks the rate limit service, and wants it to let pass what it is asked about.
func (r *running) askRLS(body string) {
	r.t.Helper()
	resp, err := http.Post(r.rls, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		r.t.Errorf("the rate limit service answers %d", resp.StatusCode)
	}
}

// want sends requests one after the other, and compares what they get.
func (r *running) want(statuses ...int) {
	r.t.Helper()
	for i, want := range statuses {
		if got, body := r.get(r.url + "/"); got != want {
			r.t.Errorf("request %d got %d, want %d: %s\n%s", i+1, got, want, body, r.text())
		}
	}
}

// terminate sends SIGTERM and returns the status that the process ends with.
func (r *running) terminate() int {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("the server does not end: %s", r.text())
	}
	r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// web is a service to stand in front of.
func web(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	return s.URL
}
