package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A seen is a gate that admits everything and keeps what it was asked about.
type seen struct{ requests []*http.Request }

func (s *seen) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests = append(s.requests, r.Clone(r.Context())) // the memory of r is that of the next one
		next.ServeHTTP(w, r)
	})
}

// client is the key of a request, as a gate that trusts the networks has it.
func client(t *testing.T, r *http.Request, trusted ...string) string {
	t.Helper()
	var options []httpgate.Option
	if len(trusted) > 0 {
		options = append(options, httpgate.TrustProxies(trusted...))
	}
	addresses, err := httpgate.NewAddresses(options...)
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := addresses.Find(r)
	return addr.String()
}

func dialect(t testing.TB, name string) auth.Dialect {
	t.Helper()
	d, err := auth.ParseDialect(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func door(t testing.TB, c auth.Config, gate func(http.Handler) http.Handler) http.Handler {
	t.Helper()
	h, err := auth.New(c, gate)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask is a request of a proxy on this machine. A field of the name Host is the Host.
func ask(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		} else {
			r.Header.Add(fields[i], fields[i+1])
		}
	}
	return r
}

func answerOf(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// nginx are the fields that its recipe sets.
var nginx = []string{"X-Original-Method", "POST", "X-Original-URI", "/v1/items?x=1", "X-Forwarded-For", "198.51.100.7", "X-Forwarded-Proto", "https", "Host", "api.example"}

// gate returns a gate of one request an hour and the options.
func gate(t testing.TB, options ...httpgate.Option) func(http.Handler) http.Handler {
	t.Helper()
	store := memstore.New()
	t.Cleanup(func() { store.Close() })
	return httpgate.MustNew(slidegate.MustNew(store, slidegate.PerHour(1)), options...).Wrap
}

// TestOneClientIsCountedWhateverItSends: fields of other dialects, its own list of addresses, and fields of
// this dialect, which the proxy has overwritten, change nobody's quota but its own.
func TestOneClientIsCountedWhateverItSends(t *testing.T) {
	h := door(t, auth.Config{Dialect: dialect(t, "nginx")}, gate(t))
	forged := []string{
		"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/other", "X-Forwarded-Host", "other.example", "X-Original-Url", "http://other.example/",
		"X-Real-Ip", "203.0.113.1", "Forwarded", "for=203.0.113.2", "True-Client-Ip", "203.0.113.3", "Cf-Connecting-Ip", "203.0.113.4",
	}
	for i, want := range []int{200, 429, 429} {
		fields := slices.Concat(nginx, forged, []string{"X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 198.51.100.7", i)})
		if resp := answerOf(h, ask("GET", "/auth", fields...)); resp.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	if resp := answerOf(h, ask("GET", "/auth", "X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "198.51.100.8")); resp.StatusCode != 200 {
		t.Errorf("another client got %d", resp.StatusCode)
	}
}

// TestAFragmentIsNoOtherPath: nginx takes /login#x for /login, and so does the service behind it.
func TestAFragmentIsNoOtherPath(t *testing.T) {
	var got []string
	h := door(t, auth.Config{Dialect: dialect(t, "nginx")}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.URL.Path+" "+r.RequestURI) })
	})
	for _, uri := range []string{"/login#x", "/login#", "/login?a=1#?b", "http://shop.example#/login"} {
		answerOf(h, ask("GET", "/auth", "X-Original-Method", "POST", "X-Original-URI", uri, "X-Forwarded-For", "198.51.100.7"))
	}
	if want := "[/login /login /login /login /login /login?a=1 / /]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if resp := answerOf(h, ask("GET", "/auth", "X-Original-Method", "POST", "X-Original-URI", "#/login", "X-Forwarded-For", "198.51.100.7")); resp.StatusCode != 400 {
		t.Errorf("a URI that is a fragment alone got %d", resp.StatusCode)
	}
}

