package httpgate_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// TestWhichEntryDecides: the narrowest network, then a path, then a method, then Deny; in any order of
// options.
func TestWhichEntryDecides(t *testing.T) {
	exempts := httpgate.Exempt("192.0.2.0/24", "2001:db8:5::/48", "203.0.113.7", "/healthz", "GET /readyz", "/metrics from 10.0.0.0/8,127.0.0.1", "198.51.100.0/24", "/both")
	denies := httpgate.Deny("203.0.113.0/24", "/metrics", "DELETE /items", "10.66.0.0/16", "198.51.100.0/24", "/both", "2001:db8:5:6::/64")
	for _, c := range []struct{ method, target, peer, want string }{
		{"GET", "/", "192.0.2.9:1", "exempt"},
		{"GET", "/", "[::ffff:192.0.2.9]:1", "exempt"},
		{"GET", "/", "[2001:db8:5::7]:1", "exempt"},
		{"GET", "/", "[2001:db8:5:6::7]:1", "forbidden"},
		{"GET", "/", "192.0.3.1:1", "counted"},
		{"GET", "/", "203.0.113.8:1", "forbidden"},
		{"GET", "/", "203.0.113.7:1", "exempt"},           // the narrower network
		{"GET", "/healthz", "203.0.113.8:1", "forbidden"}, // any network is narrower than none
		{"GET", "/metrics", "203.0.113.7:1", "exempt"},
		{"GET", "/metrics", "192.0.3.1:1", "forbidden"},
		{"GET", "/metrics", "10.1.1.1:1", "exempt"},
		{"GET", "/metrics", "127.0.0.1:1", "exempt"},
		{"GET", "/metrics", "10.66.1.1:1", "forbidden"},
		{"GET", "/", "10.1.1.1:1", "counted"},
		{"GET", "/", "198.51.100.1:1", "forbidden"}, // of equals, Deny
		{"GET", "/both", "192.0.3.1:1", "forbidden"},
		{"GET", "/healthz", "192.0.3.1:1", "exempt"},
		{"POST", "/healthz", "192.0.3.1:1", "exempt"},
		{"GET", "/healthz?full=1", "192.0.3.1:1", "exempt"},
		{"HEAD", "/readyz", "192.0.3.1:1", "exempt"},
		{"POST", "/readyz", "192.0.3.1:1", "counted"},
		{"DELETE", "/items", "192.0.3.1:1", "forbidden"},
		{"GET", "/items", "192.0.3.1:1", "counted"},
		// No other spelling is exempt.
		{"GET", "/healthz/", "192.0.3.1:1", "counted"},
		{"GET", "//healthz", "192.0.3.1:1", "counted"},
		{"GET", "/healthz/../x", "192.0.3.1:1", "counted"},
		{"GET", "/x/../healthz", "192.0.3.1:1", "counted"},
		{"GET", "/health%7A", "192.0.3.1:1", "counted"},
		{"GET", "/HEALTHZ", "192.0.3.1:1", "counted"},
		// Every other spelling is denied.
		{"GET", "/METRICS", "192.0.3.1:1", "forbidden"},
		{"GET", "/metrics/", "192.0.3.1:1", "forbidden"},
		{"GET", "//metrics", "192.0.3.1:1", "forbidden"},
		{"GET", "/x/../metrics", "192.0.3.1:1", "forbidden"},
		{"GET", "/%6Detrics", "192.0.3.1:1", "forbidden"},
		{"GET", "/metrics/x", "192.0.3.1:1", "counted"},
		// What has no address is in no network.
		{"GET", "/metrics", "@", "forbidden"},
		{"GET", "/healthz", "@", "exempt"},
	} {
		for _, options := range [][]httpgate.Option{{exempts, denies}, {denies, exempts}} {
			var got []string
			s := newSite(t, limits(slidegate.PerMinute(1)), append(options, httpgate.Observe(func(e *httpgate.Event) {
				if errors.Is(e.Err, httpgate.ErrForbidden) {
					got = append(got, "told")
				}
			}))...)
			w := s.do(request(c.method, c.target, c.peer))
			verdict := "counted"
			switch fields := w.Header().Get("RateLimit") + w.Header().Get("Retry-After"); {
			case w.Code == 403 && len(got) == 1 && fields == "" && s.runs.Load() == 0:
				verdict = "forbidden"
			case w.Code == 200 && fields == "" && s.runs.Load() == 1:
				verdict = "exempt"
			}
			if held := s.store.Len(); (held != 0) != (verdict == "counted") {
				t.Errorf("%s %s from %s: %d keys held", c.method, c.target, c.peer, held)
			}
			if verdict != c.want {
				t.Errorf("%s %s from %s: %s, want %s (status %d)", c.method, c.target, c.peer, verdict, c.want, w.Code)
			}
		}
	}
}

