package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A recipe is a configuration under deploy/ that has a real proxy ask slidegate.
type recipe struct {
	name    string
	dialect string
	serve   []string // what slidegate is told beside
	files   []string // the configuration first
	listens string   // how it says where to listen
	bind    string   // how it says so with an address, ADDRESS, or a port, PORT
	command func(t *testing.T, dir string) *exec.Cmd
	away    int  // the status of clients while slidegate is away and nothing passes
	body    bool // whether ours reaches clients
	open    func(config string) string
}

var recipes = []recipe{
	{name: "nginx that takes 429", dialect: "nginx", files: []string{"nginx/429.conf"}, listens: "listen 8080", bind: "listen ADDRESS", command: nginx, away: 503, open: uncomment},
	{name: "nginx that takes 403", dialect: "nginx", serve: []string{"--auth-deny-status", "403"}, files: []string{"nginx/403.conf"}, listens: "listen 8080", bind: "listen ADDRESS", command: nginx, away: 503, open: uncomment},
	{name: "HAProxy", dialect: "haproxy", files: []string{"haproxy/haproxy.cfg", "haproxy/slidegate.lua"}, listens: "bind :8080", bind: "bind ADDRESS", command: haproxy, away: 503, body: true,
		open: func(config string) string { return strings.Replace(config, "slidegate closed", "slidegate open", 1) }},
	{name: "Caddy", dialect: "caddy", files: []string{"caddy/Caddyfile"}, listens: "http://:8080 {", bind: "{\n\tadmin off\n}\n\nhttp://:PORT {\n\tbind 127.0.0.1", command: caddy, away: 502, body: true, open: uncomment},
}

// uncomment takes what a recipe has for those who let requests pass.
func uncomment(config string) string { return strings.ReplaceAll(config, "#open: ", "") }

// installed returns where a server is, also for those whose PATH lacks it.
func installed(t *testing.T, name string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not installed: scripts/need %s installs it or says how", name, name)
	return ""
}

func nginx(t *testing.T, dir string) *exec.Cmd {
	paths := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	main := fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nerror_log stderr;\nevents { }\nhttp {\n\taccess_log off;\n%s\tinclude config;\n}\n", dir, paths)
	write(t, filepath.Join(dir, "nginx.conf"), main)
	return exec.Command(installed(t, "nginx"), "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
}

func haproxy(t *testing.T, dir string) *exec.Cmd {
	return exec.Command(installed(t, "haproxy"), "-db", "-f", filepath.Join(dir, "config"))
}

// builtCaddy is the Caddy of this repository, with its standard modules.
var builtCaddy = sync.OnceValues(func() (string, error) {
	at := filepath.Join(filepath.Dir(binary), "caddy")
	build := exec.Command("go", "build", "-o", at, "./cmd/caddy")
	build.Dir = "../../caddygate"
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return at, nil
})

func caddy(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	at, err := builtCaddy()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(at, "run", "--config", filepath.Join(dir, "config"), "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	return cmd
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// freeAddr returns an address on which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A deployed is a proxy with slidegate beside it and a backend behind it.
type deployed struct {
	t       *testing.T
	url     string // of the proxy
	limiter *running
}

// deploy starts slidegate, and the proxy with the very files of the recipe but for the addresses.
func (rc recipe) deploy(t *testing.T, open bool, serve ...string) *deployed {
	t.Helper()
	args := append([]string{"--listen", "", "--auth-listen", "127.0.0.1:0", "--auth-dialect", rc.dialect}, rc.serve...)
	d := &deployed{t: t, limiter: start(t, nil, append(args, serve...)...)}
	limiter := strings.TrimSuffix(strings.TrimPrefix(d.limiter.auth, "http://"), "/auth")
	dir, addr := t.TempDir(), freeAddr(t)
	for i, file := range rc.files {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		config, name := string(text), filepath.Base(file)
		if i == 0 {
			name = "config"
			if open {
				config = rc.open(config)
			}
			for _, c := range []struct{ from, to string }{
				{rc.listens, strings.NewReplacer("ADDRESS", addr, "PORT", strings.TrimPrefix(addr, "127.0.0.1:")).Replace(rc.bind)},
				{"127.0.0.1:9100", limiter}, {"127.0.0.1:3000", backend(t)},
				{"lua-load slidegate.lua", "lua-load " + dir + "/slidegate.lua"}, {"127.0.0.1:9101", freeAddr(t)},
			} {
				if replaced := strings.ReplaceAll(config, c.from, c.to); replaced != config {
					config = replaced
				} else if c.from == rc.listens || c.from == "127.0.0.1:9100" || c.from == "127.0.0.1:3000" {
					t.Fatalf("%s does not have %q", file, c.from)
				}
			}
		}
		write(t, filepath.Join(dir, name), config)
	}
	run(t, rc.command(t, dir), addr)
	d.url = "http://" + addr
	return d
}

// run starts a proxy, waits until it listens, and ends it with the test.
func run(t *testing.T, cmd *exec.Cmd, addr string) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s: %s", cmd.Args[0], log.String())
		}
	})
	eventually(t, filepath.Base(cmd.Args[0])+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", cmd.Args[0])
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// backend answers with the status of its path, /404 or the like, and says what it was asked and with which body.
func backend(t *testing.T) string {
	return strings.TrimPrefix(behind(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := http.StatusOK
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.Header().Set("X-Backend", "1")
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	}), "http://")
}

