package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// ofAllKinds are rules with all that a verdict can hang on.
var ofAllKinds = []string{
	"exempt: [GET /healthz, 198.51.100.1]",
	"deny: [203.0.113.0/24, POST /admin/]",
	"trusted-proxies: 10.0.0.0/8",
	"rules:",
	"- {name: tried, path: [/login, /kind], limits: 3/1s, mode: shadow}",
	"- {name: asleep, limits: blocked, mode: off}",
	"- {name: login, path: /login, methods: POST, limits: [2/1s, 5/10s], ban: {strikes: 3/5s, length: 4s}}",
	"- {name: units, path: /units, key: header:X-Who, limits: 20/2s, cost: header:X-Cost}",
	"- {name: planned, path: /planned, limits: 2/1s, plan-by: header:X-Plan, plans: {gold: 6/1s}, overrides: {'ip:192.0.2.3': unlimited, 'ip:192.0.2.4': blocked}}",
	"- {name: kind, path: /kind, key: ip+path, limits: '4/2s,counter', refund-if-status: [404]}",
	"- {name: inside, clients: 192.0.2.0/30, methods: GET, limits: 5/1s}",
	"- {name: dressed, request-headers: {X-Debug: true}, limits: 1/1s}",
	"domains:",
	"  shop:",
	"    host: '*.shop.example'",
	"    match: all",
	"    rules:",
	"    - {name: address, limits: 4/1s}",
	"    - {name: whole, key: host, limits: 9/1s}",
	"    - {name: dear, path: /buy, limits: 30/3s, cost: 10}",
	"    - {name: watched, key: path, limits: 2/1s, mode: shadow}",
}

// aRequest draws a request that may meet any of those rules, and the status of its answer.
func aRequest(r *rand.Rand) (q *http.Request, status int) {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	host := pick("example.com", "example.com", "a.shop.example", "b.shop.example")
	path := pick("/", "/healthz", "/admin/x", "/login", "/login", "/units", "/planned", "/kind", "/kind/", "/buy", "/a%2Fb")
	q = httptest.NewRequest(pick("GET", "GET", "POST", "OPTIONS"), "http://"+host+path, nil)
	q.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", r.IntN(6))
	for name, values := range map[string][]string{
		"X-Who": {"", "ann", "bob"}, "X-Cost": {"", "3", "7", "21", "-1"}, "X-Plan": {"", "gold", "lead"}, "X-Debug": {"", "1"},
		"Origin": {"", "http://example.com"}, "Access-Control-Request-Method": {"", "GET"},
	} {
		if value := pick(values...); value != "" {
			q.Header.Set(name, value)
		}
	}
	if r.IntN(8) == 0 {
		q.Header.Set("X-Forwarded-For", pick("203.0.113.7", "198.51.100.1", "192.0.2.9"))
		q.RemoteAddr = "10.0.0.1:1"
	}
	return q, []int{200, 404}[r.IntN(2)]
}

// A judge tells every decision of an engine in words.
type judge struct {
	now  time.Time
	told []string
}

func (j *judge) options(t *testing.T) rules.Options {
	store := memstore.New(memstore.WithClock(func() time.Time { return j.now }))
	t.Cleanup(func() { store.Close() })
	return rules.Options{
		Store: store, Headers: []httpgate.Format{httpgate.Draft8}, Gate: []httpgate.Option{httpgate.TrustProxies("10.0.0.0/8")},
		Observe: func(e *rules.Event) {
			text := ""
			for _, r := range e.Rules {
				text += r.FullName() + " "
			}
			if errors.Is(e.Err, httpgate.ErrForbidden) {
				return // what is denied has no decision
			}
			j.told = append(j.told, fmt.Sprintf("%s%v %v banned %v blocked %v shadow %v", text, e.Decision, e.Err, e.Banned, e.Blocked, e.Shadow))
		},
	}
}

