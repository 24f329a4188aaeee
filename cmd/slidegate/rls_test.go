package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// ruleDir returns a directory with rule files, each given by its name and its text.
func ruleDir(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

// perUser is a rule file that gives users so many requests in an hour.
func perUser(requests string) string {
	return "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: " + requests + "}\n"
}

// startRLS runs the rate limit service alone, on both of its doors.
func startRLS(t *testing.T, env []string, dir string, args ...string) *running {
	t.Helper()
	return start(t, env, append([]string{"--listen", "", "--rls-listen", "127.0.0.1:0", "--rls-http-listen", "127.0.0.1:0", "--rls-config", dir}, args...)...)
}

// dial returns a connection to the rate limit service.
func (r *running) dial(options ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.rls, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// limited asks about descriptors of one entry each: user=a.
func limited(conn *grpc.ClientConn, descriptors ...string) (*pb.RateLimitResponse, error) {
	request := &pb.RateLimitRequest{Domain: "edge"}
	for _, d := range descriptors {
		key, value, _ := strings.Cut(d, "=")
		entry := &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value}
		request.Descriptors = append(request.Descriptors, &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{entry}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request)
}

// verdicts wants the overall codes of as many requests.
func verdicts(t *testing.T, conn *grpc.ClientConn, want string, descriptors ...string) {
	t.Helper()
	var got []string
	for range strings.Fields(want) {
		answer, err := limited(conn, descriptors...)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, answer.GetOverallCode().String())
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("%q got %s, want %s", descriptors, s, want)
	}
}

// askRLS sends a body to POST /json.
func (r *running) askRLS(body string) (status int, answer string) {
	r.t.Helper()
	resp, err := http.Post(r.json, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const asAda = `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}`

// TestTheRateLimitService answers over gRPC and in JSON by one count, in memory and, for two processes, in Redis.
func TestTheRateLimitService(t *testing.T) {
	dir := ruleDir(t, "edge.yaml", perUser("3"))
	for _, store := range []string{"memory", startRedis(t).url()} {
		r := startRLS(t, patient, dir, "--store", store)
		other := r
		if store != "memory" {
			other = startRLS(t, patient, dir, "--store", store)
		}
		if r.url != "grpc://"+r.rls {
			t.Errorf("%s: listening on %s, the service on %s", store, r.url, r.rls)
		}
		conn := r.dial()
		verdicts(t, conn, "OK", "user=ada")
		verdicts(t, other.dial(), "OK", "user=ada")
		var answer struct {
			OverallCode string
			Statuses    []struct {
				CurrentLimit       struct{ RequestsPerUnit int }
				DurationUntilReset string
			}
		}
		code, text := other.askRLS(asAda)
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 200 || answer.OverallCode != "OK" || answer.Statuses[0].CurrentLimit.RequestsPerUnit != 3 {
			t.Errorf("%s: %d %s, %v", store, code, text, err)
		}
		code, text = other.askRLS(asAda)
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 429 || answer.OverallCode != "OVER_LIMIT" || answer.Statuses[0].DurationUntilReset == "" {
			t.Errorf("%s: %d %s, %v", store, code, text, err)
		}
		verdicts(t, conn, "OVER_LIMIT", "user=ada")
		verdicts(t, conn, "OK", "user=eve")
		verdicts(t, conn, "OVER_LIMIT", "user=eve", "user=ada")
		if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s: health is %v, %v", store, h, err)
		}
		if resp, body := fetch(t, http.DefaultClient, "GET", strings.TrimSuffix(r.json, "/json")+"/healthcheck"); resp.StatusCode != 200 || body != "OK" {
			t.Errorf("%s: /healthcheck is %d %q", store, resp.StatusCode, body)
		}
		if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, `slidegate_rls_hits_total{domain="edge",rule="user"}`) {
			t.Errorf("%s: the metrics are %s", store, text)
		}
	}
}

// TestAllDoorsAtOnce: the proxy, forward-auth, JSON and the rate limit service over one store, each with what is limited there.
func TestAllDoorsAtOnce(t *testing.T) {
	r := start(t, nil, "--limit", "2/1h", "--auth-listen", "127.0.0.1:0", "--auth-dialect", "nginx", "--api-listen", "127.0.0.1:0",
		"--rls-listen", "127.0.0.1:0", "--rls-http-listen", "127.0.0.1:0", "--rls-config", ruleDir(t, "edge.yaml", perUser("2")))
	conn := r.dial()
	r.want("200")
	verdicts(t, conn, "OK", "user=127.0.0.1")
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.auth, asking("127.0.0.1")...); resp.StatusCode != 200 {
		t.Errorf("forward-auth: %d", resp.StatusCode)
	}
	r.want("429")
	verdicts(t, conn, "OK OVER_LIMIT", "user=127.0.0.1")
	if code, text := r.askRLS(asAda); code != 200 {
		t.Errorf("JSON: %d %s", code, text)
	}
	if resp, _ := fetch(t, http.DefaultClient, "GET", r.api+"/openapi.json"); resp.StatusCode != 200 {
		t.Errorf("the JSON door: %d", resp.StatusCode)
	}
	r.terminate()
	if status := r.end(); status != 0 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// TestRLSBehindABalancer that sends the PROXY protocol: with a header calls are answered, without one they are not.
func TestRLSBehindABalancer(t *testing.T) {
	r := startRLS(t, nil, ruleDir(t, "edge.yaml", perUser("1")), "--proxy-protocol", "rls-listen")
	sending := func(header []byte) *grpc.ClientConn {
		return r.dial(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				_, err = conn.Write(header)
			}
			return conn, err
		}))
	}
	verdicts(t, sending(version2(1, "203.0.113.7:5000")), "OK OVER_LIMIT", "user=ada")
	if answer, err := limited(sending(nil), "user=ada"); status.Code(err) != codes.Unavailable {
		t.Errorf("without a header: %v, %v", answer, err)
	}
	if code, text := r.askRLS(asAda); code != 429 {
		t.Errorf("at the other door: %d %s", code, text)
	}
}

