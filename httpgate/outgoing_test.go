package httpgate_test

import (
	"context"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering counts the requests it gets and answers with a status.
func answering(n *int, status int) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		*n++
		if r.Body != nil {
			r.Body.Close()
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
}

// A closing is a body that tells how often it was closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

func post(t *testing.T, url string) (*http.Request, *closing) {
	t.Helper()
	body := &closing{Reader: strings.NewReader("body")}
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}

func standingStill() *memstore.Store {
	return memstore.New(memstore.WithClock(gatetest.NewClock(time.Unix(1_700_000_000, 0)).Now))
}

func TestOutgoingCountsByHost(t *testing.T) {
	sent := 0
	o := httpgate.MustNewOutgoing(slidegate.MustNew(standingStill(), slidegate.PerMinute(2)), answering(&sent, 200), httpgate.OutgoingMaxWait(0))
	for _, c := range []struct {
		url  string
		want bool
	}{
		{"https://a.test/x", true},
		{"https://A.test:443/y", true},
		{"HTTPS://a.test/z", false},
		{"http://a.test/", true},
		{"http://a.test:80/", true},
		{"http://a.test/", false},
		{"https://a.test:8443/", true},
		{"https://b.test/", true},
	} {
		r, body := post(t, c.url)
		before := sent
		resp, err := o.RoundTrip(r)
		var early *httpgate.TooSoonError
		if c.want != (err == nil) || c.want != (sent == before+1) || !c.want && !errors.As(err, &early) {
			t.Errorf("%s: %v", c.url, err)
		}
		if body.closed != 1 {
			t.Errorf("%s: the body was closed %d times", c.url, body.closed)
		}
		if resp == nil && (early.Wait != time.Minute || early.Policy != "2/1m" || errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("%s: %+v", c.url, early)
		}
	}
}

func TestOutgoingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		sent := 0
		next := answering(&sent, 200)
		limiter := slidegate.MustNew(store, slidegate.PerSecond(1))
		o := httpgate.MustNewOutgoing(limiter, next)
		long := httpgate.MustNewOutgoing(limiter, next, httpgate.OutgoingMaxWait(math.MaxInt64))
		short := httpgate.MustNewOutgoing(limiter, next, httpgate.OutgoingMaxWait(time.Second))
		begin := time.Now()
		for _, rt := range []http.RoundTripper{o, long, short, o} {
			r, _ := post(t, "http://a.test/")
			if _, err := rt.RoundTrip(r); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(begin); d != 3*time.Second || sent != 4 {
			t.Errorf("%d were sent in %s", sent, d)
		}
		for name, c := range map[string]struct {
			rt       http.RoundTripper
			deadline time.Duration
			is       error
		}{
			"the deadline is too near": {o, 900 * time.Millisecond, context.DeadlineExceeded},
			"so is this one":           {short, 900 * time.Millisecond, context.DeadlineExceeded},
			"it may not wait so long":  {httpgate.MustNewOutgoing(limiter, next, httpgate.OutgoingMaxWait(999*time.Millisecond)), time.Hour, nil},
		} {
			r, body := post(t, "http://a.test/")
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			at := time.Now()
			_, err := c.rt.RoundTrip(r.WithContext(ctx))
			var early *httpgate.TooSoonError
			if !errors.As(err, &early) || early.Wait != time.Second || errors.Is(err, context.DeadlineExceeded) != (c.is != nil) || body.closed != 1 || time.Since(at) != 0 {
				t.Errorf("%s: %v after %s", name, err, time.Since(at))
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, body := post(t, "http://a.test/")
		time.AfterFunc(300*time.Millisecond, cancel)
		if _, err := o.RoundTrip(r.WithContext(ctx)); err != context.Canceled || body.closed != 1 || sent != 4 {
			t.Errorf("who leaves gets %v", err)
		}
	})
}

// TestOutgoingWaitEndsAtItsBound: of two that wait for one place, the one that does not get it fails with
// the bound on waiting, not with a deadline that it does not have.
func TestOutgoingWaitEndsAtItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		sent := 0
		var mu sync.Mutex
		next := roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			return answering(&sent, 200)(r)
		})
		o := httpgate.MustNewOutgoing(slidegate.MustNew(store, slidegate.PerSecond(1)), next, httpgate.OutgoingMaxWait(1500*time.Millisecond))
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() {
				r, _ := post(t, "http://a.test/")
				_, errs[i] = o.RoundTrip(r)
			})
		}
		wg.Wait()
		failed := 0
		for _, err := range errs {
			var early *httpgate.TooSoonError
			if errors.As(err, &early) && !errors.Is(err, context.DeadlineExceeded) && early.Wait > 0 {
				failed++
			}
		}
		if sent != 2 || failed != 1 {
			t.Errorf("%d were sent, %v", sent, errs)
		}
	})
}

