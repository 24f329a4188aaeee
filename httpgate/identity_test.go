package httpgate_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func shop() *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /items/{id}", "HEAD /items/{id}", "POST /items/{id}", "/lang", "/tree/", "/{any}/", "GET api.example/v1", "CONNECT /tunnel"} {
		mux.Handle(pattern, hello)
	}
	return mux
}

// keyOf returns the key of a request under options.
func keyOf(t *testing.T, r *http.Request, options ...httpgate.Option) string {
	t.Helper()
	g, err := httpgate.New(slidegate.Unlimited(), options...)
	if err != nil {
		t.Fatal(err)
	}
	key, err := g.KeyOf(r)
	if err != nil {
		t.Error(err)
	}
	return key
}

// TestRouteOfEverySpelling: a gate around the mux counts a request where the mux sends it.
func TestRouteOfEverySpelling(t *testing.T) {
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/items/1", "route:GET /items/{id}"},
		{"HEAD", "/items/1", "route:GET /items/{id}"},
		{"GET", "/items//1", "route:GET /items/{id}"},
		{"GET", "/x/../items/1", "route:GET /items/{id}"},
		{"GET", "/./items/1?a=b", "route:GET /items/{id}"},
		{"GET", "/items/%31", "route:GET /items/{id}"},
		{"GET", "/%69tems/1", "route:GET /items/{id}"},
		{"GET", "/items/a%2Fb", "route:GET /items/{id}"},
		{"POST", "/items/1", "route:POST /items/{id}"},
		{"DELETE", "/items/1", "route:/{any}/"},
		{"PATCH", "/lang", "route:/lang"},
		{"CONNECT", "/lang", "route:/lang"},
		{"GET", "/LANG", "route:/{any}/"}, // the redirect to /LANG/
		{"GET", "/tree", "route:/tree/"},
		{"GET", "/tree/a/b", "route:/tree/"},
		{"GET", "//api.example/v1", "route:GET api.example/v1"},
		{"GET", "/", "route:"},
		{"CONNECT", "/made-up", "route:"},         // the mux would say /made-up/
		{"CONNECT", "//made-up", "route:/{any}/"}, // not cleaned: the handler runs
		{"CONNECT", "/made-up%2F", "route:"},
		{"CONNECT", "/tree/../tree", "route:/tree/"}, // no redirect: the handler runs
		{"CONNECT", "/tree/", "route:/tree/"},
		{"CONNECT", "/tunnel", "route:CONNECT /tunnel"},
	} {
		r := request(c.method, "/", "")
		host, target := "example.com", c.target
		if rest, ok := strings.CutPrefix(target, "//api.example"); ok {
			host, target = "api.example", rest
		}
		u, err := url.Parse("http://" + host + target)
		if err != nil {
			t.Fatal(err)
		}
		r.URL, r.Host = u, host
		u.Host = ""
		if got := keyOf(t, r, httpgate.ByRoute(shop())); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

// TestNoSpellingEscapesTheRoute over a real socket: the handler runs as often as its limit says,
// whatever is sent.
func TestNoSpellingEscapesTheRoute(t *testing.T) {
	for name, build := range map[string]func(http.Handler) http.Handler{
		"around the mux": func(handler http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/lang", handler)
			return httpgate.PerIP(slidegate.PerHour(3), httpgate.ByRoute(mux))(mux)
		},
		"behind the mux": func(handler http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/lang", httpgate.PerIP(slidegate.PerHour(3), httpgate.ByRoute(nil))(handler))
			return mux
		},
		"joined": func(handler http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/lang", handler)
			return httpgate.PerIP(slidegate.PerHour(3), httpgate.ByAll(httpgate.ByRoute(mux), httpgate.ByAddress()))(mux)
		},
	} {
		var runs atomic.Int64
		srv := httptest.NewServer(build(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs.Add(1) })))
		for _, target := range []string{"/lang", "//lang", "/./lang", "/x/../lang", "/l%61ng", "/lang?x=1", "/LANG", "/lang/"} {
			for _, method := range []string{"GET", "HEAD", "POST", "MADEUP"} {
				r, _ := http.NewRequest(method, srv.URL+target, nil)
				resp, err := srv.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
		}
		srv.Close()
		expect(t, name, fmt.Sprint(runs.Load()), "3")
	}
}

