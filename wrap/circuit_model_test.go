package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/wrap"
)

// A model is a circuit that opens after three failures, one event after another.
type model struct {
	learnt int   // events that taught something
	row    int   // failures
	open   bool  // and cause is why
	asked  int64 // in milliseconds: when it opened, or was last probed
	cause  error
	stats  wrap.CircuitStats
}

// A pending call is one that was let through and has not ended.
type pending struct {
	learnt int // by the model, when it began
	end    chan<- ending
	done   <-chan error
	cancel func()
}

// An ending is what the store makes of a call.
type ending struct {
	err   error
	panic bool
}

func (m *model) begins(now int64) (through bool) {
	if !m.open {
		return true
	}
	if now-m.asked < 1000 && now >= m.asked {
		m.stats.Refused++
		return false
	}
	m.asked = now
	m.learnt++
	m.stats.Probes++
	return true
}

func (m *model) succeeds() {
	if m.row > 0 {
		m.open, m.row = false, 0
		m.learnt++
	}
}

func (m *model) fails(call *pending, now int64, err error) {
	if call.learnt != m.learnt {
		return
	}
	m.learnt++
	if m.open {
		m.cause = err
	} else if m.row++; m.row == 3 {
		m.open, m.cause, m.asked = true, err, now
		m.stats.Opened++
	}
}

func (m *model) givenUp(call *pending) {
	if call.learnt == m.learnt && m.open {
		m.asked -= 1000
		m.learnt++
	}
}

// A world is a circuit and its model, and the calls that are under way.
type world struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	model   model
	clock   *gatetest.Clock
	circuit *wrap.CircuitStore
	plan    slidegate.Plan
	entered chan chan ending
	calls   []*pending
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 14)), clock: gatetest.NewClock(start), entered: make(chan chan ending)}
	store := new(scripted)
	store.set(func(context.Context) error {
		end := make(chan ending)
		w.entered <- end
		e := <-end
		if e.panic {
			panic("broken")
		}
		return e.err
	})
	w.circuit = wrap.Circuit(store, wrap.WithClock(w.clock.Now), wrap.WithFailures(3))
	w.plan = bind(t, w.circuit)
	return w
}

// begin starts a call and waits until it is with the store or has been answered.
func (w *world) begin() {
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if recover() != nil {
				done <- nil
			}
		}()
		_, err := w.plan.Take(ctx, "a", 1)
		done <- err
	}()
	through := w.model.begins(w.clock.Now().UnixMilli())
	select {
	case end := <-w.entered:
		if !through {
			w.t.Fatalf("seed %d: a call is let through, want it refused", w.seed)
		}
		w.calls = append(w.calls, &pending{w.model.learnt, end, done, cancel})
	case err := <-done:
		cancel()
		if through || !errors.Is(err, wrap.ErrOpen) || !errors.Is(err, w.model.cause) {
			w.t.Fatalf("seed %d: a call is answered with %v, want it let through: %v, or %v", w.seed, err, through, w.model.cause)
		}
	}
}

// end ends one of the calls that are under way.
func (w *world) end() {
	if len(w.calls) == 0 {
		return
	}
	i := w.random.IntN(len(w.calls))
	call := w.calls[i]
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
	defer call.cancel()
	var e ending
	switch w.random.IntN(12) {
	case 0, 1, 2:
		w.model.succeeds()
	case 3:
		e.panic = true
	case 4:
		e.err = context.Canceled
		w.model.givenUp(call)
	case 5:
		call.cancel()
		e.err = errDown
		w.model.givenUp(call)
	default:
		e.err = fmt.Errorf("%w: failure %d", slidegate.ErrUnavailable, w.random.Int())
		w.model.fails(call, w.clock.Now().UnixMilli(), e.err)
	}
	call.end <- e
	if err := <-call.done; err != e.err {
		w.t.Fatalf("seed %d: a call that was let through gets %v, want %v", w.seed, err, e.err)
	}
}

func (w *world) check(step int) {
	if open := w.circuit.State() == wrap.Open; open != w.model.open || w.circuit.Stats() != w.model.stats {
		w.t.Fatalf("seed %d, step %d: open is %v with %+v, want %v with %+v", w.seed, step, open, w.circuit.Stats(), w.model.open, w.model.stats)
	}
}

// TestAgreesWithTheModel over random traffic of overlapping calls, always the same for a seed.
func TestAgreesWithTheModel(t *testing.T) {
	var total wrap.CircuitStats
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		atATime := 1 + w.random.IntN(6)
		for step := range 500 {
			switch move := w.random.IntN(20); {
			case move < 3:
				w.clock.Advance(time.Duration(w.random.IntN(700)) * time.Millisecond)
			case move == 3 && w.random.IntN(20) == 0:
				w.clock.Advance(-time.Minute)
			case len(w.calls) < atATime && move < 12:
				w.begin()
			default:
				w.end()
			}
			w.check(step)
		}
		for len(w.calls) > 0 {
			w.end()
		}
		w.check(500)
		total.Opened += w.model.stats.Opened
		total.Refused += w.model.stats.Refused
		total.Probes += w.model.stats.Probes
	}
	if total.Opened < 1000 || total.Refused < 1000 || total.Probes < 1000 {
		t.Errorf("the traffic shows little: %+v", total)
	}
}
