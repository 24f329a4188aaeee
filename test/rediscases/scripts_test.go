package rediscases

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

// three limits, of both algorithms.
var three = []slidegate.Limit{slidegate.PerSecond(100).Named("burst"), slidegate.PerMinute(5).Named("sustained"), slidegate.PerDay(50).Counter().Named("day")}

// TestARequestIsOneScript: a client sends one EVALSHA for a decision and nothing else, but for the greeting
// of a connection, however many limits there are and whatever becomes of it; all that is read, weighed and written happens inside it.
func TestARequestIsOneScript(t *testing.T) {
	forEach(t, func(t *testing.T, through library) {
		server := redistest.Standalone(t)
		limiter := newLimiter(t, redisstore.New(through.connect(t, server.Addr), redisstore.WithTimeout(generous)), three...)
		s := newSite(t, limiter)
		s.get("b") // the connection is there, and the script
		watch, err := server.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		if _, err := watch.Do("MONITOR"); err != nil {
			t.Fatal(err)
		}
		equal(t, "statuses", s.codes(8, "a"), "200 200 200 200 200 429 429 429")
		server.Do("ECHO", "the end")
		sent, inside := 0, 0
		for {
			reply, err := watch.Receive()
			if err != nil {
				t.Fatal(err)
			}
			line, _ := reply.(string)
			switch {
			case strings.Contains(line, `"the end"`):
				if equal(t, "scripts for eight requests", sent, 8); inside < 3*sent {
					t.Errorf("%d commands inside of %d scripts with three limits", inside, sent)
				}
				return
			case strings.Contains(line, " lua] "):
				inside++
			case strings.Contains(strings.ToLower(line), `"evalsha"`):
				sent++
			case strings.Contains(line, `"HELLO"`), strings.Contains(line, `"CLIENT"`): // another connection
			default:
				t.Errorf("a client sent %s", line)
			}
		}
	})
}

// TestEveryVerbIsOneScript: a peek, a refund and a reset too.
func TestEveryVerbIsOneScript(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), three...)
	exercise := func() {
		d := takeN(t, limiter, "a", 2)
		refund(t, limiter, &d)
		peek(t, limiter, "a")
		if err := limiter.Reset(background, "a"); err != nil {
			t.Fatal(err)
		}
	}
	exercise()
	server.ResetCalls()
	exercise()
	calls := server.Calls()
	equal(t, "scripts for four verbs", calls["evalsha"], 4)
	equal(t, "scripts sent with their source", calls["eval"], 0)
}

// TestSourceIsSentOnlyWhenTheServerHasItNot: once to a new server, and once after SCRIPT FLUSH; nobody
// notices, and nobody is charged twice.
func TestSourceIsSentOnlyWhenTheServerHasItNot(t *testing.T) {
	forEach(t, func(t *testing.T, through library) {
		server := redistest.Standalone(t)
		s := newSite(t, newLimiter(t, redisstore.New(through.connect(t, server.Addr), redisstore.WithTimeout(generous)), slidegate.PerHour(5)))
		server.ResetCalls()
		equal(t, "two requests", s.codes(2, "a"), "200 200")
		equal(t, "sources sent", server.Calls()["eval"], 1)
		server.Do("SCRIPT", "FLUSH")
		equal(t, "after SCRIPT FLUSH", s.codes(4, "a"), "200 200 200 429")
		calls := server.Calls()
		equal(t, "sources sent", calls["eval"], 2)
		equal(t, "hashes sent", calls["evalsha"], 6)
		equal(t, "store errors", s.errors.Load(), 0)
	})
}

// TestSkippedAndImpossibleRequestsAskNobody: a request that is skipped, one whose cost can never fit
// and one of a plan without limits cause no command.
func TestSkippedAndImpossibleRequestsAskNobody(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), slidegate.PerMinute(3).Named("n"), slidegate.PerHour(9).Named("m"))
	costs := map[string]int64{"greedy": 4, "negative": -1}
	unlimited, blocked := slidegate.Unlimited(), slidegate.Blocked()
	s := newSite(t, limiter,
		httpgate.Skip(func(r *http.Request) bool { return r.Header.Get("User") == "skipped" }),
		httpgate.Cost(func(r *http.Request) int64 { return cmp.Or(costs[r.Header.Get("User")], 1) }),
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
			return map[string]*slidegate.Limiter{"unlimited": unlimited, "blocked": blocked}[r.Header.Get("User")]
		}))
	server.ResetCalls()
	for user, want := range map[string]int{"skipped": 200, "unlimited": 200, "greedy": 429, "negative": 429, "blocked": 429} {
		w := s.get(user)
		if w.Code != want || fields(w.Header()) != "" && user == "skipped" || w.Header().Get("Retry-After") != "" {
			t.Errorf("%s: %d with %q, want %d", user, w.Code, fields(w.Header()), want)
		}
	}
	for command, n := range server.Calls() {
		if strings.HasPrefix(command, "eval") {
			t.Errorf("%d times %s", n, command)
		}
	}
	equal(t, "keys", server.Keys(), "[]")
	equal(t, "store errors", s.errors.Load(), 0)
}

// ofRedis6 are the commands that the scripts use. All are in Redis 6.0 and in Valkey.
var ofRedis6 = []string{"del", "eval", "evalsha", "get", "getrange", "pexpire", "pexpireat", "psetex", "set", "setrange", "strlen", "time"}