// TestRouteWithoutAMux is the pattern that matched, and the address where none has.
func TestRouteWithoutAMux(t *testing.T) {
	r := request("GET", "/", "203.0.113.7:1")
	expect(t, "no pattern", keyOf(t, r, httpgate.ByRoute(nil)), "ip:203.0.113.7")
	r.Pattern = "HEAD /x"
	expect(t, "a pattern", keyOf(t, r, httpgate.ByRoute(nil)), "route:GET /x")
}

// TestMethodsCannotBeMadeUp for a budget of their own.
func TestMethodsCannotBeMadeUp(t *testing.T) {
	for method, want := range map[string]string{"GET": "method:GET", "HEAD": "method:GET", "POST": "method:POST", "post": "method:other", "MADEUP": "method:other", "X": "method:other"} {
		expect(t, method, keyOf(t, request(method, "/", ""), httpgate.ByMethod()), want)
	}
}

// TestIdentities: what each option counts by, and that it is the address where it cannot tell.
func TestIdentities(t *testing.T) {
	subject := func(r *http.Request) (string, bool) { s := r.Header.Get("Verified"); return s, s != "none" }
	for _, c := range []struct {
		name    string
		option  httpgate.Option
		headers []string
		want    string
	}{
		{"claim", httpgate.ByClaim("sub", subject), []string{"Verified", "alice"}, "claim:sub:alice"},
		{"claim of nobody", httpgate.ByClaim("sub", subject), []string{"Verified", "none"}, "ip:203.0.113.7"},
		{"empty claim", httpgate.ByClaim("sub", subject), nil, "ip:203.0.113.7"},
		{"everybody", httpgate.ByEverybody(), nil, "everybody"},
		{"the last word", httpgate.ByAddress(), nil, "ip:203.0.113.7"},
		{"tenant and user", httpgate.ByAll(httpgate.ByHeader("Tenant"), httpgate.ByClaim("sub", subject)), []string{"Tenant", "t", "Verified", "alice"}, "15:header:Tenant:t|15:claim:sub:alice"},
		{"a part that cannot tell", httpgate.ByAll(httpgate.ByHeader("Tenant"), httpgate.ByClaim("sub", subject)), []string{"Tenant", "t"}, "15:header:Tenant:t|14:ip:203.0.113.7"},
		{"nested", httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAll(httpgate.ByAddress(), httpgate.ByMethod())), nil, "10:method:GET|31:14:ip:203.0.113.7|10:method:GET"},
	} {
		expect(t, c.name, keyOf(t, request("GET", "/", "203.0.113.7:1", c.headers...), c.option), c.want)
	}
}

// TestPartsNeverCollide, whatever is in them.
func TestPartsNeverCollide(t *testing.T) {
	by := httpgate.ByAll(httpgate.ByHeader("A"), httpgate.ByHeader("B"))
	seen := map[string]string{}
	texts := []string{"a", "a|1:b", "|", "1:", "ip:203.0.113.7", "a:b", ":", "b"}
	for _, a := range texts {
		for _, b := range texts {
			key := keyOf(t, request("GET", "/", "", "A", a, "B", b), by)
			if other, ok := seen[key]; ok {
				t.Errorf("%q and %q have the key of %s", a, b, other)
			}
			seen[key] = fmt.Sprintf("%q and %q", a, b)
		}
	}
}

// TestJoinedAddressIsTheGates: behind the proxies that it trusts, by the prefix that it was given,
// wherever those options stand, and the event says how it was found.
func TestJoinedAddressIsTheGates(t *testing.T) {
	var got httpgate.Event
	s := newSite(t, limits(slidegate.PerMinute(9)), httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAddress()),
		httpgate.TrustProxies("10.0.0.0/8"), httpgate.IPv6Prefix(64), httpgate.Observe(func(e *httpgate.Event) { got = *e }))
	s.want(200, "10.0.0.1:1", "X-Forwarded-For", "2001:db8:1:2::3")
	expect(t, "the key", got.Key+" "+string(got.Reason), "10:method:GET|20:ip:2001:db8:1:2::/64 header")
	s.want(500, "@") // nobody to count, so not let through
}

