package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// connect returns a connection, from an address of this machine, with a deadline that only a failure meets.
func connect(t *testing.T, url, from string) net.Conn {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn
}

// ask sends a request on a connection and returns its answer, nil where the connection ends without one.
func ask(t *testing.T, conn net.Conn, request string) *http.Response {
	t.Helper()
	io.WriteString(conn, request) // who is turned away may be closed by now
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("no answer, and no end")
	}
	if err != nil {
		return nil
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

const plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// wantShed fails unless an answer turns somebody away in the way that clients understand.
func wantShed(t *testing.T, what string, resp *http.Response) {
	t.Helper()
	if resp == nil {
		t.Errorf("%s: no answer", what)
		return
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Content-Type") != "application/problem+json" ||
		string(body) != `{"type":"about:blank","title":"Service Unavailable","status":503}` {
		t.Errorf("%s: %s %v %s", what, resp.Status, resp.Header, body)
	}
}

// wantEpisode fails unless so many were shed for a reason and the log has one line for it.
func (r *running) wantEpisode(reason, n string) {
	r.t.Helper()
	if got := r.metric(`slidegate_shed_total{reason="` + reason + `"}`); got != n {
		r.t.Errorf("%s were shed for %s, want %s", got, reason, n)
	}
	eventually(r.t, "the log tells of "+reason, func() bool { return strings.Contains(r.said(), "reason="+reason+"\n") })
	if n := strings.Count(r.said(), "reason="+reason+"\n"); n != 1 {
		r.t.Errorf("the log tells of %s %d times: %s", reason, n, r.said())
	}
}

// TestConnectionsAreBounded at each door by itself, and a place that is left is taken.
func TestConnectionsAreBounded(t *testing.T) {
	r := start(t, nil, "--limit", "99/1h", "--max-connections", "3", "--api-listen", "127.0.0.1:0")
	var held []net.Conn
	for range 3 {
		conn := connect(t, r.url, "127.0.0.1")
		if resp := ask(t, conn, plain); resp == nil || resp.StatusCode != 200 {
			t.Fatalf("%v", resp)
		}
		held = append(held, conn)
	}
	for i := range 5 {
		wantShed(t, fmt.Sprint("connection ", 4+i), ask(t, connect(t, r.url, "127.0.0.1"), plain))
	}
	for _, url := range []string{r.api + "/openapi.json", r.admin + "/healthz"} {
		if resp, _ := fetch(t, http.DefaultClient, "GET", url); resp.StatusCode != 200 {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
	if resp := ask(t, held[0], plain); resp == nil || resp.StatusCode != 200 {
		t.Errorf("who is connected: %v", resp)
	}
	r.wantEpisode("connections", "5")
	held[1].Close()
	eventually(t, "a place is free", func() bool {
		resp := ask(t, connect(t, r.url, "127.0.0.1"), plain)
		return resp != nil && resp.StatusCode == 200
	})
}

// TestConnectionsOfAClientAreBounded, but not those of who connects for others.
func TestConnectionsOfAClientAreBounded(t *testing.T) {
	for _, c := range []struct {
		what     string
		args     []string
		bounded  bool
		preamble string
	}{
		{"a client", nil, true, ""},
		{"a client beside a proxy", []string{"--trusted-proxies", "127.0.0.9"}, true, ""},
		{"a trusted proxy", []string{"--trusted-proxies", "127.0.0.0/8"}, false, ""},
		{"a balancer", []string{"--proxy-protocol", "listen"}, false, string(version1("203.0.113.9:1"))},
	} {
		r := start(t, nil, append([]string{"--limit", "99/1h", "--max-connections-per-client", "2"}, c.args...)...)
		ok := func(from string) bool {
			resp := ask(t, connect(t, r.url, from), c.preamble+plain)
			return resp != nil && resp.StatusCode == 200
		}
		for i, want := range []bool{true, true, !c.bounded} {
			if got := ok("127.0.0.1"); got != want {
				t.Errorf("%s, connection %d: %t", c.what, i, got)
			}
		}
		if !ok("127.0.0.2") {
			t.Errorf("%s: another client is turned away", c.what)
		}
		if c.bounded {
			r.wantEpisode("connections_per_client", "1")
		}
	}
}

// TestRequestsAreBounded over all doors together. Who is turned away is charged nothing, and whoever watches is always told.
func TestRequestsAreBounded(t *testing.T) {
	upstream := hold(t)
	r := start(t, nil, "--limit", "9/1h", "--upstream", upstream.url, "--max-requests", "2", "--api-listen", "127.0.0.1:0",
		"--rls-listen", "127.0.0.1:0", "--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1")))
	first, second := background(http.DefaultClient, r.url), background(h2c(t), r.url)
	<-upstream.arrived
	<-upstream.arrived
	for what, request := range map[string]string{
		"a request":                      plain,
		"a request with a body":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"a request with a body in parts": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npiece",
	} {
		wantShed(t, what, ask(t, connect(t, r.url, "127.0.0.1"), request))
	}
	resp, _ := fetch(t, h2c(t), "GET", r.url)
	if resp.StatusCode != 503 || resp.ProtoMajor != 2 {
		t.Errorf("HTTP/2: %s %s", resp.Proto, resp.Status)
	}
	if resp, body := fetch(t, http.DefaultClient, "POST", r.api+"/v1/take"); resp.StatusCode != 503 {
		t.Errorf("the JSON door: %d %s", resp.StatusCode, body)
	}
	if status, answer := r.askRLS(asAda); status != 503 {
		t.Errorf("/json: %d %s", status, answer)
	}
	conn := r.dial()
	if _, err := limited(conn, "ada"); status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC: %v", err)
	}
	if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the health of gRPC: %v, %v", h, err)
	}
	for _, url := range []string{r.admin + "/healthz", r.admin + "/readyz", strings.TrimSuffix(r.json, "/json") + "/healthcheck"} {
		if resp, body := fetch(t, http.DefaultClient, "GET", url); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", url, resp.StatusCode, body)
		}
	}
	if got := r.metric("slidegate_requests"); got != "2" {
		t.Errorf("%s requests are under way", got)
	}
	r.wantEpisode("requests", "7")
	close(upstream.release)
	for i, got := range []string{<-first, <-second} {
		if got != "done" {
			t.Errorf("request %d, which was under way: %q", i, got)
		}
	}
	eventually(t, "nothing is under way", func() bool { return r.metric("slidegate_requests") == "0" })
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.url); resp.Header.Get("RateLimit") != `"9/1h";r=6;t=3600` {
		t.Errorf("3 requests were let in, and then %v", resp.Header)
	}
}

