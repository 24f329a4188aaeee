package httpgate_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A pipeListener is a network without sockets, so that a real server and a real client can run on the
// time of a synctest bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- addressed{server}:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed is a connection whose peer has an address to count by.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }

// A loop is a gate in a server, and a client of it, in one synctest bubble.
type loop struct {
	client  *http.Client
	method  string
	served  atomic.Int64
	refused atomic.Int64
	outer   *httpgate.Gate // in front of the gate, if there is one
	slow    time.Duration  // how long the handler takes
	losing  int64          // of so many answers one is lost
}

// newLoop must be called in a bubble. Requests take up to lag each way.
func newLoop(t *testing.T, limiter *slidegate.Limiter, lag time.Duration, gate []httpgate.Option, options ...httpgate.TransportOption) *loop {
	t.Helper()
	l := &loop{method: "GET"}
	travel := func() { <-time.After(rand.N(lag)) }
	inner := httpgate.MustNew(limiter, append(gate, httpgate.Observe(func(e *httpgate.Event) {
		if e.Decision.Allowed {
			l.served.Add(1)
		} else {
			l.refused.Add(1)
		}
	}))...).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		travel()
		<-time.After(l.slow)
		if n := l.served.Load(); l.losing > 0 && n%l.losing == 0 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "hello")
	}))
	listener := newPipeListener()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		travel()
		if l.outer != nil {
			l.outer.Wrap(inner).ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	base := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 100}
	transport, err := httpgate.NewTransport(base, options...)
	if err != nil {
		t.Fatal(err)
	}
	l.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		l.client.CloseIdleConnections()
		server.Close()
		<-done
	})
	return l
}

// get sends one request and returns its status, 0 for an error.
func (l *loop) get(t *testing.T, ctx context.Context) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, l.method, "http://gate.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, nil
}

// work sends n requests from each of several goroutines, one after the other, all of which must succeed.
func (l *loop) work(t *testing.T, goroutines, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range n {
				if status, err := l.get(t, t.Context()); status != 200 {
					t.Errorf("got %d, %v", status, err)
				}
			}
		})
	}
	wg.Wait()
}

var transportFormats = []struct {
	name string
	set  []httpgate.Format
}{
	{"draft-8", []httpgate.Format{httpgate.Draft8}},
	{"draft-7", []httpgate.Format{httpgate.Draft7}},
	{"draft-6", []httpgate.Format{httpgate.Draft6}},
	{"legacy", []httpgate.Format{httpgate.Legacy}},
	{"legacy-delta", []httpgate.Format{httpgate.LegacyDelta}},
	{"all", []httpgate.Format{httpgate.Draft8, httpgate.Draft6, httpgate.Legacy}},
}

var transportLimits = map[string][]slidegate.Limit{
	"log":              {slidegate.Per(10*time.Second, 20)},
	"counter":          {slidegate.Per(10*time.Second, 20).Counter()},
	"log and log":      {slidegate.PerSecond(4).Named("burst"), slidegate.PerMinute(50).Named("sustained")},
	"log and counter":  {slidegate.PerSecond(5).Named("burst"), slidegate.PerMinute(50).Counter().Named("sustained")},
	"counter and log":  {slidegate.PerSecond(7).Counter().Named("burst"), slidegate.Per(20*time.Second, 30).Named("sustained")},
	"one at a time":    {slidegate.Per(3*time.Second, 1)},
	"one, by counter":  {slidegate.Per(3*time.Second, 1).Counter()},
	"equal quotas":     {slidegate.PerSecond(10).Named("a"), slidegate.PerMinute(10).Named("b")},
	"coarse":           {slidegate.PerMinute(30).WithResolution(7 * time.Second)},
	"hidden in legacy": {slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(12).Named("sustained")},
}

// inTheYear2002 lets time pass in a bubble, which begins in 2000, until seconds since the epoch are told
// apart from seconds from now.
func inTheYear2002() { <-time.After(2*365*24*time.Hour + 347*time.Millisecond) }

// forEachLoop runs f for every set of limits and every format, in a bubble each.
func forEachLoop(t *testing.T, f func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option)) {
	for name, limits := range transportLimits {
		for _, format := range transportFormats {
			t.Run(name+"/"+format.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inTheYear2002()
					f(t, limits, httpgate.Headers(format.set...))
				})
			})
		}
	}
}

// TestTransportIsNeverRefused: in front of our own gate, whatever the algorithm and the format, many
// goroutines through one Transport are not refused once, though they send as fast as they may.
func TestTransportIsNeverRefused(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour))
		begin := time.Now()
		l.work(t, 20, 6)
		if n := l.refused.Load(); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
		t.Logf("%d in %s", l.served.Load(), time.Since(begin))
	})
}

// TestTransportIsRefusedOnce: where the budget was spent before, one request at most is refused.
func TestTransportIsRefusedOnce(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		limiter := slidegate.MustNew(store, limits...)
		for {
			if d, err := limiter.Take(t.Context(), "ip:192.0.2.1"); err != nil || !d.Allowed {
				break
			}
			<-time.After(30 * time.Millisecond)
		}
		l := newLoop(t, limiter, 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour))
		l.work(t, 20, 3)
		if n := l.refused.Load(); n > 1 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// TestTransportThatKnowsIsNeverRefused: with the limits told beforehand nobody waits for a first answer and
// nobody is refused, also by a gate that sends no fields.
func TestTransportThatKnowsIsNeverRefused(t *testing.T) {
	known := func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{formats},
			httpgate.MaxWait(time.Hour), httpgate.Presume(limits...))
		l.work(t, 20, 6)
		if n := l.refused.Load(); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	}
	forEachLoop(t, known)
	for name, limits := range transportLimits {
		if name == "coarse" {
			continue // how coarse, nothing tells
		}
		t.Run(name+"/none", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { known(t, limits, httpgate.Headers()) })
		})
	}
}

