package grpcgate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/grpcgate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

const (
	ok      = codes.OK
	refused = codes.ResourceExhausted
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestVectors holds those of area grpc, over a real connection.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../httpgate/testdata/interface-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	type input struct {
		Decision, Transport string
		Violated            []string
		Wait                string
		Pushback, Never     bool
	}
	type expectation struct {
		CodeNumber     codes.Code `json:"code_number"`
		Details        json.RawMessage
		Trailer        map[string]string
		NoDetail       string `json:"no_detail"`
		HeaderMetadata string `json:"header_metadata"`
	}
	var all []struct {
		ID, Area string
		Input    json.RawMessage
		Expect   json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, v := range all {
		if v.Area != "grpc" {
			continue
		}
		var in input
		if err := json.Unmarshal(v.Input, &in); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(in.Transport, "connect") {
			continue // package connectgate has it
		}
		ran++
		t.Run(v.ID, func(t *testing.T) {
			var e expectation
			if err := json.Unmarshal(v.Expect, &e); err != nil {
				t.Fatal(err)
			}
			wait := time.Second
			if in.Wait != "" {
				wait, err = time.ParseDuration(in.Wait)
			}
			limiter, options := standing(slidegate.Per(wait, 1).Named("burst")), []grpcgate.Option(nil)
			if strings.HasPrefix(in.Decision, "store error") {
				limiter = slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1))
				options = append(options, grpcgate.FailClosed())
			}
			if in.Pushback {
				options = append(options, grpcgate.Pushback())
			}
			if in.Never {
				options = append(options, grpcgate.Cost(func(context.Context, *grpcgate.Call) int64 { return 2 }))
			}
			client := dial(t, serve(t, &service{}, grpcgate.MustNew(limiter, options...).ServerOptions()...))
			ctx := context.Background() // without a deadline, which pushback would heed
			call(ctx, client)
			a := call(ctx, client)
			if e.CodeNumber != 0 {
				want(t, "code", a.code, e.CodeNumber)
			}
			if e.Details != nil {
				var expected, got any
				raw, _ := protojson.Marshal(a.status.Proto())
				if err := errors.Join(json.Unmarshal(e.Details, &expected), json.Unmarshal(raw, &got)); err != nil {
					t.Fatal(err)
				}
				want(t, "details", got.(map[string]any)["details"], expected)
			}
			for name, value := range e.Trailer {
				want(t, name, a.trailer.Get(name), []string{value})
			}
			if _, has := a.retryIn(); e.NoDetail == "RetryInfo" && has {
				t.Error("there is a RetryInfo")
			}
			if e.HeaderMetadata == "none" && len(a.header) > 0 {
				t.Errorf("header %v", a.header)
			}
		})
	}
	if ran != 5 {
		t.Errorf("%d vectors ran, want 5", ran)
	}
}

// TestFieldCases holds the cases whose surface is gRPC, and the gRPC part of others.
func TestFieldCases(t *testing.T) {
	text, err := os.ReadFile("../httpgate/testdata/field-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Shared []struct{ ID, Setup string } }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	held := map[string]func(*testing.T){"PRT-06": tenantsAndMethods, "CST-08": chargedOnce, "RDS-02": outageIsNoQuota}
	for _, c := range file.Shared {
		run := held[c.ID]
		delete(held, c.ID)
		if run != nil {
			t.Run(c.ID, run)
		} else if surface, _, _ := strings.Cut(c.Setup, "]"); slices.Contains(strings.Split(strings.Trim(surface, "["), "+"), "grpc") {
			t.Errorf("%s is not held", c.ID)
		}
	}
	for id := range held {
		t.Errorf("%s is no case", id)
	}
}

func tenantsAndMethods(t *testing.T) {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(2)), grpcgate.By(grpcgate.Metadata("tenant"), grpcgate.Method))
	client := dial(t, serve(t, &service{}, gate.ServerOptions()...))
	t1, t2 := sending(within(t), "tenant", "t1"), sending(within(t), "tenant", "t2")
	want(t, "one method", codesOf(t1, client, 3), []codes.Code{ok, ok, refused})
	if _, err := client.EmptyCall(t1, &testpb.Empty{}); err != nil {
		t.Errorf("another method: %v", err)
	}
	want(t, "another tenant", codesOf(t2, client, 1), []codes.Code{ok})
}

func chargedOnce(t *testing.T) {
	client := dial(t, serve(t, &service{}, grpcgate.PerIP(slidegate.PerMinute(20).Named("all"))...))
	for _, left := range []string{"19", "18", "17"} {
		text := field(call(within(t), client).header, "ratelimit")
		if !strings.HasPrefix(text, `"all";r=`+left+";") {
			t.Errorf("%s, want %s left", text, left)
		}
	}
}

