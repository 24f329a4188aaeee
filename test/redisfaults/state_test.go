package redisfaults_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestNoKeyOutlivesItsUse: every key that is written has an expiry, and it is the moment from which on
// its limit is full again, whatever wrote it last.
func TestNoKeyOutlivesItsUse(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)),
			slidegate.PerMinute(1000).Named("log"), slidegate.PerHour(1000).Named("coarse").WithResolution(time.Minute),
			slidegate.PerMinute(1000).Named("minute").Counter(), slidegate.PerDay(1_000_000).Named("day").Counter())
		random := rand.New(rand.NewPCG(1, 2))
		var held []slidegate.Decision
		for step := range 400 {
			key := "key" + strconv.Itoa(random.IntN(4))
			switch {
			case len(held) > 0 && random.IntN(4) == 0:
				i := random.IntN(len(held))
				key = held[i].Key()
				mustDo(t, l.Refund(background, &held[i]))
				held = append(held[:i], held[i+1:]...)
			case random.IntN(50) == 0:
				mustDo(t, l.Reset(background, key))
			default:
				d, err := l.TakeN(background, key, 1+random.Int64N(5))
				mustDo(t, err)
				held = append(held, d)
			}
			checkExpiries(t, server, l, step, key)
		}
	})
}

// checkExpiries compares the expiries of a key's limits with their resets.
func checkExpiries(t testing.TB, server *redistest.Server, l *slidegate.Limiter, step int, key string) {
	t.Helper()
	d, err := l.Peek(background, key)
	mustDo(t, err)
	for i := range d.Len() {
		s := d.State(i)
		name, _, _ := strings.Cut(s.Limit.String(), "=")
		stored := "slidegate:{" + key + "}:" + name + ":" + windowOf(s.Limit)
		full := d.At().Add(s.ResetIn).UnixMilli()
		left, gone := expiry(t, server, stored)
		const tolerance = 250 // milliseconds of a busy machine between two readings of its clock
		switch {
		case left == -2 && s.ResetIn == 0:
		case left == -2:
			t.Errorf("step %d: %s is not there, and full again in %s", step, stored, s.ResetIn)
		case left == -1:
			t.Errorf("step %d: %s has no expiry", step, stored)
		case gone < full-1: // a key is there for the whole of its last millisecond
			t.Errorf("step %d: %s goes %d ms before its limit is full", step, stored, full-gone)
		case gone > full+tolerance:
			t.Errorf("step %d: %s goes %d ms after its limit is full", step, stored, gone-full)
		}
	}
}

func windowOf(l slidegate.Limit) string {
	_, text, _ := strings.Cut(l.String(), "/")
	window, options, _ := strings.Cut(text, ",")
	if strings.HasPrefix(options, "counter") {
		return window + ",counter"
	}
	return window
}

// expiry returns the milliseconds that a key has left (-1 for ever, -2 if it is not there), and
// when it goes by the clock of the server, or a little later where the machine is busy.
func expiry(t testing.TB, server *redistest.Server, stored string) (left, gone int64) {
	t.Helper()
	reply := server.Do("EVAL", "local left = redis.call('PTTL', KEYS[1]) local t = redis.call('TIME') return {left, t[1] * 1000 + math.floor(t[2] / 1000)}", "1", stored).([]any)
	left = reply[0].(int64)
	return left, left + reply[1].(int64)
}

// TestNothingStaysWhenTimeHasPassed: no key, after the longest window.
func TestNothingStaysWhenTimeHasPassed(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		const window = 300 * time.Millisecond
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)),
			slidegate.Per(window, 100), slidegate.Per(window, 100).Named("coarse").WithResolution(window/3), slidegate.Per(window, 100).Counter())
		for i := range 300 {
			_, err := l.TakeN(background, strconv.Itoa(i%30), 7)
			mustDo(t, err)
		}
		redistest.Await(t, 2*window+slack, "an empty server", func() bool { return server.Int("DBSIZE") == 0 })
	})
}

