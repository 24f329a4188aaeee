package rediscases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

var background = context.Background()

// generous is a timeout that a busy machine does not reach, for tests that are not about timeouts.
const generous = 20 * time.Second

// A library is a way to reach Redis.
type library struct {
	name    string
	connect func(t testing.TB, addrs ...string) redisstore.Client
}

var libraries = []library{{"goredis", throughGoredis}, {"rueidis", throughRueidis}}

func throughGoredis(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return goredisstore.New(client)
}

// throughRueidis needs a server that is there.
func throughRueidis(t testing.TB, addrs ...string) redisstore.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return rueidisstore.New(client)
}

// forEach runs a test through each library.
func forEach(t *testing.T, test func(*testing.T, library)) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// newStore returns a store on a server, which waits long.
func newStore(t testing.TB, server *redistest.Server, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	return redisstore.New(throughRueidis(t, server.Addr), append([]redisstore.Option{redisstore.WithTimeout(generous)}, options...)...)
}

func newLimiter(t testing.TB, store slidegate.Store, limits ...slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	l, err := slidegate.New(store, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// clocked returns a limiter on a server, with a clock that is set by hand and begins at 0.
func clocked(t testing.TB, server *redistest.Server, limits ...slidegate.Limit) (*slidegate.Limiter, *gatetest.Clock) {
	t.Helper()
	clock := gatetest.NewClock(time.UnixMilli(0))
	return newLimiter(t, newStore(t, server, redisstore.WithClock(clock.Now)), limits...), clock
}

// take asks n times for one unit and returns how many were admitted, and the last answer.
func take(t testing.TB, l *slidegate.Limiter, key string, n int) (admitted int, last slidegate.Decision) {
	t.Helper()
	for range n {
		if last = takeN(t, l, key, 1); last.Allowed {
			admitted++
		}
	}
	return admitted, last
}

func takeN(t testing.TB, l *slidegate.Limiter, key string, cost int64) slidegate.Decision {
	t.Helper()
	d, err := l.TakeN(background, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func peek(t testing.TB, l *slidegate.Limiter, key string) slidegate.Decision {
	t.Helper()
	d, err := l.Peek(background, key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func left(t testing.TB, l *slidegate.Limiter, key string) int64 {
	t.Helper()
	d := peek(t, l, key)
	return d.Remaining()
}

func refund(t testing.TB, l *slidegate.Limiter, d *slidegate.Decision) {
	t.Helper()
	if err := l.Refund(background, d); err != nil {
		t.Fatal(err)
	}
}

// expect reports an answer that is not the right one; retry is of interest where it is refused.
func expect(t testing.TB, when string, d slidegate.Decision, allowed bool, retry time.Duration) {
	t.Helper()
	if d.Allowed != allowed || d.RetryAfter() != retry {
		t.Errorf("%s: %s; want allowed %v, retry %s", when, d, allowed, retry)
	}
}

// equal reports what is not as it should be.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// life returns the time that a key has left: negative if it is gone, or has no end.
func life(server *redistest.Server, key string) time.Duration {
	return time.Duration(server.Int("PTTL", key)) * time.Millisecond
}

// lateness begins to watch how late this machine is at what is due, and returns a function that ends it and
// says how much that was at worst: what others do here is not to be held against a timeout.
func lateness() (end func() time.Duration) {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		const due = 2 * time.Millisecond
		var late time.Duration
		for {
			began := time.Now()
			select {
			case <-time.After(due):
				late = max(late, time.Since(began)-due)
			case <-stop:
				worst <- late
				return
			}
		}
	}()
	return func() time.Duration { close(stop); return <-worst }
}

// A site is a gate in front of a handler that counts. It tells clients apart by the header User.
type site struct {
	t       testing.TB
	handler http.Handler
	runs    atomic.Int64 // of the handler
	errors  atomic.Int64 // of the store
}

func newSite(t testing.TB, l *slidegate.Limiter, options ...httpgate.Option) *site {
	t.Helper()
	s := &site{t: t}
	options = append([]httpgate.Option{httpgate.ByHeader("User"), httpgate.OnStoreError(func(err error) {
		if !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("a store error that is none: %v", err)
		}
		s.errors.Add(1)
	})}, options...)
	gate, err := httpgate.New(l, options...)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.runs.Add(1)
		io.WriteString(w, "hello")
	}))
	return s
}

// get sends a request of a user.
func (s *site) get(user string) *httptest.ResponseRecorder { return get(s.handler, "/", user) }

// get sends a request of a user to a handler, without a network.
func get(h http.Handler, target, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// codes sends n requests and returns their statuses, such as "200 200 429".
func (s *site) codes(n int, user string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(s.get(user).Code)
	}
	return strings.Join(all, " ")
}

// fields returns what an answer says of limits, for answers that must say nothing.
func fields(h http.Header) string {
	var all []string
	for name, values := range h {
		if strings.Contains(strings.ToLower(name), "ratelimit") || name == "Retry-After" {
			all = append(all, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