func outageIsNoQuota(t *testing.T) {
	gate := grpcgate.MustNew(slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(2)), grpcgate.FailClosed())
	a := call(within(t), dial(t, serve(t, &service{}, gate.ServerOptions()...)))
	want(t, "code", a.code, codes.Unavailable)
	want(t, "details", len(a.status.Details()), 0)
	for _, name := range []string{"ratelimit", "ratelimit-policy", "retry-after"} {
		want(t, name, append(a.header.Get(name), a.trailer.Get(name)...), []string(nil))
	}
	if strings.Contains(a.status.Message(), "connection") {
		t.Errorf("the client is told %q", a.status.Message())
	}
}

// TestFieldsGoWithTheAnswer: into the header of a success, the trailer of anything else.
func TestFieldsGoWithTheAnswer(t *testing.T) {
	fails := false
	svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error {
		if fails {
			return status.Error(codes.NotFound, "no such thing")
		}
		return nil
	}}
	client := dial(t, serve(t, svc, grpcgate.MustNew(standing(slidegate.PerMinute(2).Named("all"))).ServerOptions()...))
	const policy = `"all";q=2;w=60`

	a := call(within(t), client)
	want(t, "success, header", a.header, metadata.Pairs("ratelimit", `"all";r=1;t=60`, "ratelimit-policy", policy))
	want(t, "success, trailer", len(a.trailer), 0)

	fails = true
	a = call(within(t), client)
	want(t, "failure", a.code, codes.NotFound)
	want(t, "failure, header", len(a.header), 0)
	want(t, "failure, trailer", a.trailer, metadata.Pairs("ratelimit", `"all";r=0;t=60`, "ratelimit-policy", policy))

	a = call(within(t), client)
	want(t, "refusal", a.code, refused)
	want(t, "refusal, header", len(a.header), 0)
	want(t, "refusal, trailer", a.trailer, metadata.Pairs("ratelimit", `"all";r=0;t=60`, "ratelimit-policy", policy, "retry-after", "60"))
	want(t, "violated", a.violated(), []string{"all"})
}

// TestFieldsOfAHandlerThatSendsItsHeader come in the trailer: it is too late for the header.
func TestFieldsOfAHandlerThatSendsItsHeader(t *testing.T) {
	svc := &service{unary: func(ctx context.Context, _ *testpb.SimpleRequest) error {
		return grpc.SendHeader(ctx, metadata.Pairs("own", "1"))
	}}
	a := call(within(t), dial(t, serve(t, svc, grpcgate.PerIP(slidegate.PerMinute(2).Named("all"))...)))
	want(t, "header", a.header, metadata.Pairs("own", "1"))
	want(t, "trailer", a.trailer.Get("ratelimit"), []string{`"all";r=1;t=60`})
}

const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "0.05s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// TestRetriesOfGRPCGo work through a gate: a call that is refused is retried by the client's service
// config and succeeds. Where anything is in the header, as with the last server, none is.
func TestRetriesOfGRPCGo(t *testing.T) {
	header := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("ratelimit", "too early"))
		return handler(ctx, req)
	}
	for _, c := range []struct {
		name    string
		options []grpcgate.Option
		server  []grpc.ServerOption
		retried bool
	}{
		{"by the client's policy", nil, nil, true},
		{"when the server says", []grpcgate.Option{grpcgate.Pushback()}, nil, true},
		{"not where a header was set", nil, []grpc.ServerOption{grpc.ChainUnaryInterceptor(header)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var decided, refusals atomic.Int64
			gate := grpcgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.Per(100*time.Millisecond, 1)),
				append(c.options, grpcgate.Observe(func(e *httpgate.Event) {
					decided.Add(1)
					if !e.Decision.Allowed {
						refusals.Add(1)
					}
				}))...)
			client := dial(t, serve(t, &service{}, append(c.server, gate.ServerOptions()...)...), grpc.WithDefaultServiceConfig(retrying))
			for refusals.Load() == 0 {
				before := decided.Load()
				code := call(within(t), client).code
				switch {
				case refusals.Load() == 0: // a slow machine: the window has passed between two calls
				case c.retried && (code != ok || decided.Load() < before+2):
					t.Errorf("%v after %d attempts", code, decided.Load()-before)
				case !c.retried && (code != refused || decided.Load() != before+1):
					t.Errorf("%v after %d attempts, though a header was sent", code, decided.Load()-before)
				}
			}
			if len(c.options) > 0 && refusals.Load() != 1 {
				t.Errorf("%d refusals: the client did not wait as long as it was told", refusals.Load())
			}
		})
	}
}

// TestRetriesOfTheHandlersErrors are not taken away by the fields of a gate that admitted the call.
func TestRetriesOfTheHandlersErrors(t *testing.T) {
	var calls atomic.Int64
	svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error {
		if calls.Add(1) == 1 {
			return status.Error(codes.Unavailable, "not now")
		}
		return nil
	}}
	client := dial(t, serve(t, svc, grpcgate.PerIP(slidegate.PerMinute(10))...), grpc.WithDefaultServiceConfig(retrying))
	want(t, "code", call(within(t), client).code, ok)
	want(t, "attempts", calls.Load(), int64(2))
}

