// Program login counts wrong passwords, and bans an address that goes on guessing.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func account(r *http.Request) string { return strings.ToLower(r.PostFormValue("user")) }

// login knows one user. Yours looks at a hash.
func login(w http.ResponseWriter, r *http.Request) {
	if account(r) != "ann" || r.PostFormValue("password") != "sesame" {
		http.Error(w, "wrong", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome")
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	store := memstore.New()
	perAddress := slidegate.MustNew(store, slidegate.PerHour(5).Named("address"))
	perAccount := slidegate.MustNew(store, slidegate.PerDay(20).Named("account"))
	gate := httpgate.MustNew(perAddress,
		httpgate.And(perAccount, httpgate.ByValue("account", account)),
		httpgate.RefundIf(func(status int) bool { return status != http.StatusUnauthorized }), // only failures count
		httpgate.Ban(slidegate.PerHour(2).Named("guessing"), 24*time.Hour),                    // two refusals, and a day
		httpgate.FailClosed())

	mux := http.NewServeMux()
	mux.Handle("POST /login", http.MaxBytesHandler(gate.Wrap(http.HandlerFunc(login)), 4096)) // the gate reads the form
	log.Fatal(http.ListenAndServe(*listen, mux))
}
