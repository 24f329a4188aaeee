package rehearse

import (
	"context"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/window"
)

// A Window is a fixed window: one count, which begins anew at every multiple of the window.
type Window struct{ Start, Used int64 }

// Roll begins anew where a later window has begun. Times and the span of a window are in milliseconds.
func (w *Window) Roll(at, span int64) {
	if start := window.Floor(at, span); start > w.Start || w.Used == 0 {
		w.Start, w.Used = start, 0
	}
}

// A fixedStore counts every limit in fixed windows, as many limiters do. Its limits have to be logs, so that its answers
// are read as it means them: what was admitted in a window leaves at its end.
type fixedStore struct {
	clock  func() time.Time
	mu     sync.Mutex
	counts map[counted]*Window
}

// A counted is what a count belongs to.
type counted struct {
	key, name string
	window    time.Duration
}

func newFixedStore(clock func() time.Time) *fixedStore {
	return &fixedStore{clock: clock, counts: map[counted]*Window{}}
}

// Bind implements [slidegate.Store].
func (s *fixedStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	return &fixedPlan{s, limits}, nil
}

type fixedPlan struct {
	store  *fixedStore
	limits []slidegate.Limit
}

// windows returns the counts of a key as they are now.
func (p *fixedPlan) windows(key string, now int64) (all [slidegate.MaxLimits]*Window) {
	for i, l := range p.limits {
		id := counted{key, l.Name, l.Window}
		if p.store.counts[id] == nil {
			p.store.counts[id] = &Window{}
		}
		all[i] = p.store.counts[id]
		all[i].Roll(now, l.Window.Milliseconds())
	}
	return all
}

func (p *fixedPlan) decide(key string, cost int64, charges bool) (a slidegate.Answer, err error) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	a.Now, a.Allowed = p.store.clock().UnixMilli(), true
	windows := p.windows(key, a.Now)
	for i, l := range p.limits {
		a.Allowed = a.Allowed && (cost == 0 || windows[i].Used+cost <= l.Quota)
	}
	for i, l := range p.limits {
		w := windows[i]
		r := &a.Readings[i]
		if !a.Allowed && w.Used+cost > l.Quota {
			r.Back = w.Start
		}
		if a.Allowed && charges {
			w.Used += cost
		}
		if r.Units = w.Used; r.Units > 0 {
			r.At = w.Start
		}
	}
	return a, nil
}

// Take implements [slidegate.Plan].
func (p *fixedPlan) Take(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.decide(key, cost, true)
}

// Peek implements [slidegate.Plan].
func (p *fixedPlan) Peek(_ context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.decide(key, cost, false)
}

// Refund implements [slidegate.Plan].
func (p *fixedPlan) Refund(_ context.Context, key string, charged slidegate.Answer, cost int64) error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	windows := p.windows(key, p.store.clock().UnixMilli())
	for i := range p.limits {
		if w := windows[i]; w.Start == charged.Readings[i].At {
			w.Used = max(0, w.Used-cost)
		}
	}
	return nil
}

// Reset implements [slidegate.Plan].
func (p *fixedPlan) Reset(_ context.Context, key string) error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	for _, l := range p.limits {
		delete(p.store.counts, counted{key, l.Name, l.Window})
	}
	return nil
}
