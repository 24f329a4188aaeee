// Program client asks a service that has limits, and keeps to them: it sends nothing that would be refused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/httpgate"
)

func main() {
	key := flag.String("key", "", "API key")
	requests := flag.Int("requests", 5, "how often to ask")
	flag.Parse()

	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: httpgate.MustNewTransport(nil, httpgate.MaxWait(2*time.Second)), // what takes longer is an error
	}
	for range *requests {
		r, err := http.NewRequest(http.MethodGet, flag.Arg(0), nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("X-API-Key", *key)
		resp, err := client.Do(r)
		var early *httpgate.TooSoonError
		if errors.As(err, &early) {
			fmt.Printf("not sent: %s has room in %s\n", early.Policy, early.Wait.Round(time.Hour))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
}
