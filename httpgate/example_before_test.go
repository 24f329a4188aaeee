package httpgate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// visit sends a request from 203.0.113.7 and prints its status.
func visit(h http.Handler, method, target string, headers ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(method, target, "203.0.113.7:4711", headers...))
	fmt.Println(method, target, w.Code)
}

// A CORS layer outside the gate lets scripts of another origin read what a gate says, on refusals too.
func ExampleGate_Wrap() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	gate := httpgate.MustNew(limiter)
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
			w.Header().Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
			w.Header().Add("Vary", "Origin")
			next.ServeHTTP(w, r)
		})
	}
	handler := cors(gate.Wrap(hello))
	for range 2 {
		show(handler, "203.0.113.7", http.Header{"Origin": {"https://app.example"}}, "Retry-After", "Access-Control-Expose-Headers")
	}
	// Output:
	// 200 Retry-After:  Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
	// 429 Retry-After: 60 Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
}

func ExampleCountPreflights() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	free := httpgate.MustNew(limiter).Wrap(hello)
	counted := httpgate.MustNew(limiter, httpgate.CountPreflights()).Wrap(hello)
	for _, h := range []http.Handler{free, free, counted, counted} {
		visit(h, "OPTIONS", "/", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT")
	}
	// Output:
	// OPTIONS / 200
	// OPTIONS / 200
	// OPTIONS / 200
	// OPTIONS / 429
}

func ExampleByRoute() {
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", hello)
	mux.Handle("GET /search", hello)
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2))
	handler := httpgate.MustNew(limiter, httpgate.ByRoute(mux)).Wrap(mux)

	visit(handler, "GET", "/users/1")
	visit(handler, "HEAD", "/users/2")
	visit(handler, "GET", "/%75sers/3") // another spelling of /users/3
	visit(handler, "GET", "/search")
	// Output:
	// GET /users/1 200
	// HEAD /users/2 200
	// GET /%75sers/3 429
	// GET /search 200
}

func ExampleByMethod() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAddress())).Wrap(hello)
	visit(handler, "GET", "/")
	visit(handler, "HEAD", "/")
	visit(handler, "POST", "/")
	// Output:
	// GET / 200
	// HEAD / 429
	// POST / 200
}

type user struct{ id int }

type userKey struct{}

func ExampleByClaim() {
	// Some handler outside has verified who it is, and put that in the context.
	authenticated := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer of-42" {
				r = r.WithContext(context.WithValue(r.Context(), userKey{}, user{42}))
			}
			next.ServeHTTP(w, r)
		})
	}
	subject := func(r *http.Request) (string, bool) {
		u, ok := r.Context().Value(userKey{}).(user)
		return strconv.Itoa(u.id), ok
	}
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := authenticated(httpgate.MustNew(limiter, httpgate.ByClaim("sub", subject)).Wrap(hello))
	visit(handler, "GET", "/", "Authorization", "Bearer of-42")
	visit(handler, "GET", "/") // nobody: by address
	d, _ := limiter.Peek(context.Background(), "claim:sub:42")
	fmt.Println(d.Remaining(), "left")
	// Output:
	// GET / 200
	// GET / 200
	// 0 left
}

// Each shop has a budget of its own, whoever asks for its orders.
func ExampleByValue() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2))
	shop := httpgate.ByValue("shop", func(r *http.Request) string { return r.PathValue("shop") })
	mux := http.NewServeMux()
	mux.Handle("GET /shops/{shop}/orders", httpgate.MustNew(limiter, shop).Wrap(hello)) // behind the mux, which reads the path
	for _, target := range []string{"/shops/1/orders", "/shops/1/orders", "/shops/1/orders", "/shops/2/orders"} {
		visit(mux, "GET", target)
	}
	d, _ := limiter.Peek(context.Background(), "shop:2")
	fmt.Println(d.Remaining(), "left")
	// Output:
	// GET /shops/1/orders 200
	// GET /shops/1/orders 200
	// GET /shops/1/orders 429
	// GET /shops/2/orders 200
	// 1 left
}

