package connectgate_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/connectgate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// TestVectors holds those of area grpc that speak of Connect.
func TestVectors(t *testing.T) {
	content, err := os.ReadFile("../httpgate/testdata/interface-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ID, Area string
		Input    json.RawMessage
		Expect   json.RawMessage
	}
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, v := range all {
		var in struct{ Transport string }
		if v.Area != "grpc" || json.Unmarshal(v.Input, &in) != nil || !strings.HasPrefix(in.Transport, "connect") {
			continue
		}
		ran++
		var e struct {
			Code       string
			HTTPStatus int `json:"http_status"`
		}
		if err := json.Unmarshal(v.Expect, &e); err != nil {
			t.Fatal(err)
		}
		status, body, _ := raw(t, serve(t, &service{}, connectgate.MustNew(slidegate.Blocked())))
		want(t, v.ID+" status", status, e.HTTPStatus)
		want(t, v.ID+" code", body.Code, e.Code)
	}
	want(t, "vectors", ran, 1)
}

// A wireError is the body of a unary call that failed, as the Connect protocol has it.
type wireError struct {
	Code, Message string
	Details       []struct{ Type, Value string }
}

// raw makes a unary call of the Connect protocol by hand.
func raw(t *testing.T, url string) (int, wireError, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(within(t), http.MethodPost, url+unaryProcedure, strings.NewReader(`"hello"`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request) // HTTP/1.1
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	var body wireError
	if err != nil || response.StatusCode != http.StatusOK && json.Unmarshal(content, &body) != nil {
		t.Fatalf("%d %s: %v", response.StatusCode, content, err)
	}
	return response.StatusCode, body, response.Header
}

// TestRefusalOnTheWire: what a client without any library sees.
func TestRefusalOnTheWire(t *testing.T) {
	url := serve(t, &service{}, connectgate.MustNew(standing(slidegate.Per(1500*time.Millisecond, 1).Named("burst"))))
	status, _, header := raw(t, url)
	want(t, "status", status, 200)
	want(t, "fields", field(header, "RateLimit"), `"burst";r=0;t=2`)
	want(t, "Retry-After of a success", field(header, "Retry-After"), "")

	status, body, header := raw(t, url)
	want(t, "status", status, 429)
	want(t, "Retry-After", field(header, "Retry-After"), "2")
	want(t, "RateLimit", field(header, "RateLimit"), `"burst";r=0;t=2`)
	want(t, "RateLimit-Policy", field(header, "RateLimit-Policy"), `"burst";q=1;w=2`)
	want(t, "code", body.Code, "resource_exhausted")
	want(t, "message", body.Message, "quota exceeded")
	want(t, "number of details", len(body.Details), 2)
	var retry errdetails.RetryInfo
	var failure errdetails.QuotaFailure
	for i, m := range []proto.Message{&retry, &failure} {
		value, err := base64.RawStdEncoding.DecodeString(body.Details[i].Value)
		if err != nil || proto.Unmarshal(value, m) != nil || body.Details[i].Type != string(m.ProtoReflect().Descriptor().FullName()) {
			t.Errorf("detail %d is %+v: %v", i, body.Details[i], err)
		}
	}
	want(t, "delay", retry.GetRetryDelay().AsDuration(), 1500*time.Millisecond)
	v := failure.GetViolations()[0]
	want(t, "violation", []string{v.GetSubject(), v.GetDescription(), v.GetQuotaId()}, []string{"policy:burst", "quota exceeded", "burst"})
}

// TestEveryProtocol says the same.
func TestEveryProtocol(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			svc := &service{}
			client := to(serve(t, svc, connectgate.MustNew(standing(slidegate.PerMinute(2).Named("all")))), unaryProcedure, p.option)
			a := call(within(t), client)
			want(t, "code", a.code, ok)
			want(t, "fields", a.fields.Values("RateLimit"), []string{`"all";r=1;t=60`})
			want(t, "policy", a.fields.Values("RateLimit-Policy"), []string{`"all";q=2;w=60`})

			svc.fails = func(context.Context) error {
				return connect.NewError(connect.CodeNotFound, errors.New("no such thing"))
			}
			a = call(within(t), client)
			want(t, "code of a failure", a.code, connect.CodeNotFound)
			want(t, "fields of a failure", a.fields.Values("RateLimit"), []string{`"all";r=0;t=60`})

			a = call(within(t), client)
			want(t, "code of a refusal", a.code, refused)
			want(t, "fields of a refusal", a.fields.Values("RateLimit"), []string{`"all";r=0;t=60`})
			want(t, "Retry-After", a.fields.Values("Retry-After"), []string{"60"})
			retry, violated := a.details()
			want(t, "delay", retry, time.Minute)
			want(t, "violated", violated, []string{"all"})
			want(t, "Cache-Control", a.fields.Get("Cache-Control") == "no-store", strings.HasPrefix(p.name, "connect"))
		})
	}
}

