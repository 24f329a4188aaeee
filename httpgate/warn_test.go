package httpgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestWarningsHavePages: every warning has a page whose heading is its name, the index lists it, and
// there is no page of another.
func TestWarningsHavePages(t *testing.T) {
	root := ".."
	index, err := os.ReadFile(filepath.Join(root, "docs", "warnings", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	expected := []string{filepath.Join(root, "docs", "warnings", "README.md")}
	for w := range warningCount {
		file := filepath.Join(root, filepath.FromSlash(w.page()))
		expected = append(expected, file)
		page, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if heading, _, _ := strings.Cut(string(page), "\n"); heading != "# "+warnings[w].name {
			t.Errorf("%s begins with %q", file, heading)
		}
		if !bytes.Contains(page, []byte(warnings[w].says)) {
			t.Errorf("%s does not hold what the log says: %s", file, warnings[w].says)
		}
		if link := fmt.Sprintf("[%s](%s.md)", warnings[w].name, warnings[w].name); !bytes.Contains(index, []byte(link)) {
			t.Errorf("the index has no %s", link)
		}
	}
	there, err := filepath.Glob(filepath.Join(root, "docs", "warnings", "*"))
	slices.Sort(expected)
	if err != nil || !slices.Equal(there, expected) {
		t.Errorf("the pages are %q, %v; want %q", there, err, expected)
	}
}

// A watched gate collects the warnings that it logs.
type watched struct {
	t   *testing.T
	log bytes.Buffer
}

func (w *watched) gate(limiter *slidegate.Limiter, options ...Option) *Gate {
	w.t.Helper()
	g, err := New(limiter, append(options, Logger(slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelWarn}))))...)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// names returns the warnings that were logged, each as often as it was.
