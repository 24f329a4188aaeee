package rls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nearLimit is the share of a limit from which on hits count as near it.
const nearLimit = 0.8

// mostSeries is how many rules are told apart, and otherRules stands for the rest. There is one only where statistics name
// the values of requests.
const (
	mostSeries = 10_000
	otherRules = "(other)"
	override   = "(override)" // stands for limits that came with requests
)

// Metrics count what a service does. They are a [prometheus.Collector], safe for concurrent use, and may be nil, which
// counts nothing.
type Metrics struct {
	names      Names
	collectors []prometheus.Collector

	total, admitted, over, near, shadow, refunded *prometheus.CounterVec // by rule

	requests, errors, loads   *prometheus.CounterVec
	duration                  prometheus.Observer
	unknownDomains, overruled prometheus.Counter
	loadedAt, loadGood        prometheus.Gauge

	series sync.Map // *series by labels
	count  atomic.Int64
}

// A series is the counters of a rule.
type series struct{ total, admitted, over, near, shadow, refunded prometheus.Counter }

// Names say what the metrics are called.
type Names struct {
	total, admitted, over, near, shadow, refunded string // hits, by rule
	requests, errors, duration                    string
	isOriginal                                    bool
}

var (
	// OurNames are those of slidegate. No value of a request is in a label, unless detailed_metric or value_to_metric of
	// its rule says so.
	OurNames = Names{
		total: "slidegate_rls_hits_total", admitted: "slidegate_rls_admitted_hits_total", over: "slidegate_rls_over_limit_hits_total",
		near: "slidegate_rls_near_limit_hits_total", shadow: "slidegate_rls_shadow_hits_total", refunded: "slidegate_rls_refunded_hits_total",
		requests: "slidegate_rls_requests_total", errors: "slidegate_rls_errors_total", duration: "slidegate_rls_duration_seconds",
	}

	// OriginalNames are those that envoyproxy/ratelimit has by its usual mapping, for dashboards that know them. What it
	// does not count has our names. As there, limits that come with requests are told apart by the values in them.
	OriginalNames = Names{
		total: "ratelimit_service_rate_limit_total_hits", admitted: "ratelimit_service_rate_limit_within_limit", over: "ratelimit_service_rate_limit_over_limit",
		near: "ratelimit_service_rate_limit_near_limit", shadow: "ratelimit_service_rate_limit_shadow_mode", refunded: OurNames.refunded,
		requests: "ratelimit_service_total_requests", errors: "ratelimit_service_should_rate_limit_error", duration: "ratelimit_service_response_time_seconds",
		isOriginal: true,
	}
)

// NewMetrics returns metrics that have counted nothing.
func NewMetrics(names Names) *Metrics {
	m := &Metrics{names: names}
	byRule := []string{"domain", "rule"}
	if names.isOriginal {
		byRule = []string{"domain", "key1", "key2"}
	}
	m.total = m.vector(names.total, "Hits of descriptors with a limit.", byRule)
	m.admitted = m.vector(names.admitted, "Hits that were charged.", byRule)
	m.over = m.vector(names.over, "Hits that a limit had no room for, those of rules in shadow mode included.", byRule)
	m.near = m.vector(names.near, "Hits that were charged beyond four fifths of a limit.", byRule)
	m.shadow = m.vector(names.shadow, "Hits that a rule in shadow mode would have refused.", byRule)
	m.refunded = m.vector(names.refunded, "Hits that were given back.", byRule)
	byMethod, byCause := "result", "cause"
	if names.isOriginal {
		byMethod, byCause = "grpc_method", "err_type"
	}
	m.requests = m.vector(names.requests, "Requests.", []string{byMethod})
	m.errors = m.vector(names.errors, "Requests that were not decided.", []string{byCause})
	m.loads = m.vector("slidegate_rls_config_loads_total", "Times that rules were loaded, or could not be.", []string{"result"})
	m.unknownDomains = m.counter("slidegate_rls_unknown_domain_total", "Requests of a domain without rules.")
	m.overruled = m.counter("slidegate_rls_global_shadow_total", "Requests that were admitted in global shadow mode alone.")
	m.loadedAt = m.gauge("slidegate_rls_config_loaded_timestamp_seconds", "When the rules in force were loaded.")
	m.loadGood = m.gauge("slidegate_rls_config_last_load_successful", "1 while the rules in force are those of the directory; 0 while these cannot be used.")
	m.observer(names)
	m.begin()
	return m
}

// begin has the series there from the start whose labels are known: one that comes with its first count of 1 has not grown,
// as Prometheus sees it.
func (m *Metrics) begin() {
	for _, result := range []string{"success", "error"} {
		m.loads.WithLabelValues(result)
	}
	if m.names.isOriginal {
		m.requests.WithLabelValues(method)
		for _, cause := range []string{"service_error", "redis_error"} {
			m.errors.WithLabelValues(cause)
		}
		return
	}
	for _, result := range []string{"ok", "over_limit", "error"} {
		m.requests.WithLabelValues(result)
	}
	for _, cause := range []string{"request", "store", "canceled"} {
		m.errors.WithLabelValues(cause)
	}
}

