package httpgate

import (
	"context"
	"errors"
	"sync"

	"github.com/slidegate/slidegate"
)

// Settling lets handlers say with [Settle] what a request has cost, once they know; by default it
// costs what [Cost] said. Of several gates in a row the nearest with this option settles.
func Settling() Option { return func(g *Gate) { g.settles = true } }

// ErrNothingToSettle is returned by [Settle] where no charge can be changed: no gate with [Settling] is
// around the handler, or it skipped the request or could not decide it, or [RefundIf] has given the
// charge back.
var ErrNothingToSettle = errors.New("httpgate: nothing to settle: no gate with the option Settling has charged this request")

// Settle makes the charge of the request whose context it is what the request has cost in all: it gives
// back what was charged too much, at the time it was charged, or charges what is missing, as far as
// there is room. It returns the units for which there was none: they are not charged, then or later,
// since no window ever holds more than the quota, and the key is at its limit. So charge with [Cost] what a request may
// well take, and settle what it took.
//
// It may be called again as more becomes known, with the whole cost each time, also by several
// goroutines; each rise is one more receipt to keep until the request is done. It is settled also
// where ctx has ended, for the work was done; that takes a second at most. The fields of the answer
// are those of before.
//
// The error is [ErrNothingToSettle], a [*slidegate.CostError] for a negative cost, or that of a store which
// could not be asked: it wraps [slidegate.ErrUnavailable], or is context.DeadlineExceeded after that second.
// Then it is not known what was charged, and nothing is tried again.
func Settle(ctx context.Context, cost int64) (unpaid int64, err error) {
	a, _ := ctx.Value(accountKey{}).(*account)
	if a == nil {
		return 0, ErrNothingToSettle
	}
	if cost < 0 {
		return 0, &slidegate.CostError{Cost: cost}
	}
	return a.settle(ctx, cost)
}

// An account is the passage of a request whose charge may change after the verdict.
type account struct {
	passage
	gate     *Gate
	response response

	mu     sync.Mutex
	rises  []slidegate.Decision // what was charged on top, oldest first
	risen  int64                // the units that they hold
	closed bool                 // all is given back for good
}

type accountKey struct{}

// Value implements context.Context.
func (a *account) Value(key any) any {
	if key == (accountKey{}) && a.gate.settles {
		return a
	}
	return a.passage.Value(key)
}

// held returns the units that are charged.
func (a *account) held() int64 { return a.decision.Held() + a.risen }

func (a *account) settle(ctx context.Context, cost int64) (unpaid int64, err error) {
	ctx, cancel := afterwards(ctx) // from here on, or those who settle together would wait a second each, in a row
	defer cancel()
	a.mu.Lock() // of one request: nobody else waits
	defer a.mu.Unlock()
	if a.closed {
		return 0, ErrNothingToSettle
	}
	if !a.decision.Allowed || a.decision.Len() == 0 {
		return 0, nil // refused in shadow mode, or not limited
	}
	if held := a.held(); cost > held {
		unpaid, err = a.charge(ctx, cost-held)
	} else {
		err = a.giveBack(ctx, held-cost)
	}
	if err != nil {
		a.gate.unsettled(a.decision.Key(), err)
	}
	return unpaid, err
}

// charge charges more, as far as there is room, and returns what there was none for.
func (a *account) charge(ctx context.Context, more int64) (unpaid int64, err error) {
	d, err := a.gate.takeUpTo(ctx, &a.passage, more)
	if err != nil {
		return 0, err
	}
	if d.Charged() {
		a.rises = append(a.rises, d)
		a.risen += d.Held()
	}
	return more - d.Held(), nil
}

// giveBack gives back units, those that were charged last first. Of several failures, which are likely
// one, it returns the first.
func (a *account) giveBack(ctx context.Context, n int64) (first error) {
	for n > 0 && len(a.rises) > 0 {
		last := &a.rises[len(a.rises)-1]
		part := min(n, last.Held())
		n, a.risen = n-part, a.risen-part
		if err := a.limiter.RefundN(ctx, last, part); first == nil {
			first = err
		}
		if !last.Charged() {
			a.rises = a.rises[:len(a.rises)-1]
		}
	}
	if err := a.limiter.RefundN(ctx, &a.decision, n); first == nil {
		first = err
	}
	return first
}
