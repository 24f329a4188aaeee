package httpgate_test

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

//go:embed testdata/field-cases.json
var fieldCasesJSON []byte

// fieldCases are faults that were reported of other rate limiters, by the id that they have in
// testdata/field-cases.json. Each function is what the case says, in front of this package.
var fieldCases = map[string]func(*testing.T){
	"BND-05": waitIsNotTheWindow,
	"BND-06": steadyClient,
	"KEY-01": addressesOfOneNetwork,
	"KEY-03": spellingsOfOneAddress,
	"KEY-05": maskOfAHeadersAddress,
	"KEY-06": portsAreNoClients,
	"KEY-07": leftMostIsForged,
	"KEY-09": requestsWithoutTheHeader,
	"KEY-13": longKeys,
	"PXY-01": nobodyIsTrusted,
	"PXY-02": peerIsNotTheProxy,
	"PXY-03": warnsOnce,
	"PXY-05": everythingIsTrusted,
	"PXY-07": wayThroughANetwork,
	"HDR-01": retryAfterIsNeverZero,
	"HDR-02": wholeSeconds,
	"HDR-04": noRetryAfterOnSuccess,
	"HDR-05": epochAndDelta,
	"HDR-06": limitThatRefused,
	"HDR-08": sameFieldsFromTheMemoryStore,
	"HDR-10": absoluteResetStandsStill,
	"RAC-06": firstRequestIsCharged,
	"CST-02": costThatCanNeverFit,
	"CST-06": costOfNothing,
	"CST-08": chargedOnce,
	"PRT-01": spellingsOfOnePath,
	"PRT-03": consumerOverRoutes,
	"PRT-04": methodsApart,
	"DYN-01": plans,
	"RSP-01": problemForJSONClients,
	"RSP-02": denyHandlerWithoutStatus,
	"RSP-03": twoHooks,
	"MET-04": outageInTheLog,
	"MET-05": decisionForTheHandler,
	"STR-01": preflights,
	"STR-03": responseDependent,
	"STR-04": upgrades,
	"STR-06": headCountsAsGet,
	"FAL-01": failuresOnly,
	"FAL-03": refusedBeforeTheHandler,
	"FAL-05": overlappingRefunds,
	"FAL-07": refundFails,
	"BAN-01": banOutlivesTheWindow,
	"BAN-03": banBeginsOnce,
	"BAN-06": refusalsProlongNothing,
	"SHD-01": shadowRefusesNobody,
	"SHD-02": shadowBesideAnEnforcedLimit,
	"ALW-01": allowedNetworks,
	"ALW-03": exemptPaths,
	"ALW-05": blockedNetworks,
	"TST-01": clockOfAnotherCentury,
}

// casesElsewhere are run beside what they are about.
var casesElsewhere = map[string]string{
	"MET-01": "the metrics are the command's: TestAdmin of cmd/slidegate",
}

// TestFieldCases runs every case whose surface is HTTP, and fails if one is neither run nor explained.
func TestFieldCases(t *testing.T) {
	var file struct{ Shared []struct{ ID, Setup string } }
	if err := json.Unmarshal(fieldCasesJSON, &file); err != nil {
		t.Fatal(err)
	}
	surface := regexp.MustCompile(`^\[([a-z]+\+)*http(\+[a-z]+)*\]`)
	ours := map[string]bool{}
	for _, c := range file.Shared {
		if !surface.MatchString(c.Setup) {
			continue
		}
		ours[c.ID] = true
		run, held := fieldCases[c.ID]
		if _, other := casesElsewhere[c.ID]; held == other {
			t.Errorf("%s is held here: %v, and elsewhere: %v", c.ID, held, other)
		}
		if held {
			t.Run(c.ID, run)
		}
	}
	for id := range fieldCases {
		if !ours[id] {
			t.Errorf("%s is no case of HTTP", id)
		}
	}
	for id := range casesElsewhere {
		if !ours[id] {
			t.Errorf("%s is no case of HTTP", id)
		}
	}
}

