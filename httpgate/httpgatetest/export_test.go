package httpgatetest

import "time"

// Hurry makes the suite wait for no server longer than d until the test that calls it is over.
func Hurry(cleanup func(func()), d time.Duration) {
	before := patience
	patience = d
	cleanup(func() { patience = before })
}
