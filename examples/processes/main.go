// Program processes is a service of which several run, and which have one budget for each client, on Redis.
package main

import (
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/wrap"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	options, err := rueidis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	options.DisableCache = true
	client := rueidisstore.Lazy(options) // starts while Redis does not run, too
	defer client.Close()

	store := wrap.Circuit(redisstore.New(client), wrap.Ignore(redisstore.ErrNewerFormat)) // an outage costs no time
	limiter := slidegate.MustNew(store, slidegate.PerHour(4))
	gate := httpgate.MustNew(limiter, httpgate.FailOpen(), httpgate.Logger(slog.Default()))

	hello := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }
	log.Fatal(http.ListenAndServe(*listen, gate.Wrap(http.HandlerFunc(hello))))
}
