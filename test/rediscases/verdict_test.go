package rediscases

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

func succeeded(status int) bool { return status < 400 }

var onlyGoodUsers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("User"), "good") {
		w.WriteHeader(http.StatusUnauthorized)
	}
})

// one counts everybody under one key.
var one = httpgate.By(func(*http.Request) (string, error) { return "one", nil })

// throughBoth returns limiters of two stores on a server, one of each library, as two processes have them.
func throughBoth(t *testing.T, server *redistest.Server, limits ...slidegate.Limit) (two []*slidegate.Limiter) {
	for _, l := range libraries {
		store := redisstore.New(l.connect(t, server.Addr), redisstore.WithTimeout(generous))
		two = append(two, newLimiter(t, store, limits...))
	}
	return two
}

// TestRefundsOfManyAtOnce: gates of two processes give back their own charges, to the unit, in every limit.
func TestRefundsOfManyAtOnce(t *testing.T) {
	server := redistest.Standalone(t)
	two := throughBoth(t, server, slidegate.PerHour(100), slidegate.PerDay(100).Counter(), slidegate.PerHour(100).WithResolution(time.Minute).Named("coarse"))
	var gates []http.Handler
	for _, l := range two {
		gates = append(gates, httpgate.MustNew(l, one, httpgate.RefundIf(succeeded)).Wrap(onlyGoodUsers))
	}
	var wg sync.WaitGroup
	for i := range 70 {
		wg.Go(func() {
			user, want := "good", 200
			if i < 20 {
				user, want = "bad", 401
			}
			if w := get(gates[i%2], "/", user); w.Code != want {
				t.Errorf("%s got %d", user, w.Code)
			}
			if d := peek(t, two[i%2], "one"); d.Remaining() < 30 || d.Remaining() > 100 {
				t.Errorf("%s while requests are under way", d)
			}
		})
	}
	wg.Wait()
	d := peek(t, two[0], "one")
	equal(t, "left", []int64{d.State(0).Remaining, d.State(1).Remaining, d.State(2).Remaining}, "[80 80 80]")
}

// TestRefundForWhoHasHungUp, over a real connection.
func TestRefundForWhoHasHungUp(t *testing.T) {
	server := redistest.Standalone(t)
	l := throughBoth(t, server, slidegate.PerHour(1))[0]
	entered, done := make(chan struct{}), make(chan struct{})
	gate := httpgate.MustNew(l, one, httpgate.RefundIf(func(status int) bool { return status == http.StatusRequestTimeout })).
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
			w.WriteHeader(http.StatusRequestTimeout)
		}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		gate.ServeHTTP(w, r)
	}))
	defer srv.Close()
	ctx, hangUp := context.WithCancel(background)
	r, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	go func() {
		<-entered
		hangUp()
	}()
	if _, err := srv.Client().Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	<-done
	equal(t, "left", left(t, l, "one"), 1)
}

// TestSettlingOfManyAtOnce: whatever requests turn out to cost, what is charged is the quota between them, and what
// is said not to fit is the rest. The limit that has room for all of it has counted all of it.
func TestSettlingOfManyAtOnce(t *testing.T) {
	server := redistest.Standalone(t)
	var cost, unpaid atomic.Int64
	var gates []http.Handler
	two := throughBoth(t, server, slidegate.PerHour(1000), slidegate.PerDay(2000).Counter())
	for _, l := range two {
		gates = append(gates, httpgate.MustNew(l, one, httpgate.Settling(), httpgate.Cost(func(*http.Request) int64 { return 10 })).
			Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for _, n := range []int64{4, 30, 25, 41} { // the last one counts
					rest, err := httpgate.Settle(r.Context(), n)
					if err != nil {
						t.Error(err)
					}
					if n == 41 {
						cost.Add(n)
						unpaid.Add(rest)
					}
				}
			})))
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { get(gates[i%2], "/", "") })
	}
	wg.Wait()
	d := peek(t, two[0], "one")
	used, ofDay := 1000-d.State(0).Remaining, 2000-d.State(1).Remaining
	if used != cost.Load()-unpaid.Load() || ofDay != cost.Load() || unpaid.Load() == 0 {
		t.Errorf("%d and %d used, of a cost of %d, with %d unpaid", used, ofDay, cost.Load(), unpaid.Load())
	}
}

