package clock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidegate/slidegate/examples/clock"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// TestTwiceAnHour, in no time at all.
func TestTwiceAnHour(t *testing.T) {
	now := gatetest.NewClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	handler := clock.New(memstore.New(memstore.WithClock(now.Now)))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{0, http.StatusOK},
		{30 * time.Minute, http.StatusOK},
		{0, http.StatusTooManyRequests},
		{30*time.Minute - time.Millisecond, http.StatusTooManyRequests},
		{time.Millisecond, http.StatusOK}, // the first is an hour ago
		{0, http.StatusTooManyRequests},
	} {
		now.Advance(step.after)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != step.want {
			t.Errorf("at %s: %d, want %d", now.Now().Format("15:04:05.000"), w.Code, step.want)
		}
	}
}
