// Package wrap has stores that wrap a store: each is a [slidegate.Store] in front of another one, keeps
// its promises, and adds one of its own. They are put together by nesting.
//
//	store := wrap.Circuit(redis, wrap.WithLogger(logger))
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//
// # Circuit
//
// A store across a network can stop answering, and then every request waits for its timeout before it
// is let through or turned away. A [Circuit] notices, and answers in the store's place that it is
// unavailable: at once, and with nothing allocated. Once a second it lets one request through to the
// store, and with the first answer it is out of the way again.
//
// It opens after five failures in a row, and failures are in a row only if each call began after the
// one before had failed, and nothing was answered in between. So a single timeout opens nothing, nor
// do a hundred calls that were under way in the same blip, nor does a store that answers slowly or
// answers some: what it takes is a store that is silent for as long as five timeouts.
//
// Evidence against the store is an error that wraps [slidegate.ErrUnavailable], and nothing else. A
// caller who gives up, an empty key or a cost that can never fit say nothing about it, and neither
// does a refusal, which is an answer. A store that is well can also fail for one key: [Ignore] names
// such errors. A full memory store that refuses new keys is not down either: put no circuit in front of it.
//
// The wrapped store bounds its own calls. A circuit has no timeout, no goroutine and no timer, holds no
// lock while the store is asked, and never sends a call twice.
package wrap