// TestPushbackHeedsTheDeadline: a retry that cannot be in time is not asked for.
func TestPushbackHeedsTheDeadline(t *testing.T) {
	client := dial(t, serve(t, &service{}, grpcgate.PerIP(slidegate.PerHour(1), grpcgate.Pushback())...), grpc.WithDefaultServiceConfig(retrying))
	ctx := within(t)
	want(t, "codes", codesOf(ctx, client, 2), []codes.Code{ok, refused})
	want(t, "pushback", call(ctx, client).trailer.Get("grpc-retry-pushback-ms"), []string{"-1"})
}

// TestStreams are charged when they open, by message, or both with two gates.
func TestStreams(t *testing.T) {
	open := func() *grpcgate.Gate { return grpcgate.MustNew(standing(slidegate.PerMinute(2).Named("streams"))) }
	messages := func() *grpcgate.Gate {
		return grpcgate.MustNew(standing(slidegate.PerMinute(3).Named("messages")), grpcgate.PerMessage())
	}
	type stream struct {
		messages int
		codes    []codes.Code // of each message and, if it came so far, of the end
	}
	for _, c := range []struct {
		name    string
		gates   []*grpcgate.Gate
		streams []stream
	}{
		{"open", []*grpcgate.Gate{open()}, []stream{{4, []codes.Code{ok, ok, ok, ok, ok}}, {0, []codes.Code{ok}}, {1, []codes.Code{refused}}, {0, []codes.Code{refused}}}},
		{"messages", []*grpcgate.Gate{messages()}, []stream{{2, []codes.Code{ok, ok, ok}}, {2, []codes.Code{ok, refused}}, {0, []codes.Code{ok}}, {1, []codes.Code{refused}}}},
		{"both", []*grpcgate.Gate{open(), messages()}, []stream{{1, []codes.Code{ok, ok}}, {3, []codes.Code{ok, ok, refused}}, {1, []codes.Code{refused}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var options []grpc.ServerOption
			for _, g := range c.gates {
				options = append(options, g.ServerOptions()...)
			}
			client := dial(t, serve(t, &service{}, options...))
			for i, s := range c.streams {
				want(t, fmt.Sprint("stream ", i), streamed(t, client, s.messages), s.codes)
			}
		})
	}
}

// streamed sends n messages on one stream, each answered before the next, and returns the code of
// each and, unless it broke before, of the end.
func streamed(t *testing.T, client testpb.TestServiceClient, n int) (all []codes.Code) {
	t.Helper()
	stream, err := client.FullDuplexCall(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		_ = stream.Send(&testpb.StreamingOutputCallRequest{}) // Recv says why it failed
		_, err := stream.Recv()
		if all = append(all, status.Code(err)); err != nil {
			return all
		}
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err != nil && err.Error() != "EOF" {
		return append(all, status.Code(err))
	}
	return append(all, ok)
}

// TestFieldsOfAStream go into its header, unless it fails without having sent anything: then into
// its trailer.
func TestFieldsOfAStream(t *testing.T) {
	type duplex = testpb.TestService_FullDuplexCallServer
	answering := func(s duplex) error { return s.Send(&testpb.StreamingOutputCallResponse{}) }
	failing := func(duplex) error { return status.Error(codes.NotFound, "no such thing") }
	for _, c := range []struct {
		name            string
		handler         func(duplex) error
		code            codes.Code
		header, trailer bool // have the fields
	}{
		{"sends", answering, ok, true, false},
		{"sends its header", func(s duplex) error { return s.SendHeader(metadata.Pairs("own", "1")) }, ok, true, false},
		{"sends its header and fails", func(s duplex) error { return errors.Join(s.SendHeader(metadata.Pairs("own", "1")), failing(s)) }, codes.NotFound, true, false},
		{"sends nothing", func(duplex) error { return nil }, ok, true, false},
		{"sends and fails", func(s duplex) error { return errors.Join(answering(s), failing(s)) }, codes.NotFound, true, false},
		{"fails", failing, codes.NotFound, false, true},
		{"is refused", answering, refused, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			limiter := standing(slidegate.PerMinute(1))
			if c.code == refused {
				limiter = exhausted(t)
			}
			gate := grpcgate.MustNew(limiter, grpcgate.By(func(context.Context, *grpcgate.Call) (string, error) { return "k", nil }))
			stream, err := dial(t, serve(t, &service{duplex: c.handler}, gate.ServerOptions()...)).FullDuplexCall(within(t))
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			header, _ := stream.Header()
			want(t, "code", status.Code(err), c.code)
			want(t, "fields in the header", len(header.Get("ratelimit")) == 1, c.header)
			want(t, "fields in the trailer", len(stream.Trailer().Get("ratelimit")) == 1, c.trailer)
			want(t, "retry-after", len(stream.Trailer().Get("retry-after")) == 1, c.code == refused)
		})
	}
}

// TestStreamsSendAndReceiveAtOnce: a handler may do so from two goroutines, and may go on asking after
// a refusal, which stays.
func TestStreamsSendAndReceiveAtOnce(t *testing.T) {
	const messages, quota, heavy = 60, 40, 30 // the heavy one does not fit; those behind it would
	var received, refusals int
	svc := &service{duplex: func(stream testpb.TestService_FullDuplexCallServer) error {
		sent := make(chan error)
		go func() {
			var err error
			for range messages {
				err = errors.Join(err, stream.Send(&testpb.StreamingOutputCallResponse{}))
			}
			sent <- err
		}()
		var last error
		for range messages {
			if _, err := stream.Recv(); err == nil {
				received++
			} else if status.Code(err) == refused {
				last = err
				refusals++
			}
		}
		return errors.Join(<-sent, last)
	}}
	asked := 0
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(quota)), grpcgate.PerMessage(),
		grpcgate.Cost(func(context.Context, *grpcgate.Call) int64 {
			if asked++; asked == heavy+1 {
				return quota
			}
			return 1
		}))
	stream, err := dial(t, serve(t, svc, gate.ServerOptions()...)).FullDuplexCall(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		_ = stream.Send(&testpb.StreamingOutputCallRequest{})
	}
	answers := 0
	for ; err == nil; answers++ {
		_, err = stream.Recv()
	}
	want(t, "answers", answers-1, messages)
	want(t, "received", received, heavy)
	want(t, "refused", refusals, messages-heavy)
	want(t, "asked about", asked, heavy+1)
}

