package slidegate

import "context"

// RefundN gives back n of the units that the decision charged, at the time they were recorded, in
// every limit: what a request did not need after all. It is [Limiter.Refund] of a part, and the parts
// never add up to more than the charge: where n is more than [Decision.Held], it gives back what is held.
// What it gives back is taken off the receipt, whatever comes of the call.
//
// The errors are those of Refund, and a [*CostError] for a negative n.
func (l *Limiter) RefundN(ctx context.Context, d *Decision, n int64) error {
	if n < 0 {
		return &CostError{Cost: n}
	}
	if d == nil || n == 0 || d.held == 0 {
		return nil
	}
	if r := d.receipt(); r != nil {
		return r.refund(ctx, d, n)
	}
	plan, err := l.planOf(d)
	if err != nil {
		return err
	}
	n = min(n, d.held)
	d.held -= n
	return plan.Refund(ctx, d.key, d.answer(), n)
}

// TakeUpTo charges cost units of key, or as many as there is room for where that is less: it is for
// what has been spent already and cannot be refused any more. The Cost of the Decision says how
// many were charged, the same in every limit. If there is room for none it is a refusal, and nothing was charged. No
// window ever holds more than the quota, so what did not fit is not charged later either. Where one limit is full and
// another has room, as a minute and a day, the rest is charged by TakeUpTo of each limit alone: see [Limiter.Each].
//
// A cost above the smallest quota is no error here. The others are those of [Limiter.TakeN]; where one
// comes, nothing is known to be charged. It asks the store once where all fits, mostly twice
// where not, and again only when others were quicker to take the rest.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, cost int64) (Decision, error) {
	return takeUpTo(min(cost, l.smallest), func(n int64) (Decision, error) { return l.TakeN(ctx, key, n) })
}

func takeUpTo(most int64, take func(n int64) (Decision, error)) (Decision, error) {
	d, err := take(most)
	for err == nil && !d.Allowed {
		room := d.Remaining() // of the limit with the least: less than what was refused, so this ends
		if room == 0 {
			return d, nil
		}
		d, err = take(room)
	}
	return d, err
}