// Two requests a minute for an address, and three for all that are beside it.
func ExampleByNetwork() {
	store := atTheEpoch()
	perAddress := slidegate.MustNew(store, slidegate.PerMinute(2).Named("address"))
	perNetwork := slidegate.MustNew(store, slidegate.PerMinute(3).Named("network"))
	handler := httpgate.MustNew(perAddress, httpgate.And(perNetwork, httpgate.ByNetwork(24, 48))).Wrap(hello)
	for _, address := range []string{"203.0.113.7", "203.0.113.7", "203.0.113.8", "203.0.113.9", "198.51.100.1"} {
		show(handler, address, nil, "RateLimit")
	}
	// Output:
	// 200 RateLimit: "address";r=1;t=60, "network";r=2;t=60
	// 200 RateLimit: "address";r=0;t=60, "network";r=1;t=60
	// 200 RateLimit: "address";r=1;t=60, "network";r=0;t=60
	// 429 RateLimit: "address";r=2;t=0, "network";r=0;t=60
	// 200 RateLimit: "address";r=1;t=60, "network";r=2;t=60
}

func ExampleByAll() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.ByAll(httpgate.ByHeader("Tenant"), httpgate.ByHeader("User"))).Wrap(hello)
	visit(handler, "GET", "/", "Tenant", "acme", "User", "ann")
	visit(handler, "GET", "/", "Tenant", "acme", "User", "bob")
	visit(handler, "GET", "/", "Tenant", "acme", "User", "ann")
	// Output:
	// GET / 200
	// GET / 200
	// GET / 429
}

// A made-up API key buys no more than the address has.
func ExampleByAddress() {
	store := atTheEpoch()
	byAddress := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(2).Named("address")), httpgate.ByAddress())
	byKey := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1).Named("key")), httpgate.ByHeader("X-API-Key"))
	handler := byAddress.Wrap(byKey.Wrap(hello))
	for _, key := range []string{"made-up", "invented", "forged"} {
		visit(handler, "GET", "/", "X-API-Key", key)
	}
	// Output:
	// GET / 200
	// GET / 200
	// GET / 429
}

func ExampleByEverybody() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerSecond(1))
	handler := httpgate.MustNew(limiter, httpgate.ByEverybody()).Wrap(hello)
	show(handler, "203.0.113.7", nil)
	show(handler, "203.0.113.8", nil)
	// Output:
	// 200
	// 429
}

func ExampleSecret() {
	secret := []byte("read me from the deployment, not from the code")
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(5))
	gate := httpgate.MustNew(limiter, httpgate.ByHeader("Authorization"), httpgate.Secret(secret))
	key, err := gate.KeyOf(request("GET", "/", "", "Authorization", "Bearer s3cr3t"))
	fmt.Println(len(key), key[:5], strings.Contains(key, "s3cr3t"), err)

	_, err = httpgate.New(limiter, httpgate.Secret([]byte("too short")))
	fmt.Println(err)
	// Output:
	// 69 hmac: false <nil>
	// slidegate: invalid limit: Secret of 9 bytes: allowed are at least 32: make them with openssl rand -hex 32
}

func ExampleGate_KeyOf() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	gate := httpgate.MustNew(limiter, httpgate.ByAll(httpgate.ByMethod(), httpgate.ByAddress()))
	handler := gate.Wrap(hello)
	visit(handler, "GET", "/")
	key, err := gate.KeyOf(request("GET", "/", "203.0.113.7:4711"))
	fmt.Println(key, err)
	fmt.Println(limiter.Reset(context.Background(), key))
	visit(handler, "GET", "/")
	// Output:
	// GET / 200
	// 10:method:GET|14:ip:203.0.113.7 <nil>
	// <nil>
	// GET / 200
}

