package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// api is a server that admits two requests a minute and counts what it refuses.
func api(options ...httpgate.Option) (server *httptest.Server, refused *int) {
	refused = new(int)
	options = append(options, httpgate.Observe(func(e *httpgate.Event) {
		if !e.Decision.Allowed {
			*refused++
		}
	}))
	limit := slidegate.PerMinute(2).Named("plan")
	return httptest.NewServer(httpgate.PerIP(limit, options...)(hello)), refused
}

// fetch gets a page and prints its status, or why it was not sent.
func fetch(client *http.Client, url string) {
	resp, err := client.Get(url)
	var early *httpgate.TooSoonError
	switch {
	case errors.As(err, &early):
		fmt.Printf("not sent: %s has room in %s\n", early.Policy, early.Wait.Round(time.Minute))
	case err != nil:
		fmt.Println(err)
	default:
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
}

// One line makes a client keep to the limits of every server it talks to.
func ExampleTransport() {
	server, refused := api()
	defer server.Close()

	client := &http.Client{Transport: httpgate.MustNewTransport(nil), Timeout: 10 * time.Second}
	for range 3 {
		fetch(client, server.URL) // the third would have to wait for a minute, longer than its timeout
	}
	fmt.Println(*refused, "refused by the server")
	// Output:
	// 200
	// 200
	// not sent: plan has room in 1m0s
	// 0 refused by the server
}

func ExampleNewTransport() {
	server, _ := api(httpgate.Headers(httpgate.Legacy))
	defer server.Close()

	transport, err := httpgate.NewTransport(http.DefaultTransport, httpgate.MaxWait(30*time.Second), httpgate.Retries(1))
	if err != nil {
		panic(err)
	}
	fetch(&http.Client{Transport: transport}, server.URL)
	// Output: 200
}

func ExampleTooSoonError() {
	server, _ := api()
	defer server.Close()
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(0))}

	var early *httpgate.TooSoonError
	for range 3 {
		resp, err := client.Get(server.URL)
		if errors.As(err, &early) {
			fmt.Println("queue it, and try again in", early.Wait.Round(time.Minute))
			continue
		}
		resp.Body.Close()
	}
	// Output: queue it, and try again in 1m0s
}

func ExampleMaxWait() {
	server, _ := api()
	defer server.Close()
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(5*time.Second))}
	for range 3 {
		fetch(client, server.URL)
	}
	// Output:
	// 200
	// 200
	// not sent: plan has room in 1m0s
}

func ExampleRetries() {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	fetch(&http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.Retries(0))}, server.URL)
	fmt.Println("asked", asked)
	// Output:
	// 429
	// asked 1
}

func ExampleRetryUnavailable() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.RetryUnavailable(), httpgate.MaxWait(time.Second))}
	fetch(client, server.URL) // sent again after a minute, were that not too long
	_, err := client.Get(server.URL)
	fmt.Println(errors.As(err, new(*httpgate.TooSoonError)))
	// Output:
	// 503
	// true
}

// A server with a budget for each of its parts, which it does not tell apart in its fields.
func ExampleBudgetBy() {
	server, _ := api(httpgate.By(func(r *http.Request) (string, error) { return r.URL.Path, nil }))
	defer server.Close()
	first := func(r *http.Request) string {
		part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return r.URL.Host + "/" + part
	}
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(0), httpgate.BudgetBy(first))}
	for _, path := range []string{"/search", "/search", "/search", "/users"} {
		fetch(client, server.URL+path)
	}
	// Output:
	// 200
	// 200
	// not sent: plan has room in 1m0s
	// 200
}

func ExampleMaxHosts() {
	_, err := httpgate.NewTransport(nil, httpgate.MaxHosts(0))
	fmt.Println(err)
	// Output: slidegate: invalid limit: MaxHosts 0: allowed is 1 to 1000000
}

