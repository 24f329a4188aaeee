package httpgatetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
)

// Start starts a real server that serves app on a free port of app.Host, and returns its address, as
// in 127.0.0.1:8080. It stops the server with t.Cleanup; [Listen] does both.
type Start func(t testing.TB, app *App) (address string)

// A Law is one promise that every gate over HTTP keeps.
type Law struct {
	Name  string
	Check func(t testing.TB, start Start)
}

// Run checks every law of [Laws] on the servers that start makes, each as a subtest.
func Run(t *testing.T, start Start) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) { law.Check(t, start) })
	}
}

// Laws returns what Run checks.
func Laws() []Law {
	return []Law{
		{"AdmittedRequestsRunTheHandlerOnce", AdmittedRequestsRunTheHandlerOnce},
		{"RefusedRequestsRunNothing", RefusedRequestsRunNothing},
		{"RefusalsAreWhatTheClientAccepts", RefusalsAreWhatTheClientAccepts},
		{"RefusedBodiesAreNoRequests", RefusedBodiesAreNoRequests},
		{"DenyWithIsSentAsItIs", DenyWithIsSentAsItIs},
		{"OnDenyAnswersRefusals", OnDenyAnswersRefusals},
		{"FailingStoresLetPass", FailingStoresLetPass},
		{"FailingStoresRefuseWhereAsked", FailingStoresRefuseWhereAsked},
		{"EveryFormatIsTheSame", EveryFormatIsTheSame},
		{"SeveralLimitsAreOneDecision", SeveralLimitsAreOneDecision},
		{"CostsAreCharged", CostsAreCharged},
		{"SkippedRequestsAreUntouched", SkippedRequestsAreUntouched},
		{"ListsDecideBeforeTheStore", ListsDecideBeforeTheStore},
		{"PreflightsAreFree", PreflightsAreFree},
		{"PlansAreChosenPerRequest", PlansAreChosenPerRequest},
		{"AddressesHaveQuotasOfTheirOwn", AddressesHaveQuotasOfTheirOwn},
		{"IPv6AddressesCountByNetwork", IPv6AddressesCountByNetwork},
		{"OnlyTrustedProxiesAreBelieved", OnlyTrustedProxiesAreBelieved},
		{"HeadersAndCookiesAreKeys", HeadersAndCookiesAreKeys},
		{"NestedGatesSpeakTogether", NestedGatesSpeakTogether},
		{"RoutesAndGroupsHaveGatesOfTheirOwn", RoutesAndGroupsHaveGatesOfTheirOwn},
		{"StreamsArriveAsTheyAreWritten", StreamsArriveAsTheyAreWritten},
		{"PanicsAreChargedAndHarmNobody", PanicsAreChargedAndHarmNobody},
		{"RefundsFollowTheAnswer", RefundsFollowTheAnswer},
		{"BansOutlastTheirReason", BansOutlastTheirReason},
		{"ShadowsSayNothing", ShadowsSayNothing},
		{"SeveralKeysAreOneDecision", SeveralKeysAreOneDecision},
		{"ConcurrentRequestsGetExactlyTheQuota", ConcurrentRequestsGetExactlyTheQuota},
		{"KeysOutliveTheirRequests", KeysOutliveTheirRequests},
		{"HandlersSeeTheDecision", HandlersSeeTheDecision},
		{"FunctionsSeeTheRequest", FunctionsSeeTheRequest},
		{"HandlersGetTheBody", HandlersGetTheBody},
	}
}

// all is an app with one gate before every route.
func all(limit slidegate.Limit, options ...httpgate.Option) func(slidegate.Store) *App {
	return func(store slidegate.Store) *App {
		return &App{All: []Gate{{slidegate.MustNew(store, limit), options}}}
	}
}

// three is small enough to be used up.
var three = slidegate.PerMinute(3)

// AdmittedRequestsRunTheHandlerOnce, whatever their method, and carry the fields.
func AdmittedRequestsRunTheHandlerOnce(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	r := p.admitted(get("/hello"))
	p.has(r, "RateLimit", `"3/1m";r=2;t=60`)
	p.has(r, "RateLimit-Policy", `"3/1m";q=3;w=60`)
	p.has(r, "Retry-After")
	if r.body != "hello" || r.runs != 1 {
		t.Errorf("the body is %q after %d runs of the handler", r.body, r.runs)
	}
	p.clock.Advance(20 * time.Second)
	if r = p.admitted(get("/hello").by("HEAD")); r.body != "" {
		t.Errorf("the body of a HEAD is %q", r.body)
	}
	p.has(r, "RateLimit", `"3/1m";r=1;t=60`)
	if r = p.admitted(get("/hello").by("POST").with("a body")); r.runs != 3 {
		t.Errorf("%d runs of the handler after 3 requests", r.runs)
	}
	p.has(r, "RateLimit", `"3/1m";r=0;t=60`)
}

