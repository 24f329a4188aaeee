package worst

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/memstore"
)

// A model decides for one key, on a clock that is told to it and never runs back between two resets.
// Times and waits are in milliseconds.
type model interface {
	// look returns how many units there is room for, and how long until n units fit if nothing is
	// charged meanwhile, 0 if they do. It changes nothing.
	look(at, n int64) (room, wait int64)

	// charge charges units for which there is room.
	charge(at, units int64)

	// reset forgets everything.
	reset()
}

// A store is a limiter over the memory store: the arithmetic that serves requests.
type store struct {
	limiter *slidegate.Limiter
	memory  *memstore.Store
	now     int64
	err     error // the first that should not have been
}

const key = "worst"

func newStore(limits []slidegate.Limit) (*store, error) {
	s := &store{}
	s.memory = memstore.New(memstore.WithMaxKeys(1), memstore.WithClock(func() time.Time { return time.UnixMilli(s.now) }))
	var err error
	s.limiter, err = slidegate.New(s.memory, limits...)
	return s, err
}

func (s *store) look(at, n int64) (room, wait int64) {
	s.now = at
	d, err := s.limiter.PeekN(context.Background(), key, n)
	s.err = cmp.Or(s.err, err)
	return d.Remaining(), d.RetryAfter().Milliseconds()
}

func (s *store) charge(at, units int64) {
	s.now = at
	d, err := s.limiter.TakeN(context.Background(), key, units)
	if err == nil && !d.Allowed {
		err = fmt.Errorf("%d units that had room at %d ms were refused", units, at)
	}
	s.err = cmp.Or(s.err, err)
}

func (s *store) reset() { s.err = cmp.Or(s.err, s.limiter.Reset(context.Background(), key)) }

// A fixed is a fixed window: one count, which begins anew at every multiple of the window.
type fixed struct {
	quota, window int64
	count         rehearse.Window
}

func (f *fixed) look(at, n int64) (room, wait int64) {
	f.count.Roll(at, f.window)
	if room = f.quota - f.count.Used; room < n {
		wait = f.count.Start + f.window - at
	}
	return room, wait
}

func (f *fixed) charge(at, units int64) {
	f.count.Roll(at, f.window)
	f.count.Used += units
}

func (f *fixed) reset() { f.count = rehearse.Window{} }

// A gcra is the generic cell rate algorithm (ITU-T I.371) with a burst of the whole quota: what is
// spent comes back evenly, a quota in each window. It is kept as a debt of whole units and a
// fraction of one, in parts of a window, so that nothing is rounded.
type gcra struct {
	quota, window int64
	at            int64 // when the debt was as it is
	debt, parts   int64 // parts < window
}

// pay returns the debt at a time.
func (g *gcra) pay(at int64) (debt, parts int64) {
	if at-g.at >= g.window {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(at-g.at), uint64(g.quota))
	units, rest := bits.Div64(hi, lo, uint64(g.window))
	debt, parts = g.debt-int64(units), g.parts-int64(rest)
	if parts < 0 {
		debt, parts = debt-1, parts+g.window
	}
	if debt < 0 {
		return 0, 0
	}
	return debt, parts
}

func (g *gcra) look(at, n int64) (room, wait int64) {
	debt, parts := g.pay(at)
	room = g.quota - debt
	if parts > 0 {
		room--
	}
	if room >= n {
		return room, 0
	}
	// What is too much has to be paid first: debt + n - quota units and the parts, rounded up.
	hi, lo := bits.Mul64(uint64(debt+n-g.quota), uint64(g.window))
	lo, carry := bits.Add64(lo, uint64(parts), 0)
	lo, more := bits.Add64(lo, uint64(g.quota-1), 0)
	units, _ := bits.Div64(hi+carry+more, lo, uint64(g.quota))
	return room, int64(units)
}

func (g *gcra) charge(at, units int64) {
	g.debt, g.parts = g.pay(at)
	g.debt, g.at = g.debt+units, at
}

func (g *gcra) reset() { g.at, g.debt, g.parts = 0, 0, 0 }
