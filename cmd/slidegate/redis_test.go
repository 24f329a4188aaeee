package main_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
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

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/console"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

// A redisServer is a real server on a port of 127.0.0.1 that was free. It ends with the test.
type redisServer struct {
	t    *testing.T
	port string
	dir  string
	args []string
	cmd  *exec.Cmd
	keys *redis.Client // for the test's own looks at it
}

// redisOptions are those that a server has in every test.
var redisOptions = []string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"}

// startRedis starts a server with more options and waits until it answers.
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	s := &redisServer{t: t, port: freePort(t), dir: t.TempDir(), args: args}
	s.keys = redis.NewClient(&redis.Options{Addr: s.address(), Password: testPassword(args), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() {
		s.keys.Close()
		s.kill()
	})
	s.start()
	return s
}

// testPassword is the one that the options of a server set.
func testPassword(args []string) string {
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		return args[i+1]
	}
	return ""
}

func init() { logging.Disable() } // the tests wait for servers that are not there yet

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func (s *redisServer) address() string { return "127.0.0.1:" + s.port }
func (s *redisServer) url() string     { return "redis://" + s.address() + "/0" }

func (s *redisServer) start() {
	s.t.Helper()
	s.run()
	eventually(s.t, "the Redis answers", func() bool { return s.keys.Ping(s.t.Context()).Err() == nil })
}