// TestPathsBelow: a slash at the end of an entry is all below it. Exempt is what can be nothing else, Deny is every spelling,
// and the longest path decides.
func TestPathsBelow(t *testing.T) {
	lists := []httpgate.Option{
		httpgate.Deny("/internal/", "/static/private/", "POST /upload/", "/static/list", "/a/b/ from 10.0.0.0/8", "/same/"),
		httpgate.Exempt("/static/", "GET /internal/health", "/static/private/logo.png", "/open/a/", "/same/", "/"),
	}
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/internal/", "403"}, {"GET", "/internal/x", "403"}, {"PUT", "/internal/x/y/", "403"}, {"GET", "/internal", "403"},
		{"GET", "/INTERNAL/x", "403"}, {"GET", "/Internal", "403"}, {"GET", "//internal//x", "403"}, {"GET", "/./internal/x", "403"},
		{"GET", "/x/../internal/y", "403"}, {"GET", "/internal/../x", "403"}, {"GET", "/internal%2Fx", "403"}, {"GET", "/%69nternal/x", "403"},
		{"GET", "/internal/health", "exempt"}, {"POST", "/internal/health", "403"}, {"GET", "/internal/health/", "403"}, {"GET", "/internal/./health", "403"},
		{"GET", "/internals", "counted"}, {"GET", "/internalx/y", "counted"}, {"GET", "/x/internal/y", "counted"}, {"GET", "/%E2%84%AA/internal", "counted"},
		{"POST", "/upload/x", "403"}, {"GET", "/upload/x", "counted"},
		{"GET", "/static/", "exempt"}, {"GET", "/static/a/b.css", "exempt"}, {"POST", "/static/a%20b", "exempt"}, {"GET", "/static/a/", "exempt"}, {"GET", "/static/..a", "exempt"},
		{"GET", "/static", "counted"}, {"GET", "/STATIC/a", "counted"}, {"GET", "//static/a", "counted"}, {"GET", "/static//a", "counted"}, {"GET", "/static/a//", "counted"},
		{"GET", "/static/../a", "counted"}, {"GET", "/static/./a", "counted"}, {"GET", "/static/%2E%2E/a", "counted"}, {"GET", "/static/..%2Fa", "counted"},
		{"GET", "/static/..%5Ca", "counted"}, {"GET", "/static/..%5ca", "counted"}, {"GET", "/static/..;/a", "counted"}, {"GET", "/static/%252E%252E/a", "counted"}, {"GET", "/x/../static/a", "counted"},
		{"GET", "/static/private/a", "403"}, {"GET", "/static/PRIVATE/a", "403"}, {"GET", "/static/private", "403"}, {"GET", "/static/private/logo.png", "exempt"},
		{"GET", "/static/list", "403"}, {"GET", "/static/LIST", "403"}, {"GET", "/static/list/a", "exempt"},
		{"GET", "/open/a/b", "exempt"}, {"GET", "/open/b", "counted"}, {"GET", "/same/a", "403"},
		{"GET", "/a/b/c", "403"}, {"GET", "/a/c", "counted"},
		{"GET", "/", "exempt"}, {"GET", "/a", "counted"}, // the root is no other path
	} {
		for range 2 {
			slices.Reverse(lists)
			w := newSite(t, limits(slidegate.PerMinute(1)), lists...).do(request(c.method, c.target, "10.0.0.1:1"))
			got := fmt.Sprint(w.Code)
			switch {
			case w.Code == 200 && w.Header().Get("RateLimit") == "":
				got = "exempt"
			case w.Code == 200:
				got = "counted"
			}
			expect(t, c.method+" "+c.target, got, c.want)
		}
	}
}

// TestListsSeeTheClient behind the proxies that the gate trusts, and nobody who only says so.
func TestListsSeeTheClient(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Exempt("192.0.2.0/24"), httpgate.Deny("10.0.0.0/8", "198.51.100.0/24"), httpgate.TrustProxies("10.0.0.0/24"), httpgate.UnwrapNAT64())
	for range 2 {
		s.want(200, "10.0.0.1:1", "X-Forwarded-For", "192.0.2.9")
		s.want(403, "10.0.0.1:1", "X-Forwarded-For", "198.51.100.4")
		s.want(403, "10.0.0.1:1", "X-Forwarded-For", "64:ff9b::c633:6404") // the same, through NAT64
		s.want(403, "198.51.100.4:1", "X-Forwarded-For", "192.0.2.9")
	}
}

// TestAllowListOnly: everybody is denied but the networks that are exempt, and who has no address is
// not let in.
func TestAllowListOnly(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Deny("0.0.0.0/0", "::/0"), httpgate.Exempt("192.0.2.0/24"))
	s.want(200, "192.0.2.1:1")
	s.want(403, "203.0.113.7:1")
	s.want(403, "[2001:db8::1]:1")
	s.want(500, "@")
}

