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