// run starts the process without waiting for it.
func (s *redisServer) run() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", slices.Concat([]string{"--port", s.port, "--dir", s.dir}, redisOptions, s.args)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *redisServer) kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *redisServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// stored returns all keys, sorted.
func (s *redisServer) stored() []string {
	s.t.Helper()
	keys, err := s.keys.Keys(s.t.Context(), "*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// patient is for servers whose every request is to be decided, on a machine that is busy.
var patient = []string{"SLIDEGATE_STORE_TIMEOUT=2s"}

var clientNames = []string{"rueidis", "goredis"}

// TestServersOnRedisShareABudget, whatever client they have, under the key that is documented.
func TestServersOnRedisShareABudget(t *testing.T) {
	s := startRedis(t)
	first := start(t, patient, "--limit", "10/1h", "--store", s.url())
	second := start(t, append(slices.Clone(patient), "SLIDEGATE_STORE="+s.url(), "SLIDEGATE_CLIENT=goredis", "SLIDEGATE_MAX_KEYS=7"), "--limit", "10/1h")
	counts := map[int]int{}
	for i := range 20 {
		for _, status := range []*running{first, second}[i%2].statuses(1) {
			counts[status]++
		}
	}
	if counts[200] != 10 || counts[429] != 10 {
		t.Errorf("%v, want ten of each", counts)
	}
	first.tried()
	second.tried()
	if got, want := s.stored(), []string{"slidegate:{ip:127.0.0.1}:10/1h:1h"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	start(t, patient, "--limit", "10/1h", "--store", s.url(), "--store-prefix", "other").want("200")
	said := start(t, nil, "--limit", "10/1h", "--store", s.url()).said()
	for _, want := range []string{"redis://" + s.address() + "/0, keys slidegate:{…}", "50ms", "open: requests that cannot be decided pass"} {
		if !strings.Contains(said, want) {
			t.Errorf("the start does not say %s: %s", want, said)
		}
	}
	if _, text := fetch(t, http.DefaultClient, "GET", first.admin+"/metrics"); !strings.Contains(text, "\nslidegate_redis_failures_total 0\n") || !strings.Contains(text, "\nslidegate_circuit_open 0\n") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("%s", text)
	}
}

// status is what a request got, and whether it was limited.
func (r *running) status() (code int, isLimited bool, took time.Duration) {
	r.t.Helper()
	begin := time.Now()
	resp, _ := fetch(r.t, http.DefaultClient, "GET", r.url)
	return resp.StatusCode, resp.Header.Get("RateLimit") != "", time.Since(begin)
}

// resumes wants requests to be limited again within two seconds.
func (r *running) resumes() {
	r.t.Helper()
	begin := time.Now()
	eventually(r.t, "requests are limited", func() bool {
		_, isLimited, _ := r.status()
		return isLimited
	})
	if took := time.Since(begin); took > 2*time.Second {
		r.t.Errorf("requests were limited again after %s", took)
	}
}

// TestRedisThatGoesAndComes: requests pass or get 503 meanwhile, without fields, and few lines say so;
// with the Redis the limit is back.
func TestRedisThatGoesAndComes(t *testing.T) {
	for i, word := range []string{"open", "closed"} {
		s := startRedis(t)
		r := start(t, patient, "--limit", "3/1h", "--store", s.url(), "--on-store-error", word, "--client", clientNames[i])
		r.want("200 200 200 429")
		s.kill()
		want, ready := 200, 200
		if word == "closed" {
			want, ready = 503, 503
		}
		for range 50 {
			if status, isLimited, took := r.status(); status != want || isLimited || took > time.Second {
				t.Fatalf("%s: %d, limited: %v, after %s", word, status, isLimited, took)
			}
		}
		if resp, body := fetch(t, http.DefaultClient, "GET", r.admin+"/readyz"); resp.StatusCode != ready || !strings.Contains(body, "the store does not answer") {
			t.Errorf("%s: /readyz says %d %q", word, resp.StatusCode, body)
		}
		_, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		if !strings.Contains(text, "\nslidegate_store_errors_total 50\n") || !strings.Contains(text, "\nslidegate_circuit_open 1\n") || !strings.Contains(text, "\nslidegate_circuit_opened_total 1\n") {
			t.Errorf("%s: %s", word, text)
		}
		s.start()
		r.resumes()
		if status, _, _ := r.status(); status != 200 { // what was stored went with the Redis
			t.Errorf("%s: %d", word, status)
		}
		if resp, body := fetch(t, http.DefaultClient, "GET", r.admin+"/readyz"); resp.StatusCode != 200 || body != "ready\n" {
			t.Errorf("%s: /readyz says %d %q", word, resp.StatusCode, body)
		}
		if lines := strings.Count(r.said(), "level="); lines < 1 || lines > 4 {
			t.Errorf("%s: %d lines: %s", word, lines, r.said())
		}
	}
}

// TestRedisMayComeLate: the server starts without it, and one line says so.
func TestRedisMayComeLate(t *testing.T) {
	for _, client := range clientNames {
		s := startRedis(t)
		s.kill()
		r := start(t, patient, "--limit", "2/1h", "--store", s.url(), "--client", client)
		eventually(t, "it says that there is no Redis", func() bool { return strings.Contains(r.said(), "connection refused") })
		if lines := strings.Count(r.said(), "level="); lines != 1 {
			t.Errorf("%s: %d lines: %s", client, lines, r.said())
		}
		r.want("200 200 200 200")
		s.start()
		r.resumes()
		eventually(t, "the limit is met", func() bool {
			status, _, _ := r.status()
			return status == 429
		})
		eventually(t, "it says that it is there", func() bool {
			r.status()
			return strings.Contains(r.said(), "level=INFO")
		})
	}
}

// TestFrozenRedis: every request is answered in time, and most at once.
func TestFrozenRedis(t *testing.T) {
	const timeout, slack = 100 * time.Millisecond, 400 * time.Millisecond
	for _, client := range clientNames {
		s := startRedis(t)
		r := start(t, nil, "--limit", "1000/1h", "--store", s.url(), "--store-timeout", timeout.String(), "--client", client)
		r.want("200 200")
		s.signal(syscall.SIGSTOP)
		begin := time.Now()
		for range 100 {
			if status, isLimited, took := r.status(); status != 200 || isLimited || took > timeout+slack {
				t.Fatalf("%s: %d, limited: %v, after %s", client, status, isLimited, took)
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s: a hundred requests took %s", client, took)
		}
		s.signal(syscall.SIGCONT)
		r.resumes()
	}
}

const siteLog = "internal/replay/testdata/site-2021.log.gz"

// TestReplayOnRedisAnswersTheSame as in memory: report and verdicts, line by line, with either client. It
// runs in this process, where a race between the many at a time would be seen.
func TestReplayOnRedisAnswersTheSame(t *testing.T) {
	s := startRedis(t)
	for i, limits := range [][]string{
		{"--limit", "60/1m"},
		{"--limit", "60/1m,counter"},
		{"--limit", "burst=10/1s", "--limit", "sustained=100/1m"},
		{"--limit", "a=5/1s", "--limit", "b=30/1m,counter", "--limit", "c=200/1h,resolution=1m"},
	} {
		for _, how := range []string{"--json", "--verdicts"} {
			args := slices.Concat([]string{"replay", how, siteLog}, limits)
			want, _, _ := cli(t, nil, args...)
			var out, said strings.Builder
			status := console.Run(append(args, "--store", s.url(), "--client", clientNames[i%2], "--store-cleanup"), nil, &out, &said)
			got, errs := out.String(), said.String()
			if got != want || errs != "" && how == "--json" || status != 0 {
				t.Errorf("%v: status %d, %q: %s", args, status, errs, difference(got, want))
			}
			if i == 0 && how == "--json" && !strings.Contains(got, `"admitted":27586,"refused":622,`) || strings.Contains(want, "\n") && len(want) < 500 {
				t.Errorf("%v: %.300s", args, got)
			}
			if keys := s.stored(); len(keys) > 0 {
				t.Errorf("%v leaves %d keys, such as %q", args, len(keys), keys[0])
			}
		}
	}
}

// TestRulesOnRedisAnswerTheSame, bans included, and leave nothing behind.
func TestRulesOnRedisAnswerTheSame(t *testing.T) {
	s := startRedis(t)
	args := []string{"replay", "--config", "internal/replay/testdata/site.yaml", "--json", siteLog}
	want, _, _ := cli(t, nil, args...)
	var out, said strings.Builder
	status := console.Run(append(args, "--store", s.url(), "--store-cleanup"), nil, &out, &said)
	if got := out.String(); got != want || !strings.Contains(got, `"banned":`) || said.String() != "" || status != 0 {
		t.Errorf("status %d, %q: %s", status, said.String(), difference(out.String(), want))
	}
	if keys := s.stored(); len(keys) > 0 {
		t.Errorf("%d keys are left, such as %q", len(keys), keys[0])
	}
}

// difference is the first line that differs.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// TestScenariosOnRedis: every one, in the order of the file, where time may run back.
func TestScenariosOnRedis(t *testing.T) {
	s := startRedis(t)
	groups := map[string]*strings.Builder{} // by limits
	for n, scenario := range gatetest.AllScenarios() {
		var limits []string
		for _, l := range scenario.AllLimits() {
			limits = append(limits, "--limit="+l.String())
		}
		group := strings.Join(limits, " ")
		if groups[group] == nil {
			groups[group] = new(strings.Builder)
		}
		for _, step := range scenario.Steps {
			for range max(1, step.Repeat) {
				fmt.Fprintf(groups[group], "{\"t\":%d,\"op\":%q,\"key\":\"%d %s\",\"cost\":%d}\n", step.T, step.Op, n, step.Key, step.Cost)
			}
		}
	}
	if len(groups) < 10 {
		t.Fatalf("%d groups of scenarios", len(groups))
	}
	for group, events := range groups {
		file := filepath.Join(t.TempDir(), "events.jsonl")
		if err := os.WriteFile(file, []byte(events.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"replay", "--verdicts", "--format", "jsonl", file}, strings.Split(group, " ")...)
		want, _, _ := cli(t, nil, args...)
		got, errs, status := cli(t, nil, append(args, "--store", s.url(), "--store-cleanup")...)
		if got != want || errs != "" || status != 0 {
			t.Errorf("%s: status %d, %q: %s", group, status, errs, difference(got, want))
		}
	}
	if keys := s.stored(); len(keys) > 0 {
		t.Errorf("%d keys are left, such as %q", len(keys), keys[0])
	}
}

// TestReplayWritesTheKeysThatAreDocumented, leaves them unless it is told to remove them, and then
// removes those alone that it wrote.
func TestReplayWritesTheKeysThatAreDocumented(t *testing.T) {
	s := startRedis(t)
	file := filepath.Join(t.TempDir(), "events.jsonl")
	events := `{"t":1000,"key":"user:42"}
{"t":1000,"key":"é{x"}
{"t":1000,"key":"peeked","op":"peek"}
{"t":1000,"key":"nothing","cost":0}
{"t":1000,"key":"too much","cost":9}
{"t":1000,"key":"reset"}
{"t":1001,"key":"reset","op":"reset"}
`
	if err := os.WriteFile(file, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(args ...string) string {
		t.Helper()
		_, errs, status := cli(t, nil, append([]string{"replay", "--limit", "burst=5/1s", "--limit", "9/1d,counter", "--json", "--store", s.url(), file}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d, %s", args, status, errs)
		}
		return errs
	}
	written := func(prefix string) []string {
		return []string{prefix + ":{user:42}:9/1d,counter:1d,counter", prefix + ":{user:42}:burst:1s", prefix + ":{é{x}:9/1d,counter:1d,counter", prefix + ":{é{x}:burst:1s"}
	}
	if errs := replay("--store-prefix", "shop"); errs != "" {
		t.Errorf("%s", errs)
	}
	if got, want := s.stored(), written("shop"); !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	for _, key := range s.stored() {
		if life := s.keys.PTTL(t.Context(), key).Val(); life < 23*time.Hour {
			t.Errorf("%s lives for %s, with a clock that is not the server's", key, life)
		}
	}
	s.keys.Set(t.Context(), "shop:{peeked}:burst:1s", "somebody else's", 0)
	replay("--store-prefix", "shop", "--store-cleanup")
	if got := s.stored(); !slices.Equal(got, []string{"shop:{peeked}:burst:1s"}) {
		t.Errorf("left %q", got)
	}
	s.keys.FlushAll(t.Context())
	errs := replay()
	drawn := regexp.MustCompile(`slidegate-replay-[0-9a-f]{8}`).FindString(errs)
	if got := s.stored(); drawn == "" || !slices.Equal(got, written(drawn)) {
		t.Errorf("%q, %q", errs, got)
	}
	s.keys.FlushAll(t.Context())
	if errs := replay("--store-cleanup"); errs != "" || len(s.stored()) > 0 {
		t.Errorf("%q, %q", errs, s.stored())
	}
	if errs := replay("--store-prefix", "slidegate", "--store-cleanup"); !strings.Contains(errs, "may be that of live keys") {
		t.Errorf("%q", errs)
	}
	_, errs, status := cli(t, []string{"SLIDEGATE_STORE_PREFIX=shop", "SLIDEGATE_STORE=" + s.url()}, "replay", "--limit", "1/1s", "--json", file)
	if !strings.Contains(errs, "the prefix shop may be that of live keys") || status != 0 {
		t.Errorf("status %d, %q", status, errs)
	}
	if _, errs, status := cli(t, []string{"SLIDEGATE_STORE_PREFIX=shop", "SLIDEGATE_STORE_PASSWORD=x"}, "replay", "--limit", "1/1s", "--json", file); errs != "" || status != 0 {
		t.Errorf("memory: status %d, %q", status, errs)
	}
}

// TestReplayStopsWithoutRedis: status 1 and one sentence, and no report of half a log.
func TestReplayStopsWithoutRedis(t *testing.T) {
	frozen := startRedis(t)
	frozen.signal(syscall.SIGSTOP)
	nobody := "127.0.0.1:" + freePort(t)
	for _, c := range []struct {
		address string
		args    []string
		want    string
	}{
		{nobody, nil, "connection refused"},
		{nobody, []string{"--client", "goredis", "--store-cleanup"}, "connection refused"},
		{frozen.address(), []string{"--store-timeout", "100ms"}, "timeout|no answer within 100ms"},
		{frozen.address(), []string{"--store-timeout", "100ms", "--client", "goredis"}, "timeout|no answer within 100ms"},
	} {
		out, errs, status := cli(t, nil, append([]string{"replay", "--limit", "60/1m", "--json", "--store-prefix", "x", "--store", "redis://:secret@" + c.address, siteLog}, c.args...)...)
		lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
		last := lines[len(lines)-1]
		if status != 1 || out != "" || !strings.HasPrefix(last, "slidegate: --store redis://:xxxxx@"+c.address+"/0: store unavailable: ") || !regexp.MustCompile(c.want).MatchString(last) || len(lines) != 2 || strings.Contains(errs, "secret") {
			t.Errorf("%s %v: status %d, %q, %q", c.address, c.args, status, out, errs)
		}
	}
}

// TestVerdictsOnRedisComeAsEventsDo: somebody who writes an event and waits for its verdict gets it.
func TestVerdictsOnRedisComeAsEventsDo(t *testing.T) {
	s := startRedis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "replay", "--limit", "1/1s", "--verdicts", "--format", "jsonl", "--store", s.url(), "--store-cleanup", "-")
	cmd.Env = environ(nil)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := range 4 {
		fmt.Fprintf(in, "{\"t\":%d,\"key\":\"a\"}\n", i*500)
		if want := fmt.Sprintf(`"allowed":%v`, i%2 == 0); !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("%d: %s, want %s", i, lines.Text(), want)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAskingAboutAKey: what peek, take and reset print and end with.
func TestAskingAboutAKey(t *testing.T) {
	s := startRedis(t)
	duration, spaces := regexp.MustCompile(`\b\d[\dhms.]*s\b`), regexp.MustCompile(` +`)
	ask := func(verb string, args ...string) (string, int) {
		t.Helper()
		out, errs, status := cli(t, nil, append([]string{verb, "ip:203.0.113.9", "--limit", "burst=2/1h", "--limit", "9/1d,counter", "--store", s.url()}, args...)...)
		if errs != "" {
			t.Errorf("%s %v: %s", verb, args, errs)
		}
		return spaces.ReplaceAllString(duration.ReplaceAllString(out, "T"), " "), status
	}
	table := func(burst, day int) string {
		return fmt.Sprintf("limit quota remaining reset retry\nburst 2 %d T T\n9/1d,counter 9 %d T T\n", burst, day)
	}
	for i, c := range []struct {
		verb   string
		args   []string
		status int
		want   string
	}{
		{"peek", nil, 0, "would be admitted: nothing is counted for this key\n\n" + table(2, 9)},
		{"take", nil, 0, "admitted\n\n" + table(1, 8)},
		{"take", []string{"--client", "goredis"}, 0, "admitted\n\n" + table(0, 7)},
		{"take", nil, 1, "refused, retry in T\n\n" + table(0, 7)},
		{"peek", nil, 1, "would be refused, retry in T\n\n" + table(0, 7)},
		{"peek", []string{"--cost", "0"}, 0, "would be admitted\n\n" + table(0, 7)},
		{"take", []string{"--cost", "3"}, 1, "refused: cost 3 can never fit: limit \"burst\" admits at most 2 per 1h\n"},
		{"reset", nil, 0, "forgotten in burst=2/1h and 9/1d,counter\n"},
		{"take", []string{"--cost", "2"}, 0, "admitted\n\n" + table(0, 7)},
		{"take", []string{"--store-prefix", "other"}, 0, "admitted\n\n" + table(1, 8)},
	} {
		if got, status := ask(c.verb, c.args...); got != c.want || status != c.status {
			t.Errorf("%d: %s %v: status %d\n%s\nwant %d\n%s", i, c.verb, c.args, status, got, c.status, c.want)
		}
	}
	want := []string{
		"other:{ip:203.0.113.9}:9/1d,counter:1d,counter", "other:{ip:203.0.113.9}:burst:1h",
		"slidegate:{ip:203.0.113.9}:9/1d,counter:1d,counter", "slidegate:{ip:203.0.113.9}:burst:1h",
	}
	if got := s.stored(); !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// TestABanAtATerminal: the commands of docs/operations.md show the ban of a gate, and end it.
func TestABanAtATerminal(t *testing.T) {
	s := startRedis(t)
	store := redisstore.New(goredis.New(s.keys), redisstore.WithTimeout(10*time.Second))
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1)), httpgate.Ban(slidegate.PerMinute(5).Named("guessing"), time.Hour)).
		Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	refusal := func() string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.7:4711"
		gate.ServeHTTP(w, r)
		return w.Body.String()
	}
	const banned = `"violated-policies":["ban:guessing"]`
	for range 6 {
		refusal()
	}
	if got := refusal(); !strings.Contains(got, banned) {
		t.Fatalf("seven requests in a minute: %s", got)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"peek": 1, "reset": 0} // the status: it would be refused, it is done
	for line := range strings.Lines(string(page)) {
		args := strings.Fields(strings.Replace(line, "redis://127.0.0.1:6379/0", s.url(), 1))
		if len(args) < 2 || args[0] != "slidegate" || !strings.Contains(line, "ban:guessing") {
			continue
		}
		if out, errs, status := cli(t, nil, args[1:]...); status != want[args[1]] || errs != "" {
			t.Errorf("%s: status %d, %s%s", line, status, out, errs)
		}
		delete(want, args[1])
	}
	if len(want) > 0 {
		t.Errorf("the page does not show %v", want)
	}
	if got := refusal(); got == "" || strings.Contains(got, banned) {
		t.Errorf("after the reset: %s", got)
	}
}

// TestAFrozenRedisIsWaitedForAsSaid: connecting has the whole of --store-timeout, also beyond a second.
func TestAFrozenRedisIsWaitedForAsSaid(t *testing.T) {
	frozen := startRedis(t)
	frozen.signal(syscall.SIGSTOP)
	for _, client := range []string{"rueidis", "goredis"} {
		began := time.Now()
		_, errs, status := cli(t, nil, "peek", "k", "--limit", "1/1h", "--store", frozen.url(), "--client", client, "--store-timeout", "2s")
		if took := time.Since(began); status != 3 || took < 1900*time.Millisecond || !strings.Contains(errs, "store unavailable: ") {
			t.Errorf("%s: status %d after %s, %q", client, status, took, errs)
		}
	}
}

// TestAskingInJSON: the objects are those of replay --verdicts.
func TestAskingInJSON(t *testing.T) {
	s := startRedis(t)
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"take", 0, `"op":"take","key":"k","cost":1,"allowed":true,"remaining":0,"reset_ms":3600000,"retry_ms":0,"binding":"a","limits":[{"name":"a","quota":1,"remaining":0,"reset_ms":3600000,"retry_ms":0}]}`},
		{"peek", 1, `"op":"peek","key":"k","cost":1,"allowed":false,"remaining":0,"reset_ms":`},
		{"take --cost 2", 1, `"op":"take","key":"k","cost":2,"error":"cost"}`},
		{"reset", 0, `"op":"reset","key":"k","cost":1,"ok":true}`},
	} {
		out, errs, status := cli(t, nil, append(strings.Fields(c.args), "k", "--json", "--limit", "a=1/1h", "--store", s.url())...)
		var object struct{ T int64 }
		if err := json.Unmarshal([]byte(out), &object); err != nil || time.Since(time.UnixMilli(object.T)).Abs() > time.Minute || !strings.Contains(out, c.want) || errs != "" || status != c.status {
			t.Errorf("%s: status %d, %s, %s; want %d, %s", c.args, status, out, errs, c.status, c.want)
		}
	}
	s.kill()
	for _, verb := range []string{"peek", "take", "reset"} {
		out, errs, status := cli(t, nil, verb, "k", "--limit", "1/1h", "--store", s.url())
		if status != 3 || out != "" || !strings.HasPrefix(errs, "slidegate: --store "+s.url()+": store unavailable: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", verb, status, out, errs)
		}
	}
}

