// Package test holds the tests that need foreign code: properties of the whole, drawn by rapid
// and by the fuzzer; goroutines that would stay, found by goleak. It also holds what people reported
// of other limiters, case by case. Nobody imports it.
package test
