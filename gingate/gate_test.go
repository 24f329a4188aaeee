package gingate_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/gingate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
	"github.com/slidegate/slidegate/memstore"
)

func init() { gin.SetMode(gin.ReleaseMode) }

// gates returns the middlewares of a list.
func gates(list []httpgatetest.Gate) (all []gin.HandlerFunc) {
	for _, g := range list {
		all = append(all, gingate.MustNew(g.Limiter, g.Options...))
	}
	return all
}

// TestGate: the gate keeps the laws of every gate over HTTP.
func TestGate(t *testing.T) {
	httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string {
		hello := func(c *gin.Context) { c.Data(http.StatusOK, httpgatetest.Text, app.Hello()) }
		router := gin.New()
		router.Use(gin.RecoveryWithWriter(io.Discard))
		router.Use(gates(app.All)...)
		router.Match([]string{"GET", "HEAD", "POST"}, "/hello", hello)
		router.Group("/group", gates(app.Group)...).GET("/a", hello).GET("/b", hello)
		router.GET("/alone", append(gates(app.Alone), hello)...)
		router.POST("/echo", func(c *gin.Context) {
			body, err := c.GetRawData()
			if err != nil {
				t.Errorf("read the body: %v", err)
			}
			c.Data(http.StatusOK, httpgatetest.Text, app.Echo(body))
		})
		router.GET("/decision", func(c *gin.Context) {
			c.Data(http.StatusOK, httpgatetest.Text, app.Decision(gingate.FromContext(c)))
		})
		router.GET("/stream", func(c *gin.Context) {
			c.Header("Content-Type", httpgatetest.Text)
			for chunk := range app.Chunks() {
				_, _ = c.Writer.Write(chunk)
				c.Writer.Flush()
			}
		})
		router.GET("/panic", func(*gin.Context) { app.Panic() })
		server := &http.Server{Handler: router}
		return httpgatetest.Listen(t, app, server.Serve, server.Close)
	})
}

// ask sends a request to a router and returns the status and the body.
func ask(h http.Handler, method, target string, fields ...string) (int, string) {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func text(s string) gin.HandlerFunc { return func(c *gin.Context) { c.String(http.StatusOK, s) } }

// TestRoutesAreKeys: no spelling of a path has a quota of its own, and parameters tell items apart.
func TestRoutesAreKeys(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	seen := map[string]bool{}
	byRoute := httpgate.By(func(r *http.Request) (string, error) {
		seen[r.Pattern] = true
		if c := gingate.Context(r); r.Pattern != c.FullPath() {
			return "", fmt.Errorf("the pattern is %q", r.Pattern)
		}
		return httpgate.Join(r.Pattern, gingate.Context(r).Param("shop")), nil
	})
	router := gin.New()
	router.Use(gingate.MustNew(limiter, byRoute))
	router.GET("/shops/:shop/items/:id", text("item"))
	for _, c := range []struct {
		target string
		status int
	}{
		{"/shops/a/items/1", 200}, {"/shops/a/items/%32", 200}, {"/shops/a/items/3?x=y", 429},
		{"/shops/b/items/1", 200},
		{"/nowhere", 404}, {"/elsewhere", 404}, {"/anywhere", 429}, // one bucket for what has no route
	} {
		if status, _ := ask(router, "GET", c.target); status != c.status {
			t.Errorf("%s: status %d, want %d", c.target, status, c.status)
		}
	}
	if len(seen) != 2 || !seen["/shops/:shop/items/:id"] || !seen[""] {
		t.Errorf("the patterns are %v", seen)
	}
}

// TestWhatARouteIs, as docs/frameworks.md has it: no pattern has a method, and what has no route for its method has none.
func TestWhatARouteIs(t *testing.T) {
	var keys []string
	gate := gingate.PerIP(slidegate.PerMinute(9), httpgate.ByRoute(nil), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) }))
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.Use(gate)
	router.GET("/users/:id", text("user"))
	router.POST("/users/:id", text("user"))
	for _, request := range []string{"GET /users/7", "POST /users/7", "PUT /users/7", "GET /nowhere"} {
		method, target, _ := strings.Cut(request, " ")
		ask(router, method, target)
	}
	want := []string{"route:/users/:id", "route:/users/:id", "ip:192.0.2.1", "ip:192.0.2.1"}
	if !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
}