func (w *watched) names() string {
	var names []string
	for line := range strings.Lines(w.log.String()) {
		_, rest, ok := strings.Cut(line, " warning=")
		if !ok {
			continue
		}
		name, page, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if !strings.Contains(line, "level=WARN") || !strings.HasPrefix(page, "page=docs/warnings/"+name+".md") {
			w.t.Errorf("logged %s", line)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// from returns a request number i of a peer.
func from(peer string, i int, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", fmt.Sprintf("/%d", i%50), nil)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func serve(h http.Handler, n int, request func(i int) *http.Request) {
	for i := range n {
		h.ServeHTTP(httptest.NewRecorder(), request(i))
	}
}

// TestWarnings: each is logged once, of what it is about, and of nothing that looks a little like it.
func TestWarnings(t *testing.T) {
	plenty := func() *slidegate.Limiter { return frozen(slidegate.PerHour(1e6)) }
	sameKey := By(func(*http.Request) (string, error) { return "one", nil })
	peer := func(i int) string { return fmt.Sprintf("198.51.100.%d:%d", i%200, 1000+i) }
	otherClient := func(i int) *http.Request { return from(peer(i), i) }
	oneClient := func(i int) *http.Request { return from("198.51.100.7:1", i) }
	forwarding := func(i int) *http.Request {
		return from("198.51.100.7:1", i, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%200))
	}
	throughDocker := func(i int) *http.Request { return from("172.17.0.1:1", i, "X-Forwarded-For", "203.0.113.7") }
	// through is a request through one of n proxies with public addresses, which name the client in a header.
	through := func(n int, header string) func(i int) *http.Request {
		return func(i int) *http.Request {
			return from(fmt.Sprintf("198.51.100.%d:%d", i%n, 1000+i), i, header, fmt.Sprintf("203.0.%d.%d", i%3000/250, i%250))
		}
	}
	cdn := through(4, "X-Forwarded-For")
	wrongNetworks := []Option{TrustProxies("192.0.2.0/24"), ClientIPHeader("CF-Connecting-IP")}
	onePath := func(request func(i int) *http.Request) func(i int) *http.Request {
		return func(i int) *http.Request { r := request(i); r.URL.Path = "/graphql"; return r }
	}
	key := func(key string) Option { return By(func(*http.Request) (string, error) { return key, nil }) }
	failing := &downStore{Store: memstore.New()}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name    string
		limiter *slidegate.Limiter
		options []Option
		n       int
		request func(i int) *http.Request
		want    string
	}{
		{"a private peer forwards", plenty(), nil, 10, throughDocker, "untrusted-proxy"},
		{"a private peer that is none of the proxies", plenty(), []Option{TrustProxies("10.0.0.0/8")}, 10, throughDocker, "untrusted-proxy"},
		{"it is trusted", plenty(), []Option{TrustProxies("172.16.0.0/12")}, 10, throughDocker, ""},
		{"a public peer sends the header", plenty(), nil, 10, forwarding, ""},
		{"a header that cannot be read", plenty(), []Option{TrustHops(2)}, 10, throughDocker, "unreadable-header"},

		{"the header that was named", plenty(), wrongNetworks, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "CF-Connecting-IP", "203.0.113.7") }, "untrusted-proxy"},
		{"a header of somebody's own that was named", plenty(), []Option{TrustProxies("192.0.2.0/24"), ClientIPHeader("X-Who")}, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "X-Who", "203.0.113.7") }, "untrusted-proxy"},
		{"one that was not", plenty(), nil, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "X-Who", "203.0.113.7") }, ""},
		{"a header of Cloudflare", plenty(), nil, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "CF-Connecting-IP", "203.0.113.7") }, "untrusted-proxy"},
		{"a header of Akamai", plenty(), nil, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "True-Client-IP", "203.0.113.7") }, "untrusted-proxy"},
		{"a header of Fly", plenty(), nil, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "Fly-Client-IP", "203.0.113.7") }, "untrusted-proxy"},
		{"another", plenty(), nil, 10, func(i int) *http.Request { return from("172.17.0.1:1", i, "X-Client-IP", "203.0.113.7") }, "untrusted-proxy"},

		{"a network with several public proxies", plenty(), nil, 1200, cdn, "untrusted-proxy"},
		{"with sixteen", plenty(), nil, 1200, through(16, "X-Forwarded-For"), "untrusted-proxy"},
		{"not a thousand of them yet", plenty(), nil, 999, cdn, ""},
		{"of other networks than were named", plenty(), wrongNetworks, 1200, through(4, "CF-Connecting-IP"), "untrusted-proxy"},
		{"of those that were named", plenty(), []Option{TrustProxies("198.51.100.0/24"), ClientIPHeader("CF-Connecting-IP")}, 1200, through(4, "CF-Connecting-IP"), ""},
		{"that do not send what was named", plenty(), []Option{TrustProxies("198.51.100.0/24"), ClientIPHeader("CF-Connecting-IP")}, 1200, cdn, "untrusted-proxy"},
		{"one proxy alone sends what was named, and nobody is believed", plenty(), wrongNetworks, 1200, through(1, "CF-Connecting-IP"), "one-key"},
		{"for each of which the gate counts by route too", plenty(), []Option{ByAll(ByMethod(), ByAddress())}, 1200, cdn, "untrusted-proxy"},
		{"and an identity that some have", plenty(), []Option{ByHeader("X-API-Key")}, 1200, func(i int) *http.Request {
			r := cdn(i)
			if i%2 == 0 {
				r.Header.Set("X-API-Key", "k")
			}
			return r
		}, "untrusted-proxy"},
		{"and probes of the machine itself", plenty(), nil, 1200, func(i int) *http.Request {
			if i%20 == 0 {
				return from("127.0.0.1:1", i)
			}
			return cdn(i)
		}, "untrusted-proxy"},
		{"one client among few that makes headers up", plenty(), nil, 1200, func(i int) *http.Request {
			if i%4 == 0 {
				return from("198.51.100.77:1", i, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%200))
			}
			return from(fmt.Sprintf("198.51.100.%d:1", i%4), i)
		}, ""},
		{"one client that makes headers up, and is nearly all there is", plenty(), nil, 1200, func(i int) *http.Request {
			if i%20 == 0 {
				return oneClient(i)
			}
			return from("198.51.100.77:1", i, "X-Forwarded-For", fmt.Sprintf("203.0.%d.%d", i/200, i%200))
		}, ""},
		{"clients behind few proxies of their own, each for itself", plenty(), nil, 1200, func(i int) *http.Request {
			return from(fmt.Sprintf("198.51.100.%d:1", i%10), i, "X-Forwarded-For", fmt.Sprintf("192.168.0.%d", i%10))
		}, ""},
		{"few clients behind few proxies", plenty(), nil, 1200, func(i int) *http.Request {
			return from(fmt.Sprintf("198.51.100.%d:1", i%4), i, "X-Forwarded-For", fmt.Sprintf("192.168.0.%d", i%60))
		}, ""},
		{"many peers that all send it", plenty(), nil, 1200, through(17, "X-Forwarded-For"), ""},

		{"all clients through a public proxy", plenty(), nil, 1200, forwarding, "one-key"},
		{"one hop too few", plenty(), []Option{TrustHops(1)}, 1200, func(i int) *http.Request {
			return from("198.51.100.7:1", i, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 198.51.100.8", i%200))
		}, "one-key"},
		{"not a thousand yet", plenty(), nil, 999, forwarding, ""},
		{"a second client among them", plenty(), nil, 1200, func(i int) *http.Request {
			if i == 500 {
				return from("198.51.100.9:1", i)
			}
			return forwarding(i)
		}, ""},
		{"one client alone", plenty(), nil, 1200, oneClient, ""},
		{"a constant key", plenty(), []Option{sameKey}, 1200, otherClient, "one-key"},
		{"a constant key of one client", plenty(), []Option{sameKey}, 1200, oneClient, ""},
		{"a constant key of a service with one path", plenty(), []Option{sameKey}, 1200, onePath(otherClient), "one-key"},
		{"one tenant of few addresses and one path", plenty(), []Option{sameKey}, 1200, onePath(through(12, "X-Other")), ""},
		{"a constant key of a kind that is whoever asks", plenty(), []Option{key("method:/pkg.Service/Method")}, 1200, otherClient, ""},
		{"a constant key that the client has sent", plenty(), []Option{key("header:Tenant:t")}, 1200, otherClient, ""},
		{"the key of everybody", plenty(), []Option{key("everybody")}, 1200, otherClient, ""},
		{"that is meant", plenty(), []Option{ByEverybody()}, 1200, otherClient, ""},
		{"one route of many clients", plenty(), []Option{ByMethod()}, 1200, otherClient, ""},
		{"one tenant of many clients", plenty(), []Option{ByHeader("Tenant")}, 1200, func(i int) *http.Request { return from(peer(i), i, "Tenant", "t") }, ""},

		{"nobody sends the header", plenty(), []Option{ByHeader("X-API-Key")}, 1200, otherClient, "no-key"},
		{"one does", plenty(), []Option{ByHeader("X-API-Key")}, 1200, func(i int) *http.Request {
			if i == 999 {
				return from(peer(i), i, "X-API-Key", "k")
			}
			return otherClient(i)
		}, ""},
		{"nobody has the cookie", plenty(), []Option{ByCookie("session")}, 1200, otherClient, "no-key"},
		{"no value", plenty(), []Option{ByValue("account", func(*http.Request) string { return "" })}, 1200, otherClient, "no-key"},
		{"one value of many clients", plenty(), []Option{ByValue("account", func(*http.Request) string { return "ann" })}, 1200, otherClient, ""},
		{"no route, since there is no mux", plenty(), []Option{ByRoute(nil)}, 1200, otherClient, "no-key"},
		{"no route, joined to the address", plenty(), []Option{ByAll(ByRoute(nil), ByAddress())}, 1200, otherClient, "no-key"},
		{"no route, joined to a header that came", plenty(), []Option{ByAll(ByHeader("Tenant"), ByRoute(nil))}, 1200, func(i int) *http.Request { return from(peer(i), i, "Tenant", "t") }, "no-key"},
		{"what is joined came, once each", plenty(), []Option{ByAll(ByHeader("Tenant"), ByCookie("c"))}, 1200, func(i int) *http.Request {
			if i == 7 {
				return from(peer(i), i, "Tenant", "t")
			}
			return from(peer(i), i, "Cookie", "c=1")
		}, ""},
		{"no key of another limiter", plenty(), []Option{And(slidegate.MustNew(memstore.New(), slidegate.PerDay(1e6)), ByValue("account", func(*http.Request) string { return "" }))}, 1200, otherClient, "no-key"},
		{"no route of the mux", plenty(), []Option{ByRoute(http.NewServeMux())}, 1200, otherClient, ""},

		{"a store that is down", slidegate.MustNew(failing, slidegate.PerHour(1)), nil, 10, oneClient, "fail-open"},
		{"and that is meant", slidegate.MustNew(failing, slidegate.PerHour(1)), []Option{FailOpen()}, 10, oneClient, ""},
		{"and requests are refused", slidegate.MustNew(failing, slidegate.PerHour(1)), []Option{FailClosed()}, 10, oneClient, ""},
		{"clients that went away", slidegate.MustNew(failing, slidegate.PerHour(1)), nil, 10, func(i int) *http.Request { return oneClient(i).WithContext(gone) }, ""},

		{"a limiter for each request", plenty(), []Option{Choose(func(*http.Request) *slidegate.Limiter { return plenty() })}, 4200, oneClient, "limiter-per-request"},
		{"plans that are made once", plenty(), []Option{Choose(plan(plenty(), plenty()))}, 4200, oneClient, ""},

		{"a body of unknown length", plenty(), []Option{costs(-1)}, 10, oneClient, "negative-cost"},
		{"in shadow mode", plenty(), []Option{costs(-1), Shadow()}, 10, oneClient, "negative-cost"},
		{"a cost that can never fit", plenty(), []Option{costs(2e6)}, 10, oneClient, ""},
		{"what is free", plenty(), []Option{costs(0)}, 10, oneClient, ""},
	} {
		w := &watched{t: t}
		serve(w.gate(c.limiter, c.options...).Wrap(nothing), c.n, c.request)
		if got := w.names(); got != c.want {
			t.Errorf("%s: warned of %q, want %q\n%s", c.name, got, c.want, w.log.String())
		}
		if log := w.log.String(); strings.Contains(log, "198.51.100") || strings.Contains(log, "203.0.113") || strings.Contains(log, "one\n") {
			t.Errorf("%s: a key or an address is in the log:\n%s", c.name, log)
		}
	}
}