// RefusedRequestsRunNothing that stands behind the gate, and are told the truth about when to come back.
func RefusedRequestsRunNothing(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for range 3 {
		p.admitted(get("/hello"))
	}
	p.clock.Advance(17*time.Second + 1*time.Millisecond)
	r := p.refused(get("/hello"))
	p.has(r, "Retry-After", "43")
	p.has(r, "RateLimit", `"3/1m";r=0;t=43`)
	p.has(r, "Cache-Control", "no-store")
	p.has(r, "Content-Type", "application/problem+json")
	if r.runs != 3 {
		t.Errorf("the handler ran %d times for 3 admitted requests", r.runs)
	}
	p.clock.Advance(43*time.Second - 2*time.Millisecond)
	p.refused(get("/hello"))
	p.clock.Advance(time.Millisecond)
	p.admitted(get("/hello"))
}

// RefusalsAreWhatTheClientAccepts: a problem, a line of text, or nothing at all for HEAD.
func RefusalsAreWhatTheClientAccepts(t testing.TB, start Start) {
	p := serve(t, start, all(slidegate.PerMinute(1).Named("minutely")))
	p.admitted(get("/hello"))
	for _, c := range []struct {
		fields      []string
		contentType string
		body        string
	}{
		{nil, "application/problem+json", `"violated-policies":["minutely"]`},
		{[]string{"Accept: application/json"}, "application/problem+json", `"status":429`},
		{[]string{"Accept: text/html", "Accept: */*;q=0.1"}, "application/problem+json", `"type":`},
		{[]string{"Accept: text/plain"}, Text, "quota has been exceeded\n"},
		{[]string{"Accept: text/html, application/json;q=0"}, Text, "quota has been exceeded\n"},
	} {
		r := p.refused(get("/hello", c.fields...))
		p.has(r, "Content-Type", c.contentType)
		p.has(r, "X-Content-Type-Options", "nosniff")
		p.has(r, "Content-Length", strconv.Itoa(len(r.body)))
		if !strings.Contains(r.body, c.body) {
			t.Errorf("%q: the body is %q, want %s in it", c.fields, r.body, c.body)
		}
		head := p.refused(get("/hello", c.fields...).by("HEAD"))
		if p.has(head, "Content-Length", strconv.Itoa(len(r.body))); head.body != "" {
			t.Errorf("%q: the body of a HEAD is %q", c.fields, head.body)
		}
	}
}

// RefusedBodiesAreNoRequests: what nobody has read of a body is not taken for the next request.
func RefusedBodiesAreNoRequests(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for range 3 {
		p.admitted(get("/echo").by("POST").with("short"))
	}
	for range 3 {
		p.compare(http.StatusTooManyRequests, get("/echo").by("POST").with(strings.Repeat("GET /hello HTTP/1.1\r\n", 5000)), (*side).insist)
	}
	p.clock.Advance(time.Minute)
	r := p.compare(http.StatusOK, get("/hello"), (*side).insist)
	p.has(r, "RateLimit", `"3/1m";r=2;t=60`)
}

// DenyWithIsSentAsItIs, with the status of its own.
func DenyWithIsSentAsItIs(t testing.TB, start Start) {
	for _, c := range []struct {
		status            int
		body              any
		contentType, want string
	}{
		{503, "come back later\n", Text, "come back later\n"},
		{420, map[string]any{"success": false}, "application/json", `{"success":false}`},
		{403, "", Text, ""},
	} {
		p := serve(t, start, all(three, httpgate.DenyWith(c.status, c.body)))
		for range 3 {
			p.admitted(get("/hello"))
		}
		r := p.want(c.status, get("/hello"))
		p.has(r, "Content-Type", c.contentType)
		p.has(r, "Retry-After", "60")
		if r.body != c.want {
			t.Errorf("the body is %q, want %q", r.body, c.want)
		}
		p.want(c.status, get("/hello").by("HEAD"))
	}
}

// OnDenyAnswersRefusals: with whatever it writes, knowing the decision; without a status it is 429.
func OnDenyAnswersRefusals(t testing.TB, start Start) {
	decided := func(r *http.Request) string {
		d, _ := httpgate.FromContext(r.Context())
		return d.String()
	}
	for _, c := range []struct {
		name              string
		status            int
		handler           http.HandlerFunc
		contentType, body string
	}{
		{"nothing", 429, func(http.ResponseWriter, *http.Request) {}, "", ""},
		{"text without a type", 429, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, decided(r)) }, Text, "refused by 3/1m, 0 left, retry in 1m0s"},
		{"a page without a type", 429, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><p>no</p>") }, "text/html; charset=utf-8", "<!DOCTYPE html><p>no</p>"},
		{"in parts", 429, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-parts")
			for range 3 {
				io.WriteString(w, "part ")
			}
		}, "application/x-parts", "part part part "},
		{"elsewhere", 303, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/sorry", http.StatusSeeOther) }, "text/html; charset=utf-8", "<a href=\"/sorry\">See Other</a>.\n\n"},
		{"fields of its own", 402, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Del("RateLimit-Policy")
			w.Header().Add("Link", "</plans>;rel=payment")
			w.Header().Add("Link", "</help>;rel=help")
			w.Header().Add("Set-Cookie", "tried=1; Path=/")
			w.Header().Add("Set-Cookie", "again=2; Path=/")
			w.Header().Set("Content-Type", Text)
			w.WriteHeader(402)
			io.WriteString(w, "pay")
		}, Text, "pay"},
	} {
		p := serve(t, start, all(three, httpgate.OnDeny(c.handler)))
		for range 3 {
			p.admitted(get("/hello"))
		}
		r := p.want(c.status, get("/hello"))
		if p.has(r, "Retry-After", "60"); r.body != c.body || r.runs != 3 {
			t.Errorf("%s: the body is %q after %d runs of a handler, want %q after 3", c.name, r.body, r.runs, c.body)
		}
		if got := r.header.Get("Content-Type"); got != c.contentType {
			t.Errorf("%s: Content-Type %q, want %q", c.name, got, c.contentType)
		}
	}
}

