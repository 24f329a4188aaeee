// Program api holds every user to ten requests a second and three an hour, and every address to less than would let it guess at
// API keys.
package main

import (
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// users by API key. Yours are in a database.
var users = map[string]string{"key-of-ann": "ann", "key-of-bob": "bob"}

func user(r *http.Request) (string, bool) {
	name, ok := users[r.Header.Get("X-API-Key")]
	return name, ok
}

func hello(w http.ResponseWriter, r *http.Request) {
	name, ok := user(r)
	if !ok {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, "hello %s\n", name)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	store := memstore.New()
	perUser := slidegate.MustNew(store, slidegate.PerSecond(10).Named("burst"), slidegate.PerHour(3).Named("hourly"))
	perAddress := slidegate.MustNew(store, slidegate.PerMinute(60).Named("address"))
	gate := httpgate.MustNew(perUser,
		httpgate.ByClaim("user", user), // who is nobody is counted by address
		httpgate.And(perAddress, httpgate.ByAddress()),
		httpgate.Exempt("GET /healthz"),
		httpgate.Logger(slog.Default()))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", hello)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, gate.Wrap(mux)))
}
