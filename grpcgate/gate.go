package grpcgate

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A Gate asks a limiter about every call and lets it pass or answers in the handler's place. It is
// safe for concurrent use. One gate may stand in several servers, which then share its budget, and
// several in one.
type Gate struct {
	gate       *httpgate.Gate
	options    []httpgate.Option
	exempt     map[string]bool // services, and methods as /pkg.Service/Method
	perMessage bool
	pushback   bool
	invalid    error
}

// New returns a gate that counts calls by the client's address, refuses with RESOURCE_EXHAUSTED and
// the fields of httpgate.Draft8, lets calls pass when the store cannot be asked, and does not count
// health checks. Options change that. Every error wraps [slidegate.ErrInvalidLimit].
func New(limiter *slidegate.Limiter, options ...Option) (*Gate, error) {
	g := &Gate{exempt: map[string]bool{Health: true}}
	for _, option := range options {
		if option == nil {
			return nil, invalidf("an option is nil")
		}
		option(g)
	}
	if g.invalid != nil {
		return nil, g.invalid
	}
	var err error
	g.gate, err = httpgate.New(limiter, g.options...)
	return g, err
}

// MustNew is New for options that are known to be right. It panics on an error.
func MustNew(limiter *slidegate.Limiter, options ...Option) *Gate {
	g, err := New(limiter, options...)
	if err != nil {
		panic(err)
	}
	return g
}

// PerIP returns the options of a server that holds every client address to limit, in a memory store
// of its own. It takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...Option) []grpc.ServerOption {
	return MustNew(slidegate.MustNew(memstore.New(), limit), options...).ServerOptions()
}

// ServerOptions puts the gate into a server, for unary calls and streams. Interceptors run in the
// order of their options: put what verifies an identity that the gate counts by before it.
func (g *Gate) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.Unary), grpc.ChainStreamInterceptor(g.Stream)}
}

// FromContext returns the decision on the call whose context it is, in the handler; of several
// gates, that of the nearest. There is none on a call that was skipped, exempt or could not be
// decided, nor on a stream that is charged by message. It may be kept, and given to Refund as it is.
func FromContext(ctx context.Context) (*slidegate.Decision, bool) { return httpgate.FromContext(ctx) }

// Unary is a grpc.UnaryServerInterceptor. The handler runs exactly once for a call that is admitted
// and never for one that is refused.
func (g *Gate) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if g.isExempt(info.FullMethod) {
		return handler(ctx, req)
	}
	o := g.decide(ctx, &Call{Method: info.FullMethod, Message: req})
	if !o.Admitted {
		trailer, err := g.refusal(ctx, &o)
		_ = grpc.SetTrailer(ctx, trailer)
		return nil, err
	}
	ended := codes.Internal // unless the handler returns
	defer func() { o.Done(int(ended)) }()
	resp, err := handler(o.Context, req)
	ended = codeOf(err)
	if fields := metadataOf(o.Header); err != nil || grpc.SetHeader(ctx, fields) != nil {
		_ = grpc.SetTrailer(ctx, fields) // the call may be over, and then nobody reads it
	}
	return resp, err
}

// codeOf is the code that the client gets for what a handler returned.
func codeOf(err error) codes.Code {
	answer, ok := status.FromError(err)
	if !ok {
		answer = status.FromContextError(err)
	}
	return answer.Code()
}

func (g *Gate) isExempt(method string) bool {
	if len(g.exempt) == 0 {
		return false
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return g.exempt[service] || g.exempt[method]
}

// decide asks the HTTP gate about a call.
func (g *Gate) decide(ctx context.Context, call *Call) httpgate.Outcome {
	call.addresses = g.gate.Addresses()
	call.request = requestOf(ctx, call)
	return g.gate.Decide(call.request)
}

type callKey struct{}

// callOf returns the call that a request stands for.
func callOf(r *http.Request) *Call { return r.Context().Value(callKey{}).(*Call) }

// requestOf returns the HTTP request that a call is: a POST of its method, with the metadata as
// header (gRPC over HTTP/2, "Request-Headers"). The call is in its context.
func requestOf(ctx context.Context, call *Call) *http.Request {
	sent, _ := metadata.FromIncomingContext(ctx)
	call.Metadata = sent
	r := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Path: call.Method}, RequestURI: call.Method,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: make(http.Header, len(sent)),
	}
	for name, values := range sent {
		switch {
		case name == ":authority" && len(values) > 0:
			r.Host = values[0]
		case !strings.HasPrefix(name, ":"):
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
	}
	return r.WithContext(context.WithValue(ctx, callKey{}, call))
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{slidegate.ErrInvalidLimit}, args...)...)
}
