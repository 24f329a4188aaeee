package rules_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A site is a server behind the rules of a file, on a clock that stands still until it is moved.
type site struct {
	t       *testing.T
	now     time.Time
	store   slidegate.Store
	options rules.Options
	engine  *rules.Engine
	status  int // of the service behind
	seen    []string
	mu      sync.Mutex
}

func newSite(t *testing.T, lines ...string) *site {
	t.Helper()
	s := &site{t: t, now: time.UnixMilli(1_700_000_000_000), status: 200}
	store := memstore.New(memstore.WithClock(func() time.Time { return s.now }))
	t.Cleanup(func() { store.Close() })
	s.store = store
	s.options = rules.Options{Store: store, Headers: []httpgate.Format{httpgate.Draft8}, Observe: s.observe}
	s.take(lines...)
	return s
}

func (s *site) observe(e *rules.Event) {
	names := make([]string, len(e.Rules))
	for i, r := range e.Rules {
		names[i] = r.FullName()
	}
	verdict := "undecided"
	switch {
	case errors.Is(e.Err, httpgate.ErrForbidden):
		verdict = "forbidden"
	case e.Decision != nil && e.Decision.Allowed:
		verdict = "admitted"
	case e.Decision != nil:
		verdict = "refused"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.Join(names, "+")+" "+verdict)
}

// take has the site go on with another file.
func (s *site) take(lines ...string) {
	s.t.Helper()
	e, err := rules.New(read(s.t, file(lines...)), s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.engine = e
}

// ask sends a request: "POST http://shop.example/login", and headers as "Name: value".
func (s *site) ask(request string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	method, url, ok := strings.Cut(request, " ")
	if !ok {
		method, url = "GET", request
	}
	r := httptest.NewRequest(method, url, nil)
	r.RemoteAddr = "192.0.2.1:1234"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "From" {
			r.RemoteAddr = value
			continue
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := rules.Of(r.Context()).UpstreamURL(); to != nil {
			w.Header().Set("Upstream", to.String())
		}
		w.WriteHeader(s.status)
	})).ServeHTTP(w, r)
	return w
}

// want sends the same request as often as there are statuses.
func (s *site) want(statuses string, request string, headers ...string) {
	s.t.Helper()
	var got []int
	for range strings.Fields(statuses) {
		got = append(got, s.ask(request, headers...).Code)
	}
	if fmt.Sprint(got) != "["+statuses+"]" {
		s.t.Errorf("%s %v got %v, want [%s]", request, headers, got, statuses)
	}
}

func TestTheFirstRuleThatMatchesHolds(t *testing.T) {
	s := newSite(t, "rules:", "- {name: login, path: /login, limits: 1/1m}", "- {name: rest, limits: 2/1m}")
	s.want("200 429", "/login")
	s.want("200 200 429", "/")
	s.want("429", "/other")
	s.want("200", "/login", "From: 192.0.2.2:1")
}

func TestRequestsThatNoRuleMatchesPass(t *testing.T) {
	s := newSite(t, "rules:", "- {name: login, path: /login, limits: 1/1m}")
	s.want("200 200 200", "/")
	if w := s.ask("/"); w.Header().Get("RateLimit") != "" || len(s.seen) != 0 {
		t.Errorf("a request without a rule got %v, %v", w.Header(), s.seen)
	}
}

// TestAllThatMatchHoldAsOne: a refusal by one rule costs the others nothing.
func TestAllThatMatchHoldAsOne(t *testing.T) {
	s := newSite(t, "match: all", "rules:", "- {name: host, key: host, limits: 3/1m}", "- {name: address, limits: 1/1m}")
	s.want("200 429 429 429 429", "/")
	s.want("200", "/", "From: 192.0.2.2:1")
	s.want("200", "/", "From: 192.0.2.3:1")
	w := s.ask("/", "From: 192.0.2.4:1")
	if w.Code != 429 || !strings.Contains(w.Body.String(), `"host:1m"`) || strings.Contains(w.Body.String(), "address") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := w.Header().Get("RateLimit-Policy"); got != `"host:1m";q=3;w=60, "address:1m";q=1;w=60` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	if s.seen[0] != "host+address admitted" {
		t.Errorf("the observer saw %v", s.seen)
	}
}

