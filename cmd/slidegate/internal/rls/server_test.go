package rls_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	grpccodes "google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/vectors"
)

// post sends a body to POST /json over a real socket.
func (r *rig) post(body string) (code int, contentType string, answer []byte) {
	r.Helper()
	server := httptest.NewServer(r.service.Handler())
	defer server.Close()
	response, err := server.Client().Post(server.URL+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), answer
}

// TestJSONVectors: 429 with the answer for what is over its limit.
func TestJSONVectors(t *testing.T) {
	type input struct {
		Body string `json:"POST /json"`
	}
	type want struct {
		ContentType string `json:"content_type"`
		Code        string `json:"overallCode"`
		Status      int
	}
	vectors.Each(t, "rls.json", func(id string, in input, want want) {
		r := inMemory(t, "domain: dummy\ndescriptors:\n  - key: one_per_day\n    rate_limit: {unit: day, requests_per_unit: 1}\n", rls.Options{})
		if code, _, body := r.post(in.Body); code != http.StatusOK || !strings.Contains(string(body), `"OK"`) {
			t.Errorf("%s: the first gets %d %s", id, code, body)
		}
		code, contentType, body := r.post(in.Body)
		var answer struct {
			OverallCode string
			Statuses    []struct{ DurationUntilReset string }
		}
		if err := json.Unmarshal(body, &answer); err != nil || code != want.Status || contentType != want.ContentType || answer.OverallCode != want.Code {
			t.Errorf("%s: %d %s %s, %v, want %+v", id, code, contentType, body, err, want)
		}
		if len(answer.Statuses) != 1 || answer.Statuses[0].DurationUntilReset != "86400s" {
			t.Errorf("%s: %s", id, body)
		}
	})
}

// TestRequestVectors: what is wrong with a request is said over both, with INVALID_ARGUMENT in place of UNKNOWN.
func TestRequestVectors(t *testing.T) {
	type input struct {
		Domain      string
		Descriptors int
	}
	type want struct {
		Error  string
		Status int `json:"json_endpoint_status"`
	}
	vectors.Each(t, "rls.request", func(id string, in input, want want) {
		r := inMemory(t, plain, rls.Options{})
		request := &pb.RateLimitRequest{Domain: in.Domain, Descriptors: r.descriptors(slices.Repeat([]string{"a=x"}, in.Descriptors)...)}
		if _, err := r.try(request); status.Code(err) != grpccodes.InvalidArgument || status.Convert(err).Message() != want.Error {
			t.Errorf("%s: %v, want %q", id, err, want.Error)
		}
		body := `{"domain":"` + in.Domain + `","descriptors":[` + strings.Repeat(`{"entries":[{"key":"a"}]}`, in.Descriptors) + `]}`
		if code, _, answer := r.post(body); code != want.Status || !strings.Contains(string(answer), want.Error) {
			t.Errorf("%s: %d %s, want %d %s", id, code, answer, want.Status, want.Error)
		}
	})
}

// TestJSONThatIsNone is refused, and so is what is too long.
func TestJSONThatIsNone(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	for body, want := range map[string]int{
		"": 400, "{": 400, `{"domain":5}`: 400, `{"domian":"d"}`: 400, `{"domain":"` + strings.Repeat("x", 1<<20) + `"}`: 413,
	} {
		if code, _, answer := r.post(body); code != want {
			t.Errorf("%.20s: %d %s, want %d", body, code, answer, want)
		}
	}
}

// TestHealth: not serving until there are rules, and not once it drains; over both.
func TestHealth(t *testing.T) {
	r := inMemory(t, "", rls.Options{})
	is := func(what string, want healthpb.HealthCheckResponse_ServingStatus, wantHTTP int) {
		t.Helper()
		for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
			h, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || h.GetStatus() != want {
				t.Errorf("%s: health of %q is %v, %v", what, name, h.GetStatus(), err)
			}
		}
		w := httptest.NewRecorder()
		r.service.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		if w.Code != wantHTTP {
			t.Errorf("%s: /healthcheck is %d, want %d", what, w.Code, wantHTTP)
		}
	}
	is("without rules", healthpb.HealthCheckResponse_NOT_SERVING, 500)
	if _, err := r.try(&pb.RateLimitRequest{Domain: "d", Descriptors: r.descriptors("a=x")}); status.Code(err) != grpccodes.Unavailable {
		t.Errorf("without rules: %v", err)
	}
	if err := r.service.Use(read(t, plain)); err != nil {
		t.Fatal(err)
	}
	is("with rules", healthpb.HealthCheckResponse_SERVING, 200)
	r.service.Drain()
	is("draining", healthpb.HealthCheckResponse_NOT_SERVING, 500)
	r.expect("a request under way", ok, codes(ok), entries("a=x"))
}

// TestReflection lists the service.
func TestReflection(t *testing.T) {
	r := inMemory(t, plain, rls.Options{})
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if !slices.Contains(names, "envoy.service.ratelimit.v3.RateLimitService") || !slices.Contains(names, "grpc.health.v1.Health") {
		t.Errorf("%q", names)
	}
}

// TestReloading keeps what was counted, and a bad file the rules that are in force.
func TestReloading(t *testing.T) {
	r := inMemory(t, "", rls.Options{})
	dir := t.TempDir()
	load := func(text string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return r.service.Load(dir)
	}
	rule := func(requests string) string {
		return "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: minute, requests_per_unit: " + requests + "}\n"
	}
	if err := load(rule("2")); err != nil {
		t.Fatal(err)
	}
	r.expect("first", ok, codes(ok), entries("a=x"))
	if err := load("domain: d\ndescriptors:\n  - kee: a\n"); !errors.Is(err, rules.ErrInvalid) {
		t.Errorf("a bad file: %v", err)
	}
	r.expect("second, by the old rule", ok, codes(ok), entries("a=x"))
	r.expect("third, by the old rule", over, codes(over), entries("a=x"))
	if err := load(rule("3")); err != nil {
		t.Fatal(err)
	}
	r.expect("third, by the new rule", ok, codes(ok), entries("a=x"))
	r.expect("fourth: nothing was refilled", over, codes(over), entries("a=x"))
	if err := load(rule("3") + "  - key: a\n    value: x\n    rate_limit: {unit: minute, requests_per_unit: 4}\n"); err != nil {
		t.Fatal(err)
	}
	r.expect("fourth, by a rule of its own", ok, codes(ok), entries("a=x"))
	r.expect("fifth", over, codes(over), entries("a=x"))
}

// TestReloadingUnderLoad: each request is decided by one set of rules, and no unit is lost or found.
func TestReloadingUnderLoad(t *testing.T) {
	const rule = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 100}\n"
	r := inMemory(t, rule, rls.Options{})
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = r.service.Use(read(t, rule))
		}
		done <- err
	}()
	if n := r.storm(200, entries("a=x")); n != 100 {
		t.Errorf("%d admitted, want 100", n)
	}
	stop.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
