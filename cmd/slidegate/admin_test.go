package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// adminToken is that of the admin doors here.
const adminToken = "0123456789abcdef0123"

var withToken = []string{"SLIDEGATE_ADMIN_TOKEN=" + adminToken}

// ask asks the admin door with the token: a POST if there is a body.
func (r *running) manage(path, body string, headers ...string) (status int, answer string) {
	r.t.Helper()
	return manageAt(r.t, http.DefaultClient, r.admin, path, body, append([]string{"Authorization", "Bearer " + adminToken}, headers...)...)
}

func manageAt(t *testing.T, client *http.Client, base, path, body string, headers ...string) (status int, answer string) {
	t.Helper()
	method := "GET"
	if body != "" {
		method = "POST"
	}
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// overSocket is a client of a Unix socket.
func overSocket(t *testing.T, path string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// socketPath is short, since the path of a socket has to be.
func socketPath(t *testing.T) string {
	dir, err := os.MkdirTemp("", "sg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "admin.sock")
}

const thisClient = `{"key":"ip:127.0.0.1"}`

// TestInspectingAKey: per limit what is used and left, and what counts and when it leaves, which is when a request fits.
func TestInspectingAKey(t *testing.T) {
	r := start(t, withToken, "--limit", "burst=2/1h", "--limit", "day=9/1d,counter")
	for range 3 {
		fetch(t, http.DefaultClient, "GET", r.url)
	}
	status, text := r.manage("/v1/inspect", thisClient)
	var in struct {
		Key   string
		Rules []struct {
			T       int64
			Allowed bool
			Retry   int64 `json:"retry_ms"`
			Limits  []struct {
				Name                   string
				Quota, Used, Remaining int64
				Reset                  int64 `json:"reset_ms"`
				Charges                []struct {
					T, Units int64
					Leaves   int64 `json:"leaves_t"`
				}
				More bool
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil || status != 200 || in.Key != "ip:127.0.0.1" || len(in.Rules) != 1 || len(in.Rules[0].Limits) != 2 {
		t.Fatalf("status %d, %v: %s", status, err, text)
	}
	one := in.Rules[0]
	burst, day := one.Limits[0], one.Limits[1]
	if one.Allowed || burst.Used != 2 || burst.Remaining != 0 || len(burst.Charges) > 2 || day.Used != 2 || len(day.Charges) != 1 || day.Charges[0].Units != 2 {
		t.Errorf("%s", text)
	}
	first, last := burst.Charges[0], burst.Charges[len(burst.Charges)-1]
	if first.Leaves != one.T+one.Retry || last.Leaves != one.T+burst.Reset || first.Leaves-first.T != time.Hour.Milliseconds() {
		t.Errorf("the first leaves at %d, retry is at %d; the last leaves at %d, reset is at %d", first.Leaves, one.T+one.Retry, last.Leaves, one.T+burst.Reset)
	}
	_, cut := r.manage("/v1/inspect", `{"key":"ip:127.0.0.1","charges":0}`)
	if strings.Count(cut, `"charges":[],"more":true`) != 2 || !strings.Contains(cut, `"used":2`) {
		t.Errorf("without charges: %s", cut)
	}
	if status, text := r.manage("/v1/reset", thisClient); status != 200 || text != `{"key":"ip:127.0.0.1","rules":[""]}`+"\n" {
		t.Errorf("reset: %d %s", status, text)
	}
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.url); resp.StatusCode != 200 {
		t.Errorf("after the reset: %d", resp.StatusCode)
	}
}

// TestABanHoldsAtEveryDoor, and ends there.
func TestABanHoldsAtEveryDoor(t *testing.T) {
	r := start(t, withToken, "--limit", "1000/1h", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--api-listen", "127.0.0.1:0",
		"--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1000")))
	doors := func() (got []int) {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url)
		got = append(got, resp.StatusCode)
		resp, _ = fetch(t, http.DefaultClient, "GET", r.auth, asking("127.0.0.1")...)
		got = append(got, resp.StatusCode)
		status, _ := manageAt(t, http.DefaultClient, r.api, "/v1/take", thisClient)
		got = append(got, status)
		_, text := manageAt(t, http.DefaultClient, r.api, "/v1/peek", thisClient)
		return append(got, map[bool]int{true: 200, false: 429}[strings.Contains(text, `"allowed":true`)])
	}
	if got := fmt.Sprint(doors()); got != "[200 200 200 200]" {
		t.Fatalf("before: %s", got)
	}
	status, text := r.manage("/v1/ban", `{"key":"ip:127.0.0.1","length":"1h","reason":"scraping"}`)
	if status != 200 || !strings.Contains(text, `"by":"admin"`) || !strings.Contains(text, `"reason":"scraping"`) {
		t.Fatalf("ban: %d %s", status, text)
	}
	if got := fmt.Sprint(doors()); got != "[429 429 429 429]" {
		t.Errorf("banned: %v", got)
	}
	if resp, body := fetch(t, http.DefaultClient, "GET", r.url); resp.Header.Get("Retry-After") != "3600" {
		t.Errorf("Retry-After %q: %s", resp.Header.Get("Retry-After"), body)
	}
	if _, text := r.manage("/v1/bans", ""); strings.Count(text, `"key"`) != 1 || !strings.Contains(text, `"key":"ip:127.0.0.1"`) {
		t.Errorf("bans: %s", text)
	}
	if _, text := r.manage("/v1/inspect", thisClient); !strings.Contains(text, `"ban":{"key":"ip:127.0.0.1"`) || !strings.Contains(text, `"used":3,`) {
		t.Errorf("inspect: %s", text)
	}
	if _, text := r.manage("/v1/refusals", ""); !strings.Contains(text, `"reason":"ban","key":"ip:127.0.0.1"`) {
		t.Errorf("refusals: %s", text)
	}
	for _, want := range []string{"true", "false"} {
		if status, text := r.manage("/v1/unban", thisClient); status != 200 || text != `{"key":"ip:127.0.0.1","banned":`+want+"}\n" {
			t.Errorf("unban: %d %s", status, text)
		}
	}
	if got := fmt.Sprint(doors()); got != "[200 200 200 200]" {
		t.Errorf("after: %s", got)
	}
}

// TestABanOfADescriptor: the rate limit service is no exception.
func TestABanOfADescriptor(t *testing.T) {
	s := startRedis(t)
	r := start(t, withToken, "--listen", "", "--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1000")), "--store", s.url(), "--store-timeout", "5s")
	if got, text := r.askRLS(asAda); got != 200 {
		t.Fatalf("before: %v %s", got, text)
	}
	_, key, _ := strings.Cut(s.stored()[0], "{")
	key, _, _ = strings.Cut(key, "}")
	body, _ := json.Marshal(map[string]string{"key": strings.NewReplacer("%7D", "}", "%25", "%").Replace(key), "length": "1h"})
	if status, text := r.manage("/v1/ban", string(body)); status != 200 {
		t.Fatalf("ban: %d %s", status, text)
	}
	if got, text := r.askRLS(asAda); got != 429 {
		t.Errorf("banned: %d %s", got, text)
	}
}

