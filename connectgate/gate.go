package connectgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A Gate asks a limiter about every call and lets it pass or answers in the handler's place. It is
// a connect.Interceptor of handlers, and does nothing in a client. It is safe for concurrent use. One
// gate may stand before several handlers, which then share its budget, and several before one.
type Gate struct {
	gate       *httpgate.Gate
	options    []httpgate.Option
	exempt     map[string]bool // services, and procedures as /pkg.Service/Method
	perMessage bool
	invalid    error
}

var _ connect.Interceptor = (*Gate)(nil)

// New returns a gate that counts calls by the client's address, refuses with resource_exhausted and
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

// PerIP returns a gate that holds every client address to limit, in a memory store of its own. It
// takes the options of [New]. It panics on a limit or an option that cannot be built.
func PerIP(limit slidegate.Limit, options ...Option) *Gate {
	return MustNew(slidegate.MustNew(memstore.New(), limit), options...)
}

// FromContext returns the decision on the call whose context it is, in the handler; of several
// gates, that of the nearest. There is none on a call that was skipped, exempt or could not be
// decided, nor on a stream that is charged by message. It may be kept, and given to Refund as it is.
func FromContext(ctx context.Context) (*slidegate.Decision, bool) { return httpgate.FromContext(ctx) }

// WrapUnary implements connect.Interceptor. next runs exactly once for a call that is admitted and
// never for one that is refused.
func (g *Gate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient || g.isExempt(req.Spec().Procedure) {
			return next(ctx, req)
		}
		o := g.decide(ctx, &Call{Spec: req.Spec(), Peer: req.Peer(), Header: req.Header(), Message: req.Any()}, req.HTTPMethod())
		if !o.Admitted {
			err := refusal(ctx, &o)
			if req.Peer().Protocol == connect.ProtocolConnect { // the others answer 200, to a POST
				err.Meta()["Cache-Control"] = []string{"no-store"} // RFC 6585 section 4
			}
			return nil, err
		}
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			add(info.ResponseHeader(), o.Header)
		}
		ended := connect.CodeInternal // unless the handler returns
		defer func() { o.Done(int(ended)) }()
		resp, err := next(o.Context, req)
		ended = codeOf(err)
		return resp, err
	}
}

// WrapStreamingClient implements connect.Interceptor. It does nothing.
func (g *Gate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. next never runs for a stream that is refused
// when it opens.
func (g *Gate) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if g.isExempt(conn.Spec().Procedure) {
			return next(ctx, conn)
		}
		if g.perMessage {
			return next(ctx, &stream{StreamingHandlerConn: conn, gate: g, ctx: ctx})
		}
		o := g.decide(ctx, &Call{Spec: conn.Spec(), Peer: conn.Peer(), Header: conn.RequestHeader()}, http.MethodPost)
		if !o.Admitted {
			return refusal(ctx, &o)
		}
		add(conn.ResponseHeader(), o.Header)
		ended := connect.CodeInternal // unless the handler returns
		defer func() { o.Done(int(ended)) }()
		err := next(o.Context, conn)
		ended = codeOf(err)
		return err
	}
}

// codeOf is the code that the client gets for what a handler returned, 0 for a success.
func codeOf(err error) connect.Code {
	switch code := connect.CodeOf(err); {
	case err == nil:
		return 0
	case code == connect.CodeUnknown && errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case code == connect.CodeUnknown && errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	default:
		return code
	}
}

// A stream is one that is charged by message. There is no telling in its header how things will stand,
// so only a refusal has fields.
type stream struct {
	connect.StreamingHandlerConn
	gate    *Gate
	ctx     context.Context
	refused error // the rest of the stream
}

// Receive asks about a message when it has come, so that it can cost what is in it.
func (s *stream) Receive(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	o := s.gate.decide(s.ctx, &Call{Spec: s.Spec(), Peer: s.Peer(), Header: s.RequestHeader(), Message: m}, http.MethodPost)
	if !o.Admitted {
		s.refused = refusal(s.ctx, &o)
	}
	return s.refused
}

