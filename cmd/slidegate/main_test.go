package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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

// environ is the environment without variables of ours, and env.
func environ(env []string) []string {
	ours := func(setting string) bool { return strings.HasPrefix(setting, "SLIDEGATE_") }
	return append(slices.DeleteFunc(os.Environ(), ours), env...)
}

// cli runs the command to its end.
func cli(t *testing.T, env []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environ(env)
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
	auth   string // of the forward-auth door
	api    string // of the JSON door
	rls    string // of the rate limit service: host and port
	json   string // of the same over HTTP
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
	r.cmd.Env = environ(env)
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
			if r.hear(lines.Text()) {
				close(ready)
			}
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

// hear keeps a line of stderr and tells whether the server's addresses are known with it.
func (r *running) hear(line string) (ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stderr.WriteString(line + "\n")
	admin := ""
	if at, ok := strings.CutPrefix(line, "slidegate: listening on "); ok {
		r.url = at
	} else if at, ok := strings.CutPrefix(line, "  admin     "); ok {
		admin = at
	} else if at, ok := strings.CutPrefix(line, "  rls       grpc://"); ok {
		r.rls = strings.Fields(at)[0]
	} else if at, ok := strings.CutPrefix(line, "  rls http  "); ok {
		r.json = strings.Fields(at)[0]
	} else if at, ok := strings.CutPrefix(line, "  auth      "); ok {
		r.auth = strings.Fields(at)[0]
	} else if at, ok := strings.CutPrefix(line, "  api       "); ok {
		r.api = strings.TrimSuffix(strings.Fields(at)[0], "/openapi.json")
	} else if object := (struct{ Msg, URL, Admin string }{}); json.Unmarshal([]byte(line), &object) == nil && object.Msg == "listening" {
		r.url, admin = object.URL, object.Admin
	}
	if admin != "" {
		r.admin = strings.TrimSuffix(strings.Fields(admin)[0], "/healthz")
	}
	return admin != ""
}

// end waits until the process has ended by itself and returns its status, -1 if a signal ended it.
func (r *running) end() int {
	r.t.Helper()
	select {
	case <-r.read:
	case <-time.After(30 * time.Second):
		r.t.Fatalf("the server does not end: %s", r.said())
	}
	r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// terminate sends SIGTERM.
func (r *running) terminate() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
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
		{"worst: no limit: name at least one, such as 100/2s", []string{"worst"}},
		{"quota 0: allowed is 1 to 1000000000000", []string{"worst", "0/2s"}},
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
		{`--trusted-proxies "10.0.0.0/33": no CIDR`, serve("--trusted-proxies", "10.0.0.0/33")},
		{`--trusted-proxies "0.0.0.0/0": that is everybody`, serve("--trusted-proxies", "0.0.0.0/0")},
		{"--client-ip-header X-Real-Ip without --trusted-proxies or --trusted-hops", serve("--client-ip-header", "X-Real-IP")},
		{"--trusted-hops 33: allowed is 1 to 32", serve("--trusted-hops", "33")},
		{"--trusted-hops 0: allowed is 1 to 32", serve("--trusted-hops", "0")},
		{"--ipv6-prefix 16: allowed is 32 to 128", serve("--ipv6-prefix", "16")},
		{`--headers "draft-5": allowed is draft-8`, serve("--headers", "draft-5")},
		{`--headers "none": allowed is draft-8`, serve("--headers", "draft-8,none")},
		{`--on-store-error "maybe": allowed is open or closed`, serve("--on-store-error", "maybe")},
		{`--store "redis": allowed is memory, or a URL such as redis://127.0.0.1:6379/0`, serve("--store", "redis")},
		{`--store "redis": allowed is memory, or a URL`, []string{"replay", "--limit", "1/1s", "--store", "redis", "-"}},
		{`--store "http": allowed is a URL such as redis://`, []string{"peek", "k", "--limit", "1/1s", "--store", "http://x"}},
		{"--store: allowed is memory, or a URL", serve("--store", "app:secret@redis:6379")},
		{"--store: a port is a whole number of 1 to 65535", serve("--store", "redis://app:secret")},
		{"--store: the URL cannot be read: in a user name or a password / is written as %2F", serve("--store", "redis://app:sec/secret@redis")},
		{"--store: the parameter password is unknown: allowed with redis:// is db", serve("--store", "redis://redis?password=secret")},
		{"--store: there is a user name and no password", serve("--store", "redis://secret@redis")},
		{"--store: redis:// has 2 hosts", serve("--store", "redis://:secret@a,b")},
		{"--store: the name that the sentinels have for the primary is missing", serve("--store", "redis+sentinel://:secret@a")},
		{"--store: a cluster has the database 0 alone", serve("--store", "redis+cluster://:secret@a/1")},
		{`unknown command "redis://app:xxxxx@redis"`, serve("redis://app:secret@redis")},
		{"--store-timeout 0s: allowed is 1ms to 1m", serve("--store", "redis://redis", "--store-timeout", "0")},
		{`--store-timeout "5": allowed is a duration`, serve("--store", "redis://redis", "--store-timeout", "5")},
		{`--store-prefix "": allowed is text that is not blank, without braces and control characters`, serve("--store", "redis://redis", "--store-prefix", "")},
		{`--client "jedis": allowed is rueidis or goredis`, serve("--store", "redis://redis", "--client", "jedis")},
		{"--max-keys: it is about the memory store, and --store is Redis", serve("--store", "redis://redis", "--max-keys", "5")},
		{"--when-full: it is about the memory store, and --store is Redis", serve("--store", "redis://redis", "--when-full", "refuse")},
		{"--store-prefix: it is about Redis, and --store is memory", serve("--store-prefix", "x")},
		{"--fallback: it is about Redis, and --store is memory", serve("--fallback", "1/4")},
		{"--remember-refusals: it is about Redis, and --store is memory", serve("--remember-refusals", "1s")},
		{`--fallback "half": allowed is none, replicas, or a share of 1/1000000 to 1/1, such as 1/4`, serve("--store", "redis://redis", "--fallback", "half")},
		{`--fallback "5/4": allowed is none, replicas, or a share`, serve("--store", "redis://redis", "--fallback", "5/4")},
		{`--fallback "1/1000001": allowed is none, replicas, or a share`, serve("--store", "redis://redis", "--fallback", "1/1000001")},
		{`--remember-refusals 2m0s: allowed is 0s for not at all, or 1ms to 1m`, serve("--store", "redis://redis", "--remember-refusals", "2m")},
		{`--remember-refusals-max 7: allowed is 8 to 16777216`, serve("--store", "redis://redis", "--remember-refusals", "1s", "--remember-refusals-max", "7")},
		{`--remember-refusals-max: it is about --remember-refusals, which is not given`, serve("--store", "redis://redis", "--remember-refusals-max", "8")},
		{"--client: it is about Redis, and --store is memory", serve("--client", "goredis", "--store", "memory")},
		{"--store-cleanup: it is about Redis, and --store is memory", []string{"replay", "--limit", "1/1s", "--store-cleanup", "-"}},
		{"--store-password-file: there is no file no such file", serve("--store", "redis://redis", "--store-password-file", "no such file")},
		{"--store-password-file: . cannot be read", serve("--store", "redis://redis", "--store-password-file", ".")},
		{"--store and --store-password-file: a password is given twice", serve("--store", "redis://:secret@redis", "--store-password-file", "main.go")},
		{"--store memory: that is the memory of the process that serves, and peek cannot look into it", []string{"peek", "k", "--limit", "1/1s", "--store", "memory"}},
		{"--store is missing: give the Redis that serve uses", []string{"take", "k", "--limit", "1/1s"}},
		{"--limit is missing: give at least one", []string{"reset", "k", "--store", "redis://redis"}},
		{"peek: name one KEY", []string{"peek", "--limit", "1/1s"}},
		{"take: name one KEY", []string{"take", "", "--limit", "1/1s"}},
		{"--cost -1: allowed is a whole number from 0", []string{"take", "k", "--limit", "1/1s", "--cost", "-1", "--store", "redis://redis"}},
		{`--cost "much": allowed is a whole number`, []string{"take", "k", "--limit", "1/1s", "--cost", "much"}},
		{"unknown flag: --cost", []string{"reset", "k", "--cost", "1"}},
		{`--upstream "ftp://x": allowed is a URL of http`, serve("--upstream", "ftp://x")},
		{`--upstream "127.0.0.1:3000": allowed is a URL`, serve("--upstream", "127.0.0.1:3000")},
		{`--admin "9090": allowed is HOST:PORT`, serve("--admin", "9090")},
		{`--listen "nowhere": allowed is HOST:PORT`, serve("--listen", "nowhere")},
		{"--max-keys 0: allowed is 1 to 1073741824", serve("--max-keys", "0")},
		{`--max-keys "many": allowed is a whole number`, serve("--max-keys", "many")},
		{`--max-keys 2147483648: allowed is 1 to`, serve("--max-keys", "2147483648")},
		{`--trusted-hops "": allowed is a whole number`, serve("--trusted-hops", "")},
		{"--trusted-hops 2 with X-Real-Ip, which holds one address", serve("--trusted-hops", "2", "--client-ip-header", "X-Real-IP")},
		{`--client-ip-header "X Real": allowed is the name of a header`, serve("--client-ip-header", "X Real")},
		{`--headers is empty: allowed is draft-8`, serve("--headers", "")},
		{`--when-full "panic": allowed is forget or refuse`, serve("--when-full", "panic")},
		{`--upstream "http://u:xxxxx@x": a user`, serve("--upstream", "http://u:secret@x")},
		{`--upstream cannot be read: allowed is a URL`, serve("--upstream", "http://u:secret@x:http")},
		{`--upstream "http://x/?a=b": a user, a query`, serve("--upstream", "http://x/?a=b")},
		{`--upstream "http://:3000": allowed is a URL`, serve("--upstream", "http://:3000")},
		{`--upstream "http://x:70000": allowed is a URL`, serve("--upstream", "http://x:70000")},
		{`--listen "127.0.0.1:70000": allowed is HOST:PORT with a port of 0 to 65535`, serve("--listen", "127.0.0.1:70000")},
		{`--listen "": allowed is HOST:PORT`, serve("--listen", "")},
		{"--upstream: it is about --listen, which is empty", serve("--listen", "", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--upstream", "http://x")},
		{`--auth-listen "9100": allowed is HOST:PORT`, serve("--auth-listen", "9100", "--auth-dialect", "nginx")},
		{"--auth-dialect is missing: allowed is nginx, ingress-nginx, traefik, caddy, haproxy, envoy", serve("--auth-listen", "127.0.0.1:0")},
		{`--auth-dialect "apache": allowed is nginx,`, serve("--auth-listen", "127.0.0.1:0", "--auth-dialect", "apache")},
		{"--auth-dialect: it is about --auth-listen, which is not given", serve("--auth-dialect", "nginx")},
		{"--auth-deny-status: it is about --auth-listen", serve("--auth-deny-status", "403")},
		{"--auth-trusted-peers: it is about --auth-listen", serve("--auth-trusted-peers", "10.0.0.0/8")},
		{"--auth-deny-status 500: allowed is 400 to 499", serve("--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--auth-deny-status", "500")},
		{`--auth-trusted-peers "0.0.0.0/0": that is everybody`, serve("--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--auth-trusted-peers", "0.0.0.0/0")},
		{`--auth-trusted-peers "nginx": no address`, serve("--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--auth-trusted-peers", "nginx")},
		{`--api-listen "9200": allowed is HOST:PORT`, serve("--api-listen", "9200")},
		{"--api-token-file: it is about --api-listen, which is not given", serve("--api-token-file", "main.go")},
		{"--key: it is about --listen and --auth-listen, which are empty", serve("--listen", "", "--api-listen", "127.0.0.1:0", "--key", "path")},
		{"--on-store-error: it is about --listen and --auth-listen", serve("--listen", "", "--api-listen", "127.0.0.1:0", "--on-store-error", "closed")},
		{"--upstream: it is about --listen and --auth-listen", serve("--listen", "", "--api-listen", "127.0.0.1:0", "--upstream", "http://x")},
		{`--proxy-protocol "proxy": allowed is listen, auth-listen, api-listen, rls-listen, rls-http-listen, admin`, serve("--proxy-protocol", "proxy")},
		{"--proxy-protocol api-listen: --api-listen is not given", serve("--proxy-protocol", "listen,api-listen")},
		{"--proxy-protocol-from: it is about --proxy-protocol, which is not given", serve("--proxy-protocol-from", "10.0.0.0/8")},
		{"--proxy-protocol-from is empty", serve("--proxy-protocol", "listen", "--proxy-protocol-from", "")},
		{`--proxy-protocol-from "::/0": that is everybody, and then any client can say it is another: give the proxies' own networks`, serve("--proxy-protocol", "listen", "--proxy-protocol-from", "::/0")},
		{`--proxy-protocol-from "nginx": no address`, serve("--proxy-protocol", "listen", "--proxy-protocol-from", "nginx")},
		{"--rls-config is missing: give the directory with the rule files", serve("--rls-listen", "127.0.0.1:0")},
		{"--rls-config is missing: give the directory", serve("--rls-http-listen", "127.0.0.1:0")},
		{"--rls-config: it is about --rls-listen and --rls-http-listen, neither of which is given", serve("--rls-config", ".")},
		{"--rls-algorithm: it is about --rls-listen and", serve("--rls-algorithm", "counter")},
		{"--rls-all-or-nothing: it is about --rls-listen and", serve("--rls-all-or-nothing")},
		{"--rls-shadow-mode: it is about --rls-listen and", serve("--rls-shadow-mode")},
		{"--rls-quota-mode: it is about --rls-listen and", serve("--rls-quota-mode")},
		{"--rls-headers: it is about --rls-listen and", serve("--rls-headers")},
		{"--rls-metadata: it is about --rls-listen and", serve("--rls-metadata")},
		{"--rls-merge-domains: it is about --rls-listen and", serve("--rls-merge-domains")},
		{"--rls-original-metrics: it is about --rls-listen and", serve("--rls-original-metrics")},
		{`--rls-listen "8081": allowed is HOST:PORT`, serve("--rls-listen", "8081", "--rls-config", ".")},
		{`--rls-http-listen "8082": allowed is HOST:PORT`, serve("--rls-http-listen", "8082", "--rls-config", ".")},
		{`--rls-algorithm "bucket": allowed is log or counter`, serve("--rls-listen", "127.0.0.1:0", "--rls-config", ".", "--rls-algorithm", "bucket")},
		{"--rls-config: rules cannot be read: lstat nowhere", serve("--rls-listen", "127.0.0.1:0", "--rls-config", "nowhere")},
		{"--rls-config: invalid rules:", serve("--rls-listen", "127.0.0.1:0", "--rls-config", "internal/serve")},
		{"--limit is missing: --listen holds requests to it: give one, such as --limit 100/1m, or --listen '' to be no proxy", []string{"serve", "--rls-listen", "127.0.0.1:0", "--rls-config", "."}},
		{"--limit: it is about --listen, --auth-listen and --api-listen, none of which is open", serve("--listen", "", "--rls-listen", "127.0.0.1:0", "--rls-config", ".")},
		{"--on-store-error: it is about --listen and --auth-listen", []string{"serve", "--listen", "", "--rls-listen", "127.0.0.1:0", "--rls-config", ".", "--on-store-error", "closed"}},
		{`--idle-timeout "5": allowed is a duration such as 10s`, serve("--idle-timeout", "5")},
		{"--upstream-timeout -1s: allowed is a duration above 0", serve("--upstream-timeout", "-1s")},
		{"--read-header-timeout 0s: allowed is a duration above 0", serve("--read-header-timeout", "0")},
		{"--client-timeout 0s: allowed is a duration above 0", serve("--client-timeout", "0")},
		{"--max-connections 0: allowed is 1 to 1048576", serve("--max-connections", "0")},
		{"--max-connections-per-client -1: allowed is 1 to 1048576", serve("--max-connections-per-client", "-1")},
		{"--max-connections-per-client with --trusted-hops: whoever connects is a proxy", serve("--max-connections-per-client", "5", "--trusted-hops", "1")},
		{"--max-requests 1048577: allowed is 1 to 1048576", serve("--max-requests", "1048577")},
		{"--max-header 1024: allowed is 4096 to 1048576", serve("--max-header", "1024")},
		{"--max-body 0: allowed is 1 to 1125899906842624", serve("--max-body", "0")},
		{`--max-body "10MB": allowed is a whole number`, serve("--max-body", "10MB")},
		{"--max-body: it is about --listen", serve("--listen", "", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--max-body", "5")},
		{"--upstream-ca: nowhere cannot be read", serve("--upstream-ca", "nowhere")},
		{"--upstream-ca: main.go has no certificate in it: allowed is PEM", serve("--upstream-ca", "main.go")},
		{"--tls-key is missing: a certificate and its key are two files", serve("--tls-cert", "main.go")},
		{"--tls-cert is missing: a certificate and its key are two files", serve("--tls-key", "main.go")},
		{"--tls-cert: nowhere cannot be read", serve("--tls-cert", "nowhere", "--tls-key", "main.go")},
		{"--tls-cert: tls: failed to find any PEM data", serve("--tls-cert", "main.go", "--tls-key", "main.go")},
		{"--tls-client-ca: it is about --tls-cert, which is not given", serve("--tls-client-ca", "main.go")},
		{"--tls-doors: it is about --tls-cert, which is not given", serve("--tls-doors", "listen")},
		{"--tls-doors api-listen: --api-listen is not given", serve("--tls-cert", "main.go", "--tls-key", "main.go", "--tls-doors", "api-listen")},
		{`--tls-doors "front": allowed is listen, auth-listen`, serve("--tls-cert", "main.go", "--tls-key", "main.go", "--tls-doors", "front")},
		{"serve: flag needs an argument: --key", serve("--key")},
		{`help: unknown command "server"`, []string{"help", "server"}},
		{`unknown command "tcsh" for "slidegate completion"`, []string{"completion", "tcsh"}},
		{"unknown command \"x\"", []string{"demo", "x"}},
		{"--grace 0s: allowed is a duration above 0", serve("--grace", "0s")},
		{`--log-format "xml": allowed is text or json`, serve("--log-format", "xml")},
		{"replay: no file", []string{"replay", "--limit", "1/1s"}},
		{`--format "xml": allowed is auto, jsonl`, []string{"replay", "--limit", "1/1s", "--format", "xml", "-"}},
		{`--key "colour": part "colour" is unknown`, []string{"replay", "--limit", "1/1s", "--key", "colour", "-"}},
		{"sweep: no file", []string{"sweep"}},
		{`--windows "soon": allowed is a duration`, []string{"sweep", "--windows", "soon", "-"}},
		{`--quotas "0": allowed are whole numbers from 1`, []string{"sweep", "--quotas", "0", "-"}},
		{`--max-clients-refused "2": allowed is a share`, []string{"sweep", "--max-clients-refused", "2", "-"}},
		{`--algorithm "gcra": allowed is log or counter`, []string{"sweep", "--algorithm", "gcra", "-"}},
		{"--catch: open no such file", []string{"sweep", "--catch", "no such file", "-"}},
		{"--verdicts and --json: one of them", []string{"replay", "--limit", "1/1s", "--verdicts", "--json", "-"}},
		{"there is no file", []string{"compare", "1/1s", "2/1s", "no such file"}},
		{"compare: 2 arguments: allowed are two policies", []string{"compare", "1/1s", "2/1s"}},
		{`the policy "1/soon": invalid limit: "1/soon": the window "soon"`, []string{"compare", "1/1s", "1/soon", "-"}},
		{"explain: 1 arguments: allowed are a key", []string{"explain", "a", "--limit", "1/1s"}},
		{`--at "soon": allowed is a time`, []string{"explain", "a", "--limit", "1/1s", "--at", "soon", "-"}},
		{"--refusal 0: allowed is a whole number from 1", []string{"explain", "a", "--limit", "1/1s", "--refusal", "0", "-"}},
		{"--limit is missing", []string{"explain", "a", "-"}},
		{"--verdicts with --side-by-side", []string{"replay", "--limit", "1/1s", "--verdicts", "--side-by-side", "-"}},
		{"--verdicts with --config", []string{"replay", "--config", "x.yaml", "--verdicts", "-"}},
		{"--limit with --config: limits stand in the rules of the file", []string{"replay", "--config", "x.yaml", "--limit", "1/1s", "-"}},
	} {
		out, errs, status := cli(t, nil, c.args...)
		first, _, _ := strings.Cut(errs, "\n")
		if status != 2 || out != "" || !strings.Contains(first, c.want) || !strings.HasPrefix(first, "slidegate: ") || strings.Contains(errs, "secret") {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want %q", c.args, status, out, errs, c.want)
		}
	}
}

// TestSweepOfNothing: a log without requests is no reason for a number.
func TestSweepOfNothing(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.log")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, status := cli(t, nil, "sweep", empty); status != 0 || strings.Contains(out, "/1s") || !strings.Contains(out, "Nothing can be advised") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	if out, errs, status := cli(t, nil, "sweep", "--json", empty); status != 0 || !strings.Contains(out, `"windows":[]`) {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestFailures: what goes wrong while it runs ends with status 1.
func TestFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	rules := ruleDir(t, "edge.yaml", perUser("1"))
	for _, args := range [][]string{
		{"serve", "--limit", "1/1s", "--listen", taken.Addr().String()},
		{"serve", "--limit", "1/1s", "--listen", "127.0.0.1:0", "--admin", taken.Addr().String()},
		{"serve", "--limit", "1/1s", "--listen", "127.0.0.1:0", "--auth-listen", taken.Addr().String(), "--auth-dialect", "nginx"},
		{"serve", "--limit", "1/1s", "--listen", "127.0.0.1:0", "--api-listen", taken.Addr().String()},
		{"serve", "--limit", "1/1s", "--listen", "127.0.0.1:0", "--rls-config", rules, "--rls-listen", taken.Addr().String()},
		{"serve", "--listen", "", "--rls-config", rules, "--rls-listen", "127.0.0.1:0", "--rls-http-listen", taken.Addr().String()},
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
		"slidegate worst 100/2s":  {"worst", "--help"},
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

func TestBashTakesItsCompletion(t *testing.T) {
	script, _, _ := cli(t, nil, "completion", "bash")
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(script)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for line, want := range map[string]string{"serve --on-store-error ": "open\nclosed\n", "serve --ipv": "--ipv6-prefix\t", "ser": "serve\t"} {
		if out, _, _ := cli(t, nil, append([]string{"__complete"}, strings.Split(line, " ")...)...); !strings.HasPrefix(out, want) {
			t.Errorf("%q: %q, want %q", line, out, want)
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
	for _, want := range []string{"burst=2/1h and day=5/1d,counter: all are charged or none", "told apart by ip", "memory of this process: a restart begins with full quotas; beyond 1000000 keys the one idle soonest is forgotten", "open: requests that cannot be decided pass", "curl -i " + r.url, "docs/command.md"} {
		eventually(t, "the start says "+want, func() bool { return strings.Contains(r.said(), want) })
	}
}

// TestStartInJSON: where the log is JSON every line is an object.
func TestStartInJSON(t *testing.T) {
	r := start(t, nil, "--limit", "1/1h", "--key", "path", "--log-format", "json", "--on-store-error", "closed", "--trusted-proxies", "10.0.0.0/8")
	r.want("200 429")
	r.terminate()
	r.end()
	said := r.said()
	for line := range strings.Lines(said) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is no JSON", line)
		}
	}
	for _, want := range []string{`"msg":"listening"`, `"limits":"1/1h: all`, "closed: requests that cannot be decided get 503", "those in X-Forwarded-For from 10.0.0.0/8", "no client in it", `"msg":"draining`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
}

// TestRequestsThatCannotBeDecided: a store that is full and forgets nobody.
func TestRequestsThatCannotBeDecided(t *testing.T) {
	for word, want := range map[string]string{"open": "200", "closed": "503"} {
		r := start(t, nil, "--limit", "1/1h", "--key", "header:X-Key", "--max-keys", "1", "--when-full", "refuse", "--on-store-error", word)
		r.want("200 429", "X-Key", "a")
		r.want(want+" "+want, "X-Key", "b")
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url, "X-Key", "c")
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
			if v := resp.Header.Values(name); len(v) > 0 {
				t.Errorf("%s: %s %q of nobody's limit", word, name, v)
			}
		}
		r.want("429", "X-Key", "a")
		if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, "\nslidegate_store_errors_total 3\n") {
			t.Errorf("%s: %s", word, text)
		}
	}
}

func TestEnvironmentSetsFlags(t *testing.T) {
	for _, limits := range []string{"a=2/1h; b=9/1d,counter", "a=2/1h\nb=9/1d,counter\n"} {
		r := start(t, []string{"SLIDEGATE_LIMIT=" + limits, "SLIDEGATE_KEY=header:X-Key", "SLIDEGATE_HEADERS=draft-7; legacy-delta", "SLIDEGATE_TRUSTED_PROXIES=192.0.2.0/24; 192.0.2.7,2001:db8::1", "SLIDEGATE_UPSTREAM="})
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url, "X-Key", "k")
		if resp.Header.Get("RateLimit") != "limit=2, remaining=1, reset=3600" || resp.Header.Get("RateLimit-Policy") != "2;w=3600, 9;w=86400" || resp.Header.Get("X-RateLimit-Remaining") != "1" {
			t.Errorf("%v", resp.Header)
		}
	}
	flag := start(t, []string{"SLIDEGATE_LIMIT=2/1h", "SLIDEGATE_IPV6_PREFIX=many"}, "--limit", "7/1h", "--ipv6-prefix", "64") // the command line wins
	if resp, _ := fetch(t, http.DefaultClient, "GET", flag.url); resp.Header.Get("RateLimit-Policy") != `"7/1h";q=7;w=3600` {
		t.Errorf("%v", resp.Header)
	}
}

func TestBadVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"SLIDEGATE_IPV6_PREFIX=many":   `SLIDEGATE_IPV6_PREFIX "many": allowed is a whole number`,
		"SLIDEGATE_GRACE=5":            `SLIDEGATE_GRACE "5": allowed is a duration such as 10s`,
		"SLIDEGATE_STORE=disk":         `--store "disk": allowed is memory`,
		"SLIDEGATE_LIMIT=1/1s;2/1moon": `--limit: invalid limit`,
	} {
		args := []string{"serve", "--listen", "127.0.0.1:0"}
		if !strings.HasPrefix(variable, "SLIDEGATE_LIMIT=") {
			args = append(args, "--limit", "1/1s")
		}
		if out, errs, status := cli(t, []string{variable}, args...); status != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q; want %q", variable, status, errs, want)
		}
	}
}

