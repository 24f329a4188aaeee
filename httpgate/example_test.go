package httpgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

// show sends a request from an address and prints the answer's status and the named fields.
func show(h http.Handler, from string, sent http.Header, fields ...string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = from + ":4711"
	for name, values := range sent {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	line := fmt.Sprint(w.Code)
	for _, f := range fields {
		line += " " + f + ": " + strings.Join(w.Header().Values(f), ", ")
	}
	fmt.Println(line)
}

// atTheEpoch is a memory store whose clock stands still, so that the examples print the same always.
func atTheEpoch() *memstore.Store {
	return memstore.New(memstore.WithClock(gatetest.NewClock(time.Unix(0, 0)).Now))
}

func Example() {
	mux := http.NewServeMux()
	mux.Handle("/", hello)
	handler := httpgate.PerIP(slidegate.PerMinute(2))(mux)

	show(handler, "203.0.113.7", nil, "RateLimit-Policy")
	show(handler, "203.0.113.7", nil)
	show(handler, "203.0.113.7", nil, "Retry-After")
	show(handler, "203.0.113.8", nil)
	// Output:
	// 200 RateLimit-Policy: "2/1m";q=2;w=60
	// 200
	// 429 Retry-After: 60
	// 200
}

func ExampleNew() {
	limiter, err := slidegate.New(atTheEpoch(), slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(100).Named("sustained"))
	if err != nil {
		panic(err)
	}
	gate, err := httpgate.New(limiter, httpgate.ByHeader("X-API-Key"))
	if err != nil {
		panic(err)
	}
	show(gate.Wrap(hello), "203.0.113.7", http.Header{"X-Api-Key": {"k1"}}, "RateLimit")
	// Output: 200 RateLimit: "burst";r=9;t=1, "sustained";r=99;t=60
}

func ExampleBy() {
	tenant := func(r *http.Request) (string, error) {
		name, _, ok := strings.Cut(r.Host, ".")
		if !ok {
			return "", fmt.Errorf("no tenant in %q", r.Host) // the request counts by its address
		}
		return "tenant:" + name, nil
	}
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.By(tenant)).Wrap(hello)
	for range 2 {
		show(handler, "203.0.113.7", nil) // example.com, the host of httptest
	}
	d, _ := limiter.Peek(context.Background(), "tenant:example")
	fmt.Println(d.Remaining(), "left")
	// Output:
	// 200
	// 429
	// 0 left
}

func ExampleJoin() {
	fmt.Println(httpgate.Join("tenant", "a:b"))
	fmt.Println(httpgate.Join("tenant:a", "b"))
	// Output:
	// 6:tenant|3:a:b
	// 8:tenant:a|1:b
}

func ExampleHeaders() {
	for _, f := range []httpgate.Format{httpgate.Draft8, httpgate.Draft7, httpgate.Draft6, httpgate.Legacy, httpgate.LegacyDelta} {
		limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(100))
		field := "RateLimit"
		switch f {
		case httpgate.Draft6:
			field = "RateLimit-Reset"
		case httpgate.Legacy, httpgate.LegacyDelta:
			field = "X-RateLimit-Reset"
		}
		show(httpgate.MustNew(limiter, httpgate.Headers(f)).Wrap(hello), "203.0.113.7", nil, field)
	}
	// Output:
	// 200 RateLimit: "100/1m";r=99;t=60
	// 200 RateLimit: limit=100, remaining=99, reset=60
	// 200 RateLimit-Reset: 60
	// 200 X-RateLimit-Reset: 60
	// 200 X-RateLimit-Reset: 60
}

func ExampleTrustProxies() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.TrustProxies("10.0.0.0/8")).Wrap(hello)

	show(handler, "10.0.0.1", http.Header{"X-Forwarded-For": {"203.0.113.7"}})
	show(handler, "10.0.0.1", http.Header{"X-Forwarded-For": {"203.0.113.8"}})
	show(handler, "10.0.0.1", http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.8"}}) // what it sent itself is not read
	show(handler, "198.51.100.9", http.Header{"X-Forwarded-For": {"203.0.113.9"}})      // no proxy: counts as itself
	show(handler, "198.51.100.9", http.Header{"X-Forwarded-For": {"203.0.113.10"}})
	// Output:
	// 200
	// 200
	// 429
	// 200
	// 429
}