// TestARehearsalDecidesAsServe does: whatever a request is, the verdict and every decision on the way to it are those of
// the engine that has the request itself, at the same times.
func TestARehearsalDecidesAsServe(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var served, rehearsed judge
		f := read(t, file(ofAllKinds...))
		engine, err := rules.New(f, served.options(t))
		if err != nil {
			t.Fatal(err)
		}
		rehearsal, err := rules.NewRehearsal(f, rehearsed.options(t))
		if err != nil {
			t.Fatal(err)
		}
		now := int64(1_700_000_000_000)
		fates := map[rules.Fate]int{}
		for range 600 {
			now += int64(r.IntN(120))
			served.now, rehearsed.now = time.UnixMilli(now), time.UnixMilli(now)
			q, status := aRequest(r)
			want := false
			engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				want = true
				w.WriteHeader(status)
			})).ServeHTTP(httptest.NewRecorder(), q)
			b, err := rehearsal.Match(q, status, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := rehearsal.Read(b)
			fates[m.Fate]++
			got, err := rehearsal.Decide(context.Background(), m)
			if err != nil || got != want || !reflect.DeepEqual(served.told, rehearsed.told) {
				t.Fatalf("seed %d: %s %s%s %v: admitted %v, want %v, %v\n%v\nwant\n%v", seed, q.Method, q.Host, q.URL, q.Header, got, want, err, rehearsed.told, served.told)
			}
			served.told, rehearsed.told = nil, nil
		}
		if len(fates) != 4 {
			t.Errorf("seed %d: fates %v: the requests do not try all", seed, fates)
		}
	}
}

// TestRefusalsNameTheRuleAndTheLimit, also of a decision over several rules.
func TestRefusalsNameTheRuleAndTheLimit(t *testing.T) {
	for _, c := range []struct {
		requests []string
		want     string
	}{
		{[]string{"/a", "/a"}, "first:1s by first:1s=1/1s"},
		{[]string{"/b", "/a", "/b"}, "host:20s by host:20s=2/20s"},
		{[]string{"/c"}, "closed"},
		{[]string{"/d"}, "dear"},
	} {
		var last *rules.Event
		var now time.Time
		store := memstore.New(memstore.WithClock(func() time.Time { return now }))
		defer store.Close()
		r, err := rules.NewRehearsal(read(t, file("match: all", "rules:",
			"- {name: first, path: /a, limits: 1/1s}", "- {name: host, key: host, path: [/a, /b], limits: 2/20s}",
			"- {name: closed, path: /c, limits: blocked}", "- {name: dear, path: /d, limits: 5/1s, cost: header:X-Cost}")),
			rules.Options{Store: store, Observe: func(e *rules.Event) { last = e }})
		if err != nil {
			t.Fatal(err)
		}
		var m *rules.Matching
		for _, path := range c.requests {
			q := httptest.NewRequest("GET", path, nil)
			q.Header.Set("X-Cost", "9")
			b, err := r.Match(q, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			m = r.Read(b)
			if _, err := r.Decide(context.Background(), m); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		m.Refusals(last, func(h *rules.Held, limit *slidegate.Limit, i int) {
			if limit == nil {
				got += h.FullName()
				return
			}
			got += fmt.Sprintf("%s by %s", last.Decision.State(i).Limit.Name, limit)
		})
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.requests, got, c.want)
		}
	}
}

// TestAStoreThatFailsEndsARehearsal: nobody is let pass for want of an answer.
func TestAStoreThatFailsEndsARehearsal(t *testing.T) {
	r, err := rules.NewRehearsal(read(t, file("rules:", "- {name: all, limits: 1/1s}")), rules.Options{Store: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := r.Match(httptest.NewRequest("GET", "/", nil), 0, nil)
	if admitted, err := r.Decide(context.Background(), r.Read(b)); admitted || !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("admitted %v, %v", admitted, err)
	}
}

// TestWhoCannotBeToldHasNoMatching, since serve counts nobody without an address.
func TestWhoCannotBeToldHasNoMatching(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	r, err := rules.NewRehearsal(read(t, file("rules:", "- {name: all, limits: 1/1s}")), rules.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest("GET", "/", nil)
	q.RemoteAddr = "somewhere.example:0"
	if _, err := r.Match(q, 0, nil); !errors.Is(err, rules.ErrNobody) {
		t.Errorf("a request without an address: %v", err)
	}
	if _, err := r.Client(q); !errors.Is(err, rules.ErrNobody) {
		t.Errorf("its client: %v", err)
	}
}
