package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

var background = context.Background()

// start is where the clocks of these tests begin: no multiple of a common window.
const start = 1_757_750_412_345

// newLimiter returns a limiter over a memory store on a clock that is set by hand.
func newLimiter(t testing.TB, limits ...slidegate.Limit) (*slidegate.Limiter, *gatetest.Clock) {
	t.Helper()
	l, clock, _ := newStore(t, limits...)
	return l, clock
}

func newStore(t testing.TB, limits ...slidegate.Limit) (*slidegate.Limiter, *gatetest.Clock, *memstore.Store) {
	t.Helper()
	clock := gatetest.NewClock(time.UnixMilli(0))
	store := memstore.New(memstore.WithClock(clock.Now))
	l, err := slidegate.New(store, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return l, clock, store
}

// Twins are the memory store and the oracle on one clock: whatever is asked of both, they must
// answer alike.
type twins struct {
	clock    *gatetest.Clock
	store    *memstore.Store
	mine     []*slidegate.Limiter // plans over the memory store
	theirs   []*slidegate.Limiter // the same plans over the oracle
	receipts [][2]slidegate.Decision
	swept    int64 // the clock at the latest sweep: what went then does not come back
}

func newTwins(plans ...[]slidegate.Limit) (*twins, error) {
	w := &twins{clock: gatetest.NewClock(time.UnixMilli(start)), swept: -1 << 50}
	w.store = memstore.New(memstore.WithClock(w.clock.Now))
	oracle := gatetest.NewOracle(w.clock)
	for _, limits := range plans {
		a, err := slidegate.New(w.store, limits...)
		if err != nil {
			return nil, err
		}
		b, err := slidegate.New(oracle, limits...)
		if err != nil {
			return nil, err
		}
		w.mine, w.theirs = append(w.mine, a), append(w.theirs, b)
	}
	return w, nil
}

func (w *twins) take(plan int, key string, cost int64) error {
	a, errA := w.mine[plan].TakeN(background, key, cost)
	b, errB := w.theirs[plan].TakeN(background, key, cost)
	w.receipts = append(w.receipts, [2]slidegate.Decision{a, b})
	return alike("take", a, b, errA, errB)
}

func (w *twins) peek(plan int, key string, cost int64) error {
	a, errA := w.mine[plan].PeekN(background, key, cost)
	b, errB := w.theirs[plan].PeekN(background, key, cost)
	return alike("peek", a, b, errA, errB)
}

// allow asks the memory store the quick way and the oracle the usual one.
func (w *twins) allow(plan int, key string) error {
	a, errA := w.mine[plan].Allow(background, key)
	b, errB := w.theirs[plan].Take(background, key)
	if a != b.Allowed || fmt.Sprint(errA) != fmt.Sprint(errB) {
		return fmt.Errorf("allow says %v, %v; the oracle %v, %v", a, errA, b.Allowed, errB)
	}
	return nil
}

// refund gives the i-th receipt back, a copy of it every time: no receipt may give twice what it
// could give once to a key that was reset in between.
func (w *twins) refund(plan, i int) error {
	if len(w.receipts) == 0 {
		return nil
	}
	r := w.receipts[i%len(w.receipts)]
	errA := w.mine[plan].Refund(background, &r[0])
	errB := w.theirs[plan].Refund(background, &r[1])
	if errA != nil || errB != nil {
		return fmt.Errorf("refund: %v, the oracle %v", errA, errB)
	}
	return nil
}

func (w *twins) reset(plan int, key string) error {
	errA, errB := w.mine[plan].Reset(background, key), w.theirs[plan].Reset(background, key)
	if errA != nil || errB != nil {
		return fmt.Errorf("reset: %v, the oracle %v", errA, errB)
	}
	return nil
}

// advance moves the clock, back too, but not to before the latest sweep.
func (w *twins) advance(ms int64) {
	w.clock.SetMilli(max(w.swept, min(1<<45, w.clock.Now().UnixMilli()+ms)))
}

func (w *twins) sweep() {
	w.store.Sweep()
	w.swept = w.clock.Now().UnixMilli()
}

func alike(verb string, a, b slidegate.Decision, errA, errB error) error {
	if fmt.Sprint(errA) != fmt.Sprint(errB) {
		return fmt.Errorf("%s: error %v, the oracle %v", verb, errA, errB)
	}
	if a.Allowed != b.Allowed || a.RetryAfter() != b.RetryAfter() || a.BindingIndex() != b.BindingIndex() || a.At() != b.At() || a.Charged() != b.Charged() {
		return fmt.Errorf("%s: %s, charged %v; the oracle: %s, charged %v", verb, a, a.Charged(), b, b.Charged())
	}
	for i := range a.Len() {
		if a.State(i) != b.State(i) {
			return fmt.Errorf("%s: limit %d is %+v, the oracle %+v", verb, i, a.State(i), b.State(i))
		}
	}
	return nil
}