// TestProcessesOverOneRedisShareBans, those without an admin door too; inspecting and resetting are of what they share.
func TestProcessesOverOneRedisShareBans(t *testing.T) {
	s := startRedis(t)
	a := start(t, withToken, "--limit", "100000/1h", "--store-timeout", "5s", "--store", s.url())
	b := start(t, nil, "--limit", "100000/1h", "--store-timeout", "5s", "--store", s.url(), "--client", "goredis")
	get := func() int {
		resp, _ := fetch(t, http.DefaultClient, "GET", b.url)
		return resp.StatusCode
	}
	for range 2 {
		get()
	}
	if _, text := a.manage("/v1/inspect", thisClient); !strings.Contains(text, `"used":2`) || strings.Count(text, `"leaves_t"`) != 2 && strings.Count(text, `"units":2`) != 1 {
		t.Errorf("inspect: %s", text)
	}
	if status, text := a.manage("/v1/ban", `{"key":"ip:127.0.0.1","length":"1h"}`); status != 200 {
		t.Fatalf("ban: %d %s", status, text)
	}
	awaits(t, "the ban at the other process", func() bool { return get() == 429 })
	s.kill()
	if got := get(); got != 429 {
		t.Errorf("without Redis the ban is forgotten: %d", got)
	}
	if status, text := a.manage("/v1/unban", thisClient); status != 503 || !strings.Contains(text, "the store could not be asked") {
		t.Errorf("unban without Redis: %d %s", status, text)
	}
	if status, _ := a.manage("/v1/inspect", thisClient); status != 503 {
		t.Errorf("inspect without Redis: %d", status)
	}
}