// codes sends n requests alike and returns their statuses.
func (s *site) codes(n int, peer string, headers ...string) string {
	var b strings.Builder
	for range n {
		fmt.Fprint(&b, s.get(peer, headers...).Code, " ")
	}
	return strings.TrimSpace(b.String())
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func waitIsNotTheWindow(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(10)))
	for i := range 10 {
		s.at(float64(2 * i))
		s.want(200, "")
	}
	s.at(20)
	expect(t, "Retry-After", s.want(429, "").Header().Get("Retry-After"), "40")
	s.at(60)
	s.want(200, "")
}

func steadyClient(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(10*time.Second, 5)))
	for second := range 20 {
		s.at(float64(second))
		want := 200
		if second/5%2 == 1 {
			want = 429
		}
		s.want(want, "")
	}
}

func addressesOfOneNetwork(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(5)))
	admitted := 0
	for i := range 10 {
		if s.get(fmt.Sprintf("[2001:db8:1:2::%x]:443", i+1)).Code == 200 {
			admitted++
		}
	}
	expect(t, "admitted", fmt.Sprint(admitted), "5")
}

func spellingsOfOneAddress(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)))
	s.want(200, "192.0.2.1:1000")
	s.want(429, "[::ffff:192.0.2.1]:1001")
	s.want(200, "[2001:db8::1]:5")
	s.want(429, "[2001:DB8:0:0:0:0:0:1]:6")
}

func maskOfAHeadersAddress(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.TrustProxies("10.0.0.0/8"), httpgate.ClientIPHeader("Fly-Client-Ip"))
	for i, want := range []int{200, 200, 429} {
		s.want(want, "10.0.0.1:1", "Fly-Client-Ip", fmt.Sprintf("2001:db8:1:2::%d", i+1))
	}
}

func portsAreNoClients(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.TrustProxies("10.0.0.0/8"))
	for _, c := range []struct {
		from string
		want int
	}{{"203.0.113.7:50001", 200}, {"203.0.113.7:50002", 200}, {"203.0.113.7:50003", 429}, {"[2001:db8::1]:443", 200}, {"203.0.113.8:1", 200}} {
		s.want(c.want, "10.0.0.1:1", "X-Forwarded-For", c.from)
	}
}

func leftMostIsForged(t *testing.T) {
	for _, option := range []httpgate.Option{httpgate.TrustProxies("10.0.0.0/8"), httpgate.TrustHops(1), httpgate.TrustEverybody()} {
		s := newSite(t, limits(slidegate.PerMinute(5)), option)
		for i := range 6 {
			want := 200
			if i == 5 {
				want = 429
			}
			s.want(want, "10.0.0.1:1", "X-Forwarded-For", fmt.Sprintf("1.1.1.%d, 198.51.100.9", i+1))
		}
	}
}

func requestsWithoutTheHeader(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(3)), httpgate.ByHeader("X-API-Key"))
	expect(t, "the first address", s.codes(3, "203.0.113.1:1"), "200 200 200")
	s.want(200, "203.0.113.2:1")
	s.want(429, "203.0.113.1:1")
	if _, err := httpgate.New(slidegate.Unlimited(), httpgate.ByHeader("no such header")); err == nil {
		t.Error("a gate by a header that cannot exist was built")
	}
}

func longKeys(t *testing.T) {
	longest := 0
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.ByHeader("Token"), httpgate.Observe(func(e *httpgate.Event) { longest = max(longest, len(e.Key)) }))
	value := strings.Repeat("x", 1<<20)
	s.want(200, "", "Token", value)
	s.want(429, "", "Token", value)
	s.want(200, "", "Token", value[1:]+"y")
	if longest > 512 {
		t.Errorf("a key of %d bytes is stored", longest)
	}
}