// TestMessagesCostWhatIsInThem: the cost is asked for when a message has been read.
func TestMessagesCostWhatIsInThem(t *testing.T) {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(10).Named("bytes")), grpcgate.PerMessage(),
		grpcgate.Cost(func(_ context.Context, c *grpcgate.Call) int64 {
			return int64(len(c.Message.(*testpb.StreamingInputCallRequest).GetPayload().GetBody()))
		}))
	client := dial(t, serve(t, &service{}, gate.ServerOptions()...))
	upload := func(sizes ...int) (int32, codes.Code, metadata.MD) {
		stream, err := client.StreamingInputCall(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range sizes {
			_ = stream.Send(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, n)}})
		}
		r, err := stream.CloseAndRecv()
		header, _ := stream.Header()
		return r.GetAggregatedPayloadSize(), status.Code(err), header
	}
	n, code, header := upload(4, 0, 3)
	want(t, "messages", n, int32(3))
	want(t, "code", code, ok)
	want(t, "fields after the last message", header.Get("ratelimit"), []string{`"bytes";r=3;t=60`})
	_, code, _ = upload(2, 2)
	want(t, "too much", code, refused)
	_, code, _ = upload(1)
	want(t, "what is left", code, ok)
}

// TestFailures: open by default, never for what can never fit, nor for those without an address.
func TestFailures(t *testing.T) {
	clashing := standing(slidegate.PerMinute(1).Named("all")) // another limit has the name
	failing := func() *slidegate.Limiter { return slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1)) }
	costing := func(n int64) grpcgate.Option {
		return grpcgate.Cost(func(context.Context, *grpcgate.Call) int64 { return n })
	}
	for _, c := range []struct {
		name     string
		limiter  *slidegate.Limiter
		options  []grpcgate.Option
		code     codes.Code
		violated []string
	}{
		{"open", failing(), nil, ok, nil},
		{"closed", failing(), []grpcgate.Option{grpcgate.FailClosed()}, codes.Unavailable, nil},
		{"can never fit", failing(), []grpcgate.Option{costing(2)}, refused, []string{"1/1m"}},
		{"negative", failing(), []grpcgate.Option{costing(-1)}, refused, nil},
		{"free", standing(slidegate.PerMinute(1)), []grpcgate.Option{costing(0)}, ok, nil},
		{"blocked", slidegate.Blocked(), nil, refused, nil},
		{"unlimited", slidegate.Unlimited(), nil, ok, nil},
		{"everybody", standing(slidegate.PerMinute(1)), []grpcgate.Option{grpcgate.And(standing(slidegate.PerMinute(1).Named("all")), grpcgate.Everybody)}, ok, nil},
		{"limits that do not go together", standing(slidegate.PerMinute(1)), []grpcgate.Option{
			grpcgate.And(standing(slidegate.PerMinute(1).Named("all")), grpcgate.Everybody),
			grpcgate.Choose(func(context.Context, *grpcgate.Call) *slidegate.Limiter { return clashing }),
		}, codes.Internal, nil},
		{"denied", failing(), []grpcgate.Option{grpcgate.With(httpgate.Deny("127.0.0.0/8"))}, codes.PermissionDenied, nil},
		{"exempt", slidegate.Blocked(), []grpcgate.Option{grpcgate.With(httpgate.Exempt("/grpc.testing.TestService/UnaryCall from 127.0.0.0/8"))}, ok, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := call(within(t), dial(t, serve(t, &service{}, grpcgate.MustNew(c.limiter, c.options...).ServerOptions()...)))
			want(t, "code", a.code, c.code)
			want(t, "violated", a.violated(), c.violated)
			if _, has := a.retryIn(); has {
				t.Error("there is a RetryInfo, though no waiting will help")
			}
		})
	}
}

