package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "slidegate-test-*")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "slidegate")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// cli runs the command to its end.
func cli(t *testing.T, env []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A running is a server process.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string // of the proxy
	admin  string
	mu     sync.Mutex
	stderr strings.Builder
	read   chan struct{} // closed when stderr ends
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.String()
}

// start runs slidegate serve on free ports and waits until it listens.
func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := &running{t: t, read: make(chan struct{})}
	r.cmd = exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	r.cmd.Env = append(os.Environ(), env...)
	pipe, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(r.read)
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			line := lines.Text()
			r.mu.Lock()
			r.stderr.WriteString(line + "\n")
			if at, ok := strings.CutPrefix(line, "slidegate: listening on "); ok {
				r.url = at
			}
			if at, ok := strings.CutPrefix(line, "  admin     "); ok {
				r.admin = strings.TrimSuffix(strings.Fields(at)[0], "/healthz")
				close(ready)
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.read
		r.cmd.Wait()
	})
	select {
	case <-ready:
	case <-r.read:
		t.Fatalf("the server ended: %s", r.said())
	case <-time.After(30 * time.Second):
		t.Fatalf("the server does not listen: %s", r.said())
	}
	return r
}

func fetch(t *testing.T, client *http.Client, method, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// statuses sends requests one after the other and returns what they got.
func (r *running) statuses(n int, headers ...string) (all []int) {
	r.t.Helper()
	for range n {
		resp, _ := fetch(r.t, http.DefaultClient, "GET", r.url+"/", headers...)
		all = append(all, resp.StatusCode)
	}
	return all
}

func (r *running) want(statuses string, headers ...string) {
	r.t.Helper()
	if got := fmt.Sprint(r.statuses(strings.Count(statuses, " ")+1, headers...)); got != "["+statuses+"]" {
		r.t.Errorf("%v got %s, want %s", headers, got, statuses)
	}
}

// eventually polls until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
		<-tick.C
	}
}

func TestDemo(t *testing.T) {
	out, errs, status := cli(t, nil, "demo")
	if out != "true,true,true,false,false,false,false,false,false,false\n" || errs != "" || status != 0 {
		t.Errorf("%q, %q, %d", out, errs, status)
	}
}

// TestBadUsage: each mistake gets one sentence on stderr that names it and what is allowed, and
// status 2; nothing is started and nothing printed.
func TestBadUsage(t *testing.T) {
	serve := func(args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--limit", "1/1s"}, args...)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--limit is missing: give at least one", []string{"serve"}},
		{"--limit is missing: give at least one", []string{"replay", "x.log"}},
		{`invalid limit: quota 0: allowed is 1 to 1000000000000`, []string{"serve", "--limit", "0/1s"}},
		{`"5": the form is [name=]QUOTA/WINDOW`, []string{"serve", "--limit", "5"}},
		{`the window "soon" is not a duration`, []string{"serve", "--limit", "5/soon"}},
		{`two limits have the name "a"`, []string{"serve", "--limit", "a=5/1s", "--limit", "a=6/1s"}},
		{"9 limits: allowed is 1 to 8", append([]string{"serve"}, strings.Split(strings.Repeat("--limit=1/1s ", 9)[:9*13-1], " ")...)},
		{"unknown flag: --limits", serve("--limits", "1/1s")},
		{"unknown command \"server\"", []string{"server"}},
		{"unknown command \"x\"", []string{"serve", "x"}},
		{`key "cookie": part "cookie" is unknown: allowed is ip, header:NAME`, serve("--key", "cookie")},
		{`part "header:" has no valid header name`, serve("--key", "ip+header:")},
		{`part "ip" is there twice`, serve("--key", "ip+ip")},
		{`trusted proxies "10.0.0.0/33": no CIDR`, serve("--trusted-proxies", "10.0.0.0/33")},
		{`trusted proxies "0.0.0.0/0": that is everybody`, serve("--trusted-proxies", "0.0.0.0/0")},
		{"ClientIPHeader X-Real-Ip without TrustProxies", serve("--client-ip-header", "X-Real-IP")},
		{"TrustHops 33: allowed is 1 to 32", serve("--trusted-hops", "33")},
		{"IPv6Prefix 16: allowed is 32 to 128", serve("--ipv6-prefix", "16")},
		{`header format "draft-5": allowed is draft-8`, serve("--headers", "draft-5")},
		{`header format "none": allowed is draft-8`, serve("--headers", "draft-8,none")},
		{`--on-store-error "maybe": allowed is open or closed`, serve("--on-store-error", "maybe")},
		{`--store "redis": allowed is memory`, serve("--store", "redis")},
		{`--upstream "ftp://x": allowed is a URL of http`, serve("--upstream", "ftp://x")},
		{`--upstream "127.0.0.1:3000": allowed is a URL`, serve("--upstream", "127.0.0.1:3000")},
		{`--admin "9090": allowed is HOST:PORT`, serve("--admin", "9090")},
		{`--listen "nowhere": allowed is HOST:PORT`, serve("--listen", "nowhere")},
		{"the cap of 0 keys: allowed is 1", serve("--max-keys", "0")},
		{"--grace 0s: allowed is a duration above 0", serve("--grace", "0s")},
		{`--log-format "xml": allowed is text or json`, serve("--log-format", "xml")},
		{"replay: no file", []string{"replay", "--limit", "1/1s"}},
		{`--format "xml": allowed is auto, jsonl`, []string{"replay", "--limit", "1/1s", "--format", "xml", "-"}},
		{`--key "path": allowed is ip`, []string{"replay", "--limit", "1/1s", "--key", "path", "-"}},
		{"--verdicts and --json: one of them", []string{"replay", "--limit", "1/1s", "--verdicts", "--json", "-"}},
	} {
		out, errs, status := cli(t, nil, c.args...)
		first, _, _ := strings.Cut(errs, "\n")
		if status != 2 || out != "" || !strings.Contains(first, c.want) || !strings.HasPrefix(first, "slidegate: ") {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want %q", c.args, status, out, errs, c.want)
		}
	}
}

