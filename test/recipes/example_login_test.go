package recipes_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// checkPassword knows one password for everybody.
var checkPassword = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("password") != "sesame" {
		w.WriteHeader(http.StatusUnauthorized)
	}
})

func Example_login() {
	_, store := standing()
	name := func(r *http.Request) string { return strings.ToLower(r.PostFormValue("user")) }
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(10).Named("address")),
		httpgate.And(slidegate.MustNew(store, slidegate.PerHour(20).Named("account")), httpgate.ByValue("account", name)),
		httpgate.And(slidegate.MustNew(store, slidegate.PerMinute(500).Named("everybody")), httpgate.ByEverybody()),
		httpgate.RefundIf(func(status int) bool { return status != http.StatusUnauthorized }), // only failures count
		httpgate.Ban(slidegate.PerMinute(5).Named("guessing"), 15*time.Minute),
		httpgate.FailClosed())
	login := http.MaxBytesHandler(gate.Wrap(checkPassword), 4096) // the gate reads the form

	ask(30, login, "203.0.113.7", "POST /login user=bob&password=sesame")
	ask(17, login, "203.0.113.7", "POST /login user=ann&password=guess-#")  // one address
	ask(30, login, "198.51.100.#", "POST /login user=Ann&password=guess-#") // a botnet
	// Output:
	// 30 × 200
	// 10 × 401; 4 × 429 address, again in 60 s; 3 × 429 ban:guessing, again in 900 s
	// 10 × 401; 20 × 429 account, again in 3600 s
}
