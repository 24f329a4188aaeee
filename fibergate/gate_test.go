package fibergate_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/fibergate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
	"github.com/slidegate/slidegate/memstore"
)

// gates returns the handlers of a list, in front of a last one.
func gates(list []httpgatetest.Gate, last ...fiber.Handler) (all []any) {
	for _, g := range list {
		all = append(all, fibergate.MustNew(g.Limiter, g.Options...))
	}
	for _, h := range last {
		all = append(all, h)
	}
	return all
}

// TestGate: the gate keeps the laws of every gate over HTTP, however Fiber reads requests.
func TestGate(t *testing.T) {
	for name, config := range map[string]fiber.Config{
		"AsItIs":    {},
		"Streaming": {StreamRequestBody: true},
	} {
		t.Run(name, func(t *testing.T) {
			httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string { return serve(t, app, config) })
		})
	}
}

func serve(t testing.TB, app *httpgatetest.App, config fiber.Config) string {
	send := func(c fiber.Ctx, body []byte) error {
		c.Set("Content-Type", httpgatetest.Text)
		return c.Send(body)
	}
	hello := func(c fiber.Ctx) error { return send(c, app.Hello()) }
	f := fiber.New(config)
	f.Use(recovery.New())
	for _, g := range gates(app.All) {
		f.Use(g)
	}
	f.Get("/hello", hello).Post("/hello", hello)
	group := f.Group("/group", gates(app.Group)...)
	group.Get("/a", hello)
	group.Get("/b", hello)
	alone := gates(app.Alone, hello)
	f.Get("/alone", alone[0], alone[1:]...)
	f.Post("/echo", func(c fiber.Ctx) error { return send(c, app.Echo(c.Body())) })
	f.Get("/decision", func(c fiber.Ctx) error { return send(c, app.Decision(fibergate.FromContext(c))) })
	f.Get("/stream", func(c fiber.Ctx) error {
		c.Set("Content-Type", httpgatetest.Text)
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for chunk := range app.Chunks() {
				_, _ = w.Write(chunk)
				_ = w.Flush()
			}
		})
	})
	f.Get("/panic", func(fiber.Ctx) error { app.Panic(); return nil })
	return httpgatetest.Listen(t, app, func(l net.Listener) error {
		return f.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, func() error { return f.ShutdownWithTimeout(10 * time.Second) })
}

// ask sends a request to an app and returns the status and the body.
func ask(app *fiber.App, method, target string, fields ...string) (int, string) {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	response, err := app.Test(r)
	if err != nil {
		return 0, err.Error()
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func text(s string) fiber.Handler { return func(c fiber.Ctx) error { return c.SendString(s) } }

// TestRoutesAreKeys, in a gate that stands in the route, and parameters tell items apart.
func TestRoutesAreKeys(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	gate := fibergate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		c := fibergate.Context(r)
		if r.Pattern != c.Route().Path {
			return "", fmt.Errorf("the pattern is %q", r.Pattern)
		}
		return httpgate.Join(r.Pattern, c.Params("shop")), nil
	}))
	app := fiber.New()
	app.Get("/shops/:shop/items/:id", gate, text("item"))
	app.Get("/shops/:shop", gate, text("shop"))
	for _, c := range []struct {
		target string
		status int
	}{
		{"/shops/a/items/1", 200}, {"/shops/a/items/%32", 200}, {"/shops/a/items/3?x=y", 429}, {"/SHOPS/a/items/3/", 429},
		{"/shops/b/items/1", 200}, {"/shops/a", 200},
	} {
		if status, _ := ask(app, "GET", c.target); status != c.status {
			t.Errorf("%s: status %d, want %d", c.target, status, c.status)
		}
	}
}

