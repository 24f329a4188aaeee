// Package gatetest is for those who write a store for slidegate, or a gate in front of one: the
// laws that every store keeps, a store that is right because it is simple, a clock to set by hand,
// and stores that fail or are slow.
//
// # To write a store
//
// Implement [slidegate.Store] and [slidegate.Plan] and give the suite a function that makes an empty
// store on a clock:
//
//	func TestStore(t *testing.T) {
//		gatetest.TestStore(t, func(t testing.TB, clock *gatetest.Clock) slidegate.Store {
//			return mystore.New(mystore.WithClock(clock.Now))
//		})
//	}
//
// Every subtest is a [Law], named by what it says: RefusalChangesNothing, RetryIsTight. The first
// of them, Scenarios, runs traffic whose answers are written down step by step. When a law fails,
// read what it says and then its function here: each fits a screen or two and starts from an
// empty store at a fixed time. AgreesWithTheOracle sends random traffic, always the same for the
// same seed, to the store and to an [Oracle], and names the first step at which they differ, with
// the seed of the traffic.
//
// The suite asks for a store on an injected clock. A store that keeps time elsewhere needs an option
// for it, if only for its tests: time that passes by itself would make every law a guess.
//
// Some laws are of decisions over several keys. A store that is a [slidegate.JointStore] is held to more
// in them: what it decides in one act refuses nobody without need.
//
// # To write a gate
//
// [NewOracle] and a [Clock] make a limiter whose every answer can be foretold. [Failing] is a store
// that cannot be asked and counts how often it was; [Slow] is one behind a network.
//
// # How the laws are known to hold
//
// The oracle shares no code with the arithmetic it checks. The laws themselves are checked too: the
// tests of this package run them on stores with one fault each, such as a refusal that is charged
// or a window that is a millisecond too long, and no fault may pass all laws, and no law may find none.
package gatetest