func nobodyIsTrusted(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)))
	for i, want := range []int{200, 200, 429} {
		a := fmt.Sprintf("9.9.9.%d", i)
		s.want(want, "198.51.100.7:1", "X-Forwarded-For", a, "X-Real-IP", a, "Forwarded", "for="+a, "True-Client-IP", a, "CF-Connecting-IP", a)
	}
}

func peerIsNotTheProxy(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.TrustProxies("10.0.0.0/8"))
	for i, want := range []int{200, 200, 429} {
		s.want(want, "198.51.100.7:1", "X-Forwarded-For", fmt.Sprintf("9.9.9.%d", i))
	}
}

func warnsOnce(t *testing.T) {
	var log strings.Builder
	gate := httpgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.PerMinute(1)), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	h := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range 10 {
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "10.0.0.1:1", "X-Forwarded-For", fmt.Sprintf("9.9.9.%d", i)))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "TrustProxies") || gate.IgnoredHeaders() != 10 {
		t.Errorf("%d lines, %d headers ignored: %s", lines, gate.IgnoredHeaders(), log.String())
	}
}

func everythingIsTrusted(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.TrustProxies("10.0.0.0/8", "203.0.113.0/24"))
	s.want(200, "10.1.1.1:1", "X-Forwarded-For", "203.0.113.5")
	s.want(200, "10.1.1.2:1", "X-Forwarded-For", "203.0.113.6")
	s.want(429, "10.1.1.2:1", "X-Forwarded-For", "203.0.113.5")
}

func wayThroughANetwork(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.TrustProxies("10.0.0.0/8", "23.235.32.0/20"))
	s.want(200, "10.0.0.1:1", "X-Forwarded-For", "198.51.100.4, 23.235.43.20")
	s.want(200, "10.0.0.1:1", "X-Forwarded-For", "198.51.100.4, 23.235.43.21")
	s.want(429, "10.0.0.1:1", "X-Forwarded-For", "198.51.100.4, 23.235.43.51")
}

var allFormats = httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.Legacy)

func retryAfterIsNeverZero(t *testing.T) {
	s := newSite(t, limits(slidegate.PerSecond(5)))
	expect(t, "five at once", s.codes(5, ""), "200 200 200 200 200")
	s.at(0.4)
	expect(t, "Retry-After", s.want(429, "").Header().Get("Retry-After"), "1")
}

func wholeSeconds(t *testing.T) {
	for _, option := range []httpgate.Option{allFormats, httpgate.Headers(httpgate.Draft7, httpgate.LegacyDelta)} {
		s := newSite(t, limits(slidegate.Per(10*time.Second, 1)), option)
		s.want(200, "")
		s.at(3.2)
		h := s.want(429, "").Header()
		expect(t, "Retry-After", h.Get("Retry-After"), "7")
		seconds := regexp.MustCompile(`^[0-9]+$`)
		inList := regexp.MustCompile(`(?:;t|reset)=([^;,]*)`)
		for name, values := range h {
			if strings.HasSuffix(name, "-Reset") && !seconds.MatchString(values[0]) {
				t.Errorf("%s is %q", name, values[0])
			}
			if m := inList.FindStringSubmatch(values[0]); m != nil && m[1] != "7" {
				t.Errorf("%s is %q", name, values[0])
			}
		}
	}
}

func noRetryAfterOnSuccess(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)), allFormats)
	for range 2 {
		h := s.want(200, "").Header()
		if h.Get("Retry-After") != "" || h.Get("RateLimit") == "" || h.Get("RateLimit-Limit") == "" || h.Get("X-RateLimit-Limit") == "" {
			t.Errorf("got %v", h)
		}
	}
}

func epochAndDelta(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Headers(httpgate.Draft6, httpgate.Legacy))
	for _, want := range []int{200, 429} {
		h := s.want(want, "").Header()
		expect(t, "RateLimit-Reset", h.Get("RateLimit-Reset"), "60")
		expect(t, "X-RateLimit-Reset", h.Get("X-RateLimit-Reset"), "1700000060")
	}
}

