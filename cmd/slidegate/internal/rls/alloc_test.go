//go:build !race

package rls_test

import (
	"context"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
)

// TestAllocations: what a call takes that is admitted, counted in metrics, and answered, without gRPC.
func TestAllocations(t *testing.T) {
	r := inMemory(t, "domain: d\ndescriptors: [{key: a, descriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 4000000000}}]}]",
		rls.Options{Metrics: rls.NewMetrics(rls.OurNames)})
	request := &pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("a=x,b=198.51.100.7")}}
	n := testing.AllocsPerRun(1000, func() {
		if answer, err := r.service.ShouldRateLimit(context.Background(), request); err != nil || answer.GetOverallCode() != ok {
			t.Fatal(answer, err)
		}
	})
	if n > 6 {
		t.Errorf("%v allocations for an admitted call of one descriptor, want at most 6", n)
	}
}
