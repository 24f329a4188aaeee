package grpcgate_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/grpcgate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// counting is a service that counts what reaches it.
func counting(n *atomic.Int64) *service {
	return &service{
		unary:  func(context.Context, *testpb.SimpleRequest) error { n.Add(1); return nil },
		stream: func(context.Context) error { n.Add(1); return nil },
	}
}

// TestClientRefuses what does not fit, and the server does not hear of it.
func TestClientRefuses(t *testing.T) {
	var reached atomic.Int64
	limit := &grpcgate.Client{Limiter: standing(slidegate.PerMinute(2)), Refuse: true}
	client := dial(t, serve(t, counting(&reached)), limit.DialOptions()...)
	want(t, "codes", codesOf(within(t), client, 2), []codes.Code{ok, ok})
	_, err := client.UnaryCall(within(t), &testpb.SimpleRequest{})
	var local *grpcgate.RefusedError
	if !errors.As(err, &local) || local.Wait != time.Minute || status.Code(err) != refused {
		t.Errorf("refused with %v", err)
	}
	a := answer{status: status.Convert(err)}
	wait, _ := a.retryIn()
	want(t, "delay", wait, time.Minute)
	_, err = client.FullDuplexCall(within(t))
	want(t, "a stream", status.Code(err), refused)
	want(t, "calls that reached the server", reached.Load(), int64(2))
}

// TestClientWaits until a call fits, so that the same limit at the server refuses none.
func TestClientWaits(t *testing.T) {
	const window = 50 * time.Millisecond
	store := memstore.New()
	limit := &grpcgate.Client{Limiter: slidegate.MustNew(store, slidegate.Per(window, 2))}
	client := dial(t, serve(t, &service{}), limit.DialOptions()...)
	begin := time.Now()
	want(t, "codes", codesOf(within(t), client, 5), []codes.Code{ok, ok, ok, ok, ok})
	if took := time.Since(begin); took < 2*window-2*time.Millisecond { // semantics are in whole milliseconds
		t.Errorf("5 calls at 2 per %s took %s", window, took)
	}
}

// TestClientDoesNotWaitInVain: what would be sent after its deadline is refused at once.
func TestClientDoesNotWaitInVain(t *testing.T) {
	limit := &grpcgate.Client{Limiter: standing(slidegate.PerHour(1))}
	client := dial(t, serve(t, &service{}), limit.DialOptions()...)
	want(t, "the first", call(within(t), client).code, ok)
	ctx := within(t)
	_, err := client.UnaryCall(ctx, &testpb.SimpleRequest{})
	var late *slidegate.WaitError
	if !errors.As(err, &late) || late.Need != time.Hour || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("refused with %v", err)
	}
	if ctx.Err() != nil {
		t.Error("the deadline was waited for")
	}
}

// TestClientKeys: targets apart by default, or whatever Key says.
func TestClientKeys(t *testing.T) {
	limiter := standing(slidegate.PerMinute(1))
	limit := &grpcgate.Client{Limiter: limiter, Refuse: true}
	one, two := serve(t, &service{}), serve(t, &service{})
	want(t, "one target", codesOf(within(t), dial(t, one, limit.DialOptions()...), 2), []codes.Code{ok, refused})
	want(t, "another", codesOf(within(t), dial(t, two, limit.DialOptions()...), 1), []codes.Code{ok})
	if d, err := limiter.Peek(context.Background(), "target:"+one); err != nil || d.Allowed {
		t.Errorf("the key of a target: %v, %v", d, err)
	}
	method := &grpcgate.Client{Limiter: standing(slidegate.PerMinute(1)), Refuse: true, Key: func(_ context.Context, _, method string) string { return method }}
	client := dial(t, one, method.DialOptions()...)
	want(t, "one method", codesOf(within(t), client, 2), []codes.Code{ok, refused})
	_, err := client.EmptyCall(within(t), &testpb.Empty{})
	want(t, "another method", status.Code(err), ok)
}

func TestClientFailures(t *testing.T) {
	failing := slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1))
	for _, c := range []struct {
		name  string
		limit *grpcgate.Client
		code  codes.Code
	}{
		{"open", &grpcgate.Client{Limiter: failing}, ok},
		{"open, refusing", &grpcgate.Client{Limiter: failing, Refuse: true}, ok},
		{"closed", &grpcgate.Client{Limiter: failing, FailClosed: true}, codes.Unavailable},
		{"closed, refusing", &grpcgate.Client{Limiter: failing, Refuse: true, FailClosed: true}, codes.Unavailable},
		{"blocked", &grpcgate.Client{Limiter: slidegate.Blocked()}, refused},
		{"blocked, refusing", &grpcgate.Client{Limiter: slidegate.Blocked(), Refuse: true}, refused},
		{"no waiters", &grpcgate.Client{Limiter: exhausted(t).WithMaxWaiters(0)}, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.limit.Key = func(context.Context, string, string) string { return "k" }
			want(t, "code", call(within(t), dial(t, serve(t, &service{}), c.limit.DialOptions()...)).code, c.code)
		})
	}
}