// TestRequestIsAsTheProxyGotIt: its fields are the client's, RemoteAddr is who connected to the proxy, and
// X-Forwarded-For what it sent, so that a gate finds clients behind proxies in front of that one.
func TestRequestIsAsTheProxyGotIt(t *testing.T) {
	for _, c := range []struct{ name, dialect, list, remote, rest, trusting string }{
		{"one address", "nginx", "198.51.100.7", "198.51.100.7:0", "", "198.51.100.7"},
		{"a port", "haproxy", "198.51.100.7:51000", "198.51.100.7:0", "", "198.51.100.7"},
		{"a list", "traefik", "192.0.2.9, 198.51.100.7, 10.0.0.1", "10.0.0.1:0", "192.0.2.9, 198.51.100.7", "198.51.100.7"},
		{"lines", "haproxy", "192.0.2.9|198.51.100.7|10.0.0.1", "10.0.0.1:0", "192.0.2.9|198.51.100.7", "198.51.100.7"},
		{"empty members", "caddy", "198.51.100.7, ,10.0.0.1, |,", "10.0.0.1:0", "198.51.100.7, ", "198.51.100.7"},
		{"IPv6", "envoy", "2001:db8::1, fd00::2", "[fd00::2]:0", "2001:db8::1", "2001:db8::1"},
		{"IPv6 with a port", "nginx", "[2001:db8::1]:443", "[2001:db8::1]:0", "", "2001:db8::1"},
		{"IPv4 in IPv6", "caddy", "::ffff:198.51.100.7", "198.51.100.7:0", "", "198.51.100.7"},
		{"a zone", "nginx", "fe80::1%eth0", "[fe80::1]:0", "", "fe80::1"},
	} {
		var s seen
		h := door(t, auth.Config{Dialect: dialect(t, c.dialect)}, s.gate)
		r := ask("GET", "/auth", "X-Original-Method", "PUT", "X-Original-URI", "/a%2Fb?q", "X-Forwarded-Method", "PUT", "X-Forwarded-Uri", "/a%2Fb?q", "X-Api-Key", "k", "Content-Length", "0")
		if c.dialect == "envoy" {
			r = ask("PUT", "/auth/a%2Fb?q", "X-Api-Key", "k")
		}
		r.Header["X-Forwarded-For"] = strings.Split(c.list, "|")
		if resp := answerOf(h, r); resp.StatusCode != 200 || len(s.requests) != 1 {
			t.Fatalf("%s: status %d", c.name, resp.StatusCode)
		}
		got := s.requests[0]
		if rest := strings.Join(got.Header["X-Forwarded-For"], "|"); got.RemoteAddr != c.remote || rest != c.rest {
			t.Errorf("%s: from %s, list %q, want %s, %q", c.name, got.RemoteAddr, rest, c.remote, c.rest)
		}
		if addr := client(t, got, "10.0.0.0/8", "fd00::/8"); addr != c.trusting {
			t.Errorf("%s: the client is %s, want %s", c.name, addr, c.trusting)
		}
		if got.Method != "PUT" || got.RequestURI != "/a%2Fb?q" || got.URL.Path != "/a/b" || got.URL.RawQuery != "q" || got.Header.Get("X-Api-Key") != "k" {
			t.Errorf("%s: %s %s %v", c.name, got.Method, got.RequestURI, got.Header)
		}
		if c.dialect != "envoy" && len(r.Header["X-Forwarded-For"]) != strings.Count(c.list, "|")+1 {
			t.Errorf("%s: the proxy's own request was changed: %v", c.name, r.Header)
		}
	}
}

// TestPeersThatAreNotTrustedGet403, whatever they send, and one line says so for all of them, without an address.
func TestPeersThatAreNotTrustedGet403(t *testing.T) {
	var log bytes.Buffer
	var s seen
	h := door(t, auth.Config{Dialect: dialect(t, "nginx"), Logger: slog.New(slog.NewTextHandler(&log, nil)), DenyStatus: 401}, s.gate)
	for _, peer := range []string{"192.0.2.1:1", "[2001:db8::1]:1", "10.0.0.1:1", "@", "", "nowhere"} {
		r := ask("GET", "/auth", nginx...)
		r.RemoteAddr = peer
		if resp := answerOf(h, r); resp.StatusCode != 403 || resp.Header.Get(auth.StatusField) != "" {
			t.Errorf("%q got %d", peer, resp.StatusCode)
		}
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "--auth-trusted-peers") || strings.Contains(said, "192.0.2") {
		t.Errorf("said %q", said)
	}
	for _, peer := range []string{"127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		r := ask("GET", "/auth", nginx...)
		r.RemoteAddr = peer
		if resp := answerOf(h, r); resp.StatusCode != 200 {
			t.Errorf("%q got %d", peer, resp.StatusCode)
		}
	}
	if len(s.requests) != 3 {
		t.Errorf("the gate was asked %d times, want 3", len(s.requests))
	}
	named := door(t, auth.Config{Dialect: dialect(t, "nginx"), Trusted: []string{"192.0.2.0/24"}}, s.gate)
	r := ask("GET", "/auth", nginx...)
	if resp := answerOf(named, r); resp.StatusCode != 403 {
		t.Errorf("loopback got %d beside another network", resp.StatusCode)
	}
	r.RemoteAddr = "192.0.2.1:1"
	if resp := answerOf(named, r); resp.StatusCode != 200 {
		t.Errorf("the named network got %d", resp.StatusCode)
	}
}