func ExampleCost() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(10))
	handler := httpgate.MustNew(limiter,
		httpgate.Cost(func(r *http.Request) int64 { return int64(len(r.Header.Values("Item"))) }),
		httpgate.Skip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }),
	).Wrap(hello)

	show(handler, "203.0.113.7", http.Header{"Item": {"a", "b", "c"}}, "RateLimit")
	show(handler, "203.0.113.7", nil, "RateLimit")
	show(handler, "203.0.113.7", http.Header{"Item": make([]string, 11)}, "Retry-After") // can never fit
	// Output:
	// 200 RateLimit: "10/1m";r=7;t=60
	// 200 RateLimit: "10/1m";r=7;t=60
	// 429 Retry-After:
}

func ExampleChoose() {
	free := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2).Named("plan"))
	pro, err := free.With(slidegate.PerMinute(5).Named("plan"))
	if err != nil {
		panic(err)
	}
	staff := slidegate.Unlimited()
	handler := httpgate.MustNew(free, httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
		switch r.Header.Get("Plan") {
		case "pro":
			return pro
		case "staff":
			return staff
		}
		return nil
	})).Wrap(hello)

	show(handler, "203.0.113.7", nil, "RateLimit")
	show(handler, "203.0.113.7", http.Header{"Plan": {"pro"}}, "RateLimit") // what was used stays used
	show(handler, "203.0.113.7", http.Header{"Plan": {"staff"}}, "RateLimit")
	// Output:
	// 200 RateLimit: "plan";r=1;t=60
	// 200 RateLimit: "plan";r=3;t=60
	// 200 RateLimit:
}

// Whoever is suspended is told so, and not to come back later.
func ExampleChoose_blocked() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	suspended := slidegate.Blocked()
	plan := func(r *http.Request) *slidegate.Limiter {
		if r.Header.Get("Customer") == "gone" {
			return suspended
		}
		return nil
	}
	why := func(violated ...string) httpgate.Problem {
		if len(violated) == 0 { // no limit refused
			return httpgate.Problem{Type: "about:blank", Title: "The account is suspended", Status: http.StatusForbidden}
		}
		return httpgate.QuotaExceeded(violated...)
	}
	handler := httpgate.MustNew(limiter, httpgate.Choose(plan), httpgate.DenyAs(why)).Wrap(hello)
	for _, customer := range []string{"here", "here", "gone"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request("GET", "/", "203.0.113.7:4711", "Customer", customer))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["1/1m"]}
	// 403 {"type":"about:blank","title":"The account is suspended","status":403}
}

func ExampleOnDeny() {
	sorry := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := httpgate.FromContext(r.Context())
		fmt.Println("come back in", d.RetryAfter(), "for", d.Binding().Limit)
	})
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.OnDeny(sorry)).Wrap(hello)
	show(handler, "203.0.113.7", nil)
	show(handler, "203.0.113.7", nil)
	// Output:
	// 200
	// come back in 1m0s for 1/1m
	// 429
}

func ExampleDenyWith() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.DenyWith(503, map[string]any{"success": false, "message": "Too many requests"})).Wrap(hello)
	show(handler, "203.0.113.7", nil)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:4711"
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 200
	// 503 {"message":"Too many requests","success":false}
}

func ExampleFailClosed() {
	store := memstore.New(memstore.WithMaxKeys(1), memstore.RefuseNewKeys())
	limiter := slidegate.MustNew(store, slidegate.PerMinute(5))
	open := httpgate.MustNew(limiter, httpgate.OnStoreError(func(error) { fmt.Println("the store says no") })).Wrap(hello)
	closed := httpgate.MustNew(limiter, httpgate.FailClosed()).Wrap(hello)

	show(open, "203.0.113.7", nil) // takes the only place in the store
	show(open, "203.0.113.8", nil)
	show(closed, "203.0.113.8", nil)
	// Output:
	// 200
	// the store says no
	// 200
	// 503
}

