package linear

import (
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestDecisionsInMemory are linearizable, while the clock moves in the middle of them.
func TestDecisionsInMemory(t *testing.T) {
	var seen census
	for seed := range uint64(200) {
		history := inMemory(t, seed)
		seen.add(history)
		mustBeLinearizable(t, history)
	}
	seen.mustShowSomething(t)
}

// inMemory returns a history of the memory store.
func inMemory(t *testing.T, seed uint64) []operation {
	t.Helper()
	var ms, ticks atomic.Int64
	l := slidegate.MustNew(memstore.New(memstore.WithClock(func() time.Time {
		runtime.Gosched() // in the middle of a decision: others ask meanwhile
		return time.UnixMilli(ms.Add(1))
	})), limits()...)
	c := crowd{callers: 6, calls: 20, keys: 2, seed: seed, name: strconv.FormatUint(seed, 10)}
	history, err := c.ask(l, func() int64 { return ticks.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	return history
}

// TestAFalseAnswerIsFound: one number of one answer is wrong, and no order explains it.
func TestAFalseAnswerIsFound(t *testing.T) {
	for name, forge := range map[string]func(*output){
		"remaining": func(o *output) { o.Limits[0].Remaining++ },
		"reset":     func(o *output) { o.Limits[1].Reset-- },
		"retry":     func(o *output) { o.Limits[0].Retry++ },
		"verdict":   func(o *output) { o.Allowed = !o.Allowed },
		"clock":     func(o *output) { o.Now -= 10_000 },
	} {
		history := inMemory(t, 1)
		for i := range history {
			if op := &history[i]; op.In.Verb == "take" && op.Out.Allowed {
				forge(&op.Out)
				break
			}
		}
		if verdict(history) != porcupine.Illegal {
			t.Errorf("%s: a false answer passed", name)
		}
	}
}