// TestWaysToReachRedis: every scheme, with either client; the second of two requests is refused.
func TestWaysToReachRedis(t *testing.T) {
	certificate, key := selfSigned(t)
	socket := filepath.Join(shortDir(t), "r.sock")
	plain := startRedis(t, append([]string{"--requirepass", "pass/word?#@%", "--unixsocket", socket, "--user"}, strings.Fields("app on >s3cret ~slidegate:* +@all")...)...)
	secure := freePort(t)
	startRedis(t, "--tls-port", secure, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no")
	cluster := startCluster(t)
	sentinel := startSentinel(t)
	const escaped = "pass%2Fword%3F%23%40%25"
	for name, url := range map[string]string{
		"redis":           "redis://:" + escaped + "@" + plain.address(),
		"redis and db":    "redis://:" + escaped + "@" + plain.address() + "/3",
		"redis and user":  "redis://app:s3cret@" + plain.address(),
		"rediss":          "rediss://127.0.0.1:" + secure,
		"unix":            "unix://:" + escaped + "@" + socket + "?db=5",
		"redis+cluster":   "redis+cluster://127.0.0.1:1," + cluster.address(),
		"redis+sentinel":  "redis+sentinel://127.0.0.1:1,127.0.0.1:" + sentinel + "/primary",
		"sentinel and db": "redis+sentinel://127.0.0.1:" + sentinel + "/primary/4",
	} {
		for _, client := range clientNames {
			for _, want := range []int{0, 1} {
				out, errs, status := cli(t, []string{"SLIDEGATE_STORE=" + url, "SSL_CERT_FILE=" + certificate}, "take", name+client, "--limit", "1/1h", "--client", client)
				if status != want || errs != "" {
					t.Errorf("%s, %s: status %d, want %d: %s%s", name, client, status, want, out, errs)
				}
			}
		}
	}
	for db, want := range map[int]int64{0: 4, 3: 2, 5: 2} {
		c := redis.NewClient(&redis.Options{Addr: plain.address(), Password: "pass/word?#@%", DB: db})
		if n := c.DBSize(t.Context()).Val(); n != want {
			t.Errorf("%d keys in database %d, want %d", n, db, want)
		}
		c.Close()
	}
	_, errs, status := cli(t, nil, "take", "k", "--limit", "1/1h", "--store", "redis://"+cluster.address())
	if status != 0 && !strings.Contains(errs, "redis+cluster://") {
		t.Errorf("a node of a cluster: status %d, %s", status, errs)
	}
	if _, errs, status := cli(t, nil, "take", "k", "--limit", "1/1h", "--store", "rediss://127.0.0.1:"+secure); status != 3 || !strings.Contains(errs, "certificate") {
		t.Errorf("a certificate that nobody vouches for: status %d, %s", status, errs)
	}
}

// shortDir is a directory whose name is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startCluster starts a cluster of one node.
func startCluster(t *testing.T) *redisServer {
	t.Helper()
	s := startRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", freePort(t))
	if err := s.keys.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is whole", func() bool {
		return strings.Contains(s.keys.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	return s
}

// startSentinel starts a primary and a sentinel of it, and returns the sentinel's port.
func startSentinel(t *testing.T) string {
	t.Helper()
	primary := startRedis(t)
	port, file := freePort(t), filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor primary 127.0.0.1 %s 1\n", port, t.TempDir(), primary.port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	client := redis.NewSentinelClient(&redis.Options{Addr: "127.0.0.1:" + port, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	eventually(t, "the sentinel knows the primary", func() bool {
		address, err := client.GetMasterAddrByName(t.Context(), "primary").Result()
		return err == nil && address[1] == primary.port
	})
	return port
}

