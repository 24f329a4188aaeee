package gingate

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
)

// A watch is a gate that looks at what is answered.
type watch struct {
	http.ResponseWriter
	status, written int
}

func (w *watch) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *watch) Write(b []byte) (int, error) {
	w.written += len(b)
	return w.ResponseWriter.Write(b)
}

func (w *watch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestGatesThatWatchSeeTheAnswer, however the handler gives it, and gin gives the same as without.
func TestGatesThatWatchSeeTheAnswer(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for target, c := range map[string]struct {
		handler gin.HandlerFunc
		want    string
	}{
		"/text":    {func(c *gin.Context) { c.String(201, "%s", "text") }, "201, 4 bytes"},
		"/json":    {func(c *gin.Context) { c.AbortWithStatusJSON(401, []int{1}) }, "401, 3 bytes"},
		"/status":  {func(c *gin.Context) { c.Status(204) }, "204, 0 bytes"},
		"/abort":   {func(c *gin.Context) { c.AbortWithStatus(403) }, "403, 0 bytes"},
		"/write":   {func(c *gin.Context) { io.WriteString(c.Writer, "some"); c.Writer.Flush() }, "200, 4 bytes"},
		"/flush":   {func(c *gin.Context) { c.Status(202); c.Writer.Flush(); io.WriteString(c.Writer, "late") }, "202, 4 bytes"},
		"/changed": {func(c *gin.Context) { c.Status(401); c.String(200, "fine") }, "200, 4 bytes"},
		"/nothing": {func(*gin.Context) {}, "200, 0 bytes"},
		"/nowhere": {nil, "404, 0 bytes"},
	} {
		var got string
		bare, watched := gin.New(), gin.New()
		watched.Use(middleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own := &watch{ResponseWriter: w}
				next.ServeHTTP(own, r)
				got = fmt.Sprintf("%d, %d bytes", own.status, own.written)
			})
		}))
		var answers []*httptest.ResponseRecorder
		for _, router := range []*gin.Engine{bare, watched} {
			if c.handler != nil {
				router.GET(target, c.handler)
			}
			w := httptest.NewRecorder()
			router.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
			answers = append(answers, w)
		}
		if got != c.want {
			t.Errorf("%s: the gate saw %s, want %s", target, got, c.want)
		}
		if a, b := answers[0], answers[1]; a.Code != b.Code || a.Body.String() != b.Body.String() || a.Flushed != b.Flushed {
			t.Errorf("%s: %d %q, without the gate %d %q", target, b.Code, b.Body, a.Code, a.Body)
		}
	}
}
