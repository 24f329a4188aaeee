package echov4gate

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// A watch is a gate that looks at what is answered.
type watch struct {
	http.ResponseWriter
	status, written int
}

func (w *watch) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watch) Write(b []byte) (int, error) {
	w.written += len(b)
	return w.ResponseWriter.Write(b)
}

func (w *watch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestGatesThatWatchSeeTheAnswer, however the handler gives it, and Echo gives the same as without.
func TestGatesThatWatchSeeTheAnswer(t *testing.T) {
	for target, c := range map[string]struct {
		handler echo.HandlerFunc
		want    string
	}{
		"/text":    {func(c echo.Context) error { return c.String(201, "text") }, "201, 4 bytes"},
		"/status":  {func(c echo.Context) error { return c.NoContent(204) }, "204, 0 bytes"},
		"/error":   {func(echo.Context) error { return echo.NewHTTPError(401, "who?") }, "401, 19 bytes"},
		"/failure": {func(echo.Context) error { return fmt.Errorf("out of order") }, "500, 36 bytes"},
		"/late":    {func(c echo.Context) error { _ = c.String(202, "yes"); return fmt.Errorf("no") }, "202, 3 bytes"},
		"/nowhere": {nil, "404, 24 bytes"},
	} {
		var got string
		bare, watched := echo.New(), echo.New()
		watched.Use(middleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own := &watch{ResponseWriter: w}
				next.ServeHTTP(own, r)
				got = fmt.Sprintf("%d, %d bytes", own.status, own.written)
			})
		}))
		var answers []*httptest.ResponseRecorder
		for _, e := range []*echo.Echo{bare, watched} {
			e.Logger.SetOutput(io.Discard)
			if c.handler != nil {
				e.GET(target, c.handler)
			}
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
			answers = append(answers, w)
		}
		if got != c.want {
			t.Errorf("%s: the gate saw %s, want %s", target, got, c.want)
		}
		if a, b := answers[0], answers[1]; a.Code != b.Code || a.Body.String() != b.Body.String() {
			t.Errorf("%s: %d %q, without the gate %d %q", target, b.Code, b.Body, a.Code, a.Body)
		}
	}
}
