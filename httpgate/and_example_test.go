package httpgate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A login is held to what its address may, what that may at one account, and what all logins together may, in one decision.
func ExampleAnd() {
	store := memstore.New()
	name := func(r *http.Request) string { return strings.ToLower(r.PostFormValue("user")) } // none: by address
	gate, err := httpgate.New(slidegate.MustNew(store, slidegate.PerMinute(10).Named("address")),
		httpgate.And(slidegate.MustNew(store, slidegate.PerHour(2).Named("pair")),
			httpgate.ByAll(httpgate.ByValue("account", name), httpgate.ByAddress())),
		httpgate.And(slidegate.MustNew(store, slidegate.PerMinute(500).Named("everybody")), httpgate.ByEverybody()))
	if err != nil {
		panic(err)
	}
	handler := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, user := range []string{"ann", "Ann", "ann", "bob"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/login", strings.NewReader("user="+user))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		handler.ServeHTTP(w, r)
		fmt.Println(user, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// ann 200 "address";r=9;t=60, "pair";r=1;t=3600, "everybody";r=499;t=60
	// Ann 200 "address";r=8;t=60, "pair";r=0;t=3600, "everybody";r=498;t=60
	// ann 429 "address";r=8;t=60, "pair";r=0;t=3600, "everybody";r=498;t=60
	// bob 200 "address";r=7;t=60, "pair";r=1;t=3600, "everybody";r=497;t=60
}