// TestWarningsNameWhatIsMissing, all of it.
func TestWarningsNameWhatIsMissing(t *testing.T) {
	w := &watched{t: t}
	g := w.gate(frozen(slidegate.PerHour(1e6)), ByAll(ByRoute(nil), ByCookie("c"), ByMethod()), And(frozen(slidegate.PerDay(1e6)), ByHeader("k")))
	serve(g.Wrap(nothing), 1000, func(i int) *http.Request { return from(fmt.Sprintf("198.51.100.%d:1", i%200), i) })
	if log := w.log.String(); !strings.Contains(log, `by="the route, the cookie c, the header K"`) {
		t.Errorf("logged %s", log)
	}
}

// costs is what every request costs.
func costs(n int64) Option { return Cost(func(*http.Request) int64 { return n }) }

// TestNegativeCostIsToldOfByDecide too, where gates of other protocols ask.
func TestNegativeCostIsToldOfByDecide(t *testing.T) {
	w := &watched{t: t}
	g := w.gate(frozen(slidegate.PerHour(1)), costs(-1))
	for i := range 2 {
		if o := g.Decide(from("198.51.100.7:1", i)); o.Admitted || o.Violated != nil {
			t.Errorf("admitted %v, violated %q", o.Admitted, o.Violated)
		}
	}
	if got := w.names(); got != "negative-cost" {
		t.Errorf("warned of %q", got)
	}
}

