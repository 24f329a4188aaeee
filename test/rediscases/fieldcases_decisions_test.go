package rediscases

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// A trace is requests of one key on a clock that is set by hand, and the right answers.
type trace struct {
	limit slidegate.Limit
	steps []step
}

// A step is one request.
type step struct {
	at      float64 // seconds
	cost    int64
	allowed bool
	retry   time.Duration
}

// steps makes a case of a trace.
func steps(tr trace) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, server *redistest.Server) {
		l, clock := clocked(t, server, tr.limit)
		for _, s := range tr.steps {
			at(clock, s.at)
			expect(t, "at "+strconv.FormatFloat(s.at, 'g', -1, 64)+" s", takeN(t, l, "a", s.cost), s.allowed, s.retry)
		}
	}
}

// at puts the clock to so many seconds.
func at(clock *gatetest.Clock, seconds float64) { clock.SetMilli(int64(math.Round(seconds * 1000))) }

var waitIsThatOfTheOldest = trace{slidegate.PerMinute(2), []step{
	{0, 1, true, 0}, {10, 1, true, 0}, {20, 1, false, 40 * time.Second}, {60, 1, true, 0}, {60, 1, false, 10 * time.Second},
}}

var waitOfSeveralUnits = trace{slidegate.PerMinute(10), []step{
	{0, 4, true, 0}, {30, 6, true, 0}, {40, 5, false, 50 * time.Second}, {40, 4, false, 20 * time.Second}, {89, 5, false, time.Second}, {90, 5, true, 0},
}}

// hotKey looks at every answer in the time of the server: one is refused if and only if three were
// admitted within the second before it.
func hotKey(t *testing.T, server *redistest.Server) {
	l := newLimiter(t, newStore(t, server), slidegate.PerSecond(3))
	var admitted []time.Time
	var last time.Time
	var idle time.Duration
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 6*time.Second; <-tick.C {
		d := takeN(t, l, "a", 1)
		within := 0
		for _, other := range admitted {
			if d.At().Sub(other) < time.Second {
				within++
			}
		}
		if d.Allowed != (within < 3) {
			t.Fatalf("%s with %d admitted in the second before", d, within)
		}
		if d.Allowed {
			admitted = append(admitted, d.At())
		}
		if !last.IsZero() {
			idle = max(idle, d.At().Sub(last))
		}
		last = d.At()
	}
	if n := len(admitted); n < 16 && idle < 100*time.Millisecond || n > 21 {
		t.Errorf("%d admitted in six seconds, want 16 to 21; nobody asked for %s", n, idle)
	}
	for i := range admitted[1:] {
		if gap := admitted[i+1].Sub(admitted[i]); gap > 1100*time.Millisecond+idle {
			t.Errorf("nobody was admitted for %s", gap)
		}
	}
}

func windowBelowASecond(t *testing.T, server *redistest.Server) {
	const window = 250 * time.Millisecond
	l := newLimiter(t, newStore(t, server), slidegate.Per(window, 2))
	s := newSite(t, l)
	peek(t, l, "a") // the connection is there
	first, second, third := takeN(t, l, "a", 1), takeN(t, l, "a", 1), takeN(t, l, "a", 1)
	key := "slidegate:{a}:2/250ms:250ms"
	left := life(server, key)
	if !first.Allowed || !second.Allowed || third.At().Sub(first.At()) < window && (third.Allowed || third.RetryAfter() > window) {
		t.Errorf("%s, %s, %s", first, second, third)
	}
	if left > window || left == -1*time.Millisecond {
		t.Errorf("the key lives %s, and the window is %s", left, window)
	}
	redistest.Await(t, generous, "a request that is admitted again", func() bool {
		d := peek(t, l, "a")
		if after := d.At().Sub(first.At()); d.Allowed != (after >= window) {
			t.Fatalf("%s after the first: %s", after, d)
		}
		return d.Allowed
	})
	for range 3 {
		if w := s.get("b"); w.Code == 429 {
			equal(t, "Retry-After", w.Header().Get("Retry-After"), "1")
		}
	}
}

