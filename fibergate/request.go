package fibergate

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// view is the request as net/http would show it, with a context. Nothing in it but the body is memory that fasthttp
// uses again.
func view(ctx context.Context, c fiber.Ctx, known *routes) *http.Request {
	fast := c.Request()
	r := &http.Request{
		Method:     c.Method(),
		RequestURI: string(fast.Header.RequestURI()),
		Host:       string(fast.Header.Host()),
		Header:     headerOf(&fast.Header),
		RemoteAddr: c.RequestCtx().RemoteAddr().String(),
		TLS:        c.RequestCtx().TLSConnectionState(),
		Body:       http.NoBody,
		Pattern:    known.pattern(c),
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = protocol(fast.Header.Protocol())
	if r.URL = urlOf(r.RequestURI, fast.URI()); r.URL.Host != "" {
		r.Host = r.URL.Host
	}
	switch n := fast.Header.ContentLength(); {
	case n == -1: // how fasthttp has it
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	case n > 0:
		r.ContentLength = int64(n)
	}
	switch {
	case fast.IsBodyStream():
		r.Body = io.NopCloser(fast.BodyStream())
	case r.ContentLength != 0:
		r.Body = io.NopCloser(bytes.NewReader(fast.Body()))
	}
	return r.WithContext(ctx)
}

// routes remember which of Fiber's routes are none of app.Use. They are as many as a program has.
type routes struct{ none sync.Map } // *fiber.Route to bool

// pattern is the path of the route that a handler stands in. It is empty where that is no route but app.Use or a group,
// which run before the route is known: their path is the same for all that follows.
func (known *routes) pattern(c fiber.Ctx) string {
	route := c.Route()
	switch {
	case !c.IsMiddleware(): // the last handler of a route
		return route.Path
	case len(route.Handlers) < 2: // Use, with no other handler
		return ""
	}
	none, ok := known.none.Load(route)
	if !ok {
		none = isRoute(c.App(), route)
		known.none.Store(route, none)
	}
	if none.(bool) {
		return route.Path
	}
	return ""
}

// isRoute tells whether a route with several handlers is none of Use. Fiber says that only of all its routes together, and in
// copies, which share their handlers with it.
func isRoute(app *fiber.App, route *fiber.Route) bool {
	return slices.ContainsFunc(app.GetRoutes(true), func(r fiber.Route) bool {
		return len(r.Handlers) > 0 && &r.Handlers[0] == &route.Handlers[0]
	})
}

// urlOf is the URL of a request as net/http has it, as long as that has the path by which Fiber routes. Fiber lets
// in what net/http does not, cuts off a fragment, and knows no scheme without two slashes behind it; then it is Fiber's
// path, or a spelling would be exempt, or not denied, that Fiber takes for another.
func urlOf(uri string, fast *fasthttp.URI) *url.URL {
	path := string(fast.PathOriginal())
	u, err := url.ParseRequestURI(uri)
	if err == nil && u.EscapedPath() == path {
		return u
	}
	u = &url.URL{Path: path, RawPath: path, RawQuery: string(fast.QueryString())}
	if decoded, err := url.PathUnescape(path); err == nil {
		u.Path = decoded
	}
	return u
}

func protocol(b []byte) (name string, major, minor int) {
	if string(b) == "HTTP/1.0" {
		return "HTTP/1.0", 1, 0
	}
	return "HTTP/1.1", 1, 1
}

// headerOf copies the header fields, all into one string.
func headerOf(fast *fasthttp.RequestHeader) http.Header {
	var textRoom [1024]byte
	var endsRoom [64]int
	text, ends := textRoom[:0], endsRoom[:0]
	for name, value := range fast.All() {
		text = append(text, name...)
		ends = append(ends, len(text))
		text = append(text, value...)
		ends = append(ends, len(text))
	}
	whole, from := string(text), 0
	h := make(http.Header, len(ends)/2)
	values := make([]string, len(ends)/2)
	for i := range values {
		name := textproto.CanonicalMIMEHeaderKey(whole[from:ends[2*i]])
		values[i] = whole[ends[2*i]:ends[2*i+1]]
		from = ends[2*i+1]
		switch there := h[name]; {
		case name == "Host", name == "Transfer-Encoding": // net/http has them elsewhere
		case there == nil:
			h[name] = values[i : i+1 : i+1]
		default:
			h[name] = append(there, values[i])
		}
	}
	return h
}

// maxDiscarded is how much of the body of a refused request is read, as net/http has it, in bytes.
const maxDiscarded = 256 << 10

// discardBody sees to it that what a refused request has left unread is not taken for the next
// request. fasthttp takes it for that where bodies are streamed. A body that is too long to be read, or
// chunked, which says nothing of where it ends, costs the connection.
func discardBody(c fiber.Ctx) {
	fast := c.Request()
	if !fast.IsBodyStream() {
		return
	}
	if fast.Header.ContentLength() >= 0 {
		if _, err := io.CopyN(io.Discard, fast.BodyStream(), maxDiscarded+1); err == io.EOF {
			return
		}
	}
	c.Response().SetConnectionClose()
}
