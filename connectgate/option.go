package connectgate

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A Call is what a gate knows of a call when it decides. It must not be modified.
type Call struct {
	Spec   connect.Spec // its Procedure is such as /pkg.Service/Method
	Peer   connect.Peer
	Header http.Header // as the client sent it

	// Message is the request of a unary call or, with [PerMessage], the message that a stream
	// received. It is nil when a stream opens.
	Message any

	request   *http.Request
	addresses *httpgate.Addresses
}

// An Option changes how [New] builds a gate. Options that cannot be built, alone or together, are
// reported by New with an error that wraps [slidegate.ErrInvalidLimit].
type Option func(*Gate)

func (g *Gate) reject(format string, args ...any) {
	if g.invalid == nil {
		g.invalid = invalidf(format, args...)
	}
}

// With takes over options of package httpgate; by default there are none. They see a call as the HTTP
// request that it is, with the procedure for its path and without Host, TLS and body. What says who is
// asking, which proxies are believed, what is exempt or denied or banned, what is settled, what the fields are and
// who is told means what it means there; who is denied gets permission_denied, and a gate with Shadow
// refuses nobody. The answers are those of Connect:
// options about statuses and bodies change nothing, and any way to fail closed is that of [FailClosed].
func With(options ...httpgate.Option) Option {
	return func(g *Gate) { g.options = append(g.options, options...) }
}

// A Key tells who is counted for a call. See [By].
type Key func(context.Context, *Call) (string, error)

// By counts calls by the key that f returns, or by several keys as one: By(Header("Tenant"), Procedure).
// The default is [Address]. If a key is empty or an error, the call counts under the client's
// address: it is never unlimited, and never in one bucket with everybody. A key is used as it
// is, so that programs can ask the limiter about it too: give it a kind, as in "user:42", or a user whose
// name is "ip:203.0.113.7" would spend an address's quota. Several are joined by httpgate.Join. A key of
// more than 512 bytes is stored as its SHA-256.
func By(keys ...Key) Option {
	return func(g *Gate) {
		if by, ok := g.by("By", keys); ok {
			With(by)(g)
		}
	}
}

// And makes the gate decide over one more key in the same decision, by a limiter of its own: a call has to
// have room in both, or neither is charged. By default there is the gate's own alone. So a login is held to
// what its address, its account and all logins together may:
//
//	connectgate.New(perAddress, connectgate.And(perAccount, account), connectgate.And(perService, connectgate.Everybody))
//
// Several keys are one, as in [By], and what is said of httpgate.And holds.
func And(limiter *slidegate.Limiter, keys ...Key) Option {
	return func(g *Gate) {
		if by, ok := g.by("And", keys); ok {
			With(httpgate.And(limiter, by))(g)
		}
	}
}

// by is the option of the HTTP gate that counts by keys.
func (g *Gate) by(option string, keys []Key) (httpgate.Option, bool) {
	if len(keys) == 0 || slices.ContainsFunc(keys, func(key Key) bool { return key == nil }) {
		g.reject("%s: there is no key function, or one is nil: allowed are such as Address, Procedure and functions of your own", option)
		return nil, false
	}
	return httpgate.By(func(r *http.Request) (string, error) { return joined(r.Context(), callOf(r), keys) }), true
}

// joined is the key of all keys, or the first that cannot tell.
func joined(ctx context.Context, call *Call, keys []Key) (string, error) {
	parts := make([]string, len(keys))
	for i, key := range keys {
		part, err := key(ctx, call)
		if part == "" || err != nil || len(keys) == 1 {
			return part, err
		}
		parts[i] = part
	}
	return httpgate.Join(parts...), nil
}

// Header counts by the value of a header, such as an API key, which must have been sent. Anybody can
// send any value: put a gate by address before one by what nothing has verified. The key is that of
// httpgate.ByHeader, so over one store a caller has one budget for HTTP and Connect.
func Header(name string) Key {
	canonical := http.CanonicalHeaderKey(name)
	return func(_ context.Context, c *Call) (string, error) {
		value := strings.Trim(c.Header.Get(name), " \t")
		if value == "" {
			return "", nil
		}
		return "header:" + canonical + ":" + value, nil
	}
}

// Procedure counts by the procedure. Alone it is one bucket for all callers. The key is that of
// grpcgate.Method.
func Procedure(_ context.Context, c *Call) (string, error) {
	return "method:" + c.Spec.Procedure, nil
}

