package otelgate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/wrap"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The keys of attributes.
const (
	PolicyKey    = attribute.Key("slidegate.policy")
	ResultKey    = attribute.Key("slidegate.result")
	OperationKey = attribute.Key("slidegate.operation")
)

// buckets of durations, in seconds: from a memory store to a timeout.
var buckets = []float64{.000_001, .000_01, .000_1, .000_25, .000_5, .001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1}

// New returns a function for wrap.Observe that measures with instruments of a meter. It is safe for concurrent use, and one
// function may observe several stores. The error is the meter's; the function works then with what the meter gave, and a
// nil meter is not allowed.
func New(meter metric.Meter) (func(wrap.Event), error) {
	decisions, errDecisions := meter.Int64Counter("slidegate.decisions",
		metric.WithUnit("{decision}"), metric.WithDescription("Requests that were decided, or could not be."))
	duration, errDuration := meter.Float64Histogram("slidegate.decision.duration",
		metric.WithUnit("s"), metric.WithDescription("Time that a store took to decide a request."), metric.WithExplicitBucketBoundaries(buckets...))
	failures, errFailures := meter.Int64Counter("slidegate.store.errors",
		metric.WithUnit("{error}"), metric.WithDescription("Calls of a store that could not be asked."))
	o := &observer{decisions: decisions, duration: duration, failures: failures}
	for op := range o.operations {
		o.operations[op] = adding(OperationKey.String(wrap.Op(op).String()))
	}
	return o.observe, errors.Join(errDecisions, errDuration, errFailures)
}

type observer struct {
	decisions  metric.Int64Counter
	duration   metric.Float64Histogram
	failures   metric.Int64Counter
	operations [wrap.OpReset + 1][]metric.AddOption

	policies sync.Map // of the first limit of a plan, by its address, to a policy
	known    atomic.Int64
}

// A policy has the attributes of a plan, made once.
type policy struct {
	results [canceled + 1][]metric.AddOption
	time    []metric.RecordOption
}

// The results of a decision.
const (
	allowed = iota
	denied
	failed
	canceled
)

var results = [...]string{allowed: "allowed", denied: "denied", failed: "error", canceled: "canceled"}

func adding(attributes ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func (o *observer) observe(e wrap.Event) {
	ctx := context.Background()
	if errors.Is(e.Err, slidegate.ErrUnavailable) {
		o.failures.Add(ctx, 1, o.operations[e.Op]...)
	}
	if e.Op == wrap.OpTake {
		p := o.policy(e.Limits)
		o.decisions.Add(ctx, 1, p.results[resultOf(&e)]...)
		o.duration.Record(ctx, e.Took.Seconds(), p.time...)
	}
}

func resultOf(e *wrap.Event) int {
	switch {
	case errors.Is(e.Err, slidegate.ErrUnavailable):
		return failed
	case e.Err != nil:
		return canceled
	case e.Allowed:
		return allowed
	}
	return denied
}

// maxPolicies is the number of plans whose attributes are kept. A program has a few; one that makes a limiter for each request
// has no end of them.
const maxPolicies = 1000

// policy returns the attributes of a plan, whose limits are the same slice in all its events.
func (o *observer) policy(limits []slidegate.Limit) *policy {
	if known, ok := o.policies.Load(&limits[0]); ok {
		return known.(*policy)
	}
	p := newPolicy(limits)
	if o.known.Load() < maxPolicies {
		if _, isOld := o.policies.LoadOrStore(&limits[0], p); !isOld {
			o.known.Add(1)
		}
	}
	return p
}

func newPolicy(limits []slidegate.Limit) *policy {
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = l.Name
	}
	name := PolicyKey.String(strings.Join(names, ","))
	p := &policy{time: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(name))}}
	for i, result := range results {
		p.results[i] = adding(name, ResultKey.String(result))
	}
	return p
}
