package fibergate

import (
	"context"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// New returns a middleware that asks limiter about every request. Options, defaults and errors are
// those of [httpgate.New]: every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...httpgate.Option) (fiber.Handler, error) {
	g, err := httpgate.New(limiter, copying(options)...)
	if err != nil {
		return nil, err
	}
	return Wrap(g), nil
}

// copying adds to options what fasthttp makes necessary.
func copying(options []httpgate.Option) []httpgate.Option {
	return append(slices.Clip(options), httpgate.CopyKeys())
}

// MustNew is New for options that are known to be right. It panics on an error.
func MustNew(limiter *slidegate.Limiter, options ...httpgate.Option) fiber.Handler {
	return Wrap(httpgate.MustNew(limiter, copying(options)...))
}

// PerIP returns a middleware that holds every client address to limit, in a memory store of its
// own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...httpgate.Option) fiber.Handler {
	return middleware(httpgate.PerIP(limit, copying(options)...))
}

// Wrap returns the middleware of a gate that is there already, for programs that ask it something or
// share its budget with handlers of net/http. If its keys are made of what [Context] gives, make it
// with [httpgate.CopyKeys].
func Wrap(g *httpgate.Gate) fiber.Handler { return middleware(g.Wrap) }

// FromContext returns the decision on a request, in the handlers behind the gate; of several gates,
// that of the nearest that decided. There is none on a request that was skipped or could not be
// decided. Unlike what else Fiber gives, it may be kept.
func FromContext(c fiber.Ctx) (*slidegate.Decision, bool) { return httpgate.FromContext(c.Context()) }

// Context returns Fiber's context of a request, in the functions that options of a gate of this package
// take; nil elsewhere. Neither it nor a string from it may be kept, but as a key.
func Context(r *http.Request) fiber.Ctx {
	if p := passageOf(r); p != nil {
		return p.fiber
	}
	return nil
}

// OnDeny answers refused requests with a handler of Fiber; the default is that of
// [httpgate.OnDeny]. The fields are set when f runs, the status is 429 unless f names another, and
// [FromContext] has the decision. If f returns an error, such as fiber.ErrTooManyRequests, the
// app's ErrorHandler answers. Later handlers do not run. Where a gate stands before a handler of
// net/http, f is not for it, and a problem is the answer.
func OnDeny(f fiber.Handler) httpgate.Option {
	if f == nil {
		return httpgate.OnDeny(nil) // New says what is wrong
	}
	return httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := passageOf(r); p != nil {
			p.fiber.Status(http.StatusTooManyRequests)
			p.run(w, r, f)
			return
		}
		httpgate.QuotaExceeded().ServeHTTP(w, r)
	}))
}

// A passage is a request on its way through one gate.
type passage struct {
	context.Context
	fiber    fiber.Ctx
	response response
	admitted bool
	answered bool  // by Fiber, not by the gate
	err      error // of what answered
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

func middleware(wrap func(http.Handler) http.Handler) fiber.Handler {
	gate := wrap(http.HandlerFunc(admit))
	known := new(routes)
	return func(c fiber.Ctx) error {
		p := &passage{Context: c.Context(), fiber: c, response: response{fast: c.Response()}}
		p.response.load()
		if gate.ServeHTTP(&p.response, view(p, c, known)); !p.answered {
			p.response.finish()
		}
		if !p.admitted {
			discardBody(c)
		}
		return p.err
	}
}

// admit is what stands behind the gate: the rest of Fiber's chain.
func admit(w http.ResponseWriter, r *http.Request) {
	p := passageOf(r)
	p.admitted = true
	p.run(w, r, fiber.Ctx.Next)
}

// run has Fiber answer a request; w is told how.
func (p *passage) run(w http.ResponseWriter, r *http.Request, f fiber.Handler) {
	c := p.fiber
	p.answered = true
	p.response.store()
	c.SetContext(r.Context())
	if p.err = f(c); w == http.ResponseWriter(&p.response) {
		return
	}
	if p.err != nil { // the gate looks at the answer: it must be given while it does
		p.err = c.App().ErrorHandler(c, p.err)
	}
	p.response.load()
	w.WriteHeader(c.Response().StatusCode())
}