// TestPatternsAreThoseOfRoutes, wherever the gate stands: what all routes have in common is none.
func TestPatternsAreThoseOfRoutes(t *testing.T) {
	var seen []string
	look := func() fiber.Handler {
		return fibergate.MustNew(slidegate.Unlimited(), httpgate.By(func(r *http.Request) (string, error) {
			seen = append(seen, r.Pattern)
			return "", nil
		}))
	}
	next := func(c fiber.Ctx) error { return c.Next() }
	app := fiber.New()
	app.Use(look())
	app.Use("/api", next, look(), next)
	app.Get("/", look(), text("root"))
	app.Get("/alone", func(c fiber.Ctx) error { return look()(c) })
	group := app.Group("/api", look())
	group.Get("/items/:id", next, look(), text("item"))
	group.All("/any", look(), next, text("any"))
	sub := fiber.New()
	sub.Use(look(), next)
	sub.Get("/:x", look(), text("mounted"))
	app.Use("/sub", sub)
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/", `["" "/"]`},
		{"GET", "/alone", `["" "/alone"]`},
		{"GET", "/api/items/7", `["" "" "" "/api/items/:id"]`},
		{"HEAD", "/api/items/7", `["" "" "" "/api/items/:id"]`},
		{"PUT", "/api/any", `["" "" "" "/api/any"]`},
		{"GET", "/sub/7", `["" "" "/sub/:x"]`},
		{"GET", "/nowhere", `[""]`},
	} {
		for range 2 { // the second time it is remembered
			seen = nil
			ask(app, c.method, c.target)
			if got := fmt.Sprintf("%q", seen); got != c.want {
				t.Errorf("%s %s: %s, want %s", c.method, c.target, got, c.want)
			}
		}
	}
}

// TestByRouteBeforeTheRouteIsKnown counts each client by its address, never all in one, and warns.
func TestByRouteBeforeTheRouteIsKnown(t *testing.T) {
	var log bytes.Buffer
	gate := httpgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.PerHour(1_000_000)), httpgate.ByRoute(nil), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	app := fiber.New()
	app.Use(fibergate.Wrap(gate))
	app.Get("/:x", func(c fiber.Ctx) error {
		d, _ := fibergate.FromContext(c)
		return c.SendString(d.Key())
	})
	for range 1000 {
		if _, key := ask(app, "GET", "/7"); key != "ip:0.0.0.0" {
			t.Fatalf("the key is %q", key)
		}
	}
	if !strings.Contains(log.String(), "warning=no-key") {
		t.Errorf("logged %s", &log)
	}
}

// TestWhatARouteIs, as docs/frameworks.md has it: no pattern has a method, and a gate in a route is asked of nothing else.
func TestWhatARouteIs(t *testing.T) {
	var keys []string
	gate := fibergate.PerIP(slidegate.PerMinute(9), httpgate.ByRoute(nil), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) }))
	app := fiber.New()
	app.Get("/users/:id", gate, text("user"))
	app.Post("/users/:id", gate, text("user"))
	for _, request := range []string{"GET /users/7", "POST /users/7", "PUT /users/7", "GET /nowhere"} {
		method, target, _ := strings.Cut(request, " ")
		ask(app, method, target)
	}
	want := []string{"route:/users/:id", "route:/users/:id"}
	if !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
}

// exchange sends requests to an app, one after the other over one connection, and returns the bodies.
func exchange(t *testing.T, app *fiber.App, requests ...string) (bodies []string) {
	t.Helper()
	address := httpgatetest.Listen(t, &httpgatetest.App{Host: "127.0.0.1"}, func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, app.Shutdown)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for reader := bufio.NewReader(conn); len(bodies) < len(requests); {
		_, _ = io.WriteString(conn, requests[len(bodies)])
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(body))
	}
	return bodies
}

// TestKeysOfFiberAreCopied: what Fiber's context gives is only good for its request, a key is for longer.
func TestKeysOfFiberAreCopied(t *testing.T) {
	var kept []*slidegate.Decision
	var requests []string
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(9))
	app := fiber.New()
	app.Get("/users/:user", fibergate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		return fibergate.Context(r).Params("user"), nil
	})), func(c fiber.Ctx) error {
		d, _ := fibergate.FromContext(c)
		kept = append(kept, d)
		return nil
	})
	users := []string{"Ann", "Ben", "Cem"}
	for _, user := range users {
		requests = append(requests, "GET /users/"+user+" HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	exchange(t, app, requests...)
	for i, user := range users {
		if kept[i].Key() != user {
			t.Errorf("the decision on %s has the key %q", user, kept[i].Key())
		}
	}
}

// TestKeysOfEarlierHandlers: what authentication has set is a key.
func TestKeysOfEarlierHandlers(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.Locals("user", c.Get("Authorization"))
		return c.Next()
	})
	app.Use(fibergate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		return fmt.Sprint("user:", fibergate.Context(r).Locals("user")), nil
	})))
	app.Get("/", text("hello"))
	for _, c := range []struct {
		user   string
		status int
	}{{"ann", 200}, {"ben", 200}, {"ann", 429}} {
		if status, _ := ask(app, "GET", "/", "Authorization", c.user); status != c.status {
			t.Errorf("%s: status %d, want %d", c.user, status, c.status)
		}
	}
}