// streamed sends n messages on one stream, each answered before the next, and returns the code of
// each and, if it came so far, of the end; and the fields.
func streamed(ctx context.Context, client *caller, n int) (all []connect.Code, fields http.Header) {
	stream := client.CallBidiStream(ctx)
	defer func() { _ = stream.CloseResponse() }()
	if n == 0 {
		_ = stream.Send(nil) // the header alone
	}
	var failed *connect.Error
	for range n {
		_ = stream.Send(wrapperspb.String("hello")) // Receive says why it failed
		_, err := stream.Receive()
		if all = append(all, codeOf(err)); errors.As(err, &failed) {
			return all, failed.Meta()
		}
	}
	_ = stream.CloseRequest()
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) && errors.As(err, &failed) {
		return append(all, codeOf(err)), failed.Meta()
	}
	return append(all, ok), stream.ResponseHeader()
}

// TestStreams are charged when they open, by message, or both with two gates.
func TestStreams(t *testing.T) {
	open := func() connect.Interceptor {
		return connectgate.MustNew(standing(slidegate.PerMinute(2).Named("streams")))
	}
	messages := func() connect.Interceptor {
		return connectgate.MustNew(standing(slidegate.PerMinute(3).Named("messages")), connectgate.PerMessage())
	}
	type stream struct {
		messages int
		codes    []connect.Code
	}
	for _, c := range []struct {
		name    string
		gates   func() []connect.Interceptor
		streams []stream
	}{
		{"open", func() []connect.Interceptor { return []connect.Interceptor{open()} },
			[]stream{{4, []connect.Code{ok, ok, ok, ok, ok}}, {0, []connect.Code{ok}}, {1, []connect.Code{refused}}, {0, []connect.Code{refused}}}},
		{"messages", func() []connect.Interceptor { return []connect.Interceptor{messages()} },
			[]stream{{2, []connect.Code{ok, ok, ok}}, {2, []connect.Code{ok, refused}}, {0, []connect.Code{ok}}, {1, []connect.Code{refused}}}},
		{"both", func() []connect.Interceptor { return []connect.Interceptor{open(), messages()} },
			[]stream{{1, []connect.Code{ok, ok}}, {3, []connect.Code{ok, ok, refused}}, {1, []connect.Code{refused}}}},
	} {
		for _, p := range protocols {
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				client := to(serve(t, &service{}, c.gates()...), bidiProcedure, p.option)
				for i, s := range c.streams {
					codes, fields := streamed(within(t), client, s.messages)
					want(t, fmt.Sprint("stream ", i), codes, s.codes)
					last := codes[len(codes)-1]
					want(t, fmt.Sprint("Retry-After of stream ", i), field(fields, "Retry-After") != "", last == refused)
					want(t, fmt.Sprint("RateLimit of stream ", i), field(fields, "RateLimit") != "", last == refused || c.name != "messages")
				}
			})
		}
	}
}

