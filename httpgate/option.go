package httpgate

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/textproto"

	"github.com/slidegate/slidegate"
)

// An Option changes how [New] builds a gate. Options that cannot be built, alone or together, are
// reported by New with an error that wraps [slidegate.ErrInvalidLimit]. So are two that answer one question
// differently, such as [FailOpen] and [FailClosed], and two that say who is asking, such as [ByHeader] and [ByCookie]. Of
// an option that is given twice the last counts, but those that take a list, [And] and [Observe] add up.
type Option func(*Gate)

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{slidegate.ErrInvalidLimit}, args...)...)
}

func (g *Gate) reject(format string, args ...any) {
	if g.invalid == nil {
		g.invalid = invalidf(format, args...)
	}
}

// Cost makes f say how many units a request spends; the default is 1. 0 is free, and a cost that can
// never fit is refused. So is a negative one, of which the [Logger] is told once: mind that r.ContentLength
// is -1 where a request does not say how long it is. All limits are charged the same cost, those too that
// [And] adds, which says what to do where units differ.
func Cost(f func(*http.Request) int64) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Cost: the function is nil")
			return
		}
		g.cost = f
	}
}

// Skip lets requests pass for which f returns true: no store is asked, no field is sent, and there
// is no decision. By default none is skipped.
func Skip(f func(*http.Request) bool) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Skip: the function is nil")
			return
		}
		g.skip = f
	}
}

// Choose makes f choose the limiter of a request, such as that of a customer's plan; nil means the
// gate's own. By default it is always the gate's own. [slidegate.Unlimited] and [slidegate.Blocked]
// may be chosen. Plans share their history where limits have the same name, so name them. Make each
// plan once: the gate remembers the first 4,096 limiters it meets, with what it sends for them.
//
// What Blocked refuses is a refusal like any other, a 429, but names no limit and no time to retry.
// [DenyAs] says what it is instead, as in the example.
func Choose(f func(*http.Request) *slidegate.Limiter) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Choose: the function is nil")
			return
		}
		g.choose = f
	}
}

// OnDeny answers refused requests; the default is status 429 with a problem+json body that names the
// limits that refused, or a line of plain text to clients that do not accept JSON. The fields and
// Cache-Control: no-store are set when h runs, and the decision is in the request's context: see
// [FromContext]. Its Len is 0 where no limit was asked: then [ErrorFromContext] is a
// [*slidegate.CostError], or nil where the limiter is [slidegate.Blocked]. If h names no status, it is 429.
func OnDeny(h http.Handler) Option {
	return func(g *Gate) {
		if h == nil {
			g.reject("OnDeny: the handler is nil")
			return
		}
		g.deny = h
	}
}

// DenyWith answers refused requests with a status, 400 to 599, and a body: a string is sent as plain
// text, nil is the default body, anything else is sent as JSON. The default is that of [OnDeny].
func DenyWith(status int, body any) Option {
	return func(g *Gate) {
		g.status = status
		g.body = g.fixed("DenyWith", status, body)
	}
}

// DenyAs makes f say which problem a refusal is, with the names of the limits that refused; the
// default is [QuotaExceeded]. [ReducedCapacity] and [AbnormalUsage] are the other types of the draft.
// The status is the problem's, unless [DenyWith] gives another, with a nil body. f is called once for each set of
// limits. It gets no name where no limit refused: the limiter is [slidegate.Blocked], or the cost is
// below zero.
func DenyAs(f func(violated ...string) Problem) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("DenyAs: the function is nil")
			return
		}
		if status := f().Status; status < 400 || status > 599 {
			g.reject("DenyAs: a problem of status %d: allowed is 400 to 599", status)
		}
		g.problem = f
	}
}

// FailOpen lets requests pass that could not be decided; it is the default. They carry no fields. To
// say so keeps the gate from warning of the first one. A request whose context ended before the store had
// answered, such as that of a client that hung up, does not pass, or it would never be counted: its
// answer, if anybody still waits for it, is that of [FailClosed].
func FailOpen() Option { return func(g *Gate) { g.failing("FailOpen", nil) } }