// FailingStoresLetPass, without fields and without a decision, and whoever listens is told.
func FailingStoresLetPass(t testing.TB, start Start) {
	var told atomic.Int64
	p := serve(t, start, func(slidegate.Store) *App {
		broken := slidegate.MustNew(gatetest.Failing(nil), three)
		return &App{All: []Gate{{broken, []httpgate.Option{httpgate.OnStoreError(func(error) { told.Add(1) })}}}}
	})
	for range 5 {
		r := p.admitted(get("/decision"))
		p.has(r, "RateLimit")
		if p.has(r, "RateLimit-Policy"); r.body != "no decision" {
			t.Errorf("the handler knows of %q", r.body)
		}
	}
	if told.Load() != 10 {
		t.Errorf("told of %d failures, want 5 by each server", told.Load())
	}
}

// FailingStoresRefuseWhereAsked: with a 503 or whatever was asked for, and never with Retry-After.
func FailingStoresRefuseWhereAsked(t testing.TB, start Start) {
	because := errors.New("no route to host")
	for _, c := range []struct {
		status int
		body   string
		option httpgate.Option
	}{
		{503, `{"type":"about:blank","title":"Service Unavailable","status":503}`, httpgate.FailClosed()},
		{500, "out of order", httpgate.FailClosedWith(500, "out of order")},
		{502, "true", httpgate.FailWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(502)
			fmt.Fprint(w, errors.Is(httpgate.ErrorFromContext(r.Context()), because))
		}))},
	} {
		p := serve(t, start, func(slidegate.Store) *App {
			return &App{All: []Gate{{slidegate.MustNew(gatetest.Failing(because), three), []httpgate.Option{c.option}}}}
		})
		r := p.want(c.status, get("/hello"))
		p.has(r, "RateLimit")
		p.has(r, "Retry-After")
		if strings.TrimSpace(r.body) != c.body || r.runs != 0 {
			t.Errorf("the body is %q after %d runs of the handler, want %q after none", r.body, r.runs, c.body)
		}
	}
}

// EveryFormatIsTheSame, alone, all together, and none, for admitted and refused requests.
func EveryFormatIsTheSame(t testing.TB, start Start) {
	every := []httpgate.Format{httpgate.Draft8, httpgate.Draft7, httpgate.Draft6, httpgate.Legacy, httpgate.LegacyDelta}
	for _, c := range []struct {
		options []httpgate.Option
		name    string
		value   string // after one request
	}{
		{[]httpgate.Option{httpgate.Headers(httpgate.Draft8)}, "RateLimit", `"3/1m";r=2;t=60`},
		{[]httpgate.Option{httpgate.Headers(httpgate.Draft7)}, "RateLimit", "limit=3, remaining=2, reset=60"},
		{[]httpgate.Option{httpgate.Headers(httpgate.Draft6)}, "RateLimit-Reset", "60"},
		{[]httpgate.Option{httpgate.Headers(httpgate.Legacy)}, "X-RateLimit-Reset", strconv.FormatInt(epoch.Add(time.Minute).Unix()+1, 10)},
		{[]httpgate.Option{httpgate.Headers(httpgate.LegacyDelta)}, "X-RateLimit-Reset", "60"},
		{[]httpgate.Option{httpgate.Headers(every...)}, "RateLimit-Remaining", "2"},
		{[]httpgate.Option{httpgate.Headers()}, "RateLimit", ""},
		{[]httpgate.Option{httpgate.Headers(), httpgate.RetryAfter()}, "X-RateLimit-Limit", ""},
	} {
		p := serve(t, start, all(three, c.options...))
		if got := p.admitted(get("/hello")).header.Get(c.name); got != c.value {
			t.Errorf("%s is %q, want %q", c.name, got, c.value)
		}
		p.clock.Advance(time.Second)
		p.admitted(get("/hello"))
		p.admitted(get("/hello"))
		p.refused(get("/hello"))
		p.refused(get("/hello").by("HEAD"))
	}
}