// TestStreamsSendAndReceiveAtOnce: a handler may do so from two goroutines, and may go on asking after
// a refusal, which stays.
func TestStreamsSendAndReceiveAtOnce(t *testing.T) {
	const messages, quota, heavy = 60, 40, 30 // the heavy one does not fit; those behind it would
	var received, refusals int
	svc := &service{duplex: func(stream *connect.BidiStream[text, text]) error {
		sent := make(chan error)
		go func() {
			var err error
			for range messages {
				err = errors.Join(err, stream.Send(wrapperspb.String("hello")))
			}
			sent <- err
		}()
		var last error
		for range messages {
			if _, err := stream.Receive(); err == nil {
				received++
			} else if codeOf(err) == refused {
				last = err
				refusals++
			}
		}
		return errors.Join(<-sent, last)
	}}
	asked := 0
	gate := connectgate.MustNew(standing(slidegate.PerMinute(quota)), connectgate.PerMessage(),
		connectgate.Cost(func(context.Context, *connectgate.Call) int64 {
			if asked++; asked == heavy+1 {
				return quota
			}
			return 1
		}))
	stream := to(serve(t, svc, gate), bidiProcedure).CallBidiStream(within(t))
	for range messages {
		_ = stream.Send(wrapperspb.String("hello"))
	}
	answers, err := 0, error(nil)
	for ; err == nil; answers++ {
		_, err = stream.Receive()
	}
	_ = stream.CloseResponse()
	want(t, "code", codeOf(err), refused)
	want(t, "answers", answers-1, messages)
	want(t, "received", received, heavy)
	want(t, "refused", refusals, messages-heavy)
	want(t, "asked about", asked, heavy+1)
}

// TestMessagesCostWhatIsInThem: the cost is asked for when a message has been read.
func TestMessagesCostWhatIsInThem(t *testing.T) {
	gate := connectgate.MustNew(standing(slidegate.PerMinute(10).Named("bytes")), connectgate.PerMessage(),
		connectgate.Cost(func(_ context.Context, c *connectgate.Call) int64 { return int64(len(c.Message.(*text).GetValue())) }))
	client := to(serve(t, &service{}, gate), uploadProcedure)
	upload := func(messages ...string) (string, connect.Code) {
		stream := client.CallClientStream(within(t))
		for _, m := range messages {
			_ = stream.Send(wrapperspb.String(m))
		}
		r, err := stream.CloseAndReceive()
		if err != nil {
			return "", codeOf(err)
		}
		return r.Msg.GetValue(), ok
	}
	n, code := upload("four", "", "two")
	want(t, "messages", n, "3")
	want(t, "code", code, ok)
	_, code = upload("ab", "cd")
	want(t, "too much", code, refused)
	_, code = upload("e")
	want(t, "what is left", code, ok)
}

// TestSameVerdictsAsHTTP: the same requests, at the same times, at a server of net/http and one of
// Connect. The verdicts, what remains, the waits and the texts of the fields are the same.
func TestSameVerdictsAsHTTP(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { sameVerdictsAsHTTP(t, p.option) })
	}
}