// FailClosed refuses requests that could not be decided, with status 503 and no fields; the default
// is to let them pass.
func FailClosed() Option { return failClosed("FailClosed", http.StatusServiceUnavailable, nil) }

// FailClosedWith refuses requests that could not be decided with a status and a body, as [DenyWith]
// has them; the default is to let them pass.
func FailClosedWith(status int, body any) Option { return failClosed("FailClosedWith", status, body) }

func failClosed(option string, status int, body any) Option {
	return func(g *Gate) {
		problem := Unavailable()
		problem.Status = status
		if title := http.StatusText(status); title != "" {
			problem.Title = title
		}
		var closed http.Handler = negotiated(problem)
		if a := g.fixed(option, status, body); a != nil {
			closed = a
		}
		g.failing(option, closed)
	}
}

// failing makes closed answer what could not be decided, as an option says; nil lets it pass.
func (g *Gate) failing(option string, closed http.Handler) {
	if g.fails != "" && g.fails != option {
		g.reject("%s with %s: what becomes of requests that could not be decided? give one", g.fails, option)
	}
	g.closed, g.fails = closed, option
}

// fixed returns the answer with a status and a body, nil where the body is nil.
func (g *Gate) fixed(option string, status int, body any) *answer {
	if status < 400 || status > 599 {
		g.reject("%s: status %d: allowed is 400 to 599", option, status)
	}
	if body == nil {
		return nil
	}
	a, err := fixed(status, body)
	if err != nil {
		g.reject("%s: the body: %v: allowed is what encoding/json can write", option, err)
	}
	return a
}

// FailWith answers requests that could not be decided with h, which may look at the error with
// [ErrorFromContext] and may also pass the request on; the default is to let them pass.
func FailWith(h http.Handler) Option {
	return func(g *Gate) {
		if h == nil {
			g.reject("FailWith: the handler is nil")
			return
		}
		g.failing("FailWith", h)
	}
}

// OnStoreError calls f with every error of the store, whatever becomes of the request; by default nobody
// is told. A refusal is no error, nor is a client that went away. f runs on the request's goroutine.
func OnStoreError(f func(error)) Option {
	if f == nil {
		return func(g *Gate) { g.reject("OnStoreError: the function is nil") }
	}
	return Observe(func(e *Event) {
		if e.Err != nil && !e.Canceled && !uncountable(e.Err) && !errors.Is(e.Err, ErrForbidden) {
			f(e.Err)
		}
	})
}

// Headers chooses the formats of the RateLimit fields; the default is [Draft8] alone, and no format
// at all sends none, nor Retry-After. Any set will do: where two formats have a field in common,
// the newer one has it.
func Headers(set ...Format) Option {
	return func(g *Gate) {
		g.formats = 0
		for _, f := range set {
			if f < Draft8 || f > LegacyDelta {
				g.reject("Headers: %s: allowed is Draft8, Draft7, Draft6, Legacy, LegacyDelta, or none", f)
				return
			}
			g.formats |= 1 << f
		}
	}
}

// RetryAfter sends Retry-After on refusals also where [Headers] chose no format; by default it goes
// with the formats.
func RetryAfter() Option { return func(g *Gate) { g.retrying("RetryAfter", true) } }

// NoRetryAfter sends no Retry-After, whatever [Headers] chose; by default it goes with the formats.
func NoRetryAfter() Option { return func(g *Gate) { g.retrying("NoRetryAfter", false) } }

func (g *Gate) retrying(option string, yes bool) {
	if g.retrySaid != "" && g.retrySaid != option {
		g.reject("RetryAfter with NoRetryAfter: give one")
	}
	g.retryAfter, g.retrySaid = yes, option
}

// Jitter makes the waits that refusals tell longer by up to percent of each, 1 to 100, at random and
// in whole seconds, so that clients that were refused together do not come back together; by default
// they are told the wait as it is. Retry-After and the t, or reset, of limits that refuse grow
// together and never shrink; a wait too short for a whole second of it stays. What the limiter
// decides stays as it is, and so does the Decision.
func Jitter(percent int) Option {
	return func(g *Gate) {
		if percent < 1 || percent > 100 {
			g.reject("Jitter %d: allowed is 1 to 100 percent", percent)
			return
		}
		g.jitter = int64(percent)
	}
}