func clockTenSecondsLate(t *testing.T, server *redistest.Server) {
	limit := slidegate.Per(10*time.Second, 4)
	a, b := startApp(t, server, "goredis", "", limit), startApp(t, server, "goredis", "2000", limit) // much later than the case says
	n := []int{a.admitted(5, "a"), b.admitted(1, "a"), a.admitted(5, "a")}
	equal(t, "admitted of 5, 1 and 5", n, "[4 0 0]")
}

func clockAMillisecondBehind(t *testing.T, server *redistest.Server) {
	now := time.UnixMilli(1_796_032_800_000)
	a := newLimiter(t, newStore(t, server, redisstore.WithClock(func() time.Time { return now })), slidegate.PerMinute(10))
	b := newLimiter(t, newStore(t, server, redisstore.WithClock(func() time.Time { return now.Add(-time.Millisecond) })), slidegate.PerMinute(10))
	takeN(t, a, "a", 1)
	if d := takeN(t, b, "a", 1); !d.Allowed || d.Remaining() != 8 {
		t.Errorf("a millisecond behind: %s, want 8 left", d)
	}
}

// A told client runs the scripts on a real server, with another reply of TIME.
type told struct {
	*redis.Client
	time string // two numbers
}

func (c *told) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	source := `local theirs = redis
local redis = {pcall = theirs.pcall, call = function(command, ...)
  if command == 'TIME' then return {` + c.time + `} end
  return theirs.call(command, ...)
end}
` + s.Source()
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return c.Eval(ctx, source, keys, all...).Int64Slice()
}

// timeOfTheServer: times are whole milliseconds, so two instants within one are equal; none is ever
// after a later one.
func timeOfTheServer(t *testing.T, server *redistest.Server) {
	client := &told{Client: redis.NewClient(&redis.Options{Addr: server.Addr})}
	defer client.Close()
	l := newLimiter(t, redisstore.New(client, redisstore.WithTimeout(generous)), slidegate.PerMinute(10))
	for _, c := range []struct {
		reply string
		milli int64
	}{
		{"'1700000000', '999'", 1_700_000_000_000},
		{"'1700000000', '1000'", 1_700_000_000_001},
		{"'1700000000', '999999'", 1_700_000_000_999},
		{"'1700000001', '5'", 1_700_000_001_000},
	} {
		client.time = c.reply
		d := takeN(t, l, "a", 1)
		equal(t, "the time of "+c.reply, d.At().UnixMilli(), c.milli)
	}
	equal(t, "units left", left(t, l, "a"), 6)
}

func keysOfSeveralParts(t *testing.T, server *redistest.Server) {
	l, _ := clocked(t, server, slidegate.PerMinute(1))
	for _, parts := range [][]string{{"a:b", "c"}, {"a", "b:c"}, {"a|b", ""}, {"a", "b|"}} {
		if d := takeN(t, l, httpgate.Join(parts...), 1); !d.Allowed {
			t.Errorf("%q shares a key with others", parts)
		}
	}
	equal(t, "keys", len(server.Keys()), 4)
}

func flushedScripts(t *testing.T, server *redistest.Server) {
	l := newLimiter(t, newStore(t, server), slidegate.PerMinute(3))
	take(t, l, "a", 2)
	server.Do("SCRIPT", "FLUSH")
	n, d := take(t, l, "a", 2)
	if n != 1 || d.Allowed {
		t.Errorf("%d of two admitted after SCRIPT FLUSH, the last %s; want the first", n, d)
	}
}

func lostExpiry(t *testing.T, server *redistest.Server) {
	const window = 2 * time.Second
	l := newLimiter(t, newStore(t, server), slidegate.Per(window, 3).Named("log"), slidegate.Per(window, 3).Counter().Named("counter"))
	take(t, l, "a", 3)
	keys := server.Keys()
	for _, key := range keys {
		server.Do("PERSIST", key)
	}
	redistest.Await(t, generous, "a request that is admitted", func() bool { return takeN(t, l, "a", 1).Allowed })
	for _, key := range keys {
		if l := life(server, key); l <= 0 || l > 2*window {
			t.Errorf("%s lives %s, and its window is %s", key, l, window)
		}
	}
	equal(t, "keys", len(keys), 2)
}

