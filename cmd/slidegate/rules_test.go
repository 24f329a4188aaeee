package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// writeRules puts lines into a file of rules and returns where it is.
func writeRules(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	rewrite(t, path, lines...)
	return path
}

// rewrite puts another file in the place of one, at once.
func rewrite(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// metric returns the value of a series.
func (r *running) metric(series string) string {
	r.t.Helper()
	_, text := fetch(r.t, http.DefaultClient, "GET", r.admin+"/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// at returns the statuses of requests to a path, which may begin with a host.
func (r *running) at(n int, path string, headers ...string) string {
	r.t.Helper()
	var all []int
	for range n {
		resp, _ := fetch(r.t, http.DefaultClient, "GET", r.url+path, headers...)
		all = append(all, resp.StatusCode)
	}
	return fmt.Sprint(all)
}

func TestServeByRules(t *testing.T) {
	path := writeRules(t, "rules:", "- {name: login, path: /login, limits: 1/1h}", "- {name: rest, limits: 2/1h}",
		"domains:", "  shop: {host: shop.example, match: all, rules: [{name: trial, limits: 1/1h, mode: shadow}, {name: gone, path: /gone, limits: blocked, response: {status: 410}}]}")
	r := start(t, nil, "--config", path)
	for _, want := range []string{"rules     " + path + ": 4 rules", "            login: 1/1h, for /login", "            shop/trial: 1/1h (shadow)"} {
		if !strings.Contains(r.said(), want) {
			t.Errorf("the start does not say %q:\n%s", want, r.said())
		}
	}
	for _, c := range []struct{ got, want string }{
		{r.at(2, "/login"), "[200 429]"}, {r.at(3, "/"), "[200 200 429]"},
		{r.at(2, "/", "Host", "shop.example"), "[200 200]"}, {r.at(1, "/gone", "Host", "shop.example"), "[410]"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	for series, want := range map[string]string{
		`slidegate_decisions_total{limit="login:1h",result="admitted"}`:          "1",
		`slidegate_decisions_total{limit="rest:1h",result="refused"}`:            "1",
		`slidegate_decisions_total{limit="shop/trial:1h",result="would_admit"}`:  "1",
		`slidegate_decisions_total{limit="shop/trial:1h",result="would_refuse"}`: "1",
		`slidegate_decisions_total{limit="shop/gone:blocked",result="refused"}`:  "1",
		`slidegate_config_reloads_total{result="success"}`:                       "0",
	} {
		if got := r.metric(series); got != want {
			t.Errorf("%s is %q, want %s", series, got, want)
		}
	}
}

// TestRulesChangeUnderWay: by themselves, at SIGHUP, and not for a file that is wrong.
func TestRulesChangeUnderWay(t *testing.T) {
	path := writeRules(t, "rules: [{name: all, limits: 1/1h}]")
	r := start(t, nil, "--config", path)
	if got := r.at(2, "/"); got != "[200 429]" {
		t.Errorf("at first: %s", got)
	}
	reloads := func(result, n string) func() bool {
		return func() bool { return r.metric(`slidegate_config_reloads_total{result="`+result+`"}`) == n }
	}
	since := r.metric("slidegate_config_last_reload_success_timestamp_seconds")
	rewrite(t, path, "rules:", "- name: all", "  limit: 5/1h")
	eventually(t, "a wrong file is told of", reloads("failure", "1"))
	if got := r.at(1, "/"); got != "[429]" || r.metric("slidegate_config_last_reload_success_timestamp_seconds") != since || r.metric("slidegate_config_last_reload_successful") != "0" {
		t.Errorf("by a wrong file: %s", got)
	}
	rewrite(t, path, "listen: 127.0.0.1:1", "rules: [{name: all, limits: 3/1h}]")
	eventually(t, "a good file is taken", reloads("success", "1"))
	if got := r.at(3, "/"); got != "[200 200 429]" || r.metric("slidegate_config_last_reload_successful") != "1" {
		t.Errorf("by the next: %s", got)
	}
	rewrite(t, path, "rules: [{name: all, limits: 4/1h}]")
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "SIGHUP reads the file", reloads("success", "2"))
	if got := r.at(2, "/"); got != "[200 429]" {
		t.Errorf("after SIGHUP: %s", got)
	}
	for _, want := range []string{
		"the changed rules are wrong: the last good ones hold", `unknown field \"limit\" in rule 1: did you mean \"limits\"?`,
		`level=WARN msg="a large change of the rules" change="all: 1/1h → 3/1h, 3 times looser"`, `change="listen: the default → 127.0.0.1:1: takes effect at the next start"`,
		`level=INFO msg="a change of the rules" change="all: 3/1h → 4/1h, 1.3 times looser"`,
	} {
		if !strings.Contains(r.said(), want) {
			t.Errorf("the log does not have %s:\n%s", want, r.said())
		}
	}
}

// TestReadinessFollowsTheFile: what on-store-error says by now decides whether a process without its store is ready.
func TestReadinessFollowsTheFile(t *testing.T) {
	const rules = "rules: [{name: all, limits: 1/1h}]"
	path := writeRules(t, "store: redis://127.0.0.1:1", rules)
	r := start(t, nil, "--config", path)
	ready := func() int {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.admin+"/readyz")
		return resp.StatusCode
	}
	if got := ready(); got != 200 {
		t.Errorf("open: %d", got)
	}
	rewrite(t, path, "store: redis://127.0.0.1:1", "on-store-error: closed", rules)
	eventually(t, "closed by now", func() bool { return ready() == 503 })
	rewrite(t, path, "store: redis://127.0.0.1:1", rules)
	eventually(t, "open again", func() bool { return ready() == 200 })
}

// TestChangesUnderLoad lose and refill nothing: as many are admitted as the last quota says.
func TestChangesUnderLoad(t *testing.T) {
	path := writeRules(t, "rules: [{name: all, limits: 100/1h}]")
	r := start(t, nil, "--config", path)
	var admitted atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for range 100 {
				if r.at(1, "/") == "[200]" {
					admitted.Add(1)
				}
			}
		})
	}
	for _, quota := range []int{90, 120, 110, 150} {
		rewrite(t, path, fmt.Sprintf("rules: [{name: all, limits: %d/1h}]", quota))
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the quota is there", func() bool { return strings.Contains(r.said(), fmt.Sprintf("→ %d/1h", quota)) })
	}
	load.Wait()
	for r.at(1, "/") == "[200]" {
		admitted.Add(1)
	}
	if admitted.Load() != 150 {
		t.Errorf("%d admitted, want 150", admitted.Load())
	}
}

