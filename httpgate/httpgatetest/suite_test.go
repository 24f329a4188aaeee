package httpgatetest_test

import (
	"io"
	"log"
	"net/http"
	"testing"

	"github.com/slidegate/slidegate/httpgate/httpgatetest"
)

// wrap puts gates around a handler, the first outermost.
func wrap(gates []httpgatetest.Gate, h http.Handler) http.Handler {
	for i := range gates {
		h = gates[len(gates)-1-i].Build().Wrap(h)
	}
	return h
}

// serve starts a net/http server with a handler of a test.
func serve(t testing.TB, app *httpgatetest.App, h http.Handler) string {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	return httpgatetest.Listen(t, app, server.Serve, server.Close)
}

// routed puts the gates of an app where it wants them.
func routed(app *httpgatetest.App) http.Handler {
	routes, mux := app.Handler(), http.NewServeMux()
	mux.Handle("/", routes)
	mux.Handle("/group/", wrap(app.Group, routes))
	mux.Handle("/alone", wrap(app.Alone, routes))
	return wrap(app.All, mux)
}

// TestNetHTTP: what all gates are compared with keeps the laws itself.
func TestNetHTTP(t *testing.T) {
	httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string { return serve(t, app, routed(app)) })
}