func awaits(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

const someRules = `
match: all
rules:
  - {name: all, limits: 100/1h}
  - {name: login, path: /login, key: ip+path, limits: 1/1h, ban: {strikes: 2/1h, length: 2h}}
  - {name: api, path: /api/, limits: 10/1m, plans: {pro: 1000/1m, free: unlimited}, overrides: {"ip:127.0.0.1": pro}, mode: shadow}
  - {name: gone, path: /gone, limits: blocked}
domains:
  shop:
    host: shop.example
    rules: [{name: cart, limits: 3/1h}]
`

// TestRulesAtTheAdminDoor: what holds with its defaults, and keys by rule, in their domain, by their plan.
func TestRulesAtTheAdminDoor(t *testing.T) {
	r := start(t, withToken, "--config", writeRules(t, someRules))
	_, text := r.manage("/v1/rules", "")
	for _, want := range []string{
		`"name":"all","match":"all","key":"ip","limits":["all:1h=100/1h"],"cost":"1","mode":"enforce","on-store-error":"open","headers":["draft-8"],"response":{"status":429}}`,
		`"path":["/login"],"key":"ip+path","limits":["login:1h=1/1h"]`, `"ban":{"strikes":"login=2/1h","length":"2h"}`,
		`"mode":"shadow"`, `"plans":{"free":["unlimited"],"pro":["api:1m=1000/1m"]},"overrides":1`, `"limits":["blocked"]`, `"name":"cart","domain":"shop","match":"first","host":["shop.example"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	fetch(t, http.DefaultClient, "GET", r.url, "Host", "shop.example")
	for body, want := range map[string]string{
		`{"key":"ip:127.0.0.1","rule":"shop/cart"}`:             `"rule":"shop/cart","key":"domain:shop|ip:127.0.0.1"`,
		`{"key":"ip:127.0.0.1","rule":"api"}`:                   `"rule":"api","plan":"pro"`,
		`{"key":"ip:127.0.0.1","rule":"api","plan":"free"}`:     `"rule":"api","plan":"free","key":"ip:127.0.0.1","t":0,"allowed":true,"retry_ms":0,"limits":[]`,
		`{"key":"ip:127.0.0.1","rule":"gone"}`:                  `"allowed":false`,
		`{"key":"ip:2001:db8::1:2:3","rule":"all"}`:             `"key":"ip:2001:db8::/56"`,
		`{"key":"ip:127.0.0.1","rule":"api","plan":"none"}`:     `"status":404`,
		`{"key":"ip:127.0.0.1","rule":"cart"}`:                  `"status":404`,
		`{"key":"ip:127.0.0.1"}`:                                `"name":"cart:1h","limit":"cart:1h=3/1h","quota":3,"window_ms":3600000,"used":1`,
		`{"key":"ip:127.0.0.1","rule":"all"}`:                   `"used":0`,
		`{"key":"domain:shop|ip:127.0.0.1","rule":"shop/cart"}`: `"key":"domain:shop|ip:127.0.0.1"`,
		`{"key":"domain:shop|ip:127.0.0.1"}`:                    `"rules":[{"rule":"shop/cart","key":"domain:shop|ip:127.0.0.1"`,
		`{"key":"domain:shop|ip:127.0.0.1","rule":"all"}`:       `"status":404`,
		`{"key":"domain:none|ip:127.0.0.1","rule":"shop/cart"}`: `"key":"domain:shop|domain:none|ip:127.0.0.1"`,
	} {
		if _, text := r.manage("/v1/inspect", body); !strings.Contains(text, want) {
			t.Errorf("%s: no %s in %s", body, want, text)
		}
	}
}

// TestTheBanOfARule is told of, with the reason of each refusal, and ended by unban.
func TestTheBanOfARule(t *testing.T) {
	r := start(t, withToken, "--config", writeRules(t, someRules))
	login := func() int {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url+"/login")
		return resp.StatusCode
	}
	for range 4 {
		login()
	}
	fetch(t, http.DefaultClient, "GET", r.url+"/gone")
	_, text := r.manage("/v1/refusals", "")
	var recent struct {
		Total    int
		Refusals []struct{ Reason, Rule, Limit, Key string }
	}
	if err := json.Unmarshal([]byte(text), &recent); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range recent.Refusals {
		got = append(got, one.Reason+" "+one.Rule+" "+one.Limit)
	}
	slices.Reverse(got)
	if fmt.Sprintf("%q", got) != `["limit login login:1h" "ban login ban:login" "ban login ban:login" "blocked gone "]` {
		t.Errorf("%q", got)
	}
	key, _ := json.Marshal(map[string]string{"key": recent.Refusals[1].Key})
	if _, text := r.manage("/v1/bans", ""); !strings.Contains(text, `"by":"login"`) || !strings.Contains(text, `"reason":"ban:login"`) {
		t.Errorf("bans: %s", text)
	}
	if status, text := r.manage("/v1/unban", string(key)); status != 200 || !strings.Contains(text, `"banned":true`) {
		t.Errorf("unban: %d %s", status, text)
	}
	if status, text := r.manage("/v1/reset", string(key)); status != 200 {
		t.Errorf("reset: %d %s", status, text)
	}
	if got := login(); got != 200 {
		t.Errorf("after both: %d", got)
	}
}

// TestKeysOfRefusalsCanBeAskedAbout: one in a domain is taken as it is shown, to end what holds it.
func TestKeysOfRefusalsCanBeAskedAbout(t *testing.T) {
	r := start(t, withToken, "--config", writeRules(t, `
domains:
  shop:
    host: shop.example
    rules: [{name: cart, limits: 1/1h, ban: {strikes: 1/1h, length: 1h}}]
`))
	cart := func() int {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url, "Host", "shop.example")
		return resp.StatusCode
	}
	for range 4 {
		cart()
	}
	const key = `{"key":"domain:shop|ip:127.0.0.1"}`
	if _, text := r.manage("/v1/refusals", ""); !strings.Contains(text, `"reason":"ban"`) || !strings.Contains(text, key[1:len(key)-1]) {
		t.Fatalf("refusals: %s", text)
	}
	if _, text := r.manage("/v1/reset", key); !strings.Contains(text, "shop/cart") || cart() != 429 {
		t.Errorf("reset ends a ban: %s", text)
	}
	if status, text := r.manage("/v1/unban", key); status != 200 || cart() != 200 {
		t.Errorf("unban: %d %s", status, text)
	}
}

// TestStartSaysWhatTheAdminDoorWants: of a socket with a token both are needed, wherever the token is from.
func TestStartSaysWhatTheAdminDoorWants(t *testing.T) {
	for want, env := range map[string][]string{"whoever may use the socket may look": nil, "whoever may use the socket and shows the token may look": withToken} {
		if r := start(t, env, "--limit", "5/1h", "--admin", "unix:"+socketPath(t)); !strings.Contains(r.said(), want) {
			t.Errorf("no %q in %s", want, r.said())
		}
	}
}

// TestStartSaysHowToTryIt, in a way that gets an answer.
func TestStartSaysHowToTryIt(t *testing.T) {
	r := start(t, nil, "--limit", "5/1h", "--proxy-protocol", "listen")
	for _, want := range []string{"curl -i --haproxy-protocol http://", "may connect to --listen, and say in a PROXY header for whom"} {
		eventually(t, "the start says "+want, func() bool { return strings.Contains(r.said(), want) })
	}
}

// TestWhoMayUseTheAdminDoor: without a token health and metrics alone; with one whoever shows it, and no page in a
// browser, whatever it shows.
func TestWhoMayUseTheAdminDoor(t *testing.T) {
	open := start(t, nil, "--limit", "1/1h")
	locked := start(t, withToken, "--limit", "1/1h")
	shown := []string{"Authorization", "Bearer " + adminToken}
	for _, c := range []struct {
		at      *running
		path    string
		body    string
		headers []string
		status  int
		says    string
	}{
		{open, "/healthz", "", nil, 200, "ok"},
		{open, "/metrics", "", nil, 200, "slidegate_bans 0"},
		{open, "/v1/bans", "", nil, 403, "--admin-token-file"},
		{open, "/v1/ban", `{"key":"k","length":"1h"}`, nil, 403, "--admin-token-file"},
		{open, "/debug/pprof/", "", shown, 403, "unix:/PATH"},
		{locked, "/healthz", "", []string{"Origin", "http://evil.example"}, 200, "ok"},
		{locked, "/v1/bans", "", nil, 401, "a bearer token is needed"},
		{locked, "/v1/bans", "", []string{"Authorization", "Bearer " + adminToken + "x"}, 401, "a bearer token is needed"},
		{locked, "/v1/bans", "", []string{"Authorization", "Basic " + adminToken}, 401, "a bearer token is needed"},
		{locked, "/openapi.json", "", nil, 401, "a bearer token is needed"},
		{locked, "/debug/pprof/", "", nil, 401, "a bearer token is needed"},
		{locked, "/v1/bans", "", shown, 200, `{"bans":[]}`},
		{locked, "/v1/bans", "", []string{"Authorization", "bearer  " + adminToken}, 200, `{"bans":[]}`},
		{locked, "/openapi.json", "", shown, 200, `"openapi": "3.1.0"`},
		{locked, "/debug/pprof/", "", shown, 200, "goroutine"},
		{locked, "/debug/pprof/heap?debug=1", "", shown, 200, "heap profile"},
		{locked, "/v1/bans", "", append([]string{"Origin", "http://127.0.0.1"}, shown...), 403, "no page of a browser"},
		{locked, "/v1/bans", "", append([]string{"Sec-Fetch-Site", "cross-site"}, shown...), 403, "no page of a browser"},
		{locked, "/v1/bans", "", append([]string{"Host", "evil.example"}, shown...), 403, "no page of a browser"},
		{locked, "/v1/bans", "", append([]string{"Host", "evil.example:9090"}, shown...), 403, "no page of a browser"},
		{locked, "/v1/bans", "", append([]string{"Host", "localhost:9090"}, shown...), 200, "bans"},
		{locked, "/v1/bans", "", append([]string{"Host", "[::1]:9090"}, shown...), 200, "bans"},
		{locked, "/v1/ban", `{"key":"k","length":"1h"}`, append([]string{"Content-Type", "text/plain"}, shown...), 415, "application/json"},
		{locked, "/v1/ban", `{"key":"k","length":"1h"}`, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, shown...), 415, "application/json"},
		{locked, "/v1/ban", "", shown, 405, "allowed is POST"},
		{locked, "/v1/bans", "{}", shown, 405, "allowed is GET"},
	} {
		if status, text := manageAt(t, http.DefaultClient, c.at.admin, c.path, c.body, c.headers...); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %q %v: %d %.200s", c.path, c.body, c.headers, status, text)
		}
	}
	if _, text := locked.manage("/v1/bans", ""); text != `{"bans":[]}`+"\n" {
		t.Errorf("somebody was banned: %s", text)
	}
}

// TestAdminSocket: its mode is its lock; one that was left behind is replaced, nothing else is; it goes with the process.
func TestAdminSocket(t *testing.T) {
	path := socketPath(t)
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	r := start(t, nil, "--limit", "5/1h", "--admin", "unix:"+path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	client := overSocket(t, path)
	for _, at := range []string{"/healthz", "/metrics", "/v1/rules", "/v1/bans"} {
		if status, text := manageAt(t, client, "http://any", at, ""); status != 200 {
			t.Errorf("%s: %d %s", at, status, text)
		}
	}
	if status, text := manageAt(t, client, "http://any", "/v1/reset", thisClient); status != 200 || !strings.Contains(r.said(), fmt.Sprintf(`by="uid %d, pid %d"`, os.Getuid(), os.Getpid())) {
		t.Errorf("reset: %d %s\n%s", status, text, r.said())
	}
	if strings.Contains(r.said(), "127.0.0.1\"") {
		t.Errorf("the log has a key: %s", r.said())
	}
	for _, c := range [][]string{{path, "somebody listens there"}, {filepath.Join(filepath.Dir(path), "file"), "no socket"}} {
		if c[0] != path {
			if err := os.WriteFile(c[0], []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, errs, status := cli(t, nil, "serve", "--listen", "127.0.0.1:0", "--limit", "1/1h", "--admin", "unix:"+c[0]); status != 1 || !strings.Contains(errs, c[1]) {
			t.Errorf("%s: %d %s", c[0], status, errs)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "file")); string(text) != "precious" {
		t.Errorf("the file is %q", text)
	}
	r.terminate()
	r.end()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestAuditLog: two lines for every change, in a file that may be moved away, with keys hashed or plain.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit")
	for _, mode := range []string{"hashed", "plain"} {
		r := start(t, withToken, "--limit", "5/1h", "--audit-log", file, "--audit-keys", mode)
		r.manage("/v1/ban", `{"key":"ip:203.0.113.9","length":"1h","reason":"scraping"}`)
		if err := os.Rename(file, file+".1"); err != nil {
			t.Fatal(err)
		}
		r.manage("/v1/unban", `{"key":"ip:203.0.113.9"}`)
		r.manage("/v1/inspect", `{"key":"ip:203.0.113.9"}`)
		lines := readLines(t, file+".1", file)
		key := map[string]string{"hashed": "hmac-sha256:a7e7db1ad8e6b6c3", "plain": "ip:203.0.113.9"}[mode]
		var got []string
		for _, l := range lines {
			got = append(got, l.Action+" "+l.Result)
			if l.By != "token" || !strings.HasPrefix(l.From, "127.0.0.1:") || l.ID == "" || (mode == "plain") != (l.Key == key) || mode == "hashed" && len(l.Key) != len("hmac-sha256:")+32 {
				t.Errorf("%s: %+v", mode, l)
			}
		}
		if fmt.Sprint(got) != "[ban begun ban done unban begun unban done]" || lines[0].ID != lines[1].ID || lines[1].ID == lines[2].ID || lines[0].Length != "1h" || lines[0].Reason != "scraping" {
			t.Errorf("%s: %+v", mode, lines)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if strings.Contains(r.said(), "203.0.113.9") {
			t.Errorf("the log has the key: %s", r.said())
		}
		os.Remove(file)
		os.Remove(file + ".1")
	}
}

type auditLine struct{ Time, ID, Action, By, From, Key, Length, Reason, Result, Error string }

func readLines(t *testing.T, files ...string) (all []auditLine) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var l auditLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, l)
		}
	}
	return all
}

// TestWithoutItsAuditLineNothingIsChanged: a disk that is full, and a directory that is gone.
func TestWithoutItsAuditLineNothingIsChanged(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	for _, file := range []string{"/dev/full", filepath.Join(gone, "audit")} {
		if err := os.MkdirAll(gone, 0o700); err != nil {
			t.Fatal(err)
		}
		r := start(t, withToken, "--limit", "1/1h", "--audit-log", file)
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		fetch(t, http.DefaultClient, "GET", r.url)
		for path, body := range map[string]string{"/v1/reset": thisClient, "/v1/ban": `{"key":"ip:127.0.0.1","length":"1h"}`, "/v1/unban": thisClient} {
			if status, text := r.manage(path, body); status != 503 || !strings.Contains(text, "the audit log cannot be written") {
				t.Errorf("%s: %s: %d %s", file, path, status, text)
			}
		}
		if _, text := r.manage("/v1/inspect", thisClient); !strings.Contains(text, `"used":1`) || strings.Contains(text, `"ban"`) {
			t.Errorf("%s: something was changed: %s", file, text)
		}
		if !strings.Contains(r.said(), "nothing is changed") {
			t.Errorf("%s: the log does not say so: %s", file, r.said())
		}
	}
	if _, errs, status := cli(t, withToken, "serve", "--limit", "1/1h", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--audit-log", gone+"/none/audit"); status != 2 || !strings.Contains(errs, "cannot be written") {
		t.Errorf("%d %s", status, errs)
	}
}

// TestAdminAtATerminal: every verb, over a socket and over TCP, and what it ends with.
func TestAdminAtATerminal(t *testing.T) {
	path := socketPath(t)
	bySocket := start(t, nil, "--limit", "login=2/1h", "--admin", "unix:"+path)
	byToken := start(t, withToken, "--limit", "login=2/1h")
	for _, c := range []struct {
		r      *running
		env    []string
		server string
	}{{bySocket, nil, "unix:" + path}, {byToken, withToken, byToken.admin}} {
		for range 3 {
			fetch(t, http.DefaultClient, "GET", c.r.url)
		}
		for _, step := range []struct {
			args   string
			status int
			want   string
		}{
			{"inspect ip:127.0.0.1", 0, "would be refused, retry in "},
			{"inspect ip:127.0.0.1", 0, "what counts in login, the first to leave first:\n\nunits  charged"},
			{"inspect ip:203.0.113.9", 0, "would be admitted: nothing is counted for this key"},
			{"inspect ip:127.0.0.1 --charges 0 --json", 0, `{"key":"ip:127.0.0.1","rules":[`},
			{"refusals", 0, "1 refused since the start, 1 kept\n"},
			{"refusals", 0, "limit   ip:127.0.0.1        login  "},
			{"reset ip:127.0.0.1", 0, "forgotten in every limit\n"},
			{"ban ip:127.0.0.1 90m --reason scraping", 0, "banned until 20"},
			{"inspect ip:127.0.0.1", 0, "banned, for 1h29m"},
			{"bans", 0, "ip:127.0.0.1  admin  "},
			{"unban ip:127.0.0.1", 0, "it is banned no more\n"},
			{"unban ip:127.0.0.1", 0, "no ban of this key was known"},
			{"bans", 0, "nobody is banned\n"},
			{"rules", 0, "\"login=2/1h\""},
			{"inspect k --rule none", 1, `no rule is called "none"`},
			{"ban ip:127.0.0.1 5000d", 1, "length: allowed is a duration of 1ms to 3650d"},
			{"ban ip:127.0.0.1 soon", 2, "LENGTH"},
			{"ban ip:127.0.0.1", 2, "name KEY LENGTH, such as ip:203.0.113.9 1h"},
			{"bans k", 2, "it takes no argument"},
			{"nonsense", 2, "unknown command"},
		} {
			out, errs, status := cli(t, c.env, slices.Concat([]string{"admin"}, strings.Fields(step.args), map[bool][]string{true: {"--server", c.server}}[step.args != "nonsense"])...)
			if status != step.status || !strings.Contains(out+errs, step.want) {
				t.Errorf("%s: status %d, %s%s", step.args, status, out, errs)
			}
		}
	}
	for _, c := range []struct {
		env    []string
		server string
		status int
		want   string
	}{
		{nil, byToken.admin, 1, "a bearer token is needed"},
		{withToken, "unix:" + path + "x", 3, "no such file"},
		{withToken, "127.0.0.1:9090", 2, "allowed is unix:/PATH or http://HOST:PORT"},
		{withToken, bySocket.url, 3, "no admin door"},
		{[]string{"SLIDEGATE_ADMIN_TOKEN=short"}, byToken.admin, 2, "16 or more"},
		{append([]string{"SLIDEGATE_SERVER=" + byToken.admin}, withToken...), "", 0, "nobody is banned"},
	} {
		args := []string{"admin", "bans"}
		if c.server != "" {
			args = append(args, "--server", c.server)
		}
		if out, errs, status := cli(t, c.env, args...); status != c.status || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: status %d, %s%s", c.server, status, out, errs)
		}
	}
}

// TestAdminFlagsThatDoNothing are errors.
func TestAdminFlagsThatDoNothing(t *testing.T) {
	for args, want := range map[string]string{
		"--admin-token-file /x":                                 "--admin-token-file: it is about --admin",
		"--audit-log /x":                                        "--audit-log: it is about --admin",
		"--admin 127.0.0.1:0 --audit-log /x":                    "--audit-log: there is nothing to write down",
		"--admin 127.0.0.1:0 --audit-keys all":                  `--audit-keys "all": allowed is hashed or plain`,
		"--admin unix:":                                         `--admin "unix:": allowed is HOST:PORT`,
		"--admin unix:/x --proxy-protocol admin":                "--proxy-protocol admin",
		"--admin 127.0.0.1:0 --admin-token-file /nowhere/token": "--admin-token-file: there is no file",
		"--listen unix:/x":                                      "--listen",
	} {
		if _, errs, status := cli(t, nil, append([]string{"serve", "--limit", "1/1h"}, strings.Fields(args)...)...); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s", args, status, errs)
		}
	}
}

// TestAProfileIsNotCutShort: a trace of more than --read-header-timeout is whole.
func TestAProfileIsNotCutShort(t *testing.T) {
	r := start(t, withToken, "--limit", "1/1h", "--read-header-timeout", "200ms")
	began := time.Now()
	status, text := r.manage("/debug/pprof/trace?seconds=1", "")
	if took := time.Since(began); status != 200 || took < time.Second || len(text) == 0 {
		t.Errorf("%d after %s, %d bytes", status, took, len(text))
	}
}

// TestAdminPageNamesEveryFlag of its verbs, and no other: docs/command.md and their helps are equal.
func TestAdminPageNamesEveryFlag(t *testing.T) {
	helped := map[string]bool{}
	for _, verb := range []string{"inspect", "reset", "ban", "unban", "bans", "refusals", "rules"} {
		help, _, _ := cli(t, nil, "admin", verb, "--help")
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		for _, row := range flagHelp.FindAllStringSubmatch(flags, -1) {
			helped[row[1]] = true
		}
	}
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## admin\n")
	section, _, _ = strings.Cut(section, "\n## ")
	paged := map[string]bool{}
	for _, row := range flagRow.FindAllStringSubmatch(section, -1) {
		paged[row[1]] = true
	}
	if len(paged) < 5 || !maps.Equal(paged, helped) {
		t.Errorf("the page has %v, the command %v", paged, helped)
	}
}