// TestMisspelledVariableIsSaid, but not one that is another command's, or that Kubernetes sets.
func TestMisspelledVariableIsSaid(t *testing.T) {
	env := []string{"SLIDEGATE_LIMITS=1/1s", "SLIDEGATE_VERDICTS=true", "SLIDEGATE_SERVICE_HOST=10.0.0.1", "SLIDEGATE_PORT=tcp://10.0.0.1:80", "SLIDEGATE_PORT_80_TCP_ADDR=10.0.0.1"}
	out, errs, status := cli(t, env, "demo")
	if status != 0 || out == "" || errs != "slidegate: the environment variable SLIDEGATE_LIMITS has no effect: no flag has that name\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
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

// TestAdmin: metrics and health, and the case MET-01: however many keys, half of them refused, the series are
// those of one, and no label is of a key.
func TestAdmin(t *testing.T) {
	r := start(t, nil, "--limit", "first=1/1h", "--limit", "second=100/1h", "--key", "header:X-Key")
	series := func() (n int, text string) {
		_, text = fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		return n, text
	}
	r.want("200 429", "X-Key", "secret")
	before, _ := series()
	for i := range 500 {
		r.statuses(1+i%2, "X-Key", fmt.Sprint("secret", i))
	}
	out, _, _ := cli(t, nil, "--version")
	version := strings.TrimSpace(strings.TrimPrefix(out, "slidegate "))
	after, text := series()
	if before != after {
		t.Errorf("%d series, then %d", before, after)
	}
	for _, want := range []string{
		`slidegate_decisions_total{limit="first",result="admitted"} 501`, `slidegate_decisions_total{limit="first",result="refused"} 251`,
		`slidegate_decisions_total{limit="second",result="admitted"} 501`, `slidegate_decisions_total{limit="second",result="refused"} 0`,
		"slidegate_tracked_keys 501", "slidegate_evictions_total 0", "slidegate_store_errors_total 0", "slidegate_decision_duration_seconds_count 752",
		`slidegate_build_info{goversion="` + runtime.Version() + `",version="` + version + `"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
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

// held is an upstream whose answers wait until they are released.
type held struct {
	url              string
	arrived, release chan struct{}
}

func hold(t *testing.T) held {
	t.Helper()
	h := held{arrived: make(chan struct{}, 10), release: make(chan struct{})}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	h.url = upstream.URL
	return h
}

// background sends a request and returns what will come of it: the body or an error.
func background(client *http.Client, url string) <-chan string {
	result := make(chan string, 1)
	go func() {
		resp, err := client.Get(url)
		if err != nil {
			result <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		result <- string(body)
	}()
	return result
}

func TestDrain(t *testing.T) {
	upstream := hold(t)
	r := start(t, nil, "--limit", "100/1h", "--upstream", upstream.url)
	result, second := background(http.DefaultClient, r.url), background(h2c(t), r.url)
	<-upstream.arrived
	<-upstream.arrived
	r.terminate()
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
	close(upstream.release)
	if got, other := <-result, <-second; got != "done" || other != "done" {
		t.Errorf("the requests under way got %q, and %q over HTTP/2", got, other)
	}
	if status := r.end(); status != 0 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

func TestGraceIsTheLongestThatADrainTakes(t *testing.T) {
	upstream := hold(t)
	r := start(t, nil, "--limit", "100/1h", "--upstream", upstream.url, "--grace", "50ms")
	result := background(http.DefaultClient, r.url)
	<-upstream.arrived
	r.terminate()
	if status := r.end(); status != 0 || !strings.Contains(r.said(), "still under way when the grace time was over") {
		t.Errorf("ended with %d: %s", status, r.said())
	}
	if got := <-result; got == "done" {
		t.Error("a request was answered that was never released")
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	upstream := hold(t)
	r := start(t, nil, "--limit", "100/1h", "--upstream", upstream.url, "--grace", "10m")
	background(http.DefaultClient, r.url)
	<-upstream.arrived
	r.terminate()
	eventually(t, "draining", func() bool { return strings.Contains(r.said(), "draining") })
	r.terminate()
	if status := r.end(); status != -1 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// flagRow is a flag in a table of docs/command.md: its name, its default, its example.
var flagRow = regexp.MustCompile("(?m)^\\| `(--[a-z0-9-]+)[^|]*\\|([^|]*)\\|.*\\| `([^`|]+)` \\|$")

// flagHelp is a flag in the help of a command: its name and its default.
var flagHelp = regexp.MustCompile(`(?m)^ +(--[a-z0-9-]+) (?:.*\(default "?\[?([^"\]) ]+)\]?"?\)$)?`)

