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
	p, _ := r.Context().Value(contextKey{}).(*passage)
	if p == nil {
		return nil
	}
	return p.gin
}

// A passage is a request on its way through one gate.
type passage struct {
	context.Context
	gin      *gin.Context
	admitted bool
}

type contextKey struct{}

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
	p := r.Context().Value(contextKey{}).(*passage)
	c := p.gin
	p.admitted, c.Request = true, r
	if w == http.ResponseWriter(c.Writer) {
		c.Next()
		return
	}
	own := c.Writer
	c.Writer = &writer{own, w}
	defer func() { c.Writer = own }()
	if c.Next(); !own.Written() { // gin names a status long before it is sent
		w.WriteHeader(own.Status())
	}
}
