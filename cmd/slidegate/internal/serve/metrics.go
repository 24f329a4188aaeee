package serve

import (
	"errors"
	"io"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/wrap"
)

// metrics are counted without a lookup, and their number does not depend on the traffic: no key is
// ever in a label.
type metrics struct {
	registry       *prometheus.Registry
	decisions      *prometheus.CounterVec
	admitted       []prometheus.Counter // by limit
	refused        []prometheus.Counter
	neverFits      prometheus.Counter
	storeErrors    prometheus.Counter
	canceled       prometheus.Counter
	nobody         prometheus.Counter
	denied         prometheus.Counter
	afterErrors    prometheus.Counter
	upstreamErrors prometheus.Counter
	shedding       *shedding
	duration       prometheus.Histogram
}

func newMetrics(version string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slidegate_decisions_total",
		Help: "Requests that a limit admitted, and requests that it refused. A request that another limit refused counts for that one alone.",
	}, []string{"limit", "result"})
	counted := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.neverFits = counted("slidegate_cost_errors_total", "Requests refused since their cost can never fit.")
	m.storeErrors = counted("slidegate_store_errors_total", "Requests that could not be decided.")
	m.canceled = counted("slidegate_canceled_total", "Requests whose client went away before they were decided.")
	m.nobody = counted("slidegate_no_address_total", "Requests refused since they have no address to count them under.")
	m.denied = counted("slidegate_denied_total", "Requests refused since they are on the list of those denied.")
	m.afterErrors = counted("slidegate_after_errors_total", "Charges that could not be given back, and strikes that could not be recorded.")
	m.upstreamErrors = counted("slidegate_upstream_errors_total", "Requests that the upstream did not answer.")
	m.shedding = newShedding(m.registry)
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "slidegate_decision_duration_seconds", Help: "How long decisions take, key and store included.",
		Buckets: []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 1e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 1},
	})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slidegate_build_info", Help: "Always 1; the labels say which build it is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.decisions, m.duration, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// The metrics of a file of rules.
const (
	reloadsTotal = "slidegate_config_reloads_total"
	reloadGood   = "slidegate_config_last_reload_successful"
	lastReload   = "slidegate_config_last_reload_success_timestamp_seconds"
)

// The metrics of what is taken on, and of TLS.
const (
	shedTotal       = "slidegate_shed_total"
	openConnections = "slidegate_connections"
	requestsNow     = "slidegate_requests"
	tlsReloads      = "slidegate_tls_reloads_total"
	tlsExpiry       = "slidegate_tls_certificate_expiry_timestamp_seconds"
)

// of adds what a store counts.
func (m *metrics) of(b *backend) { m.registry.MustRegister(b.collectors...) }

// ofCheck adds what is known of a store that was tried.
func (m *metrics) ofCheck(c *selfCheck) {
	m.registry.MustRegister(
		gauge("slidegate_self_check_passed", "1 once a key of the process's own was held to its limit.", c.is(passed)),
		gauge("slidegate_self_check_failed", "1 where it was not: limits may not hold.", c.is(failed)),
	)
}

// ofLimits are those of --limit, which do not change.
func (m *metrics) ofLimits(limits []slidegate.Limit) {
	for _, l := range limits {
		m.admitted = append(m.admitted, m.decisions.WithLabelValues(l.Name, "admitted"))
		m.refused = append(m.refused, m.decisions.WithLabelValues(l.Name, "refused"))
	}
}

func (m *metrics) ignored(headers func() uint64) {
	m.registry.MustRegister(counter("slidegate_ignored_forwarded_headers_total", "Requests from a private address with a forwarding header that is not believed.", headers))
}

func bansMetrics(list *bans.List) []prometheus.Collector {
	return []prometheus.Collector{
		gauge("slidegate_bans", "Keys that are banned by people.", list.Len),
		counter("slidegate_bans_failures_total", "Times that the bans which processes share could not be read or changed.", list.Failures),
	}
}

func memoryMetrics(store *memstore.Store, maxKeys int) []prometheus.Collector {
	return []prometheus.Collector{
		gauge("slidegate_tracked_keys", "Keys held in memory.", store.Len),
		gauge("slidegate_max_keys", "The most keys that memory may hold.", func() int { return maxKeys }),
		counter("slidegate_evictions_total", "Keys forgotten while they still counted, since the store was full.", func() uint64 { return store.Stats().Evicted }),
	}
}

