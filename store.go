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

// A JointStore is a [Store] that can decide over several keys in one act. It is optional: a [Group] uses
// it where all its limiters are over one such store, and otherwise asks their plans one after another.
type JointStore interface {
	Store

	// BindJoint prepares decisions over parts, each the limits of one key, as Bind has them: 2 to MaxLimits
	// parts, at most MaxLimits limits in all, each name once. An error that wraps errors.ErrUnsupported says
	// that the store cannot, as one does that wraps another store.
	BindJoint(parts [][]Limit) (JointPlan, error)
}

// A JointPlan decides over the parts it was bound to, each with a key of its own, in one atomic act
// for each call. What is said of a [Plan] holds. Keys are as many as parts, in their order; the same key may
// stand for several. It keeps none of the slices. The readings of an answer are those of all limits, part for part.
type JointPlan interface {
	// Joint tells whether these keys can be decided in one act. It asks nobody. Where it says no,
	// the other methods are not called.
	Joint(keys []string) bool

	// Take admits cost units if every limit of every part has room and then charges every limit;
	// otherwise it changes nothing. A cost of 0 is admitted and changes nothing.
	Take(ctx context.Context, keys []string, cost int64) (Answer, error)

	// Peek answers Allowed, and Back, as Take would, and changes nothing.
	Peek(ctx context.Context, keys []string, cost int64) (Answer, error)

	// Refund takes back cost units in every limit at the times in the readings of the answer that
	// charged them. Units that are gone stay gone.
	Refund(ctx context.Context, keys []string, charged Answer, cost int64) error
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
