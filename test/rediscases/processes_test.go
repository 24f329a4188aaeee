package rediscases

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestTwoProcessesHaveOneBudget, of a log and of a counter.
func TestTwoProcessesHaveOneBudget(t *testing.T) {
	server := redistest.Standalone(t)
	for name, limit := range map[string]slidegate.Limit{"log": slidegate.PerHour(10), "counter": slidegate.PerHour(10).Counter()} {
		a, b := startApp(t, server, "goredis", "", limit), startApp(t, server, "rueidis", "", limit)
		admitted := 0
		for range 10 {
			admitted += a.admitted(1, name) + b.admitted(1, name)
		}
		equal(t, name+": admitted of 20 requests to two processes", admitted, 10)
	}
}

// TestProcessesAtOnceAdmitExactlyTheQuota: never more, and never less, however the requests meet.
func TestProcessesAtOnceAdmitExactlyTheQuota(t *testing.T) {
	server := redistest.Standalone(t)
	limits := []slidegate.Limit{slidegate.PerHour(50).Named("hour"), slidegate.PerDay(60).Counter().Named("day")}
	var apps []*app
	for i := range 4 {
		apps = append(apps, startApp(t, server, libraries[i%2].name, "", limits...))
	}
	equal(t, "admitted of four times 50 at once", admittedAtOnce(apps, 50, "a"), 50)

	five := startApp(t, server, "goredis", "", slidegate.PerHour(5))
	equal(t, "admitted of 20 at once", admittedAtOnce([]*app{five}, 20, "b"), 5)
	seven := startApp(t, server, "rueidis", "", slidegate.PerHour(7))
	equal(t, "admitted of 50 at once", admittedAtOnce([]*app{seven}, 50, "c"), 7)
}

// TestTheClocksOfProcessesDoNotMatter: one whose clock stands still in the year 2000 and one whose
// clock is right behave as one.
func TestTheClocksOfProcessesDoNotMatter(t *testing.T) {
	server := redistest.Standalone(t)
	for _, limit := range []slidegate.Limit{slidegate.PerHour(10), slidegate.PerDay(10).Counter()} {
		right, wrong := startApp(t, server, "goredis", "", limit), startApp(t, server, "goredis", "2000", limit)
		if _, year := wrong.ask("nobody"); year != "2000" {
			t.Errorf("the clock of the app is in %s, so this shows nothing", year)
		}
		admitted := wrong.admitted(3, "a") + right.admitted(4, "a")
		equal(t, limit.String()+": admitted within the quota", admitted, 7)
		admitted += wrong.admitted(8, "a") + right.admitted(8, "a")
		equal(t, limit.String()+": admitted of 23", admitted, 10)
		server.Flush()
	}
	// The window is as long for both: what one charged the other admits again, when it has left.
	short := slidegate.Per(300*time.Millisecond, 1)
	right, wrong := startApp(t, server, "goredis", "", short), startApp(t, server, "goredis", "2000", short)
	for _, pair := range [][2]*app{{right, wrong}, {wrong, right}} {
		pair[0].admitted(1, "b")
		began := time.Now()
		redistest.Await(t, generous, "the other admits", func() bool { return pair[1].admitted(1, "b") == 1 })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a window of 300 ms took %s", took)
		}
		server.Flush()
	}
}

// TestClocksApartNeverExceedTheQuota: where stores are given clocks of their own, and these differ by
// five seconds, the quota holds all the same.
func TestClocksApartNeverExceedTheQuota(t *testing.T) {
	server := redistest.Standalone(t)
	for _, limit := range []slidegate.Limit{slidegate.PerMinute(10), slidegate.PerMinute(10).Counter()} {
		for _, apart := range []time.Duration{5 * time.Second, -5 * time.Second} {
			server.Flush()
			now := time.UnixMilli(1_796_032_805_000)
			a := newLimiter(t, newStore(t, server, redisstore.WithClock(func() time.Time { return now })), limit)
			b := newLimiter(t, newStore(t, server, redisstore.WithClock(func() time.Time { return now.Add(apart) })), limit)
			admitted := 0
			for range 20 {
				n, _ := take(t, a, "a", 1)
				m, _ := take(t, b, "a", 1)
				admitted += n + m
				now = now.Add(50 * time.Millisecond)
			}
			equal(t, limit.String()+": admitted with clocks "+apart.String()+" apart", admitted, 10)
		}
	}
}
