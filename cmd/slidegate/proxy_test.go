package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// behind starts an upstream.
func behind(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	upstream := httptest.NewServer(h)
	t.Cleanup(upstream.Close)
	return upstream.URL
}

// h2c returns a client that speaks HTTP/2 without TLS, and nothing else.
func h2c(t *testing.T) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestAddressesAreSeparate: two addresses of this machine.
func TestAddressesAreSeparate(t *testing.T) {
	r := start(t, nil, "--limit", "2/1h")
	for _, source := range []string{"127.0.0.1", "127.0.0.2"} {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		defer transport.CloseIdleConnections()
		for i, want := range []int{200, 200, 429} {
			if resp, body := fetch(t, &http.Client{Transport: transport}, "GET", r.url); resp.StatusCode != want {
				t.Errorf("%s, request %d: %d %s, want %d", source, i, resp.StatusCode, body, want)
			}
		}
	}
}

func TestForwardedForCountsFromTrustedProxiesAlone(t *testing.T) {
	spoofed := start(t, nil, "--limit", "1/1h")
	spoofed.want("200", "X-Forwarded-For", "203.0.113.1")
	spoofed.want("429", "X-Forwarded-For", "203.0.113.2", "X-Real-IP", "203.0.113.3", "Forwarded", "for=203.0.113.4")
	trusted := start(t, nil, "--limit", "1/1h", "--trusted-proxies", "127.0.0.0/8,::1")
	trusted.want("200 429", "X-Forwarded-For", "203.0.113.1")
	trusted.want("200 429", "X-Forwarded-For", "203.0.113.1, 203.0.113.2")
	hops := start(t, nil, "--limit", "1/1h", "--trusted-hops", "2")
	hops.want("200", "X-Forwarded-For", "203.0.113.1, 203.0.113.2, 203.0.113.3")
	hops.want("429", "X-Forwarded-For", "203.0.113.9, 203.0.113.2, 203.0.113.3")
	single := start(t, nil, "--limit", "1/1h", "--trusted-proxies", "127.0.0.1", "--client-ip-header", "CF-Connecting-IP")
	single.want("200 429", "CF-Connecting-IP", "2001:db8::1")
	single.want("429", "CF-Connecting-IP", "2001:db8::2") // one network
	single.want("200", "CF-Connecting-IP", "2001:db8:0:100::1")
	wider := start(t, nil, "--limit", "1/1h", "--trusted-proxies", "127.0.0.1", "--ipv6-prefix", "48")
	wider.want("200", "X-Forwarded-For", "2001:db8::1")
	wider.want("429", "X-Forwarded-For", "2001:db8:0:100::1")
}

func TestProxyPassesRequestsAsTheyAre(t *testing.T) {
	seen := make(chan *http.Request, 10)
	r := start(t, nil, "--limit", "20/1h", "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Hop-Back", "1")
		w.Header().Set("Connection", "X-Hop-Back")
		w.WriteHeader(201)
		io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
	})+"/base")
	req, err := http.NewRequest("PUT", r.url+"/a%2Fb//c?x=%20;y&&z", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "Shop.example:80"
	req.Header.Set("Connection", "X-Hop")
	req.Header.Set("X-Hop", "1")
	req.Header.Set("Te", "gzip")
	req.Header.Set("X-Kept", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := "PUT /base/a%2Fb//c?x=%20;y&&z content"; resp.StatusCode != 201 || string(body) != want || resp.Header.Get("X-Hop-Back") != "" {
		t.Errorf("%d %q %v, want %q", resp.StatusCode, body, resp.Header, want)
	}
	got := <-seen
	if got.Host != "Shop.example:80" || got.Header.Get("X-Hop") != "" || got.Header.Get("Te") != "" || got.Header.Get("X-Kept") != "1" || got.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("the upstream saw host %q and %v", got.Host, got.Header)
	}
}