func sameVerdictsAsHTTP(t *testing.T, protocol connect.ClientOption) {
	clock := gatetest.NewClock(time.Unix(1_000_000, 0))
	limiter := func() *slidegate.Limiter {
		return slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)),
			slidegate.Per(1500*time.Millisecond, 3).Named("burst"),
			slidegate.PerMinute(8).Named(`odd "name"`),
			slidegate.PerHour(20).Counter().Named("plan"))
	}
	events := make(chan slidegate.Decision, 2)
	options := []httpgate.Option{
		httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.Legacy),
		httpgate.TrustProxies("127.0.0.1"),
		httpgate.Observe(func(e *httpgate.Event) { events <- *e.Decision }),
	}
	web := httptest.NewServer(httpgate.MustNew(limiter(), append(options,
		httpgate.By(func(r *http.Request) (string, error) { return r.Header.Get("Who"), nil }),
		httpgate.Cost(func(r *http.Request) int64 { return units(r.Header) }))...,
	).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer web.Close()
	client := to(serve(t, &service{}, connectgate.MustNew(limiter(), connectgate.With(options...),
		connectgate.By(func(_ context.Context, c *connectgate.Call) (string, error) { return c.Header.Get("Who"), nil }),
		connectgate.Cost(func(_ context.Context, c *connectgate.Call) int64 { return units(c.Header) }))), unaryProcedure, protocol)

	steps := []struct {
		after  time.Duration
		header []string
	}{
		{0, nil}, {0, []string{"Units", "2"}}, {0, nil}, {0, []string{"Units", "0"}}, {100 * time.Millisecond, nil}, {1399 * time.Millisecond, nil},
		{time.Millisecond, []string{"Units", "3"}}, {0, []string{"Who", "ann", "Units", "3"}}, {0, []string{"Who", "ann", "Units", "4"}},
		{0, []string{"Units", "-1"}}, {0, []string{"X-Forwarded-For", "203.0.113.7"}}, {0, []string{"X-Forwarded-For", "2001:db8:1:200::1", "Units", "2"}},
		{0, []string{"X-Forwarded-For", "2001:db8:1:2ff::1", "Units", "2"}}, {0, []string{"X-Forwarded-For", "nonsense"}},
		{2 * time.Second, []string{"Units", "3"}}, {2 * time.Second, []string{"Units", "3"}}, {time.Minute, []string{"Units", "3"}},
		{time.Minute, []string{"Units", "3"}}, {time.Minute, []string{"Units", "3"}}, {time.Minute, []string{"Units", "3"}},
		{time.Minute, []string{"Units", "3"}}, {time.Hour, []string{"Units", "3"}}, {30 * time.Minute, []string{"Units", "3"}},
	}
	refusals := 0
	for i, s := range steps {
		clock.Advance(s.after)
		request, err := http.NewRequestWithContext(within(t), http.MethodPost, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for j := 0; j < len(s.header); j += 2 {
			request.Header.Set(s.header[j], s.header[j+1])
		}
		response, err := web.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		inHTTP := <-events
		a := call(within(t), client, s.header...)
		inConnect := <-events

		want(t, fmt.Sprint("verdict of step ", i), a.code == ok, response.StatusCode == http.StatusOK)
		want(t, fmt.Sprint("decision of step ", i), inConnect.String(), inHTTP.String())
		want(t, fmt.Sprint("key of step ", i), inConnect.Key(), inHTTP.Key())
		if a.code != ok {
			refusals++
			wait, _ := a.details()
			want(t, fmt.Sprint("delay of step ", i), max(wait, 0), inHTTP.RetryAfter())
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
			want(t, fmt.Sprint(name, " of step ", i), a.fields.Values(name), response.Header.Values(name))
		}
	}
	if refusals < 5 || refusals > len(steps)-5 {
		t.Errorf("%d of %d steps are refused: that shows little", refusals, len(steps))
	}
}

func units(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Units"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// TestFailures: open by default, never for what can never fit.
func TestFailures(t *testing.T) {
	clashing := standing(slidegate.PerMinute(1).Named("all")) // another limit has the name
	failing := func() *slidegate.Limiter { return slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1)) }
	costing := func(n int64) connectgate.Option {
		return connectgate.Cost(func(context.Context, *connectgate.Call) int64 { return n })
	}
	for _, c := range []struct {
		name     string
		limiter  *slidegate.Limiter
		options  []connectgate.Option
		code     connect.Code
		violated []string
	}{
		{"open", failing(), nil, ok, nil},
		{"closed", failing(), []connectgate.Option{connectgate.FailClosed()}, connect.CodeUnavailable, nil},
		{"can never fit", failing(), []connectgate.Option{costing(2)}, refused, []string{"1/1m"}},
		{"negative", failing(), []connectgate.Option{costing(-1)}, refused, nil},
		{"free", standing(slidegate.PerMinute(1)), []connectgate.Option{costing(0)}, ok, nil},
		{"blocked", slidegate.Blocked(), nil, refused, nil},
		{"unlimited", slidegate.Unlimited(), nil, ok, nil},
		{"everybody", standing(slidegate.PerMinute(2)), []connectgate.Option{connectgate.And(standing(slidegate.PerMinute(2).Named("all")), connectgate.Everybody)}, ok, nil},
		{"limits that do not go together", standing(slidegate.PerMinute(1)), []connectgate.Option{
			connectgate.And(standing(slidegate.PerMinute(1).Named("all")), connectgate.Everybody),
			connectgate.Choose(func(context.Context, *connectgate.Call) *slidegate.Limiter { return clashing }),
		}, connect.CodeInternal, nil},
		{"denied", failing(), []connectgate.Option{connectgate.With(httpgate.Deny("127.0.0.0/8"))}, connect.CodePermissionDenied, nil},
		{"exempt", slidegate.Blocked(), []connectgate.Option{connectgate.With(httpgate.Exempt("127.0.0.0/8"))}, ok, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, &service{}, connectgate.MustNew(c.limiter, c.options...))
			a := call(within(t), to(url, unaryProcedure))
			retry, violated := a.details()
			want(t, "code", a.code, c.code)
			want(t, "violated", violated, c.violated)
			if retry >= 0 || field(a.fields, "Retry-After") != "" {
				t.Error("it says when to retry, though no waiting will help")
			}
			if a.err != nil && strings.Contains(a.err.Message(), "connection") {
				t.Errorf("the client is told %q", a.err.Message())
			}
			codes, _ := streamed(within(t), to(url, bidiProcedure), 0)
			want(t, "code of a stream", codes, []connect.Code{c.code})
		})
	}
}

