package httpgate

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
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
	cost      func(*http.Request) int64 // nil for 1
	skip      func(*http.Request) bool
	choose    func(*http.Request) *slidegate.Limiter
	addresses Addresses

	identity identity // nil for the client's address
	who      string   // the option that said who is asking
	watches  []*watch // on all identities that a request may lack
	copyKeys bool
	also     []part  // whose limits hold as well, each for a key of its own
	secret   *digest // of keys; nil to store them as they are

	rules           *rules // nil for none
	forbid          http.Handler
	countPreflights bool

	formats    formats
	retryAfter bool
	retrySaid  string         // the option that switched it, whatever the formats
	jitter     int64          // percent
	random     func() float64 // 0 to 1, for the jitter
	partition  *digest        // nil for no pk

	status  int                              // of refusals; 0 for the problem's
	problem func(violated ...string) Problem // of refusals; nil for QuotaExceeded
	body    *answer                          // of refusals; nil for the problem
	deny    http.Handler                     // nil for the gate's own answer

	closed http.Handler // nil to fail open
	fails  string       // the option that said so, or otherwise

	refundIf func(status int) bool
	settles  bool
	apart    bool // the decision stays out of the context
	ban      *ban
	shadow   bool

	observers []func(*Event)
	logger    *slog.Logger
	quiet     quiet
	sample    *sample // nil where nobody is told
	invalid   error

	outagesUntold bool // to the logger

	skips    bool // requests, by a list or a function
	asksMore bool // than its own limiter about one unit of one key
	curt     bool // of an admitted request it says what one limit has to say in Draft8, and has nothing to do after it
	plate    *plate
	kept     atomic.Int64
	plates   sync.Map // of chosen limiters: *slidegate.Limiter to *plate
}

// New returns a gate that counts requests by the client's address, answers refused ones with a 429
// and the fields of [Draft8], and lets requests pass when the store cannot be asked. Options change
// that. Every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...Option) (*Gate, error) {
	if limiter == nil {
		return nil, invalidf("the limiter is nil: make one with slidegate.New")
	}
	g := &Gate{
		limiter: limiter,
		formats: 1 << Draft8,
		forbid:  forbiddenAnswer,
		random:  rand.Float64,
		logger:  slog.New(slog.DiscardHandler),
	}
	if err := g.apply(options); err != nil {
		return nil, err
	}
	if g.ban != nil {
		if err := g.ban.bind(limiter); err != nil {
			return nil, err
		}
	}
	if g.plate = g.plateOf(limiter); g.plate.err != nil {
		return nil, g.plate.err
	}
	g.skips = g.rules != nil || g.skip != nil
	g.asksMore = g.choose != nil || g.cost != nil || g.observers != nil || g.ban != nil || g.also != nil
	g.curt = g.plate.short && !g.shadow && !g.keepsAccount()
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

// PerIP returns a middleware that holds every client address to limit, in a memory store of its
// own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...Option) func(http.Handler) http.Handler {
	return MustNew(slidegate.MustNew(memstore.New(), limit), options...).Wrap
}

// Addresses returns how the gate finds the client's address.
func (g *Gate) Addresses() *Addresses { return &g.addresses }

// Wrap returns a handler that asks the gate before next. next runs exactly once for a request that
// is admitted and never for one that is refused. It gets the ResponseWriter untouched, so flushing,
// hijacking and HTTP/2 are as they would be without the gate; [RefundIf] has to watch the status, and
// gives it one that can do the same. The values of the fields are shared with other answers: next may
// replace them or append to them, not change them in place. Wrap is a middleware: one gate may
// stand before several handlers, which then share its budget.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return &gated{g, next}
}

// A gated handler is behind a gate.
type gated struct {
	gate *Gate
	next http.Handler
}

func (h *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.gate.serve(w, r, h.next) }