// PartitionKeys sends pk in RateLimit and RateLimit-Policy of [Draft8], which says that the quota is
// of one partition, such as one client, and tells partitions apart; by default it is not sent. It is
// the first 12 bytes of the HMAC-SHA-256 (RFC 2104) of the key under secret, which is at least 32
// bytes and belongs to the deployment: a hash without a secret would give an IPv4 address away to
// whoever tries them all.
func PartitionKeys(secret []byte) Option {
	return func(g *Gate) { g.partition = g.digest("PartitionKeys", secret) }
}

// WithoutContext gives next the request as it is, without the decision in its context, which takes less than
// half the time; by default [FromContext] finds the decision there. With this option it finds that of a gate around
// this one, if there is one. [OnDeny] and [FailWith] get the decision all the same, and so do observers.
// Gates inside one with this option do not know of it: the lists of [Draft8] still have the limits of all, but
// single-valued fields are those of the innermost gate, and nobody is warned if one limiter is asked twice. So
// give it to the innermost. It does not go together with [Settling].
func WithoutContext() Option { return func(g *Gate) { g.apart = true } }

// TrustProxies names the proxies whose forwarding header is believed, as CIDRs or addresses; by
// default none is, and the client is who connects. The header is X-Forwarded-For unless
// [ClientIPHeader] says otherwise.
func TrustProxies(networks ...string) Option {
	return func(g *Gate) {
		if len(networks) == 0 {
			g.reject("TrustProxies: no network: name the proxies, such as 10.0.0.0/8")
			return
		}
		for _, s := range networks {
			p, err := ParseTrusted(s)
			if err != nil {
				if g.invalid == nil {
					g.invalid = err
				}
				return
			}
			g.addresses.trusted = append(g.addresses.trusted, p)
		}
	}
}

// TrustEverybody believes the forwarding header of whoever connects, as [TrustHops] of 1 does: the
// client is the last address in it. By default nobody is believed. It is right only where nobody but one
// proxy can connect at all.
func TrustEverybody() Option {
	return func(g *Gate) {
		g.addresses.trusted = append(g.addresses.trusted, everybody...)
		g.addresses.hops = max(g.addresses.hops, 1)
	}
}

// TrustHops says how many proxies stand in front, 1 to 32, of which each adds the address it saw:
// the client is the n-th from the right. By default none does. Together with [TrustProxies] who
// connects must be one of the proxies.
func TrustHops(n int) Option {
	return func(g *Gate) {
		if n < 1 || n > 32 {
			g.reject("TrustHops %d: allowed is 1 to 32", n)
			return
		}
		g.addresses.hops = n
	}
}

// TrustUnixPeer believes the forwarding header of whoever connects through a Unix socket. By default
// such requests have no address.
func TrustUnixPeer() Option { return func(g *Gate) { g.addresses.unix = true } }

// ClientIPHeader names the header that proxies put the client's address in; the default is
// X-Forwarded-For. Forwarded (RFC 7239) and headers with a single address, such as X-Real-IP or
// CF-Connecting-IP, will do. It needs [TrustProxies], [TrustHops] or [TrustUnixPeer].
func ClientIPHeader(name string) Option {
	return func(g *Gate) {
		if !validFieldName(name) {
			g.reject("ClientIPHeader %q: allowed is the name of a header, such as X-Forwarded-For", name)
			return
		}
		g.addresses.header = textproto.CanonicalMIMEHeaderKey(name)
	}
}

// AddressFrom asks f for the client's address first, for servers that know proxies of their own, such as Caddy:
// by default the gate alone finds it. The zero Addr means that f knows of no proxy, and that it is who
// connects. f must believe no header but a trusted proxy's. It stands in the place of [TrustProxies] and the options
// that go with it, and not beside them.
func AddressFrom(f func(*http.Request) netip.Addr) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("AddressFrom: the function is nil")
			return
		}
		g.addresses.from = f
	}
}

