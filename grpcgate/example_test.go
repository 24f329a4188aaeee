package grpcgate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpcgate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// start starts a server on 127.0.0.1 and connects to it.
func start(options []grpc.ServerOption, dial ...grpc.DialOption) (client testpb.TestServiceClient, stop func()) {
	address, stopServer := listen(nil, &service{}, options...)
	conn := connect(address, dial...)
	return testpb.NewTestServiceClient(conn), func() { _ = conn.Close(); stopServer() }
}

// show makes a call and prints what came of it.
func show(ctx context.Context, client testpb.TestServiceClient) {
	a := call(ctx, client)
	fmt.Print(a.code)
	if delay, ok := a.retryIn(); ok {
		fmt.Print(", retry in ", delay)
	}
	fmt.Println()
}

func Example() {
	client, stop := start(grpcgate.PerIP(slidegate.PerMinute(2)))
	defer stop()

	for range 3 {
		fmt.Println(call(context.Background(), client).code)
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

func ExampleNew() {
	gate, err := grpcgate.New(standing(slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(100).Named("sustained")))
	if err != nil {
		panic(err)
	}
	client, stop := start(gate.ServerOptions())
	defer stop()

	a := call(context.Background(), client)
	fmt.Println(a.code, field(a.header, "ratelimit"))
	// Output: OK "burst";r=9;t=1, "sustained";r=99;t=60
}

func ExampleBy() {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)), grpcgate.By(grpcgate.Metadata("tenant"), grpcgate.Method))
	client, stop := start(gate.ServerOptions())
	defer stop()

	a, b := sending(context.Background(), "tenant", "a"), sending(context.Background(), "tenant", "b")
	show(a, client)
	show(a, client)
	show(b, client)
	_, err := client.EmptyCall(a, &testpb.Empty{}) // another method
	fmt.Println(status.Code(err))
	// Output:
	// OK
	// ResourceExhausted, retry in 1m0s
	// OK
	// OK
}

func ExampleAnd() {
	store := memstore.New()
	gate := grpcgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(3).Named("address")),
		grpcgate.And(slidegate.MustNew(store, slidegate.PerMinute(2).Named("account")), grpcgate.Metadata("account")))
	client, stop := start(gate.ServerOptions())
	defer stop()

	for _, account := range []string{"ann", "ann", "ann", "bob", "bob"} {
		a := call(sending(context.Background(), "account", account), client)
		fmt.Println(account, a.code, a.violated())
	}
	// Output:
	// ann OK []
	// ann OK []
	// ann ResourceExhausted [account]
	// bob OK []
	// bob ResourceExhausted [address]
}

func ExampleWith() {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)), grpcgate.With(httpgate.TrustProxies("127.0.0.0/8")))
	client, stop := start(gate.ServerOptions())
	defer stop()

	for _, from := range []string{"203.0.113.7", "203.0.113.8", "203.0.113.7"} {
		show(sending(context.Background(), "x-forwarded-for", from), client)
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted, retry in 1m0s
}

func ExampleChoose() {
	free := slidegate.MustNew(memstore.New(), slidegate.PerDay(1).Named("plan"))
	plans := map[string]*slidegate.Limiter{"a": free, "b": slidegate.Unlimited()}
	gate := grpcgate.MustNew(free, grpcgate.By(grpcgate.Metadata("tenant")),
		grpcgate.Choose(func(_ context.Context, c *grpcgate.Call) *slidegate.Limiter {
			return plans[field(c.Metadata, "tenant")]
		}))
	client, stop := start(gate.ServerOptions())
	defer stop()

	for _, tenant := range []string{"a", "a", "b", "b"} {
		fmt.Println(tenant, call(sending(context.Background(), "tenant", tenant), client).code)
	}
	// Output:
	// a OK
	// a ResourceExhausted
	// b OK
	// b OK
}

