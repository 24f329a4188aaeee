//go:build !race

package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/api"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// discard is a writer that keeps nothing but the header.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// TestAllocations: what the door adds to a take that is observed. It is left out of builds with the race detector, in which a
// sync.Pool drops things at random.
func TestAllocations(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	limiter, observed := slidegate.MustNew(store, slidegate.PerHour(1e9)), 0
	h, err := api.New(api.Config{
		Limiter: func(string) *slidegate.Limiter { return limiter },
		Gate:    []httpgate.Option{httpgate.Observe(func(*httpgate.Event) { observed++ })},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"key":"user:42"}`)
	body := bytes.NewReader(text)
	r, w := httptest.NewRequest("POST", "/v1/take", nil), discard{http.Header{}}
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(body), int64(len(text))
	if n := testing.AllocsPerRun(1000, func() { clear(w.h); body.Reset(text); h.ServeHTTP(w, r) }); n > 3 || observed == 0 {
		t.Errorf("%v allocations for an admitted take, of %d, want at most 3", n, observed)
	}
}