// TestSlowClientsAreCutOff: those that send no header, no body, or take no answer, in both versions of HTTP.
func TestSlowClientsAreCutOff(t *testing.T) {
	r := start(t, nil, "--limit", "5/1h", "--key", "header:X-Key", "--client-timeout", "300ms", "--read-header-timeout", "300ms", "--idle-timeout", "300ms",
		"--upstream", behind(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				io.Copy(w, io.LimitReader(endless{}, 64<<20))
			}
		}))
	for what, c := range map[string]struct{ request, want string }{
		"nothing":                    {"", ""},
		"half a header":              {"GET / HTTP/1.1\r\nHost: a\r\nX-", ""},
		"half a body":                {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf", "408"},
		"half a body in parts":       {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf", "408"},
		"half a header over HTTP/2":  {http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82", ""},
		"half a preface over HTTP/2": {http2.ClientPreface[:10], ""},
	} {
		conn := connect(t, r.url, "127.0.0.1")
		io.WriteString(conn, c.request)
		answer, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open after %q", what, answer)
		}
		if c.want != "" && !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.want) {
			t.Errorf("%s: %q, %v", what, answer, err)
		}
	}
	// A request that is refused is answered; who then does not send the rest of its body is not waited for.
	for range 5 {
		resp := ask(t, connect(t, r.url, "127.0.0.1"), "HEAD / HTTP/1.1\r\nHost: a\r\nX-Key: b\r\nConnection: close\r\n\r\n")
		if resp == nil || resp.StatusCode != 200 {
			t.Fatalf("%v", resp)
		}
	}
	refused := connect(t, r.url, "127.0.0.1")
	io.WriteString(refused, "POST / HTTP/1.1\r\nHost: a\r\nX-Key: b\r\nContent-Length: 100\r\n\r\nhalf")
	if answer, err := io.ReadAll(refused); errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(answer), "HTTP/1.1 429") {
		t.Errorf("refused with half a body: %q, %v", answer, err)
	}
	certificate, key := newAuthority(t).files("shop.example")
	doors := start(t, nil, "--limit", "5/1h", "--read-header-timeout", "300ms", "--tls-cert", certificate, "--tls-key", key, "--rls-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1")))
	for what, c := range map[string]struct{ url, begin string }{
		"TLS, nothing": {doors.url, ""}, "TLS, half a hello": {doors.url, "\x16\x03\x01\x02\x00\x01"}, "gRPC, nothing": {"grpc://" + doors.rls, ""},
	} {
		conn := connect(t, c.url, "127.0.0.1")
		io.WriteString(conn, c.begin)
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", what)
		}
	}
	reader := connect(t, r.url, "127.0.0.1")
	io.WriteString(reader, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: c\r\n\r\n")
	eventually(t, "who takes no answer is cut off", func() bool { return r.metric("slidegate_requests") == "0" && r.metric("slidegate_connections") == "0" })
	frames := newFrames(t, r.url)
	frames.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // nothing may be sent to it
	frames.request(1, true, "x-key", "d")
	frames.request(3, false, "x-key", "e") // and sends no body
	for reset := 0; reset < 2; {
		switch f := frames.read().(type) {
		case nil:
			t.Fatal("HTTP/2: the connection ended")
		case *http2.RSTStreamFrame:
			reset++
		case *http2.HeadersFrame:
			if f.StreamID == 3 { // 408, of which the text cannot be sent
				continue
			}
		}
	}
	eventually(t, "nothing is under way", func() bool { return r.metric("slidegate_requests") == "0" })
	if n := strings.Count(r.said(), "reason=slow_client\n"); n != 1 {
		t.Errorf("the log tells of slow clients %d times: %s", n, r.said())
	}
}

