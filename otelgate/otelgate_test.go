package otelgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/otelgate"
	"github.com/slidegate/slidegate/wrap"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var background = context.Background()

// measured returns a function that observes, and one that reads what it measured, each number by instrument and attributes.
func measured(t testing.TB) (observe func(wrap.Event), read func() map[string]float64) {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(background) })
	observe, err := otelgate.New(provider.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	return observe, func() map[string]float64 {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(background, &all); err != nil {
			t.Fatal(err)
		}
		return numbers(all)
	}
}

func numbers(all metricdata.ResourceMetrics) map[string]float64 {
	got := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[m.Name+" "+m.Unit+" "+words(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[m.Name+" "+m.Unit+" "+words(p.Attributes)] = float64(p.Count)
				}
			}
		}
	}
	return got
}

func words(set attribute.Set) string {
	var all []string
	for _, a := range set.ToSlice() {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	return strings.Join(all, " ")
}

// TestInstruments: each decision once, by policy and result, and each failure by what was asked. No attribute has a key.
func TestInstruments(t *testing.T) {
	observe, read := measured(t)
	store := wrap.Observe(memstore.New(), observe, wrap.WithKeys())
	login := slidegate.MustNew(store, slidegate.PerHour(2).Named("login"))
	api := slidegate.MustNew(store, slidegate.PerHour(9).Named("burst"), slidegate.PerDay(9).Counter().Named("day"))
	away := slidegate.MustNew(wrap.Observe(gatetest.Failing(nil), observe), slidegate.PerHour(2).Named("away"))
	gone := slidegate.MustNew(wrap.Observe(gatetest.Failing(context.Canceled), observe), slidegate.PerHour(2).Named("gone"))
	for range 5 {
		for _, l := range []*slidegate.Limiter{login, api, away, gone} {
			l.Take(background, "secret")
		}
		login.Allow(background, "another")
	}
	login.Peek(background, "secret")
	away.Peek(background, "secret")
	away.Reset(background, "secret")
	gone.Reset(background, "secret")
	d, _ := slidegate.MustNew(memstore.New(), slidegate.PerHour(2).Named("away")).Take(background, "secret")
	away.Refund(background, &d)
	want := map[string]float64{
		"slidegate.decisions {decision} slidegate.policy=login slidegate.result=allowed":     4,
		"slidegate.decisions {decision} slidegate.policy=login slidegate.result=denied":      6,
		"slidegate.decisions {decision} slidegate.policy=burst,day slidegate.result=allowed": 5,
		"slidegate.decisions {decision} slidegate.policy=away slidegate.result=error":        5,
		"slidegate.decisions {decision} slidegate.policy=gone slidegate.result=canceled":     5,
		"slidegate.decision.duration s slidegate.policy=login":                               10,
		"slidegate.decision.duration s slidegate.policy=burst,day":                           5,
		"slidegate.decision.duration s slidegate.policy=away":                                5,
		"slidegate.decision.duration s slidegate.policy=gone":                                5,
		"slidegate.store.errors {error} slidegate.operation=take":                            5,
		"slidegate.store.errors {error} slidegate.operation=peek":                            1,
		"slidegate.store.errors {error} slidegate.operation=refund":                          1,
		"slidegate.store.errors {error} slidegate.operation=reset":                           1,
	}
	got := read()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: nobody asked for it", name)
		}
	}
}

// TestDurationsAreSeconds, in buckets that fit them.
func TestDurationsAreSeconds(t *testing.T) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(background) })
	observe, err := otelgate.New(provider.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	observe(wrap.Event{Op: wrap.OpTake, Took: 20 * time.Millisecond, Limits: []slidegate.Limit{slidegate.PerHour(1).Named("l")}})
	var all metricdata.ResourceMetrics
	if err := reader.Collect(background, &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			p := h.DataPoints[0]
			if i := slices.Index(p.BucketCounts, 1); p.Sum != 0.02 || i < 0 || p.Bounds[i-1] != .01 || p.Bounds[i] != .025 {
				t.Errorf("20 ms are %v, in %v of %v", p.Sum, p.BucketCounts, p.Bounds)
			}
			return
		}
	}
	t.Error("there is no histogram")
}

// TestManyPlansAreMeasured, also of a program that makes one for each request.
func TestManyPlansAreMeasured(t *testing.T) {
	observe, read := measured(t)
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 1000 {
				l := slidegate.MustNew(wrap.Observe(gatetest.Failing(nil), observe), slidegate.PerHour(2).Named("l"))
				l.Take(background, "a")
				l.Take(background, "a")
			}
		})
	}
	done.Wait()
	if n := read()["slidegate.decisions {decision} slidegate.policy=l slidegate.result=error"]; n != 8000 {
		t.Errorf("%v decisions, want 8000", n)
	}
}

// TestObservingAllocatesNothing with a meter that does not either.
func TestObservingAllocatesNothing(t *testing.T) {
	observe, err := otelgate.New(noop.NewMeterProvider().Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	e := wrap.Event{Op: wrap.OpTake, Limits: []slidegate.Limit{slidegate.PerHour(1).Named("l")}}
	observe(e)
	if n := testing.AllocsPerRun(100, func() { observe(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A wrong meter has no histogram.
type wrong struct{ metric.Meter }

var errMeter = errors.New("no histogram")

func (wrong) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, errMeter
}

// TestErrorOfAMeterIsTold, and observing goes on.
func TestErrorOfAMeterIsTold(t *testing.T) {
	observe, err := otelgate.New(wrong{noop.NewMeterProvider().Meter("test")})
	if !errors.Is(err, errMeter) {
		t.Errorf("%v", err)
	}
	observe(wrap.Event{Limits: []slidegate.Limit{slidegate.PerHour(1)}})
}

func ExampleNew() {
	reader := sdk.NewManualReader() // a program has an exporter
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	observe, err := otelgate.New(provider.Meter("github.com/slidegate/slidegate"))
	if err != nil {
		panic(err)
	}
	limiter := slidegate.MustNew(wrap.Observe(memstore.New(), observe), slidegate.PerMinute(2).Named("login"))
	for range 5 {
		limiter.Take(context.Background(), "user:42")
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, result := range []string{"allowed", "denied"} {
		fmt.Println(result, numbers(all)["slidegate.decisions {decision} slidegate.policy=login slidegate.result="+result])
	}
	// Output:
	// allowed 2
	// denied 3
}
