package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/memstore"
)

// A player decides events on a virtual clock, and tells what came of them in their order.
type player interface {
	// play decides an event, or keeps it to decide it with others.
	play(e *timeline.Event) error

	// flush decides what was kept.
	flush() error

	// end comes after the last event. It is an error if verdicts may be wrong.
	end() error

	// timeMayRunBack comes before the first event where they are in no order.
	timeMayRunBack()
}

// An outcome is told what came of an event, which it must not keep. A cost that can never fit is no
// failure: fits tells, and there is no decision.
type outcome func(e *timeline.Event, d *slidegate.Decision, fits bool) error

// A decider decides events over limits. Its store reads the clock that stands at the time of the event.
type decider struct {
	limiter *slidegate.Limiter
	now     int64 // milliseconds since the Unix epoch
}

func (d *decider) clock() time.Time { return time.UnixMilli(d.now) }

func (d *decider) decide(ctx context.Context, e *timeline.Event, key string) (decision slidegate.Decision, fits bool, err error) {
	d.now = e.Time
	switch e.Op {
	case accesslog.Take:
		decision, err = d.limiter.TakeN(ctx, key, e.Cost)
	case accesslog.Peek:
		decision, err = d.limiter.PeekN(ctx, key, e.Cost)
	case accesslog.Reset:
		err = d.limiter.Reset(ctx, key)
	}
	if err == nil {
		return decision, true, nil
	}
	return decision, false, unlessCost(err)
}

func unlessCost(err error) error {
	var cost *slidegate.CostError
	if errors.As(err, &cost) {
		return nil
	}
	return err
}

const (
	// manyKeys is the cap on keys where their number is not known beforehand: the most that the
	// memory store can be told.
	manyKeys = 1 << 30

	// sweepEvery is how many events pass between two sweeps of the store, at least.
	sweepEvery = 1 << 16
)

// A memoryPlayer decides one event after the other in memory.
type memoryPlayer struct {
	decider
	ctx      context.Context
	store    *memstore.Store
	keys     *timeline.Subjects
	tell     outcome
	played   int64
	sweepAt  int64              // played events
	decision slidegate.Decision // here so that no event allocates one
}

func newMemoryPlayer(ctx context.Context, limits []slidegate.Limit, k *timeline.Subjects, maxKeys int, tell outcome) (*memoryPlayer, error) {
	p := &memoryPlayer{ctx: ctx, keys: k, tell: tell, sweepAt: sweepEvery}
	p.store = memstore.New(memstore.WithClock(p.clock), memstore.WithMaxKeys(maxKeys))
	var err error
	p.limiter, err = slidegate.New(p.store, limits...)
	return p, err
}

// timeMayRunBack ends the sweeps: a key that is idle now may not have been idle then, and what a
// limit still holds is part of the answer.
func (p *memoryPlayer) timeMayRunBack() { p.sweepAt = math.MaxInt64 }

func (p *memoryPlayer) play(e *timeline.Event) (err error) {
	if p.played++; p.played >= p.sweepAt {
		// A sweep looks at every key held, so it waits for as many events.
		p.now = e.Time
		p.store.Sweep()
		p.sweepAt = p.played + max(sweepEvery, int64(p.store.Len()))
	}
	var fits bool
	if p.decision, fits, err = p.decide(p.ctx, e, p.keys.Name(e.Subject)); err != nil {
		return err
	}
	return p.tell(e, &p.decision, fits)
}

func (p *memoryPlayer) flush() error { return nil }

// end is an error if the store had to forget a key that still counted, which would make verdicts wrong.
func (p *memoryPlayer) end() error {
	if n := p.store.Stats().Evicted; n > 0 {
		return fmt.Errorf("there are more keys than the memory store can hold: %d that still counted were forgotten, and what was admitted since is too much", n)
	}
	return nil
}
