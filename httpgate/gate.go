package httpgate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A Gate asks a limiter about every request and lets it pass or answers in the handler's place. It
// is safe for concurrent use.
type Gate struct {
	limiter   *slidegate.Limiter
	key       func(*http.Request) (string, error) // nil for the client's address
	cost      func(*http.Request) int64           // nil for 1
	skip      func(*http.Request) bool
	choose    func(*http.Request) *slidegate.Limiter
	deny      http.Handler // nil for the gate's own answer
	closed    http.Handler // nil to fail open
	observers []func(*Event)
	logger    *slog.Logger
	invalid   error

	formats    formats
	retryAfter bool
	addresses  Addresses

	plate  *plate
	kept   atomic.Int64
	plates sync.Map // of chosen limiters: *slidegate.Limiter to *plate
	quiet  quiet
}

// New returns a gate in front of which requests are counted by the client's address, of which
// those refused get a 429 with the fields of [Draft8], and which lets requests pass when the store
// cannot be asked. Every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...Option) (*Gate, error) {
	if limiter == nil {
		return nil, invalidf("the limiter is nil: make one with slidegate.New")
	}
	g := &Gate{limiter: limiter, formats: 1 << Draft8, retryAfter: true, logger: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(g)
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	g.plate = plateOf(limiter)
	return g, nil
}

// MustNew is New for options that are known to be right. It panics on an error.
func MustNew(limiter *slidegate.Limiter, options ...Option) *Gate {
	g, err := New(limiter, options...)
	if err != nil {
		panic(err)
	}
	return g
}

// PerIP returns a middleware that holds every client address to limit, with a memory store of its
// own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...Option) func(http.Handler) http.Handler {
	return MustNew(slidegate.MustNew(memstore.New(), limit), options...).Wrap
}

func plateOf(l *slidegate.Limiter) *plate {
	limits := l.Limits()
	policies := make([]policy, len(limits))
	for i, limit := range limits {
		policies[i] = newPolicy(limit)
	}
	return newPlate(policies)
}

// Addresses returns how the gate finds the client's address.
func (g *Gate) Addresses() *Addresses { return &g.addresses }

// Wrap returns a handler that asks the gate before next. next runs exactly once for a request that
// is admitted and never for one that is refused. The ResponseWriter goes through untouched.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
}

// A passage is what the gate knows of one request: in the request's context, and one allocation
// with the texts of its fields.
type passage struct {
	context.Context
	decision slidegate.Decision
	err      error
	single   standing  // of the binding limit, this gate's or an outer one's
	values   [7]string // of the fields
}

type contextKey struct{}

// Value implements context.Context.
func (p *passage) Value(key any) any {
	if key == (contextKey{}) {
		return p
	}
	return p.Context.Value(key)
}

func passageOf(ctx context.Context) *passage {
	p, _ := ctx.Value(contextKey{}).(*passage)
	return p
}

// FromContext returns the decision on the request whose context it is: in the next handler and in
// [OnDeny]. There is none on a request that was skipped or could not be decided. It is shared:
// copy it to keep it, and give it to Refund as it is.
func FromContext(ctx context.Context) (*slidegate.Decision, bool) {
	p := passageOf(ctx)
	if p == nil || p.err != nil {
		return nil, false
	}
	return &p.decision, true
}

// ErrorFromContext returns why a request could not be decided, in [FailWith]; nil otherwise.
func ErrorFromContext(ctx context.Context) error {
	if p := passageOf(ctx); p != nil {
		return p.err
	}
	return nil
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.skip != nil && g.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	limiter, plate := g.limiter, g.plate
	if g.choose != nil {
		if chosen := g.choose(r); chosen != nil && chosen != limiter {
			limiter, plate = chosen, g.plateFor(chosen)
		}
	}
	cost := int64(1)
	if g.cost != nil {
		cost = g.cost(r)
	}
	var begin time.Time
	if g.observers != nil {
		begin = time.Now()
	}
	p := &passage{Context: r.Context()}
	key, reason, err := g.keyOf(r)
	if err == nil {
		p.decision, err = limiter.TakeN(p.Context, key, cost)
	}
	var never *slidegate.CostError
	if errors.As(err, &never) {
		// Refused, never a store failure, and without a Retry-After: no waiting helps.
		g.observe(p, begin, reason)
		g.refuse(w, r, p, never.Limit.Name)
		return
	}
	if err != nil {
		p.err = err
		g.undecided(w, r, p, next, begin, reason)
		return
	}
	g.quiet.recovered(g.logger)
	g.speak(w.Header(), p, plate)
	g.observe(p, begin, reason)
	if p.decision.Allowed {
		next.ServeHTTP(w, r.WithContext(p))
		return
	}
	g.refuse(w, r, p, "")
}

// speak sets the fields of a decision.
func (g *Gate) speak(h http.Header, p *passage, plate *plate) {
	d := &p.decision
	n := d.Len()
	if g.retryAfter && !d.Allowed && n > 0 {
		h[fieldRetryAfter] = []string{retryAfter(d.RetryAfter())}
	}
	if n == 0 || g.formats == 0 {
		return
	}
	var standings [slidegate.MaxLimits]standing
	for i := range n {
		standings[i] = standingOf(d.State(i))
	}
	p.single = standings[binding(standings[:n])]
	var outer *standing
	if o := passageOf(p.Context); o != nil && o.err == nil && o.decision.Len() > 0 {
		outer = &o.single
	}
	plate.write(h, g.formats, p.values[:], standings[:n], outer, d.At().UnixMilli())
	if outer != nil && outer.binds(p.single) {
		p.single = *outer
	}
}