// TestByNetworkIsOfTheClient: of the address that the gate counts by, behind its proxies too, whatever bits of
// an IPv6 address tell clients apart.
func TestByNetworkIsOfTheClient(t *testing.T) {
	for _, c := range []struct {
		remote, forwarded string
		v4, v6            int
		want              string
	}{
		{"203.0.113.7:1", "", 24, 48, "net:203.0.113.0/24"},
		{"203.0.113.250:1", "", 24, 48, "net:203.0.113.0/24"},
		{"[::ffff:203.0.113.7]:1", "", 24, 48, "net:203.0.113.0/24"},
		{"203.0.113.7:1", "", 32, 48, "net:203.0.113.7/32"},
		{"203.0.113.7:1", "", 8, 16, "net:203.0.0.0/8"},
		{"[2001:db8:1:2::3]:1", "", 24, 48, "net:2001:db8:1::/48"},
		{"[2001:db8:1:2::3%eth0]:1", "", 24, 64, "net:2001:db8:1:2::/64"},
		{"[2001:db8:1:2::3]:1", "", 8, 16, "net:2001::/16"},
		{"[2001:db8::3]:1", "", 24, 128, "net:2001:db8::3/128"},
		{"[64:ff9b::cb00:7107]:1", "", 24, 48, "net:203.0.113.0/24"},
		{"10.0.0.1:1", "198.51.100.9", 24, 48, "net:198.51.100.0/24"},
		{"10.0.0.1:1", "192.0.2.1, 2001:db8:1:2::3", 24, 48, "net:2001:db8:1::/48"},
		{"203.0.113.7:1", "198.51.100.9", 24, 48, "net:203.0.113.0/24"},
	} {
		r := request("GET", "/", c.remote)
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		got := keyOf(t, r, httpgate.ByNetwork(c.v4, c.v6), httpgate.TrustProxies("10.0.0.0/8"), httpgate.UnwrapNAT64(), httpgate.IPv6Prefix(96))
		expect(t, c.remote+" for "+c.forwarded, got, c.want)
	}
}

// TestByNetworkNeedsAnAddress, says how it was found, and warns of a proxy that is not named.
func TestByNetworkNeedsAnAddress(t *testing.T) {
	var got httpgate.Event
	gate := httpgate.MustNew(slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(9)), httpgate.ByNetwork(24, 48),
		httpgate.Observe(func(e *httpgate.Event) { got = *e }))
	s := &site{t: t, handler: gate.Wrap(hello)}
	s.want(500, "@")
	s.want(200, "10.0.0.1:1", "X-Forwarded-For", "203.0.113.7")
	expect(t, "the key", got.Key+" "+string(got.Reason), "net:10.0.0.0/24 peer")
	expect(t, "headers ignored", fmt.Sprint(gate.IgnoredHeaders()), "1")
}

// TestByValueCarriesItsKind, and is the address where there is no value.
func TestByValueCarriesItsKind(t *testing.T) {
	for name, want := range map[string]string{"ann": "account:ann", "ip:203.0.113.7": "account:ip:203.0.113.7", "": "ip:203.0.113.7"} {
		r := request("GET", "/", "203.0.113.7:1", "User", name)
		expect(t, name, keyOf(t, r, httpgate.ByValue("account", func(r *http.Request) string { return r.Header.Get("User") })), want)
	}
}

// TestByValueTakesNoKindOfTheGate: no key that the gate makes has a kind that ByValue takes.
func TestByValueTakesNoKindOfTheGate(t *testing.T) {
	value := func(*http.Request) string { return "x" }
	r := request("GET", "/", "203.0.113.7:1", "User", "ann", "Cookie", "session=1", "Long", strings.Repeat("x", 600))
	claim := func(*http.Request) (string, bool) { return "42", true }
	for _, options := range [][]httpgate.Option{
		{httpgate.ByAddress()}, {httpgate.ByNetwork(24, 48)}, {httpgate.ByHeader("User")}, {httpgate.ByCookie("session")}, {httpgate.ByClaim("sub", claim)},
		{httpgate.ByRoute(shop())}, {httpgate.ByMethod()}, {httpgate.ByHeader("Long")}, {httpgate.ByHeader("User"), httpgate.Secret(secret)},
	} {
		kind, _, ok := strings.Cut(keyOf(t, r, options...), ":")
		if _, err := httpgate.New(slidegate.Unlimited(), httpgate.ByValue(kind, value)); !ok || err == nil {
			t.Errorf("ByValue takes the kind %q", kind)
		}
	}
}

