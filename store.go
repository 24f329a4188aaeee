package slidegate

import "context"

// A Store keeps the state of keys. Stores are safe for concurrent use, and several limiters may
// share one: their limits share state exactly where key, name, algorithm and window are equal.
//
// To write a store, implement Store and [Plan] and run the suite of package gatetest on it. A
// store decides; it does not explain: it returns plain numbers, and this package alone turns
// them into remaining units and waits, so that no two stores can differ.
type Store interface {
	// Bind prepares decisions over limits, which are valid, named, at most MaxLimits, and must
	// not be modified: they are shared. It is called once for each limiter.
	Bind(limits []Limit) (Plan, error)
}

// A Plan decides over the limits it was bound to, in one atomic act for each call.
//
// Keys are not empty. Costs are from 0 to the smallest quota. An error means that the store could
// not be asked; it wraps [ErrUnavailable], or is the context's own where the caller gave up.
type Plan interface {
	// Take admits cost units of key if every limit has room and then charges every limit;
	// otherwise it changes nothing. A cost of 0 is admitted and changes nothing.
	Take(ctx context.Context, key string, cost int64) (Answer, error)

	// Peek answers Allowed, and Back, as Take would, and changes nothing.
	Peek(ctx context.Context, key string, cost int64) (Answer, error)

	// Refund takes back cost units in every limit at the times in the readings of the answer that
	// charged them. Units that are gone stay gone.
	Refund(ctx context.Context, key string, charged Answer, cost int64) error

	// Reset forgets the key in every limit.
	Reset(ctx context.Context, key string) error
}

// A QuickPlan is a [Plan] that can also answer in machine registers. It is optional: a limiter
// uses it where a plan has it. The answers must be those of Plan.
type QuickPlan interface {
	Plan

	// Allow is Take for the verdict alone.
	Allow(ctx context.Context, key string, cost int64) (bool, error)

	// TakeOne is Take for a plan bound to a single limit; it is not called on others.
	TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r Reading, err error)
}

// An Answer is what a store found: a verdict, its own clock, and a reading for each limit.
type Answer struct {
	Allowed  bool
	Now      int64 // the store's clock, in milliseconds since the Unix epoch, rounded down
	Readings [MaxLimits]Reading
}

// A Reading is the state of one limit at Answer.Now, after the charge if there was one. Times
// are in milliseconds since the Unix epoch.
//
//	            sliding log                               sliding counter
//	At          recorded time of the newest charge        start of the current window
//	            that counts (0 if Units is 0)
//	Units       units that count now                      units admitted in the current window
//	Back        recorded time of the unit that has to     units admitted in the window before
//	            leave before this request fits: the
//	            (Units + cost - quota)-th oldest;
//	            0 where the limit has room
//
// For a counter the windows are those at Answer.Now, or, where the clock is behind the start that
// is stored, the stored ones.
type Reading struct {
	At    int64
	Units int64
	Back  int64
}
