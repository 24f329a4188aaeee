package gatetest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

//go:embed testdata/scenarios.json
var scenariosJSON []byte

// A Scenario is traffic step by step with the one right answer for each step, as an independent
// brute-force computation found it.
type Scenario struct {
	ID     string
	Title  string
	Limits []ScenarioLimit
	Steps  []Step
}

// A ScenarioLimit is a limit of a scenario or, in an answer, how it stands. Times are milliseconds.
type ScenarioLimit struct {
	Name       string
	Quota      int64
	Window     int64 `json:"window_ms"`
	Algorithm  string
	Resolution int64 `json:"resolution_ms"`
	Remaining  int64
	Reset      int64 `json:"reset_ms"`
	Retry      int64 `json:"retry_ms"`
}

// A Step is one request, or Repeat requests at the same instant.
type Step struct {
	T       int64 // the store's clock, in milliseconds
	Op      string
	Key     string
	Cost    int64
	Repeat  int
	Expect  Expectation
	Headers map[string]map[string]string `json:"expect_headers"` // by format name
}

// An Expectation is the right answer. AllowedCount and Last are those of a repeated step.
type Expectation struct {
	Allowed      bool
	Remaining    int64
	Reset        int64 `json:"reset_ms"`
	Retry        int64 `json:"retry_ms"`
	Binding      string
	Limits       []ScenarioLimit
	Error        string
	AllowedCount *int `json:"allowed_count"`
	Last         *Expectation
}

// AllScenarios returns the scenarios; they are shared and must not be modified.
var AllScenarios = sync.OnceValue(func() []Scenario {
	var file struct{ Scenarios []Scenario }
	if err := json.Unmarshal(scenariosJSON, &file); err != nil {
		panic("gatetest: scenarios.json: " + err.Error())
	}
	return file.Scenarios
})

// Limit returns the limit that the scenario speaks of.
func (l ScenarioLimit) Limit() slidegate.Limit {
	limit := slidegate.Per(time.Duration(l.Window)*time.Millisecond, l.Quota).Named(l.Name)
	if l.Algorithm == "counter" {
		return limit.Counter()
	}
	return limit.WithResolution(time.Duration(l.Resolution) * time.Millisecond)
}

// AllLimits returns the scenario's limits.
func (s *Scenario) AllLimits() []slidegate.Limit {
	limits := make([]slidegate.Limit, len(s.Limits))
	for i, l := range s.Limits {
		limits[i] = l.Limit()
	}
	return limits
}

// Scenarios runs every scenario, word for word.
func Scenarios(t testing.TB, f Factory) {
	for _, s := range AllScenarios() {
		b := newBench(t, f, s.AllLimits()...)
		for i, step := range s.Steps {
			b.clock.SetMilli(step.T)
			b.step(s.ID, i, &step)
		}
	}
}

func (b *bench) step(id string, i int, step *Step) {
	b.t.Helper()
	var d slidegate.Decision
	var err error
	admitted := 0
	for range max(1, step.Repeat) {
		switch step.Op {
		case "take":
			d, err = b.TakeN(background, step.Key, step.Cost)
		case "peek":
			d, err = b.PeekN(background, step.Key, step.Cost)
		case "reset":
			err = b.Reset(background, step.Key)
		default:
			b.t.Fatalf("%s step %d: unknown op %q", id, i, step.Op)
		}
		if d.Allowed {
			admitted++
		}
	}
	want := &step.Expect
	if want.Error != "" {
		if cost := (*slidegate.CostError)(nil); !errors.As(err, &cost) {
			b.t.Errorf("%s step %d: error %v, want a CostError", id, i, err)
		}
		return
	}
	if err != nil {
		b.t.Errorf("%s step %d: %v", id, i, err)
		return
	}
	if want.AllowedCount != nil {
		if admitted != *want.AllowedCount {
			b.t.Errorf("%s step %d: %d admitted, want %d", id, i, admitted, *want.AllowedCount)
		}
		want = want.Last
	}
	if step.Op != "reset" {
		want.check(b.t, id, i, &d)
	}
}

func (e *Expectation) check(t testing.TB, id string, i int, d *slidegate.Decision) {
	t.Helper()
	b := d.Binding()
	if d.Allowed != e.Allowed || b.Remaining != e.Remaining || b.ResetIn.Milliseconds() != e.Reset ||
		d.RetryAfter().Milliseconds() != e.Retry || b.Limit.Name != e.Binding || d.Len() != len(e.Limits) {
		t.Errorf("%s step %d: got %v, remaining %d, reset %s, retry %s, binding %q of %d; want %+v",
			id, i, d.Allowed, b.Remaining, b.ResetIn, d.RetryAfter(), b.Limit.Name, d.Len(), *e)
		return
	}
	for j, want := range e.Limits {
		s := d.State(j)
		if s.Limit.Name != want.Name || s.Limit.Quota != want.Quota || s.Remaining != want.Remaining ||
			s.ResetIn.Milliseconds() != want.Reset || s.RetryIn.Milliseconds() != want.Retry {
			t.Errorf("%s step %d: limit %d is %+v, want %+v", id, i, j, s, want)
		}
	}
}
