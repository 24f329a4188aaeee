package echogate_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/echogate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
	"github.com/slidegate/slidegate/memstore"
)

// server returns an Echo that logs nothing.
func server() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	return e
}

// gates returns the middlewares of a list.
func gates(list []httpgatetest.Gate) (all []echo.MiddlewareFunc) {
	for _, g := range list {
		all = append(all, echogate.MustNew(g.Limiter, g.Options...))
	}
	return all
}

// TestGate: the gate keeps the laws of every gate over HTTP.
func TestGate(t *testing.T) {
	httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string {
		send := func(c *echo.Context, body []byte) error { return c.Blob(http.StatusOK, httpgatetest.Text, body) }
		hello := func(c *echo.Context) error { return send(c, app.Hello()) }
		e := server()
		e.Use(middleware.Recover())
		e.Use(gates(app.All)...)
		e.Match([]string{"GET", "HEAD", "POST"}, "/hello", hello)
		group := e.Group("/group", gates(app.Group)...)
		group.GET("/a", hello)
		group.GET("/b", hello)
		e.GET("/alone", hello, gates(app.Alone)...)
		e.POST("/echo", func(c *echo.Context) error {
			body, err := io.ReadAll(c.Request().Body)
			if err != nil {
				return err
			}
			return send(c, app.Echo(body))
		})
		e.GET("/decision", func(c *echo.Context) error { return send(c, app.Decision(echogate.FromContext(c))) })
		e.GET("/stream", func(c *echo.Context) error {
			c.Response().Header().Set("Content-Type", httpgatetest.Text)
			for chunk := range app.Chunks() {
				_, _ = c.Response().Write(chunk)
				_ = http.NewResponseController(c.Response()).Flush()
			}
			return nil
		})
		e.GET("/panic", func(*echo.Context) error { app.Panic(); return nil })
		s := &http.Server{Handler: e}
		return httpgatetest.Listen(t, app, s.Serve, s.Close)
	})
}

// ask sends a request to a server and returns the status and the body.
func ask(h http.Handler, method, target string, fields ...string) (int, string) {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func text(s string) echo.HandlerFunc {
	return func(c *echo.Context) error { return c.String(http.StatusOK, s) }
}

// TestRoutesAreKeys: no spelling of a path has a quota of its own, and parameters tell items apart.
func TestRoutesAreKeys(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	seen := map[string]bool{}
	byRoute := httpgate.By(func(r *http.Request) (string, error) {
		seen[r.Pattern] = true
		if c := echogate.Context(r); r.Pattern != c.Path() {
			return "", fmt.Errorf("the pattern is %q", r.Pattern)
		}
		return httpgate.Join(r.Pattern, echogate.Context(r).Param("shop")), nil
	})
	e := server()
	e.Use(echogate.MustNew(limiter, byRoute))
	e.GET("/shops/:shop/items/:id", text("item"))
	for _, c := range []struct {
		target string
		status int
	}{
		{"/shops/a/items/1", 200}, {"/shops/a/items/%32", 200}, {"/shops/a/items/3?x=y", 429},
		{"/shops/b/items/1", 200},
		{"/nowhere", 404}, {"/elsewhere", 404}, {"/anywhere", 429}, // one bucket for what has no route
	} {
		if status, _ := ask(e, "GET", c.target); status != c.status {
			t.Errorf("%s: status %d, want %d", c.target, status, c.status)
		}
	}
	if len(seen) != 2 || !seen["/shops/:shop/items/:id"] || !seen[""] {
		t.Errorf("the patterns are %v", seen)
	}
}

// TestWhatARouteIs, as docs/frameworks.md has it: no pattern has a method, and another method of a path has its pattern.
func TestWhatARouteIs(t *testing.T) {
	var keys []string
	gate := echogate.PerIP(slidegate.PerMinute(9), httpgate.ByRoute(nil), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) }))
	e := server()
	e.Use(gate)
	e.GET("/users/:id", text("user"))
	e.POST("/users/:id", text("user"))
	for _, request := range []string{"GET /users/7", "POST /users/7", "PUT /users/7", "GET /nowhere"} {
		method, target, _ := strings.Cut(request, " ")
		ask(e, method, target)
	}
	want := []string{"route:/users/:id", "route:/users/:id", "route:/users/:id", "ip:192.0.2.1"}
	if !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
}