// TestForwardedFieldsAreTrue: what the upstream is told of the client is what a trusted proxy or the
// connection says, never what the client says.
func TestForwardedFieldsAreTrue(t *testing.T) {
	seen := make(chan http.Header, 10)
	upstream := behind(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	everything := []string{"X-Forwarded-For", "198.51.100.1, 203.0.113.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example", "Forwarded", "for=198.51.100.9", "X-Real-IP", "198.51.100.2"}
	for _, c := range []struct {
		name                            string
		args                            []string
		forwardedFor, proto, host, real string
	}{
		{"nobody is trusted", nil, "127.0.0.1", "http", "asked.example", ""},
		{"others are trusted", []string{"--trusted-proxies", "10.0.0.0/8", "--client-ip-header", "X-Real-IP"}, "127.0.0.1", "http", "asked.example", ""},
		{"the peer is trusted", []string{"--trusted-proxies", "127.0.0.1"}, "198.51.100.1, 203.0.113.7, 127.0.0.1", "https", "shop.example", "198.51.100.2"},
		{"its other header is", []string{"--trusted-proxies", "127.0.0.1", "--client-ip-header", "X-Real-IP"}, "198.51.100.2, 127.0.0.1", "https", "shop.example", "198.51.100.2"},
		{"its Forwarded is", []string{"--trusted-proxies", "127.0.0.1", "--client-ip-header", "Forwarded"}, "198.51.100.9, 127.0.0.1", "https", "shop.example", "198.51.100.2"},
		{"its header is missing", []string{"--trusted-proxies", "127.0.0.1", "--client-ip-header", "X-Missing"}, "127.0.0.1", "https", "shop.example", "198.51.100.2"},
		{"fewer hops than proxies", []string{"--trusted-hops", "3"}, "127.0.0.1", "http", "asked.example", ""},
	} {
		r := start(t, nil, append([]string{"--limit", "20/1h", "--upstream", upstream}, c.args...)...)
		fetch(t, http.DefaultClient, "GET", r.url, append(slices.Clone(everything), "Host", "asked.example")...)
		got := <-seen
		for name, want := range map[string]string{
			"X-Forwarded-For": c.forwardedFor, "X-Forwarded-Proto": c.proto, "X-Forwarded-Host": c.host, "X-Real-Ip": c.real, "Forwarded": "",
		} {
			if said := strings.Join(got[name], " / "); said != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, said, want)
			}
		}
	}
}

// TestSingleFieldsSpeakWithOneVoice: of a field that holds one value the gate's alone is sent, and a
// list grows by the upstream's.
func TestSingleFieldsSpeakWithOneVoice(t *testing.T) {
	fields := []string{"RateLimit", "RateLimit-Limit", "X-RateLimit-Limit"}
	upstream := behind(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range fields {
			w.Header().Set(name, `"upstream";r=1`)
		}
	})
	const theirs = `"upstream";r=1`
	for formats, want := range map[string][]string{
		"draft-8, legacy": {`"20/1h";r=19;t=3600 / ` + theirs, theirs, "20"},
		"draft-11":        {`"20/1h";r=19;t=3600 / ` + theirs, theirs, theirs},
		"draft-7":         {"limit=20, remaining=19, reset=3600", theirs, theirs},
		"draft-6":         {theirs, "20", theirs},
		"none":            {theirs, theirs, theirs},
	} {
		r := start(t, nil, "--limit", "20/1h", "--upstream", upstream, "--headers", formats)
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url)
		for i, name := range fields {
			if got := strings.Join(resp.Header.Values(name), " / "); got != want[i] {
				t.Errorf("%s: %s is %q, want %q", formats, name, got, want[i])
			}
		}
	}
}

