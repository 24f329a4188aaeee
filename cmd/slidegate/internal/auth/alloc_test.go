//go:build !race

package auth_test

import (
	"net/http"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// discard is a writer that keeps nothing but the header.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// TestAllocations: what the door and the gate behind it add to a request that is observed. It is left out of builds with the race
// detector, in which a sync.Pool drops things at random.
func TestAllocations(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	observed := 0
	g := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerHour(1e9)), httpgate.WithoutContext(), httpgate.Observe(func(*httpgate.Event) { observed++ }))
	h := door(t, auth.Config{Dialect: dialect(t, "nginx")}, g.Wrap)
	r, w := ask("GET", "/auth", append([]string{"User-Agent", "a"}, nginx...)...), discard{http.Header{}}
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); h.ServeHTTP(w, r) }); n > 4 || observed == 0 {
		t.Errorf("%v allocations for an admitted request, of %d, want at most 4", n, observed)
	}
}
