package recipes_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// atOnce answers requests with a handler, without a network, whose waits a bubble of synctest could not skip.
type atOnce struct{ http.Handler }

func (h atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestWhatIsSentIsCharged: a Transport around an Outgoing charges what is sent and nothing else, also when a
// host refuses and the Transport sends again. The other way round each call is charged once, sent or not.
func TestWhatIsSentIsCharged(t *testing.T) {
	for _, c := range []struct {
		name    string
		charged int64
		of      func(*slidegate.Limiter, http.RoundTripper) http.RoundTripper
	}{
		{"Transport around Outgoing", 2, func(ours *slidegate.Limiter, host http.RoundTripper) http.RoundTripper {
			return httpgate.MustNewTransport(httpgate.MustNewOutgoing(ours, host), httpgate.MaxWait(5*time.Second))
		}},
		{"Outgoing around Transport", 4, func(ours *slidegate.Limiter, host http.RoundTripper) http.RoundTripper {
			return httpgate.MustNewOutgoing(ours, httpgate.MustNewTransport(host, httpgate.MaxWait(5*time.Second)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, store := standing()
				ours := slidegate.MustNew(store, slidegate.PerMinute(100).Named("ours"))
				sent := 0
				host := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if sent++; sent == 1 {
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					w.Header().Set("RateLimit", `"theirs";r=0;t=60`)
					w.Header().Set("RateLimit-Policy", `"theirs";q=1;w=60`)
				})
				client := &http.Client{Transport: c.of(ours, atOnce{host})}
				notSent := 0
				for range 4 {
					resp, err := client.Get("http://api.example")
					if err != nil {
						notSent++
						continue
					}
					resp.Body.Close()
				}
				d, err := ours.Peek(context.Background(), "host:http://api.example")
				if err != nil {
					t.Fatal(err)
				}
				if charged := 100 - d.Remaining(); sent != 2 || notSent != 3 || charged != c.charged {
					t.Errorf("%d were sent, %d were not, %d were charged; want 2, 3 and %d", sent, notSent, charged, c.charged)
				}
			})
		})
	}
}
