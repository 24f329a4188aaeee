// Package soak keeps a limiter at work for as long as one likes, and then judges all that it did.
//
//	go test ./test/soak -run '^TestSoak$' -v -for 1h
//
// Real processes of the command share one Redis and one file of rules, limiters in this program are over memory and the
// same Redis through both clients, and all are asked all the time, about few keys that are always wanted and many that
// come and go. Meanwhile Redis and the network fail, processes crash, and the rules change. Every admission is written
// down. Afterwards each window of each key is counted, memory is looked at over time, and nothing may be left behind.
// docs/soak.md has what is asserted, and the result of a run.
package soak
