//go:build !race

package httpgate_test

import (
	"net/http"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// TestAllocations: what the gate adds to a request of a connection that has asked before. It is left out of builds with
// the race detector, in which a sync.Pool drops things at random.
func TestAllocations(t *testing.T) {
	s := newSite(t, limits(slidegate.PerHour(1e9).Named("burst"), slidegate.PerDay(1e9).Named("day")))
	h := s.handler
	w := &discard{http.Header{}}
	r := request("GET", "/", "203.0.113.7:1")
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); h.ServeHTTP(w, r) }); n > 1 {
		t.Errorf("%v allocations for an admitted request with its fields and its decision, want at most 1", n)
	}
	apart := newSite(t, limits(slidegate.PerHour(1e9).Named("burst"), slidegate.PerDay(1e9).Named("day")), httpgate.WithoutContext()).handler
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); apart.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations for an admitted request with its fields, want none", n)
	}
	observed := newSite(t, limits(slidegate.PerHour(1e9)), httpgate.WithoutContext(), httpgate.Observe(func(*httpgate.Event) {})).handler
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); observed.ServeHTTP(w, r) }); n > 1 {
		t.Errorf("%v allocations for an admitted request that is observed, want at most 1", n)
	}
	refused := newSite(t, limits(slidegate.PerHour(1).Named("burst"), slidegate.PerDay(1).Named("day"))).handler
	refused.ServeHTTP(w, r)
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); refused.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations for a refused request, want none", n)
	}
	skipped := newSite(t, limits(slidegate.PerHour(1)), httpgate.Skip(func(*http.Request) bool { return true })).handler
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); skipped.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations for a skipped request, want none", n)
	}
}
