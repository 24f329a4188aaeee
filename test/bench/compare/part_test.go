package main

import (
	"math"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/test/bench"
)

func TestEveryTargetIsMeasured(t *testing.T) {
	all, targets := parts(), bench.Targets()
	for _, l := range bench.LoadTargets() {
		targets = append(targets, bench.Target{Part: l.Part, Contender: l.Contender})
	}
	for _, target := range targets {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == target.Part })
		if i < 0 {
			t.Errorf("no part %q", target.Part)
			continue
		}
		if !slices.ContainsFunc(all[i].rows, func(r row) bool { return r.name == target.Contender }) {
			t.Errorf("part %q has no row %q", target.Part, target.Contender)
		}
	}
}

func TestWhatIsComparedWithIsMeasured(t *testing.T) {
	for _, p := range parts() {
		for _, r := range p.rows {
			if r.against != "" && r.against != best && !slices.ContainsFunc(p.rows, func(o row) bool { return o.name == r.against }) {
				t.Errorf("part %q: %q is compared with %q, which is no row", p.name, r.name, r.against)
			}
		}
	}
}

func TestMedianRatioCancelsWhatSlowsARound(t *testing.T) {
	if got := medianRatio([]float64{10, 30, 11}, []float64{20, 60, 20}); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
	if got := median([]float64{4, 1, 3, 2}); math.Abs(got-2.5) > 1e-9 {
		t.Errorf("got %v, want 2.5", got)
	}
}

func TestAVerdictIsALine(t *testing.T) {
	for _, test := range []struct {
		o    outcome
		want string
	}{
		{outcome{part: "hot1", contender: "a", value: 0.9, bound: 1}, "ok hot1/a: 0.9 (≤ 1)"},
		{outcome{part: "hot1", contender: "a", value: 1, bound: 1}, "ok hot1/a: 1 (≤ 1)"},
		{outcome{part: "hot1", contender: "a", value: 1.1, bound: 1}, "MISSED hot1/a: 1.1 (≤ 1)"},
		{outcome{part: "hot1", contender: "a", value: 1.1, bound: 1, floor: 0.9, floorIs: "nothing"}, "MISSED hot1/a: 1.1 (≤ 1)"},
		{outcome{part: "hot1", contender: "a", value: 1.1, bound: 1, floor: 1.05, floorIs: "nothing"}, "FORBIDDEN hot1/a: 1.1 (≤ 1) nothing has 1.05"},
		{outcome{part: "hot1", contender: "a", value: 1.1, bound: 1, floor: 1.2, floorIs: "nothing"}, "MISSED hot1/a: 1.1 (≤ 1)"},
		{outcome{part: "redis-1", contender: "a", figure: "1,000/s", value: 2, bound: 1.7, more: true}, "ok redis-1/a 1,000/s: 2 (≥ 1.7)"},
		{outcome{part: "redis-1", contender: "a", value: 1, bound: 1.7, more: true, floor: 1.8, floorIs: "nothing"}, "MISSED redis-1/a: 1 (≥ 1.7)"},
		{outcome{part: "redis-1", contender: "a", value: 1, bound: 1.7, more: true, floor: 1.5, floorIs: "nothing"}, "FORBIDDEN redis-1/a: 1 (≥ 1.7) nothing has 1.5"},
		{outcome{part: "redis-1", contender: "a", value: 1, bound: 1.7, more: true, floor: 0.9, floorIs: "nothing"}, "MISSED redis-1/a: 1 (≥ 1.7)"},
	} {
		if got := test.o.line(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestWhatHasATargetIsChosen, and what it is held against, and its floor.
func TestWhatHasATargetIsChosen(t *testing.T) {
	*verdicts = true
	defer func() { *verdicts = false }()
	for _, p := range parts() {
		before := slices.Clone(p.rows)
		p.choose()
		for _, r := range before {
			chosen := slices.ContainsFunc(p.rows, func(o row) bool { return o.name == r.name })
			if _, bound := bench.Most(p.name, r.name); (bound || r.name == bench.HTTPFloor && p.name == "http-allowed") && !chosen {
				t.Errorf("part %q: %q is not measured", p.name, r.name)
			}
			if p.name == "hot1" && r.name == "ulule" && chosen {
				t.Errorf("part %q: %q is measured for nothing", p.name, r.name)
			}
		}
	}
}

// TestATableIsPutInItsPlace, and nothing else of the page changes.
func TestATableIsPutInItsPlace(t *testing.T) {
	const page = "# A\n<!-- hot1 -->\nold\n<!-- /hot1 -->\n<!-- hot2 -->\nother\n<!-- /hot2 -->\nend\n"
	got, err := put([]byte(page), "hot1", []byte("\n**hot1**\n| a |\n"))
	if want := "# A\n<!-- hot1 -->\n\n**hot1**\n| a |\n\n<!-- /hot1 -->\n<!-- hot2 -->\nother\n<!-- /hot2 -->\nend\n"; err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	if got, err := put([]byte(page), "idle", []byte("x")); err != nil || string(got) != page {
		t.Errorf("a page without the part became %v\n%s", err, got)
	}
	if _, err := put([]byte("<!-- hot1 -->\n"), "hot1", nil); err == nil {
		t.Error("a place without an end is one")
	}
}

// TestMeasurementsAreBenchmarksOfGo, in the unit of those, round by round.
func TestMeasurementsAreBenchmarksOfGo(t *testing.T) {
	p := part{name: "redis-allowed", unit: "µs", rows: []row{{name: "a"}, {name: "b"}}, times: map[string][]float64{"a": {1, 2.5}, "b": {3, 4}}}
	want := "BenchmarkRedis-allowed/limiter=a 1 1000 ns/op\nBenchmarkRedis-allowed/limiter=b 1 3000 ns/op\n" +
		"BenchmarkRedis-allowed/limiter=a 1 2500 ns/op\nBenchmarkRedis-allowed/limiter=b 1 4000 ns/op\n"
	if got := string(p.lines()); got != want {
		t.Errorf("got\n%s", got)
	}
}