// SeveralLimitsAreOneDecision: each speaks for itself, and the refusal names the one that refused.
func SeveralLimitsAreOneDecision(t testing.TB, start Start) {
	p := serve(t, start, func(store slidegate.Store) *App {
		limiter := slidegate.MustNew(store, slidegate.PerSecond(2).Named("burst"), slidegate.PerMinute(3).Named("sustained"), slidegate.PerDay(1000).Named("daily").Counter())
		return &App{All: []Gate{{limiter, []httpgate.Option{httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.LegacyDelta)}}}}
	})
	p.admitted(get("/hello"))
	p.admitted(get("/hello"))
	r := p.refused(get("/hello"))
	if p.has(r, "Retry-After", "1"); !strings.Contains(r.body, `["burst"]`) {
		t.Errorf("the body is %s, want burst in it", r.body)
	}
	p.clock.Advance(time.Second)
	p.admitted(get("/hello"))
	p.clock.Advance(time.Second)
	r = p.refused(get("/hello"))
	p.has(r, "RateLimit", `"burst";r=2;t=0, "sustained";r=0;t=58, "daily";r=997;t=`+after(r.header.Get("RateLimit"), `"daily";r=997;t=`))
	if p.has(r, "RateLimit-Reset", "58"); !strings.Contains(r.body, `["sustained"]`) {
		t.Errorf("the body is %s, want sustained in it", r.body)
	}
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

// CostsAreCharged: many units, none, more than can ever be had, and less than none.
func CostsAreCharged(t testing.TB, start Start) {
	p := serve(t, start, all(slidegate.PerMinute(10), httpgate.Cost(func(r *http.Request) int64 {
		n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
		if err != nil {
			return r.ContentLength
		}
		return n
	})))
	p.has(p.admitted(get("/hello", "Cost: 4")), "RateLimit", `"10/1m";r=6;t=60`)
	p.has(p.admitted(get("/hello", "Cost: 0")), "RateLimit", `"10/1m";r=6;t=60`)
	p.has(p.admitted(get("/hello").by("POST").with("12345")), "RateLimit", `"10/1m";r=1;t=60`)
	p.has(p.refused(get("/hello", "Cost: 2")), "Retry-After", "60")
	for _, never := range []string{"11", "-1"} {
		r := p.refused(get("/hello", "Cost: "+never))
		p.has(r, "Retry-After")
	}
	p.admitted(get("/hello", "Cost: 1"))
	p.admitted(get("/hello", "Cost: 0"))
}

// SkippedRequestsAreUntouched: no field, no decision, no charge.
func SkippedRequestsAreUntouched(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.Skip(func(r *http.Request) bool { return r.URL.Path == "/decision" || r.URL.Query().Has("free") })))
	for range 5 {
		r := p.admitted(get("/decision"))
		p.has(r, "RateLimit")
		if p.has(r, "RateLimit-Policy"); r.body != "no decision" {
			t.Errorf("the handler knows of %q", r.body)
		}
	}
	p.admitted(get("/hello?free"))
	p.has(p.admitted(get("/hello")), "RateLimit", `"3/1m";r=2;t=60`)
}

// ListsDecideBeforeTheStore: who is denied, by every spelling of a path, and who is not counted.
func ListsDecideBeforeTheStore(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.Exempt("GET /hello from 127.0.0.1"), httpgate.Deny("/alone", "203.0.113.0/24"), httpgate.TrustProxies("127.0.0.1")))
	for range 4 {
		p.has(p.admitted(get("/hello")), "RateLimit")
	}
	p.has(p.admitted(get("/hello", "X-Forwarded-For: 198.51.100.1")), "RateLimit", `"3/1m";r=2;t=60`)
	for _, target := range []string{"/alone", "/Alone/", "/./alone", "/%61lone", "/hello/../alone", "//alone"} {
		p.has(p.want(http.StatusForbidden, get(target)), "Content-Type", "application/problem+json")
	}
	p.want(http.StatusForbidden, get("/hello", "X-Forwarded-For: 203.0.113.7", "Accept: text/plain"))
	p.counted(three, "ip:127.0.0.1", 0)
	p.counted(three, "ip:203.0.113.7", 0)
}

// PreflightsAreFree: what a browser asks before a request is not the request. What they are answered with is
// the affair of whatever answers them.
func PreflightsAreFree(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for range 5 {
		for _, s := range p.sides {
			if r, err := s.exchange(get("/hello", "Origin: http://example.net", "Access-Control-Request-Method: POST").by("OPTIONS")); err != nil || r.status == http.StatusTooManyRequests {
				t.Fatalf("%s: %v, %v", s.name, r, err)
			}
		}
	}
	p.has(p.admitted(get("/hello", "Origin: http://example.net")), "RateLimit", `"3/1m";r=2;t=60`)
}

