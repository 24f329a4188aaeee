package recipes_test

import (
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// why says of whom no limit has refused that the contract has ended.
func why(violated ...string) httpgate.Problem {
	if len(violated) == 0 {
		return httpgate.Problem{Type: "about:blank", Title: "The contract has ended", Status: http.StatusForbidden}
	}
	return httpgate.QuotaExceeded(violated...)
}

func Example_plans() {
	_, store := standing()
	free := slidegate.MustNew(store, slidegate.PerDay(100).Named("plan"))
	pro := slidegate.MustNew(store, slidegate.PerDay(10_000).Named("plan"), slidegate.PerSecond(50).Named("burst"))
	plans := map[string]*slidegate.Limiter{"acme": free, "us": slidegate.Unlimited(), "gone": slidegate.Blocked()}
	gate := httpgate.MustNew(free, httpgate.ByClaim("tenant", tenant), httpgate.DenyAs(why),
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
			name, _ := tenant(r)
			return plans[name] // nil is free
		}))
	ask(102, gate.Wrap(hello), "203.0.113.7", "GET /", "Tenant: acme")
	plans["acme"] = pro // what is used stays used; while requests are coming in this needs a lock
	ask(52, gate.Wrap(hello), "203.0.113.7", "GET /", "Tenant: acme")
	ask(1, gate.Wrap(hello), "203.0.113.7", "GET /", "Tenant: gone")
	// Output:
	// 100 × 200; 2 × 429 plan, again in 86400 s
	// 50 × 200; 2 × 429 burst, again in 1 s
	// 403
}
