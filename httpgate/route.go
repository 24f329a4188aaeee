package httpgate

import (
	"net/http"
	"reflect"
	"strings"
)

// ByRoute counts requests by the pattern that matches them in mux, such as "GET /users/{id}", whoever
// asks; by default it is the client's address, whatever the route. Join them with [ByAll] to give
// every client a budget on every route.
//
// No spelling of a path escapes its route: /a//b, /a/./b, escapes and a missing slash at the end
// count where mux sends them, and HEAD counts as GET. A pattern without a method is one route for all
// methods. All requests that match no pattern are one route, "route:".
//
// The gate stands around mux, and mux gets the request as the gate has seen it. A gate that stands
// behind a mux, in a handler registered there, gives nil: then it is the pattern that has matched
// (r.Pattern), and requests without one count under the client's address. Of nested muxes it is that
// of mux, or the nearest one outside the gate.
func ByRoute(mux *http.ServeMux) Option {
	if mux == nil {
		return func(g *Gate) { g.by("ByRoute", "the route", simply(matched)) }
	}
	return func(g *Gate) {
		g.by("ByRoute", "", simply(func(r *http.Request) (string, error) { return "route:" + patternOf(mux, r), nil }))
	}
}

func matched(r *http.Request) (string, error) {
	if r.Pattern == "" {
		return "", nil
	}
	return "route:" + asGet(r.Pattern), nil
}

// patternOf returns the pattern of mux that a request matches, empty for none.
func patternOf(mux *http.ServeMux, r *http.Request) string {
	handler, pattern := mux.Handler(r)
	if r.Method == http.MethodConnect && reflect.TypeOf(handler) == redirects {
		return "" // for CONNECT a redirect comes with the path that the client asked for
	}
	return asGet(pattern)
}

var redirects = reflect.TypeOf(http.RedirectHandler("/", http.StatusFound))

// asGet counts HEAD as GET: it asks for the same without the body (RFC 9110 section 9.3.2).
func asGet(pattern string) string {
	if rest, ok := strings.CutPrefix(pattern, "HEAD "); ok {
		return "GET " + rest
	}
	return pattern
}

// ByMethod counts requests by their method, whoever asks; by default it is the client's address,
// whatever the method. HEAD counts as GET, and methods other than the nine of net/http are one, so
// that none can be made up for a budget of its own. It is there to be a part of [ByAll].
func ByMethod() Option {
	return func(g *Gate) {
		g.by("ByMethod", "", simply(func(r *http.Request) (string, error) { return "method:" + methodOf(r), nil }))
	}
}

func methodOf(r *http.Request) string {
	switch method := methodAsGet(r.Method); method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "other"
}

// methodAsGet is asGet for a method alone; an empty one is GET too, as net/http has it.
func methodAsGet(method string) string {
	if method == http.MethodHead || method == "" {
		return http.MethodGet
	}
	return method
}