// TestBanOfAllProcesses: one process alone begins it, however many refuse at once, every process refuses until
// it ends, and any process can end it.
func TestBanOfAllProcesses(t *testing.T) {
	server := redistest.Standalone(t)
	clock := gatetest.NewClock(time.UnixMilli(0))
	var began, banned atomic.Int64
	var gates []*httpgate.Gate
	for _, through := range libraries {
		store := redisstore.New(through.connect(t, server.Addr), redisstore.WithTimeout(generous), redisstore.WithClock(clock.Now))
		gates = append(gates, httpgate.MustNew(newLimiter(t, store, slidegate.Per(10*time.Second, 1)), one,
			httpgate.Ban(slidegate.PerMinute(5), time.Hour),
			httpgate.Observe(func(e *httpgate.Event) {
				if e.BanBegan == time.Hour {
					began.Add(1)
				}
				if e.Banned {
					banned.Add(1)
				}
			})))
	}
	ask := func(i int) string {
		w := get(gates[i%2].Wrap(onlyGoodUsers), "/", "good")
		return fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))
	}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() { ask(i) })
	}
	wg.Wait()
	equal(t, "bans begun", began.Load(), 1)
	for i, at := range []float64{0, 1, 11, 1800, 3599.999} {
		clock.SetMilli(int64(at * 1000))
		before := banned.Load()
		equal(t, fmt.Sprint("at ", at), ask(i), fmt.Sprint("429 ", int64(3600-at+0.999)))
		equal(t, "told", banned.Load()-before, 1)
	}
	clock.SetMilli(3_600_000)
	equal(t, "when it is over", ask(0), "200 ")
	for i := range 5 {
		ask(i)
	}
	equal(t, "bans begun", began.Load(), 2)
	if err := gates[1].Unban(background, "one"); err != nil {
		t.Fatal(err)
	}
	clock.SetMilli(3_610_000)
	equal(t, "unbanned", ask(0), "200 ")
}

// TestBansLeaveNothingBehind: strikes and bans live until they are over, and each is a key in the slot of the key that
// is banned.
func TestBansLeaveNothingBehind(t *testing.T) {
	server := redistest.Standalone(t)
	l := throughBoth(t, server, slidegate.PerHour(1))[0]
	s := newSite(t, l, httpgate.Ban(slidegate.Per(time.Hour, 2).Named("login"), time.Hour))
	equal(t, "with one strike", s.codes(2, "a"), "200 429")
	equal(t, "keys", sortedKeys(server), "slidegate:{header:User:a}:1/1h:1h slidegate:{header:User:a}:strikes:login:1h")
	equal(t, "banned", s.codes(1, "a"), "429")
	keys := sortedKeys(server)
	if !strings.Contains(keys, "slidegate:{header:User:a}:ban:login:1h") || strings.Contains(keys, "strikes") {
		t.Errorf("keys %s", keys)
	}
	if ttl := server.Int("PTTL", "slidegate:{header:User:a}:ban:login:1h"); ttl <= 0 || ttl > 3_600_000 {
		t.Errorf("a ban of an hour lives for %d ms", ttl)
	}
	server.Flush()
	short := newSite(t, throughBoth(t, server, slidegate.Per(300*time.Millisecond, 1))[0], httpgate.Ban(slidegate.Per(200*time.Millisecond, 1), 200*time.Millisecond))
	short.codes(3, "b")
	redistest.Await(t, generous, "no key", func() bool { return server.Int("DBSIZE") == 0 })
}
