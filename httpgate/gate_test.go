package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A site is a gate over a memory store with a clock set by hand, in front of a handler that counts.
type site struct {
	t       *testing.T
	clock   *gatetest.Clock
	store   *memstore.Store
	handler http.Handler
	runs    atomic.Int64
}

func newSite(t *testing.T, limits []slidegate.Limit, options ...httpgate.Option) *site {
	t.Helper()
	s := &site{t: t, clock: gatetest.NewClock(time.Unix(1_700_000_000, 0))}
	s.store = memstore.New(memstore.WithClock(s.clock.Now))
	limiter, err := slidegate.New(s.store, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return s.behind(limiter, options...)
}

func (s *site) behind(limiter *slidegate.Limiter, options ...httpgate.Option) *site {
	s.t.Helper()
	g, err := httpgate.New(limiter, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.runs.Add(1)
		io.WriteString(w, "hello")
	}))
	return s
}

// at puts the clock to seconds after the beginning.
func (s *site) at(seconds float64) {
	s.clock.SetMilli(1_700_000_000_000 + int64(seconds*1000+0.5))
}

func request(method, target, peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	if peer != "" {
		r.RemoteAddr = peer
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func (s *site) get(peer string, headers ...string) *httptest.ResponseRecorder {
	return s.do(request("GET", "/", peer, headers...))
}

// want sends a request and checks its status.
func (s *site) want(status int, peer string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	w := s.get(peer, headers...)
	if w.Code != status {
		s.t.Errorf("%s %v got %d, want %d", peer, headers, w.Code, status)
	}
	return w
}

func limits(all ...slidegate.Limit) []slidegate.Limit { return all }

// TestScenarioFields: every scenario through a whole gate gives the verdicts and the fields that
// the scenario says, in every format.
func TestScenarioFields(t *testing.T) {
	formats := map[string]httpgate.Format{"draft-8": httpgate.Draft8, "draft-7": httpgate.Draft7, "draft-6": httpgate.Draft6, "legacy": httpgate.Legacy}
	checked := 0
	for _, sc := range gatetest.AllScenarios() {
		for name, format := range formats {
			var cost int64
			s := newSite(t, sc.AllLimits(), httpgate.Headers(format), httpgate.ByHeader("K"), httpgate.Cost(func(*http.Request) int64 { return cost }))
			for i, step := range sc.Steps {
				if step.Op != "take" {
					if step.Headers != nil {
						t.Fatalf("%s step %d: fields for a %s", sc.ID, i, step.Op)
					}
					break // the gate only takes; what follows a reset would differ
				}
				s.clock.SetMilli(step.T)
				cost = step.Cost
				var w *httptest.ResponseRecorder
				for range max(1, step.Repeat) {
					w = s.get("", "K", step.Key)
				}
				want := step.Expect
				if want.Last != nil {
					want = *want.Last
				}
				if (w.Code == 200) != want.Allowed {
					t.Fatalf("%s step %d: status %d, allowed is %v", sc.ID, i, w.Code, want.Allowed)
				}
				for field, value := range step.Headers[name] {
					checked++
					if got := strings.Join(w.Header().Values(field), ", "); got != value {
						t.Errorf("%s step %d %s: %s is %q, want %q", sc.ID, i, name, field, got, value)
					}
				}
				if step.Headers != nil && want.Allowed && w.Header().Get("Retry-After") != "" {
					t.Errorf("%s step %d: Retry-After on an admitted request", sc.ID, i)
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d fields checked", checked)
	}
}

// TestFieldsDoNotDisturbEachOther: any set of formats gives well-formed fields, each once.
func TestFieldsDoNotDisturbEachOther(t *testing.T) {
	all := []httpgate.Format{httpgate.Draft8, httpgate.Draft7, httpgate.Draft6, httpgate.Legacy, httpgate.LegacyDelta}
	for _, c := range []struct {
		set  []httpgate.Format
		want http.Header
	}{
		{all, http.Header{
			"Ratelimit": {`"2/1m";r=1;t=60`}, "Ratelimit-Policy": {`"2/1m";q=2;w=60`}, "Ratelimit-Limit": {"2"}, "Ratelimit-Remaining": {"1"},
			"Ratelimit-Reset": {"60"}, "X-Ratelimit-Limit": {"2"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"1700000060"},
		}},
		{all[1:3], http.Header{
			"Ratelimit": {"limit=2, remaining=1, reset=60"}, "Ratelimit-Policy": {"2;w=60"}, "Ratelimit-Limit": {"2"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"60"},
		}},
		{all[4:], http.Header{"X-Ratelimit-Limit": {"2"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"60"}}},
		{nil, http.Header{}},
	} {
		s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.Headers(c.set...))
		h := s.want(200, "").Header()
		h.Del("Content-Type")
		if !reflect.DeepEqual(h, c.want) {
			t.Errorf("%v: got %v, want %v", c.set, h, c.want)
		}
		s.get("")
		if refused := s.want(429, "").Header(); (refused.Get("Retry-After") == "60") != (len(c.set) > 0) {
			t.Errorf("%v: Retry-After is %q", c.set, refused.Get("Retry-After"))
		}
	}
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Headers(), httpgate.RetryAfter())
	s.get("")
	if h := s.want(429, "").Header(); h.Get("Retry-After") != "60" || h.Get("RateLimit") != "" {
		t.Errorf("with its own switch: %v", h)
	}
}

// TestGatesInARow: lists grow, and single values are those of the tighter gate, in either order.
func TestGatesInARow(t *testing.T) {
	tight, loose := slidegate.PerMinute(3).Named("tight"), slidegate.PerHour(100).Named("loose")
	for _, order := range [][]slidegate.Limit{{tight, loose}, {loose, tight}} {
		h := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, l := range order {
			h = httpgate.PerIP(l, httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.LegacyDelta))(h)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/", ""))
		outer, inner := order[1], order[0]
		if got, want := strings.Join(w.Header().Values("RateLimit-Policy"), ", "), fmt.Sprintf(`"%s";q=%d;w=%d, "%s";q=%d;w=%d`,
			outer.Name, outer.Quota, int(outer.Window.Seconds()), inner.Name, inner.Quota, int(inner.Window.Seconds())); got != want {
			t.Errorf("policies %q, want %q", got, want)
		}
		if n := len(w.Header().Values("RateLimit")); n != 2 {
			t.Errorf("%d RateLimit lines, want 2", n)
		}
		for field, want := range map[string]string{"RateLimit-Limit": "3", "RateLimit-Remaining": "2", "X-RateLimit-Remaining": "2", "X-RateLimit-Limit": "3"} {
			if got := w.Header().Get(field); got != want {
				t.Errorf("%s inside %s: %s is %q, want %q", inner.Name, outer.Name, field, got, want)
			}
		}
	}
}

// TestSharedFieldValuesAreNotWrittenTo: a handler that appends to a field spoils nobody else's.
func TestSharedFieldValuesAreNotWrittenTo(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(9)))
	w := s.get("")
	w.Header().Add("RateLimit-Policy", "mine")
	if got := s.get("").Header().Values("RateLimit-Policy"); len(got) != 1 {
		t.Errorf("another response has %q", got)
	}
}

// TestSkippedRequestsAreUntouched: no store call, no field, no decision.
func TestSkippedRequestsAreUntouched(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Skip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))
	for range 5 {
		w := s.do(request("GET", "/healthz", ""))
		if w.Code != 200 || w.Header().Get("RateLimit") != "" || w.Header().Get("RateLimit-Policy") != "" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
	}
	if s.store.Len() != 0 {
		t.Errorf("%d keys after skipped requests", s.store.Len())
	}
}

