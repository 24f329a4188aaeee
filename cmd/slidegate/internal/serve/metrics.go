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
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// metrics are counted without a lookup, and their number does not depend on the traffic: no key is
// ever in a label.
type metrics struct {
	registry       *prometheus.Registry
	admitted       []prometheus.Counter // by limit
	refused        []prometheus.Counter
	neverFits      prometheus.Counter
	storeErrors    prometheus.Counter
	canceled       prometheus.Counter
	nobody         prometheus.Counter
	upstreamErrors prometheus.Counter
	duration       prometheus.Histogram
}

func newMetrics(version string, limits []slidegate.Limit, store *memstore.Store, ignored func() uint64) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slidegate_decisions_total",
		Help: "Requests that a limit admitted, and requests that it refused. A request that another limit refused counts for that one alone.",
	}, []string{"limit", "result"})
	for _, l := range limits {
		m.admitted = append(m.admitted, decisions.WithLabelValues(l.Name, "admitted"))
		m.refused = append(m.refused, decisions.WithLabelValues(l.Name, "refused"))
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	m.neverFits = counter("slidegate_cost_errors_total", "Requests refused since their cost can never fit.")
	m.storeErrors = counter("slidegate_store_errors_total", "Requests that could not be decided.")
	m.canceled = counter("slidegate_canceled_total", "Requests whose client went away before they were decided.")
	m.nobody = counter("slidegate_no_address_total", "Requests refused since they have no address to count them under.")
	m.upstreamErrors = counter("slidegate_upstream_errors_total", "Requests that the upstream did not answer.")
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "slidegate_decision_duration_seconds", Help: "How long decisions take, key and store included.",
		Buckets: []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1},
	})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slidegate_build_info", Help: "Always 1; the labels say which build it is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(decisions, m.duration, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slidegate_tracked_keys", Help: "Keys held in memory."}, func() float64 { return float64(store.Len()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "slidegate_evictions_total", Help: "Keys forgotten while they still counted, since the store was full."},
			func() float64 { return float64(store.Stats().Evicted) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "slidegate_ignored_forwarded_headers_total", Help: "Requests from a private address with a forwarding header that is not believed."},
			func() float64 { return float64(ignored()) }),
	)
	return m
}

func (m *metrics) observe(e *httpgate.Event) {
	m.duration.Observe(e.Took.Seconds())
	switch {
	case e.Decision == nil && e.Canceled:
		m.canceled.Inc()
	case errors.Is(e.Err, httpgate.ErrNoAddress):
		m.nobody.Inc()
	case e.Decision == nil:
		m.storeErrors.Inc()
	case e.Decision.Len() == 0:
		m.neverFits.Inc()
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

// adminHandler serves those who run the process.
func (s *server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
