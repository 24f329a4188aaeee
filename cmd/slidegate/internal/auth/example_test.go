package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
	"github.com/slidegate/slidegate/httpgate"
)

// The door answers nginx, in a way that its auth_request understands.
func ExampleNew() {
	nginx, _ := auth.ParseDialect("nginx")
	door, err := auth.New(auth.Config{Dialect: nginx, DenyStatus: http.StatusForbidden}, httpgate.PerIP(slidegate.PerMinute(1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest("GET", "/auth", nil)
		r.RemoteAddr = "127.0.0.1:40000"
		r.Header.Set("X-Original-Method", "POST")
		r.Header.Set("X-Original-URI", "/v1/items")
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get(auth.StatusField), w.Header().Get("RateLimit"))
	}
	// Output:
	// 200  "1/1m";r=0;t=60
	// 403 429 "1/1m";r=0;t=60
}
