package connectgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

type text = wrapperspb.StringValue

const (
	unaryProcedure  = "/slidegate.test.Echo/Unary"
	otherProcedure  = "/slidegate.test.Echo/Other"
	uploadProcedure = "/slidegate.test.Echo/Upload"
	bidiProcedure   = "/slidegate.test.Echo/Bidi"
)

// A service answers unary calls and every message of a stream of both directions with what came, or
// with the error of fails. Uploads are answered with the number of messages.
type service struct {
	fails  func(context.Context) error
	duplex func(*connect.BidiStream[text, text]) error // in place of that answer
}

func (s *service) fail(ctx context.Context) error {
	if s.fails == nil {
		return nil
	}
	return s.fails(ctx)
}

func (s *service) unary(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
	if err := s.fail(ctx); err != nil {
		return nil, err
	}
	return connect.NewResponse(r.Msg), nil
}

func (s *service) upload(_ context.Context, stream *connect.ClientStream[text]) (*connect.Response[text], error) {
	n := 0
	for stream.Receive() {
		n++
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(wrapperspb.String(fmt.Sprint(n))), nil
}

func (s *service) bidi(ctx context.Context, stream *connect.BidiStream[text, text]) error {
	if err := s.fail(ctx); err != nil {
		return err
	}
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.Send(m)
		}
		if err != nil {
			return err
		}
	}
}

// listen starts a server on 127.0.0.1, or on a listener, that speaks HTTP/1.1 and, without encryption, HTTP/2.
func listen(l net.Listener, svc *service, interceptors ...connect.Interceptor) *httptest.Server {
	options := []connect.HandlerOption{
		connect.WithInterceptors(interceptors...),
		connect.WithIdempotency(connect.IdempotencyNoSideEffects), // so that clients may GET
	}
	mux := http.NewServeMux()
	mux.Handle(unaryProcedure, connect.NewUnaryHandler(unaryProcedure, svc.unary, options...))
	mux.Handle(otherProcedure, connect.NewUnaryHandler(otherProcedure, svc.unary, options...))
	mux.Handle(uploadProcedure, connect.NewClientStreamHandler(uploadProcedure, svc.upload, options...))
	mux.Handle(bidiProcedure, connect.NewBidiStreamHandler(bidiProcedure, svc.bidi, options...))
	server := httptest.NewUnstartedServer(mux)
	if l != nil {
		_ = server.Listener.Close()
		server.Listener = l
	}
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	return server
}

func serve(t *testing.T, svc *service, interceptors ...connect.Interceptor) string {
	t.Helper()
	server := listen(nil, svc, interceptors...)
	t.Cleanup(server.Close)
	return server.URL
}

// over returns an HTTP client that speaks HTTP/2 without encryption, through a dialer.
func over(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	transport := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// from makes connections come from an address of this machine.
func from(t *testing.T, ip string) *http.Client {
	c := over((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// A caller calls a procedure of the service.
type caller = connect.Client[text, text]

func to(url, procedure string, options ...connect.ClientOption) *caller {
	return connect.NewClient[text, text](h2c, url+procedure, options...)
}

var h2c = over(nil)

// protocols are what a client may speak.
var protocols = []struct {
	name   string
	option connect.ClientOption
}{
	{"connect", connect.WithClientOptions()},
	{"connect with JSON", connect.WithProtoJSON()},
	{"connect by GET", connect.WithClientOptions(connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))},
	{"gRPC", connect.WithGRPC()},
	{"gRPC-Web", connect.WithGRPCWeb()},
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ok is the code of a call without an error.
const (
	ok      = connect.Code(0)
	refused = connect.CodeResourceExhausted
)

func codeOf(err error) connect.Code {
	if err == nil {
		return ok
	}
	return connect.CodeOf(err)
}

// An answer is what a client sees of a call.
type answer struct {
	code   connect.Code
	err    *connect.Error
	fields http.Header // of the header, or of the error
}

func call(ctx context.Context, client *caller, pairs ...string) answer {
	r := connect.NewRequest(wrapperspb.String("hello"))
	for i := 0; i < len(pairs); i += 2 {
		r.Header().Add(pairs[i], pairs[i+1])
	}
	response, err := client.CallUnary(ctx, r)
	a := answer{code: codeOf(err)}
	if err == nil {
		a.fields = response.Header()
	} else if errors.As(err, &a.err) {
		a.fields = a.err.Meta()
	}
	return a
}

// details returns the delay of the RetryInfo, negative without one, and what the QuotaFailure names.
func (a answer) details() (retry time.Duration, violated []string) {
	retry = -1
	if a.err == nil {
		return retry, nil
	}
	for _, d := range a.err.Details() {
		switch m, _ := d.Value(); m := m.(type) {
		case *errdetails.RetryInfo:
			retry = m.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range m.GetViolations() {
				violated = append(violated, v.GetQuotaId())
			}
		}
	}
	return retry, violated
}

func field(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// codesOf makes n calls, one after the other.
func codesOf(ctx context.Context, client *caller, n int, pairs ...string) (all []connect.Code) {
	for range n {
		all = append(all, call(ctx, client, pairs...).code)
	}
	return all
}

// standing returns a limiter whose clock stands still.
func standing(limits ...slidegate.Limit) *slidegate.Limiter {
	return slidegate.MustNew(memstore.New(memstore.WithClock(gatetest.NewClock(time.Unix(0, 0)).Now)), limits...)
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