// PlansAreChosenPerRequest, unlimited and blocked ones among them.
func PlansAreChosenPerRequest(t testing.TB, start Start) {
	p := serve(t, start, func(store slidegate.Store) *App {
		free := slidegate.MustNew(store, slidegate.PerMinute(1).Named("plan"))
		plans := map[string]*slidegate.Limiter{
			"pro":   slidegate.MustNew(store, slidegate.PerMinute(3).Named("plan")),
			"staff": slidegate.Unlimited(), "gone": slidegate.Blocked(),
		}
		return &App{All: []Gate{{free, []httpgate.Option{httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return plans[r.Header.Get("Plan")] })}}}}
	})
	p.has(p.admitted(get("/hello")), "RateLimit", `"plan";r=0;t=60`)
	p.refused(get("/hello"))
	p.has(p.admitted(get("/hello", "Plan: pro")), "RateLimit", `"plan";r=1;t=60`)
	p.has(p.admitted(get("/decision", "Plan: staff")), "RateLimit")
	p.has(p.refused(get("/hello", "Plan: gone")), "Retry-After")
	p.refused(get("/hello", "Plan: none such"))
}

// AddressesHaveQuotasOfTheirOwn: it is who connects that counts, whatever the request says.
func AddressesHaveQuotasOfTheirOwn(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for i := range 3 {
		p.admitted(get("/hello", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i), fmt.Sprintf("X-Real-IP: 203.0.113.%d", i), fmt.Sprintf("Forwarded: for=203.0.113.%d", i)))
	}
	p.refused(get("/hello", "X-Forwarded-For: 203.0.113.9"))
	p.counted(three, "ip:127.0.0.1", 3)
	if !hasAddress("127.0.0.2") {
		return // only where the loopback network is more than one address
	}
	p.has(p.admitted(get("/hello").through("127.0.0.2")), "RateLimit", `"3/1m";r=2;t=60`)
	p.counted(three, "ip:127.0.0.2", 1)
	p.refused(get("/hello"))
}

// hasAddress tells whether the machine can listen on an address, and so connect from it.
func hasAddress(host string) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// IPv6AddressesCountByNetwork, where the machine has IPv6.
func IPv6AddressesCountByNetwork(t testing.TB, start Start) {
	if !hasAddress("::1") {
		return
	}
	p := serveOn(t, start, "::1", all(three))
	for range 3 {
		p.admitted(get("/hello"))
	}
	p.refused(get("/hello"))
	p.counted(three, "ip:::/56", 3)
}

// OnlyTrustedProxiesAreBelieved, and only as far as they can know.
func OnlyTrustedProxiesAreBelieved(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.TrustProxies("127.0.0.1", "10.0.0.0/8")))
	for _, c := range []struct {
		key    string
		fields []string
	}{
		{"ip:203.0.113.1", []string{"X-Forwarded-For: 203.0.113.1"}},
		{"ip:203.0.113.2", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.2, 10.1.2.3"}},
		{"ip:203.0.113.3", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.3"}},
		{"ip:203.0.113.4", []string{"X-Real-IP: 198.51.100.1", "X-Forwarded-For: 203.0.113.4:4711"}},
		{"ip:2001:db8::/56", []string{"X-Forwarded-For: [2001:db8::17]:4711"}},
		{"ip:127.0.0.1", []string{"X-Forwarded-For: unknown"}},
	} {
		p.has(p.admitted(get("/hello", c.fields...)), "RateLimit", `"3/1m";r=2;t=60`)
		p.counted(three, c.key, 1)
	}
	if !hasAddress("127.0.0.2") {
		return
	}
	p.admitted(get("/hello", "X-Forwarded-For: 203.0.113.9").through("127.0.0.2"))
	p.counted(three, "ip:127.0.0.2", 1)
	p.counted(three, "ip:203.0.113.9", 0)
}

// HeadersAndCookiesAreKeys, and requests without them count under their address.
func HeadersAndCookiesAreKeys(t testing.TB, start Start) {
	for _, c := range []struct {
		option httpgate.Option
		field  string
		key    string
	}{
		{httpgate.ByHeader("X-API-Key"), "x-api-key: secret", "header:X-Api-Key:secret"},
		{httpgate.ByHeader("Authorization"), "Authorization: Bearer abc", "header:Authorization:Bearer abc"},
		{httpgate.ByCookie("session"), "Cookie: theme=dark; session=abc; other=1", "cookie:session:abc"},
		{httpgate.By(func(r *http.Request) (string, error) {
			if r.Header.Get("User") == "" {
				return "", errors.New("nobody")
			}
			return "user:" + r.Header.Get("User"), nil
		}), "User: 42", "user:42"},
	} {
		p := serve(t, start, all(three, c.option))
		for range 3 {
			p.admitted(get("/hello", c.field))
		}
		p.refused(get("/hello", c.field))
		p.counted(three, c.key, 3)
		p.has(p.admitted(get("/hello")), "RateLimit", `"3/1m";r=2;t=60`)
		p.counted(three, "ip:127.0.0.1", 1)
	}
}

// NestedGatesSpeakTogether: lists grow, single values are those of the tighter one, and a refusal by
// the inner one tells how the outer one stands.
func NestedGatesSpeakTogether(t testing.TB, start Start) {
	tight, loose := slidegate.PerMinute(2).Named("tight"), slidegate.PerHour(3).Named("loose")
	formats := httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.LegacyDelta)
	for _, order := range [][]slidegate.Limit{{tight, loose}, {loose, tight}} {
		p := serve(t, start, func(store slidegate.Store) *App {
			app := new(App)
			for _, limit := range order {
				app.All = append(app.All, Gate{slidegate.MustNew(store, limit), []httpgate.Option{formats}})
			}
			return app
		})
		r := p.admitted(get("/decision"))
		p.has(r, "RateLimit-Remaining", "1")
		if n := len(r.header.Values("RateLimit")); n != 2 || !strings.Contains(r.body, order[1].Name) {
			t.Errorf("%d lines of RateLimit, and the handler knows of %q", n, r.body)
		}
		p.admitted(get("/hello"))
		p.refused(get("/hello"))
		p.refused(get("/hello"))
		p.clock.Advance(time.Minute)
		status := http.StatusTooManyRequests
		if order[0].Name == "tight" {
			status = http.StatusOK // the inner one was never asked for what the outer one refused
		}
		p.want(status, get("/hello"))
	}
}

