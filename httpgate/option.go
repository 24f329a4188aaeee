package httpgate

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/slidegate/slidegate"
)

// An Option changes how [New] builds a gate. Options that cannot be built, alone or together, are
// reported by New with an error that wraps [slidegate.ErrInvalidLimit].
type Option func(*Gate)

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{slidegate.ErrInvalidLimit}, args...)...)
}

func (g *Gate) reject(format string, args ...any) {
	if g.invalid == nil {
		g.invalid = invalidf(format, args...)
	}
}

// By counts requests by the key that f returns; the default is the client's address. If f returns
// an empty key or an error, the request counts under the client's address: it is never unlimited,
// and never in one bucket with everybody. Keys of f carry no kind of their own; see [Join].
func By(f func(*http.Request) (string, error)) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("By: the key function is nil")
			return
		}
		g.key = f
	}
}

// ByHeader counts requests by the value of a header, such as an API key; requests without it count
// under the client's address. Anybody can send any value: put a limit by address around a header
// that nothing has verified.
func ByHeader(name string) Option {
	return func(g *Gate) {
		if !validFieldName(name) {
			g.reject("ByHeader %q: allowed is the name of a header, such as X-API-Key", name)
			return
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		prefix := "header:" + canonical + ":"
		g.key = func(r *http.Request) (string, error) {
			if canonical == "Host" {
				return Join("header:Host", r.Host), nil
			}
			values := r.Header[canonical]
			if len(values) == 0 || strings.TrimSpace(values[0]) == "" {
				return "", nil
			}
			return prefix + strings.TrimSpace(values[0]), nil
		}
	}
}

// Cost makes f say how many units a request spends; the default is 1. 0 is free, and a cost that can
// never fit, negative ones included, is refused.
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
// gate's own. By default it is always the gate's own. [slidegate.Unlimited] and [slidegate.Blocked] may be
// chosen. Plans share their history where limits have the same name, so name them.
func Choose(f func(*http.Request) *slidegate.Limiter) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Choose: the function is nil")
			return
		}
		g.choose = f
	}
}

// OnDeny answers refused requests; the default is a problem+json body, or plain text to clients
// that do not accept JSON, with status 429. The fields are set when h runs, and the decision is
// in the request's context, with [FromContext].
func OnDeny(h http.Handler) Option {
	return func(g *Gate) {
		if h == nil {
			g.reject("OnDeny: the handler is nil")
			return
		}
		g.deny = h
	}
}

// DenyWith answers refused requests with a status and a body: a string is sent as plain text,
// anything else as JSON. The default is that of [OnDeny].
func DenyWith(status int, body any) Option { return OnDeny(fixed("DenyWith", status, body)) }

// FailOpen lets requests pass that could not be decided; it is the default. They carry no fields.
func FailOpen() Option { return func(g *Gate) { g.closed = nil } }

// FailClosed refuses requests that could not be decided, with status 503 and no fields. The
// default is to let them pass.
func FailClosed() Option { return func(g *Gate) { g.closed = Unavailable() } }

// FailWith answers requests that could not be decided with h, which may look at the error with
// [ErrorFromContext] and may also pass the request on. The default is to let them pass.
func FailWith(h http.Handler) Option {
	return func(g *Gate) {
		if h == nil {
			g.reject("FailWith: the handler is nil")
			return
		}
		g.closed = h
	}
}

// FailClosedWith refuses requests that could not be decided with a status and a body, as [DenyWith]
// has it.
func FailClosedWith(status int, body any) Option {
	return FailWith(fixed("FailClosedWith", status, body))
}

// fixed answers with a status and a body; it is nil, which the option reports, if it cannot.
func fixed(option string, status int, body any) http.Handler {
	contentType := "text/plain; charset=utf-8"
	text, ok := body.(string)
	b := []byte(text)
	if !ok {
		var err error
		contentType = "application/json"
		if b, err = json.Marshal(body); err != nil {
			return unbuildable{fmt.Sprintf("%s: the body: %v", option, err)}
		}
	}
	if status < 400 || status > 599 {
		return unbuildable{fmt.Sprintf("%s: status %d: allowed is 400 to 599", option, status)}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, status, contentType, b) })
}

// unbuildable stands for a handler that New refuses.
type unbuildable struct{ why string }

func (unbuildable) ServeHTTP(http.ResponseWriter, *http.Request) {}

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
		g.retryAfter = g.formats != 0
	}
}

// RetryAfter sends Retry-After on refusals also where [Headers] chose no format. It comes after
// Headers.
func RetryAfter() Option { return func(g *Gate) { g.retryAfter = true } }

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
				g.invalid = firstError(g.invalid, err)
				return
			}
			g.addresses.trusted = append(g.addresses.trusted, p)
		}
	}
}

// TrustEverybody believes the forwarding header of whoever connects. By default nobody is
// believed. It is right only where nobody but proxies can connect at all.
func TrustEverybody() Option {
	return func(g *Gate) {
		g.addresses.trusted = append(g.addresses.trusted, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
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

// Observe calls f after every decision and every request that could not be decided; by default
// nobody is told. f runs on the request's goroutine, before the next handler, must be quick, and
// must not keep the event.
func Observe(f func(*Event)) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Observe: the function is nil")
			return
		}
		g.observers = append(g.observers, f)
	}
}

// Logger is told when the store fails and when it is back, once each, and of headers that cannot
// be believed, at most once a minute. By default nothing is logged. Keys never are.
func Logger(l *slog.Logger) Option {
	return func(g *Gate) {
		if l == nil {
			g.reject("Logger: the logger is nil: leave the option out to log nothing")
			return
		}
		g.logger = l
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func validFieldName(name string) bool {
	for i := 0; i < len(name); i++ {
		if !isTokenByte(name[i]) {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// check completes the options and looks at them together.
func (g *Gate) check() error {
	a := &g.addresses
	for _, h := range []http.Handler{g.deny, g.closed} {
		if bad, ok := h.(unbuildable); ok {
			g.reject("%s", bad.why)
		}
	}
	believes := len(a.trusted) > 0 || a.hops > 0 || a.unix
	switch {
	case g.invalid != nil:
		return g.invalid
	case a.header != "" && !believes:
		return invalidf("ClientIPHeader %s without TrustProxies or TrustHops: anybody could say who it is: name the proxies", a.header)
	case a.header == "" && believes:
		a.header = "X-Forwarded-For"
	}
	if a.hops > 1 && !isList(a.header) {
		return invalidf("TrustHops %d with %s, which holds one address: allowed is X-Forwarded-For or Forwarded", a.hops, a.header)
	}
	if a.hops > 0 && !isList(a.header) {
		a.hops = 0
		if len(a.trusted) == 0 {
			a.trusted = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		}
	}
	return nil
}
