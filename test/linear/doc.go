// Package linear tests that decisions are linearizable: what callers who ask at the same time are told is what they would have
// been told one after another, in some order that keeps to the order of real time. Histories of the memory store, of one
// Redis, of a cluster, and of several processes over one Redis are judged by porcupine against a specification that shares
// no code with what it judges, and stores with a race seeded into each are found out.
package linear
