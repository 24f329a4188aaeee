// Package redisstore keeps the state of limits in Redis or Valkey, so that many processes share one
// budget. It decides as the memory store does, to the millisecond.
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(goredis.New(client))
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//
// The package itself depends on no Redis library. A [Client] is one method; packages goredis and
// rueidis beside this one have it for two libraries, and the example of Client shows how to write it
// for another. The library's client is yours: the store never closes it, and may be made before Redis
// is up.
//
// # What it promises
//
// A decision over all limits of a key is one script, run by Redis as one act: one round trip, one
// EVALSHA. EVAL follows only if Redis says that it does not know the script, and has run nothing. A
// script whose answer is lost may have run, so no call is ever sent twice.
//
// The clock is that of the Redis server, read inside the script, so the clocks of the processes do not
// matter. [WithClock] injects another one.
//
// # When Redis does not answer
//
// Every call is answered within [WithTimeout], 50 ms unless said otherwise, counted from when it was
// asked, whatever the network, Redis or the client library does. The error then wraps
// [slidegate.ErrUnavailable] and its cause, and the request may have been charged or not. A caller whose own context
// ends is told at once and with that context's error, which says nothing against Redis. A request
// that has not been given to the client by then is not charged; one that the client holds while it
// connects may still be sent within a second, and charged.
//
// The store keeps no opinion of a server that is down: it asks again each time. Package wrap has a
// circuit that does. [WithLogger] tells of changes, a line for each, and [Store.Stats] counts.
//
// # Folding
//
// A call is sent at once while fewer than two of its plan are under way. Otherwise it waits until one
// of them is answered, and everybody who waits goes along in the next call, up to 64. So few callers
// wait for nobody, and many callers cost Redis a call for dozens of decisions. Each decision is as it would be
// alone. In front of a cluster, calls of one hash slot are folded. [WithFolding] changes or
// ends it.
//
// # What is stored
//
// The state of a limit is one string value under
//
//	{prefix}:{{key}}:{name}:{window}            for a log
//	{prefix}:{{key}}:{name}:{window},counter    for a counter
//
// such as slidegate:{user:42}:burst:1s. The braces around the key are stored too. They are its hash
// tag, so all limits of a key are in one slot of a cluster. In the key a closing brace is written
// %7D and a percent sign %25, and a key that is longer than 200 bytes so is replaced by %sha256: and its
// hash. Two limits share a value exactly where prefix, key, name, window and algorithm are equal.
//
// Every value expires when its limit is completely full again, so a key that is not used leaves
// nothing behind. A value that is none of ours is treated as no state, and the next admitted charge replaces
// it. A value in the format of a newer version is never touched: requests that meet it are not
// decided, and their error wraps [ErrNewerFormat].
//
// [slidegate.ErrUnavailable]: https://pkg.go.dev/github.com/slidegate/slidegate#ErrUnavailable
package redisstore