func limitThatRefused(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(5), slidegate.Per(365*24*time.Hour, 100_000)), allFormats)
	expect(t, "five", s.codes(5, ""), "200 200 200 200 200")
	h := s.want(429, "").Header()
	expect(t, "Retry-After", h.Get("Retry-After"), "60")
	expect(t, "single values", h.Get("RateLimit-Limit")+" "+h.Get("RateLimit-Remaining")+" "+h.Get("X-RateLimit-Limit")+" "+h.Get("X-RateLimit-Remaining"), "5 0 5 0")
}

// sameFieldsFromTheMemoryStore is the memory store's half: a store decides and never writes a field.
func sameFieldsFromTheMemoryStore(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(3)))
	var got []string
	for range 5 {
		w := s.get("")
		got = append(got, fmt.Sprint(w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After")))
	}
	expect(t, "the trace", strings.Join(got, " "), `200"3/1m";r=2;t=60 200"3/1m";r=1;t=60 200"3/1m";r=0;t=60 429"3/1m";r=0;t=6060 429"3/1m";r=0;t=6060`)
}

func absoluteResetStandsStill(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Headers(httpgate.Legacy))
	s.at(0.4)
	s.want(200, "")
	for _, at := range []float64{1.3, 1.9, 30.05} {
		s.at(at)
		expect(t, fmt.Sprint("reset at ", at), s.want(429, "").Header().Get("X-RateLimit-Reset"), "1700000061")
	}
}

func firstRequestIsCharged(t *testing.T) {
	s := newSite(t, limits(slidegate.PerHour(1)), httpgate.By(func(r *http.Request) (string, error) { return httpgate.Join("route", r.URL.Path), nil }))
	for _, want := range []int{200, 429} {
		if w := s.do(request("GET", "/never-seen", "")); w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
	}
}

func costThatCanNeverFit(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(2*time.Second, 3)))
	l := slidegate.MustNew(s.store, slidegate.Per(2*time.Second, 3))
	_, err := l.TakeN(context.Background(), "ip:192.0.2.1", 4)
	var never *slidegate.CostError
	if !errors.As(err, &never) {
		t.Errorf("got %v, want a CostError", err)
	}
	var reason error
	deny := httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reason = httpgate.ErrorFromContext(r.Context())
		if errors.As(reason, &never) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}))
	cost := httpgate.Cost(func(*http.Request) int64 { return 4 })
	h := s.behind(l, cost).want(429, "").Header()
	expect(t, "Retry-After", h.Get("Retry-After"), "")
	s.behind(l, cost, deny).want(413, "")
	if !errors.As(reason, &never) {
		t.Errorf("OnDeny saw %v", reason)
	}
	if d, err := l.Peek(context.Background(), "ip:192.0.2.1"); err != nil || d.Remaining() != 3 || s.store.Len() != 0 {
		t.Errorf("remaining %d, %d keys, %v", d.Remaining(), s.store.Len(), err)
	}
}

func costOfNothing(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(3)), httpgate.Cost(func(r *http.Request) int64 {
		if r.Method == "GET" && r.URL.Path == "/models" {
			return 0
		}
		return 1
	}))
	for range 10 {
		if w := s.do(request("GET", "/models", "")); w.Code != 200 {
			t.Errorf("got %d", w.Code)
		}
	}
	for _, left := range []string{"2", "1", "0"} {
		w := s.do(request("POST", "/chat", ""))
		expect(t, "POST", fmt.Sprint(w.Code, " ", w.Header().Get("RateLimit")), fmt.Sprintf(`200 "3/1m";r=%s;t=60`, left))
	}
}