func ExampleCost() {
	size := func(_ context.Context, c *grpcgate.Call) int64 {
		if r, ok := c.Message.(*testpb.SimpleRequest); ok {
			return int64(len(r.GetPayload().GetBody()))
		}
		return 1
	}
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1000).Named("bytes")), grpcgate.Cost(size))
	client, stop := start(gate.ServerOptions())
	defer stop()

	for _, n := range []int{700, 400, 300, 2000} { // the last can never fit
		_, err := client.UnaryCall(context.Background(), &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, n)}})
		fmt.Println(n, status.Code(err), len(status.Convert(err).Details()))
	}
	// Output:
	// 700 OK 0
	// 400 ResourceExhausted 2
	// 300 OK 0
	// 2000 ResourceExhausted 1
}

func ExamplePerMessage() {
	streams := grpcgate.MustNew(standing(slidegate.PerMinute(10).Named("streams")))
	messages := grpcgate.MustNew(standing(slidegate.PerMinute(2).Named("messages")), grpcgate.PerMessage())
	client, stop := start(append(streams.ServerOptions(), messages.ServerOptions()...))
	defer stop()

	stream, err := client.FullDuplexCall(context.Background())
	if err != nil {
		panic(err)
	}
	for err == nil {
		_ = stream.Send(&testpb.StreamingOutputCallRequest{}) // Recv has the reason if the stream is over
		_, err = stream.Recv()
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

func ExamplePushback() {
	limiter := slidegate.MustNew(memstore.New(), slidegate.Per(100*time.Millisecond, 1))
	gate := grpcgate.MustNew(limiter, grpcgate.Pushback())
	client, stop := start(gate.ServerOptions(), grpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1,
			"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]
		}
	}]}`))
	defer stop()

	for range 3 {
		show(context.Background(), client) // refused calls are sent again when there is room
	}
	// Output:
	// OK
	// OK
	// OK
}

func ExampleExempt() {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)),
		grpcgate.Exempt(grpcgate.Health, grpcgate.Reflection, "/grpc.testing.TestService/EmptyCall"))
	client, stop := start(gate.ServerOptions())
	defer stop()

	for range 3 {
		_, err := client.EmptyCall(context.Background(), &testpb.Empty{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// OK
}

func ExampleRefundIf() {
	succeeded := func(code codes.Code) bool { return code == codes.OK }
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(1)), grpcgate.RefundIf(succeeded)) // only failures count
	client, stop := start(gate.ServerOptions())
	defer stop()

	for range 3 {
		show(context.Background(), client)
	}
	// Output:
	// OK
	// OK
	// OK
}

func ExampleFromContext() {
	gate := grpcgate.MustNew(standing(slidegate.PerMinute(100)))
	svc := &service{unary: func(ctx context.Context, _ *testpb.SimpleRequest) error {
		if d, ok := grpcgate.FromContext(ctx); ok {
			fmt.Println(d)
		}
		return nil
	}}
	address, stop := listen(nil, svc, gate.ServerOptions()...)
	defer stop()
	conn := connect(address)
	defer conn.Close()

	show(context.Background(), testpb.NewTestServiceClient(conn))
	// Output:
	// admitted, 99 of 100/1m left, full in 1m0s
	// OK
}

func ExampleClient() {
	limit := &grpcgate.Client{Limiter: standing(slidegate.PerMinute(1)), Refuse: true}
	client, stop := start(nil, limit.DialOptions()...)
	defer stop()

	show(context.Background(), client)
	_, err := client.UnaryCall(context.Background(), &testpb.SimpleRequest{})
	var refused *grpcgate.RefusedError
	if errors.As(err, &refused) {
		fmt.Println("not sent, it would be in", refused.Wait)
	}
	// Output:
	// OK
	// not sent, it would be in 1m0s
}

func ExamplePatience() {
	client, stop := start(grpcgate.PerIP(slidegate.PerHour(1)), (&grpcgate.Patience{}).DialOptions()...)
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(call(ctx, client).code)
	fmt.Println(call(ctx, client).code)
	_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{}) // the server asks for more than the minute that is left
	var refused *grpcgate.RefusedError
	fmt.Println(status.Code(err), errors.As(err, &refused))
	// Output:
	// OK
	// ResourceExhausted
	// DeadlineExceeded true
}
