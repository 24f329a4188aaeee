package rediscases

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// TestWhatARequestGetsWhileRedisIsDown is what the gate was told, and never a field about limits.
func TestWhatARequestGetsWhileRedisIsDown(t *testing.T) {
	server := redistest.NewServer(t)
	limiter := newLimiter(t, redisstore.New(throughGoredis(t, server.Addr)), slidegate.PerMinute(1))
	teapot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !errors.Is(httpgate.ErrorFromContext(r.Context()), slidegate.ErrUnavailable) {
			t.Error("the handler is not told why")
		}
		w.WriteHeader(http.StatusTeapot)
	})
	for _, c := range []struct {
		name   string
		option httpgate.Option
		status int
		body   string
		runs   int64
	}{
		{"open", httpgate.FailOpen(), 200, "hello", 2},
		{"closed", httpgate.FailClosed(), 503, `{"type":"about:blank","title":"Service Unavailable","status":503}`, 0},
		{"closed with a status", httpgate.FailClosedWith(500, nil), 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`, 0},
		{"closed with a body", httpgate.FailClosedWith(503, map[string]any{"success": false, "message": "Rate limiter temporarily unavailable"}), 503,
			`{"message":"Rate limiter temporarily unavailable","success":false}`, 0},
		{"a handler", httpgate.FailWith(teapot), 418, "", 0},
	} {
		s := newSite(t, limiter, c.option, httpgate.OnDeny(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Errorf("%s: OnDeny for a failure", c.name)
		})), httpgate.OnStoreError(func(error) { panic("a hook of bad manners") }))
		for range 2 {
			w := s.get("a")
			if w.Code != c.status || w.Body.String() != c.body || fields(w.Header()) != "" {
				t.Errorf("%s: %d %s, fields %q", c.name, w.Code, w.Body, fields(w.Header()))
			}
		}
		equal(t, c.name+": the handler ran, and store errors", []int64{s.runs.Load(), s.errors.Load()}, []int64{c.runs, 2})
	}
}

// TestRoutesFailAsTheyWereTold: the login closed, the rest open, in one program.
func TestRoutesFailAsTheyWereTold(t *testing.T) {
	server := redistest.NewServer(t)
	limiter := newLimiter(t, redisstore.New(throughGoredis(t, server.Addr)), slidegate.PerMinute(1))
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("/login", httpgate.MustNew(limiter, httpgate.FailClosed()).Wrap(ok))
	mux.Handle("/", httpgate.MustNew(limiter).Wrap(ok))
	equal(t, "the login", get(mux, "/login", "a").Code, 503)
	equal(t, "the rest", get(mux, "/other", "a").Code, 200)
}

// TestAFrozenRedisIsNotWaitedFor longer than the timeout, whatever the library does meanwhile.
func TestAFrozenRedisIsNotWaitedFor(t *testing.T) {
	forEach(t, func(t *testing.T, through library) {
		server := redistest.Standalone(t)
		limiter := newLimiter(t, redisstore.New(through.connect(t, server.Addr), redisstore.WithTimeout(100*time.Millisecond)), slidegate.PerMinute(10))
		s := newSite(t, limiter, httpgate.FailClosed())
		redistest.Await(t, generous, "a first decision", func() bool { return s.get("first").Code == 200 })
		server.Freeze()
		for range 3 {
			began := time.Now()
			equal(t, "status while Redis is frozen", s.get("a").Code, 503)
			if took := time.Since(began); took < 90*time.Millisecond || took > 2*time.Second {
				t.Errorf("the answer took %s, the timeout is 100ms", took)
			}
		}
		server.Thaw()
		redistest.Await(t, generous, "decisions after the thaw", func() bool { return s.get("b").Code == 200 })
	})
}

// TestLimitsBindAgainWhenRedisIsBack, behind a circuit too, without a restart of the program and with
// no error after the outage.
func TestLimitsBindAgainWhenRedisIsBack(t *testing.T) {
	forEach(t, func(t *testing.T, through library) {
		server := redistest.Standalone(t)
		circuit := wrap.Circuit(redisstore.New(through.connect(t, server.Addr)), wrap.WithProbeInterval(100*time.Millisecond))
		s := newSite(t, newLimiter(t, circuit, slidegate.PerHour(3)))
		redistest.Await(t, generous, "a first decision", func() bool { return fields(s.get("first").Header()) != "" })
		server.Kill()
		redistest.Await(t, generous, "an open circuit", func() bool { s.get("a"); return circuit.State() == wrap.Open })
		equal(t, "status during the outage", s.get("a").Code, 200)
		server.Start()
		redistest.Await(t, generous, "a decision", func() bool { return fields(s.get("back").Header()) != "" })
		before := s.errors.Load()
		equal(t, "after the outage", s.codes(5, "b"), "200 200 200 429 429")
		equal(t, "store errors after the outage", s.errors.Load()-before, 0)
	})
}

// TestAProgramMayStartBeforeRedis: it passes what it cannot decide, says that it is not ready, and
// limits when Redis comes.
func TestAProgramMayStartBeforeRedis(t *testing.T) {
	server := redistest.NewServer(t)
	limiter := newLimiter(t, redisstore.New(throughGoredis(t, server.Addr)), slidegate.PerHour(2))
	s := newSite(t, limiter)
	ready := func() bool { _, err := limiter.Peek(background, "nobody"); return err == nil }
	equal(t, "before Redis", s.codes(3, "a"), "200 200 200")
	equal(t, "ready before Redis", ready(), false)
	server.Start()
	redistest.Await(t, generous, "a program that is ready", ready)
	equal(t, "when Redis is there", s.codes(3, "b"), "200 200 429") // of a, some may have been charged
}

// TestAnOutageIsAFewLines in the log, however many requests fail, and every failure is counted.
func TestAnOutageIsAFewLines(t *testing.T) {
	server := redistest.NewServer(t)
	var log syncBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	store := redisstore.New(throughGoredis(t, server.Addr), redisstore.WithLogger(logger))
	circuit := wrap.Circuit(store, wrap.WithLogger(logger))
	s := newSite(t, newLimiter(t, circuit, slidegate.PerHour(2)), httpgate.Logger(logger))
	for range 5000 {
		s.get("secret-name")
	}
	equal(t, "the handler ran, and store errors", []int64{s.runs.Load(), s.errors.Load()}, "[5000 5000]")
	if n := strings.Count(log.String(), "\n"); n < 1 || n > 10 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), "secret-name") {
		t.Errorf("a key is in the log:\n%s", log.String())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestAnOpenCircuitAddsNothing that anybody would notice to a request: Redis is there and silent.
func TestAnOpenCircuitAddsNothing(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Blackhole()
	circuit := wrap.Circuit(redisstore.New(throughGoredis(t, proxy.Addr)), wrap.WithProbeInterval(time.Minute))
	s := newSite(t, newLimiter(t, circuit, slidegate.PerHour(2)))
	var all []time.Duration
	late := lateness()
	for range 200 {
		began := time.Now()
		equal(t, "status", s.get("a").Code, 200)
		all = append(all, time.Since(began))
	}
	worst := late()
	slices.Sort(all)
	equal(t, "the circuit", circuit.State(), wrap.Open)
	if median := all[len(all)/2]; median > 2*time.Millisecond+worst {
		t.Errorf("half of the requests took more than %s, on a machine that is %s late", median, worst)
	}
}

// TestALostReplyIsChargedOnce: the script ran and its answer never came; nobody sends it again.
func TestALostReplyIsChargedOnce(t *testing.T) {
	forEach(t, func(t *testing.T, through library) {
		server := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, server.Addr)
		limiter := newLimiter(t, redisstore.New(through.connect(t, proxy.Addr), redisstore.WithTimeout(generous)), slidegate.PerHour(10))
		s := newSite(t, limiter)
		s.get("first")
		for i, command := range []string{"evalsha", "eval"} {
			user := command
			if command == "eval" {
				server.Do("SCRIPT", "FLUSH")
			}
			proxy.CutReply(command, 1)
			equal(t, "status when the reply is lost", s.get(user).Code, 200)
			equal(t, "store errors", s.errors.Load(), i+1)
			equal(t, "units left", left(t, limiter, "header:User:"+user), 9)
		}
	})
}

// TestFailedCallsOfSeveralLimitsWaitOnce: eight limits are one call, and one timeout.
func TestFailedCallsOfSeveralLimitsWaitOnce(t *testing.T) {
	server := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Blackhole()
	var limits []slidegate.Limit
	for i := range slidegate.MaxLimits {
		limits = append(limits, slidegate.Per(time.Duration(1+i)*time.Minute, 10))
	}
	s := newSite(t, newLimiter(t, redisstore.New(throughGoredis(t, proxy.Addr)), limits...))
	began, late := time.Now(), lateness()
	equal(t, "status", s.get("a").Code, 200)
	took := time.Since(began)
	if worst := late(); took > 3*redisstore.DefaultTimeout+2*worst {
		t.Errorf("the answer took %s, the timeout is %s, and this machine is %s late", took, redisstore.DefaultTimeout, worst)
	}
	equal(t, "store errors", s.errors.Load(), 1)
}