// TestRequestsOfAppTestAreOneClient: fiber.App.Test gives them all the same address.
func TestRequestsOfAppTestAreOneClient(t *testing.T) {
	app := fiber.New()
	app.Get("/", fibergate.PerIP(slidegate.PerMinute(1)), text("hello"))
	for _, want := range []int{200, 429} {
		if status, body := ask(app, "GET", "/"); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
}

// TestUnreadBodiesAreNoRequests: a request that is hidden in the body of a refused one is not served, also
// where Fiber streams bodies.
func TestUnreadBodiesAreNoRequests(t *testing.T) {
	hidden := "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
	long := func(n int) string { return strings.Repeat("x", n) + hidden }
	for name, c := range map[string]struct{ field, body string }{
		"short":    {"Content-Length", long(10)},
		"buffered": {"Content-Length", long(8 << 10)},
		"long":     {"Content-Length", long(100 << 10)},
		"too long": {"Content-Length", long(1 << 20)},
		"chunked":  {"Transfer-Encoding", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)},
	} {
		for _, onDeny := range []httpgate.Option{httpgate.DenyWith(429, "no"), fibergate.OnDeny(func(fiber.Ctx) error { return fiber.ErrTooManyRequests })} {
			var paths []string
			app := fiber.New(fiber.Config{StreamRequestBody: true})
			app.Use(fibergate.MustNew(slidegate.Blocked(), onDeny, httpgate.Skip(func(r *http.Request) bool {
				paths = append(paths, r.URL.Path)
				return r.URL.Path == "/next"
			})))
			app.Get("/next", text("hello"))
			address := httpgatetest.Listen(t, &httpgatetest.App{Host: "127.0.0.1"}, func(l net.Listener) error {
				return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
			}, app.Shutdown)
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			value := fmt.Sprint(len(c.body))
			if c.field == "Transfer-Encoding" {
				value = "chunked"
			}
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\n%s: %s\r\n\r\n%sGET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", c.field, value, c.body)
			_, _ = io.Copy(io.Discard, conn) // until the server closes it
			conn.Close()
			if got := strings.Join(paths, " "); got != "/" && got != "/ /next" {
				t.Errorf("%s: asked for %s, want / and perhaps /next", name, got)
			}
		}
	}
}

// TestPathsAreThoseOfFiber: what is exempt or denied goes by the path that Fiber routes by, however a request
// line spells it. At "*" the gate sees every request, also those whose path begins with no slash.
func TestPathsAreThoseOfFiber(t *testing.T) {
	for line, want := range map[string]string{
		"/health":            "health uncounted",
		"http://x/health":    "health uncounted",
		"x://y/health":       "health uncounted",
		"/health?x":          "health uncounted",
		"/health#x":          "health counted",
		"/heal%74h":          "rest counted",
		"x:/health":          "rest counted",
		"health":             "rest counted",
		"*":                  "rest counted",
		"?/health":           "rest counted",
		"//x/health":         "rest counted",
		"/secret":            "denied",
		"/secret#x":          "denied",
		"/s%65cret#x":        "denied",
		"/SECRET/":           "denied",
		"//secret":           "denied",
		"/x/../secret":       "denied",
		"http://x/secret#/x": "denied",
		"secret":             "denied",
	} {
		limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
		app := fiber.New()
		app.Use("*", fibergate.MustNew(limiter, httpgate.Exempt("/health"), httpgate.Deny("/secret"), httpgate.ForbidWith(403, "denied")))
		answer := func(name string) fiber.Handler {
			return func(c fiber.Ctx) error {
				if _, counted := fibergate.FromContext(c); !counted {
					return c.SendString(name + " uncounted")
				}
				return c.SendString(name + " counted")
			}
		}
		app.Get("/health", answer("health")).Get("/secret", answer("secret")).Get("/*", answer("rest"))
		if got := exchange(t, app, "GET "+line+" HTTP/1.1\r\nHost: x\r\n\r\n"); got[0] != want {
			t.Errorf("%s: %q, want %q", line, got[0], want)
		}
	}
}

