package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// endless is a body without end, of which nothing is there to wait for.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// deaf is an upstream that takes connections and reads nothing.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// full is an upstream whose machine does not answer to connections: its queue of them is full, which the system treats as a
// network that loses packets.
func full(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return "http://" + address
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// clearHTTP2 is an upstream that speaks HTTP/2 without TLS.
func clearHTTP2(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	upstream := httptest.NewUnstartedServer(h)
	upstream.Config.Protocols = new(http.Protocols)
	upstream.Config.Protocols.SetUnencryptedHTTP2(true)
	upstream.Start()
	t.Cleanup(upstream.Close)
	return "h2c" + strings.TrimPrefix(upstream.URL, "http")
}

// TestDeadUpstreamIsToldInTime, whatever it does not do: connect, take a body, or answer.
func TestDeadUpstreamIsToldInTime(t *testing.T) {
	const timeout = 500 * time.Millisecond
	forgetful := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for what, c := range map[string]struct {
		upstream string
		body     io.Reader
	}{
		"no connection":                         {full(t), nil},
		"no connection for a body":              {full(t), endless{}},
		"no answer":                             {deaf(t), nil},
		"no answer to a short body":             {deaf(t), strings.NewReader("short")},
		"no piece of a body is taken":           {deaf(t), endless{}},
		"no piece is taken over HTTP/2":         {clearHTTP2(t, forgetful), endless{}},
		"no answer to a short body over HTTP/2": {clearHTTP2(t, forgetful), strings.NewReader("short")},
	} {
		r := start(t, nil, "--limit", "9/1h", "--upstream", c.upstream, "--upstream-timeout", timeout.String())
		begin := time.Now()
		req, err := http.NewRequest("POST", r.url, c.body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h2c(t).Do(req)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		// Pieces of a body that are on their way when the other end stops may each take a part of the time.
		if took := time.Since(begin); resp.StatusCode != 504 || took < timeout || took > 20*timeout || !strings.Contains(string(body), `"status":504`) {
			t.Errorf("%s: %d %s after %s", what, resp.StatusCode, body, took)
		}
		if got := r.metric("slidegate_upstream_errors_total"); got != "1" {
			t.Errorf("%s: %s errors of the upstream", what, got)
		}
	}
}

// pieces is a body that comes piece by piece, so long after each other.
type pieces struct {
	left  int
	every time.Duration
}

func (b *pieces) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	<-time.After(b.every)
	return copy(p, "piece"), nil
}

// TestSlowUploadsGoOn: pieces that come and go take as long as they like, also where the client is slower than an upstream may be, and
// so do answers once they have begun.
func TestSlowUploadsGoOn(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v", len(body), err)
		w.(http.Flusher).Flush()
		<-time.After(600 * time.Millisecond)
		io.WriteString(w, " done")
	}
	for _, upstream := range []string{behind(t, handler), clearHTTP2(t, handler)} {
		r := start(t, nil, "--limit", "9/1h", "--upstream", upstream, "--upstream-timeout", "400ms", "--client-timeout", "5s")
		for _, client := range []*http.Client{http.DefaultClient, h2c(t)} {
			resp, err := client.Post(r.url, "text/plain", &pieces{2, 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || string(body) != "10 <nil> done" || err != nil {
				t.Errorf("%s: %d %q %v", resp.Proto, resp.StatusCode, body, err)
			}
		}
	}
}

// TestQuietConversationsGoOn: nothing is sent for longer than anybody may take for what there is to send.
func TestQuietConversationsGoOn(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--upstream-timeout", "300ms", "--client-timeout", "300ms", "--idle-timeout", "300ms", "--read-header-timeout", "300ms",
		"--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				io.WriteString(w, "event: 1\n\n")
				w.(http.Flusher).Flush()
				<-time.After(time.Second)
				io.WriteString(w, "event: 2\n\n")
				return
			}
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			for {
				kind, message, err := conn.Read(r.Context())
				if err != nil {
					return
				}
				conn.Write(r.Context(), kind, message)
			}
		}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	first, second := background(http.DefaultClient, r.url), background(h2c(t), r.url)
	for i, got := range []string{<-first, <-second} {
		if got != "event: 1\n\nevent: 2\n\n" {
			t.Errorf("events %d: %q", i, got)
		}
	}
	if err := conn.Write(ctx, websocket.MessageText, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.Read(ctx); err != nil || string(got) != "still here" {
		t.Errorf("%q, %v", got, err)
	}
	if got := r.metric(`slidegate_shed_total{reason="slow_client"}`); got != "0" {
		t.Errorf("%s were cut off", got)
	}
}

// TestConversationsOverHTTP2PassBothWays: each side waits for the other, and the client is quiet longer than for a piece of a body.
func TestConversationsOverHTTP2PassBothWays(t *testing.T) {
	upstream := clearHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		word := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, word); err != nil {
				return
			}
			w.Write(word)
			w.(http.Flusher).Flush()
		}
	})
	r := start(t, nil, "--limit", "9/1h", "--upstream", upstream, "--client-timeout", "300ms", "--upstream-timeout", "5s")
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.url, reader)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h2c(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, word := range []string{"ping", "pong"} {
		<-time.After(700 * time.Millisecond)
		io.WriteString(writer, word)
		got := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != word {
			t.Errorf("%q, %v, want %q", got, err, word)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestBodiesAreBounded: of one that is too long the upstream sees no more than the bound, and nothing where its length is known.
func TestBodiesAreBounded(t *testing.T) {
	var seen sync.Map // by what is sent, the bytes of it
	upstream := behind(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		seen.Store(r.Header.Get("X-Sent"), n)
	})
	const most = 100000
	r := start(t, nil, "--limit", "99/1h", "--upstream", upstream, "--max-body", fmt.Sprint(most))
	unknown := func(n int) io.Reader { return io.MultiReader(bytes.NewReader(make([]byte, n))) }
	for _, client := range []*http.Client{http.DefaultClient, h2c(t)} {
		for _, c := range []struct {
			what   string
			body   io.Reader
			status int
		}{
			{"as long as may be", bytes.NewReader(make([]byte, most)), 200},
			{"one byte longer", bytes.NewReader(make([]byte, most+1)), 413},
			{"as long as may be, in chunks", unknown(most), 200},
			{"one byte longer, in chunks", unknown(most + 1), 413},
			{"much longer, in chunks", unknown(20 * most), 413},
		} {
			req, err := http.NewRequest("POST", r.url, c.body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Sent", c.what)
			req.Header.Set("Expect", "100-continue") // so that the answer does not meet a client that is still sending
			resp, err := client.Do(req)
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != c.status || c.status == 413 && string(body) != `{"type":"about:blank","title":"Request Entity Too Large","status":413}` {
				t.Errorf("%s %s: %d %s, want %d", resp.Proto, c.what, resp.StatusCode, body, c.status)
			}
		}
	}
	seen.Range(func(what, n any) bool {
		if n.(int64) > most || what == "one byte longer" {
			t.Errorf("%s: the upstream saw %d bytes", what, n)
		}
		return true
	})
	if n, _ := seen.Load("as long as may be, in chunks"); n != int64(most) {
		t.Errorf("of a body that is no longer than it may be the upstream saw %v bytes", n)
	}
	if got := r.metric(`slidegate_shed_total{reason="body"}`); got != "6" {
		t.Errorf("%s bodies were too long, want 6", got)
	}
	if n := strings.Count(r.said(), "--max-body"); n != 1 {
		t.Errorf("it is said %d times: %s", n, r.said())
	}
}

// TestHeadersAreBounded, and the upstream sees none that is too long.
func TestHeadersAreBounded(t *testing.T) {
	r := start(t, nil, "--limit", "99/1h", "--max-header", "8192", "--upstream", behind(t, func(_ http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("X-Long")) > 16<<10 {
			t.Error("the upstream was asked")
		}
	}))
	for n, want := range map[int]int{4 << 10: 200, 20 << 10: 431} {
		if resp, body := fetch(t, http.DefaultClient, "GET", r.url, "X-Long", strings.Repeat("a", n)); resp.StatusCode != want {
			t.Errorf("%d bytes: %d %s, want %d", n, resp.StatusCode, body, want)
		}
	}
	// A client that speaks HTTP/2 is told how long it may be.
	fetch(t, h2c(t), "GET", r.url, "X-Long", strings.Repeat("a", 4<<10))
	req, err := http.NewRequest("GET", r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("a", 20<<10))
	if resp, err := h2c(t).Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("HTTP/2: %s", resp.Status)
	}
}

// TestUpstreamsByRule: each rule's requests go to its own, and after a change to the one that it says then.
func TestUpstreamsByRule(t *testing.T) {
	named := func(name string) string {
		return behind(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name+" "+r.URL.Path+" "+r.Host) })
	}
	one, two, three := named("one"), clearHTTP2(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "two "+r.Proto) }), named("three")
	rules := func(shop string) []string {
		return []string{
			"upstream: " + one, "upstreams: {shop: " + shop + "}",
			"rules:", "- {name: api, path: /api/, limits: 9/1h, upstream: '" + two + "'}", "- {name: shop, path: /shop/, limits: 9/1h, upstream: shop}", "- {name: rest, limits: 9/1h}",
			"domains:", "  tenant: {host: tenant.example, rules: [{name: all, limits: 9/1h, upstream: shop}]}",
		}
	}
	path := writeRules(t, rules(three+"/base")...)
	r := start(t, nil, "--config", path)
	got := func(path, host string) string {
		_, body := fetch(t, http.DefaultClient, "GET", r.url+path, "Host", host)
		return body
	}
	for _, c := range []struct{ path, host, want string }{
		{"/", "a.example", "one / a.example"},
		{"/api/x", "a.example", "two HTTP/2.0"},
		{"/shop/x", "a.example", "three /base/shop/x a.example"},
		{"/api/x", "tenant.example", "three /base/api/x tenant.example"},
	} {
		if body := got(c.path, c.host); body != c.want {
			t.Errorf("%s at %s: %q, want %q", c.path, c.host, body, c.want)
		}
	}
	rewrite(t, path, rules(one)...)
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rule has another upstream", func() bool { return got("/shop/x", "a.example") == "one /shop/x a.example" })
	for path, want := range map[string]string{"/": "one / a.example", "/api/x": "two HTTP/2.0"} {
		if body := got(path, "a.example"); body != want {
			t.Errorf("%s after the change: %q, want %q", path, body, want)
		}
	}
}

