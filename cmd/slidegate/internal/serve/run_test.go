package serve

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestNoBallastWhereMemoryIsBounded, since it would be garbage that the bound has no room for.
func TestNoBallastWhereMemoryIsBounded(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	if n := len(ballast()); n != 0 {
		t.Errorf("%d bytes of ballast within a bound, want none", n)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if n := len(ballast()); n != ballastSize {
		t.Errorf("%d bytes of ballast, want %d", n, ballastSize)
	}
}