func ExampleObserve() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.Observe(func(e *httpgate.Event) {
		if e.Err == nil {
			fmt.Println(e.Decision, "·", e.Reason)
		}
	})).Wrap(hello)
	show(handler, "203.0.113.7", nil)
	show(handler, "203.0.113.7", nil)
	// Output:
	// admitted, 0 of 1/1m left, full in 1m0s · peer
	// 200
	// refused by 1/1m, 0 left, retry in 1m0s · peer
	// 429
}

func ExampleWithoutContext() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(100).Named("sustained"))
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := httpgate.FromContext(r.Context())
		fmt.Fprint(w, "a decision in the context: ", ok)
	})
	handler := httpgate.MustNew(limiter, httpgate.WithoutContext()).Wrap(next)

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Body)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output:
	// a decision in the context: false
	// "sustained";r=99;t=60
}

func ExampleFromContext() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(5))
	onlyFailures := httpgate.MustNew(limiter).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := httpgate.FromContext(r.Context())
		if !ok {
			return
		}
		fmt.Println(d.Remaining(), "left")
		if err := limiter.Refund(r.Context(), d); err != nil { // it went well: give it back
			fmt.Println(err)
		}
	}))
	show(onlyFailures, "203.0.113.7", nil)
	show(onlyFailures, "203.0.113.7", nil)
	// Output:
	// 4 left
	// 200
	// 4 left
	// 200
}

func ExampleNewAddresses() {
	options := []httpgate.Option{httpgate.TrustProxies("10.0.0.0/8"), httpgate.ClientIPHeader("Forwarded"), httpgate.IPv6Prefix(64)}
	addresses, err := httpgate.NewAddresses(options...)
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("Forwarded", `for="[2001:db8:1:2::3]:50001";proto=https`)
	addr, reason := addresses.Find(r)
	key, _ := addresses.KeyOf(r)
	fmt.Println(addr, reason, key)
	// Output: 2001:db8:1:2::3 header ip:2001:db8:1:2::/64
}

func ExampleAddresses_Key() {
	var addresses httpgate.Addresses // IPv6 networks of 56 bits
	for _, s := range []string{"203.0.113.7", "::ffff:203.0.113.7", "2001:db8:1234:5678::1"} {
		fmt.Println(addresses.Key(netip.MustParseAddr(s)))
	}
	// Output:
	// 203.0.113.7
	// 203.0.113.7
	// 2001:db8:1234:5600::/56
}

func ExampleParseTrusted() {
	for _, s := range []string{"10.1.2.3/8", "::1", "0.0.0.0/0"} {
		p, err := httpgate.ParseTrusted(s)
		fmt.Println(p, err)
	}
	// Output:
	// 10.0.0.0/8 <nil>
	// ::1/128 <nil>
	// invalid Prefix slidegate: invalid limit: trusted proxies "0.0.0.0/0": that is everybody, and then any client can say it is another: give the proxies' own networks, or say TrustEverybody
}

func ExampleEncodeName() {
	fmt.Println(httpgate.EncodeName("naïve=50%"))
	// Output: na%C3%AFve%3D50%25
}

func ExampleProblem() {
	w := httptest.NewRecorder()
	httpgate.ReducedCapacity("hourly").ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	fmt.Println(w.Body)
	// Output:
	// 503 application/problem+json
	// {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"violated-policies":["hourly"]}
}

func ExampleParseFormat() {
	f, err := httpgate.ParseFormat("draft-11")
	fmt.Println(f, err)
	_, err = httpgate.ParseFormat("draft-5")
	fmt.Println(err)
	// Output:
	// draft-8 <nil>
	// slidegate: invalid limit: header format "draft-5": allowed is draft-8, draft-7, draft-6, legacy, legacy-delta
}