// selfSigned writes a certificate of 127.0.0.1 that vouches for itself.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// TestPasswordsAreNotShown: not in what is printed, nor in the list of processes, wherever they come
// from, and whether they are right or wrong.
func TestPasswordsAreNotShown(t *testing.T) {
	const right = "correct-horse"
	s := startRedis(t, "--requirepass", right)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(right+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	withPassword := "redis://:" + right + "@" + s.address()
	for i, c := range []struct {
		env, args []string
	}{
		{[]string{"SLIDEGATE_STORE=" + withPassword}, nil},
		{[]string{"SLIDEGATE_STORE_PASSWORD=" + right}, []string{"--store", s.url()}},
		{[]string{"SLIDEGATE_STORE=" + s.url()}, []string{"--store-password-file", file}},
		{[]string{"SLIDEGATE_STORE=" + s.url(), "SLIDEGATE_STORE_PASSWORD_FILE=" + file}, nil},
	} {
		r := start(t, append(c.env, patient...), append([]string{"--limit", "1/1h", "--client", clientNames[i%2], "--store-prefix", fmt.Sprint("p", i)}, c.args...)...)
		r.want("200 429")
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.cmd.Process.Pid))
		_, metrics := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics")
		if err != nil || strings.Contains(string(cmdline)+metrics+r.said(), right) {
			t.Errorf("%v: %v, %q, %s", c, err, cmdline, r.said())
		}
		if !strings.Contains(r.said(), "redis://:xxxxx@"+s.address()+"/0") || strings.Contains(r.said(), "WARN") {
			t.Errorf("%v: %s", c, r.said())
		}
	}
	for _, command := range []string{"serve", "replay", "peek"} {
		if help, errs, _ := cli(t, []string{"SLIDEGATE_STORE=" + withPassword, "SLIDEGATE_STORE_PASSWORD=" + right}, command, "--help"); strings.Contains(help+errs, right) {
			t.Errorf("%s", help)
		}
	}
	exposed := start(t, patient, "--limit", "1/1h", "--store", withPassword)
	if said := exposed.said(); strings.Contains(said, right) || !strings.Contains(said, "the password in --store can be read by everybody") {
		t.Errorf("%s", said)
	}
	wrong := start(t, append(slices.Clone(patient), "SLIDEGATE_STORE_PASSWORD=battery-staple"), "--limit", "1/1h", "--store", s.url())
	eventually(t, "it says that the password is wrong", func() bool { return strings.Contains(wrong.said(), "WRONGPASS") })
	if said := wrong.said(); strings.Contains(said, "battery-staple") {
		t.Errorf("%s", said)
	}
}

// TestOldServerDoesNotTellThePassword: one that knows no HELLO repeats its arguments in the error.
func TestOldServerDoesNotTellThePassword(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { repeat(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	for _, client := range clientNames {
		out, errs, status := cli(t, []string{"SLIDEGATE_STORE_PASSWORD=hunter2"}, "peek", "k", "--limit", "1/1s", "--client", client, "--store", "redis://"+listener.Addr().String())
		if status != 3 || out != "" || strings.Contains(errs, "hunter2") || !strings.Contains(errs, "xxxxx") {
			t.Errorf("%s: status %d, %q, %q", client, status, out, errs)
		}
	}
}

// repeat answers every command with an error that has its arguments in it.
func repeat(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		n, words := 0, []string{}
		if _, err := fmt.Sscanf(in.Text(), "*%d", &n); err != nil {
			return
		}
		for i := range 2 * n { // each has its length before it
			if !in.Scan() {
				return
			}
			if i%2 == 1 {
				words = append(words, "`"+in.Text()+"`")
			}
		}
		if _, err := fmt.Fprintf(conn, "-ERR wrong number of arguments: %s\r\n", strings.Join(words, ", ")); err != nil {
			return
		}
	}
}