// TestIPIsNotBelieved: what Fiber takes for the client even behind a trusted proxy, the client has chosen.
func TestIPIsNotBelieved(t *testing.T) {
	var keys []string
	app := fiber.New(fiber.Config{
		TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Loopback: true},
		ProxyHeader: fiber.HeaderXForwardedFor, EnableIPValidation: true,
	})
	app.Use(fibergate.PerIP(slidegate.PerMinute(9), httpgate.TrustProxies("127.0.0.1"), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) })))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString(c.IP()) })
	body := exchange(t, app, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7, 198.51.100.1\r\n\r\n")
	if got := fmt.Sprint(keys); body[0] != "203.0.113.7" || got != "[ip:198.51.100.1]" {
		t.Errorf("Fiber takes the client for %q, the gate for %s", body, got)
	}
}

// TestRefusalsAreNoErrors: nothing later runs, and earlier handlers find an answer and no error. The
// errors of handlers go where they go without a gate, and the fields stay.
func TestRefusalsAreNoErrors(t *testing.T) {
	var seen []string
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		err := c.Next()
		seen = append(seen, fmt.Sprint(c.Response().StatusCode(), " ", err))
		return err
	})
	app.Use(fibergate.PerIP(slidegate.PerMinute(1)))
	app.Use(func(c fiber.Ctx) error { seen = append(seen, "later"); return c.Next() })
	app.Get("/", func(fiber.Ctx) error { return fiber.NewError(418, "short and stout") })
	for i, want := range []int{418, 429} {
		response, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil || response.StatusCode != want || response.Header.Get("RateLimit") != `"1/1m";r=0;t=60` {
			t.Errorf("request %d: %+v, %v", i, response, err)
		}
	}
	if got, want := strings.Join(seen, ", "), "later, 200 short and stout, 429 <nil>"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestOnDenyIsAHandlerOfFiber: it answers as handlers do, errors with the ErrorHandler, and ends the chain.
func TestOnDenyIsAHandlerOfFiber(t *testing.T) {
	for name, c := range map[string]struct {
		handler           fiber.Handler
		status            int
		contentType, body string
	}{
		"nothing": {func(fiber.Ctx) error { return nil }, 429, "", ""},
		"a body":  {func(c fiber.Ctx) error { return c.SendString("later") }, 429, "text/plain; charset=utf-8", "later"},
		"json": {func(c fiber.Ctx) error {
			d, _ := fibergate.FromContext(c)
			return c.Status(503).JSON(fiber.Map{"wait": d.RetryAfter().Seconds()})
		}, 503, "application/json; charset=utf-8", `{"wait":60}`},
		"an error": {func(fiber.Ctx) error { return fiber.ErrTooManyRequests }, 429, "text/plain; charset=utf-8", "Too Many Requests"},
	} {
		store := memstore.New(memstore.WithClock(new(gatetest.Clock).Now))
		app := fiber.New()
		app.Use(fibergate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1)), fibergate.OnDeny(c.handler)))
		app.Get("/", text("hello"))
		ask(app, "GET", "/")
		response, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		contentType, wait := response.Header.Get("Content-Type"), response.Header.Get("Retry-After")
		if err != nil || response.StatusCode != c.status || string(body) != c.body || contentType != c.contentType || wait != "60" {
			t.Errorf("%s: %d %s %q, Retry-After %s, %v, want %d %s %q", name, response.StatusCode, contentType, body, wait, err, c.status, c.contentType, c.body)
		}
	}
}

// TestSharedGates: one gate before handlers of both worlds has one budget, and each is answered in its own way.
func TestSharedGates(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	onDeny := fibergate.OnDeny(func(fiber.Ctx) error { t.Error("Fiber answers for net/http"); return nil })
	gate := httpgate.MustNew(limiter, httpgate.ByEverybody(), onDeny)
	app := fiber.New()
	app.Get("/", fibergate.Wrap(gate), text("hello"))
	plain := gate.Wrap(http.NotFoundHandler())
	if status, body := ask(app, "GET", "/"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	w := httptest.NewRecorder()
	if plain.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 429 || !strings.Contains(w.Body.String(), "quota-exceeded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestMistakesAreErrors: as they are for package httpgate, and the caller's options stay as they are.
func TestMistakesAreErrors(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	if h, err := fibergate.New(limiter, httpgate.TrustHops(99)); h != nil || !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	if _, err := fibergate.New(limiter, fibergate.OnDeny(nil)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	options := append(make([]httpgate.Option, 0, 2), httpgate.FailClosed())
	if h, err := fibergate.New(limiter, options...); h == nil || err != nil || options[:2][1] != nil {
		t.Errorf("got %v", err)
	}
	if c := fibergate.Context(httptest.NewRequest("GET", "/", nil)); c != nil {
		t.Errorf("a request without a gate has a context %v", c)
	}
}