var (
	secret  = bytes.Repeat([]byte("0123456789abcdef"), 2)
	another = bytes.Repeat([]byte("fedcba9876543210"), 2)
)

// TestSecretKeepsKeysFromTheStore: not an API key, nor a cookie, nor one in a joined key is stored,
// and each still has its own budget. An address alone stays readable.
func TestSecretKeepsKeysFromTheStore(t *testing.T) {
	var keys []string
	look := httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) })
	for _, option := range []httpgate.Option{
		httpgate.ByHeader("Authorization"),
		httpgate.ByAll(httpgate.ByMethod(), httpgate.ByHeader("Authorization")),
		httpgate.By(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }),
	} {
		keys = nil
		s := newSite(t, limits(slidegate.PerMinute(1)), option, httpgate.Secret(secret), look)
		s.want(200, "", "Authorization", "Bearer k1")
		s.want(429, "", "Authorization", "Bearer k1")
		s.want(200, "", "Authorization", "Bearer k2")
		s.behind(slidegate.MustNew(s.store, slidegate.PerMinute(1)), option, httpgate.Secret(another), look).want(200, "", "Authorization", "Bearer k1")
		if keys[0] != keys[1] || keys[0] == keys[2] || keys[0] == keys[3] {
			t.Errorf("got %q", keys)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, "hmac:") || len(key) != len("hmac:")+64 || strings.Contains(key, "k1") {
				t.Errorf("stored as %q", key)
			}
		}
	}
	expect(t, "an address", keyOf(t, request("GET", "/", "203.0.113.7:1"), httpgate.ByHeader("Authorization"), httpgate.Secret(secret)), "ip:203.0.113.7")
}

// TestSecretIsCopied, so that a program may wipe what it read.
func TestSecretIsCopied(t *testing.T) {
	own := bytes.Clone(secret)
	g := httpgate.MustNew(slidegate.Unlimited(), httpgate.ByEverybody(), httpgate.Secret(own))
	before, _ := g.KeyOf(request("GET", "/", ""))
	clear(own)
	if after, _ := g.KeyOf(request("GET", "/", "")); after != before {
		t.Errorf("%q became %q", before, after)
	}
}

// TestMadeUpIdentitiesBuyNothing where a gate by address stands around the one by an unverified
// header: the address is held to its limit, however many keys it makes up.
func TestMadeUpIdentitiesBuyNothing(t *testing.T) {
	store := atTheEpoch()
	byAddress := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(5).Named("address")))
	byKey := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(2).Named("key")), httpgate.ByHeader("X-API-Key"))
	s := &site{t: t, handler: byAddress.Wrap(byKey.Wrap(hello))}
	got := ""
	for i := range 8 {
		got += fmt.Sprint(s.get("203.0.113.7:1", "X-API-Key", fmt.Sprint("made-up-", i)).Code, " ")
	}
	expect(t, "made-up keys", got, "200 200 200 200 200 429 429 429 ")
	expect(t, "keys held", fmt.Sprint(store.Len()), "6") // the address, and the keys that got past it
	expect(t, "one key from two addresses", s.codes(1, "203.0.113.8:1", "X-API-Key", "k")+" "+s.codes(2, "203.0.113.9:1", "X-API-Key", "k"), "200 200 429")
}

// TestKeyOfIsWhatIsStored: a program can ask the limiter about a request's key.
func TestKeyOfIsWhatIsStored(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(3))
	g := httpgate.MustNew(limiter, httpgate.ByHeader("X-API-Key"), httpgate.Secret(secret))
	r := request("GET", "/", "", "X-API-Key", "k1")
	g.Wrap(hello).ServeHTTP(httptest.NewRecorder(), r)
	key, err := g.KeyOf(r)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.Peek(context.Background(), key); err != nil || d.Remaining() != 2 {
		t.Errorf("%d left, %v", d.Remaining(), err)
	}
}