// TestCommandsAreThoseOfRedis6 and of Valkey, whatever the scripts are asked.
func TestCommandsAreThoseOfRedis6(t *testing.T) {
	server := redistest.Standalone(t)
	rng := rand.New(rand.NewPCG(3, 4))
	server.ResetCalls()
	for _, options := range [][]redisstore.Option{nil, {redisstore.WithClock(gatetest.NewClock(time.UnixMilli(0)).Now)}} {
		limiter := newLimiter(t, newStore(t, server, options...),
			slidegate.PerHour(5000).Named("log"), slidegate.PerHour(5000).WithResolution(time.Second).Named("coarse"), slidegate.PerHour(5000).Counter().Named("counter"))
		var receipts []slidegate.Decision
		for range 1500 {
			receipts = append(receipts, takeN(t, limiter, "a", 1+rng.Int64N(5)))
		}
		for range 300 {
			refund(t, limiter, &receipts[rng.IntN(len(receipts))])
		}
		peek(t, limiter, "a")
		if err := limiter.Reset(background, "a"); err != nil {
			t.Fatal(err)
		}
	}
	others := []string{"client", "cluster", "command", "config", "hello", "info", "ping"} // of libraries, and this test's own
	for _, command := range slices.Sorted(maps.Keys(server.Calls())) {
		whole, _, _ := strings.Cut(command, "|")
		if !slices.Contains(ofRedis6, command) && !slices.Contains(others, whole) {
			t.Errorf("%s is used", command)
		}
	}
}

// A fake is a client without a server.
type fake struct {
	calls  atomic.Int64
	script *redisstore.Script
	keys   []string
	args   []string
}

func (f *fake) Run(_ context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	f.calls.Add(1)
	f.script, f.keys, f.args = s, slices.Clone(keys), slices.Clone(args)
	if s.Name() != "take" {
		return []int64{42, 1}, nil
	}
	return []int64{42, 256*1 + 1}, nil // admitted at 42 ms, as the first unit
}

// TestAnyClientWillDo that has the one method, and it is asked once for a request.
func TestAnyClientWillDo(t *testing.T) {
	f := new(fake)
	limiter := newLimiter(t, redisstore.New(f), slidegate.PerMinute(3))
	n, d := take(t, limiter, "a", 2)
	if n != 2 || !d.At().Equal(time.UnixMilli(42)) || d.Remaining() != 2 {
		t.Errorf("%d admitted, %s at %s; want two, and what the client said", n, d, d.At())
	}
	equal(t, "calls", f.calls.Load(), 2)
	equal(t, "keys", f.keys, "[slidegate:{a}:3/1m:1m]")
	equal(t, "the script", f.script.Name(), "take")
}

// TestTheProcessClockIsNotSent unless it was given: the server then reads its own, in the script.
func TestTheProcessClockIsNotSent(t *testing.T) {
	f := new(fake)
	take(t, newLimiter(t, redisstore.New(f), slidegate.PerMinute(3)), "a", 1)
	equal(t, "what is sent without a clock", strings.Join(f.args, " "), "tl 3 60000")
	asked := 0
	clock := func() time.Time { asked++; return time.UnixMilli(1234) }
	take(t, newLimiter(t, redisstore.New(f, redisstore.WithClock(clock)), slidegate.PerMinute(3)), "a", 1)
	equal(t, "what is sent with one, and how often it is asked", strings.Join(f.args, " ")+" "+strings.Repeat("once", asked), "Tl 3 60000 1234 once")
}

// TestTheUsersClientStaysOpen: a store never closes it.
func TestTheUsersClientStaysOpen(t *testing.T) {
	server := redistest.Standalone(t)
	theirs := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer theirs.Close()
	also, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer also.Close()
	for _, client := range []redisstore.Client{goredisstore.New(theirs), rueidisstore.New(also)} {
		store := redisstore.New(client)
		if _, ok := any(store).(interface{ Close() error }); ok {
			t.Error("a store can be closed")
		}
		take(t, newLimiter(t, store, slidegate.PerMinute(3)), "a", 1)
	}
	if err := theirs.Ping(background).Err(); err != nil {
		t.Errorf("go-redis: %v", err)
	}
	if err := also.Do(background, also.B().Ping().Build()).Error(); err != nil {
		t.Errorf("rueidis: %v", err)
	}
}

// TestAWindowOfManyCallersIsExact: fifty at once, again and again on new keys, folded or not.
func TestAWindowOfManyCallersIsExact(t *testing.T) {
	server := redistest.Standalone(t)
	for _, folding := range []int{1, redisstore.DefaultFolding} {
		limiter := newLimiter(t, newStore(t, server, redisstore.WithFolding(folding)), slidegate.PerHour(7))
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if ok, err := limiter.Allow(background, key); err != nil {
						t.Error(err)
					} else if ok {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			equal(t, "admitted of 50 at once", admitted.Load(), 7)
		}
		server.Flush()
	}
}

// TestNilAndRingClientsAreRefused when the limiter is built, with a reason.
func TestNilAndRingClientsAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for what, client := range map[string]redisstore.Client{"nil": nil, "a nil go-redis client": goredisstore.New(nil), "a nil rueidis client": rueidisstore.New(nil), "a ring": goredisstore.New(ring)} {
		_, err := slidegate.New(redisstore.New(client), slidegate.PerMinute(1))
		if !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("%s: %v, want ErrInvalidLimit", what, err)
		}
	}
}
