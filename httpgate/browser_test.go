package httpgate_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// cors is the least of a CORS layer: it answers preflights and lists the fields that scripts may read.
func cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "https://app.example")
		h.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
		h.Add("Vary", "Origin")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "PUT")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A script is what a browser lets a page of another origin do: it asks first, and shows of an answer what
// the answer allows.
type script struct {
	t      *testing.T
	client *http.Client
	url    string
}

func (s *script) send(method string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Origin", "https://app.example")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// put is fetch(url, {method: "PUT"}): the status, and Retry-After if the script may see it.
func (s *script) put() string {
	s.t.Helper()
	asked := s.send("OPTIONS", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "content-type")
	if asked.StatusCode/100 != 2 || asked.Header.Get("Access-Control-Allow-Origin") == "" || !strings.Contains(asked.Header.Get("Access-Control-Allow-Methods"), "PUT") {
		return fmt.Sprint("network error: preflight ", asked.StatusCode)
	}
	resp := s.send("PUT", "Content-Type", "application/json")
	if resp.Header.Get("Access-Control-Allow-Origin") == "" {
		return "network error"
	}
	seen := ""
	for _, name := range strings.Split(resp.Header.Get("Access-Control-Expose-Headers"), ", ") {
		if name == "Retry-After" {
			seen = resp.Header.Get(name)
		}
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", seen))
}

// TestScriptsOfAnotherOrigin: preflights cost nothing wherever CORS stands, and with CORS outside a
// script sees that it is refused and for how long.
func TestScriptsOfAnotherOrigin(t *testing.T) {
	outside := func(gate func(http.Handler) http.Handler) http.Handler { return cors(gate(hello)) }
	inside := func(gate func(http.Handler) http.Handler) http.Handler { return gate(cors(hello)) }
	for _, c := range []struct {
		name    string
		build   func(func(http.Handler) http.Handler) http.Handler
		options []httpgate.Option
		want    string
	}{
		{"outside", outside, nil, "200, 200, 429 60"},
		{"outside, counted", outside, []httpgate.Option{httpgate.CountPreflights()}, "200, 200, 429 60"}, // CORS answers them itself
		{"inside", inside, nil, "200, 200, network error"},
		{"inside, counted", inside, []httpgate.Option{httpgate.CountPreflights()}, "200, network error: preflight 429, network error: preflight 429"},
	} {
		s := newSite(t, limits(slidegate.PerMinute(2)))
		gate := httpgate.MustNew(slidegate.MustNew(s.store, slidegate.PerMinute(2)), c.options...)
		srv := httptest.NewServer(c.build(gate.Wrap))
		page := script{t, srv.Client(), srv.URL}
		got := page.put() + ", " + page.put() + ", " + page.put()
		srv.Close()
		expect(t, c.name, got, c.want)
	}
}

// TestWhatIsAPreflight: all three signs of it, and nothing else is free.
func TestWhatIsAPreflight(t *testing.T) {
	for _, c := range []struct {
		method  string
		headers []string
		free    bool
	}{
		{"OPTIONS", []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}, true},
		{"OPTIONS", []string{"Origin", "https://app.example"}, false},
		{"OPTIONS", []string{"Access-Control-Request-Method", "PUT"}, false},
		{"OPTIONS", nil, false},
		{"GET", []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}, false},
		{"options", []string{"Origin", "https://app.example", "Access-Control-Request-Method", "PUT"}, false},
	} {
		s := newSite(t, limits(slidegate.PerMinute(1)))
		events := 0
		s.behind(slidegate.MustNew(s.store, slidegate.PerMinute(1)), httpgate.Observe(func(*httpgate.Event) { events++ }))
		w := s.do(request(c.method, "/", "", c.headers...))
		if free := s.store.Len() == 0 && events == 0 && w.Header().Get("RateLimit") == ""; free != c.free || w.Code != 200 {
			t.Errorf("%s %v: free is %v, want %v; status %d", c.method, c.headers, free, c.free, w.Code)
		}
	}
}

// TestConditionalRequests are decided before the handler: a 304 is charged, and a refusal is not to be
// stored and validates nothing, even where an outer handler or the one of OnDeny has said so.
func TestConditionalRequests(t *testing.T) {
	cached := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
		}
	})
	eager := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")
			w.Header().Set("Cache-Control", "max-age=3600")
			next.ServeHTTP(w, r)
		})
	}
	down := newFailing()
	down.down.Store(true)
	limiter := func(store slidegate.Store) *slidegate.Limiter {
		return slidegate.MustNew(store, slidegate.PerMinute(2))
	}
	for name, c := range map[string]struct {
		store   slidegate.Store
		options []httpgate.Option
		codes   string
	}{
		"the gate's answer": {atTheEpoch(), nil, "200 304 429"},
		"a fixed answer":    {atTheEpoch(), []httpgate.Option{httpgate.DenyWith(429, "no")}, "200 304 429"},
		"a handler":         {atTheEpoch(), []httpgate.Option{httpgate.OnDeny(hello)}, "200 304 429"},
		"closed":            {down, []httpgate.Option{httpgate.FailClosed()}, "503 503 503"},
		"forbidden":         {atTheEpoch(), []httpgate.Option{httpgate.Deny("192.0.2.0/24")}, "403 403 403"},
	} {
		h := eager(httpgate.MustNew(limiter(c.store), c.options...).Wrap(cached))
		codes := ""
		for _, match := range []string{"", `"v1"`, `"v1"`} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request("GET", "/", "", "If-None-Match", match))
			codes += fmt.Sprint(w.Code, " ")
			if w.Code >= 400 {
				got := w.Header()
				expect(t, name, fmt.Sprint(got["Cache-Control"], got["Etag"], got["Last-Modified"]), "[no-store] [] []")
			}
		}
		expect(t, name, strings.TrimSpace(codes), c.codes)
	}
}