// TestDecisionIsInTheContext of the next handler and of OnDeny, with the fields set already.
func TestDecisionIsInTheContext(t *testing.T) {
	var seen []string
	look := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d, ok := httpgate.FromContext(r.Context())
			if !ok {
				t.Fatalf("%s: no decision", name)
			}
			st := d.State(0)
			seen = append(seen, fmt.Sprint(name, " ", d.Allowed, " ", d.Len(), " ", st.Limit.Name, " ", st.Limit.Quota, " ", st.Remaining, " ", st.ResetIn, " ", st.RetryIn, " ", d.Key(), " ", w.Header().Get("RateLimit")))
			w.WriteHeader(418)
		}
	}
	clock := gatetest.NewClock(time.Unix(0, 0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.PerMinute(1).Named("m"))
	h := httpgate.MustNew(l, httpgate.OnDeny(look("deny"))).Wrap(look("next"))
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "203.0.113.7:1"))
	}
	want := []string{
		`next true 1 m 1 0 1m0s 0s ip:203.0.113.7 "m";r=0;t=60`,
		`deny false 1 m 1 0 1m0s 1m0s ip:203.0.113.7 "m";r=0;t=60`,
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %q\nwant %q", seen, want)
	}
	if _, ok := httpgate.FromContext(context.Background()); ok {
		t.Error("a context without a gate has a decision")
	}
}

// TestBodies: the answer to a refusal in every form that the options have.
func TestBodies(t *testing.T) {
	const problem, text, jsonType = "application/problem+json", "text/plain; charset=utf-8", "application/json"
	for _, c := range []struct {
		name, method, accept string
		option               httpgate.Option
		status               int
		contentType, body    string
	}{
		{"default", "GET", "", nil, 429, problem, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["1/1m"]}`},
		{"json", "GET", "application/json", nil, 429, problem, ""},
		{"browser", "GET", "text/html,application/xhtml+xml,*/*;q=0.8", nil, 429, problem, ""},
		{"text", "GET", "text/plain", nil, 429, text, "Request cannot be satisfied as assigned quota has been exceeded\n"},
		{"json by weight", "GET", "text/html, application/problem+json;q=0.3", nil, 429, problem, ""},
		{"two lines' worth", "GET", "text/html, APPLICATION/*", nil, 429, problem, ""},
		{"another status", "GET", "", httpgate.DenyWith(503, nil), 503, problem, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":503,"violated-policies":["1/1m"]}`},
		{"no json", "GET", "text/html, application/json;q=0", nil, 429, text, ""},
		{"head", "HEAD", "", nil, 429, problem, "-"},
		{"reference text", "GET", "", httpgate.DenyWith(429, "Too many requests, please try again later."), 429, text, "Too many requests, please try again later."},
		{"reference json", "GET", "", httpgate.DenyWith(420, map[string]any{"success": false, "message": "Too many requests"}), 420, jsonType, `{"message":"Too many requests","success":false}`},
	} {
		var options []httpgate.Option
		if c.option != nil {
			options = append(options, c.option)
		}
		s := newSite(t, limits(slidegate.PerMinute(1)), options...)
		s.get("")
		r := request(c.method, "/", "")
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		w := s.do(r)
		if w.Code != c.status || w.Header().Get("Content-Type") != c.contentType || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") != "60" {
			t.Errorf("%s: %d %v", c.name, w.Code, w.Header())
		}
		if body := w.Body.String(); c.body == "-" && body != "" || c.body != "" && c.body != "-" && body != c.body {
			t.Errorf("%s: body %s", c.name, body)
		}
		if s.runs.Load() != 1 {
			t.Errorf("%s: the handler ran %d times", c.name, s.runs.Load())
		}
	}
}

var errGone = fmt.Errorf("%w: %w", slidegate.ErrUnavailable, errors.New("connection refused"))

