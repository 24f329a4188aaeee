package recipes_test

import (
	"io"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

func Example_uploads() {
	_, store := standing()
	const most = 4 << 20 // of one upload
	size := func(r *http.Request) int64 {
		if r.ContentLength < 0 {
			return most // not known yet
		}
		return max(r.ContentLength, 1)
	}
	bytes := slidegate.MustNew(store, slidegate.PerHour(10<<20).Named("bytes"))
	gate := httpgate.MustNew(bytes, httpgate.Cost(size), httpgate.Settling())
	handler := gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, most))
		httpgate.Settle(r.Context(), n)
	}))
	upload(handler, "4 MB", "1 MB, chunked", "4 MB", "2 MB")
	// Output:
	// 3 × 200; 429 bytes, again in 3600 s
}