func (m *Metrics) vector(name, help string, labels []string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, v)
	return v
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.collectors = append(m.collectors, c)
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.collectors = append(m.collectors, g)
	return g
}

// method is what the original calls the only one there is.
const method = "ShouldRateLimit"

func (m *Metrics) observer(names Names) {
	opts := prometheus.HistogramOpts{
		Name: names.duration, Help: "How long requests take, the store included.",
		Buckets: []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1},
	}
	if names.isOriginal {
		opts.ConstLabels = prometheus.Labels{"grpc_method": method}
	}
	h := prometheus.NewHistogram(opts)
	m.duration = h
	m.collectors = append(m.collectors, h)
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(ch)
	}
}

// request counts a request and how long it took.
func (m *Metrics) request(answer *pb.RateLimitResponse, err error, took time.Duration) {
	if m == nil {
		return
	}
	m.duration.Observe(took.Seconds())
	switch {
	case m.names.isOriginal:
		m.requests.WithLabelValues(method).Inc()
	case err != nil:
		m.requests.WithLabelValues("error").Inc()
	case answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT:
		m.requests.WithLabelValues("over_limit").Inc()
	default:
		m.requests.WithLabelValues("ok").Inc()
	}
	if status.Code(err) == codes.InvalidArgument {
		m.errors.WithLabelValues(m.cause("service_error", "request")).Inc()
	}
}

// cause returns the name of a cause in the naming of the metrics.
func (m *Metrics) cause(original, our string) string {
	if m.names.isOriginal {
		return original
	}
	return our
}

// storeError counts a request that the store did not decide. One whose caller has gone is no fault of the store.
func (m *Metrics) storeError(err error) {
	switch {
	case m == nil:
	case errors.Is(err, context.Canceled):
		m.errors.WithLabelValues(m.cause("service_error", "canceled")).Inc()
	default:
		m.errors.WithLabelValues(m.cause("redis_error", "store")).Inc()
	}
}

func (m *Metrics) loaded(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.loads.WithLabelValues("error").Inc()
		m.loadGood.Set(0)
	default:
		m.loads.WithLabelValues("success").Inc()
		m.loadGood.Set(1)
		m.loadedAt.SetToCurrentTime()
	}
}

func (m *Metrics) unknownDomain() {
	if m != nil {
		m.unknownDomains.Inc()
	}
}

func (m *Metrics) overrule() {
	if m != nil {
		m.overruled.Inc()
	}
}

// decided counts the hits of the descriptors of a request.
func (m *Metrics) decided(domain string, asks []ask) {
	if m == nil {
		return
	}
	for i := range asks {
		if asks[i].limit != nil {
			asks[i].countIn(m.of(domain, &asks[i]))
		}
	}
}

// countIn adds what came of an ask. What is charged lies on top of what is used.
func (a *ask) countIn(s *series) {
	if a.negative {
		s.refunded.Add(float64(a.returned))
		return
	}
	s.total.Add(float64(a.hits))
	s.admitted.Add(float64(a.charged))
	if a.over {
		s.over.Add(float64(a.hits - a.charged))
	}
	if a.over && a.shadow {
		s.shadow.Add(float64(a.hits - a.charged))
	}
	if quota := int64(a.limit.GetRequestsPerUnit()); a.charged > 0 {
		used := quota - a.left
		s.near.Add(float64(max(0, used-max(used-a.charged, int64(nearLimit*float64(quota))))))
	}
}

// of returns the counters of the rule of an ask.
func (m *Metrics) of(domain string, a *ask) *series {
	name := a.StatKey
	if a.Rule == nil && !m.names.isOriginal {
		name = override
	}
	key := [2]string{domain, name}
	if s, ok := m.series.Load(key); ok {
		return s.(*series)
	}
	if m.count.Add(1) > mostSeries {
		m.count.Add(-1)
		key[1] = otherRules
	}
	s, _ := m.series.LoadOrStore(key, m.make(m.labels(domain, key[1], a)))
	return s.(*series)
}

// labels returns the domain and the rule, in the original naming as its first level and those below.
func (m *Metrics) labels(domain, name string, a *ask) []string {
	if name == override || name == otherRules {
		if m.names.isOriginal {
			return []string{domain, name, ""}
		}
		return []string{domain, name}
	}
	rule := name[len(domain)+1:]
	if !m.names.isOriginal {
		return []string{domain, rule}
	}
	first := name[len(domain)+1 : a.FirstLevel]
	if len(rule) == len(first) {
		return []string{domain, first, ""}
	}
	return []string{domain, first, rule[len(first)+1:]}
}

func (m *Metrics) make(labels []string) *series {
	return &series{
		m.total.WithLabelValues(labels...), m.admitted.WithLabelValues(labels...), m.over.WithLabelValues(labels...),
		m.near.WithLabelValues(labels...), m.shadow.WithLabelValues(labels...), m.refunded.WithLabelValues(labels...),
	}
}
