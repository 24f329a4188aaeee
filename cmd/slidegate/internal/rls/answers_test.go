package rls_test

import (
	"fmt"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/vectors"
)

// TestStatusVectors: code and remaining are those of the original; the wait is our own, whole seconds, and one at least
// where a limit is over.
func TestStatusVectors(t *testing.T) {
	type input struct {
		Hits     int64
		Requests uint32 `json:"requests_per_unit"`
		Unit     string
		Before   int64 `json:"used_before"`
	}
	type want struct {
		Code      string
		Remaining uint32 `json:"limit_remaining"`
	}
	for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		vectors.Each(t, "rls.status", func(id string, in input, want want) {
			r := inMemory(t, fmt.Sprintf("domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: %s, requests_per_unit: %d}\n", in.Unit, in.Requests), rls.Options{Algorithm: algorithm})
			if in.Before > 0 {
				r.expect(id, ok, codes(ok), hits(in.Before, "a=x"))
			}
			st := r.ask(hits(in.Hits, "a=x")).GetStatuses()[0]
			if st.GetCode().String() != want.Code || st.GetLimitRemaining() != want.Remaining {
				t.Errorf("%s by %s: %v, want %+v", id, algorithm, st, want)
			}
			if st.GetDurationUntilReset().GetSeconds() < 1 {
				t.Errorf("%s by %s: a wait of %s", id, algorithm, st.GetDurationUntilReset().AsDuration())
			}
			if l := st.GetCurrentLimit(); l.GetRequestsPerUnit() != in.Requests || l.GetUnit().String() != in.Unit {
				t.Errorf("%s by %s: limit %v", id, algorithm, l)
			}
		})
	}
}

// TestHeadersAndMetadata of an answer.
func TestHeadersAndMetadata(t *testing.T) {
	r := inMemory(t, `
domain: d
descriptors:
  - key: a
    metadata: {team: red, level: 1}
    rate_limit: {unit: minute, requests_per_unit: 1, name: one}
  - key: b
    metadata: {team: blue, size: {kind: small}}
    rate_limit: {unit: hour, requests_per_unit: 10}
`, rls.Options{Headers: &rls.DefaultHeaders, Metadata: true})
	first := r.ask(entries("a=x"), entries("b=y,z="))
	if len(first.GetResponseHeadersToAdd()) != 3 || first.GetStatuses()[0].GetCurrentLimit().GetName() != "one" {
		t.Errorf("the first: %v", first)
	}
	second, err := r.try(&pb.RateLimitRequest{Domain: "d", Descriptors: r.descriptors("a=x", "b=y"), HitsAddend: 2})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{}
	for _, h := range second.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	if want := "map[RateLimit-Limit:1 RateLimit-Remaining:0 RateLimit-Reset:60 Retry-After:60]"; fmt.Sprint(headers) != want {
		t.Errorf("%v, want %s", headers, want)
	}
	m := second.GetDynamicMetadata().AsMap()
	if want := "map[descriptors:[map[entries:[a=x]] map[entries:[b=y]]] domain:d hitsAddend:2 metadata:map[size:map[kind:small] team:blue]]"; fmt.Sprint(m) != want {
		t.Errorf("%v, want %s", m, want)
	}
	if m := first.GetDynamicMetadata().AsMap(); fmt.Sprint(m["metadata"]) != "map[level:1 team:red]" {
		t.Errorf("%v: the first of a field counts, and only of rules that match", m)
	}
}

// TestSecondsAreRoundedUp, for Envoy cuts off what is less than one.
func TestSecondsAreRoundedUp(t *testing.T) {
	r := inMemory(t, "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: second, requests_per_unit: 1}\n", rls.Options{})
	r.ask(entries("a=x"))
	r.clock.advance(999_000_000)
	for _, d := range []int64{1, 0} {
		if st := r.ask(hits(d, "a=x")).GetStatuses()[0]; st.GetCode() != over || st.GetDurationUntilReset().AsDuration() != (&durationpb.Duration{Seconds: 1}).AsDuration() {
			t.Errorf("%v", st)
		}
	}
}
