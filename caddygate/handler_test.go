package caddygate

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// provisioned returns a handler that is ready to be asked for keys.
func provisioned(t *testing.T, h *Handler) *Handler {
	t.Helper()
	h.Limits = []string{"1/s"}
	_, options, err := h.parse()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.prepare(slog.New(slog.DiscardHandler), slidegate.Blocked(), options); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestKeys: what a request is counted under.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key     []string
		remote  string
		fields  []string
		prefix  int
		want    string // empty where there is no address
		trusted string // the header of a trusted proxy
	}{
		{nil, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", ""},
		{nil, "10.0.0.1:1", nil, 0, "ip:203.0.113.7", "203.0.113.7"},
		{nil, "10.0.0.1:1", nil, 0, "ip:203.0.113.7", "::ffff:203.0.113.7"},
		{nil, "10.0.0.1:1", nil, 0, "ip:2001:db8:1:200::/56", "2001:db8:1:2ff::7"},
		{nil, "10.0.0.1:1", nil, 64, "ip:2001:db8:1:2ff::/64", "2001:db8:1:2ff::7"},
		{nil, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", "203.0.113.7"},
		{[]string{"{http.vars.client_ip}"}, "10.0.0.1:1", nil, 0, "ip:203.0.113.7", "203.0.113.7"},
		{[]string{"{http.request.header.X-API-Key}"}, "192.0.2.1:1", []string{"X-API-Key: ip:203.0.113.7"}, 0, "header:X-Api-Key:ip:203.0.113.7", ""},
		{[]string{"{http.request.header.X-API-Key}"}, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", ""},
		{[]string{"{http.request.header.X-API-Key}"}, "10.0.0.1:1", nil, 0, "ip:203.0.113.7", "203.0.113.7"},
		{[]string{"{http.request.cookie.session}"}, "192.0.2.1:1", []string{"Cookie: session=abc"}, 0, "cookie:session:abc", ""},
		{[]string{"{http.request.cookie.session}"}, "192.0.2.1:1", []string{"Cookie: other=abc"}, 0, "ip:192.0.2.1", ""},
		{[]string{"{http.request.host}", "{http.vars.client_ip}"}, "[2001:db8:1:2ff::7]:1", nil, 0, "41:{http.request.host} {http.vars.client_ip}|11:example.com|19:2001:db8:1:200::/56", ""},
		{[]string{"{http.request.remote.host}"}, "[2001:db8:1:2ff::7]:1", nil, 48, "26:{http.request.remote.host}|15:2001:db8:1::/48", ""},
		{[]string{"tenant-{http.request.header.Tenant}"}, "192.0.2.1:1", []string{"Tenant: a|b"}, 0, "35:tenant-{http.request.header.Tenant}|10:tenant-a|b", ""},
		{[]string{"tenant-{http.request.header.Tenant}"}, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", ""},
		{[]string{"{http.request.header.A}{http.request.header.B}"}, "192.0.2.1:1", []string{"A: x"}, 0, "ip:192.0.2.1", ""},
		{[]string{"{http.auth.user.id}"}, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", ""},
		{[]string{"{no.such.placeholder}"}, "192.0.2.1:1", nil, 0, "ip:192.0.2.1", ""},
		{[]string{"everybody"}, "192.0.2.1:1", nil, 0, "9:everybody|9:everybody", ""},
		{nil, "@", nil, 0, "", ""},
	} {
		h := provisioned(t, &Handler{Key: c.key, IPv6Prefix: c.prefix})
		r := httptest.NewRequest("GET", "http://example.com/", nil)
		r.RemoteAddr = c.remote
		for _, field := range c.fields {
			name, value, _ := strings.Cut(field, ": ")
			r.Header.Set(name, value)
		}
		// What a server finds out of the header is Caddy's affair; it leaves it in two variables.
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, nil)
		host, _, _ := strings.Cut(strings.TrimPrefix(c.remote, "["), "]")
		if !strings.HasPrefix(c.remote, "[") {
			host, _, _ = strings.Cut(c.remote, ":")
		}
		isTrusted := c.trusted != "" && host == "10.0.0.1"
		if isTrusted {
			host = c.trusted
		}
		caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, isTrusted)
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, host)
		if got, err := h.gate.KeyOf(r); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("key %q, from %s for %q, %q: %q, %v, want %q", c.key, c.remote, c.trusted, c.fields, got, err, c.want)
		}
	}
}

// TestCosts: what is no number costs 1, and what is out of range can never fit.
func TestCosts(t *testing.T) {
	for written, want := range map[string]int64{
		"": 1, "0": 0, "5": 5, "-5": -5, "5.5": 1, "five": 1, "+5": 5,
		"99999999999999999999": 1<<63 - 1, "-99999999999999999999": -1 << 63,
	} {
		h := &Handler{Cost: "{http.request.header.X-Cost}"}
		cost, err := h.costOf()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Cost", written)
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, nil)
		if got := cost(r); got != want {
			t.Errorf("a cost of %q is %d, want %d", written, got, want)
		}
	}
}

// gated is a route with a handler of this module, of which the text is the settings, and an answer.
func gated(t testing.TB, settings string) []object {
	t.Helper()
	var handler object
	if err := json.Unmarshal([]byte(settings), &handler); err != nil {
		t.Fatal(err)
	}
	handler["handler"] = "slidegate"
	return []object{{"handle": []object{handler, {"handler": "static_response", "body": "hello"}}}}
}

// ask sends a request and returns its status, and its field RateLimit.
func ask(t testing.TB, address string) (status int, field string) {
	t.Helper()
	response, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("RateLimit")
}

