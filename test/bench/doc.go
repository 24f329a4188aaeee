// Package bench holds slidegate beside the limiters that Go programs use today: the same workloads,
// the same keys, one process. Absolute times say little about another machine; the ratios of one
// run carry over, and the targets are ratios.
//
//	go test .                      the counts: allocations, bytes a key, what idle keys leave behind
//	go test -bench Hot1 .          ordinary benchmarks, such as BenchmarkHot1/slidegate-log-Take
//	go run ./compare               all in turn, round by round: medians, ratios, targets met or missed
//	go run ./compare -only hot1    a part of it; -list names the parts
//
// A ratio is the median of the ratios round by round, so that what slows the machine for a while
// slows both sides of it. Where a machine is never quiet, the ratio of the least times says more: it
// is printed beside. All of it takes about ten minutes.
//
// What a limiter answers besides its verdict (remaining units, the time of the reset) is read in every
// decision where it comes with the call, since that is what a caller pays for. Rivals stand as their
// documentation has them.
package bench