// TestUnixSockets: who cannot be told apart is not let through uncounted.
func TestUnixSockets(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []grpcgate.Option
		codes   []codes.Code
	}{
		{"no address", nil, []codes.Code{codes.Internal, codes.Internal, codes.Internal}},
		{"a trusted proxy's", []grpcgate.Option{grpcgate.With(httpgate.TrustUnixPeer())}, []codes.Code{ok, refused, refused}},
		{"another key", []grpcgate.Option{grpcgate.By(grpcgate.Metadata("x-forwarded-for"))}, []codes.Code{ok, refused, refused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			_, stop := listen(l, &service{}, grpcgate.PerIP(slidegate.PerMinute(1), c.options...)...)
			t.Cleanup(stop)
			ctx := sending(within(t), "x-forwarded-for", "203.0.113.7")
			want(t, "codes", codesOf(ctx, dial(t, "unix:"+path), 3), c.codes)
		})
	}
}

// TestHangingUpIsNoStoreError: nobody is told of a store that was left waiting by its caller.
func TestHangingUpIsNoStoreError(t *testing.T) {
	var log bytes.Buffer
	events := make(chan bool, 1)
	asked := make(chan struct{}, 1)
	gate := grpcgate.MustNew(slidegate.MustNew(hanging{asked}, slidegate.PerMinute(1)), grpcgate.FailClosed(),
		grpcgate.Logger(slog.New(slog.NewTextHandler(&log, nil))),
		grpcgate.With(httpgate.OnStoreError(func(err error) { t.Errorf("the store is blamed: %v", err) })),
		grpcgate.Observe(func(e *httpgate.Event) { events <- e.Canceled }))
	codes := make(chan codes.Code, 1)
	client := dial(t, serve(t, &service{}, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			resp, err := handler(ctx, req)
			codes <- status.Code(err)
			return resp, err
		}, gate.Unary)))
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		<-asked
		cancel()
	}()
	if code := call(ctx, client).code; code.String() != "Canceled" {
		t.Errorf("the client sees %v", code)
	}
	want(t, "canceled", <-events, true)
	if code := <-codes; code.String() != "Canceled" {
		t.Errorf("the server ends with %v", code)
	}
	want(t, "log", log.String(), "")
}

// hanging is a store that answers nobody before they give up.
type hanging struct{ asked chan<- struct{} }

func (h hanging) Bind([]slidegate.Limit) (slidegate.Plan, error) { return h, nil }

func (h hanging) Take(ctx context.Context, _ string, _ int64) (slidegate.Answer, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return slidegate.Answer{}, ctx.Err()
}

func (h hanging) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return h.Take(ctx, key, cost)
}
func (hanging) Refund(context.Context, string, slidegate.Answer, int64) error { return nil }
func (hanging) Reset(context.Context, string) error                           { return nil }

// TestExactlyTheQuota, however many come at once.
func TestExactlyTheQuota(t *testing.T) {
	const callers, each, quota = 25, 8, 60
	var served atomic.Int64
	svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error { served.Add(1); return nil }}
	address := serve(t, svc, grpcgate.MustNew(standing(slidegate.PerMinute(quota))).ServerOptions()...)
	client := dial(t, address)
	var admitted, others atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				switch code := call(within(t), client).code; code {
				case ok:
					admitted.Add(1)
				case refused:
				default:
					others.Add(1)
				}
			}
		})
	}
	all.Wait()
	want(t, "admitted", admitted.Load(), int64(quota))
	want(t, "served", served.Load(), int64(quota))
	want(t, "neither admitted nor refused", others.Load(), int64(0))
}

// TestHealthIsExempt, and reflection by option.
func TestHealthIsExempt(t *testing.T) {
	for _, c := range []struct {
		name               string
		options            []grpcgate.Option
		health, reflection codes.Code
	}{
		{"by default", nil, ok, refused},
		{"both", []grpcgate.Option{grpcgate.Exempt(grpcgate.Health, grpcgate.Reflection)}, ok, ok},
		{"by method", []grpcgate.Option{grpcgate.Exempt("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")}, refused, ok},
		{"neither", []grpcgate.Option{grpcgate.Exempt()}, refused, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer(grpcgate.PerIP(slidegate.PerMinute(1), c.options...)...)
			healthpb.RegisterHealthServer(server, health.NewServer())
			reflection.Register(server)
			testpb.RegisterTestServiceServer(server, &service{})
			done := make(chan error)
			go func() { done <- server.Serve(l) }()
			conn := connect(l.Addr().String())
			t.Cleanup(func() { _ = conn.Close(); server.Stop(); <-done })

			want(t, "a call", codesOf(within(t), testpb.NewTestServiceClient(conn), 2), []codes.Code{ok, refused})
			_, err = healthpb.NewHealthClient(conn).Check(within(t), &healthpb.HealthCheckRequest{})
			want(t, "health", status.Code(err), c.health)
			stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(within(t))
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
			_, err = stream.Recv()
			want(t, "reflection", status.Code(err), c.reflection)
		})
	}
}

