// Program app is a service that knows nothing of limits, to be put behind something that does.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "address to listen on")
	flag.Parse()

	http.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "wrong", http.StatusUnauthorized) })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe(*listen, nil))
}