// A passage is what the gate knows of one request. Of a request that somebody else gets to see, it is
// the context.
type passage struct {
	context.Context
	limiter  *slidegate.Limiter
	decision slidegate.Decision
	err      error // why it is not decided, or why it never fits

	decided  bool
	refused  uint8 // the limits that refused, a bit each
	banned   bool  // it was a ban that refused
	banBegan bool  // with this request
	spoke    bool  // fields speak of the decision
}

// A carried passage is in one allocation with the request that carries it.
type carried struct {
	passage
	request http.Request
}

// within returns r with a copy of the passage as its context.
func (p *passage) within(r *http.Request) *http.Request {
	c := new(carried)
	c.passage = *p
	c.request = *r.WithContext(&c.passage)
	return &c.request
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

// single returns how the limit stands that binds among those that fields speak of, in p and the passages
// around it; nil if there is none.
func (p *passage) single() (binding *standing) {
	for ; p != nil; p = passageOf(p.Context) {
		if !p.spoke {
			continue
		}
		if s := standingOf(p.decision.Binding()); binding == nil || !binding.binds(s) {
			binding = &s
		}
	}
	return binding
}

// FromContext returns the decision on the request whose context it is, in the next handler and in
// [OnDeny]; of several gates, that of the nearest that decided and puts it there: see [WithoutContext]. There is
// none on a request that was skipped or could not be decided. It may be kept, and given to Refund as it is;
// whoever keeps many keeps copies, which hold nothing else of the request.
func FromContext(ctx context.Context) (*slidegate.Decision, bool) {
	p := passageOf(ctx)
	if p == nil || !p.decided {
		return nil, false
	}
	return &p.decision, true
}

// ErrorFromContext returns why a request could not be decided, in the handler of [FailWith], or the
// [*slidegate.CostError] of a request that can never fit, in that of [OnDeny]. Otherwise it is nil.
func ErrorFromContext(ctx context.Context) error {
	if p := passageOf(ctx); p != nil {
		return p.err
	}
	return nil
}

// serve is one request, top to bottom.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.skips || r.Method == http.MethodOptions {
		switch v := g.before(r); {
		case v == exempt, v == forbidden && g.shadow:
			next.ServeHTTP(w, r)
			return
		case v == forbidden:
			g.forbid.ServeHTTP(w, r)
			return
		}
	}
	if !g.asksMore && !g.isSampling() {
		g.serveUsual(w, r, next)
		return
	}
	p := passage{Context: r.Context()}
	plate := g.decide(r, &p)
	g.conclude(w, r, &p, plate, next)
}

// serveUsual is serve of a gate that asks its own limiter and nobody else. Of a request that was admitted nothing is made but the
// fields and what the context carries.
func (g *Gate) serveUsual(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, _, err := g.keyOf(r)
	if err != nil {
		g.judgeUsual(w, r, &slidegate.Decision{}, err, next)
		return
	}
	ctx := r.Context()
	d, err := g.limiter.Take(ctx, key)
	if !g.curt || !d.Allowed || g.quiet.down.on.Load() || passageOf(ctx) != nil {
		g.judgeUsual(w, r, &d, err, next)
		return
	}
	g.plate.writeShort(w.Header(), &d)
	if !g.apart {
		r = g.carry(r, &d)
	}
	next.ServeHTTP(w, r)
}

// carry returns r with a decision that fields speak of in its context.
func (g *Gate) carry(r *http.Request, d *slidegate.Decision) *http.Request {
	c := new(carried)
	c.Context, c.limiter, c.decision, c.decided, c.spoke = r.Context(), g.limiter, *d, true, true
	c.request = *r.WithContext(&c.passage)
	return &c.request
}

// judgeUsual is serveUsual where there is more to say or to do. It is apart for what it puts on the stack.
func (g *Gate) judgeUsual(w http.ResponseWriter, r *http.Request, d *slidegate.Decision, err error, next http.Handler) {
	p := passage{Context: r.Context(), limiter: g.limiter, decision: *d, err: err}
	g.judge(&p, g.plate)
	g.conclude(w, r, &p, g.plate, next)
}