// configMap writes rule files as Kubernetes mounts them: the directory of a version behind a link that is swapped.
func configMap(t *testing.T, dir, version, text string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, version, "edge.yaml"), text)
	for _, link := range []struct{ to, at string }{{version, "..data"}, {"..data/edge.yaml", "edge.yaml"}} {
		swapped := filepath.Join(dir, "..tmp")
		if err := os.Symlink(link.to, swapped); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(swapped, filepath.Join(dir, link.at)); err != nil {
			t.Fatal(err)
		}
	}
}

// loads wants that the rules have been loaded so often, successfully and not.
func (r *running) loads(what, success, failure string) {
	r.t.Helper()
	eventually(r.t, what, func() bool {
		return r.metric(`slidegate_rls_config_loads_total{result="success"}`) == success && r.metric(`slidegate_rls_config_loads_total{result="error"}`) == failure
	})
}

// TestRulesAreFollowed: what changes is loaded, what is wrong is not, and no reload refills anything.
func TestRulesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	configMap(t, dir, "..1", perUser("1"))
	r := startRLS(t, nil, dir)
	conn := r.dial()
	verdicts(t, conn, "OK OVER_LIMIT", "user=ada")
	configMap(t, dir, "..2", perUser("2"))
	r.loads("a ConfigMap is swapped", "2", "0")
	verdicts(t, conn, "OK OVER_LIMIT", "user=ada")
	write(t, filepath.Join(dir, "more.yaml"), "domain: more\ndescriptors:\n  - kee: x\n")
	r.loads("a bad file", "2", "1")
	if got := r.metric("slidegate_rls_config_last_load_successful"); got != "0" {
		t.Errorf("by a bad file, the last load was successful: %s", got)
	}
	verdicts(t, conn, "OK", "user=eve")
	verdicts(t, conn, "OVER_LIMIT", "user=ada")
	eventually(t, "the log says what is wrong and where", func() bool {
		return strings.Contains(r.said(), "those in force stay") && strings.Contains(r.said(), `more.yaml:3: unknown field`)
	})
	write(t, filepath.Join(dir, "more.yaml"), "domain: more\n")
	r.loads("the file is right", "3", "1")
	if got := r.metric("slidegate_rls_config_last_load_successful"); got != "1" {
		t.Errorf("by a good file, the last load was successful: %s", got)
	}
	configMap(t, dir, "..3", perUser("3"))
	r.loads("another", "4", "1")
	verdicts(t, conn, "OK OVER_LIMIT", "user=ada")
}