func chargedOnce(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(20)), httpgate.Headers(httpgate.Draft6))
	outer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r.WithContext(r.Context())) })
	}
	s.handler = outer(outer(s.handler))
	for _, left := range []string{"19", "18", "17"} {
		expect(t, "remaining", s.want(200, "").Header().Get("RateLimit-Remaining"), left)
	}
}

// spellingsOfOnePath puts the gate behind the router, where a request has found its handler, and
// around it with the routes as keys: no spelling of a path can find a bucket of its own.
func spellingsOfOnePath(t *testing.T) {
	for _, around := range []bool{false, true} {
		ran := 0
		mux := http.NewServeMux()
		handler, site := http.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ })), http.Handler(mux)
		if around {
			site = httpgate.PerIP(slidegate.PerMinute(3), httpgate.ByRoute(mux))(mux)
		} else {
			handler = httpgate.PerIP(slidegate.PerMinute(3))(handler)
		}
		mux.Handle("POST /lang", handler)
		post := func(target string) int {
			w := httptest.NewRecorder()
			site.ServeHTTP(w, request("POST", target, ""))
			return w.Code
		}
		for range 3 {
			if code := post("/lang"); code != 200 {
				t.Errorf("got %d", code)
			}
		}
		for _, target := range []string{"/LANG", "/lang/", "//lang", "/./lang", "/l%61ng", "/lang?x=1"} {
			if code := post(target); code == 200 {
				t.Errorf("%s got %d", target, code)
			}
		}
		expect(t, "the handler ran", fmt.Sprint(ran), "3")
	}
}

func consumerOverRoutes(t *testing.T) {
	gate := httpgate.PerIP(slidegate.PerMinute(10), httpgate.ByHeader("Consumer"))
	mux := http.NewServeMux()
	for i := range 30 {
		mux.Handle(fmt.Sprintf("/route%d", i), gate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}
	count := map[int]int{}
	for i := range 12 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, request("GET", fmt.Sprintf("/route%d", i), "", "Consumer", "c"))
		count[w.Code]++
	}
	expect(t, "statuses", fmt.Sprint(count), "map[200:10 429:2]")
}

// byMethod gates methods apart; HEAD is a GET without a body.
func byMethod(get, post slidegate.Limit) http.Handler {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("GET /", httpgate.PerIP(get, httpgate.Headers(httpgate.Draft6))(ok))
	mux.Handle("POST /", httpgate.PerIP(post, httpgate.Headers(httpgate.Draft6))(ok))
	return mux
}

func methodsApart(t *testing.T) {
	s := &site{t: t, handler: byMethod(slidegate.PerMinute(100), slidegate.PerMinute(5))}
	for range 50 {
		s.want(200, "")
	}
	w := s.do(request("POST", "/", ""))
	expect(t, "POST", fmt.Sprint(w.Code, " ", w.Header().Get("RateLimit-Remaining")), "200 4")
}

func headCountsAsGet(t *testing.T) {
	srv := httptest.NewServer(byMethod(slidegate.PerMinute(3), slidegate.PerMinute(1)))
	defer srv.Close()
	for i, c := range []struct {
		method string
		want   int
	}{{"GET", 200}, {"GET", 200}, {"HEAD", 200}, {"HEAD", 429}, {"POST", 200}} {
		r, _ := http.NewRequest(c.method, srv.URL, nil)
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want || resp.Header.Get("RateLimit-Limit") == "" || c.method == "HEAD" && len(body) != 0 {
			t.Errorf("request %d: %s got %d with %d bytes, %v", i, c.method, resp.StatusCode, len(body), resp.Header)
		}
	}
}

func plans(t *testing.T) {
	free := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2).Named("plan"))
	pro, err := free.With(slidegate.PerMinute(5).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	s := (&site{t: t}).behind(free, httpgate.ByHeader("User"), httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
		if r.Header.Get("User") == "pro" {
			return pro
		}
		return nil
	}))
	expect(t, "free", s.codes(3, "", "User", "free"), "200 200 429")
	expect(t, "pro", s.codes(6, "", "User", "pro"), "200 200 200 200 200 429")
	expect(t, "free's fields", s.get("", "User", "free").Header().Get("RateLimit-Policy"), `"plan";q=2;w=60`)
	expect(t, "pro's fields", s.get("", "User", "pro").Header().Get("RateLimit-Policy"), `"plan";q=5;w=60`)
}