// TestWhatCannotBeUnderstoodIsRefused with 400: a 2xx would admit it, and so might a proxy that passes what
// comes with a 5xx. The gate is not asked, and the log says once what is wrong and no value.
func TestWhatCannotBeUnderstoodIsRefused(t *testing.T) {
	long := strings.Repeat("x", 17<<10)
	for name, fields := range map[string][]string{
		"no method":            {"X-Original-URI", "/", "X-Forwarded-For", "198.51.100.7"},
		"no URI":               {"X-Original-Method", "GET", "X-Forwarded-For", "198.51.100.7"},
		"an empty URI":         {"X-Original-Method", "GET", "X-Original-URI", "", "X-Forwarded-For", "198.51.100.7"},
		"no client":            {"X-Original-Method", "GET", "X-Original-URI", "/"},
		"an unknown client":    {"X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "198.51.100.7, unknown"},
		"a client's own list":  {"X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "nobody"},
		"nobody's address":     {"X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "0.0.0.0"},
		"two URIs":             append([]string{"X-Original-URI", "/secret"}, nginx...),
		"two methods":          append([]string{"X-Original-Method", "GET"}, nginx...),
		"a long URI":           {"X-Original-Method", "GET", "X-Original-URI", "/" + long, "X-Forwarded-For", "198.51.100.7"},
		"a long method":        {"X-Original-Method", long, "X-Original-URI", "/", "X-Forwarded-For", "198.51.100.7"},
		"a method with spaces": {"X-Original-Method", "GET /", "X-Original-URI", "/", "X-Forwarded-For", "198.51.100.7"},
		"no path":              {"X-Original-Method", "GET", "X-Original-URI", "secret", "X-Forwarded-For", "198.51.100.7"},
		"a tunnel":             {"X-Original-Method", "CONNECT", "X-Original-URI", "secret.example:443", "X-Forwarded-For", "198.51.100.7"},
		"a broken escape":      {"X-Original-Method", "GET", "X-Original-URI", "/%zz", "X-Forwarded-For", "198.51.100.7"},
		"another scheme":       append([]string{"X-Forwarded-Proto", "ftp"}, nginx[:6]...),
		"a long scheme":        append([]string{"X-Forwarded-Proto", long}, nginx[:6]...),
	} {
		var log bytes.Buffer
		var s seen
		h := door(t, auth.Config{Dialect: dialect(t, "nginx"), Logger: slog.New(slog.NewTextHandler(&log, nil))}, s.gate)
		for range 2 {
			if resp := answerOf(h, ask("GET", "/auth", fields...)); resp.StatusCode != 400 || len(s.requests) > 0 {
				t.Errorf("%s: status %d, and the gate was asked %d times", name, resp.StatusCode, len(s.requests))
			}
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || strings.Contains(said, "198.51.100") || strings.Contains(said, "secret") || len(said) > 500 {
			t.Errorf("%s: said %q", name, said)
		}
	}
}

func TestDoorIsAtItsPathAlone(t *testing.T) {
	for _, c := range []struct {
		dialect, path, target string
		want                  int
		uri                   string
	}{
		{"nginx", "", "/auth", 200, "/v1/items?x=1"},
		{"nginx", "", "/auth?any=1", 200, "/v1/items?x=1"},
		{"nginx", "", "/auth/", 404, ""},
		{"nginx", "", "/", 404, ""},
		{"nginx", "/limit/v1", "/limit/v1", 200, "/v1/items?x=1"},
		{"nginx", "/limit/v1", "/auth", 404, ""},
		{"envoy", "", "/auth/v1/items?x=1", 200, "/v1/items?x=1"},
		{"envoy", "", "/auth/", 200, "/"},
		{"envoy", "", "/auth//a/../b", 200, "//a/../b"},
		{"envoy", "", "/auth/auth/x", 200, "/auth/x"},
		{"envoy", "", "/auth", 404, ""},
		{"envoy", "", "/authority", 404, ""},
		{"envoy", "", "/v1/items", 404, ""},
	} {
		var s seen
		h := door(t, auth.Config{Dialect: dialect(t, c.dialect), Path: c.path}, s.gate)
		resp := answerOf(h, ask("GET", c.target, nginx...))
		if resp.StatusCode != c.want {
			t.Errorf("%s, door %q, %s: status %d, want %d", c.dialect, c.path, c.target, resp.StatusCode, c.want)
			continue
		}
		if c.want == 200 && s.requests[0].RequestURI != c.uri {
			t.Errorf("%s, door %q, %s: URI %s, want %s", c.dialect, c.path, c.target, s.requests[0].RequestURI, c.uri)
		}
	}
}

// TestURLsInTheirLongForm, as HTTP/2 and clients of proxies have them, are the same request.
func TestURLsInTheirLongForm(t *testing.T) {
	for uri, want := range map[string]string{
		"https://other.example/v1?x=1": "/v1?x=1", "https://other.example": "/", "*": "*", "//v1": "//v1", "/a b": "/a%20b", "/\xc3\xa9": "/%C3%A9", "/?": "/?",
	} {
		var s seen
		h := door(t, auth.Config{Dialect: dialect(t, "haproxy")}, s.gate)
		resp := answerOf(h, ask("HEAD", "/auth", "X-Original-Method", "OPTIONS", "X-Original-URI", uri, "X-Forwarded-For", "198.51.100.7", "X-Forwarded-Host", "api.example", "X-Forwarded-Proto", "HTTPS"))
		if resp.StatusCode != 200 {
			t.Errorf("%s: status %d", uri, resp.StatusCode)
			continue
		}
		if r := s.requests[0]; r.RequestURI != want || r.Host != "api.example" || r.URL.Host != "api.example" || r.URL.Scheme != "https" {
			t.Errorf("%s: %s of %s, %v", uri, r.RequestURI, r.Host, r.URL)
		}
	}
}

// TestRefusals: which status a proxy gets for what a gate says, and what is said of it.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		deny, says, want int
		field            string
	}{
		{0, 200, 200, ""}, {0, 429, 429, ""}, {0, 403, 403, ""}, {0, 503, 503, ""},
		{403, 200, 200, ""}, {403, 429, 403, "429"}, {403, 403, 403, "403"}, {403, 400, 403, "400"}, {403, 503, 503, ""},
		{401, 429, 401, "429"},
	} {
		h := door(t, auth.Config{Dialect: dialect(t, "nginx"), DenyStatus: c.deny}, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.says)
				io.WriteString(w, "body")
			})
		})
		resp := answerOf(h, ask("GET", "/auth", nginx...))
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != c.want || resp.Header.Get(auth.StatusField) != c.field || resp.Header.Get("Retry-After") != "7" || string(body) != "body" {
			t.Errorf("%+v: status %d, %v, %q", c, resp.StatusCode, resp.Header, body)
		}
	}
}

