package rediscases

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

func sortedKeys(server *redistest.Server) string {
	keys := server.Keys()
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// TestKeysAreWhatTheyAreSaidToBe, to the byte: one for each limit, with the key in braces.
func TestKeysAreWhatTheyAreSaidToBe(t *testing.T) {
	server := redistest.Standalone(t)
	for _, c := range []struct {
		key     string
		options []redisstore.Option
		limits  []slidegate.Limit
		want    string
	}{
		{"user:42", nil, []slidegate.Limit{slidegate.PerSecond(10).Named("burst")}, "slidegate:{user:42}:burst:1s"},
		{"user:42", nil, []slidegate.Limit{slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(100).Named("sustained")},
			"slidegate:{user:42}:burst:1s slidegate:{user:42}:sustained:1m"},
		{"user:42", nil, []slidegate.Limit{slidegate.PerMinute(100)}, "slidegate:{user:42}:100/1m:1m"},
		{"user:42", nil, []slidegate.Limit{slidegate.PerMinute(100).Counter(), slidegate.Per(90*time.Second, 5).WithResolution(time.Second).Named("n")},
			"slidegate:{user:42}:100/1m,counter:1m,counter slidegate:{user:42}:n:90s"},
		{"user:42", []redisstore.Option{redisstore.WithPrefix("shop:eu")}, []slidegate.Limit{slidegate.PerDay(1).Counter().Named("plan")}, "shop:eu:{user:42}:plan:1d,counter"},
		{"a{b}", nil, []slidegate.Limit{slidegate.PerSecond(1).Named("n")}, "slidegate:{a{b%7D}:n:1s"},
		{"a_b_", nil, []slidegate.Limit{slidegate.PerSecond(1).Named("n")}, "slidegate:{a_b_}:n:1s"},
		{"100%", nil, []slidegate.Limit{slidegate.PerSecond(1).Named("n")}, "slidegate:{100%25}:n:1s"},
		{strings.Repeat("x", 201), nil, []slidegate.Limit{slidegate.PerSecond(1).Named("n")},
			"slidegate:{%sha256:84a0678c90937f5dcf9994d5866668da6b995109c8ad845410559b48a4ecafed}:n:1s"},
	} {
		server.Flush()
		take(t, newLimiter(t, newStore(t, server, c.options...), c.limits...), c.key, 1)
		equal(t, "keys", sortedKeys(server), c.want)
	}
}

// TestKeysWithBracesNeverMeet: two keys that differ have two states.
func TestKeysWithBracesNeverMeet(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), slidegate.PerHour(1))
	keys := []string{"a{b}", "a_b_", "a%7Bb%7D", "a{b%7D", "a{b", "a}b", "{a}", "}", "}a", "%7D", "%257D", strings.Repeat("}", 300), strings.Repeat("}", 301), "\x00", "\xff\n"}
	for _, key := range keys {
		if d := takeN(t, limiter, key, 1); !d.Allowed {
			t.Errorf("%q shares the state of another key", key)
		}
	}
	equal(t, "keys", len(server.Keys()), len(keys))
}

// TestAPrefixKeepsApart what else is equal, and a blank one or one with braces is refused.
func TestAPrefixKeepsApart(t *testing.T) {
	server := redistest.Standalone(t)
	for _, prefix := range []string{"one", "two"} {
		n, _ := take(t, newLimiter(t, newStore(t, server, redisstore.WithPrefix(prefix)), slidegate.PerHour(2)), "a", 3)
		equal(t, prefix+": admitted", n, 2)
	}
	for _, prefix := range []string{"", " ", "\t", "a{b", "a}b", "{}"} {
		_, err := slidegate.New(redisstore.New(new(fake), redisstore.WithPrefix(prefix)), slidegate.PerHour(2))
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), strconv.Quote(prefix)) || !strings.Contains(err.Error(), "allowed is") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// TestLimitersShareWhatIsEqual and nothing else: key, name, algorithm and window under one prefix.
func TestLimitersShareWhatIsEqual(t *testing.T) {
	server := redistest.Standalone(t)
	base := slidegate.PerHour(5).Named("n")
	take(t, newLimiter(t, newStore(t, server), base), "a", 2)
	for _, c := range []struct {
		what  string
		limit slidegate.Limit
		left  int64
	}{
		{"an equal limit of another store", base, 3},
		{"a larger quota", slidegate.PerHour(9).Named("n"), 7},
		{"a coarser resolution", base.WithResolution(time.Minute), 3},
		{"another name", base.Named("m"), 5},
		{"another window", slidegate.PerMinute(5).Named("n"), 5},
		{"another algorithm", base.Counter(), 5},
	} {
		equal(t, c.what, left(t, newLimiter(t, newStore(t, server), c.limit), "a"), c.left)
	}
}

