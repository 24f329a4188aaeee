// Package clock is a service whose limit has a test that waits for nothing: the store takes its time from a clock that the test sets.
package clock

import (
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// New returns a service that greets each address twice an hour. The store is the caller's choice: in a program memstore.New(), or
// one on Redis.
func New(store slidegate.Store) http.Handler {
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerHour(2)))
	return gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }))
}