// A failing store cannot be asked while down is set.
type failing struct {
	slidegate.Store
	down  atomic.Bool
	only  string // the name of a limit, if only plans that begin with it fail
	calls atomic.Int64
}

type failingPlan struct {
	slidegate.Plan
	s    *failing
	name string
}

func (p failingPlan) isDown() bool { return p.s.down.Load() && (p.s.only == "" || p.s.only == p.name) }

func (s *failing) Bind(l []slidegate.Limit) (slidegate.Plan, error) {
	p, err := s.Store.Bind(l)
	return failingPlan{p, s, l[0].Name}, err
}

func (p failingPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.s.calls.Add(1)
	if err := ctx.Err(); err != nil {
		return slidegate.Answer{}, err
	}
	if p.isDown() {
		return slidegate.Answer{}, errGone
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p failingPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.isDown() {
		return slidegate.Answer{}, errGone
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p failingPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if p.isDown() {
		return errGone
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

func newFailing() *failing { return &failing{Store: memstore.New()} }

// TestStoreFailure: open runs the handler, closed does not, neither has fields, and what may be told.
func TestStoreFailure(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []httpgate.Option
		status  int
		runs    int64
		body    string
	}{
		{"default", nil, 200, 1, "hello"},
		{"open", []httpgate.Option{httpgate.FailOpen()}, 200, 1, "hello"},
		{"closed", []httpgate.Option{httpgate.FailClosed()}, 503, 0, `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{"closed with", []httpgate.Option{httpgate.FailClosedWith(500, map[string]any{"success": false, "message": "Rate limiter temporarily unavailable"})}, 500, 0, `{"message":"Rate limiter temporarily unavailable","success":false}`},
		{"closed, another status", []httpgate.Option{httpgate.FailClosedWith(500, nil)}, 500, 0, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
		{"the last of two", []httpgate.Option{httpgate.FailClosedWith(500, nil), httpgate.FailClosedWith(502, "no")}, 502, 0, "no"},
		{"with", []httpgate.Option{httpgate.FailWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := httpgate.FromContext(r.Context()); ok || !errors.Is(httpgate.ErrorFromContext(r.Context()), slidegate.ErrUnavailable) {
				t.Error("a decision where there is none, or no error")
			}
			w.WriteHeader(418)
		}))}, 418, 0, ""},
	} {
		store := newFailing()
		store.down.Store(true)
		s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(1)), append(c.options, httpgate.OnDeny(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Errorf("%s: OnDeny for a store failure", c.name)
		})))...)
		for range 2 {
			w := s.get("")
			if w.Code != c.status || c.body != "" && w.Body.String() != c.body {
				t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			}
			for _, field := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
				if w.Header().Get(field) != "" {
					t.Errorf("%s: %s is sent", c.name, field)
				}
			}
			if strings.Contains(w.Body.String(), "connection refused") {
				t.Errorf("%s: the client is told about the store: %s", c.name, w.Body)
			}
		}
		if s.runs.Load() != 2*c.runs {
			t.Errorf("%s: the handler ran %d times", c.name, s.runs.Load())
		}
	}
}

// TestCostThatNeverFits is refused, open or closed, without a Retry-After and without a store call.
func TestCostThatNeverFits(t *testing.T) {
	for _, cost := range []int64{2, -1, 1 << 62} {
		for _, option := range []httpgate.Option{httpgate.FailOpen(), httpgate.FailClosed()} {
			store := newFailing()
			denied := 0
			s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(1)), option, httpgate.Cost(func(*http.Request) int64 { return cost }),
				httpgate.Observe(func(e *httpgate.Event) {
					if e.Err == nil && e.Decision != nil && !e.Decision.Allowed {
						denied++
					}
				}))
			if h := s.want(429, "").Header(); h.Get("Retry-After") != "" || store.calls.Load() != 0 || denied != 1 || s.runs.Load() != 0 {
				t.Errorf("cost %d: Retry-After %q, %d store calls, %d refusals seen", cost, h.Get("Retry-After"), store.calls.Load(), denied)
			}
		}
	}
}

// TestGoneClientIsNoEvidence: a cancelled request is no store failure, and logs nothing. It does not pass
// either, or whoever hangs up in time would have its requests run uncounted.
func TestGoneClientIsNoEvidence(t *testing.T) {
	var log strings.Builder
	canceled := 0
	store := newFailing()
	s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(5)), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))),
		httpgate.Observe(func(e *httpgate.Event) {
			if e.Canceled && errors.Is(e.Err, context.Canceled) {
				canceled++
			}
		}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := s.do(request("GET", "/", "").WithContext(ctx))
	if canceled != 1 || log.Len() != 0 {
		t.Errorf("%d cancelled events, log %q", canceled, log.String())
	}
	if s.runs.Load() != 0 || w.Code != 503 || w.Header().Get("RateLimit") != "" {
		t.Errorf("the handler ran %d times, status %d, fields %v", s.runs.Load(), w.Code, w.Header())
	}
	if o := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(5))).Decide(request("GET", "/", "").WithContext(ctx)); o.Admitted {
		t.Error("Decide admits who has gone")
	}
	shadow := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(5)), httpgate.Shadow())
	if shadow.do(request("GET", "/", "").WithContext(ctx)); shadow.runs.Load() != 1 {
		t.Error("a shadow gate keeps somebody out")
	}
}

// TestObserverPanicIsNotTheRequests.
func TestObserverPanicIsNotTheRequests(t *testing.T) {
	newSite(t, limits(slidegate.PerMinute(1)), httpgate.Observe(func(*httpgate.Event) { panic("mine") })).want(200, "")
}

// TestRequestsWithoutAddress are refused rather than unlimited or in one bucket.
func TestRequestsWithoutAddress(t *testing.T) {
	for _, peer := range []string{"@", "/run/app.sock", "garbage"} {
		s := newSite(t, limits(slidegate.PerMinute(1)))
		s.want(500, peer)
		closed := newSite(t, limits(slidegate.PerMinute(1)), httpgate.FailClosed())
		closed.want(503, peer)
		if s.runs.Load() != 0 || s.store.Len() != 0 {
			t.Errorf("%s: the handler ran or a key is held", peer)
		}
	}
	unix := newSite(t, limits(slidegate.PerMinute(1)), httpgate.TrustUnixPeer())
	unix.want(200, "@", "X-Forwarded-For", "203.0.113.7")
	unix.want(429, "@", "X-Forwarded-For", "203.0.113.7")
	unix.want(200, "@", "X-Forwarded-For", "203.0.113.8")
	unix.want(500, "@")
}

func host(r *http.Request) string { return r.Host }

// TestBadOptions: each gets one sentence that names it and what is allowed.
func TestBadOptions(t *testing.T) {
	good := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	for _, c := range []struct {
		want    string
		options []httpgate.Option
	}{
		{"By: the key function is nil", []httpgate.Option{httpgate.By(nil)}},
		{`ByHeader ""`, []httpgate.Option{httpgate.ByHeader("")}},
		{`ByHeader "X Y"`, []httpgate.Option{httpgate.ByHeader("X Y")}},
		{`ByCookie "a;b"`, []httpgate.Option{httpgate.ByCookie("a;b")}},
		{"an option is nil", []httpgate.Option{nil}},
		{"AddressFrom: the function is nil", []httpgate.Option{httpgate.AddressFrom(nil)}},
		{"ByHeader with ByCookie: who is asking? give one, join them to one key with ByAll, or give the second a limiter of its own with And", []httpgate.Option{httpgate.ByHeader("X"), httpgate.ByCookie("y")}},
		{"ByHeader with ByHeader: who is asking?", []httpgate.Option{httpgate.ByHeader("X"), httpgate.ByHeader("Y")}},
		{"ByAddress with By: who is asking?", []httpgate.Option{httpgate.ByAddress(), httpgate.By(func(*http.Request) (string, error) { return "k", nil })}},
		{"ByAll with ByEverybody: who is asking?", []httpgate.Option{httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAddress()), httpgate.ByEverybody()}},
		{"ByRoute with ByNetwork: who is asking?", []httpgate.Option{httpgate.ByRoute(nil), httpgate.ByNetwork(24, 48)}},
		{"FailOpen with FailClosed: what becomes of requests that could not be decided? give one", []httpgate.Option{httpgate.FailOpen(), httpgate.FailClosed()}},
		{"FailClosed with FailOpen", []httpgate.Option{httpgate.FailClosed(), httpgate.FailOpen()}},
		{"FailClosedWith with FailWith", []httpgate.Option{httpgate.FailClosedWith(500, nil), httpgate.FailWith(http.NotFoundHandler())}},
		{"RetryAfter with NoRetryAfter: give one", []httpgate.Option{httpgate.NoRetryAfter(), httpgate.RetryAfter()}},
		{"OnDeny with DenyWith or DenyAs: who answers refused requests? give one", []httpgate.Option{httpgate.OnDeny(http.NotFoundHandler()), httpgate.DenyWith(429, nil)}},
		{"OnDeny with DenyWith or DenyAs", []httpgate.Option{httpgate.DenyAs(httpgate.AbnormalUsage), httpgate.OnDeny(http.NotFoundHandler())}},
		{"DenyWith of a body with DenyAs", []httpgate.Option{httpgate.DenyAs(httpgate.AbnormalUsage), httpgate.DenyWith(403, "no")}},
		{"AddressFrom with TrustProxies", []httpgate.Option{httpgate.AddressFrom(fromVia), httpgate.TrustProxies("10.0.0.0/8")}},
		{"AddressFrom with TrustProxies", []httpgate.Option{httpgate.AddressFrom(fromVia), httpgate.ClientIPHeader("X-Real-IP")}},
		{`ByClaim "a:b": allowed is a name`, []httpgate.Option{httpgate.ByClaim("a:b", func(*http.Request) (string, bool) { return "", false })}},
		{`ByClaim "sub": the function is nil`, []httpgate.Option{httpgate.ByClaim("sub", nil)}},
		{`ByValue "": allowed is a kind such as account`, []httpgate.Option{httpgate.ByValue("", host)}},
		{`ByValue "user:": allowed is a kind such as account`, []httpgate.Option{httpgate.ByValue("user:", host)}},
		{`ByValue "ip": allowed is a kind such as account, 1 to 128 characters of a header's name, and none of claim,`, []httpgate.Option{httpgate.ByValue("ip", host)}},
		{`ByValue "host": the function is nil`, []httpgate.Option{httpgate.ByValue("host", nil)}},
		{"ByNetwork 7, 48: allowed are 8 to 32 bits of an IPv4 address, and 16 to 128", []httpgate.Option{httpgate.ByNetwork(7, 48)}},
		{"ByNetwork 33, 48", []httpgate.Option{httpgate.ByNetwork(33, 48)}},
		{"ByNetwork 24, 15", []httpgate.Option{httpgate.ByNetwork(24, 15)}},
		{"ByNetwork 24, 129", []httpgate.Option{httpgate.ByNetwork(24, 129)}},
		{"ByAll of 1 options: allowed are 2 to 8", []httpgate.Option{httpgate.ByAll(httpgate.ByAddress())}},
		{"ByAll of 9 options: allowed are 2 to 8", []httpgate.Option{httpgate.ByAll(make([]httpgate.Option, 9)...)}},
		{"ByAll: option 2 says nothing of who is asking", []httpgate.Option{httpgate.ByAll(httpgate.ByAddress(), httpgate.FailClosed())}},
		{"ByAll: option 1 says nothing of who is asking", []httpgate.Option{httpgate.ByAll(nil, httpgate.ByAddress())}},
		{`ByHeader "no such header"`, []httpgate.Option{httpgate.ByAll(httpgate.ByAddress(), httpgate.ByHeader("no such header"))}},
		{"Secret of 31 bytes: allowed are at least 32", []httpgate.Option{httpgate.Secret(make([]byte, 31))}},
		{"PartitionKeys of 0 bytes: allowed are at least 32", []httpgate.Option{httpgate.PartitionKeys(nil)}},
		{"Jitter 0: allowed is 1 to 100 percent", []httpgate.Option{httpgate.Jitter(0)}},
		{"Jitter 101", []httpgate.Option{httpgate.Jitter(101)}},
		{"DenyAs: the function is nil", []httpgate.Option{httpgate.DenyAs(nil)}},
		{"DenyAs: a problem of status 0: allowed is 400 to 599", []httpgate.Option{httpgate.DenyAs(func(...string) httpgate.Problem { return httpgate.Problem{} })}},
		{"ForbidWith: status 302: allowed is 400 to 599", []httpgate.Option{httpgate.ForbidWith(302, nil)}},
		{"Exempt: no entry", []httpgate.Option{httpgate.Exempt()}},
		{"Deny: no entry", []httpgate.Option{httpgate.Deny()}},
		{"OnStoreError: the function is nil", []httpgate.Option{httpgate.OnStoreError(nil)}},
		{"FailClosedWith: the body", []httpgate.Option{httpgate.FailClosedWith(503, func() {})}},
		{"TrustHops 33: allowed is 1 to 32", []httpgate.Option{httpgate.TrustHops(33)}},
		{`trusted proxies "::ffff:10.0.0.0/8"`, []httpgate.Option{httpgate.TrustProxies("::ffff:10.0.0.0/8")}},
		{"Cost: the function is nil", []httpgate.Option{httpgate.Cost(nil)}},
		{"Skip: the function is nil", []httpgate.Option{httpgate.Skip(nil)}},
		{"Choose: the function is nil", []httpgate.Option{httpgate.Choose(nil)}},
		{"OnDeny: the handler is nil", []httpgate.Option{httpgate.OnDeny(nil)}},
		{"DenyWith: status 200: allowed is 400 to 599", []httpgate.Option{httpgate.DenyWith(200, "x")}},
		{"DenyWith: the body", []httpgate.Option{httpgate.DenyWith(429, func() {})}},
		{"FailWith: the handler is nil", []httpgate.Option{httpgate.FailWith(nil)}},
		{"FailClosedWith: status 99", []httpgate.Option{httpgate.FailClosedWith(99, "x")}},
		{"Headers: format(9): allowed is Draft8", []httpgate.Option{httpgate.Headers(9)}},
		{"TrustProxies: no network", []httpgate.Option{httpgate.TrustProxies()}},
		{`trusted proxies "10.0.0.0/33": no CIDR`, []httpgate.Option{httpgate.TrustProxies("10.0.0.0/33")}},
		{`trusted proxies "0.0.0.0/0": that is everybody`, []httpgate.Option{httpgate.TrustProxies("0.0.0.0/0")}},
		{"TrustHops 0: allowed is 1 to 32", []httpgate.Option{httpgate.TrustHops(0)}},
		{"ClientIPHeader X-Real-Ip without TrustProxies", []httpgate.Option{httpgate.ClientIPHeader("X-Real-IP")}},
		{`ClientIPHeader "a:b"`, []httpgate.Option{httpgate.ClientIPHeader("a:b")}},
		{"TrustHops 2 with X-Real-Ip", []httpgate.Option{httpgate.TrustHops(2), httpgate.ClientIPHeader("X-Real-IP")}},
		{"IPv6Prefix 31: allowed is 32 to 128", []httpgate.Option{httpgate.IPv6Prefix(31)}},
		{"IPv6Prefix 129", []httpgate.Option{httpgate.IPv6Prefix(129)}},
		{"RefundIf: the function is nil", []httpgate.Option{httpgate.RefundIf(nil)}},
		{"Observe: the function is nil", []httpgate.Option{httpgate.Observe(nil)}},
		{"Logger: the logger is nil", []httpgate.Option{httpgate.Logger(nil)}},
	} {
		_, err := httpgate.New(good, c.options...)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := httpgate.NewAddresses(httpgate.IPv6Prefix(1)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("addresses: %v", err)
	}
	if _, err := httpgate.New(nil); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a nil limiter: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("PerIP of a bad limit did not panic")
		}
	}()
	httpgate.PerIP(slidegate.PerMinute(0))
}

// TestMustNewPanicsOnABadOption: what cannot work ends the program before it serves.
func TestMustNewPanicsOnABadOption(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("recovered %v", err)
		}
	}()
	httpgate.MustNew(slidegate.Unlimited(), httpgate.TrustHops(0))
}

// TestKeysOfDifferentKindsNeverMeet: a header's value cannot spend an address's quota.
func TestKeysOfDifferentKindsNeverMeet(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.ByHeader("X-API-Key"))
	s.want(200, "203.0.113.7:1")
	s.want(429, "203.0.113.7:1")
	for _, value := range []string{"ip:203.0.113.8", "203.0.113.8"} {
		s.want(200, "203.0.113.7:1", "X-API-Key", value)
	}
	s.want(200, "203.0.113.8:1")
	if a, b := httpgate.Join("a:b", "c"), httpgate.Join("a", "b:c"); a == b {
		t.Errorf("%q and %q are one key", a, b)
	}
}