// TestKeysOfEarlierMiddleware: what authentication has set is a key.
func TestKeysOfEarlierMiddleware(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	e := server()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", c.Request().Header.Get("Authorization"))
			return next(c)
		}
	})
	e.Use(echogate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		return fmt.Sprint("user:", echogate.Context(r).Get("user")), nil
	})))
	e.GET("/", text("hello"))
	for _, c := range []struct {
		user   string
		status int
	}{{"ann", 200}, {"ben", 200}, {"ann", 429}} {
		if status, _ := ask(e, "GET", "/", "Authorization", c.user); status != c.status {
			t.Errorf("%s: status %d, want %d", c.user, status, c.status)
		}
	}
}

// TestRealIPIsNotBelieved: Echo's own view of the client, which anybody may be able to choose, is no key.
func TestRealIPIsNotBelieved(t *testing.T) {
	e := server()
	e.IPExtractor = echo.LegacyIPExtractor()
	e.Use(echogate.PerIP(slidegate.PerMinute(1)))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, c.RealIP()) })
	if status, body := ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.7"); status != 200 || body != "203.0.113.7" {
		t.Errorf("status %d, Echo takes the client for %q", status, body)
	}
	if status, _ := ask(e, "GET", "/", "X-Forwarded-For", "203.0.113.8"); status != 429 {
		t.Errorf("another claim: status %d, want 429", status)
	}
}

// TestRefusalsAreNoErrors: nothing later runs, and earlier middleware finds an answer and no error.
// The errors of handlers go where they go without a gate.
func TestRefusalsAreNoErrors(t *testing.T) {
	teapot := echo.NewHTTPError(http.StatusTeapot, "short and stout")
	var seen []string
	e := server()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			response, _ := echo.UnwrapResponse(c.Response())
			seen = append(seen, fmt.Sprint(response.Committed, " ", err))
			return err
		}
	})
	e.Use(echogate.PerIP(slidegate.PerMinute(1)))
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { seen = append(seen, "later"); return next(c) }
	})
	e.GET("/", func(*echo.Context) error { return teapot })
	first, _ := ask(e, "GET", "/")
	second, _ := ask(e, "GET", "/")
	if got, want := strings.Join(seen, ", "), "later, false "+teapot.Error()+", true <nil>"; got != want || first != 418 || second != 429 {
		t.Errorf("%d, %d: %s, want 418, 429: %s", first, second, got, want)
	}
}

// TestOnDenyIsAHandlerOfEcho: it answers as handlers do, errors with the HTTPErrorHandler, and ends the chain.
func TestOnDenyIsAHandlerOfEcho(t *testing.T) {
	for name, c := range map[string]struct {
		handler echo.HandlerFunc
		status  int
		body    string
	}{
		"nothing": {func(*echo.Context) error { return nil }, 429, ""},
		"json": {func(c *echo.Context) error {
			d, _ := echogate.FromContext(c)
			return c.JSON(503, map[string]any{"wait": d.RetryAfter().Seconds()})
		}, 503, `{"wait":60}`},
		"an error": {func(*echo.Context) error { return echo.ErrTooManyRequests }, 429, `{"message":"Too Many Requests"}`},
	} {
		store := memstore.New(memstore.WithClock(new(gatetest.Clock).Now))
		e := server()
		e.Use(echogate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1)), echogate.OnDeny(c.handler)))
		e.GET("/", text("hello"))
		ask(e, "GET", "/")
		if status, body := ask(e, "GET", "/"); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, c.status, c.body)
		}
	}
}

// TestSharedGates: one gate before handlers of both worlds has one budget, and each is answered in its own way.
func TestSharedGates(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	onDeny := echogate.OnDeny(func(*echo.Context) error { t.Error("Echo answers for net/http"); return nil })
	gate := httpgate.MustNew(limiter, httpgate.ByEverybody(), onDeny)
	e := server()
	e.Use(echogate.Wrap(gate))
	e.GET("/", text("hello"))
	plain := gate.Wrap(http.NotFoundHandler())
	if status, body := ask(e, "GET", "/"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	w := httptest.NewRecorder()
	if plain.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 429 || !strings.Contains(w.Body.String(), "quota-exceeded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestMistakesAreErrors: as they are for package httpgate.
func TestMistakesAreErrors(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	if h, err := echogate.New(limiter, httpgate.TrustHops(99)); h != nil || !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	if _, err := echogate.New(limiter, echogate.OnDeny(nil)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	if h, err := echogate.New(limiter); h == nil || err != nil {
		t.Errorf("got %v", err)
	}
	if c := echogate.Context(httptest.NewRequest("GET", "/", nil)); c != nil {
		t.Errorf("a request without a gate has a context %v", c)
	}
}
