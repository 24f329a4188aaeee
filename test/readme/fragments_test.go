package main

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// The fragments of programs that pages show, word for word, so that they compile: TestGoOnPagesCompiles looks for them here. None
// of these functions is called.
var _ = []any{after, settling, client, operations, severalKeys, warnings, perRequest}

func after() {
	httpgate.RefundIf(func(status int) bool { return status < 400 })  // only failures count
	httpgate.RefundIf(func(status int) bool { return status >= 400 }) // only successes count

	httpgate.Ban(slidegate.PerMinute(5), time.Hour) // the fifth refusal within a minute: an hour
}

func settling(r *http.Request, tokens *slidegate.Limiter, estimate func(*http.Request) int64, used int64) (*httpgate.Gate, int64, error) {
	gate := httpgate.MustNew(tokens, httpgate.Cost(estimate), httpgate.Settling())
	// in the handler
	unpaid, err := httpgate.Settle(r.Context(), used)
	return gate, unpaid, err
}

func client(store slidegate.Store) *http.Client {
	limiter := slidegate.MustNew(store, slidegate.PerSecond(10)) // a store that all processes share
	client := &http.Client{Transport: httpgate.MustNewOutgoing(limiter, nil)}
	return client
}

func operations(byAddress, byKey *httpgate.Gate, mux *http.ServeMux) {
	byAddress.Wrap(byKey.Wrap(mux)) // byKey: httpgate.ByHeader("X-API-Key")

	httpgate.Exempt("GET /healthz from 10.0.0.0/8,127.0.0.1", "192.0.2.0/24")
	httpgate.Deny("203.0.113.0/24", "/internal/")
}

func severalKeys(store slidegate.Store, name func(*http.Request) string) (*httpgate.Gate, error) {
	account := httpgate.ByValue("account", name)
	gate, err := httpgate.New(slidegate.MustNew(store, slidegate.PerHour(60).Named("address")),
		httpgate.And(slidegate.MustNew(store, slidegate.PerDay(10).Named("pair")), httpgate.ByAll(account, httpgate.ByAddress())),
		httpgate.And(slidegate.MustNew(store, slidegate.PerDay(100).Named("account")), account),
		httpgate.And(slidegate.MustNew(store, slidegate.PerMinute(500).Named("everybody")), httpgate.ByEverybody()))
	return gate, err
}

func warnings(mux *http.ServeMux, most int64) {
	//lint:ignore SA4017 it is shown, not used
	httpgate.FailOpen()   // requests pass
	httpgate.FailClosed() // requests get a 503

	httpgate.Cost(func(r *http.Request) int64 {
		if r.ContentLength < 0 {
			return most
		}
		return r.ContentLength
	})

	httpgate.ByRoute(mux)

	//lint:ignore SA4017 it is shown, not used
	httpgate.ByEverybody()

	httpgate.TrustProxies("10.0.0.0/8")
}

func perRequest(free *slidegate.Limiter) (*slidegate.Limiter, error) {
	pro, err := free.With(slidegate.PerMinute(1000).Named("plan"))
	return pro, err
}
