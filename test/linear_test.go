package test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// A call is what one goroutine asked for, and its outcome what it was told.
type call struct {
	verb string // take, peek, refund, reset or advance
	cost int64
	at   int64 // of a refund, the time recorded; of an advance, the step
}

type outcome struct {
	allowed   bool
	now       int64
	remaining [2]int64
}

// A model is the sequential store, in the plainest form: two logs of one key, and the clock.
type model struct {
	now  int64
	logs [2][]entry
}

type entry struct{ at, units int64 }

var (
	modelSpans  = [2]int64{5, 12}
	modelQuotas = [2]int64{4, 7}
)

func (m model) used(i int) (units int64) {
	for _, e := range m.logs[i] {
		if m.now-e.at < modelSpans[i] {
			units += e.units
		}
	}
	return units
}

func (m model) remaining() (left [2]int64) {
	for i := range left {
		left[i] = modelQuotas[i] - m.used(i)
	}
	return left
}

// step returns the model after a call, and what the caller should have been told.
func (m model) step(c call) (model, outcome) {
	for i := range m.logs {
		m.logs[i] = slices.Clone(m.logs[i])
	}
	fits := m.used(0)+c.cost <= modelQuotas[0] && m.used(1)+c.cost <= modelQuotas[1]
	switch c.verb {
	case "advance":
		m.now += c.at
		return m, outcome{}
	case "reset":
		m.logs = [2][]entry{}
		return m, outcome{}
	case "refund":
		for i := range m.logs {
			cost := c.cost
			for j := range m.logs[i] {
				if e := &m.logs[i][j]; e.at == c.at && m.now-e.at < modelSpans[i] {
					gone := min(cost, e.units)
					e.units -= gone
					cost -= gone
				}
			}
		}
		return m, outcome{}
	case "take":
		for i := range m.logs {
			if fits {
				m.logs[i] = append(m.logs[i], entry{m.now, c.cost})
			}
		}
	}
	return m, outcome{fits, m.now, m.remaining()}
}

var linearizable = porcupine.Model{
	Init: func() any { return model{} },
	Step: func(state, input, output any) (bool, any) {
		next, want := state.(model).step(input.(call))
		return output.(outcome) == want, next
	},
	Equal:             func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// TestDecisionsAreLinearizable: what concurrent callers of one key are told, while the clock moves
// under them, is what they would have been told one after another in some order that keeps to the
// order of real time.
func TestDecisionsAreLinearizable(t *testing.T) {
	overlaps := 0
	for seed := range uint64(200) {
		history := concurrently(t, seed)
		overlaps += overlapping(history)
		if result := porcupine.CheckOperationsTimeout(linearizable, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("seed %d: %s: no order of these explains the answers:\n%s", seed, result, describe(history))
		}
	}
	t.Logf("%d pairs of calls overlapped", overlaps)
	if overlaps < 1000 {
		t.Errorf("only %d pairs of calls overlapped: the law shows little", overlaps)
	}
}

// overlapping counts the pairs of calls that were under way at the same time.
func overlapping(history []porcupine.Operation) (pairs int) {
	for i, a := range history {
		for _, b := range history[:i] {
			if a.Call < b.Return && b.Call < a.Return {
				pairs++
			}
		}
	}
	return pairs
}

// TestTheCheckOfLinearizabilityCanFail: an answer that no order explains is found.
func TestTheCheckOfLinearizabilityCanFail(t *testing.T) {
	history := concurrently(t, 1)
	for i := range history {
		if o := history[i].Output.(outcome); o.allowed {
			o.remaining[0]++
			history[i].Output = o
			break
		}
	}
	if porcupine.CheckOperations(linearizable, history) {
		t.Error("a false answer passed")
	}
}

// concurrently runs four goroutines on one key and returns what each was told, and when.
func concurrently(t *testing.T, seed uint64) []porcupine.Operation {
	t.Helper()
	var limits []slidegate.Limit
	for i := range modelSpans {
		limits = append(limits, slidegate.Per(time.Duration(modelSpans[i])*time.Millisecond, modelQuotas[i]))
	}
	clock := gatetest.NewClock(time.UnixMilli(0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(func() time.Time {
		runtime.Gosched() // in the middle of a decision: others ask meanwhile
		return clock.Now()
	})), limits...)
	var ticks atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for client := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			var receipts []slidegate.Decision
			<-begin
			for range 12 {
				op := porcupine.Operation{ClientId: client}
				c := call{verb: []string{"take", "take", "take", "peek", "refund", "advance", "reset"}[rng.IntN(7)], cost: 1 + rng.Int64N(3)}
				if c.verb == "reset" && rng.IntN(3) > 0 || c.verb == "refund" && len(receipts) == 0 {
					c.verb = "take"
				}
				op.Call = ticks.Add(1)
				op.Output, receipts = perform(t, l, clock, &c, receipts, rng)
				op.Return = ticks.Add(1)
				op.Input = c
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	close(begin)
	wg.Wait()
	return history
}

func perform(t *testing.T, l *slidegate.Limiter, clock *gatetest.Clock, c *call, receipts []slidegate.Decision, rng *rand.Rand) (outcome, []slidegate.Decision) {
	var d slidegate.Decision
	var err error
	switch c.verb {
	case "advance":
		c.at = rng.Int64N(4)
		clock.Advance(time.Duration(c.at) * time.Millisecond)
		return outcome{}, receipts
	case "reset":
		err = l.Reset(background, "a")
	case "refund":
		last := receipts[len(receipts)-1]
		c.cost, c.at = last.Cost, last.At().UnixMilli()
		err = l.Refund(background, &last)
		receipts = receipts[:len(receipts)-1]
	case "take":
		if d, err = l.TakeN(background, "a", c.cost); d.Allowed {
			receipts = append(receipts, d)
		}
	case "peek":
		d, err = l.PeekN(background, "a", c.cost)
	}
	if err != nil {
		t.Error(err)
	}
	o := outcome{}
	if d.Len() == 2 {
		o = outcome{d.Allowed, d.At().UnixMilli(), [2]int64{d.State(0).Remaining, d.State(1).Remaining}}
	}
	return o, receipts
}

func describe(history []porcupine.Operation) (s string) {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range history {
		s += fmt.Sprintf("%d-%d client %d: %+v: %+v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
	}
	return s
}