// TestAddressesApart: who connects from another address has a budget of its own.
func TestAddressesApart(t *testing.T) {
	address := serve(t, &service{}, grpcgate.PerIP(slidegate.PerMinute(1))...)
	one, two := dial(t, address, from("127.0.0.1")), dial(t, address, from("127.0.0.2"))
	want(t, "127.0.0.1", codesOf(within(t), one, 2), []codes.Code{ok, refused})
	want(t, "127.0.0.2", codesOf(within(t), two, 2), []codes.Code{ok, refused})
}

// TestKeysAreThoseOfHTTP: the gate counts under the keys that httpgate has for the same client.
func TestKeysAreThoseOfHTTP(t *testing.T) {
	for _, c := range []struct {
		name    string
		network string
		options []grpcgate.Option
		sent    []string
		key     string
	}{
		{"who connects", "127.0.0.1:0", nil, []string{"x-forwarded-for", "203.0.113.7"}, "ip:127.0.0.1"},
		{"IPv6", "[::1]:0", nil, nil, "ip:::/56"},
		{"IPv6, more bits", "[::1]:0", []grpcgate.Option{grpcgate.With(httpgate.IPv6Prefix(128))}, nil, "ip:::1/128"},
		{"behind a proxy", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.TrustProxies("127.0.0.0/8"))}, []string{"x-forwarded-for", "198.51.100.1, 203.0.113.7"}, "ip:203.0.113.7"},
		{"IPv6 behind a proxy", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.TrustProxies("127.0.0.1"))}, []string{"x-forwarded-for", "2001:db8:1234:56ff::1"}, "ip:2001:db8:1234:5600::/56"},
		{"two fields", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.TrustProxies("127.0.0.1"))}, []string{"x-forwarded-for", "198.51.100.1", "x-forwarded-for", "203.0.113.7"}, "ip:203.0.113.7"},
		{"no proxy", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.TrustProxies("10.0.0.0/8"))}, []string{"x-forwarded-for", "203.0.113.7"}, "ip:127.0.0.1"},
		{"Forwarded", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.TrustHops(1), httpgate.ClientIPHeader("Forwarded"))}, []string{"forwarded", "for=203.0.113.9"}, "ip:203.0.113.9"},
		{"metadata", "127.0.0.1:0", []grpcgate.Option{grpcgate.By(grpcgate.Metadata("x-api-key"))}, []string{"x-api-key", " k1"}, "header:X-Api-Key:k1"},
		{"as httpgate has it", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.ByHeader("X-API-Key"))}, []string{"x-api-key", "k1"}, "header:X-Api-Key:k1"},
		{"the host that was asked for", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.ByHeader("Host"))}, nil, "header:Host:api.example"},
		{"the request that it is", "127.0.0.1:0", []grpcgate.Option{grpcgate.With(httpgate.By(func(r *http.Request) (string, error) {
			return r.Method + " " + r.URL.Path, nil
		}))}, nil, "POST /grpc.testing.TestService/UnaryCall"},
		{"no metadata", "127.0.0.1:0", []grpcgate.Option{grpcgate.By(grpcgate.Metadata("x-api-key"))}, nil, "ip:127.0.0.1"},
		{"method", "127.0.0.1:0", []grpcgate.Option{grpcgate.By(grpcgate.Method)}, nil, "method:/grpc.testing.TestService/UnaryCall"},
		{"several", "127.0.0.1:0", []grpcgate.Option{grpcgate.By(grpcgate.Address, grpcgate.Method)}, nil, httpgate.Join("ip:127.0.0.1", "method:/grpc.testing.TestService/UnaryCall")},
		{"one of several cannot tell", "127.0.0.1:0", []grpcgate.Option{grpcgate.By(grpcgate.Method, grpcgate.Metadata("x-api-key"))}, nil, "ip:127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.network)
			if err != nil {
				t.Fatal(err)
			}
			keys := make(chan string, 1)
			options := append(c.options, grpcgate.Observe(func(e *httpgate.Event) { keys <- e.Key }))
			address, stop := listen(l, &service{}, grpcgate.PerIP(slidegate.PerMinute(1), options...)...)
			t.Cleanup(stop)
			want(t, "code", call(sending(within(t), c.sent...), dial(t, address, grpc.WithAuthority("api.example"))).code, ok)
			want(t, "key", <-keys, c.key)
		})
	}
}