// IPv6Prefix says how many bits of an IPv6 address tell clients apart, 32 to 128; the default is 56,
// since a customer's site has a network, not an address.
func IPv6Prefix(bits int) Option {
	return func(g *Gate) {
		if bits < 32 || bits > 128 {
			g.reject("IPv6Prefix %d: allowed is 32 to 128", bits)
			return
		}
		g.addresses.prefix = bits
	}
}

// UnwrapNAT64 counts an address of 64:ff9b::/96 (RFC 6052) as the IPv4 address in it. By default
// all clients behind such a gateway count as one.
func UnwrapNAT64() Option { return func(g *Gate) { g.addresses.nat64 = true } }

// Observe calls f after every decision and every request that could not be decided, and where something
// fails after that ([Event] has After then); by default nobody is told. f runs on the request's goroutine, before anything is answered, must be quick, and must
// not keep the event. If it panics, the logger is told and the request goes on.
func Observe(f func(*Event)) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Observe: the function is nil")
			return
		}
		g.observers = append(g.observers, f)
	}
}

// Logger is told when the store fails and when nothing has failed for ten seconds, once each, of
// headers that cannot be used, of what fails after a verdict, and of what a [Shadow] gate would refuse, at most
// once a minute each, and of misuse that the gate notices, once each, with the name of its page in
// docs/warnings; by default nothing is logged. Keys never are.
func Logger(l *slog.Logger) Option {
	return func(g *Gate) {
		if l == nil {
			g.reject("Logger: the logger is nil: leave the option out to log nothing")
			return
		}
		g.logger, g.sample = l, new(sample)
	}
}

// WithoutOutages keeps the logger of [Logger] from hearing that the store fails and that it answers again; by default it hears
// both from every gate. It is for a program that has several gates over one store and tells of its outages once.
func WithoutOutages() Option { return func(g *Gate) { g.outagesUntold = true } }

func validFieldName(name string) bool {
	for i := 0; i < len(name); i++ {
		if !isTokenByte(name[i]) {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// apply runs the options, looks at them together, and works out what follows from them.
func (g *Gate) apply(options []Option) error {
	for _, option := range options {
		if option == nil {
			return invalidf("an option is nil")
		}
		option(g)
	}
	if g.invalid != nil {
		return g.invalid
	}
	switch {
	case g.apart && g.settles:
		return invalidf("WithoutContext with Settling: handlers would find nothing to settle in the context: leave one of them out")
	case g.deny != nil && (g.status != 0 || g.problem != nil):
		return invalidf("OnDeny with DenyWith or DenyAs: who answers refused requests? give one")
	case g.body != nil && g.problem != nil:
		return invalidf("DenyWith of a body with DenyAs: which is the body of refusals? give one, or a nil body for the status alone")
	}
	if g.retrySaid == "" {
		g.retryAfter = g.formats != 0
	}
	return g.addresses.complete()
}

// complete looks at the options about addresses together.
func (a *Addresses) complete() error {
	believes := len(a.trusted) > 0 || a.hops > 0 || a.unix
	switch {
	case a.from != nil && (a.header != "" || believes):
		return invalidf("AddressFrom with TrustProxies, TrustHops, TrustUnixPeer or ClientIPHeader: who says whose request it is? give one")
	case a.header != "" && !believes:
		return invalidf("ClientIPHeader %s without TrustProxies or TrustHops: anybody could say who it is: name the proxies", a.header)
	case a.header == "" && believes:
		a.header = "X-Forwarded-For"
	}
	if a.hops == 0 || isList(a.header) {
		return nil
	}
	if a.hops > 1 {
		return invalidf("TrustHops %d with %s, which holds one address: allowed is X-Forwarded-For or Forwarded", a.hops, a.header)
	}
	if a.hops = 0; len(a.trusted) == 0 {
		a.trusted = everybody
	}
	return nil
}

var everybody = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
