package connectgate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/connectgate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// counting is a service that counts what reaches it.
func counting(n *atomic.Int64) *service {
	return &service{fails: func(context.Context) error { n.Add(1); return nil }}
}

// TestClientRefuses what does not fit, and the server does not hear of it.
func TestClientRefuses(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			var reached atomic.Int64
			limit := connect.WithInterceptors(&connectgate.Client{Limiter: standing(slidegate.PerMinute(2)), Refuse: true})
			server := listen(nil, counting(&reached))
			url := server.URL
			defer server.Close()
			client := to(url, unaryProcedure, limit, p.option)
			want(t, "codes", codesOf(within(t), client, 2), []connect.Code{ok, ok})
			a := call(within(t), client)
			var local *connectgate.RefusedError
			if !errors.As(a.err, &local) || local.Wait != time.Minute || a.code != refused {
				t.Errorf("refused with %v", a.err)
			}
			wait, _ := a.details()
			want(t, "delay", wait, time.Minute)
			for _, messages := range []int{0, 1} {
				codes, _ := streamed(within(t), to(url, bidiProcedure, limit, p.option), messages)
				want(t, "a stream", codes, []connect.Code{refused})
			}
			upload := to(url, uploadProcedure, limit, p.option).CallClientStream(within(t))
			_ = upload.Send(wrapperspb.String("hello"))
			_, err := upload.CloseAndReceive()
			want(t, "an upload", codeOf(err), refused)
			server.Close() // waits for what is on its way
			want(t, "calls that reached the server", reached.Load(), int64(2))
		})
	}
}

// TestClientWaits until a call fits.
func TestClientWaits(t *testing.T) {
	const window = 50 * time.Millisecond
	limit := connect.WithInterceptors(&connectgate.Client{Limiter: slidegate.MustNew(memstore.New(), slidegate.Per(window, 2))})
	url := serve(t, &service{})
	begin := time.Now()
	want(t, "codes", codesOf(within(t), to(url, unaryProcedure, limit), 4), []connect.Code{ok, ok, ok, ok})
	codes, _ := streamed(within(t), to(url, bidiProcedure, limit), 1)
	want(t, "a stream", codes, []connect.Code{ok, ok})
	if took := time.Since(begin); took < 2*window-2*time.Millisecond { // the limiter counts in whole milliseconds
		t.Errorf("5 calls at 2 per %s took %s", window, took)
	}
}

// TestClientDoesNotWaitInVain: what would be sent after its deadline is refused at once.
func TestClientDoesNotWaitInVain(t *testing.T) {
	client := to(serve(t, &service{}), unaryProcedure, connect.WithInterceptors(&connectgate.Client{Limiter: standing(slidegate.PerHour(1))}))
	want(t, "the first", call(within(t), client).code, ok)
	ctx := within(t)
	a := call(ctx, client)
	var late *slidegate.WaitError
	if !errors.As(a.err, &late) || late.Need != time.Hour || a.code != connect.CodeDeadlineExceeded {
		t.Errorf("refused with %v", a.err)
	}
	if ctx.Err() != nil {
		t.Error("the deadline was waited for")
	}
}

// TestClientKeys: targets apart by default, or whatever Key says.
func TestClientKeys(t *testing.T) {
	limit := connect.WithInterceptors(&connectgate.Client{Limiter: standing(slidegate.PerMinute(1)), Refuse: true})
	one, two := serve(t, &service{}), serve(t, &service{})
	want(t, "one target", codesOf(within(t), to(one, unaryProcedure, limit), 2), []connect.Code{ok, refused})
	want(t, "another", codesOf(within(t), to(two, unaryProcedure, limit), 1), []connect.Code{ok})
	limit = connect.WithInterceptors(&connectgate.Client{Limiter: standing(slidegate.PerMinute(1)), Refuse: true,
		Key: func(_ context.Context, _, procedure string) string { return procedure }})
	want(t, "one procedure", codesOf(within(t), to(one, unaryProcedure, limit), 2), []connect.Code{ok, refused})
	want(t, "another", codesOf(within(t), to(one, otherProcedure, limit), 1), []connect.Code{ok})
}

func TestClientFailures(t *testing.T) {
	failing := slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1))
	full := standing(slidegate.PerHour(1))
	if admitted, err := full.Allow(t.Context(), "k"); !admitted || err != nil {
		t.Fatal(admitted, err)
	}
	for _, c := range []struct {
		name  string
		limit *connectgate.Client
		code  connect.Code
	}{
		{"open", &connectgate.Client{Limiter: failing}, ok},
		{"open, refusing", &connectgate.Client{Limiter: failing, Refuse: true}, ok},
		{"closed", &connectgate.Client{Limiter: failing, FailClosed: true}, connect.CodeUnavailable},
		{"closed, refusing", &connectgate.Client{Limiter: failing, Refuse: true, FailClosed: true}, connect.CodeUnavailable},
		{"blocked", &connectgate.Client{Limiter: slidegate.Blocked()}, refused},
		{"blocked, refusing", &connectgate.Client{Limiter: slidegate.Blocked(), Refuse: true}, refused},
		{"no waiters", &connectgate.Client{Limiter: full.WithMaxWaiters(0)}, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.limit.Key = func(context.Context, string, string) string { return "k" }
			want(t, "code", call(within(t), to(serve(t, &service{}), unaryProcedure, connect.WithInterceptors(c.limit))).code, c.code)
		})
	}
	t.Run("cancelled while it waits", func(t *testing.T) {
		limit := &connectgate.Client{Limiter: full, Key: func(context.Context, string, string) string { return "k" }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		want(t, "code", call(ctx, to(serve(t, &service{}), unaryProcedure, connect.WithInterceptors(limit))).code, connect.CodeCanceled)
	})
}

// TestClientDoesNothingInAHandler, so that one list of interceptors may serve both.
func TestClientDoesNothingInAHandler(t *testing.T) {
	url := serve(t, &service{}, &connectgate.Client{Limiter: slidegate.Blocked()})
	want(t, "unary", call(within(t), to(url, unaryProcedure)).code, ok)
	codes, _ := streamed(within(t), to(url, bidiProcedure), 1)
	want(t, "stream", codes, []connect.Code{ok, ok})
}