// TestForbiddenAnswer: a problem in the form that the client takes, or what ForbidWith says.
func TestForbiddenAnswer(t *testing.T) {
	for _, c := range []struct {
		options []httpgate.Option
		accept  string
		want    string
	}{
		{nil, "application/json", `403 application/problem+json {"type":"about:blank","title":"Forbidden","status":403}`},
		{nil, "text/html", "403 text/plain; charset=utf-8 Forbidden\n"},
		{[]httpgate.Option{httpgate.ForbidWith(404, nil)}, "*/*", `404 application/problem+json {"type":"about:blank","title":"Not Found","status":404}`},
		{[]httpgate.Option{httpgate.ForbidWith(403, "go away")}, "*/*", "403 text/plain; charset=utf-8 go away"},
	} {
		w := newSite(t, limits(slidegate.PerMinute(1)), append(c.options, httpgate.Deny("/x"))...).do(request("GET", "/x", "", "Accept", c.accept))
		expect(t, c.accept, fmt.Sprint(w.Code, " ", w.Header().Get("Content-Type"), " ", w.Body), c.want)
		expect(t, "Cache-Control", w.Header().Get("Cache-Control"), "no-store")
	}
}

// TestForbiddenIsNoStoreError.
func TestForbiddenIsNoStoreError(t *testing.T) {
	newSite(t, limits(slidegate.PerMinute(1)), httpgate.Deny("/"), httpgate.OnStoreError(func(err error) { t.Error(err) })).want(403, "")
}

// TestBadEntries: each gets one sentence that names it and what is allowed.
func TestBadEntries(t *testing.T) {
	limiter := slidegate.Unlimited()
	for entry, want := range map[string]string{
		"":                            "no address",
		"10.0.0.0/33":                 "no CIDR",
		"10.0.0.0/08":                 "no CIDR",
		"::ffff:10.0.0.0/8":           "at least 96 bits",
		"fe80::1%eth0":                "no address",
		"localhost":                   "no address",
		"10.0.0.0/8,":                 "no address",
		"10.0.0.0/8, 10.1.0.0/16":     "no method",
		"healthz":                     "no address",
		"/healthz/../x":               "not clean: it is /x",
		"//x":                         "not clean: it is /x",
		"/x/*":                        "no wildcard",
		"/items/{id}":                 "no wildcard",
		"/x?y=1":                      "no wildcard, no query",
		"/x%20y":                      "no escape",
		"/x\x00":                      "a path is exact",
		"get /x":                      "no method",
		"GET x":                       "does not begin with a slash",
		"GET":                         "no address",
		"GET ":                        "does not begin with a slash",
		" /x":                         "no method",
		"GET  /x":                     "does not begin with a slash",
		"/x 10.0.0.0/8":               "not \"from\"",
		"/x from":                     "not \"from\"",
		"/x from ":                    "no address",
		"/x from everywhere":          "no address",
		"GET /x from 10.0.0.0/8 also": "not \"from\"",
	} {
		for name, option := range map[string]httpgate.Option{"Exempt": httpgate.Exempt(entry), "Deny": httpgate.Deny("/fine", entry)} {
			_, err := httpgate.New(limiter, option)
			if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), fmt.Sprintf("%s %q: ", name, entry)) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "allowed is") {
				t.Errorf("%s %q: got %v, want %s", name, entry, err, want)
			}
		}
	}
}

// TestListsCostNoAllocation, however long they are.
func TestListsCostNoAllocation(t *testing.T) {
	var entries []string
	for i := range 1000 {
		entries = append(entries, fmt.Sprintf("198.18.%d.%d", i/256, i%256))
	}
	exempted := httpgate.MustNew(slidegate.Unlimited(), httpgate.Deny(entries...), httpgate.Exempt("203.0.113.0/24")).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := &discard{http.Header{}}, request("GET", "/", "203.0.113.7:1")
	if n := testing.AllocsPerRun(100, func() { exempted.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations for an exempt request, want none", n)
	}
}

// TestLongPathsAreCheap: of a path that a client has made long and unclean, every rule of a Deny list has the same
// clean one.
func TestLongPathsAreCheap(t *testing.T) {
	var entries []string
	for i := range 100 {
		entries = append(entries, fmt.Sprintf("/admin/%d", i))
	}
	s := newSite(t, limits(slidegate.PerMinute(1_000_000)), httpgate.Deny(entries...))
	r := request("GET", "/", "")
	r.URL.Path = strings.Repeat("/./a", 250_000)
	if n := testing.AllocsPerRun(3, func() { s.do(r) }); n >= float64(len(entries)) {
		t.Errorf("%.0f allocations for %d rules", n, len(entries))
	}
	if r.URL.Path = strings.Repeat("/.", 1000) + "/ADMIN//99/"; s.do(r).Code != 403 {
		t.Error("a long spelling is not denied")
	}
}