// TestRulesOfDifferentTermsHoldAsOneToo: those asked first get back what they charged.
func TestRulesOfDifferentTermsHoldAsOneToo(t *testing.T) {
	s := newSite(t, "match: all", "rules:",
		"- {name: units, key: host, limits: 30/1m, cost: 10}",
		"- {name: address, limits: 1/1m, ban: {strikes: 4/1h, length: 1h}}",
		"- {name: last, key: path, limits: 100/1m, refund-if-status: 5xx}")
	s.want("200 429 429", "/")
	s.want("200", "/", "From: 192.0.2.2:1")
	s.want("200", "/", "From: 192.0.2.3:1")
	s.want("429", "/", "From: 192.0.2.4:1") // units are spent
	s.want("429 429", "/")                  // by units, so these are no strikes
	s.now = s.now.Add(time.Minute)
	s.want("200", "/", "From: 192.0.2.4:1")
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		field   string
		in, out []string
	}{
		{field: "path: /login", in: []string{"/login", "/login/", "//login", "/a/../login", "/%6Cogin", "/login?x=1", "/./login"}, out: []string{"/", "/logins", "/login/x", "/LOGIN"}},
		{field: "path: /api/", in: []string{"/api", "/api/", "/api/x/y", "/x/..//api/z"}, out: []string{"/", "/apis", "/x/api/"}},
		{field: "path: '/users/{id}/posts'", in: []string{"/users/5/posts", "/users/a%20b/posts/"}, out: []string{"/users/posts", "/users/5/posts/1", "/users//posts"}},
		{field: "path: '/files/{rest...}'", in: []string{"/files", "/files/a/b"}, out: []string{"/file"}},
		{field: "path: '/{$}'", in: []string{"/", "//"}, out: []string{"/x"}},
		{field: "path: /", in: []string{"/", "/x/y"}},
		{field: "path: [/a, /b]", in: []string{"/a", "/b"}, out: []string{"/c"}},
		{field: "host: shop.example", in: []string{"http://shop.example/", "http://SHOP.example:8080/"}, out: []string{"http://a.shop.example/", "http://example/"}},
		{field: "host: '*.shop.example'", in: []string{"http://a.shop.example/", "http://a.b.Shop.example./"}, out: []string{"http://shop.example/", "http://notshop.example/"}},
		{field: "methods: GET", in: []string{"GET /", "HEAD /"}, out: []string{"POST /", "OPTIONS /"}},
		{field: "methods: [POST, PUT]", in: []string{"POST /", "PUT /"}, out: []string{"GET /", "PATCH /"}},
	} {
		for _, request := range c.in {
			newSite(t, "rules:", "- {name: a, limits: blocked, "+c.field+"}").want("429", request)
		}
		for _, request := range c.out {
			newSite(t, "rules:", "- {name: a, limits: blocked, "+c.field+"}").want("200", request)
		}
	}
	for _, c := range []struct {
		field string
		in    [][]string
		out   [][]string
	}{
		{"request-headers: {x-a: true}", [][]string{{"X-A: 1"}, {"X-A: "}}, [][]string{nil, {"X-B: 1"}}},
		{"request-headers: {X-A: false}", [][]string{nil}, [][]string{{"X-A: 1"}}},
		{"request-headers: {X-A: 'true'}", [][]string{{"X-A: true"}, {"X-A: no", "X-A:  true "}}, [][]string{nil, {"X-A: True"}}},
		{"request-headers: {X-A: [b, c], X-B: true}", [][]string{{"X-A: c", "X-B: 1"}}, [][]string{{"X-A: c"}, {"X-A: d", "X-B: 1"}}},
		{"clients: [192.0.2.0/24, '2001:db8::/32']", [][]string{nil, {"From: [::ffff:192.0.2.77]:1"}, {"From: [2001:db8:5::1]:1"}}, [][]string{{"From: 192.0.3.1:1"}, {"From: @"}}},
		{"clients: 192.0.2.1", [][]string{nil}, [][]string{{"From: 192.0.2.2:1"}}},
	} {
		for _, headers := range c.in {
			newSite(t, "rules:", "- {name: a, limits: blocked, "+c.field+"}").want("429", "/", headers...)
		}
		for _, headers := range c.out {
			newSite(t, "rules:", "- {name: a, limits: blocked, "+c.field+"}").want("200", "/", headers...)
		}
	}
}

// TestShadowChangesNothing: a rule in shadow takes no request from those behind it, refuses none, and says whom it
// would have refused.
func TestShadowChangesNothing(t *testing.T) {
	s := newSite(t, "rules:", "- {name: trial, path: /login, limits: 1/1m, mode: shadow}", "- {name: rest, limits: 2/1m}")
	s.want("200 200 429", "/login")
	if got := strings.Join(s.seen, ", "); got != "trial admitted, rest admitted, trial refused, rest admitted, trial refused, rest refused" {
		t.Errorf("the observer saw %s", got)
	}
	if w := s.ask("/login"); strings.Contains(w.Header().Get("RateLimit"), "trial") {
		t.Errorf("the client is told of it: %v", w.Header())
	}
}

