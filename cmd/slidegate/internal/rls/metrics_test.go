package rls_test

import (
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
)

const measured = `
domain: d.e
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: route
    value_to_metric: true
    descriptors:
      - key: b
        shadow_mode: true
        rate_limit: {unit: minute, requests_per_unit: 1}
`

// values returns what metrics have counted, by name and labels in order.
func values(t *testing.T, m *rls.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			all[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func (r *rig) measure() {
	r.Helper()
	send := func(d ...*ratelimitv3.RateLimitDescriptor) {
		r.Helper()
		if _, err := r.try(&pb.RateLimitRequest{Domain: "d.e", Descriptors: d}); err != nil {
			r.Fatal(err)
		}
	}
	send(hits(7, "a=1.2.3.4"))
	send(hits(2, "a=1.2.3.4"))  // the last of them beyond eight
	send(hits(3, "a=1.2.3.4"))  // one of them fits
	send(hits(-4, "a=1.2.3.4")) // of ten
	send(hits(0, "a=1.2.3.4"))
	send(entries("route=x.y,b=1"))
	send(entries("route=x.y,b=1"))
	override := entries("a=1.2.3.4")
	override.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 100, Unit: typev3.RateLimitUnit_HOUR}
	send(override)
	_, _ = r.try(&pb.RateLimitRequest{Domain: "d.e"})
	_, _ = r.try(&pb.RateLimitRequest{Domain: "nowhere", Descriptors: r.descriptors("a=x")})
}

// TestMetrics count hits by rule, with no value of a request in a label unless the rule says so.
func TestMetrics(t *testing.T) {
	m := rls.NewMetrics(rls.OurNames)
	r := inMemory(t, measured, rls.Options{Metrics: m})
	r.measure()
	_ = r.service.Load(t.TempDir()) // there is no file in it
	got := values(t, m)
	for name, want := range map[string]float64{
		"slidegate_rls_hits_total{d.e,a}": 12, "slidegate_rls_admitted_hits_total{d.e,a}": 10, "slidegate_rls_over_limit_hits_total{d.e,a}": 2,
		"slidegate_rls_near_limit_hits_total{d.e,a}": 2, "slidegate_rls_refunded_hits_total{d.e,a}": 4, "slidegate_rls_shadow_hits_total{d.e,a}": 0,
		"slidegate_rls_hits_total{d.e,route_x.y.b}": 2, "slidegate_rls_shadow_hits_total{d.e,route_x.y.b}": 1, "slidegate_rls_over_limit_hits_total{d.e,route_x.y.b}": 1,
		"slidegate_rls_hits_total{d.e,(override)}": 1,
		"slidegate_rls_requests_total{ok}":         8, "slidegate_rls_requests_total{over_limit}": 1, "slidegate_rls_requests_total{error}": 1,
		"slidegate_rls_errors_total{request}": 1, "slidegate_rls_unknown_domain_total{}": 1, "slidegate_rls_duration_seconds{}": 10,
		"slidegate_rls_config_loads_total{error}": 1,
	} {
		if v, is := got[name]; !is || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, is, want)
		}
	}
	for name := range got {
		if strings.Contains(name, "1.2.3.4") {
			t.Errorf("%s has a value of a request in it", name)
		}
	}
}

// TestMetricsOfTheOriginal have its names and labels.
func TestMetricsOfTheOriginal(t *testing.T) {
	m := rls.NewMetrics(rls.OriginalNames)
	r := inMemory(t, measured, rls.Options{Metrics: m})
	r.measure()
	got := values(t, m)
	for name, want := range map[string]float64{
		"ratelimit_service_rate_limit_total_hits{d.e,a,}": 12, "ratelimit_service_rate_limit_over_limit{d.e,a,}": 2, "ratelimit_service_rate_limit_near_limit{d.e,a,}": 2,
		"ratelimit_service_rate_limit_within_limit{d.e,a,}": 10, "ratelimit_service_rate_limit_shadow_mode{d.e,route_x.y,b}": 1,
		"ratelimit_service_rate_limit_total_hits{d.e,a_1.2.3.4,}": 1, "ratelimit_service_total_requests{ShouldRateLimit}": 10,
		"ratelimit_service_response_time_seconds{ShouldRateLimit}": 10, "ratelimit_service_should_rate_limit_error{service_error}": 1,
	} {
		if v, is := got[name]; !is || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, is, want)
		}
	}
}

// TestMetricsAreBounded: values of requests that are asked for in labels are told apart up to a number.
func TestMetricsAreBounded(t *testing.T) {
	m := rls.NewMetrics(rls.OurNames)
	r := inMemory(t, "domain: d\ndescriptors:\n  - key: a\n    detailed_metric: true\n    rate_limit: {unit: day, requests_per_unit: 1}\n", rls.Options{Metrics: m})
	for i := 0; i < 10_500; i += 500 {
		var all []*ratelimitv3.RateLimitDescriptor
		for j := range 500 {
			all = append(all, entries(fmt.Sprintf("a=%d", i+j)))
		}
		r.ask(all...)
	}
	series := 0
	got := values(t, m)
	for name := range got {
		if strings.HasPrefix(name, "slidegate_rls_hits_total{") {
			series++
		}
	}
	if other := got["slidegate_rls_hits_total{d,(other)}"]; series != 10_001 || other != 500 {
		t.Errorf("%d series, %v hits of others", series, other)
	}
}