// from returns a client with an address of its own.
func (d *deployed) from(source string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	d.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// each runs a test with every recipe.
func each(t *testing.T, f func(t *testing.T, rc recipe)) {
	for _, rc := range recipes {
		t.Run(rc.name, func(t *testing.T) { f(t, rc) })
	}
}

// TestRecipesHoldClientsToTheLimit: what is admitted reaches the backend and the client gets the fields; what is
// refused does not, and the client gets 429, the fields and Retry-After. Another client has a quota of its own.
func TestRecipesHoldClientsToTheLimit(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		d := rc.deploy(t, false, "--limit", "hour=2/1h")
		for _, source := range []string{"127.0.0.1", "127.0.0.2"} {
			client := d.from(source)
			for i, want := range []string{`"hour";r=1;t=3600`, `"hour";r=0;t=3600`} {
				resp, body := fetch(t, client, "GET", d.url+"/a?x=1")
				if resp.StatusCode != 200 || body != "GET /a?x=1 " || resp.Header.Get("RateLimit") != want || resp.Header.Get("RateLimit-Policy") != `"hour";q=2;w=3600` {
					t.Errorf("%s, request %d: %d %q %v", source, i, resp.StatusCode, body, resp.Header)
				}
				if resp.Header.Get("Retry-After") != "" {
					t.Errorf("%s, request %d: Retry-After %s", source, i, resp.Header.Get("Retry-After"))
				}
			}
			for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
				resp, body := fetch(t, client, method, d.url+"/a?x=1")
				retry := 0
				fmt.Sscan(resp.Header.Get("Retry-After"), &retry)
				if resp.StatusCode != 429 || retry < 3500 || retry > 3600 || !strings.HasPrefix(resp.Header.Get("RateLimit"), `"hour";r=0;t=`) || resp.Header.Get("RateLimit-Policy") != `"hour";q=2;w=3600` {
					t.Errorf("%s, %s: %d %v", source, method, resp.StatusCode, resp.Header)
				}
				if resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Backend") != "" {
					t.Errorf("%s, %s: %v", source, method, resp.Header)
				}
				if method != "HEAD" && (!strings.Contains(body, `"status":429`) || strings.Contains(body, "violated-policies") != rc.body) {
					t.Errorf("%s, %s: %q", source, method, body)
				}
			}
		}
	})
}

// TestRecipesAskAboutTheVeryRequest: its method, path and host, and a body passes that slidegate does not get.
func TestRecipesAskAboutTheVeryRequest(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		d := rc.deploy(t, false, "--limit", "1/1h", "--key", "ip+method+host+path+header:X-Key")
		client := d.from("127.0.0.1")
		ask := func(want int, method, path, host, key string) {
			t.Helper()
			size := 100_000
			if want != 200 {
				size = 10 // a proxy that refuses does not read on, and a client that still sends may not see the answer
			}
			sent := strings.Repeat("b", size)
			r, err := http.NewRequest(method, d.url+path, strings.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			r.Header.Set("X-Key", key)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != want {
				t.Errorf("%s %s of %s with %s: %d, want %d, %v", method, path, host, key, resp.StatusCode, want, err)
			}
			if want == 200 && string(body) != method+" "+path+" "+sent {
				t.Errorf("%s %s: the backend got %.60q…", method, path, body)
			}
		}
		ask(200, "POST", "/a%20b?x=1", "api.example", "k")
		ask(429, "POST", "/a%20b?y=2", "api.example", "k")
		ask(200, "PUT", "/a%20b", "api.example", "k")
		ask(200, "POST", "/a", "api.example", "k")
		ask(429, "POST", "//a", "API.example:80", "k")
		ask(200, "POST", "/a", "other.example", "k")
		ask(200, "POST", "/a", "api.example", "other")
	})
}

// TestRecipesBelieveNoClient: every field that a proxy sets, sent by the client, changes nothing.
func TestRecipesBelieveNoClient(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		d := rc.deploy(t, false, "--limit", "1/1h", "--key", "ip+method+path+host")
		client := d.from("127.0.0.1")
		for i, want := range []int{200, 429, 429, 429} {
			forged := []string{}
			for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Original-For", "True-Client-IP"} {
				forged = append(forged, name, fmt.Sprintf("203.0.113.%d", i))
			}
			for _, kind := range []string{"X-Forwarded-", "X-Original-"} {
				forged = append(forged, kind+"Method", fmt.Sprintf("BREW%d", i), kind+"Uri", fmt.Sprintf("/%d", i), kind+"URL", fmt.Sprintf("http://h/%d", i), kind+"Host", fmt.Sprintf("h%d", i), kind+"Proto", "https")
			}
			forged = append(forged, "Forwarded", fmt.Sprintf("for=203.0.113.%d", i), "RateLimit", "forged", "Slidegate-Status", "200")
			if i == 3 {
				forged = append(forged, forged...) // each of them twice
			}
			resp, _ := fetch(t, client, "GET", d.url+"/a", forged...)
			if resp.StatusCode != want || strings.Contains(resp.Header.Get("RateLimit"), "forged") {
				t.Errorf("request %d: %d %v, want %d", i, resp.StatusCode, resp.Header, want)
			}
		}
	})
}

