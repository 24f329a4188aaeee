package httpgate

import (
	"context"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate"
)

// And makes the gate decide over one more key in the same decision; by default there is the gate's own
// alone. A request has to have room in the limits of the gate's own limiter and in those of every limiter added,
// each of which counts the key that by says, and then all are charged; otherwise none is. So a login is held to what its
// address, its account and all logins together may, and a refusal by one costs the others nothing:
//
//	httpgate.New(perAddress,
//		httpgate.And(perAccount, httpgate.ByValue("account", name)),
//		httpgate.And(perService, httpgate.ByEverybody()))
//
// Anybody can use up what is counted by account alone, and lock its owner out: let it be many times what an account may
// from one address, which is a limit by [ByAll] of both.
//
// by is one of the options that say who is asking, such as [ByValue], [ByNetwork], [ByClaim] or [ByAll]. What it cannot tell
// counts under the client's address, as everywhere, and [Secret] holds for all keys. All fields, refusals and decisions
// are those of all limits, in the order of the options, as if they were of one limiter. [Choose] chooses in the place of
// the gate's own limiter; what And adds holds for everybody, also with [slidegate.Unlimited]. A chosen limiter that does
// not go with what was added is a mistake of the program: its requests get a 500, or the answer of [FailClosed] or
// [FailWith], and none passes. [RefundIf] gives back, and [Settle] settles, what was charged to all keys. [Ban] bans the gate's
// own key, and only for refusals by limits that count it.
//
// One decision has one cost: what [Cost] says is charged to every limit, those added too. Limits of different units,
// such as requests and tokens, are two gates, one inside the other. What the outer admits and the inner refuses stays
// charged, unless the outer gives it back:
//
//	requests, err := httpgate.New(perMinute, httpgate.RefundIf(func(status int) bool { return status == 429 }))
//	handler := requests.Wrap(tokens.Wrap(model))
//
// The decision is that of a [slidegate.Group], which says where it is one act: over one memory store, over one Redis
// server, and on a cluster where the keys share a hash slot. Elsewhere the limiters are asked in their order, and a
// refusal gives back what was charged: put first what refuses most. A gate has up to 8 limits in all, and no name twice.
func And(limiter *slidegate.Limiter, by Option) Option {
	return func(g *Gate) {
		if limiter == nil {
			g.reject("And: the limiter is nil: make one with slidegate.New")
			return
		}
		var who Gate
		if by != nil {
			by(&who)
		}
		switch {
		case who.invalid != nil && g.invalid == nil:
			g.invalid = who.invalid
		case who.invalid == nil && who.who == "":
			g.reject("And: the option says nothing of who is asking: allowed are By, ByAddress, ByHeader, ByEverybody and their like")
		}
		g.also = append(g.also, part{limiter, who.identity})
		g.watches = append(g.watches, who.watches...)
	}
}

// A part is a limiter that a gate asks beside its own, and whom it counts.
type part struct {
	limiter  *slidegate.Limiter
	identity identity // nil for the client's address
}

// plateOf returns the plate of a limiter together with those that And has added.
func (g *Gate) plateOf(limiter *slidegate.Limiter) *plate {
	limiters := []*slidegate.Limiter{limiter}
	for _, p := range g.also {
		limiters = append(limiters, p.limiter)
	}
	var p *plate
	if len(limiters) == 1 {
		p = newPlate(policiesOf(limiter.Limits()))
	} else {
		group, err := slidegate.NewGroup(limiters...)
		if err != nil {
			return &plate{err: err}
		}
		p = newPlate(policiesOf(group.Limits()))
		p.group = group
	}
	p.short = len(p.policies) == 1 && g.formats == 1<<Draft8 && g.partition == nil
	if g.settles && len(p.policies) > 1 {
		p.each, p.err = eachAlone(limiters)
	}
	return p
}

// An alone is a limiter of one limit, and which key of a decision it counts.
type alone struct {
	limiter *slidegate.Limiter
	key     int
}

func eachAlone(limiters []*slidegate.Limiter) (all []alone, err error) {
	for i, l := range limiters {
		each, err := l.Each()
		if err != nil {
			return nil, err
		}
		for _, one := range each {
			all = append(all, alone{one, i})
		}
	}
	return all, nil
}

// take asks the limiter, and those that And has added, about a request whose own key is found.
func (g *Gate) take(r *http.Request, p *passage, plate *plate, key string, reason Reason, cost int64) (err error) {
	switch {
	case plate.err != nil:
		return plate.err
	case plate.group == nil:
		p.decision, err = p.limiter.TakeN(p.Context, key, cost)
		return err
	}
	keys, err := g.keysOf(r, key, reason)
	if err == nil {
		p.decision, err = plate.group.TakeN(p.Context, cost, keys[:1+len(g.also)]...)
	}
	return err
}

// takeUpTo charges more for a request that was admitted, as far as there is room.
func (g *Gate) takeUpTo(ctx context.Context, p *passage, more int64) (slidegate.Decision, error) {
	if len(g.also) == 0 {
		return p.limiter.TakeUpTo(ctx, p.decision.Key(), more)
	}
	return g.plateFor(p.limiter).group.TakeUpTo(ctx, more, p.decision.Keys()...)
}

// keysOf returns the keys of all parts, of which the gate's own is found. The address is looked for once.
func (g *Gate) keysOf(r *http.Request, key string, reason Reason) (keys [slidegate.MaxLimits]string, err error) {
	keys[0] = key
	address := ""
	if reason != "" && strings.HasPrefix(key, "ip:") {
		address = key
	}
	for i, p := range g.also {
		told, _, ok := g.told(r, p.identity)
		if !ok && address == "" {
			if address, _, err = g.addressKey(r); err != nil {
				return keys, err
			}
		}
		if !ok {
			told = address
		}
		keys[i+1] = told
	}
	return keys, nil
}