func TestStreamsPassAsTheyCome(t *testing.T) {
	release := make(chan struct{})
	r := start(t, nil, "--limit", "20/1h", "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, "last\n")
	}))
	resp, err := http.Get(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first\n" {
		t.Errorf("%q, %v before the upstream has ended", first, err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "last\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestWebSocketPasses(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
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
			if err := conn.Write(r.Context(), kind, append([]byte("echo "), message...)); err != nil {
				t.Error(err)
			}
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, r.url+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if resp.Header.Get("RateLimit") != `"1/1h";r=0;t=3600` {
		t.Errorf("%v", resp.Header)
	}
	for _, message := range [][]byte{[]byte("hello"), bytes.Repeat([]byte{7}, 20_000)} {
		if err := conn.Write(ctx, websocket.MessageBinary, message); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.Read(ctx); err != nil || string(got) != "echo "+string(message) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	if _, resp, err := websocket.Dial(ctx, r.url+"/ws", nil); err == nil || resp == nil || resp.StatusCode != 429 {
		t.Errorf("a second connection: %v, %v", resp, err)
	}
}

// TestWebSocketsDrain: an open one has the grace time to end, and then the process does.
func TestWebSocketsDrain(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--grace", "10m", "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		if kind, message, err := conn.Read(r.Context()); err == nil {
			conn.Write(r.Context(), kind, message)
			conn.Read(r.Context())
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, r.url+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	r.terminate()
	eventually(t, "draining", func() bool { return strings.Contains(r.said(), "draining") })
	if err := conn.Write(ctx, websocket.MessageText, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.Read(ctx); err != nil || string(got) != "still here" {
		t.Errorf("%q, %v while draining", got, err)
	}
	conn.Close(websocket.StatusNormalClosure, "")
	if status := r.end(); status != 0 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// TestFieldsOutliveInterimResponses: an upstream's 103 does not take the gate's fields from the answer.
func TestFieldsOutliveInterimResponses(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--upstream", behind(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}))
	resp, _ := fetch(t, http.DefaultClient, "GET", r.url)
	if got := resp.Header.Values("RateLimit"); len(got) != 1 || got[0] != `"9/1h";r=8;t=3600` {
		t.Errorf("RateLimit is %q in %v", got, resp.Header)
	}
}

// TestNoUpgradeToAnotherHTTP: an upstream that takes one would answer requests that no limit has seen. Other upgrades pass.
func TestNoUpgradeToAnotherHTTP(t *testing.T) {
	r := start(t, nil, "--limit", "99/1h", "--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Join([]string{r.Header.Get("Connection"), r.Header.Get("Upgrade"), r.Header.Get("HTTP2-Settings")}, " "))
	}))
	for protocol, want := range map[string]string{
		"h2c": "  ", "H2C": "  ", "HTTP/2.0": "  ", "TLS/1.0": "  ", "websocket": "Upgrade websocket ", "SPDY/3.1": "Upgrade SPDY/3.1 ",
	} {
		for _, connection := range []string{"Upgrade", "Upgrade, HTTP2-Settings"} {
			resp, got := fetch(t, http.DefaultClient, "GET", r.url, "Connection", connection, "Upgrade", protocol, "HTTP2-Settings", "AAMAAABkAAQAAP__")
			if resp.StatusCode != 200 || got != want {
				t.Errorf("%s by %s: %d %q, want %q", protocol, connection, resp.StatusCode, got, want)
			}
		}
	}
}

// TestConnectIsRefused: nobody gets a tunnel through the upstream.
func TestConnectIsRefused(t *testing.T) {
	r := start(t, nil, "--limit", "9/1h", "--upstream", behind(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") }))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestHTTP2Passes: from a client, to an upstream without TLS, to one with, and with trailers.
func TestHTTP2Passes(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, r.Proto+" "+string(body))
		w.Header().Set("X-Sum", "42")
	})
	clear := httptest.NewUnstartedServer(handler)
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	defer clear.Close()
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	client := h2c(t)
	for upstream, want := range map[string]string{
		"h2c" + strings.TrimPrefix(clear.URL, "http"): "HTTP/2.0 content",
		secure.URL:         "HTTP/2.0 content",
		behind(t, handler): "HTTP/1.1 content",
	} {
		// The host goes on as the client asked for it; the certificate is checked against the upstream's.
		r := start(t, []string{"SSL_CERT_FILE=" + roots}, "--limit", "20/1h", "--upstream", upstream)
		req, err := http.NewRequest("POST", r.url, strings.NewReader("content"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != 2 || string(body) != want || resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("%s: %s %d %q %v, %v; want %q: %s", upstream, resp.Proto, resp.StatusCode, body, resp.Trailer, err, want, r.said())
		}
	}
}

func TestUpstreamDown(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := gone.Addr().String()
	gone.Close()
	r := start(t, nil, "--limit", "100/1h", "--upstream", "http://"+address)
	for range 5 {
		resp, body := fetch(t, http.DefaultClient, "GET", r.url)
		if resp.StatusCode != 502 || body != `{"type":"about:blank","title":"Bad Gateway","status":502}` || resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("RateLimit") == "" {
			t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
		}
	}
	if n := strings.Count(r.said(), "does not answer"); n != 1 {
		t.Errorf("%d lines for one outage: %s", n, r.said())
	}
	if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, "\nslidegate_upstream_errors_total 5\n") {
		t.Error(text)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow := start(t, nil, "--limit", "100/1h", "--upstream", "http://"+silent.Addr().String(), "--upstream-timeout", "50ms")
	if resp, _ := fetch(t, http.DefaultClient, "GET", slow.url, "Accept", "text/plain"); resp.StatusCode != 504 || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("a silent upstream: %d %v", resp.StatusCode, resp.Header)
	}
}

// TestClientsFaultIsNoOutage: a client that hangs up, one whose body breaks off, and one whose upgrade
// cannot be are no evidence against the upstream, and nothing is logged of them.
func TestClientsFaultIsNoOutage(t *testing.T) {
	arrived, left := make(chan struct{}, 10), make(chan struct{}, 10)
	r := start(t, nil, "--limit", "100/1h", "--upstream", behind(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		left <- struct{}{}
	}))
	before := r.said()
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-arrived; hangUp() }()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		t.Errorf("%v", resp.Status)
		resp.Body.Close()
	}
	<-left
	for _, c := range []struct{ request, want string }{
		{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n", "HTTP/1.1 400"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", "HTTP/1.1 400"},
		{"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: \x80\r\n\r\n", "HTTP/1.1 400"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		io.WriteString(conn, c.request)
		conn.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || len(answer) > 0 && !strings.HasPrefix(string(answer), c.want) {
			t.Errorf("%q: %v, %q, want %s or nothing", c.request, err, answer, c.want)
		}
	}
	if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, "\nslidegate_upstream_errors_total 0\n") {
		t.Error(text)
	}
	r.terminate()
	r.end()
	after, _ := strings.CutPrefix(r.said(), before)
	for line := range strings.Lines(after) {
		if !strings.Contains(line, "draining") {
			t.Errorf("said %q", line)
		}
	}
}