func problemForJSONClients(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)))
	s.want(200, "", "Accept", "application/json")
	w := s.want(429, "", "Accept", "application/json")
	var body struct {
		Type     string
		Status   int
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Status != 429 || body.Violated[0] != "1/1m" || !strings.HasSuffix(body.Type, "#quota-exceeded") {
		t.Errorf("body %s: %v", w.Body, err)
	}
	expect(t, "fields", w.Header().Get("Content-Type")+" "+w.Header().Get("RateLimit")+" "+w.Header().Get("Retry-After"), `application/problem+json "1/1m";r=0;t=60 60`)
	if head := s.do(request("HEAD", "/", "")); head.Code != 429 || head.Body.Len() != 0 {
		t.Errorf("HEAD got %d with %d bytes", head.Code, head.Body.Len())
	}
}

func denyHandlerWithoutStatus(t *testing.T) {
	for name, deny := range map[string]http.HandlerFunc{
		"a body": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") },
		"a flush": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		},
		"nothing":        func(http.ResponseWriter, *http.Request) {},
		"an early hint":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) },
		"the old way on": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	} {
		var ran atomic.Int64
		srv := httptest.NewServer(httpgate.PerIP(slidegate.PerMinute(1), httpgate.OnDeny(deny))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) })))
		for _, want := range []int{200, 429} {
			resp, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("a handler that writes %s: got %d, want %d", name, resp.StatusCode, want)
			}
		}
		expect(t, "the protected handler ran", fmt.Sprint(ran.Load()), "1")
		srv.Close()
	}
}

func twoHooks(t *testing.T) {
	store := newFailing()
	store.down.Store(true)
	told := 0
	deny := httpgate.OnDeny(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("OnDeny for a store failure") }))
	hook := httpgate.OnStoreError(func(err error) {
		if errors.Is(err, slidegate.ErrUnavailable) {
			told++
		}
		panic("a hook of bad manners")
	})
	l := slidegate.MustNew(store, slidegate.PerMinute(1))
	s := (&site{t: t}).behind(l, deny, hook, httpgate.FailClosedWith(418, nil))
	s.want(418, "")
	s.behind(l, deny, hook).want(200, "")
	expect(t, "told, and ran", fmt.Sprint(told, s.runs.Load()), "2 1")
}

func outageInTheLog(t *testing.T) {
	var log strings.Builder
	store := newFailing()
	store.down.Store(true)
	counted := 0
	s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(1)),
		httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))), httpgate.OnStoreError(func(error) { counted++ }))
	for range 5000 {
		s.get("")
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || counted != 5000 || s.runs.Load() != 5000 {
		t.Errorf("%d lines, %d counted, %d ran", lines, counted, s.runs.Load())
	}
}

func decisionForTheHandler(t *testing.T) {
	var seen []string
	look := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := httpgate.FromContext(r.Context())
		b := d.Binding()
		seen = append(seen, fmt.Sprint(b.Limit.Quota, b.Remaining, b.ResetIn, b.Limit.Name, d.Key()))
	})
	h := httpgate.PerIP(slidegate.PerMinute(5).Named("rule"), httpgate.OnDeny(look))(look)
	for range 6 {
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "203.0.113.7:1"))
	}
	for i, want := range map[int]string{0: "5 4 1m0srule", 5: "5 0 "} {
		if !strings.HasPrefix(seen[i], want) || !strings.HasSuffix(seen[i], "ruleip:203.0.113.7") {
			t.Errorf("request %d saw %s, want %s", i, seen[i], want)
		}
	}
}

