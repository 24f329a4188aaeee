package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/api"
	"github.com/slidegate/slidegate/memstore"
)

// BenchmarkTake is requests over kept connections: to the door, and to a bare server that reads the same bodies and
// answers with the same bytes.
func BenchmarkTake(b *testing.B) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerHour(1_000_000_000_000).Named("hour"))
	door, err := api.New(api.Config{Limiter: func(string) *slidegate.Limiter { return limiter }})
	if err != nil {
		b.Fatal(err)
	}
	const body = `{"key":"user:42"}`
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/take", bytes.NewBufferString(body))
	r.Header.Set("Content-Type", "application/json")
	door.ServeHTTP(answer, r)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := w.Header()
		for name, values := range answer.Header() {
			h[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"door", door}, {"bare", bare}} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := client.Post(server.URL+"/v1/take", "application/json", bytes.NewBufferString(body))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
	b.Run("handler", func(b *testing.B) { // without the network
		b.ReportAllocs()
		w := httptest.NewRecorder()
		for b.Loop() {
			r.Body = io.NopCloser(bytes.NewBufferString(body))
			w.Body.Reset()
			clear(w.Header())
			door.ServeHTTP(w, r)
		}
	})
}