// Who knows the limits of a server need not be refused even by one that announces none.
func ExamplePresume() {
	server, refused := api(httpgate.Headers())
	defer server.Close()
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(0),
		httpgate.Presume(slidegate.PerMinute(2).Named("plan")))}
	for range 3 {
		fetch(client, server.URL)
	}
	fmt.Println(*refused, "refused by the server")
	// Output:
	// 200
	// 200
	// not sent: plan has room in 1m0s
	// 0 refused by the server
}

func ExampleTransportClock() {
	server, _ := api()
	defer server.Close()
	now := time.Now()
	client := &http.Client{Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(0),
		httpgate.TransportClock(func() time.Time { return now }))}
	for range 2 {
		fetch(client, server.URL)
	}
	fetch(client, server.URL)
	now = now.Add(59 * time.Second)
	_, err := client.Get(server.URL)
	fmt.Println(err.(interface{ Unwrap() error }).Unwrap())
	// Output:
	// 200
	// 200
	// not sent: plan has room in 1m0s
	// httpgate: not sent: the limit of "plan" has room in 1s, longer than the request may wait
}

func ExampleParseRateLimit() {
	h := http.Header{}
	h.Set("RateLimit", `"burst";r=7;t=1, "sustained";r=64;t=42`)
	h.Set("RateLimit-Policy", `"burst";q=10;w=1, "sustained";q=100;w=60`)
	policies, ok := httpgate.ParseRateLimit(h, time.Now())
	for _, p := range policies {
		fmt.Printf("%s: %d of %d in %s are left, for %s\n", p.Name, p.Remaining, p.Quota, p.Window, p.Reset)
	}
	fmt.Println(ok)
	// Output:
	// burst: 7 of 10 in 1s are left, for 1s
	// sustained: 64 of 100 in 1m0s are left, for 42s
	// true
}

// Ten requests a second to each host, which wait for their turn.
func ExampleOutgoing() {
	server := httptest.NewServer(hello)
	defer server.Close()
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerSecond(10))
	client := &http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil)}
	fetch(client, server.URL)
	// Output: 200
}

// One budget for all hosts, by the size of what is uploaded, without waiting.
func ExampleNewOutgoing() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1000).Named("bytes"))
	transport, err := httpgate.NewOutgoing(limiter, nil,
		httpgate.OutgoingBy(func(*http.Request) string { return "uploads" }),
		httpgate.OutgoingCost(func(r *http.Request) int64 { return r.ContentLength }),
		httpgate.OutgoingMaxWait(0))
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	for range 3 {
		resp, err := client.Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", 400)))
		var early *httpgate.TooSoonError
		if errors.As(err, &early) {
			fmt.Println("not sent:", early.Policy)
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	d, _ := limiter.Peek(context.Background(), "uploads")
	fmt.Println(d.Remaining(), "bytes left")
	// Output:
	// 200
	// 200
	// not sent: bytes
	// 200 bytes left
}

func ExampleOutgoingFailClosed() {
	server := httptest.NewServer(hello)
	defer server.Close()
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerSecond(10))
	fetch(&http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil)}, server.URL)

	closed := &http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil, httpgate.OutgoingFailClosed())}
	_, err := closed.Get(server.URL)
	fmt.Println(errors.Is(err, slidegate.ErrUnavailable))
	// Output:
	// 200
	// true
}

func ExampleOutgoingOnStoreError() {
	server := httptest.NewServer(hello)
	defer server.Close()
	limiter := slidegate.MustNew(gatetest.Failing(errors.New("connection refused")), slidegate.PerSecond(10))
	told := httpgate.OutgoingOnStoreError(func(err error) { fmt.Println(err) })
	fetch(&http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil, told)}, server.URL)
	// Output:
	// slidegate: store unavailable: connection refused
	// 200
}

func ExampleOutgoingRefundUnsent() {
	server := httptest.NewServer(hello)
	url := server.URL
	server.Close() // nobody is there any more
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(10))
	client := &http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil, httpgate.OutgoingRefundUnsent())}
	_, err := client.Get(url)
	d, _ := limiter.Peek(context.Background(), "host:"+url)
	fmt.Println(err != nil, d.Remaining())
	// Output: true 10
}
