package linear

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// A seeded store is the real one with a race in front of it.
type seeded struct {
	slidegate.Store
	race func(*parts) slidegate.Plan
}

// Parts are what a race is made of: plans over the same state.
type parts struct {
	slidegate.Plan                  // what is right
	each           []slidegate.Plan // of each limit alone
	ample          slidegate.Plan   // with quotas that never refuse
}

func (s seeded) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	var p parts
	var err error
	if p.Plan, err = s.Store.Bind(limits); err != nil {
		return nil, err
	}
	ample := append([]slidegate.Limit(nil), limits...)
	for i := range limits {
		alone, err := s.Store.Bind(limits[i : i+1])
		if err != nil {
			return nil, err
		}
		p.each = append(p.each, alone)
		ample[i].Quota = slidegate.MaxQuota
	}
	if p.ample, err = s.Store.Bind(ample); err != nil {
		return nil, err
	}
	return s.race(&p), nil
}

// apart reads, decides, and writes, with nothing that keeps others out meanwhile.
type apart struct{ *parts }

func (p apart) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if a, err := p.Peek(ctx, key, cost); err != nil || !a.Allowed {
		return a, err
	}
	return p.ample.Take(ctx, key, cost)
}

// overwriting loses a charge where two are made at once, as who writes back what was read before the other wrote.
type overwriting struct {
	*parts
	writers *atomic.Int64
}

func (p overwriting) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	p.writers.Add(1)
	a, err := p.Plan.Take(ctx, key, cost)
	if p.writers.Add(-1) > 0 && a.Allowed {
		return a, p.Plan.Refund(ctx, key, a, cost)
	}
	return a, err
}

// resending sends each charge twice, as a client does that has not heard of the first.
type resending struct{ *parts }

func (p resending) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if _, err := p.Plan.Take(ctx, key, cost); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Take(ctx, key, cost)
}

// refundingTwice sends each refund twice.
type refundingTwice struct{ *parts }

func (p refundingTwice) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := p.Plan.Refund(ctx, key, charged, cost); err != nil {
		return err
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

// charging charges who is refused.
type charging struct{ *parts }

func (p charging) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	a, err := p.Plan.Take(ctx, key, cost)
	if err == nil && !a.Allowed {
		_, err = p.ample.Take(ctx, key, 1)
	}
	return a, err
}

// inTurn charges one limit after the other, and gives the first back where the second refuses.
type inTurn struct{ *parts }

func (p inTurn) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	first, err := p.each[0].Take(ctx, key, cost)
	if err != nil {
		return first, err
	}
	second, err := p.each[1].Take(ctx, key, cost)
	if err == nil && first.Allowed != second.Allowed {
		if first.Allowed {
			err = p.each[0].Refund(ctx, key, first, cost)
		} else {
			err = p.each[1].Refund(ctx, key, second, cost)
		}
		if err == nil {
			return p.Peek(ctx, key, cost)
		}
	}
	second.Readings[0], second.Readings[1] = first.Readings[0], second.Readings[0]
	return second, err
}

// remembering answers a peek by what the last one found, with the clock of now.
type remembering struct {
	*parts
	last *sync.Map
}

func (p remembering) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	a, err := p.Plan.Peek(ctx, key, cost)
	if err != nil {
		return a, err
	}
	if before, ok := p.last.Swap(fmt.Sprint(key, cost), a); ok {
		now := a.Now
		a = before.(slidegate.Answer)
		a.Now = now
	}
	return a, nil
}

// resettingInTurn resets one limit after the other.
type resettingInTurn struct{ *parts }

func (p resettingInTurn) Reset(ctx context.Context, key string) error {
	for _, alone := range p.each {
		if err := alone.Reset(ctx, key); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

// lateResetting says that it has reset before it has.
type lateResetting struct {
	*parts
	due *sync.Map
}

func (p lateResetting) Reset(_ context.Context, key string) error {
	p.due.Store(key, nil)
	return nil
}

func (p lateResetting) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	a, err := p.Plan.Take(ctx, key, cost)
	if _, due := p.due.LoadAndDelete(key); due && err == nil {
		err = p.Plan.Reset(ctx, key)
	}
	return a, err
}

// TestEveryRaceIsFound by the same judge and in the same histories that a real Redis passes. Some are races and nothing
// else: to one caller alone such a store answers rightly.
func TestEveryRaceIsFound(t *testing.T) {
	server := redistest.Standalone(t)
	for _, c := range []struct {
		name  string
		alone bool // it is right for one caller
		race  func(*parts) slidegate.Plan
	}{
		{"read, check and write apart", true, func(p *parts) slidegate.Plan { return apart{p} }},
		{"a write over another's", true, func(p *parts) slidegate.Plan { return overwriting{p, new(atomic.Int64)} }},
		{"a charge sent twice", false, func(p *parts) slidegate.Plan { return resending{p} }},
		{"a refund sent twice", false, func(p *parts) slidegate.Plan { return refundingTwice{p} }},
		{"a refusal that charges", false, func(p *parts) slidegate.Plan { return charging{p} }},
		{"limits charged in turn", false, func(p *parts) slidegate.Plan { return inTurn{p} }},
		{"a peek that is stale", false, func(p *parts) slidegate.Plan { return remembering{p, new(sync.Map)} }},
		{"limits reset in turn", true, func(p *parts) slidegate.Plan { return resettingInTurn{p} }},
		{"a reset that comes late", false, func(p *parts) slidegate.Plan { return lateResetting{p, new(sync.Map)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := slidegate.MustNew(seeded{storeOn(libraries["rueidis"](t, server.Addr)), c.race}, limits()...)
			if n := found(t, l, 1, 5); n > 0 && c.alone {
				t.Errorf("one caller alone found it in history %d: it is no race", n)
			}
			if found(t, l, 12, 200) == 0 {
				t.Error("no history of 200 shows it")
			}
		})
	}
}

// found returns the number of the first history that no order explains, 0 if there is none.
func found(t *testing.T, l *slidegate.Limiter, callers, histories int) int {
	t.Helper()
	clock := monotonic()
	for n := range histories {
		c := crowd{callers: callers, calls: 30, keys: 2, seed: uint64(n), name: fmt.Sprint(t.Name(), callers, n)}
		history, err := c.ask(l, clock)
		if err != nil {
			t.Fatal(err)
		}
		if verdict(history) == porcupine.Illegal {
			return n + 1
		}
	}
	return 0
}