// TestSettingsInTheFile: a flag holds against a variable, and both against the file.
func TestSettingsInTheFile(t *testing.T) {
	service := behind(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("From", "first") })
	other := behind(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("From", "other") })
	path := writeRules(t, "listen: 127.0.0.1:1", "upstream: "+service, "upstreams: {other: '"+other+"'}", "trusted-proxies: [127.0.0.1]", "headers: legacy", "key: header:X-Key",
		"rules:", "- {name: other, path: /other, limits: 9/1h, upstream: other}", "- {name: rest, limits: 1/1h}")
	r := start(t, []string{"SLIDEGATE_HEADERS=draft-6"}, "--config", path) // which has --listen
	for path, from := range map[string]string{"/": "first", "/other": "other"} {
		resp, _ := fetch(t, http.DefaultClient, "GET", r.url+path, "X-Key", "a")
		if resp.Header.Get("From") != from || resp.Header.Get("RateLimit-Limit") == "" || resp.Header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
	if got := r.at(1, "/", "X-Key", "a") + r.at(1, "/", "X-Key", "b") + r.at(2, "/", "X-Forwarded-For", "192.0.2.7"); got != "[429][200][200 429]" {
		t.Errorf("got %s", got)
	}
}

// TestRulesForProxiesThatAsk are about the request that they ask about. What it is answered nobody knows there, so nothing is
// given back.
func TestRulesForProxiesThatAsk(t *testing.T) {
	r := start(t, nil, "--config", writeRules(t, "auth-listen: 127.0.0.1:0", "auth-dialect: nginx", "deny: /secret", "rules:",
		"- {name: login, path: /login, methods: POST, limits: 2/1h, refund-if-status: 2xx}", "- {name: rest, limits: 1/1h}"))
	got := ""
	for _, request := range []string{"POST /login", "POST /login", "POST /login", "GET /login", "GET /x", "GET /secret"} {
		method, path, _ := strings.Cut(request, " ")
		resp, _ := fetch(t, http.DefaultClient, "GET", r.auth, "X-Original-Method", method, "X-Original-URI", path, "X-Forwarded-For", "192.0.2.7")
		got += fmt.Sprint(resp.StatusCode, " ")
	}
	if got != "200 200 429 200 429 403 " {
		t.Errorf("got %s", got)
	}
}

