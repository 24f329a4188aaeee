//go:build !linux

package redistest

import "testing"

// Unreachable returns an address that answers no connection attempt. It is there on Linux alone.
func Unreachable(t testing.TB) string {
	t.Helper()
	t.Fatal("redistest: Unreachable needs Linux")
	return ""
}
