package caddygate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// metrics are those of one configuration; Caddy begins with new ones after a reload, as it does with its
// own. No key is ever in a label.
type metrics struct{ decisions, undecided *prometheus.CounterVec }

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caddy_slidegate_decisions_total",
			Help: "Requests that a limit admitted, and requests that it or a ban refused. A request that another limit refused counts for that one alone.",
		}, []string{"zone", "limit", "result"}),
		undecided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "caddy_slidegate_undecided_total",
			Help: "Requests that no limit has decided, and why: cost (can never fit), store, canceled (the client went away), address (there is none).",
		}, []string{"zone", "reason"}),
	}
	return m, errors.Join(registry.Register(m.decisions), registry.Register(m.undecided))
}

// counters are those of one gate.
type counters struct {
	admitted, refused              []prometheus.Counter // by limit
	banned                         prometheus.Counter   // nil without a ban
	cost, store, canceled, address prometheus.Counter
}

// of returns the counters of a gate, which are found once.
func (m *metrics) of(zone string, limits []slidegate.Limit, ban *Ban) *counters {
	why := func(reason string) prometheus.Counter { return m.undecided.WithLabelValues(zone, reason) }
	c := &counters{cost: why("cost"), store: why("store"), canceled: why("canceled"), address: why("address")}
	for _, l := range limits {
		c.admitted = append(c.admitted, m.decisions.WithLabelValues(zone, l.Name, "admitted"))
		c.refused = append(c.refused, m.decisions.WithLabelValues(zone, l.Name, "refused"))
	}
	if ban != nil {
		c.banned = m.decisions.WithLabelValues(zone, ban.name(), "refused")
	}
	return c
}

func (c *counters) observe(e *httpgate.Event) {
	d := e.Decision
	switch {
	case e.After: // of this request there was an event
	case e.Banned:
		c.banned.Inc()
	case d == nil:
		c.failed(e)
	case d.Len() == 0:
		c.cost.Inc()
	case d.Allowed:
		for _, counter := range c.admitted {
			counter.Inc()
		}
	default:
		for i := range d.Len() {
			if d.Refuses(i) {
				c.refused[i].Inc()
			}
		}
	}
}

func (c *counters) failed(e *httpgate.Event) {
	switch {
	case e.Canceled:
		c.canceled.Inc()
	case errors.Is(e.Err, httpgate.ErrNoAddress):
		c.address.Inc()
	default:
		c.store.Inc()
	}
}