// TestAKeyGoesWhenItsLimitIsFullAgain: the expiry is the time to the reset, set with the charge.
func TestAKeyGoesWhenItsLimitIsFullAgain(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server),
		slidegate.Per(800*time.Millisecond, 5).Named("short"), slidegate.PerHour(50).Named("long"),
		slidegate.PerHour(50).WithResolution(time.Minute).Named("coarse"), slidegate.PerHour(50).Counter().Named("counter"))
	for range 2 {
		d := takeN(t, limiter, "a", 3)
		for i := range d.Len() {
			s := d.State(i)
			key := fmt.Sprintf("slidegate:{a}:%s:1h", s.Limit.Name)
			if i == 0 {
				key = "slidegate:{a}:short:800ms"
			}
			if i == 3 {
				key += ",counter"
			}
			if l := life(server, key); l > s.ResetIn || l < s.ResetIn-10*time.Second && i > 0 {
				t.Errorf("%s lives %s, and the limit is full again in %s", key, l, s.ResetIn)
			}
		}
		redistest.Await(t, generous, "a key that goes", func() bool { return len(server.Keys()) == 3 })
		now := peek(t, limiter, "a")
		if after := now.At().Sub(d.At()); after < 800*time.Millisecond {
			t.Errorf("the key went %s after the charge, and the window is 800ms", after)
		}
	}
}

// TestRefusalsAndPeeksWriteNothing: the values stay as they are to the byte, and no expiry is moved.
func TestRefusalsAndPeeksWriteNothing(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), slidegate.PerHour(3).Named("log"), slidegate.PerDay(9).Named("long"), slidegate.PerDay(9).Counter().Named("counter"))
	take(t, limiter, "a", 3)
	before := map[string]string{}
	for _, key := range server.Keys() {
		before[key] = server.Text("DUMP", key)
		server.Do("PEXPIRE", key, "777000000") // whoever moves it sets another
	}
	for range 50 {
		if d := takeN(t, limiter, "a", 1); d.Allowed {
			t.Fatal("a fourth was admitted")
		}
		takeN(t, limiter, "a", 3)
		takeN(t, limiter, "a", 0)
		peek(t, limiter, "a")
	}
	for key, value := range before {
		if now := server.Text("DUMP", key); now != value {
			t.Errorf("%s was written: %q, then %q", key, value, now)
		}
		if l := life(server, key); l < 776_000*time.Second {
			t.Errorf("the expiry of %s was moved to %s", key, l)
		}
	}
	peek(t, limiter, "unseen")
	takeN(t, limiter, "unseen", 0)
	equal(t, "keys", len(server.Keys()), len(before))
}

// TestResetForgetsOneKeyInEveryLimit, and leaves others alone.
func TestResetForgetsOneKeyInEveryLimit(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), three...)
	take(t, limiter, "a", 1)
	take(t, limiter, "b", 1)
	if err := limiter.Reset(background, "a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "keys", sortedKeys(server), "slidegate:{b}:burst:1s slidegate:{b}:day:1d,counter slidegate:{b}:sustained:1m")
}