// downed is a store that is away.
type downed struct{}

func (downed) Bind([]slidegate.Limit) (slidegate.Plan, error) { return downed{}, nil }
func (downed) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, fmt.Errorf("%w: away", slidegate.ErrUnavailable)
}
func (d downed) Peek(ctx context.Context, key string, n int64) (slidegate.Answer, error) {
	return d.Take(ctx, key, n)
}
func (downed) Refund(context.Context, string, slidegate.Answer, int64) error {
	return slidegate.ErrUnavailable
}
func (downed) Reset(context.Context, string) error { return slidegate.ErrUnavailable }

func TestRequestsThatCannotBeDecided(t *testing.T) {
	for want, option := range map[int]httpgate.Option{200: httpgate.FailOpen(), 503: httpgate.FailClosed()} {
		for _, deny := range []int{0, 403} {
			g := httpgate.MustNew(slidegate.MustNew(downed{}, slidegate.PerHour(1)), option)
			h := door(t, auth.Config{Dialect: dialect(t, "nginx"), DenyStatus: deny}, g.Wrap)
			resp := answerOf(h, ask("GET", "/auth", nginx...))
			if resp.StatusCode != want || resp.Header.Get("RateLimit") != "" || resp.Header.Get(auth.StatusField) != "" {
				t.Errorf("deny status %d: %d, want %d; %v", deny, resp.StatusCode, want, resp.Header)
			}
		}
	}
}