// plan chooses among limiters in turn.
func plan(limiters ...*slidegate.Limiter) func(*http.Request) *slidegate.Limiter {
	n := 0
	return func(*http.Request) *slidegate.Limiter { n++; return limiters[n%len(limiters)] }
}

type downStore struct{ slidegate.Store }

type downPlan struct{ slidegate.Plan }

func (s *downStore) Bind(l []slidegate.Limit) (slidegate.Plan, error) {
	p, err := s.Store.Bind(l)
	return downPlan{p}, err
}

func (downPlan) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, errors.New("connection refused")
}

// TestLimiterTwice: nested gates with one limiter and one key, side by side or with another between
// them, whatever fields they send; and neither another key, nor another limiter, nor requests one
// behind the other.
func TestLimiterTwice(t *testing.T) {
	one, two := frozen(slidegate.PerHour(1e6)), frozen(slidegate.PerHour(1e6))
	none := func(h http.Handler) http.Handler { return h }
	for _, c := range []struct {
		name         string
		outer, inner *slidegate.Limiter
		between      func(http.Handler) http.Handler
		options      []Option // of the inner
		want         string
	}{
		{"side by side", one, one, none, nil, "limiter-twice"},
		{"without fields", one, one, none, []Option{Headers()}, "limiter-twice"},
		{"with another between", one, one, MustNew(two).Wrap, nil, "limiter-twice"},
		{"another limiter", one, two, none, nil, ""},
		{"another key", one, one, none, []Option{ByEverybody()}, ""},
		{"charged nothing", one, one, none, []Option{Cost(func(*http.Request) int64 { return 0 })}, ""},
	} {
		w := &watched{t: t}
		inner := w.gate(c.inner, c.options...)
		h := MustNew(c.outer).Wrap(c.between(inner.Wrap(nothing)))
		serve(h, 10, func(i int) *http.Request { return from("198.51.100.7:1", i) })
		if got := w.names(); got != c.want {
			t.Errorf("%s: warned of %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWarningsCostNoAllocation on a gate that is in order, nor where a misuse has been told of.
func TestWarningsCostNoAllocation(t *testing.T) {
	discard := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	for name, r := range map[string]*http.Request{"in order": from("198.51.100.7:1", 0), "misused": from("10.0.0.1:1", 0, "X-Forwarded-For", "203.0.113.7")} {
		measure := func(options ...Option) float64 {
			h := MustNew(frozen(slidegate.PerHour(1)), append(options, Headers())...).Wrap(nothing)
			w := &sink{http.Header{}}
			h.ServeHTTP(w, r)
			return testing.AllocsPerRun(100, func() { clear(w.h); h.ServeHTTP(w, r) })
		}
		if with, without := measure(Logger(discard)), measure(); with != without {
			t.Errorf("%s: %v allocations with a logger, %v without", name, with, without)
		}
	}
}

type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}