// TestProgramsAskByRule: the name of a limiter is that of a rule, and keys are those that the proxy counts.
func TestProgramsAskByRule(t *testing.T) {
	r := start(t, nil, "--config", writeRules(t, "api-listen: 127.0.0.1:0", "rules:", "- {name: login, limits: 2/1h}", "- {name: idle, limits: 2/1h, mode: off}",
		"domains: {shop: {host: shop.example, rules: [{name: all, limits: 1/1h}]}}"))
	for _, c := range []struct {
		limiter, key string
		status       int
	}{
		{"login", "ip:127.0.0.1", 200}, {"login", "ip:127.0.0.1", 429}, {"shop/all", "domain:shop|ip:127.0.0.1", 429}, {"shop/all", "ip:127.0.0.1", 200},
		{"idle", "a", 404}, {"", "a", 400}, {"all", "a", 404},
	} {
		if c.key == "ip:127.0.0.1" && c.status == 200 && c.limiter == "login" {
			r.at(1, "/")
			r.at(1, "/", "Host", "shop.example")
		}
		body := strings.NewReader(fmt.Sprintf(`{"limiter":%q,"key":%q}`, c.limiter, c.key))
		if c.limiter == "" {
			body = strings.NewReader(fmt.Sprintf(`{"key":%q}`, c.key))
		}
		resp, err := http.Post(r.api+"/v1/take", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.limiter, c.key, resp.StatusCode, c.status)
		}
	}
	if got := r.metric(`slidegate_decisions_total{limit="login:1h",result="refused"}`); got != "1" {
		t.Errorf("refused by login: %s", got)
	}
}

