package grpcgate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// A service answers unary calls with unary, or with nothing. Streams of either kind take what comes;
// those of both directions answer every message.
type service struct {
	testpb.UnimplementedTestServiceServer
	unary  func(context.Context, *testpb.SimpleRequest) error
	stream func(context.Context) error
	duplex func(testpb.TestService_FullDuplexCallServer) error // in place of that answer
}

func (s *service) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, s.call(ctx, nil)
}

func (s *service) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{}, s.call(ctx, r)
}

func (s *service) call(ctx context.Context, r *testpb.SimpleRequest) error {
	if s.unary == nil {
		return nil
	}
	return s.unary(ctx, r)
}

func (s *service) StreamingInputCall(stream testpb.TestService_StreamingInputCallServer) error {
	for n := int32(0); ; n++ {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
	}
}

func (s *service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	if s.stream != nil {
		if err := s.stream(stream.Context()); err != nil {
			return err
		}
	}
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.Send(&testpb.StreamingOutputCallResponse{})
		}
		if err != nil {
			return err
		}
	}
}

// listen starts a server with a service on a listener, or else on a free port of 127.0.0.1, and
// returns its address and what stops it.
func listen(l net.Listener, svc testpb.TestServiceServer, options ...grpc.ServerOption) (string, func()) {
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			panic(err)
		}
	}
	server := grpc.NewServer(options...)
	testpb.RegisterTestServiceServer(server, svc)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	return l.Addr().String(), func() { server.Stop(); <-done }
}

func serve(t *testing.T, svc testpb.TestServiceServer, options ...grpc.ServerOption) string {
	t.Helper()
	address, stop := listen(nil, svc, options...)
	t.Cleanup(stop)
	return address
}

// connect makes a connection without encryption.
func connect(address string, options ...grpc.DialOption) *grpc.ClientConn {
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	return conn
}

func dial(t *testing.T, address string, options ...grpc.DialOption) testpb.TestServiceClient {
	t.Helper()
	conn := connect(address, options...)
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

// from makes a connection come from an address of this machine.
func from(ip string) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		return d.DialContext(ctx, "tcp", address)
	})
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// sending adds metadata to a call.
func sending(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// An answer is what a client sees of a call.
type answer struct {
	code            codes.Code
	status          *status.Status
	header, trailer metadata.MD
}

func call(ctx context.Context, client testpb.TestServiceClient) answer {
	var a answer
	_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	a.status, _ = status.FromError(err)
	a.code = a.status.Code()
	delete(a.header, "content-type") // that of HTTP/2 itself, wherever the answer begins
	delete(a.trailer, "content-type")
	delete(a.trailer, "grpc-status-details-bin") // status has it
	return a
}

// retryIn returns the delay of the RetryInfo, and whether there is one.
func (a answer) retryIn() (time.Duration, bool) {
	for _, d := range a.status.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// violated returns the policies that the QuotaFailure names.
func (a answer) violated() (ids []string) {
	for _, d := range a.status.Details() {
		if failure, ok := d.(*errdetails.QuotaFailure); ok {
			for _, v := range failure.GetViolations() {
				ids = append(ids, v.GetQuotaId())
			}
		}
	}
	return ids
}

func field(md metadata.MD, name string) string { return strings.Join(md.Get(name), ", ") }

// codesOf makes n calls, one after the other.
func codesOf(ctx context.Context, client testpb.TestServiceClient, n int) (all []codes.Code) {
	for range n {
		all = append(all, call(ctx, client).code)
	}
	return all
}

// standing returns a limiter whose clock stands still.
func standing(limits ...slidegate.Limit) *slidegate.Limiter {
	return slidegate.MustNew(memstore.New(memstore.WithClock(gatetest.NewClock(time.Unix(0, 0)).Now)), limits...)
}