// sections are where the page has the flags of a command.
var sections = map[string]string{
	"serve": "serve", "replay": "replay", "sweep": "sweep", "compare": "compare", "explain": "explain", "worst": "worst", "peek": "peek, take, reset", "take": "peek, take, reset",
}

// flagRows returns the flags that the page has of a command.
func flagRows(t *testing.T, command string) [][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+sections[command]+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	return flagRow.FindAllStringSubmatch(section, -1)
}

// TestCommandPageNamesEveryFlag with its default, and no other: docs/command.md and the help are equal.
func TestCommandPageNamesEveryFlag(t *testing.T) {
	for command := range sections {
		paged, helped := map[string]string{}, map[string]string{}
		for _, row := range flagRows(t, command) {
			paged[row[1]] = ""
			if cell := strings.TrimSpace(row[2]); strings.Count(cell, "`") == 2 && strings.HasSuffix(cell, "`") {
				paged[row[1]] = strings.Trim(cell, "`")
			}
		}
		help, _, status := cli(t, nil, command, "--help")
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		for _, row := range flagHelp.FindAllStringSubmatch(flags, -1) {
			helped[row[1]] = row[2]
		}
		if status != 0 || len(helped) < 2 || !maps.Equal(paged, helped) {
			t.Errorf("%s: the page has %v, the command %v", command, paged, helped)
		}
	}
}

