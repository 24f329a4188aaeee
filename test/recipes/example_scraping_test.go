package recipes_test

import (
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

func Example_scraping() {
	_, store := standing()
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(60).Named("pages")),
		httpgate.And(slidegate.MustNew(store, slidegate.PerHour(600).Named("network")), httpgate.ByNetwork(24, 48)),
		httpgate.Ban(slidegate.PerHour(30).Named("scraping"), time.Hour),
		httpgate.DenyAs(httpgate.AbnormalUsage), httpgate.Exempt("192.0.2.0/24")) // a search engine

	ask(92, gate.Wrap(hello), "203.0.113.7", "GET /page/#")
	ask(602, gate.Wrap(hello), "198.51.100.#", "GET /page/#") // many addresses, rented together
	// Output:
	// 60 × 200; 29 × 429 pages, again in 60 s; 3 × 429 ban:scraping, again in 3600 s
	// 600 × 200; 2 × 429 network, again in 3600 s
}
