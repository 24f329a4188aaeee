package redisscript

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// fill charges a limit of one key n times by cost, at uneven times that spread over most of a window, and returns
// the most that its value took on the way.
func fill(t testing.TB, s *scripts, l slidegate.Limit, key string, n int, cost int64) (most int64) {
	t.Helper()
	d := draw{rand.New(rand.NewPCG(uint64(n), 3))}
	plan, _ := s.Bind([]slidegate.Limit{l})
	gap := l.Window.Nanoseconds() / int64(n) * 9 / 10
	for i := range n {
		s.clock.Advance(time.Duration(d.ExpFloat64() * float64(gap)))
		if a, err := plan.Take(background, key, cost); err != nil || !a.Allowed {
			t.Fatalf("charge %d of %d: %v, %v", i, n, a.Allowed, err)
		}
		if i%64 == 0 {
			most = max(most, s.memory(t, s.key(key, l)))
		}
	}
	return most
}

// memory returns what a key takes in the server, its name included.
func (s *scripts) memory(t testing.TB, key string) int64 {
	t.Helper()
	n, err := s.conn.Do("MEMORY", "USAGE", key, "SAMPLES", "0")
	if err != nil || n == nil {
		t.Fatalf("memory of a key: %v, %v", n, err)
	}
	return n.(int64)
}

// TestMemoryFollowsWhatIsHeld: a log whose charges are at uneven times takes a few bytes for each, whatever
// the quota and the window.
func TestMemoryFollowsWhatIsHeld(t *testing.T) {
	server := redistest.Standalone(t)
	minute, day, years := time.Minute, 24*time.Hour, slidegate.MaxWindow
	for _, c := range []struct {
		limit   slidegate.Limit
		charges int
		cost    int64
		most    int64 // bytes in the end
		ever    int64 // bytes on the way
	}{
		{slidegate.Per(minute, 10), 10, 1, 160, 160},
		{slidegate.Per(day, 10), 10, 1, 160, 160},
		{slidegate.Per(minute, 100), 100, 1, 600, 600},
		{slidegate.Per(day, 100), 100, 1, 800, 800},
		{slidegate.Per(minute, 1000), 1000, 1, 2700, 2700},
		{slidegate.Per(day, 1000), 1000, 1, 6000, 6000},
		{slidegate.Per(years, 1000), 1000, 1, 8500, 8500},
		{slidegate.Per(minute, 10_000), 10_000, 1, 21_000, 21_000},
		{slidegate.Per(day, 10_000), 10_000, 1, 42_000, 42_000},
		{slidegate.Per(years, 10_000), 10_000, 1, 66_000, 66_000},
		{slidegate.Per(day, 1_000_000).WithResolution(minute), 16_000, 5, 12_500, 12_500},
		{slidegate.Per(minute, 1_000_000_000), 1000, 100, 5000, 5000}, // a large quota takes no more
		{slidegate.Per(minute, 100).Counter(), 40, 1, 100, 100},
		{slidegate.Per(minute, 16_000).Counter(), 2000, 8, 100, 100},
	} {
		s := newScripts(t, server, newClock())
		server.Flush()
		l := c.limit.Named("x")
		most := fill(t, s, l, "u", c.charges, c.cost)
		got := s.memory(t, s.key("u", l))
		t.Logf("%d x %d of %v: %d bytes, at most %d", c.charges, c.cost, c.limit, got, most)
		if got > c.most || most > c.ever {
			t.Errorf("%d charges of %d under %v take %d bytes and took %d, want at most %d and %d", c.charges, c.cost, c.limit, got, most, c.most, c.ever)
		}
	}
}
