package rediscases

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// An app is a process of its own, which serves HTTP behind a gate on Redis. It tells clients apart by
// the header User.
type app struct {
	t     testing.TB
	url   string
	input io.Closer
	cmd   *exec.Cmd
	http  http.Client
}

const (
	envRedis   = "REDISCASES_REDIS"   // the address; an app is what has it
	envLimits  = "REDISCASES_LIMITS"  // in their text form, between blanks
	envLibrary = "REDISCASES_LIBRARY" // its name
	envClock   = "REDISCASES_CLOCK"   // "2000", or nothing for the right one
)

// startApp starts a process and ends it with the test.
func startApp(t testing.TB, server *redistest.Server, library, clock string, limits ...slidegate.Limit) *app {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestApp$")
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	cmd.Env = append(os.Environ(), envRedis+"="+server.Addr, envLimits+"="+strings.Join(texts, " "), envLibrary+"="+library, envClock+"="+clock)
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
	a := &app{t: t, cmd: cmd, input: input, http: http.Client{Timeout: generous, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(a.end)
	line, err := bufio.NewReader(output).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "serving %s", &a.url); err != nil || scanErr != nil {
		t.Fatalf("the app said %q: %v, %v", line, err, scanErr)
	}
	go io.Copy(io.Discard, output)
	return a
}

func (a *app) end() {
	a.http.CloseIdleConnections()
	a.input.Close()
	a.cmd.Wait()
}

// TestApp is what this test binary does as an app, and nothing else.
func TestApp(t *testing.T) {
	addr := os.Getenv(envRedis)
	if addr == "" {
		return
	}
	if os.Getenv(envClock) == "2000" {
		// In the bubble the time is that of the beginning of 2000, and it stands still while anybody waits
		// for the network.
		synctest.Test(t, func(t *testing.T) { serveApp(t, addr) })
		return
	}
	serveApp(t, addr)
}

func serveApp(t *testing.T, addr string) {
	var limits []slidegate.Limit
	for _, text := range strings.Fields(os.Getenv(envLimits)) {
		l, err := slidegate.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	connect := throughGoredis
	if os.Getenv(envLibrary) == "rueidis" {
		connect = throughRueidis
	}
	limiter := newLimiter(t, redisstore.New(connect(t, addr), redisstore.WithTimeout(generous)), limits...)
	gate := httpgate.MustNew(limiter, httpgate.ByHeader("User"), httpgate.FailClosed())
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, time.Now().Year())
	}))}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(listener) })
	fmt.Printf("serving http://%s\n", listener.Addr())
	io.Copy(io.Discard, os.Stdin) // until the parent closes it, or is gone
	server.Close()
	serving.Wait()
}

// ask sends a request of a user and returns the status, and what the app answered.
func (a *app) ask(user string) (status int, body string) {
	r, err := http.NewRequest(http.MethodGet, a.url, nil)
	if err != nil {
		a.t.Error(err)
		return 0, ""
	}
	r.Header.Set("User", user)
	resp, err := a.http.Do(r)
	if err != nil {
		a.t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Error(err)
	}
	return resp.StatusCode, string(b)
}

// admitted sends n requests of a user, one after another, and returns how many were admitted. What
// is not admitted is refused: anything else is an error.
func (a *app) admitted(n int, user string) (admitted int) {
	for range n {
		switch status, _ := a.ask(user); status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			a.t.Errorf("status %d, want 200 or 429", status)
		}
	}
	return admitted
}

// admittedAtOnce sends n requests of a user to each app, all at the same time, and returns how many
// were admitted.
func admittedAtOnce(apps []*app, n int, user string) int {
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for _, a := range apps {
		for range n {
			wg.Go(func() { admitted.Add(int64(a.admitted(1, user))) })
		}
	}
	wg.Wait()
	return int(admitted.Load())
}
