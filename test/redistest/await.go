package redistest

import (
	"testing"
	"time"
)

// startTime is how long a server may take for what takes milliseconds on an idle machine.
const startTime = 20 * time.Second

// Await waits until a condition holds, and fails the test if it does not within the given time.
// It asks at once, a millisecond later, and then more and more rarely, but thirty times a second at least.
func Await(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	if !poll(within, condition) {
		t.Fatalf("%s: not within %s", what, within)
	}
}

func poll(within time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(within)
	pause := time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
		if pause < 30*time.Millisecond {
			pause += pause/4 + 1
			tick.Reset(pause)
		}
	}
	return true
}