// frames are those of a connection of HTTP/2 whose client does as it likes.
type frames struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	out *bufio.Writer
}

func newFrames(t *testing.T, url string) *frames {
	t.Helper()
	conn := connect(t, url, "127.0.0.1")
	out := bufio.NewWriter(conn)
	out.WriteString(http2.ClientPreface)
	return &frames{t, conn, http2.NewFramer(out, bufio.NewReader(conn)), out}
}

func (f *frames) settings(all ...http2.Setting) {
	f.WriteSettings(all...)
	f.out.Flush()
}

// request begins one, with fields of name and value in turn; end tells whether it has no body.
func (f *frames) request(id uint32, end bool, fields ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	method := "GET"
	if !end {
		method = "POST"
	}
	for i, fields := 0, append([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", "/"}, fields...); i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	f.out.Flush()
}

// read returns the next frame, nil where the connection has ended. Settings and pings are answered.
func (f *frames) read() http2.Frame {
	f.t.Helper()
	frame, err := f.ReadFrame()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Fatal("no frame, and no end")
	}
	if err != nil {
		return nil
	}
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			f.WriteSettingsAck()
			f.out.Flush()
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			f.WritePing(true, frame.Data)
			f.out.Flush()
		}
	}
	return frame
}

// TestRapidResetIsOutlived: requests that are given up as soon as they are made, by thousands, end the connection and nothing
// else. See CVE-2023-44487.
func TestRapidResetIsOutlived(t *testing.T) {
	r := start(t, nil, "--limit", "1000000/1h", "--upstream", behind(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			<-r.Context().Done()
		}
	}))
	f := newFrames(t, r.url)
	f.settings()
	streams := false
	if s, ok := f.read().(*http2.SettingsFrame); ok {
		v, said := s.Value(http2.SettingMaxConcurrentStreams)
		streams = said && v == 250
	}
	if !streams {
		t.Error("a client is not told how many requests it may have under way")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, f.conn)
	}()
	for id := uint32(1); id < 200000; id += 2 {
		f.request(id, true)
		if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break
		}
		select {
		case <-ended:
			id = 1 << 30
		default:
		}
	}
	eventually(t, "nothing is under way", func() bool { return r.metric("slidegate_requests") == "0" })
	for _, client := range []*http.Client{http.DefaultClient, h2c(t)} {
		if resp, _ := fetch(t, client, "GET", r.url+"/quick"); resp.StatusCode != 200 {
			t.Errorf("afterwards: %s", resp.Status)
		}
	}
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.admin+"/healthz"); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

// TestAFloodOfKeysKeepsMemoryFlat: once the store is full, ten times as many keys take no more.
func TestAFloodOfKeysKeepsMemoryFlat(t *testing.T) {
	const most, batch = 30000, 100
	r := start(t, nil, "--limit", "5/1h", "--max-keys", strconv.Itoa(most), "--api-listen", "127.0.0.1:0")
	made := 0
	flood := func(n int) {
		for range n / batch {
			var body strings.Builder
			body.WriteString(`{"requests":[`)
			for i := range batch {
				if i > 0 {
					body.WriteByte(',')
				}
				made++
				fmt.Fprintf(&body, `{"key":"key-%d","cost":2}`, made)
			}
			body.WriteString("]}")
			resp, err := http.Post(r.api+"/v1/batch", "application/json", strings.NewReader(body.String()))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Fatalf("%s", resp.Status)
			}
		}
	}
	resident := func() float64 {
		n, err := strconv.ParseFloat(r.metric("process_resident_memory_bytes"), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	flood(2 * most)
	before := resident()
	flood(10 * most)
	if after := resident(); after > 1.5*before {
		t.Errorf("%.0f MB, and after ten times as many keys as may be %.0f MB", before/1e6, after/1e6)
	}
	if got := r.metric("slidegate_tracked_keys"); got != strconv.Itoa(most) {
		t.Errorf("%s keys are kept", got)
	}
	if n := strings.Count(r.said(), "level=WARN"); n > 2 {
		t.Errorf("%d warnings: %s", n, r.said())
	}
}