// TestShadowAmongAll sees what the others admit.
func TestShadowAmongAll(t *testing.T) {
	s := newSite(t, "match: all", "rules:", "- {name: trial, limits: 5/1m, mode: shadow}", "- {name: rest, limits: 1/1m}")
	s.want("200 429", "/")
	if got := strings.Join(s.seen, ", "); got != "rest admitted, trial admitted, rest refused" {
		t.Errorf("the observer saw %s", got)
	}
}

func TestOffIsAsIfItWereNotThere(t *testing.T) {
	s := newSite(t, "rules:", "- {name: login, limits: blocked, mode: off}", "- {name: rest, limits: 1/1m}")
	s.want("200 429", "/login")
}

func TestListsComeBeforeRules(t *testing.T) {
	s := newSite(t, "exempt: [GET /healthz from 192.0.2.0/24, /free]", "deny: [198.51.100.0/24, /secret]", "rules:", "- {name: all, limits: 1/1m}")
	s.want("200 429", "/")
	s.want("200 200", "/healthz")
	s.want("429", "POST /healthz")
	s.want("200", "/healthz", "From: 203.0.113.1:1")
	s.want("429", "/healthz", "From: 203.0.113.1:1")
	s.want("403 403", "/", "From: 198.51.100.7:1")
	s.want("403", "/secret/")
	s.want("200", "/free", "From: 203.0.113.1:1")
	if got := strings.Join(s.seen, ","); strings.Count(got, " forbidden") != 3 {
		t.Errorf("the observer saw %s", got)
	}
}

func TestPlansAndOverrides(t *testing.T) {
	s := newSite(t, "rules:", "- name: api", "  key: header:X-Api-Key", "  limits: 1/1m", "  plans: {gold: 3/1m, flat: unlimited}", "  plan-by: header:X-Plan",
		"  overrides: {header:X-Api-Key:vip: unlimited, header:X-Api-Key:thief: blocked, header:X-Api-Key:old: gold, 'ip:2001:db8:1:2::77': gold}")
	s.want("200 429", "/", "X-Api-Key: a")
	s.want("200 200 429", "/", "X-Api-Key: a", "X-Plan: gold") // one is spent: plans share it
	s.want("429", "/", "X-Api-Key: a", "X-Plan: platinum")
	s.want("200 200 200 200", "/", "X-Api-Key: a", "X-Plan: flat")
	s.want("200 200 200", "/", "X-Api-Key: vip")
	s.want("429 429", "/", "X-Api-Key: thief", "X-Plan: gold")
	s.want("200 200 200 429", "/", "X-Api-Key: old")
	s.want("200 200 200 429", "/", "From: [2001:db8:1:2:3::9]:1") // counted by its network, as is the override
}

func TestDomainsShareNothing(t *testing.T) {
	s := newSite(t, "rules:", "- {name: all, limits: 1/1m}", "domains:",
		"  shop: {host: [shop.example, '*.shop.example'], rules: [{name: all, limits: 1/1m}]}",
		"  api: {host: api.shop.example, match: all, rules: [{name: all, limits: 1/1m}]}")
	s.want("200 429", "http://other.example/")
	s.want("200 429", "http://shop.example/")
	s.want("429", "http://www.shop.example/")
	s.want("200 429", "http://api.shop.example/")
	s.want("200", "http://shop.example/", "From: 192.0.2.2:1")
	if s.seen[2] != "shop/all admitted" {
		t.Errorf("the observer saw %v", s.seen)
	}
	s.want("500", "http://shop.example/", "From: @") // nobody to count: never under a key without its domain
}

func TestCosts(t *testing.T) {
	s := newSite(t, "rules:", "- {name: api, path: /api, limits: 10/1m, cost: header:X-Cost}", "- {name: rest, limits: 10/1m, cost: 5}")
	s.want("200 200 429", "/")
	s.want("200", "/api", "X-Cost: 8")
	s.want("200 200 429", "/api", "X-Cost: 0") // nobody is free for saying so
	s.want("429", "/api", "X-Cost: 99999999999999999999")
	s.want("200 200", "/api", "X-Cost: -5", "From: 192.0.2.2:1")
	s.want("200 429", "/api", "X-Cost: 8", "From: 192.0.2.2:1")
}

func TestResponses(t *testing.T) {
	s := newSite(t, "rules:",
		"- {name: text, path: /text, limits: 1/1m, response: {body: too much}}",
		"- {name: json, path: /json, limits: 1/1m, response: {status: 420, json: {error: [slow down, 1]}}}",
		"- {name: status, path: /status, limits: 1/1m, response: {status: 503}}",
		"- {name: none, path: /none, limits: 1/1m, headers: none}",
		"- {name: legacy, path: /legacy, limits: 1/1m, headers: [legacy-delta]}")
	for path, want := range map[string]string{
		"/text": "429 too much", "/json": `420 {"error":["slow down",1]}`, "/status": `503 {"type"`, "/none": "429 {", "/legacy": "429 {",
	} {
		s.want("200", path)
		w := s.ask(path)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
		if retry, isNone := w.Header().Get("Retry-After"), path == "/none"; isNone != (retry == "") {
			t.Errorf("%s: Retry-After %q", path, retry)
		}
		if limit, isLegacy := w.Header().Get("X-RateLimit-Limit"), path == "/legacy"; isLegacy != (limit == "1") {
			t.Errorf("%s: X-RateLimit-Limit %q", path, limit)
		}
	}
}