// held tells what is in the pool.
func held() (memories, clients int) {
	pool.Range(func(_, v any) bool {
		switch v.(type) {
		case *memory:
			memories++
		case client:
			clients++
		}
		return true
	})
	return memories, clients
}

// wantHeld compares what is in the pool with what should be.
func wantHeld(t testing.TB, memories, clients int) {
	t.Helper()
	if m, c := held(); m != memories || c != clients {
		t.Errorf("the pool holds %d memories and %d clients, want %d and %d", m, c, memories, clients)
	}
}

// TestStoresLiveAsLongAsTheyAreUsed: through reloads, also those that fail, and no longer.
func TestStoresLiveAsLongAsTheyAreUsed(t *testing.T) {
	wantHeld(t, 0, 0)
	first := listen(t, "127.0.0.1", gated(t, `{"zone": "a", "limits": ["n=2/1h"]}`)...)
	ask(t, first)
	wantHeld(t, 1, 0)

	t.Run("while others come", func(t *testing.T) {
		second := listen(t, "127.0.0.1", gated(t, `{"zone": "a", "limits": ["n=5/1h"]}`)...)
		if _, field := ask(t, second); !strings.HasPrefix(field, `"n";r=3;t=3`) {
			t.Errorf("a second handler of the zone says %q", field)
		}
		listen(t, "127.0.0.1", gated(t, `{"zone": "b", "limits": ["n=5/1h"], "store": {"url": "redis://127.0.0.1:1"}}`)...)
		listen(t, "127.0.0.1", gated(t, `{"zone": "c", "limits": ["n=5/1h"], "store": {"url": "redis://127.0.0.1:1", "prefix": "other"}}`)...)
		listen(t, "127.0.0.1", gated(t, `{"zone": "d", "limits": ["n=5/1h"], "store": {"url": "redis://127.0.0.1:1", "timeout": "1s"}}`)...)
		wantHeld(t, 1, 2)
	})
	wantHeld(t, 1, 0)

	t.Run("where a configuration fails", func(t *testing.T) {
		for _, c := range []struct{ settings, want string }{
			{`{"zone": "a", "limits": ["n=2/1h"], "store": {"max_keys": 7}}`, `zone "a": two of its handlers have stores with other settings`},
			{`{"zone": "b", "limits": ["n=2"]}`, `"n=2"`},
			{`{"zone": "b"}`, "no limit"},
			{`{"zone": "b", "limits": ["n=2/1h"], "secret": "{env.NO_SUCH_VARIABLE}"}`, "secret: "},
			{`{"zone": "b", "limits": ["n=2/1h"], "limit": "x"}`, `unknown field "limit"`},
			{`{"zone": "b", "limits": ["n=2/1h"], "store": {"url": "redis://x", "password": "{env.NO_SUCH_VARIABLE}"}}`, "store: password: "},
			{`{"zone": "b", "limits": ["n=2/1h"], "store": {"url": "{env.NO_SUCH_VARIABLE}"}}`, "store: url: "},
		} {
			running["broken"] = object{"listen": []string{"127.0.0.1:0"}, "routes": gated(t, c.settings)}
			if err := reload(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.settings, err)
			}
			delete(running, "broken")
			wantHeld(t, 1, 0)
		}
	})
	if _, field := ask(t, first); !strings.HasPrefix(field, `"n";r=0;t=3`) { // within ten minutes
		t.Errorf("after the reloads the first handler says %q", field)
	}
	if status, _ := ask(t, first); status != http.StatusTooManyRequests {
		t.Errorf("after two requests, status %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
	wantHeld(t, 0, 0)
	awaitNoGoroutine(t)
}

// awaitNoGoroutine fails the test if code of slidegate, or a Redis client, goes on running.
func awaitNoGoroutine(t testing.TB) {
	t.Helper()
	left := ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if left = ours(); left == "" {
			return
		}
	}
	t.Errorf("goroutines are left:\n%s", left)
}

// ours returns the stacks of goroutines that are none of the tests'.
func ours() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		isOurs := strings.Contains(stack, "slidegate/slidegate") || strings.Contains(stack, "redis/rueidis")
		if isOurs && !strings.Contains(stack, "testing.tRunner") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// TestErrorsAreNotWritten: where Caddy answers, nothing of the gate's answer is left but its fields.
func TestErrorsAreNotWritten(t *testing.T) {
	limiter := slidegate.Blocked()
	h := &Handler{HandleErrors: true, gate: httpgate.MustNew(limiter, httpgate.DenyWith(418, "tea"))}
	w := httptest.NewRecorder()
	err := h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil), nil)
	var answer caddyhttp.HandlerError
	if !errors.As(err, &answer) || answer.StatusCode != 418 || !errors.Is(err, errRefused) {
		t.Errorf("the error is %v", err)
	}
	if w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" || w.Header().Get("Content-Length") != "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("written is %v, %q", w.Header(), w.Body)
	}
}

// TestErrorsOfHandlersPass to who called.
func TestErrorsOfHandlersPass(t *testing.T) {
	want := errors.New("of the handler")
	for _, handleErrors := range []bool{false, true} {
		h := &Handler{HandleErrors: handleErrors, gate: httpgate.MustNew(slidegate.Unlimited())}
		r := httptest.NewRequest("GET", "/", nil)
		err := h.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) error {
			if _, ok := httpgate.FromContext(got.Context()); got != r || !ok {
				t.Error("the request is another, or knows of no decision")
			}
			return want
		}))
		if err != want {
			t.Errorf("the error is %v", err)
		}
	}
}