// TestAnInjectedClockNeverExpires anything that could matter: keys live for a day at least.
func TestAnInjectedClockNeverExpires(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		clock := func() time.Time { return time.UnixMilli(1_000_000_007) }
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous), redisstore.WithClock(clock)),
			slidegate.PerSecond(10), slidegate.PerSecond(10).Counter())
		d, err := l.Take(background, key)
		mustDo(t, err)
		for _, stored := range server.Keys() {
			if left, _ := expiry(t, server, stored); left < 24*time.Hour.Milliseconds() || left > 48*time.Hour.Milliseconds() {
				t.Errorf("%s has %s left", stored, time.Duration(left)*time.Millisecond)
			}
		}
		mustDo(t, l.Refund(background, &d))
		if n := server.Int("DBSIZE"); n != 0 {
			t.Errorf("%d keys after a refund of everything", n)
		}
	})
}

// TestKeysOfAnyBytesAreApart: ten thousand of them, with every byte and what escaping could confuse.
func TestKeysOfAnyBytesAreApart(t *testing.T) {
	keys := strangeKeys(10_000)
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		l := slidegate.MustNew(redisstore.New(connect(t, to(server)), redisstore.WithTimeout(generous)),
			slidegate.PerHour(10).Named("a:b}:{c"), slidegate.PerHour(10).Counter())
		cost := func(i int) int64 { return 1 + int64(i%9) }
		concurrently(t, keys, func(i int, key string) {
			if d, err := l.TakeN(background, key, cost(i)); err != nil || d.Remaining() != 10-cost(i) {
				t.Errorf("key %d of %d bytes: %v, %v", i, len(key), d, err)
			}
		})
		if n := server.Int("DBSIZE"); n != int64(2*len(keys)) {
			t.Errorf("%d keys stored, want %d", n, 2*len(keys))
		}
		concurrently(t, keys, func(i int, key string) {
			if d, err := l.Peek(background, key); err != nil || d.Remaining() != 10-cost(i) {
				t.Errorf("key %d of %d bytes, afterwards: %v, %v", i, len(key), d, err)
			}
			if err := l.Reset(background, key); err != nil {
				t.Error(err)
			}
		})
		if n := server.Int("DBSIZE"); n != 0 {
			t.Errorf("%d keys stored after the reset", n)
		}
	})
}

// TestKeysOfAnyBytesStayInOneSlot with all their limits: a cluster refuses a call that touches two.
func TestKeysOfAnyBytesStayInOneSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	keys := strangeKeys(2000)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			cluster.Flush()
			l := eightLimits(t, redisstore.New(c.connect(t, toCluster(cluster)), redisstore.WithTimeout(generous)))
			concurrently(t, keys, func(i int, key string) {
				if d, err := l.Take(background, key); err != nil || d.Remaining() != 2 {
					t.Errorf("key %d of %d bytes: %v, %v", i, len(key), d, err)
				}
			})
		})
	}
}

// concurrently calls f for every key, sixteen at a time.
func concurrently(t testing.TB, keys []string, f func(i int, key string)) {
	t.Helper()
	const callers = 16
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < len(keys) && !t.Failed(); i += callers {
				f(i, keys[i])
			}
		})
	}
	all.Wait()
}

// strangeKeys returns n different keys, always the same, in no order.
func strangeKeys(n int) []string {
	set := map[string]bool{}
	for b := range 256 {
		set[string([]byte{byte(b)})] = true
		set["user:"+string([]byte{byte(b)})+":42"] = true
	}
	for _, k := range []string{"%", "%%", "%25", "%2525", "}", "}}", "%7D", "%7d", "%257D", "{", "{}", "{}}", "}{", "a}b", "a%7Db", "a%257Db",
		"}:b:1h", "x}:a:b}:{c:1h", " ", "\x00", "\r\n", "*", "\xff\xfe", strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("}", 67), strings.Repeat("%", 5000)} {
		set[k] = true
	}
	for _, long := range []string{strings.Repeat("x", 201), strings.Repeat("%", 5000)} {
		sum := sha256.Sum256([]byte(long))
		set["%sha256:"+hex.EncodeToString(sum[:])] = true
		set["sha256:"+hex.EncodeToString(sum[:])] = true
	}
	random := rand.New(rand.NewPCG(3, 4))
	for len(set) < n {
		key := make([]byte, 1+random.IntN(40))
		if random.IntN(20) == 0 {
			key = make([]byte, 150+random.IntN(150))
		}
		for i := range key {
			key[i] = byte(random.IntN(256))
		}
		set[string(key)] = true
	}
	keys := make([]string, 0, n)
	for k := range set {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}