// conclude does what follows from a decision, or from there being none.
func (g *Gate) conclude(w http.ResponseWriter, r *http.Request, p *passage, plate *plate, next http.Handler) {
	switch {
	case g.shadow:
		g.serveShadow(w, r, p, next)
	case !p.decided:
		g.undecided(w, r, p, next)
	default:
		g.speak(w.Header(), p, plate)
		g.answer(w, r, p, plate, next)
	}
}

// answer runs next for a request that was admitted, and whoever answers it if it was refused.
func (g *Gate) answer(w http.ResponseWriter, r *http.Request, p *passage, plate *plate, next http.Handler) {
	switch {
	case p.decision.Allowed && g.keepsAccount():
		g.serveAndSettle(w, r, &account{passage: *p, gate: g}, next)
	case p.decision.Allowed:
		next.ServeHTTP(w, g.admitted(r, p))
	case g.deny != nil:
		notStored(w.Header())
		sw := &statusWriter{ResponseWriter: w, status: http.StatusTooManyRequests}
		g.deny.ServeHTTP(sw, p.within(r))
		sw.finish()
	default:
		g.refuse(w, r, p.refused, plate)
	}
}

// admitted returns the request that next gets.
func (g *Gate) admitted(r *http.Request, p *passage) *http.Request {
	if g.apart {
		return r
	}
	return p.within(r)
}

// before decides what needs no limiter: the lists, then what is not counted.
func (g *Gate) before(r *http.Request) verdict {
	if g.rules != nil {
		if v := g.rules.verdict(r, &g.addresses); v != counted {
			if v == forbidden && g.observers != nil {
				g.tell(&passage{Context: r.Context(), err: ErrForbidden}, "", "", time.Now())
			}
			return v
		}
	}
	if r.Method == http.MethodOptions && !g.countPreflights && isPreflight(r) || g.skip != nil && g.skip(r) {
		return exempt
	}
	return counted
}

// decide asks the limiter, tells the observers, and returns the plate of the limiter it asked.
func (g *Gate) decide(r *http.Request, p *passage) *plate {
	limiter, plate, cost := g.limiter, g.plate, int64(1)
	if g.choose != nil {
		if chosen := g.choose(r); chosen != nil && chosen != limiter {
			limiter, plate = chosen, g.plateFor(chosen)
		}
	}
	if g.cost != nil {
		cost = g.cost(r)
	}
	var begin time.Time
	if g.observers != nil {
		begin = time.Now()
	}
	key, reason, err := g.keyOf(r)
	if err == nil {
		p.limiter = limiter
		if g.ban != nil && len(plate.policies) > 0 {
			plate, err = g.takeUnlessBanned(r, p, plate, key, reason, cost)
		} else {
			err = g.take(r, p, plate, key, reason, cost)
		}
		if g.isSampling() {
			g.sample.look(g, r, key, reason)
		}
	}
	p.err = err
	g.judge(p, plate)
	if g.observers != nil {
		g.tell(p, key, reason, begin)
	}
	return plate
}

// judge sorts what the limiter answered into decisions and failures.
func (g *Gate) judge(p *passage, plate *plate) {
	if p.err == nil {
		p.decided = true
		if g.quiet.down.on.Load() {
			g.quiet.recovered(g.logger)
		}
		return
	}
	g.judgeFailure(p, plate)
}

// judgeFailure is judge where there is no verdict.
func (g *Gate) judgeFailure(p *passage, plate *plate) {
	err := p.err
	var never *slidegate.CostError
	switch {
	case errors.As(err, &never):
		// Refused and never a store failure, or whoever asks for enough would pass.
		p.decided = true
		if never.Cost < 0 {
			g.warn(negativeCost)
		} else {
			p.refused = plate.bit(never.Limit.Name)
		}
	case uncountable(err):
		g.quiet.lost.failed(g.logger, err)
	case p.Context.Err() == nil: // somebody who hangs up is no evidence against the store
		if !g.outagesUntold {
			g.quiet.down.failed(g.logger, err)
		}
		if g.fails == "" && !g.shadow {
			g.warn(failOpen)
		}
	}
}