// TestUnixSockets: who cannot be told apart is not let through uncounted.
func TestUnixSockets(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []connectgate.Option
		codes   []connect.Code
	}{
		{"no address", nil, []connect.Code{connect.CodeInternal, connect.CodeInternal}},
		{"a trusted proxy's", []connectgate.Option{connectgate.With(httpgate.TrustUnixPeer())}, []connect.Code{ok, refused}},
		{"another key", []connectgate.Option{connectgate.By(connectgate.Header("X-Forwarded-For"))}, []connect.Code{ok, refused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			server := listen(l, &service{}, connectgate.PerIP(slidegate.PerMinute(1), c.options...))
			t.Cleanup(server.Close)
			httpClient := over(func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			})
			t.Cleanup(httpClient.CloseIdleConnections)
			client := connect.NewClient[text, text](httpClient, "http://socket"+unaryProcedure)
			want(t, "codes", codesOf(within(t), client, 2, "X-Forwarded-For", "203.0.113.7"), c.codes)
		})
	}
}

// TestAddressesApart: who connects from another address has a budget of its own.
func TestAddressesApart(t *testing.T) {
	url := serve(t, &service{}, connectgate.PerIP(slidegate.PerMinute(1)))
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		client := connect.NewClient[text, text](from(t, ip), url+unaryProcedure)
		want(t, ip, codesOf(within(t), client, 2), []connect.Code{ok, refused})
	}
}

// TestKeysAreThoseOfHTTP: the gate counts under the keys that httpgate has for the same client.
func TestKeysAreThoseOfHTTP(t *testing.T) {
	trust := connectgate.With(httpgate.TrustProxies("127.0.0.1"))
	for _, c := range []struct {
		name    string
		address string
		options []connectgate.Option
		sent    []string
		key     string
	}{
		{"who connects", "127.0.0.1:0", nil, []string{"X-Forwarded-For", "203.0.113.7"}, "ip:127.0.0.1"},
		{"IPv6", "[::1]:0", nil, nil, "ip:::/56"},
		{"behind a proxy", "127.0.0.1:0", []connectgate.Option{trust}, []string{"X-Forwarded-For", "198.51.100.1, 203.0.113.7"}, "ip:203.0.113.7"},
		{"two fields", "127.0.0.1:0", []connectgate.Option{trust}, []string{"X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.7"}, "ip:203.0.113.7"},
		{"header", "127.0.0.1:0", []connectgate.Option{connectgate.By(connectgate.Header("x-api-key"))}, []string{"X-API-Key", "k1"}, "header:X-Api-Key:k1"},
		{"as httpgate has it", "127.0.0.1:0", []connectgate.Option{connectgate.With(httpgate.ByHeader("X-API-Key"))}, []string{"X-API-Key", "k1"}, "header:X-Api-Key:k1"},
		{"the request that it is", "127.0.0.1:0", []connectgate.Option{connectgate.With(httpgate.By(func(r *http.Request) (string, error) {
			return r.Method + " " + r.URL.Path, nil
		}))}, nil, "POST " + unaryProcedure},
		{"no header", "127.0.0.1:0", []connectgate.Option{connectgate.By(connectgate.Header("x-api-key"))}, nil, "ip:127.0.0.1"},
		{"several", "127.0.0.1:0", []connectgate.Option{connectgate.By(connectgate.Address, connectgate.Procedure)}, nil, httpgate.Join("ip:127.0.0.1", "method:"+unaryProcedure)},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.address)
			if err != nil {
				t.Fatal(err)
			}
			keys := make(chan string, 1)
			options := append(c.options, connectgate.Observe(func(e *httpgate.Event) { keys <- e.Key }))
			server := listen(l, &service{}, connectgate.PerIP(slidegate.PerMinute(1), options...))
			t.Cleanup(server.Close)
			want(t, "code", call(within(t), to(server.URL, unaryProcedure), c.sent...).code, ok)
			want(t, "key", <-keys, c.key)
		})
	}
}

