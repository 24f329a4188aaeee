package httpgatetest

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// Text is the Content-Type of all that the handlers of an [App] answer, with status 200.
const Text = "text/plain; charset=utf-8"

// A Gate is what a gate is made of.
type Gate struct {
	Limiter *slidegate.Limiter
	Options []httpgate.Option
}

// Build returns the gate of package httpgate, for frameworks that take one as it is.
func (g Gate) Build() *httpgate.Gate { return httpgate.MustNew(g.Limiter, g.Options...) }

// An App is what a server has to serve:
//
//	GET, HEAD, POST /hello         Hello
//	GET             /group/a       Hello, behind the gates of Group
//	GET             /group/b       Hello, behind the gates of Group
//	GET             /alone         Hello, behind the gates of Alone
//	POST            /echo          Echo of the request's body
//	GET             /decision      Decision of what the framework gives handlers of the request
//	GET             /stream        every one of Chunks, sent before the next is asked for
//	GET             /panic         Panic
//
// The gates of All stand before every route. Gates in a list stand one inside the other, the first
// outermost. [App.Handler] has the routes without their gates, for frameworks whose handlers are
// those of net/http. The methods are safe for concurrent use.
type App struct {
	Host string // to listen on, at any free port: 127.0.0.1 or ::1

	All, Group, Alone []Gate

	runs   atomic.Int64
	resume chan struct{}
	wait   time.Duration // for resume
}

func (a *App) ran(answer string) []byte {
	a.runs.Add(1)
	return []byte(answer)
}

// Hello is the body of an answer.
func (a *App) Hello() []byte { return a.ran("hello") }

// Echo is the body of an answer to a request with a body.
func (a *App) Echo(body []byte) []byte { return a.ran(fmt.Sprintf("%d bytes: %.16q", len(body), body)) }

// Decision is the body of an answer that tells of the decision on the request, as FromContext of a gate
// returns it.
func (a *App) Decision(d *slidegate.Decision, ok bool) []byte {
	if !ok {
		return a.ran("no decision")
	}
	return a.ran(fmt.Sprintf("%s, key %q, cost %d", d, d.Key(), d.Cost))
}

// Chunks are the parts of a body. The second does not come before the client has the first.
func (a *App) Chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(a.ran(firstChunk)) {
			return
		}
		select {
		case <-a.resume:
		case <-time.After(a.wait):
		}
		yield([]byte(secondChunk))
	}
}

const firstChunk, secondChunk = "one\n", "two\n"

// Panic does.
func (a *App) Panic() {
	a.runs.Add(1)
	panic("httpgatetest: this handler panics")
}

// Handler serves the routes, without the gates.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	answer := func(body func(*http.Request) []byte) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", Text)
			_, _ = w.Write(body(r)) // a client that is gone is none of the handler's business
		})
	}
	hello := answer(func(*http.Request) []byte { return a.Hello() })
	for _, route := range []string{"GET /hello", "POST /hello", "GET /group/a", "GET /group/b", "GET /alone"} {
		mux.Handle(route, hello)
	}
	mux.Handle("GET /decision", answer(func(r *http.Request) []byte { return a.Decision(httpgate.FromContext(r.Context())) }))
	mux.Handle("POST /echo", answer(func(r *http.Request) []byte {
		body, _ := io.ReadAll(r.Body)
		return a.Echo(body)
	}))
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", Text)
		for chunk := range a.Chunks() {
			_, _ = w.Write(chunk)
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { a.Panic() })
	return mux
}
