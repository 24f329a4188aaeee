package httpgate

import (
	"context"
	"net/http"
	"time"
)

// RefundIf gives a request's charge back if f says so of the status it was answered with; by default
// every admitted request stays charged. f says what is not to count:
//
//	httpgate.RefundIf(func(status int) bool { return status < 400 })  // only failures count
//	httpgate.RefundIf(func(status int) bool { return status >= 400 }) // only successes count
//
// A request is charged before the handler runs, so no more run
// at a time than the limits allow; what is given back is its own charge, once, at the time it was
// recorded. The fields of the answer are those of before.
//
// f gets the final status: the first one written that is not informational, 200 where the handler wrote
// none, 500 where it panicked before, with [http.ErrAbortHandler] too. A connection that was hijacked has
// no status and counts as 101. The charge is given back when the handler has returned, also where
// the client has gone away by then, before the answer's last bytes are sent; a store that does
// not answer holds these up for a second at most. If it cannot be given back, the answer is as it is, and the logger and
// the observers are told: see [Event]. What [Settle] charged is given back with it.
func RefundIf(f func(status int) bool) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("RefundIf: the function is nil")
			return
		}
		g.refundIf = f
	}
}

// keepsAccount tells whether there may be something to do for a request after its verdict.
func (g *Gate) keepsAccount() bool { return g.refundIf != nil || g.settles }

// serveAndSettle runs next for a request that was admitted, and then settles its account.
func (g *Gate) serveAndSettle(w http.ResponseWriter, r *http.Request, a *account, next http.Handler) {
	if !g.apart {
		r = r.WithContext(a)
	}
	if g.refundIf == nil {
		next.ServeHTTP(w, r)
		return
	}
	a.response.ResponseWriter = w
	returned := false
	defer func() { a.finish(a.response.final(returned)) }() // no recover: a panic goes on as it is
	next.ServeHTTP(a.response.writer(), r)
	returned = true
}

// finish gives back what the request was charged if it is not to count.
func (a *account) finish(status int) {
	if !a.gate.wantsBack(status) {
		return
	}
	ctx, cancel := afterwards(a.Context)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if _, err := a.adjust(ctx, 0); err != nil {
		a.gate.unsettled(a.decision.Key(), err)
	}
}

// wantsBack asks the program. A function that panics leaves the charge as it is, and the answer too.
func (g *Gate) wantsBack(status int) (yes bool) {
	defer func() {
		if v := recover(); v != nil {
			g.logger.Error("httpgate: the function of RefundIf panicked", "panic", v)
			yes = false
		}
	}()
	return g.refundIf(status)
}

// settleWithin bounds all that a store is asked at a time after a verdict, for stores that know no bound of
// their own.
const settleWithin = time.Second

// afterwards returns a context for what has to be done also where the client has gone away.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
}