func ExampleExempt() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.Exempt("GET /healthz from 203.0.113.0/24", "192.0.2.0/24")).Wrap(hello)
	visit(handler, "GET", "/healthz")
	visit(handler, "GET", "/healthz")
	visit(handler, "GET", "/healthz/")
	visit(handler, "GET", "/")
	// Output:
	// GET /healthz 200
	// GET /healthz 200
	// GET /healthz/ 200
	// GET / 429
}

func ExampleDeny() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(9))
	handler := httpgate.MustNew(limiter,
		httpgate.Deny("198.51.100.0/24", "/internal"),
		httpgate.Exempt("198.51.100.9"), // the narrower network decides
		httpgate.Observe(func(e *httpgate.Event) { fmt.Println("forbidden:", errors.Is(e.Err, httpgate.ErrForbidden)) }),
	).Wrap(hello)
	visit(handler, "GET", "/internal")
	show(handler, "198.51.100.8", nil)
	show(handler, "198.51.100.9", nil)
	// Output:
	// forbidden: true
	// GET /internal 403
	// forbidden: true
	// 403
	// 200
}

func ExampleForbidWith() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(9))
	handler := httpgate.MustNew(limiter, httpgate.Deny("/internal"), httpgate.ForbidWith(404, "no such page\n")).Wrap(hello)
	visit(handler, "GET", "/internal")
	// Output: GET /internal 404
}

func ExampleDenyAs() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1).Named("while-we-repair"))
	handler := httpgate.MustNew(limiter, httpgate.DenyAs(httpgate.ReducedCapacity)).Wrap(hello)
	visit(handler, "GET", "/")
	visit(handler, "GET", "/")
	// Output:
	// GET / 200
	// GET / 503
}

func ExampleRetryAfter() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	with := httpgate.MustNew(limiter, httpgate.Headers(), httpgate.RetryAfter()).Wrap(hello)
	without := httpgate.MustNew(limiter, httpgate.NoRetryAfter()).Wrap(hello)
	show(with, "203.0.113.7", nil)
	show(with, "203.0.113.7", nil, "RateLimit", "Retry-After")
	show(without, "203.0.113.7", nil, "RateLimit", "Retry-After")
	// Output:
	// 200
	// 429 RateLimit:  Retry-After: 60
	// 429 RateLimit: "1/1m";r=0;t=60 Retry-After:
}

func ExampleJitter() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.Jitter(50)).Wrap(hello)
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request("GET", "/", ""))
		if retry, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
			fmt.Println("from 60 to 90 seconds:", retry >= 60 && retry <= 90)
		}
	}
	// Output: from 60 to 90 seconds: true
}

func ExamplePartitionKeys() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(5))
	secret := bytes.Repeat([]byte("0123456789abcdef"), 2)
	handler := httpgate.MustNew(limiter, httpgate.PartitionKeys(secret)).Wrap(hello)
	show(handler, "203.0.113.7", nil, "RateLimit")
	show(handler, "203.0.113.8", nil, "RateLimit")
	// Output:
	// 200 RateLimit: "5/1m";r=4;t=60;pk=:4BxO6wPAWBZdSVZN:
	// 200 RateLimit: "5/1m";r=4;t=60;pk=:N8zhsyHeO3JvxC9O:
}

// A server that knows its proxies says whose request it is.
func ExampleAddressFrom() {
	realIP := func(r *http.Request) netip.Addr {
		if r.RemoteAddr != "10.0.0.1:4711" { // not the proxy: it is who connects
			return netip.Addr{}
		}
		addr, _ := netip.ParseAddr(r.Header.Get("X-Real-IP"))
		return addr
	}
	addresses, err := httpgate.NewAddresses(httpgate.AddressFrom(realIP))
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Real-IP", "203.0.113.7")
	for _, r.RemoteAddr = range []string{"10.0.0.1:4711", "198.51.100.9:4711"} {
		key, _ := addresses.KeyOf(r)
		fmt.Println(key)
	}
	// Output:
	// ip:203.0.113.7
	// ip:198.51.100.9
}