func preflights(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(2)))
	for _, want := range []int{200, 200, 429, 429} {
		if w := s.do(request("OPTIONS", "/", "", "Origin", "https://example.com", "Access-Control-Request-Method", "GET")); w.Code != 200 || w.Header().Get("RateLimit") != "" {
			t.Errorf("preflight got %d %v", w.Code, w.Header())
		}
		s.want(want, "")
	}
	for _, want := range []int{200, 200, 429} {
		if w := s.do(request("OPTIONS", "/", "203.0.113.9:1")); w.Code != want {
			t.Errorf("a plain OPTIONS got %d, want %d", w.Code, want)
		}
	}
}

func upgrades(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, rw)
	})
	var decided atomic.Int64
	srv := httptest.NewServer(httpgate.PerIP(slidegate.PerMinute(2), httpgate.Observe(func(*httpgate.Event) { decided.Add(1) }))(echo))
	defer srv.Close()
	var open io.ReadWriteCloser
	for i, want := range []int{101, 101, 429} {
		r, _ := http.NewRequest("GET", srv.URL, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		resp, err := srv.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("upgrade %d: %d, want %d", i, resp.StatusCode, want)
		}
		if i == 0 {
			open, _ = resp.Body.(io.ReadWriteCloser)
		}
	}
	if open == nil {
		t.Fatal("no upgraded connection")
	}
	lines := bufio.NewReader(open)
	for i := range 10 {
		sent := fmt.Sprintln("message", i)
		if _, err := io.WriteString(open, sent); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); got != sent || err != nil {
			t.Fatalf("message %d came back as %q, %v", i, got, err)
		}
	}
	expect(t, "decisions", fmt.Sprint(decided.Load()), "3")
}

func refusalsProlongNothing(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(10*time.Second, 2)))
	expect(t, "two", s.codes(2, ""), "200 200")
	s.at(5)
	s.want(429, "")
	s.at(10.1)
	s.want(200, "")
}

func allowedNetworks(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Exempt("192.0.2.0/24", "2001:db8:5::/48"))
	for _, peer := range []string{"192.0.2.9:1", "[::ffff:192.0.2.9]:1", "[2001:db8:5::7]:1"} {
		expect(t, peer, s.codes(5, peer), "200 200 200 200 200")
	}
	expect(t, "keys", fmt.Sprint(s.store.Len()), "0")
	expect(t, "another network", s.codes(2, "192.0.3.1:1"), "200 429")
}

func exemptPaths(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(3)), httpgate.Exempt("/healthz", "/readyz"))
	for range 100 {
		if w := s.do(request("GET", "/healthz", "")); w.Code != 200 {
			t.Errorf("a probe got %d", w.Code)
		}
	}
	expect(t, "requests", s.codes(3, ""), "200 200 200")
	for _, target := range []string{"/healthz/../x", "/healthz/", "/x"} {
		if w := s.do(request("GET", target, "")); w.Code != 429 {
			t.Errorf("%s got %d", target, w.Code)
		}
	}
}

func blockedNetworks(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.Deny("203.0.113.0/24"), httpgate.Exempt("203.0.113.7/32"))
	w := s.want(403, "203.0.113.8:1")
	expect(t, "fields", w.Header().Get("RateLimit")+w.Header().Get("Retry-After"), "")
	s.want(200, "203.0.113.7:1")
	expect(t, "keys", fmt.Sprint(s.store.Len()), "0")
}

func clockOfAnotherCentury(t *testing.T) {
	clock := gatetest.NewClock(time.Date(2096, 2, 29, 23, 59, 59, 0, time.UTC))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.PerMinute(1))
	s := (&site{t: t}).behind(l)
	s.want(200, "")
	expect(t, "Retry-After", s.want(429, "").Header().Get("Retry-After"), "60")
	clock.Advance(time.Minute)
	s.want(200, "")
}
