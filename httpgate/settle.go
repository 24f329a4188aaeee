package httpgate

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
// there is room. Every limit is charged as far as it has room itself: where a minute is full, the day still counts
// all of it. It returns the units for which the fullest limit had none: they are not charged there, then or later,
// since no window ever holds more than the quota, and the key is at that limit. So charge with [Cost] what a request
// may well take, and settle what it took.
//
// It may be called again as more becomes known, with the whole cost each time, also by several
// goroutines; each rise is one more receipt to keep until the request is done. It is settled also
// where ctx has ended, for the work was done; that takes a second at most. The fields of the answer
// are those of before. The store is asked once where all limits have room, else up to twice more and once for each limit.
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
	rises  rises   // what was charged on top, in every limit
	apart  []rises // what was charged in one limit alone, of each
	closed bool    // all is given back for good
}

type accountKey struct{}

// Value implements context.Context.
func (a *account) Value(key any) any {
	if key == (accountKey{}) && a.gate.settles {
		return a
	}
	return a.passage.Value(key)
}

// held returns the units that are charged in every limit.
func (a *account) held() int64 { return a.decision.Held() + a.rises.units }

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
	if unpaid, err = a.adjust(ctx, cost); err != nil {
		a.gate.unsettled(a.decision.Key(), err)
		return 0, err
	}
	return unpaid, nil
}

// adjust charges or gives back until every limit holds cost units, or what it has room for, and returns what the
// fullest had no room for. Of several failures, which are likely one, it returns the first.
func (a *account) adjust(ctx context.Context, cost int64) (unpaid int64, err error) {
	more := cost - a.held()
	if more > 0 && !a.isApart() {
		d, err := a.gate.takeUpTo(ctx, &a.passage, more)
		if err != nil {
			return 0, err
		}
		a.rises.add(d)
		more -= d.Held()
	}
	unpaid, err = a.adjustApart(ctx, max(0, more))
	if more < 0 {
		err = cmp.Or(err, a.giveBack(ctx, -more))
	}
	return unpaid, err
}

// isApart tells whether limits hold different units: then each is charged by itself.
func (a *account) isApart() bool {
	return slices.ContainsFunc(a.apart, func(r rises) bool { return r.units > 0 })
}

// adjustApart charges or gives back until every limit holds cost units beyond what all hold, or what it has room for.
func (a *account) adjustApart(ctx context.Context, cost int64) (unpaid int64, err error) {
	if cost == 0 && !a.isApart() {
		return 0, nil
	}
	each := a.gate.plateFor(a.limiter).each
	if len(each) == 0 {
		return cost, nil
	}
	if a.apart == nil {
		a.apart = make([]rises, len(each))
	}
	keys := a.decision.Keys()
	for i, one := range each {
		held := &a.apart[i]
		if more := cost - held.units; more > 0 {
			d, failed := one.limiter.TakeUpTo(ctx, keys[one.key], more)
			held.add(d)
			err = cmp.Or(err, failed)
		} else {
			_, failed := held.giveBack(ctx, one.limiter, -more)
			err = cmp.Or(err, failed)
		}
		unpaid = max(unpaid, cost-held.units)
	}
	return unpaid, err
}

// giveBack gives back units in every limit, those that were charged last first.
func (a *account) giveBack(ctx context.Context, n int64) error {
	n, err := a.rises.giveBack(ctx, a.limiter, n)
	return cmp.Or(err, a.limiter.RefundN(ctx, &a.decision, n))
}

// rises are the receipts of what was charged after a verdict, oldest first.
type rises struct {
	receipts []slidegate.Decision
	units    int64 // that they hold
}

func (r *rises) add(d slidegate.Decision) {
	if d.Charged() {
		r.receipts = append(r.receipts, d)
		r.units += d.Held()
	}
}

// giveBack gives back up to n units, those that were charged last first, and returns how many are left of n.
func (r *rises) giveBack(ctx context.Context, l *slidegate.Limiter, n int64) (left int64, err error) {
	for n > 0 && len(r.receipts) > 0 {
		last := &r.receipts[len(r.receipts)-1]
		part := min(n, last.Held())
		n, r.units = n-part, r.units-part
		err = cmp.Or(err, l.RefundN(ctx, last, part))
		if !last.Charged() {
			r.receipts = r.receipts[:len(r.receipts)-1]
		}
	}
	return n, err
}