// TestIdleClientsLeaveNoKey, whatever their limits were, also where the clock was given.
func TestIdleClientsLeaveNoKey(t *testing.T) {
	server := redistest.Standalone(t)
	limits := []slidegate.Limit{slidegate.Per(200*time.Millisecond, 5), slidegate.Per(300*time.Millisecond, 5).Counter(), slidegate.Per(250*time.Millisecond, 5).WithResolution(50 * time.Millisecond).Named("coarse")}
	limiter := newLimiter(t, newStore(t, server), limits...)
	for i := range 200 {
		take(t, limiter, strconv.Itoa(i), 1)
	}
	redistest.Await(t, generous, "no key", func() bool { return server.Int("DBSIZE") == 0 })

	clock := gatetest.NewClock(time.UnixMilli(0))
	replay := newLimiter(t, newStore(t, server, redisstore.WithClock(clock.Now)), limits...)
	take(t, replay, "a", 1)
	for _, key := range server.Keys() {
		if l := life(server, key); l < 23*time.Hour || l > 26*time.Hour {
			t.Errorf("with a clock that was given %s lives %s, want a day", key, l)
		}
	}
}

// TestACounterIsOneValue that stays as small as it was, over windows and with any quota.
func TestACounterIsOneValue(t *testing.T) {
	server := redistest.Standalone(t)
	limiter, clock := clocked(t, server, slidegate.PerMinute(1_000_000).Counter().Named("n"))
	for range 40 {
		clock.Advance(20 * time.Second)
		takeN(t, limiter, "a", 250_000)
		equal(t, "keys", sortedKeys(server), "slidegate:{a}:n:1m,counter")
		if n := server.Int("MEMORY", "USAGE", "slidegate:{a}:n:1m,counter"); n > 100 {
			t.Fatalf("a counter takes %d bytes", n)
		}
	}
}

var memoryRow = regexp.MustCompile(`(?m)^\| a log of ([0-9 ]+) entr(?:y|ies) \| ([0-9 ]+) \|$`)

// TestTheMemoryOfALogFollowsWhatItHolds: no more than docs/redis.md says.
func TestTheMemoryOfALogFollowsWhatItHolds(t *testing.T) {
	server := redistest.Standalone(t)
	rows := memoryRow.FindAllStringSubmatch(readPage(t), -1)
	for _, row := range rows {
		entries, atMost := number(t, row[1]), number(t, row[2])
		rng := rand.New(rand.NewPCG(5, 6))
		limiter, clock := clocked(t, server, slidegate.PerHour(10_000).Named("n"))
		for range entries {
			clock.Advance(time.Duration(1+rng.Int64N(3_600_000/(entries+1))) * time.Millisecond)
			takeN(t, limiter, "a", 1)
		}
		equal(t, "units held", 10_000-left(t, limiter, "a"), entries)
		if n := server.Int("MEMORY", "USAGE", "slidegate:{a}:n:1h"); n > atMost {
			t.Errorf("a log of %d entries takes %d bytes, want at most %d", entries, n, atMost)
		}
		server.Flush()
	}
	if len(rows) < 5 {
		t.Errorf("the page has %d rows", len(rows))
	}
}