// TestAnswersAreWholeForEveryMethod: a proxy that asks with GET about a HEAD, or with HEAD about a GET, over a
// connection that it keeps, is not left waiting for a body.
func TestAnswersAreWholeForEveryMethod(t *testing.T) {
	server := httptest.NewServer(door(t, auth.Config{Dialect: dialect(t, "traefik")}, gate(t)))
	defer server.Close()
	for _, own := range []string{"GET", "HEAD", "POST", "DELETE"} {
		for _, method := range []string{"GET", "HEAD", "POST", "BREW"} {
			client := "2001:db8:" + fmt.Sprintf("%x", own[0]) + ":" + fmt.Sprintf("%x", method[0]) + "00::1"
			for i, want := range []int{200, 429, 429} {
				r, err := http.NewRequest(own, server.URL+"/auth", nil)
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{"Method": method, "Uri": "/", "Host": "api.example", "Proto": "http", "For": client} {
					r.Header.Set("X-Forwarded-"+name, value)
				}
				resp, err := server.Client().Do(r)
				if err != nil {
					t.Fatalf("%s about %s, request %d: %v", own, method, i, err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != want || resp.Header.Get("RateLimit") == "" || (resp.Header.Get("Retry-After") != "") != (want == 429) {
					t.Errorf("%s about %s, request %d: %d, %v, %v", own, method, i, resp.StatusCode, resp.Header, err)
				}
				if hasBody := len(body) > 0; hasBody != (want == 429 && own != "HEAD" && method != "HEAD") {
					t.Errorf("%s about %s, request %d: body %q", own, method, i, body)
				}
			}
		}
	}
}

func TestMistakesInAConfigAreNamed(t *testing.T) {
	nginx := dialect(t, "nginx")
	for want, c := range map[string]auth.Config{
		"the dialect is missing: allowed is nginx, ingress-nginx, traefik, caddy, haproxy, envoy": {},
		"deny status 500: allowed is 400 to 499":                                                  {Dialect: nginx, DenyStatus: 500},
		"deny status 200: allowed is 400 to 499":                                                  {Dialect: nginx, DenyStatus: 200},
		`path "auth": allowed is a path such as /auth`:                                            {Dialect: nginx, Path: "auth"},
		`path "/auth/": allowed is a path such as /auth`:                                          {Dialect: nginx, Path: "/auth/"},
		`trusted proxies "0.0.0.0/0": that is everybody`:                                          {Dialect: nginx, Trusted: []string{"0.0.0.0/0"}},
		`trusted proxies "nginx": no address`:                                                     {Dialect: nginx, Trusted: []string{"nginx"}},
	} {
		if _, err := auth.New(c, gate(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := auth.ParseDialect("apache"); err == nil || !strings.Contains(err.Error(), `dialect "apache": allowed is nginx,`) {
		t.Errorf("%v", err)
	}
	if _, err := auth.New(auth.Config{Dialect: nginx, Trusted: []string{"0.0.0.0/0"}}, gate(t)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("%v is no ErrInvalidLimit", err)
	}
}

// FuzzDoor: whatever stands in the fields, a request is admitted under the address that the proxy vouches
// for, or refused; nothing gets a 5xx, and nothing a panic.
func FuzzDoor(f *testing.F) {
	f.Add(uint8(0), "GET", "/v1?x=1", "api.example", "https", "198.51.100.7")
	f.Add(uint8(1), "GET", "https://api.example/v1?x=1", "", "", "2001:db8::1")
	f.Add(uint8(5), "CONNECT", "x:443", "a b", "ftp", ",, ,")
	names := auth.Dialects()
	f.Fuzz(func(t *testing.T, which uint8, method, uri, host, scheme, list string) {
		name := names[int(which)%len(names)]
		var s seen
		h := door(t, auth.Config{Dialect: dialect(t, name)}, s.gate)
		r := &http.Request{Method: "GET", RequestURI: "/auth", Host: "limiter", RemoteAddr: "127.0.0.1:1", Body: http.NoBody, Header: http.Header{
			"X-Original-Method": {method}, "X-Forwarded-Method": {method}, "X-Original-Uri": {uri}, "X-Original-Url": {uri}, "X-Forwarded-Uri": {uri},
			"X-Forwarded-Host": {host}, "X-Forwarded-Proto": {scheme}, "X-Forwarded-For": {list, "198.51.100.7"}, "X-Real-Ip": {"198.51.100.7"},
		}}
		r.URL = ask("GET", "/auth").URL
		if name == "envoy" {
			r.Method, r.RequestURI = method, "/auth"+uri
		}
		resp := answerOf(h, r.WithContext(t.Context()))
		if admitted := resp.StatusCode == 200; admitted != (len(s.requests) == 1) || !admitted && resp.StatusCode != 400 && resp.StatusCode != 404 {
			t.Fatalf("status %d, %d requests", resp.StatusCode, len(s.requests))
		}
		for _, got := range s.requests {
			if at, err := netip.ParseAddrPort(got.RemoteAddr); err != nil || at.Addr() != netip.MustParseAddr("198.51.100.7") {
				t.Fatalf("from %s", got.RemoteAddr)
			}
			if got.URL.Path != "*" && !strings.HasPrefix(got.URL.Path, "/") || got.Method == "" || got.Host == "" {
				t.Fatalf("%s %q of %q", got.Method, got.URL.Path, got.Host)
			}
		}
	})
}