// RoutesAndGroupsHaveGatesOfTheirOwn, inside that of the whole app.
func RoutesAndGroupsHaveGatesOfTheirOwn(t testing.TB, start Start) {
	app, group, alone := slidegate.PerMinute(9).Named("app"), slidegate.PerMinute(2).Named("group"), slidegate.PerMinute(1).Named("alone")
	p := serve(t, start, func(store slidegate.Store) *App {
		one := func(limit slidegate.Limit) []Gate { return []Gate{{Limiter: slidegate.MustNew(store, limit)}} }
		return &App{All: one(app), Group: one(group), Alone: one(alone)}
	})
	p.has(p.admitted(get("/hello")), "RateLimit", `"app";r=8;t=60`)
	p.has(p.admitted(get("/group/a")), "RateLimit", `"app";r=7;t=60`, `"group";r=1;t=60`)
	p.has(p.admitted(get("/group/b")), "RateLimit", `"app";r=6;t=60`, `"group";r=0;t=60`)
	p.refused(get("/group/a"))
	p.has(p.admitted(get("/alone")), "RateLimit", `"app";r=4;t=60`, `"alone";r=0;t=60`)
	p.refused(get("/alone"))
	r := p.admitted(get("/hello"))
	if p.has(r, "RateLimit", `"app";r=2;t=60`); r.runs != 5 {
		t.Errorf("handlers ran %d times, want 5", r.runs)
	}
}

// StreamsArriveAsTheyAreWritten: a gate keeps nothing back.
func StreamsArriveAsTheyAreWritten(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for range 2 {
		r := p.compare(http.StatusOK, get("/stream"), func(s *side, r request) (*response, error) {
			head, err := s.send(r)
			if err != nil {
				return nil, err
			}
			return s.receive(r.from, head, func(body io.Reader) string {
				first := make([]byte, len(firstChunk))
				begin := time.Now()
				if _, err := io.ReadFull(body, first); err != nil || time.Since(begin) >= patience {
					t.Errorf("%s: the first part came after %s: %v", s.name, time.Since(begin), err)
				}
				s.app.resume <- struct{}{}
				return string(first)
			})
		})
		if r.body != firstChunk+secondChunk {
			t.Errorf("the body is %q", r.body)
		}
	}
	p.has(p.admitted(get("/hello")), "RateLimit", `"3/1m";r=0;t=60`)
	p.refused(get("/stream"))
}

// PanicsAreChargedAndHarmNobody: a handler that panics has had its request.
func PanicsAreChargedAndHarmNobody(t testing.TB, start Start) {
	p := serve(t, start, all(three))
	for range 2 {
		for _, s := range p.sides {
			if r, err := s.exchange(get("/panic")); err == nil && r.status < 500 {
				t.Errorf("%s answers a panic with %d", s.name, r.status)
			}
			s.hangUp()
		}
	}
	r := p.admitted(get("/hello"))
	if p.has(r, "RateLimit", `"3/1m";r=0;t=60`); r.runs != 3 {
		t.Errorf("handlers ran %d times, want 3", r.runs)
	}
	p.refused(get("/panic"))
}