// TestLoopbackAddressesAreTwoClients over real sockets, whatever header they send.
func TestLoopbackAddressesAreTwoClients(t *testing.T) {
	srv := httptest.NewServer(httpgate.PerIP(slidegate.PerHour(1))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer srv.Close()
	for i, from := range []string{"127.0.0.1", "127.0.0.2"} {
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		for n, want := range []int{200, 429} {
			r, _ := http.NewRequest("GET", srv.URL, nil)
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i*10+n))
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s request %d: %d, want %d", from, n, resp.StatusCode, want)
			}
		}
	}
}

// TestResponseWriterGoesThrough: flushing, hijacking and http.ResponseController work, over HTTP/1 and 2.
func TestResponseWriterGoesThrough(t *testing.T) {
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "first\n")
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		<-release
		io.WriteString(w, "last\n")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	})
	for _, http2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(httpgate.PerIP(slidegate.PerHour(3))(mux))
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		resp, err := srv.Client().Get(srv.URL + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first\n" {
			t.Errorf("%q, %v before the handler has ended", first, err)
		}
		if (resp.ProtoMajor == 2) != http2 {
			t.Errorf("protocol %s", resp.Proto)
		}
		release <- struct{}{}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "last\n" {
			t.Errorf("%q, %v", rest, err)
		}
		resp.Body.Close()
		if !http2 {
			for i, want := range []int{101, 101, 429} {
				r, _ := http.NewRequest("GET", srv.URL+"/hijack", nil)
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "test")
				resp, err := srv.Client().Transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("upgrade %d: %d, want %d", i, resp.StatusCode, want)
				}
			}
		}
		srv.Close()
	}
}

