package httpgate_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// BenchmarkGate is what a gate adds to ServeHTTP on a request that is admitted, and all that a
// refused one costs.
func BenchmarkGate(b *testing.B) {
	none := httpgate.Headers()
	for _, c := range []struct {
		name    string
		quota   int64
		tiers   int
		options []httpgate.Option
	}{
		{"admitted", slidegate.MaxQuota, 1, nil},
		{"admitted/3 limits", slidegate.MaxQuota, 3, nil},
		{"admitted/no fields", slidegate.MaxQuota, 1, []httpgate.Option{none}},
		{"admitted/by header", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.ByHeader("X-API-Key")}},
		{"admitted/behind a proxy", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.TrustProxies("203.0.113.0/24")}},
		{"admitted/not given back", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.RefundIf(func(int) bool { return false })}},
		{"admitted/given back", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.RefundIf(func(int) bool { return true })}},
		{"admitted/not banned", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.Ban(slidegate.PerMinute(10), time.Hour)}},
		{"admitted/in shadow mode", slidegate.MaxQuota, 1, []httpgate.Option{httpgate.Shadow()}},
		{"refused", 1, 1, nil},
		{"refused/3 limits", 1, 3, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			var tiers []slidegate.Limit
			for i := range c.tiers {
				tiers = append(tiers, slidegate.PerDay(c.quota).Named(fmt.Sprint("tier", i)).Counter())
			}
			l := slidegate.MustNew(memstore.New(), tiers...)
			h := httpgate.MustNew(l, c.options...).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w := &discard{http.Header{}}
			r := request("GET", "/", "203.0.113.7:51234", "X-API-Key", "0123456789abcdef", "X-Forwarded-For", "198.51.100.7")
			h.ServeHTTP(w, r)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}