func TestOutgoingCost(t *testing.T) {
	sent := 0
	cost := int64(0)
	o := httpgate.MustNewOutgoing(slidegate.MustNew(standingStill(), slidegate.PerMinute(10)), answering(&sent, 200),
		httpgate.OutgoingCost(func(*http.Request) int64 { return cost }),
		httpgate.OutgoingBy(func(r *http.Request) string { return r.Header.Get("Account") }))
	for _, c := range []struct {
		cost int64
		want error
	}{{0, nil}, {6, nil}, {4, nil}, {0, nil}} {
		cost = c.cost
		r, _ := post(t, "http://a.test/")
		r.Header.Set("Account", "a")
		if _, err := o.RoundTrip(r); err != c.want {
			t.Errorf("cost %d: %v", c.cost, err)
		}
	}
	for cost = range map[int64]bool{11: true, -1: true} {
		r, body := post(t, "http://a.test/")
		var never *slidegate.CostError
		if _, err := o.RoundTrip(r); !errors.As(err, &never) || body.closed != 1 {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	if sent != 4 {
		t.Errorf("%d were sent", sent)
	}
	blocked := httpgate.MustNewOutgoing(slidegate.Blocked(), answering(&sent, 200))
	blockedAtOnce := httpgate.MustNewOutgoing(slidegate.Blocked(), answering(&sent, 200), httpgate.OutgoingMaxWait(0))
	for _, rt := range []http.RoundTripper{blocked, blockedAtOnce} {
		if r, body := post(t, "http://a.test/"); true {
			if _, err := rt.RoundTrip(r); !errors.Is(err, slidegate.ErrBlocked) || body.closed != 1 {
				t.Errorf("blocked: %v", err)
			}
		}
	}
}

func TestOutgoingWithoutStore(t *testing.T) {
	boom := errors.New("boom")
	for _, closed := range []bool{false, true} {
		for _, wait := range []time.Duration{-1, 0} {
			sent, told := 0, 0
			options := []httpgate.OutgoingOption{httpgate.OutgoingOnStoreError(func(err error) {
				if errors.Is(err, boom) {
					told++
				}
			})}
			if closed {
				options = append(options, httpgate.OutgoingFailClosed())
			}
			if wait >= 0 {
				options = append(options, httpgate.OutgoingMaxWait(wait))
			}
			o := httpgate.MustNewOutgoing(slidegate.MustNew(gatetest.Failing(boom), slidegate.PerMinute(1)), answering(&sent, 200), options...)
			r, body := post(t, "http://a.test/")
			_, err := o.RoundTrip(r)
			if closed != errors.Is(err, slidegate.ErrUnavailable) || closed != (sent == 0) || told != 1 || body.closed != 1 {
				t.Errorf("closed %v: %v, %d sent, told %d times", closed, err, sent, told)
			}
		}
	}
}

// TestOutgoingRefundsWhatWasNotSent: by option, a request that found no server gives its charge back; one
// that was answered, or lost on its way, does not.
func TestOutgoingRefundsWhatWasNotSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	listener.Close()
	rude := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer rude.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	next := &http.Transport{}
	defer next.CloseIdleConnections()
	for _, c := range []struct {
		url      string
		refund   bool
		wantLeft int64
	}{
		{nobody, true, 2}, {nobody, false, 1}, {rude.URL, true, 1}, {untrusted.URL, true, 2},
	} {
		limiter := slidegate.MustNew(standingStill(), slidegate.PerMinute(2))
		var options []httpgate.OutgoingOption
		if c.refund {
			options = append(options, httpgate.OutgoingRefundUnsent())
		}
		client := &http.Client{Transport: httpgate.MustNewOutgoing(limiter, next, options...)}
		if _, err := client.Post(c.url, "text/plain", strings.NewReader("x")); err == nil {
			t.Fatalf("%s answers", c.url)
		}
		d, err := limiter.Peek(t.Context(), "host:"+c.url)
		if err != nil || d.Remaining() != c.wantLeft {
			t.Errorf("%s: %d left, %v, want %d", c.url, d.Remaining(), err, c.wantLeft)
		}
	}
}

// TestOutgoingRefundsWhatWasHeldBack by an Outgoing or a Transport further in, and no repeat of what was sent.
func TestOutgoingRefundsWhatWasHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		inner := func(l *slidegate.Limiter, options ...httpgate.OutgoingOption) func(http.RoundTripper) http.RoundTripper {
			return func(next http.RoundTripper) http.RoundTripper {
				return httpgate.MustNewOutgoing(l, next, append(options, httpgate.OutgoingMaxWait(0))...)
			}
		}
		transport := func(options ...httpgate.TransportOption) func(http.RoundTripper) http.RoundTripper {
			return func(next http.RoundTripper) http.RoundTripper {
				return httpgate.MustNewTransport(next, append(options, httpgate.MaxWait(2*time.Second))...)
			}
		}
		one := slidegate.MustNew(standingStill(), slidegate.PerMinute(1))
		spent := []string{"RateLimit-Policy", `"a";q=1;w=60`, "RateLimit", `"a";r=0;t=60`}
		for _, c := range []struct {
			name       string
			inner      func(http.RoundTripper) http.RoundTripper
			answer     scripted
			sent, left int64 // of two requests
		}{
			{"nobody holds back", func(next http.RoundTripper) http.RoundTripper { return next }, scripted{status: 200}, 2, 8},
			{"an Outgoing", inner(one), scripted{status: 200}, 1, 9},
			{"one that is blocked", inner(slidegate.Blocked()), scripted{status: 200}, 0, 10},
			{"one that fails closed", inner(slidegate.MustNew(gatetest.Failing(boom), slidegate.PerMinute(1)), httpgate.OutgoingFailClosed()), scripted{status: 200}, 0, 10},
			{"a cost that can never fit", inner(one, httpgate.OutgoingCost(func(*http.Request) int64 { return 2 })), scripted{status: 200}, 0, 10},
			{"a Transport", transport(), scripted{status: 200, fields: spent}, 1, 9},
			{"a Transport, once it was refused", transport(httpgate.Presume(slidegate.PerMinute(1))), scripted{status: 429, fields: []string{"Retry-After", "1"}}, 1, 9},
		} {
			host := &transcript{answers: []scripted{c.answer}}
			ours := slidegate.MustNew(standingStill(), slidegate.PerMinute(10))
			rt := httpgate.MustNewOutgoing(ours, c.inner(host), httpgate.OutgoingRefundUnsent())
			for range 2 {
				_, _ = plainly(t, rt, "http://a.test/")
			}
			d, err := ours.Peek(t.Context(), "host:http://a.test")
			if sent := int64(len(host.sent)); err != nil || sent != c.sent || d.Remaining() != c.left {
				t.Errorf("%s: %d were sent, %d left, %v; want %d and %d", c.name, sent, d.Remaining(), err, c.sent, c.left)
			}
		}
	})
}