// TestHangupLoadsAtOnce, also what has not changed, and leaves the process as it is.
func TestHangupLoadsAtOnce(t *testing.T) {
	dir := ruleDir(t, "edge.yaml", perUser("1"))
	r := startRLS(t, nil, dir, "--log-format", "text")
	hangup := func() {
		t.Helper()
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup()
	r.loads("nothing has changed", "2", "0")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	hangup()
	r.loads("the directory is away", "2", "1")
	conn := r.dial()
	verdicts(t, conn, "OK OVER_LIMIT", "user=ada")
	r.terminate()
	hangup()
	if status := r.end(); status != 0 {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

// TestRLSWithoutItsStore: calls get UNAVAILABLE and 503 whatever --on-store-error says of requests, two lines tell of it,
// and with the store decisions are back.
func TestRLSWithoutItsStore(t *testing.T) {
	s := startRedis(t)
	dir := ruleDir(t, "edge.yaml", perUser("1"))
	beside := start(t, patient, "--store", s.url(), "--limit", "1/1h", "--on-store-error", "open", "--rls-listen", "127.0.0.1:0", "--rls-http-listen", "127.0.0.1:0", "--rls-config", dir)
	alone := startRLS(t, patient, dir, "--store", s.url())
	s.kill()
	for _, r := range []*running{beside, alone} {
		conn := r.dial()
		for range 20 {
			if answer, err := limited(conn, "user=ada"); status.Code(err) != codes.Unavailable {
				t.Fatalf("%v, %v", answer, err)
			}
		}
		if code, text := r.askRLS(asAda); code != 503 {
			t.Errorf("JSON: %d %s", code, text)
		}
		eventually(t, "the log says so", func() bool { return strings.Contains(r.said(), "calls of the rate limit service get UNAVAILABLE") })
		if n := strings.Count(r.said(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors: %s", n, r.said())
		}
	}
	beside.want("200 200")
	for r, want := range map[*running]string{beside: "requests pass", alone: "calls of the rate limit service get UNAVAILABLE"} {
		resp, body := fetch(t, http.DefaultClient, "GET", r.admin+"/readyz")
		if (resp.StatusCode == 200) != (r == beside) || !strings.Contains(body, want) {
			t.Errorf("/readyz is %d %q, want %q", resp.StatusCode, body, want)
		}
	}
	s.start()
	for _, r := range []*running{beside, alone} {
		conn := r.dial()
		eventually(t, "calls are decided", func() bool {
			answer, err := limited(conn, "user=ada")
			return err == nil && answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT
		})
		eventually(t, "the log says that they are", func() bool {
			_, err := limited(conn, "user=ada")
			return err == nil && strings.Contains(r.said(), "decided again")
		})
	}
}

// scripts is the line of the metrics that says how many have been sent to Redis.
func (r *running) scripts() string {
	r.t.Helper()
	_, text := fetch(r.t, http.DefaultClient, "GET", r.admin+"/metrics")
	return regexp.MustCompile(`(?m)^slidegate_redis_calls_total .*`).FindString(text)
}

// postWhenAsked sends a body to POST /json as soon as the server reads it. The answer must be a verdict.
func (r *running) postWhenAsked(body io.Reader) error {
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest("POST", r.json, body)
	if err != nil {
		return err
	}
	request.Header.Set("Expect", "100-continue")
	resp, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 && resp.StatusCode != 429 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// TestRLSDrains: a call under way is answered, who watches is told to go, and nobody else comes in.
func TestRLSDrains(t *testing.T) {
	s := startRedis(t)
	r := startRLS(t, []string{"SLIDEGATE_STORE_TIMEOUT=20s"}, ruleDir(t, "edge.yaml", perUser("1")), "--store", s.url(), "--grace", "1m")
	conn := r.dial()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := watch.Recv(); err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", h, err)
	}
	verdicts(t, conn, "OK", "user=eve")
	r.tried()
	before := r.scripts()
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	result := make(chan error, 2)
	go func() {
		_, err := limited(conn, "user=ada")
		result <- err
	}()
	body, send := io.Pipe()
	go func() { result <- r.postWhenAsked(body) }()
	if _, err := io.WriteString(send, asAda); err != nil { // which waits until the server asks for it
		t.Fatal(err)
	}
	eventually(t, "a call is under way", func() bool { return r.scripts() != before })
	r.terminate()
	eventually(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", r.rls)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	for err == nil {
		_, err = watch.Recv()
	}
	s.signal(syscall.SIGCONT)
	send.Close()
	for range 2 {
		if err := <-result; err != nil {
			t.Errorf("a call that was under way: %v", err)
		}
	}
	if status := r.end(); status != 0 || strings.Contains(r.said(), "grace time was over") {
		t.Errorf("ended with %d: %s", status, r.said())
	}
}

const switched = `domain: edge
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: route
    metadata: {team: red}
    rate_limit: {unit: hour, requests_per_unit: 9}
`

// TestSwitchesOfTheRLS, each beside how it is without.
func TestSwitchesOfTheRLS(t *testing.T) {
	redis := startRedis(t)
	const both = `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ada"}]},{"entries":[{"key":"route","value":"a"}]}]}`
	files := []string{"edge.yaml", switched}
	for flag, c := range map[string]struct {
		files   []string
		refused int    // the status of what goes over one limit of two
		left    int    // of the limit that had room, then
		want    string // in answers
		metrics string
	}{
		"--rls-algorithm=log":     {files: files, refused: 429, left: 7, metrics: "slidegate_rls_hits_total"},
		"--rls-all-or-nothing":    {files: files, refused: 429, left: 8},
		"--rls-shadow-mode":       {files: files, refused: 200, left: 7, metrics: "slidegate_rls_global_shadow_total 1"},
		"--rls-quota-mode":        {files: files, refused: 200, left: 7},
		"--rls-headers":           {files: files, refused: 429, left: 7, want: "Retry-After"},
		"--rls-metadata":          {files: files, refused: 429, left: 7, want: "red"},
		"--rls-original-metrics":  {files: files, refused: 429, left: 7, metrics: `ratelimit_service_rate_limit_over_limit{domain="edge",key1="user",key2=""} 1`},
		"--rls-algorithm=counter": {files: files, refused: 429, left: 7},
		"--rls-merge-domains":     {files: append(files, "more.yaml", "domain: edge\ndescriptors:\n  - key: more\n"), refused: 429, left: 7},
	} {
		r := startRLS(t, patient, ruleDir(t, c.files...), flag, "--store", redis.url(), "--store-prefix", strings.Trim(strings.ReplaceAll(flag, "=", "-"), "-"))
		r.tried()
		if code, text := r.askRLS(both); code != 200 {
			t.Errorf("%s: %d %s", flag, code, text)
		}
		code, text := r.askRLS(both)
		if code != c.refused || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d with %q", flag, code, text, c.refused, c.want)
		}
		for _, word := range []string{"Retry-After", "red"} {
			if word != c.want && strings.Contains(text, word) {
				t.Errorf("%s: %s has %q", flag, text, word)
			}
		}
		var answer struct {
			Statuses []struct{ LimitRemaining int }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Statuses) != 2 || answer.Statuses[1].LimitRemaining != c.left {
			t.Errorf("%s: %s, want %d left of the second: %v", flag, text, c.left, err)
		}
		if _, text := fetch(t, http.DefaultClient, "GET", r.admin+"/metrics"); !strings.Contains(text, c.metrics) {
			t.Errorf("%s: no %s in %s", flag, c.metrics, text)
		}
	}
	counters := 0
	for _, key := range redis.stored() {
		if strings.HasSuffix(key, ",counter") != strings.HasPrefix(key, "rls-algorithm-counter:") {
			t.Errorf("the key %s", key)
		}
		counters++
	}
	if counters != 18 {
		t.Errorf("%d keys: %q", counters, redis.stored())
	}
}

// TestEnvoyPageCommandsRun: those that docs/envoy.md shows start, with the rules of the page and other addresses.
func TestEnvoyPageCommandsRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```yaml\ndomain: edge")
	file, _, _ = strings.Cut(file, "```")
	dir := ruleDir(t, "edge.yaml", "domain: edge"+file)
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	commands := regexp.MustCompile(`(?m)^slidegate serve (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) == 0 {
		t.Fatal("no command")
	}
	redis := startRedis(t)
	for _, c := range commands {
		line := strings.ReplaceAll(port.ReplaceAllString(strings.ReplaceAll(c[1], "redis://127.0.0.1:6379/0", "REDIS"), "127.0.0.1:0"), "REDIS", redis.url())
		var args []string
		for _, word := range strings.Fields(strings.Replace(line, "--rls-config rules", "--rls-config "+dir, 1)) {
			args = append(args, strings.Trim(word, "'"))
		}
		r := start(t, patient, args...)
		verdicts(t, r.dial(), "OK", "remote_address=203.0.113.9")
	}
}