// TestTransportThatKnewTooMuch: where the budget was spent before, those are refused that were sent on the
// strength of what was told, and nobody after them.
func TestTransportThatKnewTooMuch(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		limiter := slidegate.MustNew(store, limits...)
		most := int64(20)
		for _, l := range limits {
			most = min(most, l.Quota)
		}
		for i := 0; ; i++ {
			if i == 1 {
				<-time.After(limits[0].Window / 2) // so that one comes back long before the rest
			}
			if d, err := limiter.Take(t.Context(), "ip:192.0.2.1"); err != nil || !d.Allowed {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		l := newLoop(t, limiter, 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour), httpgate.Presume(limits...))
		l.slow = 4321 * time.Millisecond
		l.work(t, 20, 3)
		if n := l.refused.Load(); n < 1 || n > most {
			t.Errorf("%d requests were refused, want 1 to %d", n, most)
		}
	})
}

// TestTransportOfSlowAnswers: a handler that takes seconds, when the gate has long charged the
// request, makes nobody be refused either.
func TestTransportOfSlowAnswers(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour))
		if status, err := l.get(t, t.Context()); status != 200 {
			t.Fatal(err)
		}
		l.slow = 4321 * time.Millisecond
		l.work(t, 20, 3)
		if n := l.refused.Load(); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// TestTransportOfLostAnswers: a request whose answer was lost may have been charged, and counts as
// long as it can.
func TestTransportOfLostAnswers(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour))
		l.method, l.losing = "POST", 3 // net/http sends a GET again by itself
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 5 {
					_, _ = l.get(t, t.Context())
				}
			})
		}
		wg.Wait()
		if n := l.refused.Load(); n != 0 || l.served.Load() != 50 {
			t.Errorf("%d requests were refused, %d served", n, l.served.Load())
		}
	})
}

// TestTransportOfGatesInARow: also with two gates in a row, whose limits have the same names, nobody
// is refused.
func TestTransportOfGatesInARow(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store, outer := memstore.New(), memstore.New()
		defer store.Close()
		defer outer.Close()
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{formats}, httpgate.MaxWait(time.Hour))
		outerRefused := new(atomic.Int64)
		limit := slidegate.Per(7*time.Second, 9).Named("burst")
		l.outer = httpgate.MustNew(slidegate.MustNew(outer, limit), formats, httpgate.Observe(func(e *httpgate.Event) {
			if !e.Decision.Allowed {
				outerRefused.Add(1)
			}
		}))
		l.work(t, 15, 4)
		if n := l.refused.Load() + outerRefused.Load(); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// TestTransportOfGatesWithMore: fields that tell partitions apart, waits with jitter and charges that
// are given back disturb nothing.
func TestTransportOfGatesWithMore(t *testing.T) {
	forEachLoop(t, func(t *testing.T, limits []slidegate.Limit, formats httpgate.Option) {
		store := memstore.New()
		defer store.Close()
		var n atomic.Int64
		l := newLoop(t, slidegate.MustNew(store, limits...), 40*time.Millisecond, []httpgate.Option{
			formats, httpgate.PartitionKeys(make([]byte, 32)), httpgate.Jitter(50),
			httpgate.RefundIf(func(int) bool { return n.Add(1)%3 == 0 }),
		}, httpgate.MaxWait(time.Hour))
		l.work(t, 15, 4)
		if n := l.refused.Load(); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// TestTransportPace: how long a client takes that always has something to send, in windows: with a
// list the whole rate of a sliding log, also after a refusal; otherwise half of it at least.
func TestTransportPace(t *testing.T) {
	const window, quota, requests = 10 * time.Second, 20, 200
	for name, c := range map[string]struct {
		limit  slidegate.Limit
		format httpgate.Format
		spent  int64
		want   float64
	}{
		"log":                      {slidegate.Per(window, quota), httpgate.Draft8, 0, 10.1},
		"log, spent before":        {slidegate.Per(window, quota), httpgate.Draft8, quota, 11.8},
		"log, one limit announced": {slidegate.Per(window, quota), httpgate.Draft7, 0, 10.1},
		"log, legacy":              {slidegate.Per(window, quota), httpgate.Legacy, 0, 18.6},
		"counter":                  {slidegate.Per(window, quota).Counter(), httpgate.Draft8, 0, 14},
		"counter, legacy":          {slidegate.Per(window, quota).Counter(), httpgate.Legacy, 0, 18.6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inTheYear2002()
				store := memstore.New()
				defer store.Close()
				limiter := slidegate.MustNew(store, c.limit)
				for range c.spent {
					if _, err := limiter.Take(t.Context(), "ip:192.0.2.1"); err != nil {
						t.Fatal(err)
					}
					<-time.After(window / (quota + 5))
				}
				l := newLoop(t, limiter, 10*time.Millisecond, []httpgate.Option{httpgate.Headers(c.format)}, httpgate.MaxWait(time.Hour))
				begin := time.Now()
				l.work(t, 10, requests/10)
				if took := float64(time.Since(begin)) / float64(window); took > c.want {
					t.Errorf("took %.2f windows, want at most %.2f", took, c.want)
				} else {
					t.Logf("took %.2f windows", took)
				}
			})
		})
	}
}

// TestRefusalThatNeverEnds: a server that does not end the body of a refusal keeps nobody from asking again.
func TestRefusalThatNeverEnds(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			return
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // that is when the connection is gone
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	resp, err := httpgate.MustNewTransport(srv.Client().Transport).RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || asked.Load() != 2 {
		t.Fatalf("%v, %v, asked %d times", resp, err, asked.Load())
	}
	_ = resp.Body.Close()
}