func TestWrongRules(t *testing.T) {
	wrong := writeRules(t, "rules:", "- {name: a, limits: 0/1s}", "- {name: a, limit: 1/1s}")
	setting := writeRules(t, "listen: nowhere", "upstream: 'ftp://x'", "rules: [{name: a, limits: 1/1s}]")
	good := writeRules(t, "rules: [{name: a, limits: 1/1s}]")
	rls := ruleDir(t, "a.yaml", "domain: edge\n", "b.yaml", "domain: edge\ndescriptors:\n  - key: a\n    rate_limit: {unit: minute, requests: 1}\n", ".old.yaml", "no: rules\n")
	nothing := t.TempDir()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"check", wrong}, []string{wrong + `:2: limits "0/1s": quota 0`, wrong + `:3: unknown field "limit" in rule 2`, wrong + ":3: rule 2 has no limits"}},
		{[]string{"serve", "--config", wrong}, []string{wrong + `:2: limits "0/1s": quota 0`, wrong + ":3: rule 2 has no limits"}},
		{[]string{"diff", wrong, good}, []string{wrong + `:2: limits "0/1s": quota 0`}},
		{[]string{"diff", good, wrong}, []string{wrong + `:2: limits "0/1s": quota 0`}},
		{[]string{"check", setting}, []string{setting + `:1: listen "nowhere": allowed is HOST:PORT`, setting + `:2: upstream "ftp://x": allowed is a URL`}},
		{[]string{"serve", "--config", setting}, []string{setting + `:1: listen "nowhere": allowed is HOST:PORT`}},
		{[]string{"check", "nowhere.yaml"}, []string{"nowhere.yaml: cannot be read: no such file or directory"}},
		{[]string{"check", "--rls", rls}, []string{
			filepath.Join(rls, "b.yaml") + `:1: the domain "edge" is also in ` + filepath.Join(rls, "a.yaml") + ":1: allowed is one file for each, unless domains are merged",
		}},
		{[]string{"check", "--rls", "--rls-merge-domains", rls}, []string{filepath.Join(rls, "b.yaml") + `:4: unknown field "requests" of rate_limit: allowed is unit, requests_per_unit, unlimited, name, replaces`}},
		{[]string{"check", "--rls", nothing}, []string{nothing + ": there is no file: give the directory with the YAML files"}},
		{[]string{"check", "--rls", "nowhere"}, []string{"nowhere: cannot be read: no such file or directory"}},
		{[]string{"check", "--rls"}, []string{"slidegate: check: 0 files: allowed is 1"}},
		{[]string{"check", "--rls", "--schema"}, []string{"slidegate: --schema with --rls: it is of files of rules"}},
		{[]string{"check", "--rls-merge-domains", good}, []string{"slidegate: --rls-merge-domains: it is about --rls, which is not given"}},
		{[]string{"check"}, []string{"slidegate: check: 0 files: allowed is 1"}},
		{[]string{"check", "--schema", good}, []string{"slidegate: check: 1 files: allowed is 0"}},
		{[]string{"diff", good}, []string{"slidegate: diff: 1 files: allowed is 2"}},
		{[]string{"serve", "--config", good, "--limit", "1/1s"}, []string{"slidegate: --limit with --config: limits stand in the rules of the file: give one of the two"}},
	} {
		out, errs, status := cli(t, nil, c.args...)
		for _, want := range c.want {
			if !strings.Contains("\n"+errs, "\n"+want) {
				t.Errorf("%v says\n%s\nwithout %q", c.args, errs, want)
			}
		}
		if status != 2 || out != "" {
			t.Errorf("%v: status %d, %q", c.args, status, out)
		}
	}
}

func TestCheckAndDiff(t *testing.T) {
	before := writeRules(t, "rules:", "- {name: login, path: /login, methods: POST, limits: 5/15m}")
	after := writeRules(t, "rules:", "- {name: login, path: /login, methods: POST, limits: 50/15m}")
	if out, errs, status := cli(t, nil, "check", before); out != before+": 1 rule\nlogin: 5/15m, for POST, /login\n" || errs != "" || status != 0 {
		t.Errorf("check: %d %q %q", status, out, errs)
	}
	if out, errs, status := cli(t, nil, "diff", before, after); out != "login: 5/15m → 50/15m, 10 times looser\n" || errs != "" || status != 1 {
		t.Errorf("diff: %d %q %q", status, out, errs)
	}
	if out, errs, status := cli(t, nil, "diff", before, before); out != "" || errs != "" || status != 0 {
		t.Errorf("diff of the same: %d %q %q", status, out, errs)
	}
}

// TestCheckOfRLS sums up a directory that the rate limit service would take.
func TestCheckOfRLS(t *testing.T) {
	dir := ruleDir(t, "edge.yaml", "domain: edge\ndescriptors:\n  - {key: user, shadow_mode: true, rate_limit: {unit: Minute, requests_per_unit: 10}}\n  - {key: user, value: ada, rate_limit: {unlimited: true}}\n",
		"shop.yaml", "domain: shop\ndescriptors: [{key: plan, value: free, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]}]\n")
	want := dir + ": rules 3, domains 2: edge, shop\nedge.user: 10/minute (shadow)\nedge.user_ada: unlimited\nshop.plan_free.user: 1000/day\n"
	if out, errs, status := cli(t, nil, "check", "--rls", dir); out != want || errs != "" || status != 0 {
		t.Errorf("check: %d %q %q", status, out, errs)
	}
	other := ruleDir(t, "a.yaml", "domain: edge\n", "b.yaml", perUser("1"))
	if out, errs, status := cli(t, nil, "check", "--rls", "--rls-merge-domains", other); out != other+": rules 1, domains 1: edge\nedge.user: 1/hour\n" || errs != "" || status != 0 {
		t.Errorf("check of merged domains: %d %q %q", status, out, errs)
	}
}