// TestRecipesPassTheBackendsAnswers, also those with a status that the recipe knows.
func TestRecipesPassTheBackendsAnswers(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		d := rc.deploy(t, false, "--limit", "99/1h")
		for _, status := range []int{201, 401, 403, 404, 429, 500, 502, 503} {
			resp, _ := fetch(t, d.from("127.0.0.1"), "GET", fmt.Sprintf("%s/%d", d.url, status))
			if resp.StatusCode != status || resp.Header.Get("X-Backend") == "" || resp.Header.Get("RateLimit") == "" || resp.Header.Get("Retry-After") != "" {
				t.Errorf("%d: %d %v", status, resp.StatusCode, resp.Header)
			}
		}
	})
}

// TestRecipesWithoutTheStore: --on-store-error says what becomes of requests that slidegate cannot decide.
func TestRecipesWithoutTheStore(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		for word, want := range map[string]int{"open": 200, "closed": 503} {
			d := rc.deploy(t, false, "--limit", "1/1h", "--store", "redis://127.0.0.1:1", "--on-store-error", word)
			for range 3 {
				resp, _ := fetch(t, d.from("127.0.0.1"), "GET", d.url+"/a")
				if _, limited := resp.Header["Ratelimit"]; resp.StatusCode != want || limited || resp.Header.Get("Retry-After") != "" {
					t.Errorf("%s: %d %v, want %d", word, resp.StatusCode, resp.Header, want)
				}
			}
		}
	})
}

// TestRecipesWithoutSlidegate: the recipe says what becomes of requests while the process does not answer, and while it is
// away. The open one lets pass then, and refuses as long as slidegate is there.
func TestRecipesWithoutSlidegate(t *testing.T) {
	each(t, func(t *testing.T, rc recipe) {
		for open, want := range map[bool]int{true: 200, false: rc.away} {
			d := rc.deploy(t, open, "--limit", "1/1h")
			client := d.from("127.0.0.1")
			for i, status := range []int{200, 429} {
				if resp, _ := fetch(t, client, "GET", d.url+"/a"); resp.StatusCode != status {
					t.Errorf("open %v, request %d: %d, want %d", open, i, resp.StatusCode, status)
				}
			}
			if err := d.limiter.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "clients are not left waiting by a slidegate that stands still", func() bool {
				resp, _ := fetch(t, client, "GET", d.url+"/a")
				return open && resp.StatusCode == 200 || !open && resp.StatusCode >= 500
			})
			d.limiter.cmd.Process.Kill()
			d.limiter.end()
			for range 3 {
				resp, _ := fetch(t, client, "GET", d.url+"/a")
				if _, limited := resp.Header["Ratelimit"]; resp.StatusCode != want || limited || (resp.Header.Get("X-Backend") != "") != open {
					t.Errorf("open %v, away: %d %v, want %d", open, resp.StatusCode, resp.Header, want)
				}
			}
		}
	})
}

// TestForwardAuthOfCaddy is the short form that docs/forward-auth.md has beside the recipe.
func TestForwardAuthOfCaddy(t *testing.T) {
	rc := recipe{dialect: "caddy", files: []string{"../docs/forward-auth.md"}, listens: ":8080 {", bind: "{\n\tadmin off\n}\n\nhttp://:PORT {", command: caddy}
	rc.open = func(page string) string {
		_, fence, _ := strings.Cut(page, "```caddyfile\n")
		fence, _, _ = strings.Cut(fence, "```")
		return fence
	}
	d := rc.deploy(t, true, "--limit", "1/1h", "--key", "ip+path")
	for i, want := range []int{200, 429, 429} {
		resp, _ := fetch(t, d.from("127.0.0.1"), "GET", d.url+"/a", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i), "X-Forwarded-Uri", fmt.Sprintf("/%d", i))
		if refused := want == 429; resp.StatusCode != want || refused != (resp.Header.Get("RateLimit") != "") || refused != (resp.Header.Get("Retry-After") != "") {
			t.Errorf("request %d: %d %v, want %d", i, resp.StatusCode, resp.Header, want)
		}
	}
}

// TestNginxAloneMakes500Of429, which is why there are recipes. If this fails, nginx has learnt it, and they can be shorter.
func TestNginxAloneMakes500Of429(t *testing.T) {
	rc := recipes[0]
	rc.open = func(config string) string { return strings.Replace(config, "error_page 500 = @slidegate;", "", 1) }
	d := rc.deploy(t, true, "--limit", "1/1h")
	for i, want := range []int{200, 500} {
		if resp, _ := fetch(t, d.from("127.0.0.1"), "GET", d.url+"/a"); resp.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
}
