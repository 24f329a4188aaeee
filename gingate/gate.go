package gingate

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// New returns a middleware that asks limiter about every request. Options, defaults and errors are
// those of [httpgate.New]: every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...httpgate.Option) (gin.HandlerFunc, error) {
	g, err := httpgate.New(limiter, options...)
	if err != nil {
		return nil, err
	}
	return Wrap(g), nil
}

// MustNew is New for options that are known to be right. It panics on an error.
func MustNew(limiter *slidegate.Limiter, options ...httpgate.Option) gin.HandlerFunc {
	return Wrap(httpgate.MustNew(limiter, options...))
}

// PerIP returns a middleware that holds every client address to limit, in a memory store of its
// own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...httpgate.Option) gin.HandlerFunc {
	return middleware(httpgate.PerIP(limit, options...))
}

// Wrap returns the middleware of a gate that is there already, for programs that ask it something or
// share its budget with handlers of net/http.
func Wrap(g *httpgate.Gate) gin.HandlerFunc { return middleware(g.Wrap) }

// FromContext returns the decision on a request, in the handlers behind the gate; of several gates,
// that of the nearest that decided. There is none on a request that was skipped or could not be
// decided.
func FromContext(c *gin.Context) (*slidegate.Decision, bool) {
	return httpgate.FromContext(c.Request.Context())
}

// Context returns gin's context of a request, in the functions that options of a gate of this package
// take; nil elsewhere. Like every *gin.Context it must not be kept.
func Context(r *http.Request) *gin.Context {
	if p := passageOf(r); p != nil {
		return p.gin
	}
	return nil
}

// OnDeny answers refused requests with a handler of gin; the default is that of [httpgate.OnDeny].
// The fields are set when f runs, the status is 429 unless f names another, and [FromContext] has
// the decision. Later handlers do not run. Where a gate stands before a handler of net/http, f is
// not for it, and a problem is the answer.
func OnDeny(f gin.HandlerFunc) httpgate.Option {
	if f == nil {
		return httpgate.OnDeny(nil) // New says what is wrong
	}
	return httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := Context(r); c != nil {
			c.Status(http.StatusTooManyRequests)
			run(w, r, f)
			return
		}
		httpgate.QuotaExceeded().ServeHTTP(w, r)
	}))
}

// A passage is a request on its way through one gate.
type passage struct {
	context.Context
	gin      *gin.Context
	admitted bool
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

func middleware(wrap func(http.Handler) http.Handler) gin.HandlerFunc {
	gate := wrap(http.HandlerFunc(next))
	return func(c *gin.Context) {
		p := &passage{Context: c.Request.Context(), gin: c}
		r := c.Request.WithContext(p)
		r.Pattern = c.FullPath()
		if gate.ServeHTTP(c.Writer, r); !p.admitted {
			c.Writer.WriteHeaderNow() // of a refusal without a body
			c.Abort()
		}
	}
}

// next is what stands behind the gate: the rest of gin's chain.
func next(w http.ResponseWriter, r *http.Request) {
	passageOf(r).admitted = true
	run(w, r, (*gin.Context).Next)
}

// run has gin answer a request, to w.
func run(w http.ResponseWriter, r *http.Request, f gin.HandlerFunc) {
	c := Context(r)
	c.Request = r
	if w == http.ResponseWriter(c.Writer) {
		f(c)
		return
	}
	own := c.Writer
	c.Writer = &writer{own, w}
	defer func() { c.Writer = own }()
	if f(c); !own.Written() { // gin names a status long before it is sent
		w.WriteHeader(own.Status())
	}
}
