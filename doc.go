// Package slidegate limits how much of something each key may do in any window of time, over sliding
// windows and without approximation unless asked for it.
//
//	limiter, err := slidegate.New(memstore.New(),
//		slidegate.PerSecond(10).Named("burst"),
//		slidegate.PerMinute(100).Named("sustained"))
//	...
//	d, err := limiter.Take(ctx, "user:42")
//	switch {
//	case err != nil: // could not be decided: let it pass or not, as you see fit
//	case d.Allowed: // d.Remaining() more would be admitted right now
//	default: // refused: the same request fits after exactly d.RetryAfter()
//	}
//
// # Which verb
//
// [Limiter.Allow] answers with a boolean and is the fastest. [Limiter.Take] answers with a
// [Decision], which knows for every limit what remains, when it is full again and how long to wait;
// [Limiter.TakeN] is Take for a request that costs more than one unit, or none. [Limiter.Wait] sleeps
// until the request fits. [Limiter.Peek] looks and changes nothing. [Limiter.Refund] gives back what
// a decision charged, [Limiter.Reset] forgets a key, and [Limiter.With] is another plan over the
// same state.
//
// # What a decision means
//
// A request is admitted only if every limit has room, and then every limit is charged; otherwise
// none is. A refusal changes nothing, however often it is repeated. It is an answer, not an error:
// an error means that the request could not be decided, or that its limit, key or cost is wrong.
//
// A limit counts by a [SlidingLog] unless said otherwise: a charge at e counts until exactly e plus
// the window, and no window, wherever it begins, ever holds more than the quota. A [SlidingCounter]
// keeps two counts instead. It is an approximation: somebody who tries can get up to twice the quota
// through one true window.
//
// Waits are tight to the millisecond: after [Decision.RetryAfter] the same request is admitted if
// nothing else is charged, and one millisecond earlier it is not.
//
// # Keys, limits and state
//
// A key is any text that is not empty: who is counted. State is found by key and by the name,
// algorithm and window of the limit, never by its quota, so raising or lowering the quota of a named
// limit keeps its history. Limiters over one store share exactly where all four are equal.
//
// # Several keys
//
// A [Group] makes one decision over several keys, such as the address, the account and everybody of a
// login: all are charged or none, in one act where the store can.
//
// # Where state lives
//
// A [Store] keeps the state and the time. Package memstore is the store in the memory of a process;
// package gatetest has the laws that every store must keep, for those who write another. Package
// httpgate holds net/http requests to a limiter.
package slidegate