func TestBansAndRefunds(t *testing.T) {
	s := newSite(t, "rules:",
		"- {name: login, path: /login, limits: 2/1m, ban: {strikes: 2/1h, length: 1d}, plans: {gold: 3/1m}, plan-by: header:X-Plan}",
		"- {name: failures, path: /failures, limits: 2/1m, refund-if-status: [2xx, 404]}")
	s.want("200 200 429 429", "/login")
	s.now = s.now.Add(2 * time.Hour)
	s.want("429", "/login")
	s.now = s.now.Add(23 * time.Hour)
	s.want("200", "/login")
	s.want("200 200 200", "/failures")
	s.status = 404
	s.want("404 404 404", "/failures")
	s.status = 401
	s.want("401 401 429", "/failures")
}

// TestVerdictsGiveNothingBack: where nobody knows the answer, a status says nothing.
func TestVerdictsGiveNothingBack(t *testing.T) {
	s := newSite(t, "rules:", "- {name: failures, limits: 2/1m, refund-if-status: 2xx}")
	s.want("200 200 200", "/")
	w := httptest.NewRecorder()
	for range 3 {
		w = httptest.NewRecorder()
		s.engine.Verdicts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	}
	if w.Code != 429 {
		t.Errorf("the third got %d", w.Code)
	}
}

func TestUpstreams(t *testing.T) {
	s := newSite(t, "match: all", "upstreams: {shop: 'http://shop:3000'}", "rules:",
		"- {name: trial, limits: 9/1m, upstream: 'http://trial:1', mode: shadow}",
		"- {name: count, key: host, limits: 9/1m}",
		"- {name: shop, path: /shop/, limits: unlimited, upstream: shop}",
		"- {name: api, path: [/api/, /shop/api/], limits: unlimited, upstream: 'h2c://api:3000'}")
	for path, want := range map[string]string{"/": "", "/shop/": "http://shop:3000", "/api/": "h2c://api:3000", "/shop/api/": "http://shop:3000"} {
		if got := s.ask(path).Header().Get("Upstream"); got != want {
			t.Errorf("%s goes to %q, want %q", path, got, want)
		}
	}
}

// broken is a store that cannot be asked.
type broken struct{ slidegate.Store }

type brokenPlan struct{ slidegate.Plan }

func (b broken) Bind(limits []slidegate.Limit) (slidegate.Plan, error) { return brokenPlan{}, nil }

func (brokenPlan) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, fmt.Errorf("%w: broken", slidegate.ErrUnavailable)
}

func TestWhatCannotBeDecided(t *testing.T) {
	s := newSite(t, "rules:", "- {name: open, path: /open, limits: 1/1m, on-store-error: open}", "- {name: closed, path: /closed, limits: 1/1m, on-store-error: closed}", "- {name: rest, limits: 1/1m}")
	s.options.Store = broken{s.store}
	s.options.Policy = "closed"
	s.take("rules:", "- {name: open, path: /open, limits: 1/1m, on-store-error: open}", "- {name: closed, path: /closed, limits: 1/1m, on-store-error: closed}", "- {name: rest, limits: 1/1m}")
	s.want("200", "/open")
	s.want("503", "/closed")
	s.want("503", "/")
}

// TestChangesKeepWhatWasCounted: a quota that changes, a rule that moves, another that comes.
func TestChangesKeepWhatWasCounted(t *testing.T) {
	s := newSite(t, "rules:", "- {name: login, path: /login, limits: 3/1m}", "- {name: rest, limits: [burst=2/1s, 5/1m]}")
	s.want("200 200 200 429", "/login")
	s.want("200 200 429", "/")
	for range 10 {
		s.take("rules:", "- {name: new, path: /new, limits: 1/1m}", "- {name: login, path: [/login, /signin], limits: 3/1m}", "- {name: rest, limits: [burst=2/1s, 9/1m]}")
		s.want("429", "/login")
		s.want("429", "/")
	}
	s.take("rules:", "- {name: rest, path: /x, limits: 5/1m}", "- {name: login, path: /login, limits: 5/1m}")
	s.want("200 200 429", "/login")
	s.want("200 200 200 429", "/x")
}
