package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOutageIsToldOfOnce: one failure in ten seconds keeps it going, however many answers lie between.
func TestOutageIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outage
		for _, step := range []struct {
			after         time.Duration
			fails, report bool
		}{
			{0, false, false}, // an answer without an outage
			{0, true, true},
			{time.Second, true, false},
			{time.Second, false, false},
			{calm - time.Second - 1, false, false},
			{0, true, false}, // it goes on
			{calm - 1, false, false},
			{1, false, true}, // over
			{0, false, false},
			{0, true, true},
		} {
			<-time.After(step.after)
			note := o.recovered
			if step.fails {
				note = o.failed
			}
			if got := note(); got != step.report {
				t.Errorf("%+v: reported %v", step, got)
			}
		}
	})
}
