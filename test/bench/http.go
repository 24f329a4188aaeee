package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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

// IsRival tells a middleware that others wrote.
func (m *Middleware) IsRival() bool { return !m.Ours && m.Name != HTTPFloor }

// The middleware that the targets of HTTP are about.
const (
	LogDraft8     = "httpgate-log-draft8"     // 2 fields
	CounterDraft8 = "httpgate-counter-draft8" // 2 fields
	LogNone       = "httpgate-log-none"       // no field
	LogLegacy     = "httpgate-log-legacy"     // 3 fields
	Log3Draft8    = "httpgate-3-logs-draft8"  // 2 fields of three items
	LogApart      = "httpgate-log-apart"      // 2 fields, the decision not in the context
	CounterApart  = "httpgate-counter-apart"  // likewise
)

// HTTPFloor is the name of what limits nobody and does what no middleware with a decision in the context and two
// fields can leave out: it reads the clock, sets both fields to texts that are there already, and copies the request. The copy and
// the decision are one allocation. What it misses is not to be had in the same run.
const HTTPFloor = "floor-context"

// A Floor is who does only what nobody can leave out. The zero value is none.
type Floor struct {
	Name string
	Does string // who it is, in words
}

// FloorOf returns the floor under a contender of a part.
func FloorOf(part, contender string) Floor {
	switch {
	case (part == "http-allowed" || part == "http-crowd") && (contender == LogDraft8 || contender == CounterDraft8):
		return Floor{HTTPFloor, "a middleware that limits nobody, and only puts a decision in the context and sets two fields,"}
	case part == "doors-rls" && contender == RLSDoor:
		return Floor{BareGRPC, "a server of gRPC that knows its answer"}
	}
	return Floor{}
}

// Middlewares returns the rivals, a floor, and ours.
func Middlewares() []Middleware {
	return []Middleware{
		{Name: "throttled", Wrap: wrapThrottled},
		{Name: "go-limiter", Wrap: wrapGoLimiter},
		{Name: "httprate", Wrap: wrapHTTPRate},
		{Name: "ulule", Wrap: wrapUlule},
		{Name: "tollbooth", Wrap: wrapTollbooth},
		{Name: HTTPFloor, Wrap: wrapFloor},
		gate(LogDraft8, []slidegate.Algorithm{slidegate.SlidingLog}),
		gate(CounterDraft8, []slidegate.Algorithm{slidegate.SlidingCounter}),
		gate(LogApart, []slidegate.Algorithm{slidegate.SlidingLog}, httpgate.WithoutContext()),
		gate(CounterApart, []slidegate.Algorithm{slidegate.SlidingCounter}, httpgate.WithoutContext()),
		gate(LogNone, []slidegate.Algorithm{slidegate.SlidingLog}, httpgate.Headers()),
		gate(LogLegacy, []slidegate.Algorithm{slidegate.SlidingLog}, httpgate.Headers(httpgate.Legacy)),
		gate(Log3Draft8, make([]slidegate.Algorithm, 3)),
	}
}

func gate(name string, algorithms []slidegate.Algorithm, options ...httpgate.Option) Middleware {
	wrap := func(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
		limits := make([]slidegate.Limit, len(algorithms))
		for i, a := range algorithms {
			limits[i] = slidegate.Limit{Name: string(rune('a' + i)), Quota: quota, Window: window << i, Algorithm: a}
		}
		store := memstore.New()
		g := httpgate.MustNew(slidegate.MustNew(store, limits...), options...)
		return g.Wrap(next), func() { _ = store.Close() }
	}
	return Middleware{Name: name, Ours: true, Wrap: wrap}
}

// A floored request has a decision in its context.
type floored struct {
	context.Context
	decision slidegate.Decision
	request  http.Request
}

type floorKey struct{}

// Value implements context.Context.
func (f *floored) Value(key any) any {
	if key == (floorKey{}) {
		return &f.decision
	}
	return f.Context.Value(key)
}

func wrapFloor(quota int64, window time.Duration, next http.Handler) (http.Handler, func()) {
	policy, line := []string{`"a";q=` + strconv.FormatInt(quota, 10) + ";w=60"}, []string{`"a";r=1;t=60`}
	begun := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := new(floored)
		f.Context, f.decision.Cost = r.Context(), int64(time.Since(begun))
		h := w.Header()
		h["Ratelimit"], h["Ratelimit-Policy"] = line, policy
		f.request = *r.WithContext(f)
		next.ServeHTTP(w, &f.request)
	}), nothing
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

// A Server asks a handler in process, with the same requests again and again.
type Server struct {
	handler  http.Handler
	requests []*http.Request
	asked    int
	writer   writer
	Stop     func()
}

// Bare is a handler that does nothing: what it takes is not the middleware's.
var Bare http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// A Crowd is who asks a middleware, and what each of them may.
type Crowd struct {
	Name, About string
	Clients     int // each with a connection of its own, in turn
	Quota       int64
	Window      time.Duration
	Denied      bool
}

// Crowds returns those in which all middlewares stand.
func Crowds() []Crowd {
	return []Crowd{
		{"http-allowed", "added to ServeHTTP by a middleware that lets the request pass", 1, roomy, time.Minute, false},
		{"http-crowd", "the same with a thousand clients in turn, each with a quota of a thousand", 1000, 1000, time.Minute, false},
		{"http-denied", "ServeHTTP of a middleware that refuses", 1, 100, time.Hour, true},
	}
}

// FindCrowd returns the crowd of a name. It panics if there is none.
func FindCrowd(name string) *Crowd {
	for _, c := range Crowds() {
		if c.Name == name {
			return &c
		}
	}
	panic("bench: no crowd " + name)
}

// Serve puts a middleware before the bare handler. Where it is to refuse, its quota is used up.
func (c *Crowd) Serve(m *Middleware) *Server {
	s := NewServer(Bare, c.Clients)
	s.handler, s.Stop = m.Wrap(c.Quota, c.Window, Bare)
	s.Ask(1000)
	return s
}

// NewServer returns one of so many clients.
func NewServer(handler http.Handler, clients int) *Server {
	s := &Server{handler: handler, writer: writer{header: http.Header{}}, Stop: nothing}
	for i := range clients {
		r := must(http.NewRequest(http.MethodGet, "http://example.com/orders/7", nil))
		r.RemoteAddr = fmt.Sprintf("203.0.%d.%d:%d", 113+i/250, 7+i%250, 40123+i*17%20000)
		s.requests = append(s.requests, r)
	}
	return s
}

// Ask sends calls requests and returns the status of the last response, 0 if it was not set.
func (s *Server) Ask(calls int) int {
	for range calls {
		clear(s.writer.header)
		s.writer.status = 0
		s.handler.ServeHTTP(&s.writer, s.requests[s.asked])
		if s.asked++; s.asked == len(s.requests) {
			s.asked = 0
		}
	}
	return s.writer.status
}

// Fields returns the number of header fields of the last response.
func (s *Server) Fields() int { return len(s.writer.header) }