func expiriesInMilliseconds(t *testing.T, server *redistest.Server) {
	for _, window := range []time.Duration{250 * time.Millisecond, time.Second, time.Minute, 30 * 24 * time.Hour} {
		for windows, limit := range map[time.Duration]slidegate.Limit{1: slidegate.Per(window, 3), 2: slidegate.Per(window, 3).Counter()} {
			l := newLimiter(t, newStore(t, server), limit)
			var key string
			redistest.Await(t, generous, "a look at a key before it goes", func() bool {
				takeN(t, l, limit.String(), 1)
				keys := slices.DeleteFunc(server.Keys(), func(k string) bool { return !strings.Contains(k, "{"+limit.String()+"}") })
				if len(keys) == 1 {
					key = keys[0]
				}
				left := life(server, key)
				if left > windows*window || left == -time.Millisecond {
					t.Errorf("%s lives %s", key, left)
				}
				return left > 0
			})
		}
	}
}

func oneShotKeys(t *testing.T, server *redistest.Server) {
	l := newLimiter(t, newStore(t, server), slidegate.PerSecond(5), slidegate.PerSecond(5).Counter(), slidegate.PerSecond(5).WithResolution(100*time.Millisecond).Named("coarse"))
	for i := range 1000 {
		takeN(t, l, strconv.Itoa(i), 1)
	}
	redistest.Await(t, generous, "no key", func() bool { return server.Int("DBSIZE") == 0 })
	if last := takeN(t, l, "999", 1); last.Remaining() != 4 {
		t.Errorf("afterwards: %s, want 4 left", last)
	}
}

func refusalsAreNotStored(t *testing.T, server *redistest.Server) {
	l, clock := clocked(t, server, slidegate.Per(10*time.Second, 5))
	take(t, l, "a", 5)
	key := "slidegate:{a}:5/10s:10s"
	before := server.Text("DUMP", key)
	for second := range 10 {
		at(clock, float64(second))
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 100 {
					if ok, err := l.Allow(background, "a"); err != nil {
						t.Error(err)
					} else if !ok {
						refused.Add(1)
					}
				}
			})
		}
		wg.Wait()
		equal(t, "refused in second "+strconv.Itoa(second), refused.Load(), 10_000)
	}
	if after := server.Text("DUMP", key); after != before {
		t.Errorf("a hundred thousand refusals changed the value from %q to %q", before, after)
	}
	at(clock, 10)
	expect(t, "at 10 s", takeN(t, l, "a", 1), true, 0)
}

func instancesInTurn(t *testing.T, server *redistest.Server) {
	limit := slidegate.Per(30*time.Second, 1)
	nodes := []*slidegate.Limiter{newLimiter(t, newStore(t, server), limit), newLimiter(t, redisstore.New(throughGoredis(t, server.Addr), redisstore.WithTimeout(generous)), limit)}
	for i := range 30 {
		if d := takeN(t, nodes[i%2], "a", 1); d.Allowed != (i == 0) {
			t.Errorf("request %d: %s", i, d)
		}
	}
}

func processesAtOnce(t *testing.T, server *redistest.Server) {
	limit := slidegate.PerMinute(10)
	apps := []*app{startApp(t, server, "goredis", "", limit), startApp(t, server, "rueidis", "", limit)}
	equal(t, "admitted of two times 50 at once", admittedAtOnce(apps, 50, "a"), 10)
}

func oneInstant(t *testing.T, server *redistest.Server) {
	for cost, want := range map[int64]int64{1: 10, 3: 3} {
		l, _ := clocked(t, server, slidegate.PerMinute(10))
		key := "cost " + strconv.FormatInt(cost, 10)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				d, err := l.TakeN(background, key, cost)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			})
		}
		wg.Wait()
		equal(t, key+": admitted", admitted.Load(), want)
		equal(t, key+": units used", 10-left(t, l, key), want*cost)
	}
}

func hugeQuotas(t *testing.T, server *redistest.Server) {
	store := newStore(t, server)
	for _, quota := range []int64{9007199254740993, 4611686018427387904} {
		if _, err := slidegate.New(store, slidegate.PerMinute(quota)); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("a quota of %d: %v, want ErrInvalidLimit", quota, err)
		}
	}
	for _, limit := range []slidegate.Limit{slidegate.PerDay(slidegate.MaxQuota), slidegate.PerDay(slidegate.MaxQuota).Counter()} {
		l := newLimiter(t, store, limit)
		for _, cost := range []int64{1, 999_999_999_998} {
			before := left(t, l, "a")
			d := takeN(t, l, "a", cost)
			equal(t, limit.String()+": left", d.Remaining(), before-cost)
		}
		equal(t, limit.String()+": left in the end", left(t, l, "a"), 1)
	}
}

