package wrap_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// A joint store is a scripted one that decides over several keys.
type joint struct{ scripted }

func (s *joint) BindJoint([][]slidegate.Limit) (slidegate.JointPlan, error) {
	return jointPlan{&s.scripted}, nil
}

type jointPlan struct{ s *scripted }

func (p jointPlan) Joint(keys []string) bool { return keys[0] == keys[1] }

func (p jointPlan) Take(ctx context.Context, _ []string, _ int64) (slidegate.Answer, error) {
	return slidegate.Answer{Allowed: true, Now: 7}, p.s.call(ctx)
}

func (p jointPlan) Peek(ctx context.Context, _ []string, _ int64) (slidegate.Answer, error) {
	return slidegate.Answer{Allowed: true, Now: 8}, p.s.call(ctx)
}

func (p jointPlan) Refund(ctx context.Context, _ []string, _ slidegate.Answer, _ int64) error {
	return p.s.call(ctx)
}

// pair returns a group of two limiters over a store.
func pair(store slidegate.Store) *slidegate.Group {
	return slidegate.MustNewGroup(
		slidegate.MustNew(store, slidegate.PerMinute(1000).Named("a")),
		slidegate.MustNew(store, slidegate.PerMinute(1000).Named("b")),
	)
}

// TestACircuitIsAsJointAsItsStore, for the same keys; a store that is not is asked one key after another.
func TestACircuitIsAsJointAsItsStore(t *testing.T) {
	for name, c := range map[string]struct {
		store       slidegate.Store
		same, other bool // decided in one act
	}{
		"memory":        {memstore.New(), true, true},
		"scripted":      {new(joint), true, false},
		"of one key":    {new(scripted), false, false},
		"circuit of it": {wrap.Circuit(new(scripted)), false, false},
	} {
		g := pair(wrap.Circuit(c.store))
		if same, other := g.Atomic("x", "x"), g.Atomic("x", "y"); same != c.same || other != c.other {
			t.Errorf("%s: Atomic says %v and %v, want %v and %v", name, same, other, c.same, c.other)
		}
		if d, err := g.Take(background, "x", "x"); err != nil || !d.Allowed {
			t.Errorf("%s: %s, %v", name, d, err)
		}
	}
	if _, err := slidegate.NewGroup(limitersOver(wrap.Circuit(new(unbindable)))...); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a store that cannot bind several keys: %v", err)
	}
}

// An unbindable store fails to bind several keys, and not because it cannot.
type unbindable struct{ joint }

func (*unbindable) BindJoint([][]slidegate.Limit) (slidegate.JointPlan, error) {
	return nil, slidegate.ErrInvalidLimit
}

func limitersOver(store slidegate.Store) []*slidegate.Limiter {
	return []*slidegate.Limiter{
		slidegate.MustNew(store, slidegate.PerMinute(1).Named("a")),
		slidegate.MustNew(store, slidegate.PerMinute(1).Named("b")),
	}
}

// TestDecisionsOverSeveralKeysAreEvidence: they open the circuit, are answered by it, probe it and close it.
func TestDecisionsOverSeveralKeysAreEvidence(t *testing.T) {
	store, clock := new(joint), gatetest.NewClock(start)
	circuit := wrap.Circuit(store, wrap.WithClock(clock.Now), wrap.WithFailures(3))
	g := pair(circuit)
	d, err := g.Take(background, "x", "x")
	if err != nil {
		t.Fatal(err)
	}
	ask := map[string]func() error{
		"take":   func() error { _, err := g.Take(background, "x", "x"); return err },
		"peek":   func() error { _, err := g.Peek(background, "x", "x"); return err },
		"refund": func() error { again := d; return g.Refund(background, &again) },
	}
	store.fail(errDown)
	for verb, f := range ask {
		if err := f(); !errors.Is(err, errDown) || errors.Is(err, wrap.ErrOpen) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if circuit.State() != wrap.Open {
		t.Fatalf("the circuit is %s after three failures", circuit.State())
	}
	for verb, f := range ask {
		asked := store.asked()
		if err := f(); !errors.Is(err, wrap.ErrOpen) || !errors.Is(err, slidegate.ErrUnavailable) || store.asked() != asked {
			t.Errorf("%s of an open circuit: %v, %d calls", verb, err, store.asked()-asked)
		}
	}
	store.set(nil)
	clock.Advance(time.Second)
	if err := ask["refund"](); err != nil || circuit.State() != wrap.Closed {
		t.Errorf("a probe: %v, the circuit is %s", err, circuit.State())
	}
}
