package rls

import (
	"context"

	"github.com/slidegate/slidegate"
)

// mostRefundCalls bounds how often a store is asked for one refund. Units that were charged together come back in two calls.
const mostRefundCalls = 64

// giveBack takes hits off what was charged last. Who asks has no receipt, so it is the newest units of the key that
// come back, whoever spent them; never more than asked for, also where others charge at the same time, and no more
// than there are.
func (a *ask) giveBack(ctx context.Context) error {
	give := giveBackLog
	if a.limiter.limit.Algorithm == slidegate.SlidingCounter {
		give = giveBackCounter
	}
	var err error
	if a.returned, err = give(ctx, a.limiter, a.Key, a.most()); err != nil {
		return err
	}
	return a.look(ctx)
}

// giveBackLog finds out, before it takes n units off the newest entry, that there are n in it: then the n-th newest unit
// has the time of the newest. An answer tells that of both, if it is asked for a cost that fits once all but the n-1 newest are
// gone. Where there are fewer, it tries half.
func giveBackLog(ctx context.Context, l *limiter, key string, hits int64) (given int64, err error) {
	n := hits
	for calls := 0; given < hits && calls < mostRefundCalls; calls++ {
		answer, err := l.plan.Peek(ctx, key, l.limit.Quota-n+1)
		if err != nil {
			return given, err
		}
		r := answer.Readings[0]
		switch {
		case r.Units == 0:
			return given, nil
		case r.Units < n:
			n = r.Units
			continue
		case r.Back != r.At:
			n = max(1, n/2)
			continue
		}
		if err := l.plan.Refund(ctx, key, answer, n); err != nil {
			return given, err
		}
		calls++
		given += n
		n = min(2*n, hits-given)
	}
	return given, nil
}

// giveBackCounter takes units off the current window, and then off the one before, which is all that a counter knows.
func giveBackCounter(ctx context.Context, l *limiter, key string, hits int64) (given int64, err error) {
	answer, err := l.plan.Peek(ctx, key, 1)
	if err != nil {
		return 0, err
	}
	r := &answer.Readings[0]
	for _, units := range [2]int64{r.Units, r.Back} {
		if n := min(units, hits-given); n > 0 {
			if err := l.plan.Refund(ctx, key, answer, n); err != nil {
				return given, err
			}
			given += n
		}
		r.At -= l.limit.Window.Milliseconds()
	}
	return given, nil
}
