// Command mutation makes small faults in the core and in the scripts for Redis, one at a time, and tells which of them
// no test finds: a boundary that moves, an operator for its opposite, a constant that is one more or one less, a statement that is
// missing, another result.
//
//	go run ./test/mutation                          everything
//	go run ./test/mutation -only memstore/ring.go   mutants whose name this matches
//	go run ./test/mutation -every 40                every 40th mutant
//
// It changes nothing in the tree: a build has all faults of Go in it and picks one when it starts, by the environment; scripts are
// read from a directory. What cannot be told from the original is listed in equivalent.txt, with the reason. It exits with 1
// where a mutant survives that is not listed. With -page it writes what it found into docs/mutants.md.
package main
