package recipes_test

import (
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// answer takes as many tokens as it is told.
func answer(_ http.ResponseWriter, r *http.Request) (tokens int64) {
	tokens, err := strconv.ParseInt(r.PostFormValue("tokens"), 10, 64)
	if err != nil {
		panic(err)
	}
	return tokens
}

func Example_tokens() {
	_, store := standing()
	const most, maxTokens = 32 << 10, 1000 // bytes of a prompt, also where ContentLength is -1, not known; and its answer
	estimate := func(r *http.Request) int64 { return int64(min(uint64(r.ContentLength), most))/4 + maxTokens }
	perMinute, perDay := slidegate.PerMinute(10_000).Named("tokens"), slidegate.PerDay(200_000).Named("tokens-a-day")
	tokens := httpgate.MustNew(slidegate.MustNew(store, perMinute, perDay),
		httpgate.ByClaim("tenant", tenant), httpgate.Cost(estimate), httpgate.Settling())
	requests := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(60).Named("requests")),
		httpgate.ByClaim("tenant", tenant), httpgate.RefundIf(func(status int) bool { return status == 429 })) // by tokens
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { httpgate.Settle(r.Context(), answer(w, r)) })
	handler := http.MaxBytesHandler(requests.Wrap(tokens.Wrap(model)), most)
	ask(62, handler, "203.0.113.7", "POST /chat tokens=100", "Tenant: acme")
	ask(90, handler, "203.0.113.7", "POST /chat tokens=900", "Tenant: corp")
	ask(12, handler, "203.0.113.7", "POST /chat tokens=100 chunked", "Tenant: ours")
	// Output:
	// 60 × 200; 2 × 429 requests, again in 60 s
	// 10 × 200; 80 × 429 tokens, again in 60 s
	// 9 × 200; 3 × 429 tokens, again in 60 s
}
