package rls

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Headers are the names of the fields that an answer adds to the response. An empty name leaves the field out.
type Headers struct{ Limit, Remaining, Reset, RetryAfter string }

// DefaultHeaders are those of the original, and the time to retry of a refusal.
var DefaultHeaders = Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset", RetryAfter: "Retry-After"}

// respond makes the answer of what came of the asks.
func (s *Service) respond(r *pb.RateLimitRequest, asks []ask, ok bool) *pb.RateLimitResponse {
	answer := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OVER_LIMIT, Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(asks))}
	if ok {
		answer.OverallCode = pb.RateLimitResponse_OK
	}
	for i := range asks {
		answer.Statuses[i] = asks[i].status()
	}
	if s.Headers != nil {
		answer.ResponseHeadersToAdd = s.Headers.of(answer)
	}
	if s.Metadata {
		answer.DynamicMetadata = metadata(r, asks)
	}
	return answer
}

// status tells of one descriptor.
func (a *ask) status() *pb.RateLimitResponse_DescriptorStatus {
	st := &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK, CurrentLimit: a.limit}
	if a.limit == nil {
		if a.Rule != nil {
			st.LimitRemaining = math.MaxUint32 // it is unlimited
		}
		return st
	}
	wait := seconds(a.wait)
	if a.over {
		wait = max(1, wait)
	} else {
		st.LimitRemaining = uint32(a.left)
	}
	if a.refuses() {
		st.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	st.DurationUntilReset = &durationpb.Duration{Seconds: wait}
	return st
}

// seconds rounds up, since Envoy cuts off what is less than a second.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func unlimitedStatuses(n int) []*pb.RateLimitResponse_DescriptorStatus {
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, n)
	for i := range statuses {
		statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK}
	}
	return statuses
}

// of returns the fields of the status that an answer can tell of as one: one that is over its limit, first; then the least
// remaining; then the longest to wait; then the first. A refusal also says when to retry.
func (h *Headers) of(answer *pb.RateLimitResponse) []*corev3.HeaderValue {
	var best *pb.RateLimitResponse_DescriptorStatus
	for _, st := range answer.GetStatuses() {
		if st.GetCurrentLimit() != nil && (best == nil || isTighter(st, best)) {
			best = st
		}
	}
	if best == nil {
		return nil
	}
	var fields []*corev3.HeaderValue
	add := func(name string, value int64) {
		if name != "" {
			fields = append(fields, &corev3.HeaderValue{Key: name, Value: strconv.FormatInt(value, 10)})
		}
	}
	add(h.Limit, int64(best.GetCurrentLimit().GetRequestsPerUnit()))
	add(h.Remaining, int64(best.GetLimitRemaining()))
	add(h.Reset, best.GetDurationUntilReset().GetSeconds())
	if answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		add(h.RetryAfter, best.GetDurationUntilReset().GetSeconds())
	}
	return fields
}

func isTighter(a, b *pb.RateLimitResponse_DescriptorStatus) bool {
	switch {
	case a.GetCode() != b.GetCode():
		return a.GetCode() == pb.RateLimitResponse_OVER_LIMIT
	case a.GetLimitRemaining() != b.GetLimitRemaining():
		return a.GetLimitRemaining() < b.GetLimitRemaining()
	}
	return a.GetDurationUntilReset().GetSeconds() > b.GetDurationUntilReset().GetSeconds()
}

// metadata tells what was asked, and has the metadata of the rules that are not over their limits; where two have the same
// field, that of the first.
func metadata(r *pb.RateLimitRequest, asks []ask) *structpb.Struct {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(r.GetDomain())}
	descriptors := &structpb.ListValue{}
	for _, d := range r.GetDescriptors() {
		descriptors.Values = append(descriptors.Values, structpb.NewStructValue(describe(d)))
	}
	fields["descriptors"] = structpb.NewListValue(descriptors)
	if r.GetHitsAddend() != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.GetHitsAddend()))
	}
	ofRules := map[string]*structpb.Value{}
	for i := range asks {
		if asks[i].Rule == nil || asks[i].refuses() {
			continue
		}
		for name, value := range asks[i].Rule.Metadata.GetFields() {
			if ofRules[name] == nil {
				ofRules[name] = value
			}
		}
	}
	if len(ofRules) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: ofRules})
	}
	return &structpb.Struct{Fields: fields}
}

func describe(d *ratelimitv3.RateLimitDescriptor) *structpb.Struct {
	entries := &structpb.ListValue{}
	for _, e := range d.GetEntries() {
		entries.Values = append(entries.Values, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(entries)}
	if limit := d.GetLimit(); limit != nil {
		fields["limit"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"requests_per_unit": structpb.NewNumberValue(float64(limit.GetRequestsPerUnit())),
			"unit":              structpb.NewStringValue(limit.GetUnit().String()),
		}})
	}
	if d.GetHitsAddend() != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.GetHitsAddend().GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}
