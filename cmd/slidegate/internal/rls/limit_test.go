package rls

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestLimitsOfRequestsAreBounded: what a store would remember for ever is refused, what is only kept to be quick is made anew.
func TestLimitsOfRequestsAreBounded(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	l := limits{store: store, all: map[slidegate.Limit]*limiter{}, windows: map[time.Duration]bool{}}
	for i := range mostWindows {
		if _, err := l.get("a", 1, time.Duration(i+1)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.get("a", 1, 24*time.Hour); !errors.Is(err, errWindows) {
		t.Errorf("one window more: %v", err)
	}
	for i := range mostOverrides {
		if _, err := l.get("a", uint32(i+1), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.all) > mostOverrides {
		t.Errorf("%d limits are kept", len(l.all))
	}
	first, _ := l.get("a", 7, time.Second)
	if again, _ := l.get("a", 7, time.Second); again != first {
		t.Error("the same limit is made twice")
	}
}

// TestLargeLogsAreKeptCoarser, to a thousandth of their window, in whole milliseconds; others are exact to the millisecond.
func TestLargeLogsAreKeptCoarser(t *testing.T) {
	for _, c := range []struct {
		requests  uint32
		window    time.Duration
		algorithm slidegate.Algorithm
		want      time.Duration
	}{
		{1000, 24 * time.Hour, slidegate.SlidingLog, 0},
		{1001, 24 * time.Hour, slidegate.SlidingLog, 86400 * time.Millisecond},
		{1 << 31, time.Minute, slidegate.SlidingLog, 60 * time.Millisecond},
		{5000, time.Second, slidegate.SlidingLog, 0},
		{5000, 24 * time.Hour, slidegate.SlidingCounter, 0},
	} {
		l := newLimit("a", c.requests, c.window, c.algorithm)
		if err := l.Validate(); err != nil || l.Resolution != c.want {
			t.Errorf("%d in %s: resolution %s, want %s, %v", c.requests, c.window, l.Resolution, c.want, err)
		}
	}
}
