// Package bench holds slidegate beside the limiters that Go programs use today: the same workloads,
// the same keys, one process. Absolute times say little about another machine; the ratios of one
// run carry over, and the targets are ratios.
//
//	go test .                      the counts: allocations, bytes a key, what idle keys leave behind
//	go test -bench Hot1 .          ordinary benchmarks, such as BenchmarkHot1/slidegate-log-Take
//	go run ./compare               all in turn, round by round: medians, ratios, targets met or missed
//	go run ./compare -only hot1    a part of it; -list names the parts
//	go run ./compare -only redis   what is kept in Redis
//	go run ./compare -only doors   what the command answers over a socket
//	go run ./compare -verdicts     what has a target, a line each: ok, MISSED or FORBIDDEN
//	go run ./curves -out DIR       how cost grows, as pictures and their figures
//	go run ./memory                heap and resident set of processes that do nothing else
//
// A ratio is the median of the ratios round by round, so that what slows the machine for a while
// slows both sides of it. Where a machine is never quiet, the ratio of the least times says more: it
// is printed beside. What one caller does in this process is measured in CPU time, which other programs on the machine change
// little. All of it takes about a quarter of an hour.
//
// What a limiter answers besides its verdict (remaining units, the time of the reset) is read in every
// decision where it comes with the call, since that is what a caller pays for. Rivals stand as their
// documentation has them.
//
// # HTTP
//
// What a middleware adds to ServeHTTP is measured in process, with one request again and again, and over a
// socket: a server of net/http on a free port of 127.0.0.1 and a client that does little else than write and read, in the same
// process, over 16 connections. Over a socket most of the time is net/http's and the kernel's. Where a target is missed that
// the floor misses too (a middleware that limits nobody, and only puts a decision in the context and sets two fields), it says
// forbidden.
//
// # Doors
//
// The parts whose names begin with "doors" start the command, and what it is held against, as processes of their own on free ports of
// 127.0.0.1, and stop them. Clients do little else than write and read, as a proxy does, and what is asked about has room.
//
//   - doors-auth, doors-json: forward-auth as nginx asks, and POST /v1/take, in memory, over 16 connections. They are held against a
//     bare server of net/http that answers what the door answered first: the same fields and the same body.
//   - doors-rls: the rate limit service of Envoy, 32 calls under way on each of two connections, one descriptor of two entries. It is held
//     against envoyproxy/ratelimit on a Redis of the run, which is built with go install from the Go module proxy, with
//     the same rules. A server of gRPC that knows its answer is the floor.
//
// # Redis
//
// The parts whose names begin with "redis" start a server of their own on a free port of 127.0.0.1 and stop it.
// They are left out, and say what to install, where there is neither redis-server nor valkey-server.
//
//   - redis-1, redis-16, redis-256: so many callers, each with its next request as soon as it has an answer. What
//     this process and the server spend on a decision is CPU time; scripts are the EVALSHA and EVAL that the server
//     counted, and bytes are those that it received and sent. Each figure is held against the rival who is best at it.
//     Floors stand beside them: the same store with a script that only reads and writes a key. A target that the floor of
//     the client in question misses is told to be forbidden.
//   - redis-allowed, redis-denied, redis-flat, redis-cost100, redis-three: the server's own count of the time of a
//     script, on logs that stay full while they slide, with many requests waiting as on a busy server. The rival is
//     sortedset.lua: it keeps the same log in a sorted set and gives the same answers. Both call TIME, and are
//     told what it says.
//   - redis-memory, redis-memory-most: MEMORY USAGE, which includes the key's own name.
//
// The rivals are redis_rate, ulule and throttled through go-redis. sethvargo/go-redisstore, mennanov/limiters and
// go-chi/httprate-redis are not among them: their modules could not be downloaded when this was written.
//
// Where a system call is cheap, a rival that needs two of them for each decision is close to what its script
// takes; ratios then depend on the machine more than those of decisions in memory do.
package bench
