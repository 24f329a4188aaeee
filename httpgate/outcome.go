package httpgate

import (
	"context"
	"net/http"

	"github.com/slidegate/slidegate"
)

// An Outcome is what a gate makes of a request, for servers that do not answer through an
// http.ResponseWriter, such as those of gRPC: see [Gate.Decide].
type Outcome struct {
	// Admitted says whether to serve the request.
	Admitted bool

	// Decision is nil for a request that was exempt, denied or skipped, or could not be decided.
	Decision *slidegate.Decision

	// Err is why the request could not be decided, [ErrForbidden] if it was denied, or the
	// [*slidegate.CostError] of one that was refused since it can never fit. Otherwise it is nil. It is
	// not for the eyes of clients.
	Err error

	// Violated are the names of the limits that refused, in declared order.
	Violated []string

	// Banned says that it was a ban that refused: see [Ban]. Violated then has the ban's name alone.
	Banned bool

	// Header has the fields of the answer, under the names that http.Header gives them. Its values
	// are shared with other answers: they may be copied or appended to, not changed in place.
	Header http.Header

	// Context is that of the request with the decision in it: see [FromContext] and [Settle].
	Context context.Context

	account *account // nil where nothing is left to do
}

// Decide does what [Gate.Wrap] does up to the answer: it looks at what is exempt, denied or skipped,
// asks which limiter is the request's plan, what it costs and who is asking, and then the limiter, and
// tells the observers. The answer is the caller's, so no handler and no body that an option gave is
// used; a gate that has one of [FailClosed], [FailClosedWith] and [FailWith] does not admit what could
// not be decided, and none admits what could not since the request's context had ended. Call [Outcome.Done]
// when a request that was admitted has been served.
func (g *Gate) Decide(r *http.Request) Outcome { return g.DecideInto(nil, r) }

// DecideInto is Decide for an answer that has a header already: the fields are set on h, which becomes the Header of the outcome.
// With a nil h it is Decide.
func (g *Gate) DecideInto(h http.Header, r *http.Request) Outcome {
	switch g.before(r) {
	case exempt:
		return Outcome{Admitted: true, Context: r.Context()}
	case forbidden:
		return Outcome{Admitted: g.shadow, Err: ErrForbidden, Context: r.Context()}
	}
	a := &account{passage: passage{Context: r.Context()}, gate: g}
	p := &a.passage
	plate := g.decide(r, p)
	o := Outcome{Admitted: p.decision.Allowed, Err: p.err, Context: p}
	if p.decided {
		o.Decision = &p.decision
	}
	switch {
	case g.shadow:
		o.Admitted = true
		g.inShadow(p)
	case !p.decided:
		o.Admitted = g.failsOpen(p)
	default:
		if o.Header = h; h == nil {
			o.Header = http.Header{}
		}
		g.speak(o.Header, p, plate)
		o.Violated, o.Banned = plate.names(p.refused), p.banned
	}
	if o.Admitted && p.decided && g.keepsAccount() {
		o.Context, o.account = a, a
	}
	if o.Admitted && g.apart {
		o.Context = r.Context()
	}
	return o
}

// Done says how an admitted request was answered, once, when it has been served. A gate with [RefundIf]
// gives its charge back if the status is such: an HTTP status, or the code of another protocol where
// the function expects that.
func (o *Outcome) Done(status int) {
	if o.account != nil && o.account.gate.refundIf != nil {
		o.account.finish(status)
	}
}