// TestTransportKeepsUnitsOfWhatWasHeldBack by an Outgoing further in: no host has seen it.
func TestTransportKeepsUnitsOfWhatWasHeldBack(t *testing.T) {
	sent, cost := 0, int64(2)
	ours := httpgate.MustNewOutgoing(slidegate.MustNew(standingStill(), slidegate.PerMinute(1)), answering(&sent, 200),
		httpgate.OutgoingCost(func(*http.Request) int64 { return cost }))
	rt := httpgate.MustNewTransport(ours, httpgate.Presume(slidegate.PerMinute(1)), httpgate.MaxWait(0))
	var never *slidegate.CostError
	if _, err := plainly(t, rt, "http://a.test/"); !errors.As(err, &never) {
		t.Fatalf("a cost that can never fit: %v", err)
	}
	cost = 1
	if status, err := plainly(t, rt, "http://a.test/"); status != 200 {
		t.Errorf("then: %d, %v", status, err)
	}
}

func TestOutgoingOptionsThatCannotBe(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	for name, make := range map[string]func() (*httpgate.Outgoing, error){
		"limiter": func() (*httpgate.Outgoing, error) { return httpgate.NewOutgoing(nil, nil) },
		"nil":     func() (*httpgate.Outgoing, error) { return httpgate.NewOutgoing(limiter, nil, nil) },
		"By": func() (*httpgate.Outgoing, error) {
			return httpgate.NewOutgoing(limiter, nil, httpgate.OutgoingBy(nil))
		},
		"Cost": func() (*httpgate.Outgoing, error) {
			return httpgate.NewOutgoing(limiter, nil, httpgate.OutgoingCost(nil))
		},
		"MaxWait": func() (*httpgate.Outgoing, error) {
			return httpgate.NewOutgoing(limiter, nil, httpgate.OutgoingMaxWait(-1))
		},
		"OnStore": func() (*httpgate.Outgoing, error) {
			return httpgate.NewOutgoing(limiter, nil, httpgate.OutgoingOnStoreError(nil))
		},
	} {
		if o, err := make(); o != nil || !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustNewOutgoing does not panic")
		}
	}()
	httpgate.MustNewOutgoing(nil, nil)
}

// TestOutgoingAllocates nothing but the key and what the limiter does.
func TestOutgoingAllocates(t *testing.T) {
	answer := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	next := roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })
	o := httpgate.MustNewOutgoing(slidegate.MustNew(memstore.New(), slidegate.PerMinute(1_000_000)), next)
	r := httptest.NewRequest("GET", "https://a.test/", nil)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := o.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}
