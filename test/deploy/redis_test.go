package deploy

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// conf returns the lines of a fence of Redis settings in docs/operations.md, as options of a server.
func conf(t *testing.T, n int) (options []redistest.Option) {
	t.Helper()
	fences := regexp.MustCompile("(?ms)^```conf\n(.*?)^```$").FindAllStringSubmatch(readFile(t, "docs", "operations.md"), -1)
	if len(fences) != 2 {
		t.Fatalf("%d fences", len(fences))
	}
	for line := range strings.Lines(fences[n][1]) {
		directive, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		options = append(options, redistest.With(directive, strings.Trim(value, `"`)))
	}
	return options
}

// on are settings for a Redis that is to decide every request.
func on(url string) settings {
	return local(settings{"SLIDEGATE_STORE": url, "SLIDEGATE_STORE_TIMEOUT": "2s", "SLIDEGATE_ON_STORE_ERROR": "closed", "SLIDEGATE_LIMIT": "2/1m"})
}

// TestRedisSettingsServe: a server takes them, and the command limits on it.
func TestRedisSettingsServe(t *testing.T) {
	server := redistest.Standalone(t, conf(t, 0)...)
	for name, want := range map[string]string{"maxmemory": "268435456", "maxmemory-policy": "noeviction", "save": "", "appendonly": "no"} {
		if got := server.Do("CONFIG", "GET", name).([]any); got[1] != want {
			t.Errorf("%s is %q", name, got[1])
		}
	}
	serve(t, on(server.URL()), "serve").want(200, 200, 429)
}

// TestAPrimaryAloneDecidesNothing, where it is told to have a replica for what it writes.
func TestAPrimaryAloneDecidesNothing(t *testing.T) {
	pair := redistest.PrimaryReplica(t, conf(t, 1)...)
	r := serve(t, on(pair.Primary.URL()), "serve")
	redistest.Await(t, patience, "the replica counts", func() bool { status, _ := r.get(r.url + "/"); return status == 200 })
	pair.Replica.Kill()
	redistest.Await(t, patience, "the primary has seen it go", func() bool { return pair.Primary.Info("replication")["connected_slaves"] == "0" })
	if _, err := pair.Primary.Try("SET", "a", "b"); err == nil {
		t.Error("the primary goes on writing")
	}
	r.want(503)
}

// TestTheCommandNeedsNoMoreRules than docs/redis.md has: it decides, says that it is ready, and its other
// commands do what they are for.
func TestTheCommandNeedsNoMoreRules(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ACL SETUSER limits .*$`).FindString(readFile(t, "docs", "redis.md"))
	for _, client := range []string{"rueidis", "goredis"} {
		server := redistest.Standalone(t)
		server.Do(strings.Fields(line)...)
		s := on("redis://limits@" + server.Addr + "/0").with(settings{"SLIDEGATE_STORE_PASSWORD": "secret", "SLIDEGATE_CLIENT": client})
		r := serve(t, s, "serve")
		r.want(200, 200, 429)
		if status, body := r.get(r.admin + "/readyz"); status != 200 {
			t.Errorf("%s: /readyz answers %d: %s", client, status, body)
		}
		for i, verb := range []string{"peek", "reset", "take"} {
			cmd := command(s, verb, "ip:127.0.0.1")
			out, _ := cmd.CombinedOutput()
			if got, want := cmd.ProcessState.ExitCode(), []int{1, 0, 0}[i]; got != want {
				t.Errorf("%s: %s ends with %d, want %d: %s", client, verb, got, want, out)
			}
		}
	}
}

// TestRulesNeedNoMoreRules of access: bans, refunds, several keys in a decision, descriptors that are charged together and
// a share by the processes that live included. A ban by a rule ends by the command of docs/operations.md.
func TestRulesNeedNoMoreRules(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ACL SETUSER limits .*$`).FindString(readFile(t, "docs", "redis.md"))
	reset := regexp.MustCompile("`slidegate (reset ip:203.0.113.7 --limit ban:login=1/1h .*?)`").FindStringSubmatch(strings.ReplaceAll(readFile(t, "docs", "operations.md"), "\n", " "))
	if reset == nil {
		t.Fatal("docs/operations.md does not say how a ban by a rule ends")
	}
	dir := writeFiles(t, map[string]string{
		"rules.yaml": "match: all\nrules:\n" +
			"- {name: login, path: /login, limits: 1/15m, ban: {strikes: 2/1m, length: 1h}}\n" +
			"- {name: method, key: method, limits: 100/1h, refund-if-status: 2xx}\n" +
			"- {name: client, limits: '100/1h,counter', refund-if-status: 2xx}\n",
		"rls/edge.yaml": "domain: edge\ndescriptors:\n- {key: a, rate_limit: {unit: minute, requests_per_unit: 9}}\n- {key: b, rate_limit: {unit: minute, requests_per_unit: 9}}\n",
	})
	for _, client := range []string{"rueidis", "goredis"} {
		server := redistest.Standalone(t)
		server.Do(strings.Fields(line)...)
		s := on("redis://limits@" + server.Addr + "/0").with(settings{"SLIDEGATE_STORE_PASSWORD": "secret", "SLIDEGATE_CLIENT": client})
		delete(s, "SLIDEGATE_LIMIT")
		r := serve(t, s, "serve", "--config", dir+"/rules.yaml", "--rls-http-listen", "127.0.0.1:0", "--rls-config", dir+"/rls", "--rls-all-or-nothing", "--fallback", "replicas")
		r.awaits("slidegate_replicas", "1")
		for i, want := range []int{200, 429, 429, 429} {
			if status, body := r.get(r.url + "/login"); status != want || (i > 1) != strings.Contains(body, "ban:login") {
				t.Errorf("%s: request %d got %d: %s", client, i, status, body)
			}
		}
		r.want(200)
		r.askRLS(`{"domain": "edge", "descriptors": [{"entries": [{"key": "a", "value": "x"}]}, {"entries": [{"key": "b", "value": "y"}]}]}`)
		for _, series := range []string{"slidegate_store_errors_total", "slidegate_after_errors_total", "slidegate_redis_failures_total", `slidegate_rls_errors_total{cause="store"}`} {
			if n := r.metric(series); n != "0" {
				t.Errorf("%s: %s is %s: %s", client, series, n, r.text())
			}
		}
		args := strings.Fields(strings.Replace(reset[1], "203.0.113.7", "127.0.0.1", 1))
		if out, err := command(s, append(args, "--limit", "login:15m=1/15m")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", client, err, out)
		}
		if status, body := r.get(r.url + "/login"); status != 200 {
			t.Errorf("%s: after the ban: %d %s", client, status, body)
		}
	}
}