// TestFailures: what goes wrong while it runs ends with status 1.
func TestFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, args := range [][]string{
		{"serve", "--limit", "1/1s", "--listen", taken.Addr().String()},
		{"serve", "--limit", "1/1s", "--listen", "127.0.0.1:0", "--admin", taken.Addr().String()},
		{"replay", "--limit", "1/1s", "no such file"},
		{"replay", "--limit", "1/1s", "."},
	} {
		if out, errs, status := cli(t, nil, args...); status != 1 || out != "" || !strings.HasPrefix(errs, "slidegate: ") || strings.Contains(errs, "listening") {
			t.Errorf("%v: status %d, stdout %q, stderr %q", args, status, out, errs)
		}
	}
}

func TestHelpVersionCompletion(t *testing.T) {
	for want, args := range map[string][]string{
		"slidegate serve --limit": {"--help"},
		"$SLIDEGATE_UPSTREAM":     {"serve", "--help"},
		"jsonl":                   {"replay", "-h"},
		"slidegate ":              {"--version"},
		"__start_slidegate":       {"completion", "bash"},
		"#compdef slidegate":      {"completion", "zsh"},
		"complete -c slidegate":   {"completion", "fish"},
		"Register-Argument":       {"completion", "powershell"},
	} {
		if out, errs, status := cli(t, nil, args...); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestServeAnswersItself(t *testing.T) {
	r := start(t, nil, "--limit", "burst=2/1h", "--limit", "day=5/1d,counter")
	resp, body := fetch(t, http.DefaultClient, "GET", r.url+"/hello?x=1")
	var answer struct {
		Method, Path, Client string
		Limits               []struct {
			Name             string
			Quota, Remaining int64
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Path != "/hello" || answer.Client != "127.0.0.1" || len(answer.Limits) != 2 || answer.Limits[0].Remaining != 1 {
		t.Errorf("%v: %s", err, body)
	}
	if got := resp.Header.Get("RateLimit-Policy"); got != `"burst";q=2;w=3600, "day";q=5;w=86400` {
		t.Errorf("policy %q", got)
	}
	r.want("200 429 429")
	for _, want := range []string{"burst=2/1h and day=5/1d,counter: all are charged or none", "told apart by ip", "memory of this process", "open: requests that cannot be decided pass", "curl -i http://", "docs/command.md"} {
		eventually(t, "the start says "+want, func() bool { return strings.Contains(r.said(), want) })
	}
}

func TestEnvironmentSetsFlags(t *testing.T) {
	r := start(t, []string{"SLIDEGATE_LIMIT=a=2/1h; b=9/1d,counter", "SLIDEGATE_KEY=header:X-Key", "SLIDEGATE_HEADERS=draft-7,legacy-delta"})
	resp, _ := fetch(t, http.DefaultClient, "GET", r.url, "X-Key", "k")
	if resp.Header.Get("RateLimit") != "limit=2, remaining=1, reset=3600" || resp.Header.Get("RateLimit-Policy") != "2;w=3600, 9;w=86400" || resp.Header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("%v", resp.Header)
	}
	flag := start(t, []string{"SLIDEGATE_LIMIT=2/1h"}, "--limit", "7/1h") // the command line wins
	if resp, _ := fetch(t, http.DefaultClient, "GET", flag.url); resp.Header.Get("RateLimit-Policy") != `"7/1h";q=7;w=3600` {
		t.Errorf("%v", resp.Header)
	}
	if _, errs, status := cli(t, []string{"SLIDEGATE_IPV6_PREFIX=many"}, "serve", "--limit", "1/1s"); status != 2 || !strings.Contains(errs, "SLIDEGATE_IPV6_PREFIX") {
		t.Errorf("%d, %s", status, errs)
	}
}

func TestKeyExpressions(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--key", "header:X-Key+path")
	r.want("200 429", "X-Key", "a")
	r.want("200 429", "X-Key", "b")
	r.want("200 429") // without it: the address
	for path, want := range map[string]int{"/other": 200, "//": 429, "/./": 429, "/?q=1": 429} {
		if resp, _ := fetch(t, http.DefaultClient, "GET", r.url+path, "X-Key", "a"); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	shared := start(t, nil, "--limit", "1/1h", "--key", "host+method")
	eventually(t, "a key without a client is warned about", func() bool { return strings.Contains(shared.said(), "no client in it") })
	shared.want("200 429", "Host", "a.example")
	shared.want("200 429", "Host", "B.example:80")
	shared.want("429", "Host", "b.example")
}

func TestForwardedForCountsFromTrustedProxiesAlone(t *testing.T) {
	spoofed := start(t, nil, "--limit", "1/1h")
	spoofed.want("200", "X-Forwarded-For", "203.0.113.1")
	spoofed.want("429", "X-Forwarded-For", "203.0.113.2", "X-Real-IP", "203.0.113.3", "Forwarded", "for=203.0.113.4")
	trusted := start(t, nil, "--limit", "1/1h", "--trusted-proxies", "127.0.0.0/8,::1")
	trusted.want("200 429", "X-Forwarded-For", "203.0.113.1")
	trusted.want("200 429", "X-Forwarded-For", "203.0.113.1, 203.0.113.2")
	single := start(t, nil, "--limit", "1/1h", "--trusted-proxies", "127.0.0.1", "--client-ip-header", "CF-Connecting-IP")
	single.want("200 429", "CF-Connecting-IP", "2001:db8::1")
	single.want("429", "CF-Connecting-IP", "2001:db8::2") // one network
	single.want("200", "CF-Connecting-IP", "2001:db8:0:100::1")
}

func TestProxy(t *testing.T) {
	seen := make(chan *http.Request, 100)
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("X-RateLimit-Limit", "the upstream's")
		w.Header().Add("RateLimit-Policy", `"upstream";q=1;w=1`)
		w.WriteHeader(201)
		io.WriteString(w, "from upstream "+r.URL.String())
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, "last\n")
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buf.ReadString('\n')
		io.WriteString(conn, "echo "+line)
	})
	upstream := httptest.NewServer(mux)
	defer upstream.Close()
	r := start(t, nil, "--limit", "20/1h", "--upstream", upstream.URL, "--headers", "draft-8,legacy")

	resp, body := fetch(t, http.DefaultClient, "GET", r.url+"/a%2Fb?x=%20", "Host", "shop.example", "X-Forwarded-For", "6.6.6.6", "Connection", "X-Hop", "X-Hop", "1")
	got := <-seen
	if resp.StatusCode != 201 || body != "from upstream /a%2Fb?x=%20" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	if got.Host != "shop.example" || got.Header.Get("X-Forwarded-For") != "127.0.0.1" || got.Header.Get("X-Forwarded-Host") != "shop.example" || got.Header.Get("X-Hop") != "" {
		t.Errorf("the upstream saw host %q and %v", got.Host, got.Header)
	}
	if lines := resp.Header.Values("X-RateLimit-Limit"); len(lines) != 1 || lines[0] != "20" {
		t.Errorf("X-RateLimit-Limit %q", lines)
	}
	if lines := strings.Join(resp.Header.Values("RateLimit-Policy"), ", "); lines != `"20/1h";q=20;w=3600, "upstream";q=1;w=1` {
		t.Errorf("RateLimit-Policy %q", lines)
	}

	stream, err := http.Get(r.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 6)
	if _, err := io.ReadFull(stream.Body, first); err != nil || string(first) != "first\n" {
		t.Errorf("%q, %v before the upstream has ended", first, err)
	}
	close(release)
	io.Copy(io.Discard, stream.Body)
	stream.Body.Close()

	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	answer := bufio.NewReader(conn)
	upgraded, err := http.ReadResponse(answer, nil)
	if err != nil || upgraded.StatusCode != 101 {
		t.Fatalf("%v, %v", upgraded, err)
	}
	io.WriteString(conn, "hello\n")
	if line, err := answer.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}

	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	h2c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer h2c.CloseIdleConnections()
	if resp, _ := fetch(t, h2c, "GET", r.url+"/"); resp.ProtoMajor != 2 || resp.StatusCode != 201 {
		t.Errorf("HTTP/2: %s %d", resp.Proto, resp.StatusCode)
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
		if resp, body := fetch(t, http.DefaultClient, "GET", r.url); resp.StatusCode != 502 || !strings.Contains(body, "Bad Gateway") || strings.Contains(body, address) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if n := strings.Count(r.said(), "does not answer"); n != 1 {
		t.Errorf("%d lines for one change of state: %s", n, r.said())
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow := start(t, nil, "--limit", "100/1h", "--upstream", "http://"+silent.Addr().String(), "--upstream-timeout", "50ms")
	if resp, _ := fetch(t, http.DefaultClient, "GET", slow.url); resp.StatusCode != 504 {
		t.Errorf("a silent upstream: %d", resp.StatusCode)
	}
}

func TestAdmin(t *testing.T) {
	r := start(t, nil, "--limit", "first=3/1h", "--limit", "second=100/1h", "--key", "header:X-Key")
	series := func() (n int, text string) {
		_, text = fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		return n, text
	}
	before, _ := series()
	for i := range 50 {
		r.statuses(1, "X-Key", fmt.Sprint("secret", i))
	}
	r.want("200 200 200 429 429", "X-Key", "secret")
	after, text := series()
	if before != after {
		t.Errorf("%d series, then %d", before, after)
	}
	for _, want := range []string{
		`slidegate_decisions_total{limit="first",result="admitted"} 53`, `slidegate_decisions_total{limit="first",result="refused"} 2`,
		`slidegate_decisions_total{limit="second",result="admitted"} 53`, `slidegate_decisions_total{limit="second",result="refused"} 0`,
		"slidegate_tracked_keys 51", "slidegate_evictions_total 0", "slidegate_store_errors_total 0", "slidegate_decision_duration_seconds_count 55",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("a key is in the metrics")
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if resp, body := fetch(t, http.DefaultClient, "GET", r.admin+path); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
}

func TestDrain(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		io.WriteString(w, "done")
	}))
	defer upstream.Close()
	r := start(t, nil, "--limit", "100/1h", "--upstream", upstream.URL)
	body := make(chan string, 1)
	go func() {
		resp, err := http.Get(r.url)
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		body <- string(b)
	}()
	<-arrived
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "readyz says draining", func() bool {
		resp, err := http.Get(r.admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 503
	})
	eventually(t, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(release)
	if got := <-body; got != "done" {
		t.Errorf("the request under way got %q", got)
	}
	<-r.read
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("ended with %v: %s", err, r.said())
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-release }))
	defer upstream.CloseClientConnections()
	r := start(t, nil, "--limit", "100/1h", "--upstream", upstream.URL, "--grace", "10m")
	go func() {
		if resp, err := http.Get(r.url); err == nil {
			resp.Body.Close()
		}
	}()
	<-arrived
	r.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "draining", func() bool { return strings.Contains(r.said(), "draining") })
	r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.read:
	case <-time.After(20 * time.Second):
		t.Error("still there after a second signal")
	}
}