// TestKeysOfEarlierHandlers: what authentication has set is a key.
func TestKeysOfEarlierHandlers(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	router := gin.New()
	router.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("Authorization")) })
	router.Use(gingate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		return "user:" + gingate.Context(r).GetString("user"), nil
	})))
	router.GET("/", text("hello"))
	for _, c := range []struct {
		user   string
		status int
	}{{"ann", 200}, {"ben", 200}, {"ann", 429}} {
		if status, _ := ask(router, "GET", "/", "Authorization", c.user); status != c.status {
			t.Errorf("%s: status %d, want %d", c.user, status, c.status)
		}
	}
}

// TestClientIPIsNotBelieved: gin's own view of the client, which anybody can choose, is no key.
func TestClientIPIsNotBelieved(t *testing.T) {
	router := gin.New()
	router.Use(gingate.PerIP(slidegate.PerMinute(1)))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, c.ClientIP()) })
	if status, body := ask(router, "GET", "/", "X-Forwarded-For", "203.0.113.7"); status != 200 || body != "203.0.113.7" {
		t.Errorf("status %d, gin takes the client for %q", status, body)
	}
	if status, _ := ask(router, "GET", "/", "X-Forwarded-For", "203.0.113.8"); status != 429 {
		t.Errorf("another claim: status %d, want 429", status)
	}
}

// TestRefusalsAbort: no later handler runs, and those before see what was answered.
func TestRefusalsAbort(t *testing.T) {
	for name, option := range map[string]httpgate.Option{
		"with a body": httpgate.DenyWith(429, "no"),
		"without":     httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) })),
	} {
		var seen []string
		router := gin.New()
		router.Use(func(c *gin.Context) {
			c.Next()
			seen = append(seen, fmt.Sprint(c.Writer.Status(), c.Writer.Written(), c.IsAborted()))
		})
		router.Use(gingate.PerIP(slidegate.PerMinute(1), option))
		router.Use(func(c *gin.Context) { seen = append(seen, "later") })
		router.GET("/", text("hello"))
		for range 2 {
			ask(router, "GET", "/")
		}
		if got, want := strings.Join(seen, ", "), "later, 200 true false, 429 true true"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestOnDenyIsAHandlerOfGin: it answers as handlers do, with 429 where it names no status, and ends the chain.
func TestOnDenyIsAHandlerOfGin(t *testing.T) {
	for name, c := range map[string]struct {
		handler gin.HandlerFunc
		status  int
		body    string
	}{
		"nothing": {func(*gin.Context) {}, 429, ""},
		"a body":  {func(c *gin.Context) { io.WriteString(c.Writer, "later") }, 429, "later"},
		"json": {func(c *gin.Context) {
			d, _ := gingate.FromContext(c)
			c.JSON(503, gin.H{"wait": d.RetryAfter().Seconds()})
		}, 503, `{"wait":60}`},
		"a status": {func(c *gin.Context) { c.AbortWithStatus(402) }, 402, ""},
	} {
		store := memstore.New(memstore.WithClock(new(gatetest.Clock).Now))
		router := gin.New()
		router.Use(gingate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1)), gingate.OnDeny(c.handler)))
		router.GET("/", text("hello"))
		ask(router, "GET", "/")
		if status, body := ask(router, "GET", "/"); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, c.status, c.body)
		}
	}
}

// TestSharedGates: one gate before handlers of both worlds has one budget, and each is answered in its own way.
func TestSharedGates(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	onDeny := gingate.OnDeny(func(c *gin.Context) { t.Error("gin answers for net/http") })
	gate := httpgate.MustNew(limiter, httpgate.ByEverybody(), onDeny)
	router := gin.New()
	router.Use(gingate.Wrap(gate))
	router.GET("/", text("hello"))
	plain := gate.Wrap(http.NotFoundHandler())
	if status, body := ask(router, "GET", "/"); status != 200 {
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
	if h, err := gingate.New(limiter, httpgate.TrustHops(99)); h != nil || !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	if _, err := gingate.New(limiter, gingate.OnDeny(nil)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v", err)
	}
	if h, err := gingate.New(limiter); h == nil || err != nil {
		t.Errorf("got %v", err)
	}
	if c := gingate.Context(httptest.NewRequest("GET", "/", nil)); c != nil {
		t.Errorf("a request without a gate has a context %v", c)
	}
}