// speak sets the fields of a decision.
func (g *Gate) speak(h http.Header, p *passage, plate *plate) {
	d := &p.decision
	n, formats := d.Len(), g.formats
	if plate.ban {
		formats = 0 // a ban is no quota
	}
	outer := passageOf(p.Context)
	if outer != nil && n > 0 && d.Cost > 0 && outer.counted(p) {
		g.warn(limiterTwice)
	}
	if n == 0 || d.Allowed && formats == 0 {
		return
	}
	if p.spoke = formats != 0; d.Allowed && plate.short {
		plate.writeShort(h, d)
		return
	}
	var standings [slidegate.MaxLimits]standing
	for i := range n {
		standings[i] = standingOf(d.State(i))
		if standings[i].refuses {
			p.refused |= 1 << i
		}
	}
	if g.jitter > 0 && !d.Allowed {
		lengthen(standings[:n], g.jitter, g.random())
	}
	page := page{formats: formats, retryAfter: g.retryAfter && !d.Allowed, now: d.At().UnixMilli()}
	if g.partition != nil {
		page.partitions = g.partitions(d)
	}
	if outer != nil && formats&^listed != 0 {
		page.outer = outer.single()
	}
	plate.write(h, &page, standings[:n])
}

// partitions returns the pk of every limit.
func (g *Gate) partitions(d *slidegate.Decision) [][]byte {
	all := make([][]byte, d.Len())
	for i := range all {
		if i > 0 && d.KeyOf(i) == d.KeyOf(i-1) {
			all[i] = all[i-1]
			continue
		}
		sum := g.partition.sum(d.KeyOf(i))
		all[i] = sum[:partitionKeyLength]
	}
	return all
}

// counted tells whether p, or a passage outside it, is of the limiter and the key of inner.
func (p *passage) counted(inner *passage) bool {
	for ; p != nil; p = passageOf(p.Context) {
		if p.limiter == inner.limiter && p.decided && p.decision.Key() == inner.decision.Key() {
			return true
		}
	}
	return false
}

// refuse answers a request that a set of limits refused.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, refused uint8, plate *plate) {
	if g.body != nil {
		g.body.ServeHTTP(w, r)
		return
	}
	g.refusal(plate, refused).ServeHTTP(w, r)
}

// undecided fails open or closed.
func (g *Gate) undecided(w http.ResponseWriter, r *http.Request, p *passage, next http.Handler) {
	switch {
	case g.closed != nil:
		g.closed.ServeHTTP(w, p.within(r))
	case uncountable(p.err):
		noAddress.ServeHTTP(w, r)
	case !g.failsOpen(p):
		Unavailable().ServeHTTP(w, r) // to nobody, most likely
	default:
		next.ServeHTTP(w, r)
	}
}

// failsOpen tells whether a request passes that could not be decided. Whoever cannot be told apart would
// be unlimited if that failed open, and so would whoever hangs up, or sets a deadline, before the store
// can answer: neither ever does.
func (g *Gate) failsOpen(p *passage) bool {
	return g.closed == nil && !uncountable(p.err) && p.Context.Err() == nil
}

// uncountable tells of an error that is no failure of a store: the request has no address, or the limits that
// were chosen for it cannot be.
func uncountable(err error) bool {
	return errors.Is(err, ErrNoAddress) || errors.Is(err, slidegate.ErrInvalidLimit)
}

var noAddress = negotiated(Problem{Type: "about:blank", Title: "Internal Server Error", Status: http.StatusInternalServerError})

// maxPlates bounds what is kept for programs that make a limiter for every request.
const maxPlates = 4096

func (g *Gate) plateFor(l *slidegate.Limiter) *plate {
	if l == g.limiter {
		return g.plate
	}
	if p, ok := g.plates.Load(l); ok {
		return p.(*plate)
	}
	p := g.plateOf(l)
	if g.kept.Add(1) > maxPlates {
		g.warn(limiterPerRequest)
		return p
	}
	g.plates.Store(l, p)
	return p
}