// TestCommandPageNamesEveryFlag, and no other: docs/command.md and the help are equal.
func TestCommandPageNamesEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`--[a-z][a-z0-9-]+`)
	for _, command := range []string{"serve", "replay"} {
		_, section, _ := strings.Cut(string(page), "\n## "+command+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var rows []string
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "| `--") {
				rows = append(rows, flag.FindString(line))
			}
		}
		help, _, status := cli(t, nil, command, "--help")
		if status != 0 {
			t.Fatalf("%s --help: status %d", command, status)
		}
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		var named []string
		for line := range strings.Lines(flags) {
			if name := flag.FindString(line); name != "" && name != "--help" && strings.Index(line, name) < 8 {
				named = append(named, name)
			}
		}
		slices.Sort(rows)
		slices.Sort(named)
		if len(named) < 5 || !slices.Equal(rows, named) {
			t.Errorf("%s: the page has %v, the command %v", command, rows, named)
		}
	}
	for _, metric := range regexp.MustCompile("`(slidegate_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		r := metricNames(t)
		if !strings.Contains(r, "# TYPE "+metric[1]+" ") {
			t.Errorf("there is no metric %s", metric[1])
		}
	}
}

var metricNames = func() func(t *testing.T) string {
	text := ""
	return func(t *testing.T) string {
		if text == "" {
			r := start(t, nil, "--limit", "1/1s")
			_, text = fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		}
		return text
	}
}()
