package recipes_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// get asks a server of handler n times, and prints what came of it.
func get(n int, client *http.Client, handler http.Handler) {
	server := httptest.NewServer(handler)
	defer server.Close()
	var all []string
	for range n {
		resp, err := client.Get(server.URL)
		var early *httpgate.TooSoonError
		switch {
		case errors.As(err, &early):
			all = append(all, fmt.Sprintf("not sent: %s, in %s", early.Policy, early.Wait.Round(time.Minute)))
			continue
		case err != nil:
			panic(err)
		}
		all = append(all, read(resp))
		resp.Body.Close()
	}
	fmt.Println(together(all))
}

func Example_outgoing() {
	_, store := standing() // in production Redis, so that all processes share what is ours
	ours := slidegate.MustNew(store, slidegate.PerMinute(5).Named("ours"))
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: httpgate.MustNewTransport( // what the host says is left
			httpgate.MustNewOutgoing(ours, nil, httpgate.OutgoingMaxWait(2*time.Second)), // what we allow ourselves
			httpgate.MaxWait(2*time.Second)),
	}
	silent, strict := hello, httpgate.PerIP(slidegate.PerMinute(3).Named("theirs"))(hello)
	get(7, client, silent)
	get(5, client, strict)
	// Output:
	// 5 × 200; 2 × not sent: ours, in 1m0s
	// 3 × 200; 2 × not sent: theirs, in 1m0s
}