// TestExactlyTheQuota, however many come at once.
func TestExactlyTheQuota(t *testing.T) {
	const callers, each, quota = 25, 8, 60
	var served atomic.Int64
	svc := &service{fails: func(context.Context) error { served.Add(1); return nil }}
	client := to(serve(t, svc, connectgate.MustNew(standing(slidegate.PerMinute(quota)))), unaryProcedure)
	var admitted, others atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				switch call(within(t), client).code {
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

// TestErrorsOfHandlersAreNotWrittenTo: a program may answer with one error all the time.
func TestErrorsOfHandlersAreNotWrittenTo(t *testing.T) {
	always := connect.NewError(connect.CodeNotFound, errors.New("no such thing"))
	svc := &service{fails: func(context.Context) error { return always }}
	url := serve(t, svc, connectgate.MustNew(standing(slidegate.PerMinute(9).Named("all"))))
	want(t, "fields", field(call(within(t), to(url, unaryProcedure)).fields, "RateLimit"), `"all";r=8;t=60`)
	codes, fields := streamed(within(t), to(url, bidiProcedure), 0)
	want(t, "codes", codes, []connect.Code{connect.CodeNotFound})
	want(t, "fields of a stream", field(fields, "RateLimit"), `"all";r=7;t=60`)
	want(t, "the error", len(always.Meta()), 0)
}

// TestRefunds: what a call ended with decides whether it counts, also where the handler panics.
func TestRefunds(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  func(context.Context) error
		code  connect.Code
		given connect.Code // back
		left  int64
	}{
		{"success", func(context.Context) error { return nil }, ok, ok, 9},
		{"success that counts", func(context.Context) error { return nil }, ok, connect.CodeNotFound, 7},
		{"failure", func(context.Context) error { return connect.NewError(connect.CodeNotFound, nil) }, connect.CodeNotFound, connect.CodeNotFound, 9},
		{"an error without a code", func(context.Context) error { return errors.New("odd") }, connect.CodeUnknown, connect.CodeUnknown, 9},
		{"out of time", func(context.Context) error { return context.DeadlineExceeded }, connect.CodeDeadlineExceeded, connect.CodeDeadlineExceeded, 9},
		{"given up", func(context.Context) error { return context.Canceled }, connect.CodeCanceled, connect.CodeCanceled, 9},
		{"panic", func(context.Context) error { panic("boom") }, connect.CodeInternal, connect.CodeInternal, 9},
		{"settled", func(ctx context.Context) error {
			_, err := httpgate.Settle(ctx, 3)
			return err
		}, ok, connect.CodeNotFound, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			limiter := standing(slidegate.PerMinute(9))
			gate := connectgate.MustNew(limiter, connectgate.With(httpgate.Settling()), connectgate.RefundIf(func(code connect.Code) bool { return code == c.given }))
			url := serve(t, &service{fails: c.ends}, recovering{}, gate)
			want(t, "code", call(within(t), to(url, unaryProcedure)).code, c.code)
			codes, _ := streamed(within(t), to(url, bidiProcedure), 0)
			want(t, "code of a stream", codes, []connect.Code{c.code})
			d, err := limiter.Peek(within(t), "ip:127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			want(t, "left", d.Remaining(), c.left)
		})
	}
}

// recovering answers a handler that panics with internal.
type recovering struct{}

func (recovering) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = connect.NewError(connect.CodeInternal, fmt.Errorf("%v", v))
			}
		}()
		return next(ctx, req)
	}
}

func (recovering) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (recovering) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = connect.NewError(connect.CodeInternal, fmt.Errorf("%v", v))
			}
		}()
		return next(ctx, conn)
	}
}

