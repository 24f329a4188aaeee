package chi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
	"github.com/slidegate/slidegate/memstore"
)

// gates returns the middlewares of a list.
func gates(list []httpgatetest.Gate) (all []func(http.Handler) http.Handler) {
	for _, g := range list {
		all = append(all, g.Build().Wrap)
	}
	return all
}

// TestGate: the gate keeps the laws of every gate over HTTP.
func TestGate(t *testing.T) {
	httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string {
		routes, router := app.Handler(), chi.NewRouter()
		router.Use(gates(app.All)...)
		router.With(gates(app.Alone)...).Handle("/alone", routes)
		router.Route("/group", func(group chi.Router) {
			group.Use(gates(app.Group)...)
			group.Handle("/{name}", routes)
		})
		router.Handle("/*", recovering(routes))
		server := &http.Server{Handler: router}
		return httpgatetest.Listen(t, app, server.Serve, server.Close)
	})
}

// recovering answers what panics.
func recovering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

// ask sends a request to a router and prints the status and how many units the gates have left.
func ask(h http.Handler, method, target string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	fmt.Println(w.Code, w.Header().Values("RateLimit"))
}

func Example() {
	login := httpgate.PerIP(slidegate.PerMinute(1).Named("login"))

	router := chi.NewRouter()
	router.Use(httpgate.PerIP(slidegate.PerMinute(100).Named("app")))
	router.Get("/", text("hello"))
	router.With(login).Post("/login", text("welcome"))

	ask(router, "GET", "/")
	ask(router, "POST", "/login")
	ask(router, "POST", "/login")
	// Output:
	// 200 ["app";r=99;t=60]
	// 200 ["app";r=98;t=60 "login";r=0;t=60]
	// 429 ["app";r=97;t=60 "login";r=0;t=60]
}

// TestWhatARouteIs, as docs/frameworks.md has it: no pattern has a method, and a gate in With is asked of nothing else.
func TestWhatARouteIs(t *testing.T) {
	var keys []string
	gate := httpgate.PerIP(slidegate.PerMinute(9), httpgate.ByRoute(nil), httpgate.Observe(func(e *httpgate.Event) { keys = append(keys, e.Key) }))
	router := chi.NewRouter()
	router.With(gate).Get("/users/{id}", text("user"))
	router.With(gate).Post("/users/{id}", text("user"))
	for _, request := range []string{"GET /users/7", "POST /users/7", "PUT /users/7", "GET /nowhere"} {
		method, target, _ := strings.Cut(request, " ")
		ask(router, method, target)
	}
	want := []string{"route:/users/{id}", "route:/users/{id}"}
	if !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
}

func Example_byRoute() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(2))
	byItem := httpgate.By(func(r *http.Request) (string, error) {
		route := chi.RouteContext(r.Context()) // complete behind the router: in With, not in Use
		return httpgate.Join(route.RoutePattern(), route.URLParam("id")), nil
	})
	router := chi.NewRouter()
	router.With(httpgate.MustNew(limiter, byItem).Wrap).Get("/items/{id}", text("item"))

	ask(router, "GET", "/items/1")
	ask(router, "GET", "/items/1?again")
	ask(router, "GET", "/items/2")
	// Output:
	// 200 ["2/1m";r=1;t=60]
	// 200 ["2/1m";r=0;t=60]
	// 200 ["2/1m";r=1;t=60]
}
