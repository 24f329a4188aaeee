package recipes_test

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// signer is whose signature a request has. Here a token stands for one.
func signer(r *http.Request) (string, bool) {
	return "shop", r.Header.Get("Signature") == "of-shop"
}

// enqueue takes what is signed.
var enqueue = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, ok := signer(r); !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusAccepted)
})

func Example_webhook() {
	clock, store := standing()
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(300).Named("deliveries")),
		httpgate.ByClaim("sender", signer),        // without a signature: by address
		httpgate.DenyAs(httpgate.ReducedCapacity), // 503, since some senders give up on every 4xx
		httpgate.FailClosed())                     // 503 too: what is not taken is sent again

	ask(302, gate.Wrap(enqueue), "203.0.113.7", "POST /hook", "Signature: of-shop")
	ask(1, gate.Wrap(enqueue), "198.51.100.9", "POST /hook", "Signature: forged")
	clock.Advance(time.Minute)
	ask(2, gate.Wrap(enqueue), "203.0.113.7", "POST /hook", "Signature: of-shop")
	// Output:
	// 300 × 202; 2 × 503 deliveries, again in 60 s
	// 401
	// 2 × 202
}