// refuse answers a request that was refused; never names the limit in which it can never fit.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, p *passage, never string) {
	if g.deny != nil {
		g.deny.ServeHTTP(w, r.WithContext(p))
		return
	}
	var violated []string
	if never != "" {
		violated = append(violated, never)
	}
	for i := range p.decision.Len() {
		if s := p.decision.State(i); s.RetryIn > 0 {
			violated = append(violated, s.Limit.Name)
		}
	}
	QuotaExceeded(violated...).ServeHTTP(w, r)
}

// undecided fails open or closed. A client that has gone away is no evidence against the store.
func (g *Gate) undecided(w http.ResponseWriter, r *http.Request, p *passage, next http.Handler, begin time.Time, reason Reason) {
	if p.Context.Err() == nil && !errors.Is(p.err, errNoAddress) {
		g.quiet.failed(g.logger, p.err)
	}
	g.observe(p, begin, reason)
	if errors.Is(p.err, errNoAddress) && g.closed == nil {
		// Whoever cannot be told apart would be unlimited if this failed open.
		Problem{Type: "about:blank", Title: "Bad Request", Status: http.StatusBadRequest}.ServeHTTP(w, r)
		return
	}
	if g.closed == nil {
		next.ServeHTTP(w, r)
		return
	}
	g.closed.ServeHTTP(w, r.WithContext(p))
}

func (g *Gate) plateFor(l *slidegate.Limiter) *plate {
	if p, ok := g.plates.Load(l); ok {
		return p.(*plate)
	}
	p := plateOf(l)
	if g.kept.Add(1) <= maxPlates {
		g.plates.Store(l, p)
	}
	return p
}

// maxPlates bounds what is kept for programs that make a limiter for every request.
const maxPlates = 4096

// errNoAddress is why a request could not be decided that nobody can be counted for.
var errNoAddress = errors.New("httpgate: the request has no client address to count it under: who connected is no address, such as a Unix socket's (see TrustUnixPeer)")

// keyOf returns the key of a request. Where the key function cannot tell, it is the client's
// address, under its own kind.
func (g *Gate) keyOf(r *http.Request) (string, Reason, error) {
	if g.key != nil {
		if key, err := g.key(r); err == nil && key != "" {
			return bounded(key), "", nil
		}
	}
	addr, reason := g.addresses.Find(r)
	g.note(r, addr, reason)
	if !addr.IsValid() {
		return "", reason, errNoAddress
	}
	var buffer [64]byte
	return string(g.addresses.appendKey(append(buffer[:0], "ip:"...), addr)), reason, nil
}

// note tells the logger what a header could not be believed for.
func (g *Gate) note(r *http.Request, addr netip.Addr, reason Reason) {
	switch {
	case reason == ReasonMalformed || reason == ReasonTooFewHops:
		g.quiet.unreadable(g.logger, g.addresses.header, reason)
	case reason == ReasonPeer && (addr.IsPrivate() || addr.IsLoopback()):
		if r.Header["X-Forwarded-For"] != nil || r.Header["Forwarded"] != nil || r.Header["X-Real-Ip"] != nil {
			g.quiet.ignored(g.logger)
		}
	}
}

// IgnoredHeaders returns how many requests came from a private or loopback address with a
// forwarding header that the gate was not told to believe: likely from a proxy, whose clients then
// all count as one.
func (g *Gate) IgnoredHeaders() uint64 { return g.quiet.headers.Load() }

// An Event is one request as an observer sees it.
type Event struct {
	Decision *slidegate.Decision // nil if it could not be decided
	Err      error               // why it could not, nil otherwise
	Reason   Reason              // how the client's address was found; empty if it was not looked for
	Canceled bool                // the client has gone away: Err says nothing of the store
	Took     time.Duration       // the decision, key and store included
}

func (g *Gate) observe(p *passage, begin time.Time, reason Reason) {
	if g.observers == nil {
		return
	}
	e := Event{Err: p.err, Reason: reason, Canceled: p.Context.Err() != nil, Took: time.Since(begin)}
	if p.err == nil {
		e.Decision = &p.decision
	}
	for _, f := range g.observers {
		g.tell(f, &e)
	}
}

// tell calls an observer, whose panic is not the request's.
func (g *Gate) tell(f func(*Event), e *Event) {
	defer func() {
		if v := recover(); v != nil {
			g.logger.Error("httpgate: an observer panicked", "panic", v)
		}
	}()
	f(e)
}

// quiet keeps the log to a line for each change of state.
type quiet struct {
	down     atomic.Bool
	headers  atomic.Uint64
	lastWarn atomic.Int64 // in seconds of the process clock
}

func (q *quiet) failed(l *slog.Logger, err error) {
	if !q.down.Load() && !q.down.Swap(true) {
		l.Error("httpgate: requests cannot be decided", "error", err)
	}
}

func (q *quiet) recovered(l *slog.Logger) {
	if q.down.Load() && q.down.Swap(false) {
		l.Info("httpgate: requests are decided again")
	}
}

func (q *quiet) ignored(l *slog.Logger) {
	if q.headers.Add(1) == 1 {
		l.Warn("httpgate: a request from a private address has a forwarding header that is not believed; if that is a proxy, all its clients count as one: see TrustProxies")
	}
}

func (q *quiet) unreadable(l *slog.Logger, header string, reason Reason) {
	now := time.Now().Unix()
	if last := q.lastWarn.Load(); now-last >= 60 && q.lastWarn.CompareAndSwap(last, now) {
		l.Warn("httpgate: a trusted proxy's header could not be used", "header", header, "reason", string(reason))
	}
}
