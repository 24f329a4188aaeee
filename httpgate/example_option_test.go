package httpgate_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
)

func ExampleSkip() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	assets := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/assets/") }
	handler := httpgate.MustNew(limiter, httpgate.Skip(assets)).Wrap(hello)
	for _, path := range []string{"/", "/assets/logo.svg", "/"} {
		visit(handler, "GET", path)
	}
	// Output:
	// GET / 200
	// GET /assets/logo.svg 200
	// GET / 429
}

func ExampleByCookie() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	handler := httpgate.MustNew(limiter, httpgate.ByCookie("session")).Wrap(hello)
	visit(handler, "GET", "/", "Cookie", "session=a")
	visit(handler, "GET", "/", "Cookie", "session=b")
	visit(handler, "GET", "/", "Cookie", "session=a")
	// Output:
	// GET / 200
	// GET / 200
	// GET / 429
}

// Two proxies at addresses that change, of which each adds the address it saw.
func ExampleTrustHops() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	gate := httpgate.MustNew(limiter, httpgate.TrustHops(2))
	r := request("GET", "/", "10.0.0.1:4711", "X-Forwarded-For", "made up, 198.51.100.7, 10.0.0.9")
	fmt.Println(gate.Addresses().Find(r))
	// Output: 198.51.100.7 header
}

// A content delivery network that puts the client's address in a header of its own.
func ExampleClientIPHeader() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1))
	gate := httpgate.MustNew(limiter, httpgate.TrustProxies("192.0.2.0/24"), httpgate.ClientIPHeader("CF-Connecting-IP"))
	r := request("GET", "/", "192.0.2.1:4711", "CF-Connecting-IP", "198.51.100.7")
	fmt.Println(gate.Addresses().Find(r))
	// Output: 198.51.100.7 header
}

func ExampleUnwrapNAT64() {
	addresses, err := httpgate.NewAddresses(httpgate.UnwrapNAT64())
	if err != nil {
		panic(err)
	}
	fmt.Println(addresses.Key(netip.MustParseAddr("64:ff9b::c633:6407")))
	// Output: 198.51.100.7
}

// A store that fails closes the part of the site that needs limits, and no other.
func ExampleFailWith() {
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerMinute(5))
	handler := httpgate.MustNew(limiter, httpgate.FailWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/login" {
			hello.ServeHTTP(w, r)
			return
		}
		fmt.Println(httpgate.ErrorFromContext(r.Context()))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))).Wrap(hello)
	visit(handler, "GET", "/")
	visit(handler, "POST", "/login")
	// Output:
	// GET / 200
	// slidegate: store unavailable: connection refused
	// POST /login 503
}

func ExampleFailClosedWith() {
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerMinute(5))
	handler := httpgate.MustNew(limiter, httpgate.FailClosedWith(http.StatusTeapot, "later")).Wrap(hello)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request("GET", "/", "203.0.113.7:4711"))
	fmt.Println(w.Code, w.Body)
	// Output: 418 later
}

func ExampleOnStoreError() {
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerMinute(5))
	told := httpgate.OnStoreError(func(err error) { fmt.Println(errors.Is(err, slidegate.ErrUnavailable), err) })
	visit(httpgate.MustNew(limiter, told).Wrap(hello), "GET", "/")
	// Output:
	// true slidegate: store unavailable: connection refused
	// GET / 200
}

// Several gates over one store tell of nothing that whoever has the store tells of.
func ExampleWithoutOutages() {
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerMinute(5))
	logger := httpgate.Logger(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	visit(httpgate.MustNew(limiter, httpgate.FailOpen(), logger, httpgate.WithoutOutages()).Wrap(hello), "GET", "/")
	// Output: GET / 200
}

// A gate with a logger says when it is used in a way that is likely a mistake, once, and which page tells of it.
func ExampleLogger() {
	plain := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.MessageKey {
			return slog.Attr{}
		}
		return a
	}})
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(5))
	handler := httpgate.MustNew(limiter, httpgate.Logger(slog.New(plain))).Wrap(hello)
	for range 2 { // a proxy that nobody has named
		handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "10.0.0.1:4711", "X-Forwarded-For", "198.51.100.7"))
	}
	// Output: level=WARN warning=untrusted-proxy page=docs/warnings/untrusted-proxy.md
}
