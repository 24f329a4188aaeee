package migrate

import (
	"net/http"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

func goLimiterBefore(next http.Handler) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 100, Interval: time.Hour})
	if err != nil {
		return nil, err
	}
	middleware, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return middleware.Handle(next), nil
}

func goLimiterAfter(store slidegate.Store, next http.Handler) (http.Handler, error) {
	limiter, err := slidegate.New(store, slidegate.PerHour(100).Named("api"))
	if err != nil {
		return nil, err
	}
	gate, err := httpgate.New(limiter, httpgate.IPv6Prefix(128), httpgate.Headers(httpgate.Legacy))
	if err != nil {
		return nil, err
	}
	return gate.Wrap(next), nil
}

// TestGoLimiter: both admit the same, with the same fields but for the times.
func TestGoLimiter(t *testing.T) {
	before, err := goLimiterBefore(served)
	if err != nil {
		t.Fatal(err)
	}
	after, err := goLimiterAfter(memoryStore(t), served)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, before, after)
}