// TestConcurrentRequests: exactly the quota runs the handler.
func TestConcurrentRequests(t *testing.T) {
	s := newSite(t, limits(slidegate.PerHour(50)))
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 10 {
				if s.get("203.0.113.7:1").Code == 429 {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if s.runs.Load() != 50 || refused.Load() != 150 {
		t.Errorf("%d ran, %d refused", s.runs.Load(), refused.Load())
	}
}

// TestOnDenyCanTellWhyNoLimitRefused: a plan that is Blocked from a cost that can never fit, and both from a limit.
func TestOnDenyCanTellWhyNoLimitRefused(t *testing.T) {
	store, cost, blocked := atTheEpoch(), int64(1), false
	why := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := httpgate.FromContext(r.Context())
		var never *slidegate.CostError
		fmt.Fprint(w, d.Len(), " ", errors.As(httpgate.ErrorFromContext(r.Context()), &never))
	})
	choose := httpgate.Choose(func(*http.Request) *slidegate.Limiter {
		if blocked {
			return slidegate.Blocked()
		}
		return nil
	})
	also := httpgate.And(slidegate.MustNew(store, slidegate.PerHour(1).Named("everybody")), httpgate.ByEverybody())
	for n, options := range [][]httpgate.Option{{}, {also}} {
		options = append(options, choose, httpgate.OnDeny(why), httpgate.Cost(func(*http.Request) int64 { return cost }))
		s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(1)), options...)
		s.get("")
		expect(t, "by its limits", s.want(429, "").Body.String(), fmt.Sprint(n+1, " false"))
		for cost = range map[int64]bool{-1: true, 2: true} {
			expect(t, "the cost", s.want(429, "").Body.String(), "0 true")
		}
		cost, blocked = 1, true
		expect(t, "blocked", s.want(429, "").Body.String(), "0 false")
		blocked = false
	}
}

