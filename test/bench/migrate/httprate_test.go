package migrate

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/httprate"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

func httprateBefore(next http.Handler) http.Handler {
	byAddress := func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	}
	limit := httprate.LimitBy(100, time.Hour, byAddress)
	return limit(next)
}

func httprateAfter(store slidegate.Store, next http.Handler) http.Handler {
	limiter := slidegate.MustNew(store, slidegate.PerHour(100).Named("api"))
	gate := httpgate.MustNew(limiter, httpgate.IPv6Prefix(64), httpgate.Headers(httpgate.Legacy))
	return gate.Wrap(next)
}

// TestHTTPRate: both admit the same, with the same fields but for the times.
func TestHTTPRate(t *testing.T) {
	alike(t, httprateBefore(served), httprateAfter(memoryStore(t), served))
}

func httprateCostBefore(next http.Handler) http.Handler {
	limit := httprate.LimitBy(100, time.Hour, httprate.Key("*"))(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := httprate.WithIncrement(r.Context(), 10)
		ctx = httprate.WithRequestLimit(ctx, 50)
		limit.ServeHTTP(w, r.WithContext(ctx))
	})
}

func httprateCostAfter(store slidegate.Store, next http.Handler) http.Handler {
	normal := slidegate.MustNew(store, slidegate.PerHour(100).Named("api"))
	half := slidegate.MustNew(store, slidegate.PerHour(50).Named("api"))
	return httpgate.MustNew(normal,
		httpgate.ByEverybody(),
		httpgate.Headers(httpgate.Legacy),
		httpgate.Cost(func(*http.Request) int64 { return 10 }),
		httpgate.Choose(func(*http.Request) *slidegate.Limiter { return half }),
	).Wrap(next)
}

// TestHTTPRateCosts: a request that costs ten, against a limit of its own.
func TestHTTPRateCosts(t *testing.T) {
	alike(t, httprateCostBefore(served), httprateCostAfter(memoryStore(t), served))
}
