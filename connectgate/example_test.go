package connectgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/connectgate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// show makes a call and prints what came of it.
func show(client *caller, header ...string) {
	a := call(context.Background(), client, header...)
	if a.err == nil {
		fmt.Println("ok", field(a.fields, "RateLimit"))
		return
	}
	retry, violated := a.details()
	fmt.Println(a.code, violated, "retry in", retry)
}

func Example() {
	gate := connectgate.PerIP(slidegate.PerMinute(2))
	mux := http.NewServeMux()
	mux.Handle(unaryProcedure, connect.NewUnaryHandler(unaryProcedure, (&service{}).unary, connect.WithInterceptors(gate)))
	server := httptest.NewServer(mux)
	defer server.Close()

	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](server.Client(), server.URL+unaryProcedure)
	for range 3 {
		_, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("hello")))
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// resource_exhausted: quota exceeded
}

func ExampleNew() {
	gate, err := connectgate.New(standing(slidegate.PerSecond(2).Named("burst"), slidegate.PerMinute(100).Named("sustained")))
	if err != nil {
		panic(err)
	}
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	for range 3 {
		show(client)
	}
	// Output:
	// ok "burst";r=1;t=1, "sustained";r=99;t=60
	// ok "burst";r=0;t=1, "sustained";r=98;t=60
	// resource_exhausted [burst] retry in 1s
}

func ExampleBy() {
	gate := connectgate.MustNew(standing(slidegate.PerMinute(1).Named("calls")), connectgate.By(connectgate.Header("Tenant"), connectgate.Procedure))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	show(client, "Tenant", "a")
	show(client, "Tenant", "a")
	show(client, "Tenant", "b")
	show(to(server.URL, otherProcedure), "Tenant", "a")
	// Output:
	// ok "calls";r=0;t=60
	// resource_exhausted [calls] retry in 1m0s
	// ok "calls";r=0;t=60
	// ok "calls";r=0;t=60
}

func ExampleAnd() {
	store := memstore.New()
	gate := connectgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(3).Named("address")),
		connectgate.And(slidegate.MustNew(store, slidegate.PerMinute(2).Named("account")), connectgate.Header("Account")))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	for _, account := range []string{"ann", "ann", "ann", "bob", "bob"} {
		a := call(context.Background(), client, "Account", account)
		_, violated := a.details()
		fmt.Println(account, a.err == nil, violated)
	}
	// Output:
	// ann true []
	// ann true []
	// ann false [account]
	// bob true []
	// bob false [address]
}

func ExampleWith() {
	gate := connectgate.MustNew(standing(slidegate.PerMinute(1).Named("calls")), connectgate.With(httpgate.TrustProxies("127.0.0.0/8")))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	for _, from := range []string{"203.0.113.7", "203.0.113.8", "203.0.113.7"} {
		show(client, "X-Forwarded-For", from)
	}
	// Output:
	// ok "calls";r=0;t=60
	// ok "calls";r=0;t=60
	// resource_exhausted [calls] retry in 1m0s
}

func ExampleChoose() {
	free := standing(slidegate.PerDay(1).Named("plan"))
	plans := map[string]*slidegate.Limiter{"a": free, "b": slidegate.Unlimited()}
	gate := connectgate.MustNew(free, connectgate.By(connectgate.Header("Tenant")),
		connectgate.Choose(func(_ context.Context, c *connectgate.Call) *slidegate.Limiter { return plans[c.Header.Get("Tenant")] }))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	show(client, "Tenant", "a")
	show(client, "Tenant", "a")
	show(client, "Tenant", "b")
	// Output:
	// ok "plan";r=0;t=86400
	// resource_exhausted [plan] retry in 24h0m0s
	// ok
}

func ExampleCost() {
	size := func(_ context.Context, c *connectgate.Call) int64 {
		if m, ok := c.Message.(*wrapperspb.StringValue); ok {
			return int64(len(m.GetValue()))
		}
		return 1
	}
	gate := connectgate.MustNew(standing(slidegate.PerMinute(12).Named("characters")), connectgate.Cost(size))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure) // says hello
	for range 3 {
		show(client)
	}
	// Output:
	// ok "characters";r=7;t=60
	// ok "characters";r=2;t=60
	// resource_exhausted [characters] retry in 1m0s
}

func ExamplePerMessage() {
	streams := connectgate.MustNew(standing(slidegate.PerMinute(10).Named("streams")))
	messages := connectgate.MustNew(standing(slidegate.PerMinute(2).Named("messages")), connectgate.PerMessage())
	server := listen(nil, &service{}, streams, messages)
	defer server.Close()

	stream := to(server.URL, bidiProcedure).CallBidiStream(context.Background())
	for range 3 {
		_ = stream.Send(wrapperspb.String("hello")) // Receive has the reason if the stream is over
		_, err := stream.Receive()
		fmt.Println(err)
	}
	_ = stream.CloseResponse()
	// Output:
	// <nil>
	// <nil>
	// resource_exhausted: quota exceeded
}

func ExampleRefundIf() {
	succeeded := func(code connect.Code) bool { return code == 0 }
	gate := connectgate.MustNew(standing(slidegate.PerMinute(2).Named("failures")), connectgate.RefundIf(succeeded))
	server := listen(nil, &service{}, gate)
	defer server.Close()

	client := to(server.URL, unaryProcedure)
	for range 3 {
		show(client)
	}
	// Output:
	// ok "failures";r=1;t=60
	// ok "failures";r=1;t=60
	// ok "failures";r=1;t=60
}

func ExampleFromContext() {
	svc := &service{fails: func(ctx context.Context) error {
		if d, ok := connectgate.FromContext(ctx); ok {
			fmt.Println(d)
		}
		return nil
	}}
	server := listen(nil, svc, connectgate.MustNew(standing(slidegate.PerMinute(100))))
	defer server.Close()

	call(context.Background(), to(server.URL, unaryProcedure))
	// Output: admitted, 99 of 100/1m left, full in 1m0s
}

func ExampleClient() {
	server := listen(nil, &service{})
	defer server.Close()
	limit := &connectgate.Client{Limiter: standing(slidegate.PerMinute(1)), Refuse: true}
	client := to(server.URL, unaryProcedure, connect.WithInterceptors(limit))

	fmt.Println(call(context.Background(), client).err == nil)
	var refused *connectgate.RefusedError
	if errors.As(call(context.Background(), client).err, &refused) {
		fmt.Println("not sent, it would be in", refused.Wait)
	}
	// Output:
	// true
	// not sent, it would be in 1m0s
}