// TestRefunds: what a call ended with decides whether it counts, also where the handler panics.
func TestRefunds(t *testing.T) {
	recovering := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = status.Errorf(codes.Internal, "%v", v)
			}
		}()
		return handler(ctx, req)
	}
	for _, c := range []struct {
		name  string
		ends  func(context.Context) error
		code  codes.Code
		given codes.Code // back
		left  int64
	}{
		{"success", func(context.Context) error { return nil }, ok, ok, 9},
		{"success that counts", func(context.Context) error { return nil }, ok, codes.NotFound, 7},
		{"failure", func(context.Context) error { return status.Error(codes.NotFound, "") }, codes.NotFound, codes.NotFound, 9},
		{"an error without a code", func(context.Context) error { return errors.New("odd") }, codes.Unknown, codes.Unknown, 9},
		{"a context's error", func(context.Context) error { return context.DeadlineExceeded }, codes.DeadlineExceeded, codes.DeadlineExceeded, 9},
		{"settled", func(ctx context.Context) error {
			_, err := httpgate.Settle(ctx, 3)
			return err
		}, ok, codes.NotFound, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			limiter := standing(slidegate.PerMinute(9))
			gate := grpcgate.MustNew(limiter, grpcgate.With(httpgate.Settling()), grpcgate.RefundIf(func(code codes.Code) bool { return code == c.given }))
			svc := &service{stream: c.ends, unary: func(ctx context.Context, _ *testpb.SimpleRequest) error { return c.ends(ctx) }}
			client := dial(t, serve(t, svc, gate.ServerOptions()...))
			want(t, "code", call(within(t), client).code, c.code)
			want(t, "code of a stream", streamed(t, client, 0), []codes.Code{c.code})
			d, err := limiter.Peek(within(t), "ip:127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			want(t, "left", d.Remaining(), c.left)
		})
	}
	t.Run("panic", func(t *testing.T) {
		limiter := standing(slidegate.PerMinute(9))
		gate := grpcgate.MustNew(limiter, grpcgate.RefundIf(func(code codes.Code) bool { return code == codes.Internal }))
		svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error { panic("boom") }}
		client := dial(t, serve(t, svc, grpc.ChainUnaryInterceptor(recovering, gate.Unary)))
		want(t, "code", call(within(t), client).code, codes.Internal)
		d, err := limiter.Peek(within(t), "ip:127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "left", d.Remaining(), int64(9))
	})
}

// TestShadowAndBan: a shadow refuses nobody and says nothing, and a ban is a refusal.
func TestShadowAndBan(t *testing.T) {
	shadow := grpcgate.MustNew(slidegate.Blocked(), grpcgate.With(httpgate.Shadow()))
	ban := grpcgate.MustNew(standing(slidegate.PerMinute(1)), grpcgate.With(httpgate.Ban(slidegate.PerMinute(2), time.Hour)))
	client := dial(t, serve(t, &service{}, append(shadow.ServerOptions(), ban.ServerOptions()...)...))
	want(t, "codes", codesOf(within(t), client, 3), []codes.Code{ok, refused, refused})
	a := call(within(t), client)
	wait, _ := a.retryIn()
	want(t, "delay", wait, time.Hour)
	want(t, "retry-after", a.trailer.Get("retry-after"), []string{"3600"})
	want(t, "message", a.status.Message(), "abnormal usage detected")
	reason, description := "", ""
	for _, d := range a.status.Details() {
		switch m := d.(type) {
		case *errdetails.ErrorInfo:
			reason = m.GetDomain() + " " + m.GetReason()
		case *errdetails.QuotaFailure:
			description = m.GetViolations()[0].GetQuotaId() + ": " + m.GetViolations()[0].GetDescription()
		}
	}
	want(t, "reason", reason, "slidegate ABNORMAL_USAGE_DETECTED")
	want(t, "violation", description, "ban:2/1m: abnormal usage detected")
}

// TestInterceptorsBefore and after the gate see what they should.
func TestInterceptorsBeforeAndAfter(t *testing.T) {
	type user struct{}
	var order []string
	verify := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		order = append(order, "verify")
		return handler(context.WithValue(ctx, user{}, "user:ann"), req)
	}
	after := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		d, has := grpcgate.FromContext(ctx)
		if !has || d.Key() != "user:ann" || !d.Allowed {
			t.Errorf("the decision in the context is %v", d)
		}
		order = append(order, "after")
		return handler(ctx, req)
	}
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)), grpcgate.By(func(ctx context.Context, _ *grpcgate.Call) (string, error) {
		name, _ := ctx.Value(user{}).(string)
		return name, nil
	}))
	client := dial(t, serve(t, &service{}, grpc.ChainUnaryInterceptor(verify, gate.Unary, after)))
	want(t, "codes", codesOf(within(t), client, 2), []codes.Code{ok, refused})
	want(t, "order", order, []string{"verify", "after", "verify"})
}

