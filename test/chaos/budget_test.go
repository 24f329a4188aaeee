package chaos

import (
	"slices"
	"testing"
	"time"
)

// A budget is a limit that voices share.
type budget struct {
	name   string
	quota  int
	window time.Duration
}

// rounding is how much shorter than its own a window may be in the eyes of a client: Redis counts in whole
// milliseconds, and the two do not read the clock in the same instant.
const rounding = 5 * time.Millisecond

// most returns the most admissions that surely were in one window of a length. A decision was made some time between
// the beginning and the end of its call, so a call is in a window if both are.
func most(calls []call, window time.Duration) (n int) {
	in := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.verdict != admitted })
	for _, first := range in {
		end := first.begin.Add(window - rounding)
		n = max(n, count(in, func(c call) bool { return !c.begin.Before(first.begin) && c.end.Before(end) }))
	}
	return n
}

// TestMostCountsAnyWindow, and no call that may have been decided outside of it.
func TestMostCountsAnyWindow(t *testing.T) {
	start := time.Now()
	at := func(begin, end int, v verdict) call {
		return call{begin: start.Add(time.Duration(begin) * time.Millisecond), end: start.Add(time.Duration(end) * time.Millisecond), verdict: v}
	}
	for _, c := range []struct {
		name  string
		calls []call
		want  int
	}{
		{"none", nil, 0},
		{"no admission", []call{at(0, 1, refused), at(1, 2, passed), at(2, 3, turnedAway)}, 0},
		{"all at once", []call{at(0, 1, admitted), at(0, 1, admitted), at(0, 1, admitted)}, 3},
		{"across what a fixed window would split", []call{at(900, 901, admitted), at(950, 951, admitted), at(1000, 1001, admitted), at(1050, 1051, admitted)}, 4},
		{"a window apart", []call{at(0, 1, admitted), at(1000, 1001, admitted)}, 1},
		{"the last one ends too late", []call{at(0, 1, admitted), at(500, 996, admitted)}, 1},
		{"the first one began too early", []call{at(0, 800, admitted), at(900, 901, admitted), at(1100, 1101, admitted)}, 2},
	} {
		if got := most(c.calls, time.Second); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
