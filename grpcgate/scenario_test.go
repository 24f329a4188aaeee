package grpcgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/grpcgate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// TestSameVerdictsAsHTTP: the same requests, at the same times, at a server of either protocol. The
// verdicts, what remains, the waits and the texts of the fields are the same.
func TestSameVerdictsAsHTTP(t *testing.T) {
	clock := gatetest.NewClock(time.Unix(1_000_000, 0))
	limiter := func() *slidegate.Limiter {
		return slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)),
			slidegate.Per(1500*time.Millisecond, 3).Named("burst"),
			slidegate.PerMinute(8).Named(`odd "name"`),
			slidegate.PerHour(20).Counter().Named("plan"))
	}
	formats := httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.Legacy)
	events := make(chan slidegate.Decision, 2)
	observe := httpgate.Observe(func(e *httpgate.Event) { events <- *e.Decision })
	proxies := httpgate.TrustProxies("127.0.0.1")

	web := httptest.NewServer(httpgate.MustNew(limiter(), formats, observe, proxies, httpgate.By(func(r *http.Request) (string, error) {
		return r.Header.Get("Who"), nil
	}), httpgate.Cost(func(r *http.Request) int64 { return units(r.Header.Get("Units")) })).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer web.Close()
	gate := grpcgate.MustNew(limiter(), grpcgate.With(formats, observe, proxies), grpcgate.By(func(_ context.Context, c *grpcgate.Call) (string, error) {
		return field(c.Metadata, "who"), nil
	}), grpcgate.Cost(func(_ context.Context, c *grpcgate.Call) int64 { return units(field(c.Metadata, "units")) }))
	client := dial(t, serve(t, &service{}, gate.ServerOptions()...))

	steps := []struct {
		after time.Duration
		who   string
		units int64
		proxy string
	}{
		{0, "", 1, ""}, {0, "", 2, ""}, {0, "", 1, ""}, {0, "", 0, ""}, {100 * time.Millisecond, "", 1, ""}, {1399 * time.Millisecond, "", 1, ""},
		{1, "", 1, ""}, {time.Millisecond, "", 3, ""}, {0, "ann", 3, ""}, {0, "ann", 4, ""}, {0, "ann", -1, ""}, {0, "", 1, "203.0.113.7"},
		{0, "", 2, "2001:db8:1:200::1"}, {0, "", 2, "2001:db8:1:2ff::1"}, {0, "", 1, "nonsense"}, {2 * time.Second, "", 3, ""}, {2 * time.Second, "", 3, ""},
		{2 * time.Second, "", 2, ""}, {time.Minute, "", 3, ""}, {time.Minute, "", 3, ""}, {time.Minute, "", 3, ""}, {time.Minute, "", 3, ""}, {time.Minute, "", 3, ""},
		{time.Hour, "", 3, ""}, {30 * time.Minute, "", 3, ""},
	}
	refusals := 0
	for i, s := range steps {
		clock.Advance(s.after)
		request, err := http.NewRequestWithContext(within(t), http.MethodPost, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := within(t)
		for name, value := range map[string]string{"who": s.who, "units": strconv.FormatInt(s.units, 10), "x-forwarded-for": s.proxy} {
			if value != "" {
				request.Header.Set(name, value)
				ctx = sending(ctx, name, value)
			}
		}
		response, err := web.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		inHTTP := <-events
		a := call(ctx, client)
		inGRPC := <-events

		want(t, fmt.Sprint("verdict of step ", i), a.code == ok, response.StatusCode == http.StatusOK)
		want(t, fmt.Sprint("decision of step ", i), inGRPC.String(), inHTTP.String())
		want(t, fmt.Sprint("key of step ", i), inGRPC.Key(), inHTTP.Key())
		fields, others := a.header, a.trailer
		if a.code != ok {
			refusals++
			fields, others = a.trailer, a.header
			wait, _ := a.retryIn()
			want(t, fmt.Sprint("delay of step ", i), wait, inHTTP.RetryAfter())
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
			want(t, fmt.Sprint(name, " of step ", i), fields.Get(name), response.Header[http.CanonicalHeaderKey(name)])
		}
		want(t, fmt.Sprint("the other metadata of step ", i), len(others), 0)
	}
	if refusals < 5 || refusals > len(steps)-5 {
		t.Errorf("%d of %d steps are refused: that shows little", refusals, len(steps))
	}
}

func units(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1
	}
	return n
}
