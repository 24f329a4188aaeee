package rls

import (
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/vectors"
)

// TestHitsVectors: the addend of a descriptor wins, that of a request is 1 where it says nothing.
func TestHitsVectors(t *testing.T) {
	type input struct {
		Own     *uint64 `json:"descriptor_hits_addend"`
		Request uint32  `json:"request_hits_addend"`
	}
	vectors.Each(t, "rls.hits", func(id string, in input, want int64) {
		d := &ratelimitv3.RateLimitDescriptor{}
		if in.Own != nil {
			d.HitsAddend = wrapperspb.UInt64(*in.Own)
		}
		if got := hitsOf(d, in.Request); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	})
}

// TestOverallVectors: any plain rule refuses, rules in quota mode only all together, and none in global shadow mode.
func TestOverallVectors(t *testing.T) {
	type input struct {
		Shadow   bool `json:"global_shadow_mode"`
		Statuses []struct {
			Code  string
			Quota bool `json:"quota_mode"`
		}
	}
	vectors.Each(t, "rls.overall", func(id string, in input, want string) {
		var asks []ask
		for _, st := range in.Statuses {
			asks = append(asks, ask{limit: &pb.RateLimitResponse_RateLimit{}, quota: st.Quota, over: st.Code == "OVER_LIMIT"})
		}
		s := &Service{Options: Options{Shadow: in.Shadow}}
		answer := s.respond(nil, asks, verdict(asks) || s.Shadow)
		if answer.GetOverallCode().String() != want {
			t.Errorf("%s: %s, want %s", id, answer.GetOverallCode(), want)
		}
		for i, st := range answer.GetStatuses() {
			if st.GetCode().String() != in.Statuses[i].Code {
				t.Errorf("%s: status %d is %s", id, i, st.GetCode())
			}
		}
	})
}

// TestHeadersVectors: the fields are those of the descriptor with the least remaining.
func TestHeadersVectors(t *testing.T) {
	type input struct {
		Statuses []struct {
			Remaining uint32 `json:"limit_remaining"`
			Requests  uint32 `json:"requests_per_unit"`
			Reset     int64  `json:"reset_s"`
		}
	}
	type want struct {
		Headers [][]string `json:"response_headers_to_add"`
	}
	vectors.Each(t, "rls.headers", func(id string, in input, want want) {
		answer := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
		for _, st := range in.Statuses {
			answer.Statuses = append(answer.Statuses, &pb.RateLimitResponse_DescriptorStatus{
				Code: pb.RateLimitResponse_OK, CurrentLimit: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: st.Requests},
				LimitRemaining: st.Remaining, DurationUntilReset: durationpb.New(time.Duration(st.Reset) * time.Second),
			})
		}
		if got := pairs(DefaultHeaders.of(answer)); !slices.EqualFunc(got, want.Headers, slices.Equal) {
			t.Errorf("%s: %q, want %q", id, got, want.Headers)
		}
	})
}

func pairs(headers []*corev3.HeaderValue) (all [][]string) {
	for _, h := range headers {
		all = append(all, []string{h.GetKey(), h.GetValue()})
	}
	return all
}

// TestHeadersOfARefusal: those of the descriptor that is over its limit for the longest time, with the time to retry.
func TestHeadersOfARefusal(t *testing.T) {
	st := func(code pb.RateLimitResponse_Code, limit, remaining uint32, reset int64) *pb.RateLimitResponse_DescriptorStatus {
		return &pb.RateLimitResponse_DescriptorStatus{
			Code: code, CurrentLimit: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: limit}, LimitRemaining: remaining, DurationUntilReset: &durationpb.Duration{Seconds: reset},
		}
	}
	const ok, over = pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT
	answer := &pb.RateLimitResponse{OverallCode: over, Statuses: []*pb.RateLimitResponse_DescriptorStatus{
		{Code: ok}, st(ok, 1, 0, 500), st(over, 2, 0, 5), st(over, 3, 0, 7), st(over, 4, 0, 6),
	}}
	want := [][]string{{"RateLimit-Limit", "3"}, {"RateLimit-Remaining", "0"}, {"RateLimit-Reset", "7"}, {"Retry-After", "7"}}
	if got := pairs(DefaultHeaders.of(answer)); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := pairs((&Headers{Remaining: "left"}).of(answer)); !slices.EqualFunc(got, [][]string{{"left", "0"}}, slices.Equal) {
		t.Errorf("%q, want the remaining units alone", got)
	}
	if got := DefaultHeaders.of(&pb.RateLimitResponse{Statuses: unlimitedStatuses(2)}); got != nil {
		t.Errorf("%q where there is no limit", pairs(got))
	}
}
