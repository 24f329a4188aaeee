package httpgate

import "net/http"

// CountPreflights counts CORS preflights like any other request. By default they are free: no store
// is asked, no field is sent and there is no decision, for a browser sends them by itself, before
// what a page asked for, and shows a refused one as a failure without a reason. A preflight is an
// OPTIONS request with Origin and Access-Control-Request-Method (the Fetch standard). Count them
// where a handler does real work for OPTIONS, since anybody can send one.
func CountPreflights() Option { return func(g *Gate) { g.countPreflights = true } }

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header["Origin"] != nil && r.Header["Access-Control-Request-Method"] != nil
}
