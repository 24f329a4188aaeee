package redisstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// A pair is one limiter in memory and one in Redis, on one clock.
type pair struct {
	clock  *gatetest.Clock
	both   [2]*slidegate.Limiter
	bills  [2][]slidegate.Decision
	random *rand.Rand
}

func newPair(t testing.TB, client redisstore.Client, seed uint64, limits ...slidegate.Limit) *pair {
	clock := gatetest.NewClock(time.UnixMilli(1_700_000_000_123))
	memory := memstore.New(memstore.WithClock(clock.Now))
	t.Cleanup(func() { memory.Close() })
	redis := redisstore.New(client, redisstore.WithClock(clock.Now), redisstore.WithTimeout(ample), redisstore.WithPrefix(fmt.Sprint("charges", seed)))
	return &pair{clock: clock, random: rand.New(rand.NewPCG(seed, 7)),
		both: [2]*slidegate.Limiter{slidegate.MustNew(memory, limits...), slidegate.MustNew(redis, limits...)}}
}

// step does one random thing to both.
func (p *pair) step(t testing.TB, most int64) {
	t.Helper()
	p.clock.Advance(time.Duration(p.random.Int64N(40)) * time.Millisecond)
	cost, refund, which := 1+p.random.Int64N(most), p.random.IntN(5) == 0, p.random.Int()
	for i, l := range p.both {
		if refund && len(p.bills[i]) > 0 {
			if err := l.Refund(background, &p.bills[i][which%len(p.bills[i])]); err != nil {
				t.Fatal(err)
			}
			continue
		}
		d, err := l.TakeN(background, "k", cost)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			p.bills[i] = append(p.bills[i], d)
		}
	}
}

func (p *pair) charges(t testing.TB, i, most int) [][]slidegate.Charge {
	t.Helper()
	all, err := p.both[i].Charges(background, "k", most)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// check holds what is listed in Redis to what is listed in memory, and both to what is used.
func (p *pair) check(t testing.TB) (entries int) {
	t.Helper()
	memory, redis := p.charges(t, 0, 1<<20), p.charges(t, 1, 1<<20)
	d, err := p.both[0].Peek(background, "k")
	if err != nil {
		t.Fatal(err)
	}
	for i := range memory {
		l := d.State(i).Limit
		if !slices.Equal(memory[i], redis[i]) {
			t.Fatalf("%s: %d in memory, %d in Redis:\n%v\n%v", l, len(memory[i]), len(redis[i]), memory[i], redis[i])
		}
		sum, now := int64(0), p.clock.Now().UnixMilli()
		for _, c := range memory[i] {
			sum += c.Units
			if l.Algorithm == slidegate.SlidingLog && now-c.At >= l.Window.Milliseconds() {
				t.Fatalf("%s: at %d a charge of %d is listed", l, now, c.At)
			}
		}
		if used := l.Quota - d.State(i).Remaining; l.Algorithm == slidegate.SlidingLog && sum != used {
			t.Fatalf("%s: %d units are listed, %d are used", l, sum, used)
		}
		if n := min(3, len(memory[i])); !slices.Equal(p.charges(t, 0, n)[i], memory[i][:n]) || !slices.Equal(p.charges(t, 1, n)[i], memory[i][:n]) {
			t.Fatalf("%s: the oldest %d are not those of the whole list", l, n)
		}
		entries = max(entries, len(memory[i]))
	}
	return entries
}

// TestChargesAreTheSameInMemoryAndInRedis, through every form that a log takes: one entry, few, small, pages that grow
// and drain, an idle window, refunds anywhere.
func TestChargesAreTheSameInMemoryAndInRedis(t *testing.T) {
	t.Parallel()
	client := connectGoRedis(t, redistest.Standalone(t).Addr)
	longest := 0
	for seed := range uint64(6) {
		window := []time.Duration{time.Second, 30 * time.Second, time.Hour}[seed%3]
		p := newPair(t, client, seed, slidegate.Per(window, 2_000_000).Named("log"),
			slidegate.Per(window, 1_000_000).Named("coarse").WithResolution(100*time.Millisecond), slidegate.Per(window, 1_000_000).Named("counter").Counter())
		for i := range 1500 {
			p.step(t, 1+int64(seed)*100)
			if i < 40 || i%97 == 0 {
				longest = max(longest, p.check(t))
			}
		}
		p.clock.Advance(window / 2)
		p.check(t)
		p.clock.Advance(2 * window)
		if n := p.check(t); n != 0 {
			t.Errorf("%d charges are listed two windows later", n)
		}
	}
	if longest < 500 {
		t.Errorf("no log was longer than %d", longest)
	}
}

// TestChargesOfWhatIsNotOurs: foreign values count as nothing, newer ones are not decided, and looking changes neither.
func TestChargesOfWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	limiter, store := limiterOn(t, connectRueidis(t, server.Addr), slidegate.PerMinute(5).Named("a"), redisstore.WithTimeout(ample))
	const key = "slidegate:{k}:a:1m"
	for _, set := range [][]string{
		{"SET", key, "hello"}, {"LPUSH", key, "x"}, {"SET", key, "\xf5\x0a" + string(make([]byte, 40))}, {"SET", key, "\xf5\x09\x00"},
		{"SET", key, "\xf5\x0b\x01\x01\x01"}, {"SET", key, "\xf5\x09\x00\x01\x8b\xcf\xe5\x68\x7b" + string(make([]byte, 18)) + "\xff"},
	} {
		server.Do("DEL", key)
		server.Do(set...)
		before, _ := json.Marshal(server.Do("DUMP", key))
		if all, err := limiter.Charges(background, "k", 10); err != nil || len(all) != 1 || len(all[0]) != 0 {
			t.Errorf("%q: %v, %v", set, all, err)
		}
		if after, _ := json.Marshal(server.Do("DUMP", key)); string(after) != string(before) {
			t.Errorf("%q: looking has changed it", set)
		}
	}
	server.Do("DEL", key)
	server.Do("SET", key, "\xf5\x10newer")
	if _, err := limiter.Charges(background, "k", 10); !errors.Is(err, redisstore.ErrNewerFormat) || store.Stats().Newer != 1 {
		t.Errorf("a newer value: %v", err)
	}
}