// TestShadowAndBan: a shadow refuses nobody and says nothing, and a ban is a refusal.
func TestShadowAndBan(t *testing.T) {
	shadow := connectgate.MustNew(slidegate.Blocked(), connectgate.With(httpgate.Shadow()))
	ban := connectgate.MustNew(standing(slidegate.PerMinute(1)), connectgate.With(httpgate.Ban(slidegate.PerMinute(2), time.Hour)))
	client := to(serve(t, &service{}, shadow, ban), unaryProcedure)
	want(t, "codes", codesOf(within(t), client, 3), []connect.Code{ok, refused, refused})
	a := call(within(t), client)
	wait, _ := a.details()
	want(t, "delay", wait, time.Hour)
	want(t, "Retry-After", a.fields.Values("Retry-After"), []string{"3600"})
	want(t, "message", a.err.Message(), "abnormal usage detected")
	reason, description := "", ""
	for _, d := range a.err.Details() {
		switch m, _ := d.Value(); m := m.(type) {
		case *errdetails.ErrorInfo:
			reason = m.GetDomain() + " " + m.GetReason()
		case *errdetails.QuotaFailure:
			description = m.GetViolations()[0].GetQuotaId() + ": " + m.GetViolations()[0].GetDescription()
		}
	}
	want(t, "reason", reason, "slidegate ABNORMAL_USAGE_DETECTED")
	want(t, "violation", description, "ban:2/1m: abnormal usage detected")
}

// TestInterceptorsBeforeAndAfter the gate see what they should.
func TestInterceptorsBeforeAndAfter(t *testing.T) {
	type user struct{}
	var order []string
	verify := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			order = append(order, "verify")
			return next(context.WithValue(ctx, user{}, "user:ann"), req)
		}
	})
	after := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if d, has := connectgate.FromContext(ctx); !has || d.Key() != "user:ann" || !d.Allowed {
				t.Errorf("the decision in the context is %v", d)
			}
			order = append(order, "after")
			return next(ctx, req)
		}
	})
	gate := connectgate.MustNew(standing(slidegate.PerMinute(1)), connectgate.By(func(ctx context.Context, _ *connectgate.Call) (string, error) {
		name, _ := ctx.Value(user{}).(string)
		return name, nil
	}))
	client := to(serve(t, &service{}, verify, gate, after), unaryProcedure)
	want(t, "codes", codesOf(within(t), client, 2), []connect.Code{ok, refused})
	want(t, "order", order, []string{"verify", "after", "verify"})
}

// TestSeveralGates: each adds its fields.
func TestSeveralGates(t *testing.T) {
	outer, inner := standing(slidegate.PerMinute(5).Named("outer")), standing(slidegate.PerMinute(1).Named("inner"))
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			ctx := within(t)
			for _, l := range []*slidegate.Limiter{outer, inner} {
				if err := l.Reset(ctx, "ip:127.0.0.1"); err != nil {
					t.Fatal(err)
				}
			}
			client := to(serve(t, &service{}, connectgate.MustNew(outer), connectgate.MustNew(inner)), unaryProcedure, p.option)
			a := call(ctx, client)
			want(t, "fields", a.fields.Values("RateLimit"), []string{`"outer";r=4;t=60`, `"inner";r=0;t=60`})
			a = call(ctx, client)
			want(t, "code", a.code, refused)
			want(t, "fields of a refusal", a.fields.Values("RateLimit"), []string{`"outer";r=3;t=60`, `"inner";r=0;t=60`})
			want(t, "Retry-After", a.fields.Values("Retry-After"), []string{"60"})
		})
	}
}

// TestHangingUpIsNoStoreError: nobody is told of a store that was left waiting by its caller.
func TestHangingUpIsNoStoreError(t *testing.T) {
	var log bytes.Buffer
	events, asked, ended := make(chan bool, 1), make(chan struct{}, 1), make(chan connect.Code, 1)
	outside := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			resp, err := next(ctx, req)
			ended <- codeOf(err)
			return resp, err
		}
	})
	gate := connectgate.MustNew(slidegate.MustNew(hanging{asked}, slidegate.PerMinute(1)), connectgate.FailClosed(),
		connectgate.Logger(slog.New(slog.NewTextHandler(&log, nil))),
		connectgate.With(httpgate.OnStoreError(func(err error) { t.Errorf("the store is blamed: %v", err) })),
		connectgate.Observe(func(e *httpgate.Event) { events <- e.Canceled }))
	client := to(serve(t, &service{}, outside, gate), unaryProcedure)
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		<-asked
		cancel()
	}()
	want(t, "the client sees", call(ctx, client).code, connect.CodeCanceled)
	want(t, "canceled", <-events, true)
	want(t, "the server ends with", <-ended, connect.CodeCanceled)
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