// RefundsFollowTheAnswer: the gate knows the status of it, by whatever it was given, and of a panic.
func RefundsFollowTheAnswer(t testing.TB, start Start) {
	seen := map[*App]*notes{}
	p := serve(t, start, func(store slidegate.Store) *App {
		app, list := new(App), new(notes)
		seen[app] = list
		app.All = []Gate{{slidegate.MustNew(store, three), []httpgate.Option{httpgate.RefundIf(func(status int) bool {
			list.add(strconv.Itoa(status))
			return status < 400
		})}}}
		return app
	})
	for range 4 {
		p.has(p.admitted(get("/hello")), "RateLimit", `"3/1m";r=2;t=60`)
	}
	p.admitted(get("/hello").by("HEAD"))
	for _, target := range []string{"/panic", "/nowhere"} {
		for _, s := range p.sides {
			_, _ = s.exchange(get(target)) // what it is answered with is the framework's affair
			s.hangUp()
		}
	}
	p.counted(three, "ip:127.0.0.1", 2)
	for _, s := range p.sides {
		if got, want := fmt.Sprint(seen[s.app].all()), "[200 200 200 200 200 500 404]"; got != want {
			t.Errorf("%s: the gate saw %s, want %s", s.name, got, want)
		}
	}
	p.has(p.admitted(get("/hello")), "RateLimit", `"3/1m";r=0;t=60`)
}

// ShadowsSayNothing: they decide, and nobody notices.
func ShadowsSayNothing(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.Shadow()))
	for range 5 {
		r := p.admitted(get("/hello"))
		p.has(r, "RateLimit")
		p.has(r, "RateLimit-Policy")
	}
	p.counted(three, "ip:127.0.0.1", 3)
	if r := p.admitted(get("/decision")); !strings.HasPrefix(r.body, "refused") {
		t.Errorf("the handler knows of %q", r.body)
	}
}

// BansOutlastTheirReason, and are answered as bans.
func BansOutlastTheirReason(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.Ban(slidegate.PerMinute(2), time.Hour)))
	for range 3 {
		p.admitted(get("/hello"))
	}
	p.refused(get("/hello"))
	p.refused(get("/hello"))
	p.clock.Advance(time.Minute)
	r := p.refused(get("/hello"))
	p.has(r, "RateLimit")
	if p.has(r, "Retry-After", "3540"); !strings.Contains(r.body, "abnormal-usage-detected") {
		t.Errorf("the body is %s", r.body)
	}
	p.clock.Advance(59 * time.Minute)
	p.admitted(get("/hello"))
}

// SeveralKeysAreOneDecision: all are charged or none, and each limit speaks.
func SeveralKeysAreOneDecision(t testing.TB, start Start) {
	together := slidegate.PerHour(4).Named("together")
	p := serve(t, start, func(store slidegate.Store) *App {
		everybody := httpgate.And(slidegate.MustNew(store, together), httpgate.ByEverybody())
		return &App{All: []Gate{{slidegate.MustNew(store, three), []httpgate.Option{httpgate.ByHeader("K"), everybody}}}}
	})
	for range 3 {
		p.admitted(get("/hello", "K: Ann"))
	}
	p.has(p.refused(get("/hello", "K: Ann")), "RateLimit", `"3/1m";r=0;t=60, "together";r=1;t=3600`)
	p.admitted(get("/hello", "K: Ben"))
	p.has(p.refused(get("/hello", "K: Cem")), "RateLimit", `"3/1m";r=3;t=0, "together";r=0;t=3600`)
	p.counted(three, "header:K:Cem", 0)
	p.counted(together, "everybody", 4)
}

// ConcurrentRequestsGetExactlyTheQuota, on one key from many connections.
func ConcurrentRequestsGetExactlyTheQuota(t testing.TB, start Start) {
	const clients, each, quota = 8, 20, 50
	limit := slidegate.PerMinute(quota)
	p := serve(t, start, all(limit, httpgate.ByHeader("K")))
	for _, s := range p.sides {
		var got [2]atomic.Int64 // refused, admitted
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				own := &side{name: s.name, address: s.address, app: s.app, conns: map[string]*conn{}}
				defer own.hangUp()
				for range each {
					r, err := own.exchange(get("/hello", "K: one"))
					switch {
					case err != nil:
						t.Errorf("%s: %v", s.name, err)
						return
					case r.status == http.StatusOK:
						got[1].Add(1)
					case r.status == http.StatusTooManyRequests:
						got[0].Add(1)
					}
				}
			})
		}
		group.Wait()
		if got[1].Load() != quota || got[0].Load() != clients*each-quota || s.app.runs.Load() != quota {
			t.Errorf("%s: %d admitted, %d refused, %d runs of the handler; the quota is %d of %d requests", s.name, got[1].Load(), got[0].Load(), s.app.runs.Load(), quota, clients*each)
		}
	}
	p.counted(limit, "header:K:one", quota)
}

