package rls_test

import (
	"context"
	"fmt"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/memstore"
)

// A service decides by rules; on a gRPC server, which NewServer makes, it is Envoy that asks.
func ExampleService() {
	set, err := rules.Read([]rules.File{{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 2}
`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := rls.New(memstore.New(), set, rls.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &pb.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "203.0.113.9"}},
	}}}
	for range 3 {
		answer, err := service.ShouldRateLimit(context.Background(), request)
		fmt.Println(answer.GetOverallCode(), answer.GetStatuses()[0].GetLimitRemaining(), err)
	}

	// Output:
	// OK 1 <nil>
	// OK 0 <nil>
	// OVER_LIMIT 0 <nil>
}

// A file with mistakes says all of them.
func Example_mistakes() {
	_, err := rules.Read([]rules.File{{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: fortnight, requests_per_unit: -1}
`)}})
	fmt.Println(err)

	// Output:
	// invalid rules:
	// edge.yaml:5: the unit "fortnight": allowed is second, minute, hour, day, week, month or year
	// edge.yaml:5: requests_per_unit "-1": allowed is a whole number from 0 to 4294967295
}