// TestChosenPlans: unlimited and blocked ones too, and history goes along with a name.
func TestChosenPlans(t *testing.T) {
	clock := gatetest.NewClock(time.Unix(0, 0))
	store := memstore.New(memstore.WithClock(clock.Now))
	free := slidegate.MustNew(store, slidegate.PerMinute(2).Named("plan"))
	pro, err := free.With(slidegate.PerMinute(5).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	plans := map[string]*slidegate.Limiter{"pro": pro, "staff": slidegate.Unlimited(), "banned": slidegate.Blocked()}
	s := (&site{t: t}).behind(free, httpgate.ByHeader("User"), httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return plans[r.Header.Get("Plan")] }))
	s.want(200, "", "User", "u")
	s.want(200, "", "User", "u")
	if h := s.want(429, "", "User", "u").Header(); h.Get("RateLimit-Policy") != `"plan";q=2;w=60` {
		t.Errorf("free: %v", h)
	}
	if h := s.want(200, "", "User", "u", "Plan", "pro").Header(); h.Get("RateLimit") != `"plan";r=2;t=60` {
		t.Errorf("after an upgrade: %v", h)
	}
	for range 10 {
		if h := s.want(200, "", "User", "s", "Plan", "staff").Header(); h.Get("RateLimit") != "" {
			t.Errorf("unlimited: %v", h)
		}
	}
	if h := s.want(429, "", "User", "b", "Plan", "banned").Header(); h.Get("Retry-After") != "" || h.Get("RateLimit") != "" {
		t.Errorf("blocked: %v", h)
	}
	if store.Len() != 1 {
		t.Errorf("%d keys, want the one of u", store.Len())
	}
}

// TestAddresses: the exported walk and its masks.
func TestAddresses(t *testing.T) {
	g := httpgate.MustNew(slidegate.Unlimited(), httpgate.TrustProxies("10.0.0.0/8"), httpgate.IPv6Prefix(64))
	addr, reason := g.Addresses().Find(request("GET", "/", "10.0.0.1:1", "X-Forwarded-For", "2001:db8:1:2::9"))
	if reason != httpgate.ReasonHeader || g.Addresses().Key(addr) != "2001:db8:1:2::/64" {
		t.Errorf("%s, %s", addr, reason)
	}
	if key := g.Addresses().Key(netip.Addr{}); key != "" {
		t.Errorf("no address has the key %q", key)
	}
}

