package httpgate

import (
	"net/http"
	"sync/atomic"
)

// Shadow lets every request pass, to see whom limits would refuse before they do; by default refusals
// are refused. The gate decides, charges what it would admit, and tells the observers and the logger
// whom it would have refused: see [Event]. Nothing of it reaches the client: no status, no field, no
// wait, no entry of a [Deny] list, and no failure of the store, however the gate fails. [RefundIf], [Settle] and [Ban]
// do what they do, so that the numbers are those of a gate that refuses.
//
// A shadow gate may stand around or inside one that refuses, to try another limit beside it. Over one
// store, give its limits names of their own, or the two count as one.
func Shadow() Option { return func(g *Gate) { g.shadow = true } }

// serveShadow runs next, whatever the verdict.
func (g *Gate) serveShadow(w http.ResponseWriter, r *http.Request, p *passage, next http.Handler) {
	g.inShadow(p)
	if p.decided && g.keepsAccount() {
		g.serveAndSettle(w, r, &account{passage: *p, gate: g}, next)
		return
	}
	next.ServeHTTP(w, g.admitted(r, p))
}

// inShadow tells of a refusal that there would have been. No field speaks of this gate.
func (g *Gate) inShadow(p *passage) {
	if p.decided && !p.decision.Allowed {
		g.quiet.shadow.refused(g, p.decision.Binding().Limit.Name)
	}
}

// A shadow counts the refusals that there would have been since the log was last told.
type shadow struct {
	n    atomic.Uint64
	told atomic.Int64 // in Unix seconds
}

func (s *shadow) refused(g *Gate, limit string) {
	s.n.Add(1)
	if isDue(&s.told) {
		g.logger.Info("httpgate: requests would have been refused, were the gate not in shadow mode", "requests", s.n.Swap(0), "limit", limit)
	}
}