func (g *Gate) isExempt(procedure string) bool {
	if len(g.exempt) == 0 {
		return false
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	return g.exempt[service] || g.exempt[procedure]
}

type callKey struct{}

// callOf returns the call that a request stands for.
func callOf(r *http.Request) *Call { return r.Context().Value(callKey{}).(*Call) }

// decide asks the HTTP gate about a call. The request that it was is not to be had, so it is put
// together again; the call is in its context.
func (g *Gate) decide(ctx context.Context, call *Call, method string) httpgate.Outcome {
	r := &http.Request{
		Method: method,
		URL:    &url.URL{Path: call.Spec.Procedure}, RequestURI: call.Spec.Procedure,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header:     call.Header,
		RemoteAddr: call.Peer.Addr,
	}
	call.addresses, call.request = g.gate.Addresses(), r
	return g.gate.Decide(r.WithContext(context.WithValue(ctx, callKey{}, call)))
}

// add adds fields to a header that others may have written to.
func add(to, fields http.Header) {
	for name, values := range fields {
		to[name] = append(to[name], values...)
	}
}

// refusal returns the error of a call that was not admitted.
func refusal(ctx context.Context, o *httpgate.Outcome) *connect.Error {
	if o.Decision == nil {
		return undecided(ctx, o.Err)
	}
	why := errQuota
	if o.Banned {
		why = errAbnormal
	}
	err := exhausted(o.Decision.RetryAfter(), o, why)
	add(err.Meta(), o.Header)
	return err
}

var (
	errQuota     = errors.New("quota exceeded")
	errAbnormal  = errors.New("abnormal usage detected")
	errForbidden = errors.New("the call is not allowed")
	errAddress   = errors.New("the call has no client address to count it under")
	errLimits    = errors.New("the limits of the call do not go together")
	errUndecided = errors.New("the rate limiter is unavailable")
)

// undecided is the error of a call that was not admitted without a decision: it is denied, nobody can be
// counted for it, nobody waits for it any more, or the store could not be asked. What went wrong is no client's business.
func undecided(ctx context.Context, err error) *connect.Error {
	switch {
	case ctx.Err() != nil:
		return gone(ctx)
	case errors.Is(err, httpgate.ErrForbidden):
		return connect.NewError(connect.CodePermissionDenied, errForbidden)
	case errors.Is(err, httpgate.ErrNoAddress):
		return connect.NewError(connect.CodeInternal, errAddress)
	case errors.Is(err, slidegate.ErrInvalidLimit):
		return connect.NewError(connect.CodeInternal, errLimits)
	}
	return connect.NewError(connect.CodeUnavailable, errUndecided)
}

// gone is the error of a context that is over.
func gone(ctx context.Context) *connect.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

// exhausted is the error of a refusal, with the details of google/rpc/error_details.proto. A wait of 0
// is one that helps nothing. The subject is the limit, never the key: keys are people.
func exhausted(wait time.Duration, o *httpgate.Outcome, why error) *connect.Error {
	err := connect.NewError(connect.CodeResourceExhausted, why)
	if wait > 0 {
		detail(err, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if o.Banned {
		detail(err, &errdetails.ErrorInfo{Reason: "ABNORMAL_USAGE_DETECTED", Domain: "slidegate"})
	}
	if len(o.Violated) > 0 {
		failure := &errdetails.QuotaFailure{}
		for _, name := range o.Violated {
			failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
				Subject: "policy:" + name, Description: why.Error(), QuotaId: name,
			})
		}
		detail(err, failure)
	}
	return err
}

func detail(err *connect.Error, m proto.Message) {
	if d, failed := connect.NewErrorDetail(m); failed == nil {
		err.AddDetail(d)
	}
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{slidegate.ErrInvalidLimit}, args...)...)
}
