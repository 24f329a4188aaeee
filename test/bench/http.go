package bench

import (
	"context"
	"net/http"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululestore "github.com/ulule/limiter/v3/drivers/store/memory"
)

// A Middleware limits requests by the client's address, in memory, with the fields that it sends
// unless told otherwise.
type Middleware struct {
	Name string
	Ours bool
	Wrap func(quota int64, window time.Duration, next http.Handler) (handler http.Handler, stop func())
}

// The middleware that the targets of HTTP are about.
const (
	LogDraft8     = "httpgate-log-draft8"     // 2 fields
	CounterDraft8 = "httpgate-counter-draft8" // 2 fields
	LogNone       = "httpgate-log-none"       // no field
	LogLegacy     = "httpgate-log-legacy"     // 3 fields
	Log3Draft8    = "httpgate-3-logs-draft8"  // 2 fields of three items
)

// Middlewares returns the rivals and ours.
func Middlewares() []Middleware {
	return []Middleware{
		{Name: "throttled", Wrap: wrapThrottled},
		{Name: "go-limiter", Wrap: wrapGoLimiter},
		{Name: "httprate", Wrap: wrapHTTPRate},
		{Name: "ulule", Wrap: wrapUlule},
		{Name: "tollbooth", Wrap: wrapTollbooth},
		gate(LogDraft8, []slidegate.Algorithm{slidegate.SlidingLog}, httpgate.Draft8),
		gate(CounterDraft8, []slidegate.Algorithm{slidegate.SlidingCounter}, httpgate.Draft8),
		gate(LogNone, []slidegate.Algorithm{slidegate.SlidingLog}),
		gate(LogLegacy, []slidegate.Algorithm{slidegate.SlidingLog}, httpgate.Legacy),
		gate(Log3Draft8, make([]slidegate.Algorithm, 3), httpgate.Draft8),
	}
}

func gate(name string, algorithms []slidegate.Algorithm, formats ...httpgate.Format) Middleware {
	wrap := func(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
		limits := make([]slidegate.Limit, len(algorithms))
		for i, a := range algorithms {
			limits[i] = slidegate.Limit{Name: string(rune('a' + i)), Quota: quota, Window: window << i, Algorithm: a}
		}
		store := memstore.New()
		g := httpgate.MustNew(slidegate.MustNew(store, limits...), httpgate.Headers(formats...))
		return g.Wrap(next), func() { _ = store.Close() }
	}
	return Middleware{Name: name, Ours: true, Wrap: wrap}
}

func wrapGoLimiter(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	store := must(memorystore.New(&memorystore.Config{Tokens: uint64(quota), Interval: window}))
	stop := func() { _ = store.Close(context.Background()) }
	return must(httplimit.NewMiddleware(store, httplimit.IPKeyFunc())).Handle(next), stop
}

func wrapHTTPRate(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	//lint:ignore SA1019 what most of its users have, and nothing stands in front of the benchmark
	return httprate.LimitByIP(int(quota), window)(next), nothing
}

func wrapThrottled(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	limiter := must(throttled.NewGCRARateLimiterCtx(must(throttledstore.NewCtx(0)), throttledQuota(quota, window)))
	by := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return by.RateLimit(next), nothing
}

func wrapUlule(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	limiter := ulule.New(ululestore.NewStore(), ulule.Rate{Limit: quota, Period: window})
	return stdlib.NewMiddleware(limiter).Handler(next), nothing
}

func wrapTollbooth(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	return tollbooth.HTTPMiddleware(tollboothLimiter(quota, window))(next), nothing
}

// A writer drops what is written and keeps its header map for the next response.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { return len(b), nil }
func (w *writer) WriteHeader(status int)      { w.status = status }

// A Server asks a handler in process, with one request again and again.
type Server struct {
	handler http.Handler
	request *http.Request
	writer  writer
	Stop    func()
}

// Bare is a handler that does nothing: what it takes is not the middleware's.
var Bare http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// Serve puts a middleware before the bare handler, roomy or with its quota used up.
func (m *Middleware) Serve(denied bool) *Server {
	quota, window := int64(roomy), time.Minute
	if denied {
		quota, window = 100, time.Hour
	}
	s := NewServer(Bare)
	s.handler, s.Stop = m.Wrap(quota, window, Bare)
	s.Ask(1000)
	return s
}

// NewServer returns one without any middleware.
func NewServer(handler http.Handler) *Server {
	r := must(http.NewRequest(http.MethodGet, "http://example.com/orders/7", nil))
	r.RemoteAddr = "203.0.113.7:40123"
	return &Server{handler: handler, request: r, writer: writer{header: http.Header{}}, Stop: nothing}
}

// Ask sends the request calls times and returns the status of the last response, 0 if it was not set.
func (s *Server) Ask(calls int) int {
	for range calls {
		clear(s.writer.header)
		s.writer.status = 0
		s.handler.ServeHTTP(&s.writer, s.request)
	}
	return s.writer.status
}

// Fields returns the number of header fields of the last response.
func (s *Server) Fields() int { return len(s.writer.header) }