// TestClaimsOfClientsAreDropped: of all fields in which a proxy says who a client is, the upstream sees those that one who is
// trusted has sent, and none that is another by its dashes.
func TestClaimsOfClientsAreDropped(t *testing.T) {
	claims := []string{"X-Real-Ip", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-User", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Cluster-Client-Ip"}
	underscored := []string{"X_Forwarded_For", "X-Forwarded_For", "X_Real_IP", "X_FORWARDED_PROTO", "X_Forwarded_Port", "Cf_Connecting_Ip"}
	seen := make(chan http.Header, 1)
	upstream := behind(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	for what, c := range map[string]struct {
		args []string
		want []string
	}{
		"nobody is trusted":   {nil, nil},
		"others are trusted":  {[]string{"--trusted-proxies", "10.0.0.0/8", "--client-ip-header", "X-Edge-Client"}, nil},
		"the peer is trusted": {[]string{"--trusted-proxies", "127.0.0.1", "--client-ip-header", "X-Edge-Client"}, claims},
	} {
		r := start(t, nil, append([]string{"--limit", "9/1h", "--upstream", upstream}, c.args...)...)
		req, err := http.NewRequest("GET", r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Concat(claims, underscored) {
			req.Header[name] = []string{"203.0.113.66"}
		}
		req.Header["X_Kept"], req.Header["X_Edge_Client"] = []string{"1"}, []string{"203.0.113.67"}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := <-seen
		for name, values := range got {
			if slices.Contains(values, "203.0.113.66") && !slices.Contains(c.want, name) && name != "X-Forwarded-For" {
				t.Errorf("%s: the upstream sees %s", what, name)
			}
		}
		for _, name := range c.want {
			if got.Get(name) == "" {
				t.Errorf("%s: %s is gone", what, name)
			}
		}
		if got["X_kept"] == nil || (got["X_edge_client"] == nil) != (len(c.args) > 0) {
			t.Errorf("%s: the upstream sees %v", what, got)
		}
	}
}
