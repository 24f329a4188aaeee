package recipes_test

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// api knows the key k1.
var api = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-API-Key") != "k1" {
		w.WriteHeader(http.StatusUnauthorized)
	}
})

func Example_publicAPI() {
	clock, store := standing()
	secret := []byte("at least 32 bytes, from the deployment")
	perKey := slidegate.MustNew(store, slidegate.PerSecond(10).Named("burst"), slidegate.PerHour(5000).Named("sustained"))
	perAddress := slidegate.MustNew(store, slidegate.PerMinute(1200).Named("address"))
	gate := httpgate.MustNew(perKey, httpgate.ByHeader("X-API-Key"), httpgate.Secret(secret),
		httpgate.And(perAddress, httpgate.ByAddress()),
		httpgate.Exempt("GET /healthz"))

	ask(12, gate.Wrap(api), "203.0.113.7", "GET /things", "X-API-Key: k1")
	clock.Advance(time.Second)
	ask(12, gate.Wrap(api), "203.0.113.7", "GET /things", "X-API-Key: k1")
	ask(1202, gate.Wrap(api), "198.51.100.9", "GET /things", "X-API-Key: made-up-#")
	// Output:
	// 10 × 200; 2 × 429 burst, again in 1 s
	// 10 × 200; 2 × 429 burst, again in 1 s
	// 1200 × 401; 2 × 429 address, again in 60 s
}
