// Package memstore keeps the state of limits in the memory of one process. It is the store to
// begin with: no server, no dependency, decisions in tens of nanoseconds, and nothing allocated
// for a decision.
//
//	limiter, err := slidegate.New(memstore.New(), slidegate.PerMinute(100))
//
// # What it promises
//
// A decision over several limits of a key is one act under one lock. It costs the same at a
// quota of ten and of a million, and at any number of keys. A log of up to eight units near each other takes no more
// than a counter; one of up to fifteen takes four bytes for each; a longer one takes eight or sixteen for each distinct
// recorded time, however many units share it.
//
// The clock is the process's monotonic clock, anchored once to the wall clock, so setting the wall
// clock moves no window. [WithClock] injects another one.
//
// The state is in this process alone: another process has its own, and a restart begins with
// full quotas.
//
// # What it holds, and for how long
//
// A refused request, a peek and a cost of zero store nothing. A key goes by itself when the
// windows of all its limits are over, without another request: one timer runs while there are keys,
// and none in an empty store.
//
// The store holds at most a million keys unless [WithMaxKeys] says otherwise. A new key that finds
// it full first makes it drop what is idle. If every key still counts, the key that would be
// idle soonest goes, of several the one with the fewest units used; "soonest" is judged among the
// keys of one shard, which is the whole store up to 4,096 keys. That is counted in [Stats] and
// told to the logger. Forgetting a key that counts refills it, so a store that must never do that
// takes [RefuseNewKeys]: then the new key gets an error that wraps
// [github.com/slidegate/slidegate.ErrUnavailable], and failing open or closed is the caller's choice.
//
// Keys themselves are not kept. A key stands in the table as a 128-bit fingerprint under a seed
// that is drawn for each store, so no list of clients lies in memory, and nobody outside can choose
// keys that collide.
package memstore