// TestDeadlineAtTheStore: a call whose time is up while the store is asked ends as any such call, and does
// not pass, however the gate fails: the deadline is the client's to choose.
func TestDeadlineAtTheStore(t *testing.T) {
	var served atomic.Int64
	svc := &service{fails: func(context.Context) error { served.Add(1); return nil }}
	hurried := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			return next(ctx, req)
		}
	})
	for _, fails := range []connectgate.Option{connectgate.With(httpgate.FailOpen()), connectgate.FailClosed()} {
		gate := connectgate.MustNew(slidegate.MustNew(hanging{make(chan struct{}, 1)}, slidegate.PerMinute(1)), fails)
		want(t, "code", call(within(t), to(serve(t, svc, hurried, gate), unaryProcedure)).code, connect.CodeDeadlineExceeded)
	}
	want(t, "calls served", served.Load(), int64(0))
}

// TestPlans: Choose, Skip and Exempt see the call.
func TestPlans(t *testing.T) {
	free := standing(slidegate.PerMinute(1).Named("plan"))
	paid, err := free.With(slidegate.PerMinute(3).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	gate := connectgate.MustNew(free, connectgate.Exempt(otherProcedure),
		connectgate.Choose(func(_ context.Context, c *connectgate.Call) *slidegate.Limiter {
			if c.Header.Get("Plan") == "paid" {
				return paid
			}
			return nil
		}),
		connectgate.Skip(func(_ context.Context, c *connectgate.Call) bool { return c.Header.Get("Probe") != "" }))
	url := serve(t, &service{}, gate)
	client := to(url, unaryProcedure)
	want(t, "free", codesOf(within(t), client, 2), []connect.Code{ok, refused})
	want(t, "paid", codesOf(within(t), client, 3, "Plan", "paid"), []connect.Code{ok, ok, refused})
	for name, a := range map[string]answer{"skipped": call(within(t), client, "Probe", "1"), "exempt": call(within(t), to(url, otherProcedure))} {
		want(t, name, a.code, ok)
		want(t, "fields of what was "+name, field(a.fields, "RateLimit"), "")
	}
}

// TestGateDoesNothingInAClient, so that one list of interceptors may serve both.
func TestGateDoesNothingInAClient(t *testing.T) {
	url, gate := serve(t, &service{}), connectgate.MustNew(slidegate.Blocked())
	want(t, "unary", call(within(t), to(url, unaryProcedure, connect.WithInterceptors(gate))).code, ok)
	codes, _ := streamed(within(t), to(url, bidiProcedure, connect.WithInterceptors(gate)), 1)
	want(t, "stream", codes, []connect.Code{ok, ok})
}

func TestOptionsThatCannotBeBuilt(t *testing.T) {
	for _, c := range []struct {
		option connectgate.Option
		says   string
	}{
		{nil, "nil"},
		{connectgate.By(), "By"},
		{connectgate.By(nil), "By"},
		{connectgate.And(nil, connectgate.Address), "And"},
		{connectgate.And(standing(slidegate.PerMinute(1).Named("other"))), "And"},
		{connectgate.Cost(nil), "Cost"},
		{connectgate.Skip(nil), "Skip"},
		{connectgate.Choose(nil), "Choose"},
		{connectgate.RefundIf(nil), "RefundIf"},
		{connectgate.Observe(nil), "Observe"},
		{connectgate.Logger(nil), "Logger"},
		{connectgate.Exempt("pkg.Service/Method"), "Exempt"},
		{connectgate.Exempt("/pkg.Service"), "Exempt"},
		{connectgate.With(httpgate.TrustProxies("0.0.0.0/0")), "everybody"},
		{connectgate.With(nil), "nil"},
	} {
		_, err := connectgate.New(standing(slidegate.PerMinute(1)), c.option)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want an invalid limit that says %q", err, c.says)
		}
	}
	if _, err := connectgate.New(nil); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("no limiter: %v", err)
	}
}