// fromVia is a server's own idea of who the client is: the field Via, of a proxy at 10.0.0.1.
func fromVia(r *http.Request) (addr netip.Addr) {
	if strings.HasPrefix(r.RemoteAddr, "10.0.0.1:") || r.RemoteAddr == "@" {
		addr, _ = netip.ParseAddr(r.Header.Get("Via"))
	}
	return addr
}

// TestAServerMayKnowTheAddress: it is asked first, and where it knows nothing it is who connects.
func TestAServerMayKnowTheAddress(t *testing.T) {
	var got []string
	s := newSite(t, limits(slidegate.PerMinute(99)), httpgate.AddressFrom(fromVia), httpgate.IPv6Prefix(48),
		httpgate.Observe(func(e *httpgate.Event) { got = append(got, e.Key+" "+string(e.Reason)) }))
	for _, c := range []struct{ remote, via, want string }{
		{"10.0.0.1:1", "203.0.113.7", "ip:203.0.113.7 server"},
		{"10.0.0.1:1", "::ffff:203.0.113.7", "ip:203.0.113.7 server"},
		{"10.0.0.1:1", "2001:db8:1:2::9%eth0", "ip:2001:db8:1::/48 server"},
		{"@", "203.0.113.7", "ip:203.0.113.7 server"},
		{"10.0.0.1:1", "", "ip:10.0.0.1 peer"},
		{"198.51.100.1:1", "203.0.113.7", "ip:198.51.100.1 peer"},
		{"[2001:db8:1:2::9]:1", "203.0.113.7", "ip:2001:db8:1::/48 peer"},
		{"@", "", " no-peer"},
	} {
		got = nil
		s.get(c.remote, "Via", c.via)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("from %s for %s: %q, want %q", c.remote, c.via, got, c.want)
		}
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) WriteString(s string) (int, error) {
	return len(s), nil
}

// TestCookieKeys: a cookie is a kind of its own, and requests without it count by address.
func TestCookieKeys(t *testing.T) {
	var keys []string
	s := newSite(t, limits(slidegate.PerMinute(9)), httpgate.ByCookie("session"), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) }))
	s.get("203.0.113.7:1", "Cookie", "a=b; session=s1")
	s.get("203.0.113.7:1", "Cookie", "session=")
	s.get("203.0.113.7:1")
	if want := []string{"cookie:session:s1", "ip:203.0.113.7", "ip:203.0.113.7"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("got %q, want %q", keys, want)
	}
}

// TestKeyFunctionThatCannotTell counts by address: never unlimited, never one bucket.
func TestKeyFunctionThatCannotTell(t *testing.T) {
	for name, f := range map[string]func(*http.Request) (string, error){
		"nothing":  func(*http.Request) (string, error) { return "", nil },
		"an error": func(*http.Request) (string, error) { return "everybody", errors.New("no token") },
	} {
		s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.By(f))
		if got := s.codes(2, "203.0.113.7:1") + " " + s.codes(2, "203.0.113.8:1"); got != "200 429 200 429" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestEventHasADecisionOrAnError, and says how long it took and whom it was about.
func TestEventHasADecisionOrAnError(t *testing.T) {
	var events []httpgate.Event
	store := newFailing()
	s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(1)), httpgate.Observe(func(e *httpgate.Event) { events = append(events, *e) }))
	s.get("203.0.113.7:1")
	s.get("203.0.113.7:1")
	store.down.Store(true)
	s.get("203.0.113.7:1")
	s.get("@")
	for i, e := range events {
		if (e.Decision == nil) != (e.Err != nil) || e.Took < 0 || e.Canceled || i < 3 && (e.Key != "ip:203.0.113.7" || e.Reason != httpgate.ReasonPeer) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(events) != 4 || !events[0].Decision.Allowed || events[1].Decision.Allowed || !errors.Is(events[2].Err, slidegate.ErrUnavailable) || !errors.Is(events[3].Err, httpgate.ErrNoAddress) {
		t.Errorf("got %+v", events)
	}
}

// TestOutageIsTwoLines: one when it begins, and one when nothing has failed for a while, however
// often the store comes and goes between.
func TestOutageIsTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := newFailing()
		s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(1e6)), httpgate.FailOpen(), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		pass := func(d time.Duration) { <-time.After(d) } // of the bubble's clock
		for i := range 100 {
			store.down.Store(i%2 == 0)
			s.get("203.0.113.7:1")
			pass(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines of a store that comes and goes:\n%s", n, log.String())
		}
		store.down.Store(false)
		pass(time.Minute)
		s.get("203.0.113.7:1")
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "undecided=50") || strings.Contains(log.String(), "203.0.113.7") {
			t.Errorf("%d lines after it is back:\n%s", n, log.String())
		}
	})
}

// TestOutagesMayBeToldElsewhere: a gate that says so logs nothing of them, and goes on with the rest.
func TestOutagesMayBeToldElsewhere(t *testing.T) {
	var log strings.Builder
	store := newFailing()
	s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(1)), httpgate.FailClosed(), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))), httpgate.WithoutOutages())
	store.down.Store(true)
	s.want(503, "203.0.113.7:1")
	if log.Len() != 0 {
		t.Error(log.String())
	}
	s.get("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7")
	if !strings.Contains(log.String(), "untrusted-proxy") {
		t.Error("the logger hears nothing at all")
	}
}

// TestHeadersThatCannotBeUsedAreLoggedOnceAMinute.
func TestHeadersThatCannotBeUsedAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.TrustHops(2), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 3 {
			for range 100 {
				s.get("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7")
			}
			<-time.After(time.Minute)
		}
		if n := strings.Count(log.String(), "too-few-hops"); n != 3 || strings.Contains(log.String(), "203.0.113.7") {
			t.Errorf("%d lines in three minutes:\n%s", n, log.String())
		}
	})
}