// exhausted returns a limiter that has no room for the key "k".
func exhausted(t *testing.T) *slidegate.Limiter {
	limiter := standing(slidegate.PerHour(1))
	if ok, err := limiter.Allow(t.Context(), "k"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return limiter
}

// TestCancelledWhileWaiting: a call that is given up while it waits is not sent.
func TestCancelledWhileWaiting(t *testing.T) {
	var reached atomic.Int64
	limit := &grpcgate.Client{Limiter: exhausted(t), Key: func(context.Context, string, string) string { return "k" }}
	client := dial(t, serve(t, counting(&reached)), limit.DialOptions()...)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	want(t, "code", call(ctx, client).code, codes.Canceled)
	want(t, "calls that reached the server", reached.Load(), int64(0))
}

// TestPatience: a client that was refused once never is again, neither unary calls nor streams.
func TestPatience(t *testing.T) {
	var refusals atomic.Int64
	gate := grpcgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.Per(60*time.Millisecond, 1)),
		grpcgate.Observe(func(e *httpgate.Event) {
			if !e.Decision.Allowed {
				refusals.Add(1)
			}
		}))
	client := dial(t, serve(t, &service{}, gate.ServerOptions()...), (&grpcgate.Patience{}).DialOptions()...)
	for refusals.Load() < 3 {
		before := refusals.Load()
		if call(within(t), client).code == ok {
			continue
		}
		want(t, "refusals", refusals.Load(), before+1)
		want(t, "the call after a refusal", call(within(t), client).code, ok)
	}
	for refusals.Load() < 6 {
		if streamed(t, client, 0)[0] == ok {
			continue
		}
		want(t, "the stream after a refusal", streamed(t, client, 0), []codes.Code{ok})
	}
}

// TestPatienceLearns from those answers alone that say when to come again for want of quota or capacity.
func TestPatienceLearns(t *testing.T) {
	asks := func(code codes.Code, details ...protoadapt.MessageV1) error {
		st, err := status.New(code, "not now").WithDetails(details...)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	hour := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}
	for _, c := range []struct {
		name   string
		answer error
		learns bool
	}{
		{"exhausted", asks(codes.ResourceExhausted, hour), true},
		{"unavailable", asks(codes.Unavailable, &errdetails.ErrorInfo{}, hour), true},
		{"exhausted, it does not say how long", asks(codes.ResourceExhausted), false},
		{"exhausted, for no time at all", asks(codes.ResourceExhausted, &errdetails.RetryInfo{}), false},
		{"aborted", asks(codes.Aborted, hour), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reached atomic.Int64
			svc := &service{unary: func(context.Context, *testpb.SimpleRequest) error { reached.Add(1); return c.answer }}
			client := dial(t, serve(t, svc), (&grpcgate.Patience{Refuse: true}).DialOptions()...)
			codesOf(within(t), client, 2)
			want(t, "the second call is kept back", reached.Load() == 1, c.learns)
		})
	}
}

// TestPatienceRefuses at once what would have to wait too long, without the server.
func TestPatienceRefuses(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience *grpcgate.Patience
		code     codes.Code
	}{
		{"after the deadline", &grpcgate.Patience{}, codes.DeadlineExceeded},
		{"at once", &grpcgate.Patience{Refuse: true}, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			var decided atomic.Int64
			gate := grpcgate.MustNew(standing(slidegate.PerHour(1)), grpcgate.Observe(func(*httpgate.Event) { decided.Add(1) }))
			client := dial(t, serve(t, &service{}, gate.ServerOptions()...), c.patience.DialOptions()...)
			want(t, "codes", codesOf(within(t), client, 2), []codes.Code{ok, refused})
			_, err := client.UnaryCall(within(t), &testpb.SimpleRequest{})
			var local *grpcgate.RefusedError
			if !errors.As(err, &local) || local.Wait <= 59*time.Minute || local.Wait > time.Hour {
				t.Errorf("refused with %v", err)
			}
			want(t, "code", status.Code(err), c.code)
			_, err = client.EmptyCall(within(t), &testpb.Empty{})
			want(t, "another method", status.Code(err), refused)
			want(t, "decisions of the server", decided.Load(), int64(3))
		})
	}
}

// TestPatienceHasAnEnd: a server's word holds for a day at most, and is forgotten when its time has come.
func TestPatienceHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &grpcgate.Patience{Refuse: true}
		refuse := func(method string, delay time.Duration) error {
			conn := connect("passthrough:///a.test") // sends nothing: the answer is made here
			defer conn.Close()
			return p.Unary(t.Context(), method, nil, nil, conn, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				st, err := status.New(refused, "not now").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
				if err != nil {
					t.Fatal(err)
				}
				return st.Err()
			})
		}
		var local *grpcgate.RefusedError
		refuse("/a/b", 250*365*24*time.Hour)
		if err := refuse("/a/b", 0); !errors.As(err, &local) || local.Wait != 24*time.Hour {
			t.Errorf("refused with %v", err)
		}
		refuse("/a/never", -time.Hour)
		want(t, "remembered", p.Remembered(), 1)
		for i := range 100 {
			refuse(fmt.Sprint("/a/", i), time.Second)
			<-time.After(time.Minute)
		}
		want(t, "remembered", p.Remembered(), 2)
	})
}