func redisMetrics(store *redisstore.Store, circuit *wrap.CircuitStore) []prometheus.Collector {
	return []prometheus.Collector{
		counter("slidegate_redis_calls_total", "Scripts sent to Redis.", func() uint64 { return store.Stats().Calls }),
		counter("slidegate_redis_failures_total", "Scripts that failed or were not answered in time.", func() uint64 { return store.Stats().Failed }),
		counter("slidegate_redis_decisions_total", "Decisions that Redis made.", func() uint64 { return store.Stats().Decisions }),
		counter("slidegate_redis_folded_total", "Decisions that shared a script with others.", func() uint64 { return store.Stats().Folded }),
		counter("slidegate_redis_replaced_total", "Stored values that were not understood and have been replaced.", func() uint64 { return store.Stats().Replaced }),
		counter("slidegate_redis_newer_total", "Requests not decided, since a newer version wrote what is stored.", func() uint64 { return store.Stats().Newer }),
		gauge("slidegate_redis_overdue", "Scripts whose time is up and that the client has not returned from.", func() int { return store.Stats().Overdue }),
		gauge("slidegate_circuit_open", "1 while Redis is asked once a second only, since it did not answer.", func() int { return int(circuit.State()) }),
		counter("slidegate_circuit_opened_total", "Times that the circuit opened.", func() uint64 { return circuit.Stats().Opened }),
		counter("slidegate_circuit_refused_total", "Calls that the open circuit kept from Redis.", func() uint64 { return circuit.Stats().Refused }),
	}
}

func denialMetrics(d *wrap.DenialsStore) []prometheus.Collector {
	return []prometheus.Collector{
		counter("slidegate_remembered_refusals_total", "Refusals that were remembered, so that Redis was not asked.", func() uint64 { return d.Stats().Answered }),
		gauge("slidegate_remembered_refusals", "Refusals remembered now.", func() int { return d.Stats().Remembered }),
	}
}

func (s *server) fallbackMetrics(b *backend) (all []prometheus.Collector) {
	f := b.fallback
	if b.replicas != nil {
		all = append(all, gauge("slidegate_replicas", "Processes that live, this one included, as Redis last said.", b.replicas.Live))
	}
	return append(all,
		gauge("slidegate_fallback_active", "1 while this process decides by its share, until nothing has failed for ten seconds.", func() int {
			if s.away.on.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slidegate_fallback_share", Help: "The share of each quota that this process has while Redis is away."}, func() float64 {
			if b.replicas != nil {
				return 1 / float64(b.replicas.Live())
			}
			return float64(s.share.numerator) / float64(s.share.denominator)
		}),
		counter("slidegate_fallback_decisions_total", "Decisions by the share.", func() uint64 { return f.Stats().Decided }),
		counter("slidegate_fallback_taken_over_total", "Units admitted by the share that have been charged in Redis since, in each limit.", func() uint64 { return f.Stats().TakenOver }),
		gauge("slidegate_fallback_owed", "Keys and limits whose units are still to be charged in Redis.", func() int { return f.Stats().Owed }),
	)
}

func gauge(name, help string, f func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
}

func counter(name, help string, f func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f()) })
}

// observe counts a request that is held to --limit.
func (m *metrics) observe(e *httpgate.Event) {
	switch {
	case m.observeUndecided(e):
	case e.Decision.Allowed:
		for _, c := range m.admitted {
			c.Inc()
		}
	default:
		for i := range e.Decision.Len() {
			if e.Decision.Refuses(i) {
				m.refused[i].Inc()
			}
		}
	}
}

// observeUndecided counts how long it took, and what is no decision by limits; then it returns true.
func (m *metrics) observeUndecided(e *httpgate.Event) bool {
	if e.After {
		m.afterErrors.Inc()
		return true
	}
	m.duration.Observe(e.Took.Seconds())
	switch {
	case e.Decision == nil && e.Canceled:
		m.canceled.Inc()
	case errors.Is(e.Err, httpgate.ErrNoAddress):
		m.nobody.Inc()
	case errors.Is(e.Err, httpgate.ErrForbidden):
		m.denied.Inc()
	case e.Decision == nil:
		m.storeErrors.Inc()
	case e.Decision.Len() == 0:
		m.neverFits.Inc()
	default:
		return false
	}
	return true
}

// openHandler serves what needs no token.
func (s *server) openHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

// policy is --on-store-error, or what the file of rules says of it by now.
func (s *server) policy() string {
	if s.live == nil {
		return s.onStoreError
	}
	return s.inherited(s.live.Engine().File(), "on-store-error")[0]
}

// readyz says whether to send requests here. A store that is away is a reason not to only where
// requests then get 503: where they pass, limiting is lost and the service is not.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	text := "ready\n"
	if s.checked.state.Load() == failed {
		text += "the self-check failed: limits may not hold\n"
	}
	if s.look(r.Context()) != nil {
		if s.backend.fallback == nil && (s.policy() == "closed" || !s.gatesRequests()) {
			http.Error(w, "the store does not answer: "+s.meanwhile(), http.StatusServiceUnavailable)
			return
		}
		text += "the store does not answer: " + s.meanwhile() + "\n"
	}
	_, _ = io.WriteString(w, text)
}
