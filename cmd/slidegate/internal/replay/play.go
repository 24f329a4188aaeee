package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

const (
	// manyKeys is the cap on keys where their number is not known beforehand: the most that the
	// memory store can be told.
	manyKeys = 1 << 30

	// sweepEvery is how many events pass between two sweeps of the store, at least.
	sweepEvery = 1 << 16
)

// A player decides events on a virtual clock, which stands at the time of the event.
type player struct {
	ctx     context.Context
	limiter *slidegate.Limiter
	store   *memstore.Store
	keys    *keys
	now     int64
	played  int64
	sweepAt int64 // played events
}

func newPlayer(ctx context.Context, limits []slidegate.Limit, k *keys, maxKeys int) (*player, error) {
	p := &player{ctx: ctx, keys: k, sweepAt: sweepEvery}
	p.store = memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(p.now) }), memstore.WithMaxKeys(maxKeys))
	var err error
	p.limiter, err = slidegate.New(p.store, limits...)
	return p, err
}

// keepAll ends the sweeps. Where time may run back, a key that is idle now may not have been idle
// then, and what a limit still holds is part of the answer.
func (p *player) keepAll() { p.sweepAt = math.MaxInt64 }

// play decides an event. A cost that can never fit is no failure: fits tells.
func (p *player) play(e *event) (d slidegate.Decision, fits bool, err error) {
	p.now = e.t
	if p.played++; p.played >= p.sweepAt {
		// A sweep looks at every key held, so it waits for as many events.
		p.store.Sweep()
		p.sweepAt = p.played + max(sweepEvery, int64(p.store.Len()))
	}
	key := p.keys.names[e.key]
	switch e.op {
	case take:
		d, err = p.limiter.TakeN(p.ctx, key, e.cost)
	case peek:
		d, err = p.limiter.PeekN(p.ctx, key, e.cost)
	case reset:
		err = p.limiter.Reset(p.ctx, key)
	}
	if err != nil {
		return d, false, unlessCost(err)
	}
	return d, true, nil
}

func unlessCost(err error) error {
	var cost *slidegate.CostError
	if errors.As(err, &cost) {
		return nil
	}
	return err
}

// forgot is an error if the store had to forget a key that still counted, which would make
// verdicts wrong.
func (p *player) forgot() error {
	if n := p.store.Stats().Evicted; n > 0 {
		return fmt.Errorf("there are more keys than the memory store can hold: %d that still counted were forgotten, and what was admitted since is too much", n)
	}
	return nil
}