// KeysOutliveTheirRequests: a store keeps keys, so none may be part of a buffer that the server uses
// again. Each key here is a piece of the request as the gate's functions see it, copied by nobody.
func KeysOutliveTheirRequests(t testing.TB, start Start) {
	const keys = 60
	limit := slidegate.PerMinute(9)
	for _, c := range []struct {
		name string
		of   func(*http.Request) string
		send func(key string) request
	}{
		{"a header", func(r *http.Request) string { return r.Header.Get("K") }, func(key string) request { return get("/hello", "K: "+key) }},
		{"a header's name", func(r *http.Request) string {
			for name := range r.Header {
				if strings.HasPrefix(name, "Key") {
					return name
				}
			}
			return ""
		}, func(key string) request { return get("/hello", key+": yes") }},
		{"the query", func(r *http.Request) string { return r.URL.RawQuery }, func(key string) request { return get("/hello?" + key) }},
		{"the target", func(r *http.Request) string { return r.RequestURI }, func(key string) request { return get(key) }},
		{"the path", func(r *http.Request) string { return r.URL.Path }, func(key string) request { return get(key) }},
		{"the host", func(r *http.Request) string { return r.Host }, func(key string) request { return get("/hello", "Host: "+key) }},
		{"a cookie", func(r *http.Request) string {
			cookie, err := r.Cookie("k")
			if err != nil {
				return ""
			}
			return cookie.Value
		}, func(key string) request { return get("/hello", "Cookie: k="+key) }},
	} {
		p := serve(t, start, all(limit, httpgate.By(func(r *http.Request) (string, error) { return c.of(r), nil })))
		name := func(i int) string {
			if c.name == "the path" || c.name == "the target" {
				return fmt.Sprintf("/key%03d", i)
			}
			return fmt.Sprintf("Key%03d", i)
		}
		for round := range 3 {
			for i := range keys {
				if i%3 >= round {
					for _, s := range p.sides {
						if _, err := s.exchange(c.send(name(i))); err != nil {
							t.Fatalf("%s: %s: %v", s.name, c.name, err)
						}
					}
				}
			}
		}
		for i := range keys {
			p.counted(limit, name(i), int64(i%3+1))
		}
	}
}

// HandlersSeeTheDecision on their request, and it is theirs to keep.
func HandlersSeeTheDecision(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.ByHeader("K")))
	for i, want := range []string{
		`admitted, 2 of 3/1m left, full in 1m0s, key "header:K:Ann", cost 1`,
		`admitted, 1 of 3/1m left, full in 1m0s, key "header:K:Ann", cost 1`,
	} {
		if r := p.admitted(get("/decision", "K: Ann")); r.body != want {
			t.Errorf("request %d: the handler knows of %q, want %q", i, r.body, want)
		}
	}
}

// FunctionsSeeTheRequest as net/http shows it: keys, costs and plans are the same everywhere.
func FunctionsSeeTheRequest(t testing.TB, start Start) {
	seen := map[*App]*notes{}
	p := serve(t, start, func(store slidegate.Store) *App {
		app, list := new(App), new(notes)
		seen[app] = list
		app.All = []Gate{{slidegate.MustNew(store, three), []httpgate.Option{httpgate.Skip(func(r *http.Request) bool {
			cookie, _ := r.Cookie("session")
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			list.add(fmt.Sprintf("%s %s %s %d.%d, URI %q, URL %q, path %q, raw path %q, query %q, host %q, length %d, %v, header %q, cookie %v, from %s (%v), tls %v, body %v",
				r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.RequestURI, r.URL, r.URL.Path, r.URL.RawPath, r.URL.Query(), r.Host, r.ContentLength, r.TransferEncoding, r.Header, cookie, host, err, r.TLS != nil, r.Body != nil))
			return true
		})}}}
		return app
	})
	for _, r := range []request{
		get("/hello", "Accept: a/b, c/d", "Accept: e/f", "x-lower: 1", "Cookie: session=abc; b=c", "User-Agent: me", "Referer: http://example.net/"),
		get("/hello?a=1&b=%20x&a=2", "Host: shop.example:8080", "Content-Type: text/csv"),
		get("/hello").by("POST").with("a body"),
		get("/no%20where/%2f/../x//y?"), // what it is answered with is the router's affair
	} {
		for _, s := range p.sides {
			if _, err := s.exchange(r); err != nil {
				t.Fatalf("%s: %s: %v", s.name, r.target, err)
			}
		}
	}
	reference, judged := seen[p.sides[0].app].all(), seen[p.sides[1].app].all()
	if len(reference) != 4 || len(judged) != 4 {
		t.Fatalf("asked %d and %d times, want 4", len(reference), len(judged))
	}
	for i := range reference {
		if reference[i] != judged[i] {
			t.Errorf("net/http shows\n%s\nthe gate shows\n%s", reference[i], judged[i])
		}
	}
}

// HandlersGetTheBody of a request as the client sent it: a gate reads none of it.
func HandlersGetTheBody(t testing.TB, start Start) {
	p := serve(t, start, all(three, httpgate.Cost(func(r *http.Request) int64 { return min(1, r.ContentLength) })))
	for _, body := range []string{"x", strings.Repeat("large ", 10_000)} {
		if r, want := p.admitted(get("/echo").by("POST").with(body)), fmt.Sprintf("%d bytes: %.16q", len(body), body); r.body != want {
			t.Errorf("the handler got %s, want %s", r.body, want)
		}
	}
}