// TestCommandPageExamplesAreTaken: each gets as far as an address that is taken, a file that is not, or
// a Redis that is not.
func TestCommandPageExamplesAreTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret-of-more-than-16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours := newAuthority(t)
	certificate, key := ours.files("shop.example")
	files := strings.NewReplacer(
		"/etc/ssl/ours.pem", ours.path, "/etc/ssl/shop.pem", certificate, "/etc/ssl/shop.key", key,
		"/run/secrets/redis", secret, "/run/secrets/api", secret, "scrapers.txt", "internal/replay/testdata/scrapers.txt",
		"/etc/slidegate/rls", ruleDir(t, "edge.yaml", perUser("1")),
	)
	nowhere := []string{"k", "--store", "redis://127.0.0.1:1"}
	for command, end := range map[string][]string{"serve": {"--listen", taken.Addr().String()}, "replay": {"no such file"}, "sweep": {"no such file"}, "peek": nowhere, "take": nowhere} {
		want := 1
		if end[0] == "k" {
			want = 3
		}
		for _, row := range flagRows(t, command) {
			example := strings.Fields(files.Replace(row[3]))
			args := slices.Concat([]string{command, "--limit", "extra=10/1s"}, example, end)
			if command == "sweep" { // has no limit
				args = slices.Concat([]string{command}, example, end)
			}
			if row[1] == "--config" { // which is in the place of --limit
				args = slices.Concat([]string{command, "--config", writeRules(t, "rules: [{name: all, limits: 10/1s}]")}, end)
			}
			if _, errs, status := cli(t, nil, args...); status != want || !strings.HasPrefix(row[3], row[1]) {
				t.Errorf("%s: status %d, %s", row[3], status, errs)
			}
		}
	}
}

