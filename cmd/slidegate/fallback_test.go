package main_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// durable is a Redis that keeps what it has acknowledged when it is killed.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// admitted sends requests one after the other and returns how many passed. Each has to say what it is held to.
func (r *running) admitted(n int) (passed int) {
	r.t.Helper()
	for range n {
		resp, _ := fetch(r.t, http.DefaultClient, "GET", r.url)
		if resp.Header.Get("RateLimit") == "" {
			r.t.Errorf("%d without RateLimit", resp.StatusCode)
		}
		if resp.StatusCode == 200 {
			passed++
		}
	}
	return passed
}

// TestAShareDecidesWhileRedisIsAway: two servers hold to their shares while it is, say so in the fields, and when it is
// back nobody has been refilled: what both admitted is the quota.
func TestAShareDecidesWhileRedisIsAway(t *testing.T) {
	s := startRedis(t, durable...)
	both := make([]*running, 2)
	for i, client := range clientNames {
		both[i] = start(t, patient, "--limit", "8/1h", "--store", s.url(), "--client", client, "--fallback", "1/4", "--on-store-error", "closed")
		if !strings.Contains(both[i].said(), "while Redis is away this process decides by 1/4 of each quota") {
			t.Errorf("the start says %s", both[i].said())
		}
		both[i].tried()
	}
	admitted := both[0].admitted(3)
	s.kill()
	for i, r := range both {
		for j, want := range []string{"200 r=1", "200 r=0", "429 r=0", "429 r=0", "429 r=0", "429 r=0"} {
			resp, _ := fetch(t, http.DefaultClient, "GET", r.url)
			if got := fmt.Sprintf("%d r=%s", resp.StatusCode, remaining(resp)); got != want {
				t.Errorf("server %d, request %d: %s, want %s", i, j, got, want)
			}
			if resp.StatusCode == 200 {
				admitted++
			} else if wait, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || wait < 3000 || wait > 3600 {
				t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
			}
		}
		if resp, body := fetch(t, http.DefaultClient, "GET", r.admin+"/readyz"); resp.StatusCode != 200 || !strings.Contains(body, "decides by its share") {
			t.Errorf("/readyz is %d %q", resp.StatusCode, body)
		}
		for series, want := range map[string]string{
			"slidegate_fallback_active": "1", "slidegate_fallback_share": "0.25", "slidegate_fallback_decisions_total": "6",
			"slidegate_fallback_owed": "1", "slidegate_store_errors_total": "0",
		} {
			if got := r.metric(series); got != want {
				t.Errorf("%s is %s, want %s", series, got, want)
			}
		}
		if n := strings.Count(r.said(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors: %s", n, r.said())
		}
	}
	s.start()
	for _, r := range both {
		eventually(t, "what is owed is charged", func() bool {
			admitted += r.admitted(1)
			return r.metric("slidegate_fallback_owed") == "0"
		})
		if got := r.metric("slidegate_fallback_taken_over_total"); got != "2" {
			t.Errorf("%s units are taken over", got)
		}
	}
	for _, r := range both {
		admitted += r.admitted(3)
	}
	if admitted != 8 {
		t.Errorf("%d were admitted in all", admitted)
	}
}

// TestAShareGoesByReplicas: each process has as much as there are processes, as Redis last said.
func TestAShareGoesByReplicas(t *testing.T) {
	s := startRedis(t)
	var both []*running
	for range 2 {
		both = append(both, start(t, patient, "--limit", "8/1h", "--store", s.url(), "--fallback", "replicas"))
	}
	for _, r := range both {
		eventually(t, "both are counted", func() bool { return r.metric("slidegate_replicas") == "2" })
	}
	s.kill()
	for _, r := range both {
		if got := r.admitted(8); got != 4 || r.metric("slidegate_fallback_share") != "0.5" {
			t.Errorf("%d were admitted by a share of %s", got, r.metric("slidegate_fallback_share"))
		}
	}
	late := start(t, patient, "--limit", "8/1h", "--store", s.url(), "--fallback", "replicas")
	if got := late.admitted(9); got != 8 {
		t.Errorf("one that has never reached Redis admitted %d", got)
	}
}

// TestTheStoreIsTriedWhenItCanBeAsked: at once, or when it comes, and without a trace; nobody waits for it.
func TestTheStoreIsTriedWhenItCanBeAsked(t *testing.T) {
	s := startRedis(t)
	s.kill()
	r := start(t, patient, "--limit", "8/1h", "--store", s.url(), "--remember-refusals", "1s", "--fallback", "1/4")
	if got := r.metric("slidegate_self_check_passed") + r.metric("slidegate_self_check_failed"); got != "00" {
		t.Errorf("without a Redis passed and failed are %s", got)
	}
	s.start()
	r.tried()
	if keys := s.stored(); len(keys) > 0 {
		t.Errorf("it leaves %v", keys)
	}
	memory := start(t, nil, "--limit", "8/1h")
	if got := memory.metric("slidegate_self_check_passed") + memory.metric("slidegate_tracked_keys"); got != "10" {
		t.Errorf("in memory passed is, and the keys are %s", got)
	}
}

// TestARequestWaitsForRedisOnce, however many decisions it takes: four rules that cannot be one, and a share that is owed.
func TestARequestWaitsForRedisOnce(t *testing.T) {
	const timeout, most = "1s", 2500 * time.Millisecond
	file := writeRules(t,
		"match: all",
		"rules:",
		"  - {name: a, cost: 1, limits: 99/1h}",
		"  - {name: b, cost: 2, limits: 99/1h}",
		"  - {name: c, cost: 3, limits: 99/1h}",
		"  - {name: d, cost: 4, limits: 99/1h}",
	)
	for _, more := range [][]string{nil, {"--fallback", "1/2"}} {
		s := startRedis(t)
		r := start(t, nil, append([]string{"--config", file, "--store", s.url(), "--store-timeout", timeout}, more...)...)
		eventually(t, "requests are limited", func() bool { _, isLimited, _ := r.status(); return isLimited })
		s.signal(syscall.SIGSTOP)
		if status, isLimited, took := r.status(); status != 200 || isLimited != (more != nil) || took > most {
			t.Errorf("%v: %d, limited: %v, after %s", more, status, isLimited, took)
		}
		s.signal(syscall.SIGCONT)
	}
}

var remainingField = regexp.MustCompile(`r=(\d+)`)

// remaining is what the RateLimit field says is left.
func remaining(resp *http.Response) string {
	m := remainingField.FindStringSubmatch(resp.Header.Get("RateLimit"))
	if m == nil {
		return "?"
	}
	return m[1]
}

// evaluations is how many scripts Redis was sent.
func (s *redisServer) evaluations() (n int) {
	s.t.Helper()
	info, err := s.keys.Info(s.t.Context(), "commandstats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}

// tried waits until the server has tried its store, and will ask it nothing by itself any more.
func (r *running) tried() {
	r.t.Helper()
	eventually(r.t, "the self-check passes", func() bool { return r.metric("slidegate_self_check_passed") == "1" })
}

// post asks the JSON door of a server that has others too.
func (r *running) post(path, body string) (status int) {
	r.t.Helper()
	resp, err := http.Post(r.api+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestAFloodOfTheRefusedDoesNotReachRedis where refusals are remembered, and a reset does: at once through this process,
// and from another one when the time is over.
func TestAFloodOfTheRefusedDoesNotReachRedis(t *testing.T) {
	const flood, most = 400, 500 * time.Millisecond
	s := startRedis(t)
	r := start(t, patient, "--limit", "hour=2/1h", "--key", "header:X-Key", "--api-listen", "127.0.0.1:0", "--store", s.url(), "--remember-refusals", most.String(), "--remember-refusals-max", "64")
	r.want("200 200 429", "X-Key", "a")
	r.tried()
	before, begin := s.evaluations(), time.Now()
	for range flood {
		r.want("429", "X-Key", "a")
	}
	if sent, may := s.evaluations()-before, int(time.Since(begin)/most)+2; sent > may {
		t.Errorf("a flood of %d refusals sent %d scripts, want %d at most", flood, sent, may)
	}
	if hits, err := strconv.Atoi(r.metric("slidegate_remembered_refusals_total")); err != nil || hits < flood/2 {
		t.Errorf("%d refusals were remembered of %d", hits, flood)
	}
	if got := r.metric("slidegate_remembered_refusals"); got != "1" {
		t.Errorf("%s refusals are remembered", got)
	}
	if status := r.post("/v1/reset", `{"key":"header:X-Key:a"}`); status != 204 {
		t.Fatal(status)
	}
	r.want("200 200 429", "X-Key", "a")
	if _, errs, status := cli(t, patient, "reset", "header:X-Key:a", "--limit", "hour=2/1h", "--store", s.url()); status != 0 {
		t.Fatal(errs)
	}
	eventually(t, "the reset of another process is seen", func() bool { return r.statuses(1, "X-Key", "a")[0] == 200 })
}

// TestAnOutageIsToldOfOnce, however many rules and doors meet it.
func TestAnOutageIsToldOfOnce(t *testing.T) {
	s := startRedis(t)
	file := writeRules(t,
		"rules:",
		"  - {name: a, path: [/a], limits: 9/1h}",
		"  - {name: b, path: [/b], limits: 9/1h, on-store-error: closed}",
		"  - {name: c, path: [/c], limits: 9/1h, cost: 2}",
	)
	for _, more := range [][]string{nil, {"--fallback", "1/2"}} {
		r := start(t, patient, append([]string{"--config", file, "--store", s.url(), "--api-listen", "127.0.0.1:0", "--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("1"))}, more...)...)
		s.kill()
		for range 3 {
			for _, path := range []string{"/a", "/b", "/c"} {
				r.at(1, path)
			}
			r.askRLS(asAda)
			if status := r.post("/v1/take", `{"limiter":"a","key":"k"}`); (status == 200) != (more != nil) {
				t.Errorf("%v: the JSON door says %d", more, status)
			}
		}
		eventually(t, "it is told of", func() bool { return strings.Contains(r.said(), "level=ERROR") })
		r.terminate()
		if r.end(); strings.Count(r.said(), "level=ERROR") != 1 {
			t.Errorf("%v: %s", more, r.said())
		}
		s.start()
	}
}