// Address counts by the client's address, as a gate does by default. It is for keys of several
// parts. The error is httpgate.ErrNoAddress.
func Address(_ context.Context, c *Call) (string, error) { return c.addresses.KeyOf(c.request) }

// Everybody counts all calls together, under the key of httpgate.ByEverybody. It is for what a service
// can take as a whole, beside limits of its clients: alone it lets one of them use up everybody's quota.
func Everybody(context.Context, *Call) (string, error) { return "everybody", nil }

// Cost makes f say how many units a call spends, or a message with [PerMessage]; the default is 1. 0 is
// free, and a cost that can never fit, negative ones included, is refused; the [Logger] is told once of a
// negative one.
func Cost(f func(context.Context, *Call) int64) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Cost: the function is nil")
			return
		}
		With(httpgate.Cost(func(r *http.Request) int64 { return f(r.Context(), callOf(r)) }))(g)
	}
}

// Skip lets calls pass for which f returns true: no store is asked, no field is sent, and there is no
// decision. By default none is skipped but those of [Exempt].
func Skip(f func(context.Context, *Call) bool) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Skip: the function is nil")
			return
		}
		With(httpgate.Skip(func(r *http.Request) bool { return f(r.Context(), callOf(r)) }))(g)
	}
}

// Choose makes f choose the limiter of a call, such as that of a customer's plan; nil means the gate's
// own. By default it is always the gate's own. What is said of httpgate.Choose holds.
func Choose(f func(context.Context, *Call) *slidegate.Limiter) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("Choose: the function is nil")
			return
		}
		With(httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return f(r.Context(), callOf(r)) }))(g)
	}
}

// The services that [Exempt] is mostly about.
const (
	Health          = "grpc.health.v1.Health"
	Reflection      = "grpc.reflection.v1.ServerReflection"
	ReflectionAlpha = "grpc.reflection.v1alpha.ServerReflection"
)

// Exempt names services, such as pkg.Service, and procedures, such as /pkg.Service/Method, whose calls
// pass uncounted, in place of the default: [Health] alone. Exempt() counts everything.
func Exempt(names ...string) Option {
	return func(g *Gate) {
		g.exempt = make(map[string]bool, len(names))
		for _, name := range names {
			service, method, isMethod := strings.Cut(strings.TrimPrefix(name, "/"), "/")
			if service == "" || isMethod != strings.HasPrefix(name, "/") || isMethod && (method == "" || strings.Contains(method, "/")) {
				g.reject("Exempt %q: allowed is a service, such as pkg.Service, or a procedure, such as /pkg.Service/Method", name)
				return
			}
			g.exempt[name] = true
		}
	}
}

// PerMessage charges a stream for every message that it receives; by default it is charged once, when
// it opens. A message that is refused ends the stream: the handler's Receive returns the refusal, and
// goes on to. Two gates, one of either kind, limit both. A unary call is charged once either way. The
// fields are sent with refusals alone.
func PerMessage() Option { return func(g *Gate) { g.perMessage = true } }

// RefundIf gives a call's charge back if f says so of the code that it ended with, 0 for a success and
// internal where the handler panicked; by default every admitted call stays charged, and messages always
// do. f says what is not to count:
//
//	connectgate.RefundIf(func(code connect.Code) bool { return code == 0 }) // only failures count
//	connectgate.RefundIf(func(code connect.Code) bool { return code != 0 }) // only successes count
//
// What is said of httpgate.RefundIf holds.
func RefundIf(f func(connect.Code) bool) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("RefundIf: the function is nil")
			return
		}
		With(httpgate.RefundIf(func(code int) bool { return f(connect.Code(code)) }))(g)
	}
}

// FailClosed refuses calls that could not be decided, with unavailable and no fields; the default is
// to let them pass.
func FailClosed() Option { return With(httpgate.FailClosed()) }

// Observe calls f after every decision and every call that could not be decided; by default nobody is
// told. What is said of httpgate.Observe holds.
func Observe(f func(*httpgate.Event)) Option { return With(httpgate.Observe(f)) }

// Logger is told when the store fails and when nothing has failed for ten seconds, once each, and of
// headers that cannot be used; by default nothing is logged. Keys never are.
func Logger(l *slog.Logger) Option { return With(httpgate.Logger(l)) }