// TestCommandPageNamesEveryMetric, and no other that is ours.
func TestCommandPageNamesEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	certificate, key := newAuthority(t).files("shop.example")
	for _, args := range [][]string{
		{"--limit", "1/1s"}, {"--limit", "1/1s", "--tls-cert", certificate, "--tls-key", key},
		{"--limit", "1/1s", "--store", "redis://127.0.0.1:1", "--fallback", "replicas", "--remember-refusals", "1s"}, {"--config", writeRules(t, "rules: [{name: all, limits: 10/1s}]")},
	} {
		r := start(t, nil, append(args, "--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1")))...)
		for _, body := range []string{asAda, "{}"} {
			r.askRLS(body)
		}
		_, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		served = append(served, names(regexp.MustCompile(`(?m)^# TYPE (slidegate_[a-z_]+) `), text)...)
	}
	slices.Sort(served)
	served = slices.Compact(served)
	rows := names(regexp.MustCompile("(?m)^\\| `(slidegate_[a-z_]+)`"), string(page))
	if len(served) < 5 || !slices.Equal(rows, served) {
		t.Errorf("the page has %v, the command %v", rows, served)
	}
}

// names returns what the first group of a pattern finds, sorted.
func names(pattern *regexp.Regexp, text string) (all []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	slices.Sort(all)
	return all
}

// TestWhoReadsTheLogMayGo: a log line that nobody reads does not end the proxy.
func TestWhoReadsTheLogMayGo(t *testing.T) {
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--limit", "9/1h")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	url := ""
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && !strings.Contains(lines.Text(), "read on") {
		if at, ok := strings.CutPrefix(lines.Text(), "slidegate: listening on "); ok {
			url = at
		}
	}
	pipe.Close()
	for range 2 { // the first of them is warned about
		if resp, _ := fetch(t, http.DefaultClient, "GET", url, "X-Forwarded-For", "203.0.113.7"); resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
}
