package httpgate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A gate before the whole app, and another before one route of it.
func Example_routes() {
	login := httpgate.PerIP(slidegate.PerMinute(1).Named("login"))

	mux := http.NewServeMux()
	mux.Handle("GET /", hello)
	mux.Handle("POST /login", login(hello))
	app := httpgate.PerIP(slidegate.PerMinute(100).Named("app"))(mux)

	for _, r := range []*http.Request{
		httptest.NewRequest("GET", "/", nil),
		httptest.NewRequest("POST", "/login", nil),
		httptest.NewRequest("POST", "/login", nil),
	} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Values("RateLimit"))
	}
	// Output:
	// 200 ["app";r=99;t=60]
	// 200 ["app";r=98;t=60 "login";r=0;t=60]
	// 429 ["app";r=97;t=60 "login";r=0;t=60]
}

// A gate that counts every item by itself stands in the route, where the mux has told the path apart.
func Example_items() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2))
	byItem := httpgate.MustNew(limiter, httpgate.By(func(r *http.Request) (string, error) {
		return httpgate.Join(r.Pattern, r.PathValue("id")), nil
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", byItem.Wrap(hello))

	for _, target := range []string{"/items/1", "/items/1?again", "/items/%31", "/items/2"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		fmt.Println(w.Code, w.Header().Values("RateLimit"))
	}
	// Output:
	// 200 ["2/1m";r=1;t=60]
	// 200 ["2/1m";r=0;t=60]
	// 429 ["2/1m";r=0;t=60]
	// 200 ["2/1m";r=1;t=60]
}
