package migrate

import (
	"net/http"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A middleware is what limits today.
type middleware = func(http.Handler) http.Handler

func watching(store slidegate.Store, old middleware, tell func(*httpgate.Event), next http.Handler) http.Handler {
	limiter := slidegate.MustNew(store, slidegate.PerHour(100).Named("api"))
	shadow := httpgate.MustNew(limiter, httpgate.Shadow(), httpgate.Observe(tell))
	return shadow.Wrap(old(next))
}

func switched(store slidegate.Store, old middleware, next http.Handler) http.Handler {
	limiter := slidegate.MustNew(store, slidegate.PerHour(100).Named("api"))
	gate := httpgate.MustNew(limiter)
	return gate.Wrap(old(next))
}

// olds are the limiters of others, in front of what they serve. Each keeps its counts.
func olds(t *testing.T) map[string]http.Handler {
	t.Helper()
	goLimiter, err := goLimiterBefore(served)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]http.Handler{"httprate": httprateBefore(served), "ulule": ululeBefore(served), "go-limiter": goLimiter}
}

// TestASwitchRefillsNobody: who has used up the quota under the old limiter is refused by the new one at once, since the
// shadow has counted, and by the old one on the way back.
func TestASwitchRefillsNobody(t *testing.T) {
	const client = "203.0.113.7"
	for name, h := range olds(t) {
		store := memoryStore(t)
		old := func(http.Handler) http.Handler { return h }
		refused := 0
		watched := watching(store, old, func(e *httpgate.Event) {
			if e.Decision != nil && !e.Decision.Allowed {
				refused++
			}
		}, served)
		for n := range 101 {
			if w := ask(watched, client); (w.Code == http.StatusOK) != (n < 100) || w.Header().Get("RateLimit") != "" {
				t.Errorf("%s: request %d gets %d, %q while it is watched", name, n+1, w.Code, w.Header())
			}
		}
		if refused != 1 {
			t.Errorf("%s: the shadow tells of %d refusals, want 1", name, refused)
		}
		if w := ask(switched(store, old, served), client); w.Code != http.StatusTooManyRequests || w.Header().Get("RateLimit") == "" {
			t.Errorf("%s: the first request after the switch gets %d, %q", name, w.Code, w.Header())
		}
		if w := ask(watching(store, old, func(*httpgate.Event) {}, served), client); w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: the first request on the way back gets %d", name, w.Code)
		}
	}
}
