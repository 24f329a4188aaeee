package echogate

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// New returns a middleware that asks limiter about every request. Options, defaults and errors are
// those of [httpgate.New]: every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...httpgate.Option) (echo.MiddlewareFunc, error) {
	g, err := httpgate.New(limiter, options...)
	if err != nil {
		return nil, err
	}
	return Wrap(g), nil
}

// MustNew is New for options that are known to be right. It panics on an error.
func MustNew(limiter *slidegate.Limiter, options ...httpgate.Option) echo.MiddlewareFunc {
	return Wrap(httpgate.MustNew(limiter, options...))
}

// PerIP returns a middleware that holds every client address to limit, in a memory store of its
// own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...httpgate.Option) echo.MiddlewareFunc {
	return middleware(httpgate.PerIP(limit, options...))
}

// Wrap returns the middleware of a gate that is there already, for programs that ask it something or
// share its budget with handlers of net/http.
func Wrap(g *httpgate.Gate) echo.MiddlewareFunc { return middleware(g.Wrap) }

// FromContext returns the decision on a request, in the handlers behind the gate; of several gates,
// that of the nearest that decided. There is none on a request that was skipped or could not be
// decided.
func FromContext(c *echo.Context) (*slidegate.Decision, bool) {
	return httpgate.FromContext(c.Request().Context())
}

// Context returns Echo's context of a request, in the functions that options of a gate of this package
// take; nil elsewhere. Like every *echo.Context it must not be kept.
func Context(r *http.Request) *echo.Context {
	if p := passageOf(r); p != nil {
		return p.echo
	}
	return nil
}

// OnDeny answers refused requests with a handler of Echo; the default is that of [httpgate.OnDeny].
// The fields are set when f runs, and [FromContext] has the decision. If f returns an error, such
// as echo.ErrTooManyRequests, the server's HTTPErrorHandler answers, and earlier middleware gets
// the error. If f answers nothing, the status is 429. Where a gate stands before a handler of
// net/http, f is not for it, and a problem is the answer.
func OnDeny(f echo.HandlerFunc) httpgate.Option {
	if f == nil {
		return httpgate.OnDeny(nil) // New says what is wrong
	}
	return httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := passageOf(r); p != nil {
			p.run(w, r, f)
			return
		}
		httpgate.QuotaExceeded().ServeHTTP(w, r)
	}))
}

// A passage is a request on its way through one gate.
type passage struct {
	context.Context
	echo *echo.Context
	next echo.HandlerFunc
	err  error // of next
}

type contextKey struct{}

// passageOf returns the passage of a request, nil if no gate of this package is around it.
func passageOf(r *http.Request) *passage {
	p, _ := r.Context().Value(contextKey{}).(*passage)
	return p
}

// Value implements context.Context.
func (p *passage) Value(key any) any {
	if key == (contextKey{}) {
		return p
	}
	return p.Context.Value(key)
}

func middleware(wrap func(http.Handler) http.Handler) echo.MiddlewareFunc {
	gate := wrap(http.HandlerFunc(admit))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			p := &passage{Context: c.Request().Context(), echo: c, next: next}
			r := c.Request().WithContext(p)
			r.Pattern = c.Path()
			gate.ServeHTTP(c.Response(), r)
			return p.err
		}
	}
}

// admit is what stands behind the gate: the rest of Echo's chain.
func admit(w http.ResponseWriter, r *http.Request) {
	p := passageOf(r)
	p.run(w, r, p.next)
}

// run has Echo answer a request, to w.
func (p *passage) run(w http.ResponseWriter, r *http.Request, f echo.HandlerFunc) {
	c := p.echo
	c.SetRequest(r)
	own := c.Response()
	if w == own {
		p.err = f(c)
		return
	}
	c.SetResponse(echo.NewResponse(w, c.Echo().Logger))
	defer c.SetResponse(own)
	if p.err = f(c); p.err != nil { // the gate looks at the answer: it must be given while it does
		c.Echo().HTTPErrorHandler(c, p.err)
	}
}