// TestSchemaIsCommitted: docs/rules.schema.json is what the command prints, and takes every file that docs/rules.md shows,
// as the command does.
func TestSchemaIsCommitted(t *testing.T) {
	printed, _, status := cli(t, nil, "check", "--schema")
	committed, err := os.ReadFile("../../docs/rules.schema.json")
	if err != nil || status != 0 || printed != string(committed) {
		t.Fatalf("docs/rules.schema.json is not what slidegate check --schema prints: %v", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(committed))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	examples := documented(t)
	if len(examples) < 5 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, text := range examples {
		if _, errs, status := cli(t, nil, "check", writeRules(t, text)); status != 0 {
			t.Errorf("%s\nof\n%s", errs, text)
		}
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%v\nof\n%s", err, text)
		}
	}
}

// documented returns the files of docs/rules.md.
func documented(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		all = append(all, text)
	}
	return all
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	value, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestDocumentedRulesLimit as their page says.
func TestDocumentedRulesLimit(t *testing.T) {
	examples := documented(t)
	n := len(examples)
	serve := func(text string) *running {
		return start(t, nil, "--config", writeRules(t, text), "--upstream", behind(t, func(http.ResponseWriter, *http.Request) {}), "--store", "memory", "--trusted-proxies", "127.0.0.1")
	}
	site := serve(examples[n-3])
	status := func(r *running, method, path string, headers ...string) int {
		resp, _ := fetch(t, http.DefaultClient, method, r.url+path, headers...)
		return resp.StatusCode
	}
	count := func(r *running, want, attempts int, method, path string, headers ...string) {
		t.Helper()
		got := 0
		for range attempts {
			if status(r, method, path, headers...) == 200 {
				got++
			}
		}
		if got != want {
			t.Errorf("%s %s %v: %d admitted of %d, want %d", method, path, headers, got, attempts, want)
		}
	}
	count(site, 31, 31, "GET", "/healthz")
	count(site, 7, 7, "POST", "/login") // successes do not count
	count(site, 30, 32, "GET", "/search", "X-Forwarded-For", "192.0.2.9")
	if got := status(site, "GET", "/", "X-Forwarded-For", "198.51.100.7"); got != 403 {
		t.Errorf("a denied network got %d", got)
	}
	if got := site.metric(`slidegate_decisions_total{limit="search-tighter:1m",result="would_refuse"}`); got != "22" {
		t.Errorf("the trial would refuse %s", got)
	}
	api := serve(examples[n-2])
	count(api, 60, 61, "GET", "/v1/a", "X-API-Key", "a")
	count(api, 70, 70, "GET", "/v1/a", "X-API-Key", "b", "X-Plan", "silver")
	count(api, 70, 70, "GET", "/v1/a", "X-API-Key", "monitoring")
	several := start(t, nil, "--config", writeRules(t, examples[n-1]))
	if got := status(several, "GET", "/"); got != 404 {
		t.Errorf("a stranger got %d", got)
	}
	refused := 0
	for range 5 {
		if status(several, "POST", "/checkout/pay", "Host", "www.shop.example") == 429 {
			refused++
		}
	}
	if refused != 2 { // the others found no shop behind
		t.Errorf("%d of 5 checkouts were refused, want 2", refused)
	}
}

// TestAllThatMatchIsOneScript: rules under match: all that agree in what a refusal means are one decision, on Redis one script,
// whatever their keys are and whatever is around the store.
func TestAllThatMatchIsOneScript(t *testing.T) {
	s := startRedis(t)
	path := writeRules(t, "match: all", "rules:", "- {name: client, limits: 100/1h}", "- {name: together, key: host, limits: [50/1m, 1000/1h]}")
	r := start(t, nil, "--config", path, "--store", s.url(), "--fallback", "1/2", "--remember-refusals", "1s")
	r.tried()
	before := s.evaluations()
	const asked = 20
	if got := r.at(asked, "/"); strings.Contains(got, "429") {
		t.Fatalf("answers %s", got)
	}
	if n := s.evaluations() - before; n != asked {
		t.Errorf("%d scripts for %d requests", n, asked)
	}
}
