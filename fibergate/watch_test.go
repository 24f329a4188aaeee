package fibergate

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
)

// A watch is a gate that looks at what is answered.
type watch struct {
	http.ResponseWriter
	status int
}

func (w *watch) WriteHeader(status int) {
	w.status = status
	w.Header().Set("RateLimit", "after all")
	w.ResponseWriter.WriteHeader(status)
}

// TestGatesThatWatchSeeTheAnswer, however the handler gives it, and Fiber gives the same as without.
func TestGatesThatWatchSeeTheAnswer(t *testing.T) {
	for target, c := range map[string]struct {
		handler fiber.Handler
		want    int
	}{
		"/text":    {func(c fiber.Ctx) error { return c.Status(201).SendString("text") }, 201},
		"/status":  {func(c fiber.Ctx) error { return c.SendStatus(204) }, 204},
		"/error":   {func(fiber.Ctx) error { return fiber.NewError(401, "who?") }, 401},
		"/failure": {func(fiber.Ctx) error { return fmt.Errorf("out of order") }, 500},
		"/typed":   {func(c fiber.Ctx) error { c.Set("Content-Type", "a/b"); return c.SendString("typed") }, 200},
		"/nowhere": {nil, 404},
	} {
		var got int
		bare, watched := fiber.New(), fiber.New()
		watched.Use(middleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own := &watch{ResponseWriter: w}
				next.ServeHTTP(own, r)
				got = own.status
			})
		}))
		var answers, fields []string
		for _, app := range []*fiber.App{bare, watched} {
			if c.handler != nil {
				app.Get(target, c.handler)
			}
			r, err := app.Test(httptest.NewRequest("GET", target, nil))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			answers = append(answers, fmt.Sprint(r.StatusCode, " ", r.Header["Content-Type"], " ", string(body), err))
			fields = append(fields, r.Header.Get("RateLimit"))
		}
		if got != c.want || fields[1] != "after all" {
			t.Errorf("%s: the gate saw %d, want %d, and its field is %q", target, got, c.want, fields[1])
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: %s, without the gate %s", target, answers[1], answers[0])
		}
	}
}
