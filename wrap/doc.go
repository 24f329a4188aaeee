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
//
// # Deadline
//
// A request that asks several limiters, or whose backup has something to charge in the primary first, makes several calls, and each has the
// store's timeout. Under a context of [Request] a [Deadline] store has it once for all of them: a call gets what the others have left, and
// none once nothing is.
//
// # Denials
//
// Most of what a limiter in a network answers while somebody attacks is the same refusal again, and each costs a round
// trip. [Denials] answers it in the store's place until the retry of the refusal, but for a second at most. That is sound
// because the wait is exact: until then nothing that is charged can make room, only a refund or a reset, and
// those are seen at once where they go through this store, and after that second where another process made them.
//
// The answer is worked out from the one that is remembered, with the time that has passed since the store was asked
// added to the store's clock. The verdict is the store's. Waits are the store's too, or shorter, by as much as that call took
// and a millisecond, since it is not known when in the call the clock was read. So nobody is refused whom the
// store would admit, as long as our clock and the store's go equally fast: one that gains a thousandth makes that a
// millisecond in a second. What another process charges meanwhile makes a wait longer than was told.
// The remaining units of a limit that refuses one unit are 0 until then; those of a limit that has room, and of one
// that refuses more than one unit, may be more than is told, since units leave of which nothing is known.
//
// Only the same cost is answered, over the same limits: what a larger one would have to wait is not known, and a smaller one
// may have room. Decisions over several keys are always asked. It belongs in front of the [Circuit]: who is refused stays so in an
// outage of less than a second. In front of a memory store there is no round trip to save.
//
// # Fallback
//
// While Redis is away a service can let everybody pass, or nobody. With a [Fallback] it decides by itself, by a share of
// each quota, and goes back when Redis is there again:
//
//	store := wrap.Fallback(wrap.Denials(wrap.Circuit(redis)), memory, wrap.WithReplicas(replicas.Live))
//
// What is promised, of processes of which each has a share of the quota: a window never holds more than the quota and the
// shares of all processes, however often Redis comes and goes, since each store holds to its own part at all times.
// More than the quota is reached where Redis has admitted before an outage what the processes do not know of.
//
// Nobody is refilled when Redis is back. The first decision of a key then charges there what the backup has admitted and
// what still counts, limit by limit, as far as it fits; it is recorded at that time, so it counts for a window from then on. Each
// process does that when it is asked for the key, and requests of the key that come in the same instant do not wait for it. The
// backup does not forget, and in the next outage its share is what is left of it. Of up to 65,536 keys and limits
// is it known what they owe; of more, some begin afresh in Redis. A reply that is lost while a debt is charged charges it twice.
//
// The answer of the backup has its clock, and readings in which all but the share counts as used, so remaining units
// and waits are those of the share. Of a counter the reset is told later than it is, and the retry may be told earlier, for a cost
// above one, or where more is used than the share, since that was larger. A refund goes where the charge was made, as the answer itself
// tells; what was taken over meanwhile stays in Redis until its window is over. A reset goes to both stores, and fails if one does.
//
// Where shares go by the live processes, [CountReplicas] counts them in Redis. The bound is then the quota and the largest share that each
// had in the window. A process that starts while Redis is away sees no other, and has the whole quota. One that is cut off alone is, after a life and
// four beats at most, counted no more, and the shares of the others are larger: who cannot have that says a fixed share for the most processes there may be.
//
// # Observe and Shadow
//
// [Observe] tells of each call of a store: to a function, to a log with [ToLog], or to OpenTelemetry with the module otelgate.
// [Shadow] refuses nobody, and tells who would be.
package wrap