// TestSeveralGates: each adds its fields, and the nearest refusal is told of once.
func TestSeveralGates(t *testing.T) {
	outer := grpcgate.MustNew(standing(slidegate.PerMinute(5).Named("outer")), grpcgate.Pushback())
	inner := grpcgate.MustNew(standing(slidegate.PerMinute(1).Named("inner")), grpcgate.Pushback())
	client := dial(t, serve(t, &service{}, append(outer.ServerOptions(), inner.ServerOptions()...)...))
	a := call(within(t), client)
	want(t, "fields", a.header.Get("ratelimit"), []string{`"inner";r=0;t=60`, `"outer";r=4;t=60`})
	a = call(context.Background(), client)
	want(t, "code", a.code, refused)
	want(t, "header", len(a.header), 0)
	want(t, "retry-after", a.trailer.Get("retry-after"), []string{"60"})
	want(t, "pushback", a.trailer.Get("grpc-retry-pushback-ms"), []string{"60000"})
}

// TestPanics are the handler's, and go where they would without a gate. The call stays charged.
func TestPanics(t *testing.T) {
	recovering := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = status.Errorf(codes.Internal, "%v", v)
			}
		}()
		return handler(ctx, req)
	}
	svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error { panic("boom") }}
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)))
	client := dial(t, serve(t, svc, grpc.ChainUnaryInterceptor(recovering, gate.Unary)))
	want(t, "codes", codesOf(within(t), client, 2), []codes.Code{codes.Internal, refused})
}

// TestDeadlineAtTheStore: a call whose time is up while the store is asked ends as any such call, and does
// not pass, however the gate fails: the deadline is the client's to choose.
func TestDeadlineAtTheStore(t *testing.T) {
	var served atomic.Int64
	svc := counting(&served)
	hurried := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		return handler(ctx, req)
	}
	for _, fails := range []grpcgate.Option{grpcgate.With(httpgate.FailOpen()), grpcgate.FailClosed()} {
		gate := grpcgate.MustNew(slidegate.MustNew(hanging{make(chan struct{}, 1)}, slidegate.PerMinute(1)), fails)
		client := dial(t, serve(t, svc, grpc.ChainUnaryInterceptor(hurried, gate.Unary)))
		want(t, "code", call(within(t), client).code, codes.DeadlineExceeded)
	}
	want(t, "calls served", served.Load(), int64(0))
}

// TestPlans: Choose and Skip see the call.
func TestPlans(t *testing.T) {
	free := standing(slidegate.PerMinute(1).Named("plan"))
	paid, err := free.With(slidegate.PerMinute(3).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	gate := grpcgate.MustNew(free,
		grpcgate.Choose(func(_ context.Context, c *grpcgate.Call) *slidegate.Limiter {
			if field(c.Metadata, "plan") == "paid" {
				return paid
			}
			return nil
		}),
		grpcgate.Skip(func(_ context.Context, c *grpcgate.Call) bool {
			return field(c.Metadata, "probe") != "" && c.Message.(*testpb.SimpleRequest) != nil
		}))
	client := dial(t, serve(t, &service{}, gate.ServerOptions()...))
	want(t, "free", codesOf(within(t), client, 2), []codes.Code{ok, refused})
	want(t, "paid", codesOf(sending(within(t), "plan", "paid"), client, 3), []codes.Code{ok, ok, refused})
	a := call(sending(within(t), "probe", "1"), client)
	want(t, "skipped", a.code, ok)
	want(t, "fields of what was skipped", len(a.header)+len(a.trailer), 0)
}

func TestOptionsThatCannotBeBuilt(t *testing.T) {
	for _, c := range []struct {
		option grpcgate.Option
		says   string
	}{
		{nil, "nil"},
		{grpcgate.By(), "By"},
		{grpcgate.By(nil), "By"},
		{grpcgate.And(nil, grpcgate.Address), "And"},
		{grpcgate.And(standing(slidegate.PerMinute(1).Named("other"))), "And"},
		{grpcgate.Cost(nil), "Cost"},
		{grpcgate.Skip(nil), "Skip"},
		{grpcgate.Choose(nil), "Choose"},
		{grpcgate.RefundIf(nil), "RefundIf"},
		{grpcgate.Observe(nil), "Observe"},
		{grpcgate.Logger(nil), "Logger"},
		{grpcgate.Exempt("pkg.Service/Method"), "Exempt"},
		{grpcgate.Exempt("/pkg.Service"), "Exempt"},
		{grpcgate.Exempt("/pkg.Service/"), "Exempt"},
		{grpcgate.Exempt(""), "Exempt"},
		{grpcgate.With(httpgate.TrustProxies("0.0.0.0/0")), "everybody"},
		{grpcgate.With(nil), "nil"},
	} {
		_, err := grpcgate.New(standing(slidegate.PerMinute(1)), c.option)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want an invalid limit that says %q", err, c.says)
		}
	}
	if _, err := grpcgate.New(nil); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("no limiter: %v", err)
	}
}