// TestGateWithoutFieldsHidesNoTighterGate: what the outermost says is what the innermost minds.
func TestGateWithoutFieldsHidesNoTighterGate(t *testing.T) {
	fields := httpgate.Headers(httpgate.Draft7, httpgate.Legacy)
	for _, between := range []httpgate.Option{httpgate.Headers(), httpgate.Choose(func(*http.Request) *slidegate.Limiter { return slidegate.Unlimited() })} {
		h := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		h = httpgate.PerIP(slidegate.PerHour(100), fields)(h)
		h = httpgate.PerIP(slidegate.PerHour(1), between)(h)
		h = httpgate.PerIP(slidegate.PerHour(3), fields)(h)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/", ""))
		if got := w.Header().Get("RateLimit"); got != "limit=3, remaining=2, reset=3600" {
			t.Errorf("got %q", got)
		}
		if got := w.Header().Get("X-RateLimit-Limit"); got != "3" {
			t.Errorf("got %q", got)
		}
	}
}

// TestKeyOfIsTheGatesOwnKey, so that a composite key and the fall-back speak of one client.
func TestKeyOfIsTheGatesOwnKey(t *testing.T) {
	options := []httpgate.Option{httpgate.TrustProxies("10.0.0.0/8"), httpgate.IPv6Prefix(48), httpgate.UnwrapNAT64()}
	addresses, err := httpgate.NewAddresses(options...)
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	s := newSite(t, limits(slidegate.PerMinute(9)), append(options, httpgate.Observe(func(e *httpgate.Event) { seen = e.Key }))...)
	plain := newSite(t, limits(slidegate.PerMinute(9)), httpgate.Observe(func(e *httpgate.Event) { seen = e.Key }))
	for peer, want := range map[string]string{
		"10.0.0.1:1": "ip:2001:db8:1::/48", "203.0.113.7:1": "ip:203.0.113.7", "203.0.113.7": "ip:203.0.113.7", "[64:ff9b::192.0.2.1]:1": "ip:192.0.2.1",
	} {
		r := request("GET", "/", peer, "X-Forwarded-For", "2001:db8:1:2::3")
		s.do(r)
		if key, err := addresses.KeyOf(r); err != nil || key != want || seen != want {
			t.Errorf("%s: got %q and %q, %v, want %q", peer, key, seen, err, want)
		}
	}
	for _, peer := range []string{"203.0.113.7:1", "203.0.113.7:65535", "203.0.113.7:65536", "203.0.113.7:", "203.0.113.07:1", "203.0.113.256:1", "203.0.113:1", "203.0.113.7.1:1", "1.2.3.4:x", ":1"} {
		seen = ""
		plain.get(peer)
		if key, _ := new(httpgate.Addresses).KeyOf(request("GET", "/", peer)); key != seen {
			t.Errorf("%s: the gate counts under %q, KeyOf says %q", peer, seen, key)
		}
	}
	if _, err := addresses.KeyOf(request("GET", "/", "@")); !errors.Is(err, httpgate.ErrNoAddress) {
		t.Errorf("got %v", err)
	}
}

// TestDenyHandlerMayHijack: a handler of refusals may take the connection, and has the writer's other
// powers through http.ResponseController.
func TestDenyHandlerMayHijack(t *testing.T) {
	deny := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		conn, _, err := c.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 420 Mine\r\nContent-Length: 0\r\n\r\n")
	})
	var log strings.Builder
	srv := httptest.NewUnstartedServer(httpgate.PerIP(slidegate.PerHour(1), httpgate.OnDeny(deny))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&log, nil), slog.LevelError)
	srv.Start()
	for _, want := range []int{200, 420} {
		resp, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("got %d, want %d", resp.StatusCode, want)
		}
	}
	srv.Close()
	if log.Len() != 0 {
		t.Errorf("the server complains: %s", log.String())
	}
}

// TestLongForwardedIsCheap: an element of very many parameters is malformed, not compared pair by pair.
func TestLongForwardedIsCheap(t *testing.T) {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "p%d=1;", i)
	}
	a, err := httpgate.NewAddresses(httpgate.TrustProxies("10.0.0.0/8"), httpgate.ClientIPHeader("Forwarded"))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 20 {
		if _, reason := a.Find(request("GET", "/", "10.0.0.1:1", "Forwarded", b.String()+"for=203.0.113.7")); reason != httpgate.ReasonMalformed {
			t.Fatalf("found as %s", reason)
		}
	}
	if took := time.Since(begin); took > 20*time.Second { // pair by pair it is minutes
		t.Errorf("%s for twenty headers", took)
	}
}

// TestCopiedKeysDoNotChange when the memory that they were made of does.
func TestCopiedKeysDoNotChange(t *testing.T) {
	for copied, want := range map[bool]string{false: "user:b", true: "user:a"} {
		memory := []byte("user:a")
		options := []httpgate.Option{httpgate.By(func(*http.Request) (string, error) { return unsafe.String(&memory[0], len(memory)), nil })}
		if copied {
			options = append(options, httpgate.CopyKeys())
		}
		s := newSite(t, limits(slidegate.PerMinute(2)))
		var kept *slidegate.Decision
		h := httpgate.MustNew(slidegate.MustNew(s.store, slidegate.PerMinute(2)), options...).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			kept, _ = httpgate.FromContext(r.Context())
		}))
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
		memory[len(memory)-1] = 'b'
		if got := kept.Key(); got != want {
			t.Errorf("copied %v: the key of the decision is %q, want %q", copied, got, want)
		}
	}
}