func refusedRequestsPayNothing(t *testing.T, server *redistest.Server) {
	l, clock := clocked(t, server, slidegate.PerMinute(1), slidegate.PerHour(10))
	admitted := 0
	for s := range 10 {
		at(clock, float64(s))
		n, _ := take(t, l, "a", 1)
		admitted += n
	}
	d := peek(t, l, "a")
	equal(t, "admitted, and left in the hour", []int64{int64(admitted), d.State(1).Remaining}, "[1 9]")
}

// stackedLimits looks at what two nodes admitted, in the time of the server.
func stackedLimits(t *testing.T, server *redistest.Server) {
	limits := []slidegate.Limit{slidegate.PerSecond(10), slidegate.PerMinute(50), slidegate.PerHour(60)}
	nodes := []*slidegate.Limiter{newLimiter(t, newStore(t, server), limits...), newLimiter(t, redisstore.New(throughGoredis(t, server.Addr), redisstore.WithTimeout(generous)), limits...)}
	var mu sync.Mutex
	var admitted []time.Time
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				d, err := nodes[i%2].Take(background, "a")
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					mu.Lock()
					defer mu.Unlock()
					admitted = append(admitted, d.At())
				}
			})
		}
		wg.Wait()
		<-tick.C
	}
	slices.SortFunc(admitted, time.Time.Compare)
	for i, limit := range limits {
		if most := mostWithin(admitted, limit.Window); most > limit.Quota {
			t.Errorf("%s held %d", limit, most)
		}
		d := peek(t, nodes[0], "a")
		charged := int64(0)
		for _, when := range admitted {
			if d.At().Sub(when) < limit.Window {
				charged++
			}
		}
		equal(t, limit.String()+": units charged", limit.Quota-d.State(i).Remaining, charged)
	}
	if len(admitted) < 20 {
		t.Errorf("only %d admitted in three seconds", len(admitted))
	}
}

// mostWithin returns how many of the times, in order, are within a window, wherever it begins.
func mostWithin(times []time.Time, window time.Duration) (most int64) {
	first := 0
	for i, when := range times {
		for when.Sub(times[first]) >= window {
			first++
		}
		most = max(most, int64(i-first+1))
	}
	return most
}

func quotaRaised(t *testing.T, server *redistest.Server) {
	l, clock := clocked(t, server, slidegate.PerMinute(5).Named("plan"))
	take(t, l, "a", 5)
	l, err := l.With(slidegate.PerMinute(10).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	at(clock, 1)
	if d := takeN(t, l, "a", 1); !d.Allowed || d.Remaining() != 4 {
		t.Errorf("after raising the quota: %s; want 4 left", d)
	}
}

func reserveAndSettle(t *testing.T, server *redistest.Server) {
	l, _ := clocked(t, server, slidegate.PerMinute(100))
	for _, s := range []struct{ reserve, actual, reserved, settled int64 }{{60, 20, 40, 80}, {50, 70, 30, 10}} {
		d := takeN(t, l, "a", s.reserve)
		equal(t, "left when reserved", left(t, l, "a"), s.reserved)
		if err := l.RefundN(background, &d, max(0, s.reserve-s.actual)); err != nil {
			t.Error(err)
		}
		if _, err := l.TakeUpTo(background, "a", max(0, s.actual-s.reserve)); err != nil {
			t.Error(err)
		}
		equal(t, "left when settled", left(t, l, "a"), s.settled)
	}
	expect(t, "20 of 10", takeN(t, l, "a", 20), false, time.Minute)
}

func refundOfNothing(t *testing.T, server *redistest.Server) {
	l, _ := clocked(t, server, slidegate.PerMinute(5))
	looked := peek(t, l, "a")
	for _, d := range []*slidegate.Decision{{}, nil, &looked} {
		refund(t, l, d)
	}
	equal(t, "left", left(t, l, "a"), 5)
	n, d := take(t, l, "a", 6)
	if n != 5 || d.Allowed {
		t.Errorf("%d of six admitted, the last %s", n, d)
	}
}
