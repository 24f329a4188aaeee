package httpgate

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// An Event is one request as an observer sees it. It has a Decision or an Err, and that of a request
// on a [Deny] list is [ErrForbidden], without a key.
//
// There is one event for each request that was not skipped, and one more, with After set and an Err,
// where something could not be given back, settled or held against the key after the verdict.
type Event struct {
	Decision *slidegate.Decision // nil if it could not be decided; a copy, of a ban's limit where Banned is set
	Key      string              // who was counted; keys are people: mind where it is written
	Err      error               // why it could not be decided, nil otherwise
	Reason   Reason              // how the client's address was found; empty if it was not looked for
	Canceled bool                // the client has gone away: Err says nothing of the store
	Took     time.Duration       // finding the key and asking the store
	Shadow   bool                // it passes, whatever the Decision is: see the option Shadow
	Banned   bool                // refused by a ban: see the option Ban
	BanBegan time.Duration       // the length of the ban that began with this refusal, otherwise 0
	After    bool                // Err came after the verdict, of which there is another event
}

// A report is an event with its copy of the decision.
type report struct {
	Event
	decision slidegate.Decision
}

// tell calls the observers.
func (g *Gate) tell(p *passage, key string, reason Reason, begin time.Time) {
	e := new(report)
	e.Event = Event{Key: key, Reason: reason, Canceled: p.Context.Err() != nil, Took: time.Since(begin), Shadow: g.shadow, Banned: p.banned}
	if p.banBegan {
		e.BanBegan = g.ban.length
	}
	if e.Err = p.err; p.decided {
		e.decision = p.decision
		e.Decision, e.Err = &e.decision, nil
	}
	for _, f := range g.observers {
		g.call(f, &e.Event)
	}
}

// unsettled tells of a failure of the store after the verdict.
func (g *Gate) unsettled(key string, err error) {
	g.quiet.after(g.logger, err)
	e := Event{Key: key, Err: err, Shadow: g.shadow, After: true}
	for _, f := range g.observers {
		g.call(f, &e)
	}
}

// call is for an observer that panics: that is not the request's fault.
func (g *Gate) call(f func(*Event), e *Event) {
	defer func() {
		if v := recover(); v != nil {
			g.logger.Error("httpgate: an observer panicked", "panic", v)
		}
	}()
	f(e)
}

// IgnoredHeaders returns how many requests came from a private or loopback address with a forwarding
// header that the gate was not told to believe. That is likely a proxy, whose clients all count
// as one then: see [TrustProxies]. The header is the one that [ClientIPHeader] names, or one in which proxies
// commonly put the client's address.
func (g *Gate) IgnoredHeaders() uint64 { return g.quiet.ignoredHeaders.Load() }

// note tells the logger what a header could not be believed for.
func (g *Gate) note(r *http.Request, addr netip.Addr, reason Reason) {
	switch reason {
	case ReasonMalformed, ReasonTooFewHops:
		if isDue(&g.quiet.complained) {
			g.say(unreadableHeader, "header", g.addresses.header, "reason", string(reason))
		}
	case ReasonPeer, ReasonPeerUntrusted, ReasonNoHeader:
		private, sampling := reason != ReasonNoHeader && isPrivate(addr), g.isSampling()
		if !private && !sampling {
			return
		}
		name, value := g.addresses.forwarded(r.Header)
		if sampling {
			g.sample.crowd.look(hostOf(r.RemoteAddr), value)
		}
		if private && name != "" {
			g.quiet.ignoredHeaders.Add(1)
			g.warn(untrustedProxy)
		}
	}
}

func isPrivate(addr netip.Addr) bool { return addr.IsPrivate() || addr.IsLoopback() }

// quiet keeps the log to a line for each change of state, never one for each request.
type quiet struct {
	down           outage // the store
	lost           outage // requests without an address; that ends with the program
	ignoredHeaders atomic.Uint64
	complained     atomic.Int64 // when a header was last complained of, in Unix seconds
	behind         atomic.Int64 // when a failure after a verdict was, likewise
	shadow         shadow
	warned         [warningCount]atomic.Bool
}

// An outage is over when nothing failed for a while, so a store that fails now and then is told of
// once.
type outage struct {
	on   atomic.Bool
	last atomic.Int64 // failure, in Unix seconds
	n    atomic.Uint64
}

// calm is how long nothing must fail before the log says that it is over, in seconds.
const calm = 10

func (o *outage) failed(l *slog.Logger, err error) {
	o.n.Add(1)
	o.last.Store(time.Now().Unix())
	if !o.on.Load() && !o.on.Swap(true) {
		l.Error("httpgate: requests cannot be decided", "error", err)
	}
}

func (q *quiet) recovered(l *slog.Logger) {
	o := &q.down
	if o.on.Load() && time.Now().Unix()-o.last.Load() >= calm && o.on.Swap(false) {
		l.Info("httpgate: requests are decided again", "undecided", o.n.Swap(0))
	}
}

func (q *quiet) after(l *slog.Logger, err error) {
	if isDue(&q.behind) {
		l.Error("httpgate: what comes after a verdict cannot be recorded: a refund, a settlement or a strike", "error", err)
	}
}

// isDue tells, once a minute at most, to log something; last is when that was done, in Unix seconds.
func isDue(last *atomic.Int64) bool {
	now, before := time.Now().Unix(), last.Load()
	return now-before >= 60 && last.CompareAndSwap(before, now)
}
