package rls

import (
	"context"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
)

// An ask is a descriptor with its limit, and what came of it. Without a limit, nil, there is nothing to ask.
type ask struct {
	rules.Match
	limit   *pb.RateLimitResponse_RateLimit // as answers have it
	limiter *limiter                        // nil if the limit is 0: nothing ever fits then
	window  time.Duration

	hits     int64 // that it spends; 0 looks whether there is room for one
	negative bool  // hits are given back

	shadow, quota bool

	// What came of it.
	known    bool // the rest is
	over     bool
	left     int64               // units that would be admitted now
	wait     time.Duration       // until the same fits if over, else until all is there again
	decision *slidegate.Decision // of takeWhole, which may be taken back
	charged  int64
	returned int64
}

// refuses tells whether it speaks against the request.
func (a *ask) refuses() bool { return a.over && !a.shadow }

// spends tells whether something can be charged for it.
func (a *ask) spends() bool { return a.limiter != nil && !a.negative && a.hits > 0 }

// most is what can ever be charged of its hits.
func (a *ask) most() int64 { return min(a.hits, a.limiter.limit.Quota) }

// do does what the descriptor says: it spends, looks or gives back.
func (a *ask) do(ctx context.Context) error {
	switch {
	case a.limit == nil:
		return nil
	case a.spends():
		return a.take(ctx)
	case a.negative && a.limiter != nil:
		return a.giveBack(ctx)
	}
	return a.look(ctx)
}

// take charges the hits, or, where there is no room for all of them, as many as there is room for.
func (a *ask) take(ctx context.Context) error {
	d, err := a.limiter.TakeN(ctx, a.Key, a.most())
	if err != nil {
		return err
	}
	a.stands(&d)
	if a.charged = d.Held(); d.Allowed || a.left == 0 {
		return nil
	}
	if d, err = a.limiter.TakeUpTo(ctx, a.Key, a.left); err != nil {
		return err
	}
	a.charged = d.Held()
	then, err := a.limiter.PeekN(ctx, a.Key, a.most())
	if err != nil {
		return err
	}
	a.stands(&then)
	a.over = true // when it was asked, also if it would fit by now
	return nil
}

// look finds out whether the hits would fit, or one if there are none. It charges nothing.
func (a *ask) look(ctx context.Context) error {
	if a.limit == nil {
		return nil
	}
	if a.limiter == nil {
		a.known, a.over, a.wait = true, !a.negative, a.window // no wait would help: ask once in a window
		return nil
	}
	cost := int64(1)
	if a.spends() {
		cost = a.most()
	}
	d, err := a.limiter.PeekN(ctx, a.Key, cost)
	if err == nil {
		a.stands(&d)
	}
	return err
}

// stands takes over how its limit stands after a decision over it alone.
func (a *ask) stands(d *slidegate.Decision) { a.is(d.State(0), d.Refuses(0)) }

// is takes over the state of its limit, which refuses or not.
func (a *ask) is(s slidegate.State, refuses bool) {
	a.known, a.left, a.wait = true, s.Remaining, s.ResetIn
	if refuses {
		a.wait = s.RetryIn
	}
	a.over = !a.negative && (refuses || a.hits > s.Limit.Quota)
}

// takeWhole charges all hits or none.
func (a *ask) takeWhole(ctx context.Context) error {
	if !a.spends() || a.hits > a.most() {
		return a.look(ctx)
	}
	d, err := a.limiter.TakeN(ctx, a.Key, a.hits)
	if err == nil {
		a.stands(&d)
		a.charged, a.decision = d.Held(), &d
	}
	return err
}