// number reads a number as the page has it, with blanks between thousands.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(text, " ", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestForeignValuesAreReplaced: what is not ours counts as nothing, the request is decided, an admitted
// charge replaces it, and the log says so without the key.
func TestForeignValuesAreReplaced(t *testing.T) {
	server := redistest.Standalone(t)
	limits := []slidegate.Limit{slidegate.PerHour(3).Named("n"), slidegate.PerHour(3).Counter().Named("n2")}
	keys := []string{"slidegate:{secret-name}:n:1h", "slidegate:{secret-name}:n2:1h,counter"}
	for what, garbage := range map[string][]string{
		"text": {"SET", "", "7"}, "nothing": {"SET", "", "\xf5"}, "much": {"SET", "", strings.Repeat("\xf5\x0a", 5000)}, "a log of nothing": {"SET", "", "\xf5\x09"},
		"a list": {"RPUSH", "", "1", "2"}, "a hash": {"HSET", "", "a", "1"}, "a sorted set": {"ZADD", "", "1", "a"},
	} {
		server.Flush()
		var log syncBuffer
		store := newStore(t, server, redisstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		limiter := newLimiter(t, store, limits...)
		for _, key := range keys {
			garbage[1] = key
			server.Do(garbage...)
		}
		before := server.Text("DUMP", keys[0])
		equal(t, what+": left", left(t, limiter, "secret-name"), 3)
		equal(t, what+": a peek changed it", server.Text("DUMP", keys[0]) != before, false)
		n, _ := take(t, limiter, "secret-name", 4)
		equal(t, what+": admitted, and replaced", []uint64{uint64(n), store.Stats().Replaced}, "[3 2]")
		for _, key := range keys {
			if l := life(server, key); l <= 0 {
				t.Errorf("%s: %s lives %s", what, key, l)
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "secret-name") {
			t.Errorf("%s: the log is %q", what, text)
		}
	}
}

// TestNewerValuesAreLeftAlone: the request is undecided, and nothing is written, not to the other limits
// either.
func TestNewerValuesAreLeftAlone(t *testing.T) {
	server := redistest.Standalone(t)
	store := newStore(t, server)
	limiter := newLimiter(t, store, slidegate.PerHour(3).Named("a"), slidegate.PerHour(3).Named("b"))
	d := takeN(t, limiter, "k", 1)
	key, other := "slidegate:{k}:b:1h", "slidegate:{k}:a:1h"
	value := server.Text("GET", key)
	newer := value[:1] + "\xff" + value[2:] // its second byte is the version
	server.Do("SET", key, newer, "KEEPTTL")
	before := server.Text("GET", other)
	_, taken := limiter.Take(background, "k")
	_, peeked := limiter.Peek(background, "k")
	for verb, err := range map[string]error{"take": taken, "peek": peeked, "refund": limiter.Refund(background, &d), "reset": limiter.Reset(background, "k")} {
		if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, redisstore.ErrNewerFormat) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	equal(t, "the newer value, and the other, are as they were", []bool{server.Text("GET", key) == newer, server.Text("GET", other) == before}, "[true true]")
	equal(t, "counted", store.Stats().Newer, 4)
}

// TestAnEvictedKeyIsAFullQuota, and only an evicted one.
func TestAnEvictedKeyIsAFullQuota(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), slidegate.PerHour(1))
	const clients = 2000
	for i := range clients {
		takeN(t, limiter, strconv.Itoa(i), 1)
	}
	used, err := strconv.Atoi(server.Info("memory")["used_memory"])
	if err != nil {
		t.Fatal(err)
	}
	server.Set("maxmemory-policy", "volatile-ttl")
	server.Set("maxmemory", strconv.Itoa(used-50_000))
	server.Do("SET", "x", "y") // whoever writes makes Redis look at its memory
	server.Set("maxmemory", "0")
	held := len(server.Keys()) - 1
	admitted := 0
	for i := range clients {
		n, _ := take(t, limiter, strconv.Itoa(i), 1)
		admitted += n
	}
	if held == clients || held == 0 {
		t.Fatalf("%d keys of %d are left, so this shows nothing", held, clients)
	}
	equal(t, "admitted again", admitted, clients-held)
}

// TestSavedStateGoesOn after a restart of Redis, and without a save every quota is full.
func TestSavedStateGoesOn(t *testing.T) {
	server := redistest.Standalone(t)
	long, short := slidegate.PerHour(5).Named("long"), slidegate.Per(50*time.Millisecond, 5).Named("short")
	ask := func() string {
		limiter := newLimiter(t, newStore(t, server), long, short)
		d := peek(t, limiter, "a")
		return fmt.Sprint(d.State(0).Remaining, d.State(1).Remaining)
	}
	take(t, newLimiter(t, newStore(t, server), long, short), "a", 3)
	server.StopAndSave()
	server.Start()
	redistest.Await(t, generous, "what has run out is gone", func() bool { return ask() == "2 5" })
	server.Restart()
	equal(t, "left without a save", ask(), "5 5")
}
