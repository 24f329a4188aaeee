package redisstore_test

import (
	"errors"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestALostAnswerIsChargedOnce: the connection is cut when the script has run, before its answer has come.
// The request is charged once, and nothing is sent again.
func TestALostAnswerIsChargedOnce(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, connect connector) {
		server := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, server.Addr)
		limiter, _ := limiterOn(t, connect(t, proxy.Addr), slidegate.PerHour(100), redisstore.WithTimeout(ample))
		if _, err := limiter.Take(background, "k"); err != nil {
			t.Fatal(err)
		}
		server.ResetCalls()
		const lost = 5
		for range lost {
			proxy.CutReply("evalsha", 1)
			if d, err := limiter.Take(background, "k"); !errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("an answer that was lost is %v, %v", d, err)
			}
		}
		if n := server.Calls()["evalsha"]; n != lost {
			t.Errorf("%d requests were sent %d times", lost, n)
		}
		if n := used(t, limiter, "k"); n != 1+lost {
			t.Errorf("%d requests are charged %d times", 1+lost, n)
		}
	})
}

// TestManyLostAnswersAreChargedOnce: callers go on while connections are cut under their folded calls.
// What was answered is charged; of the rest each is charged once or not at all.
func TestManyLostAnswersAreChargedOnce(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, connect connector) {
		server := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, server.Addr)
		limiter, store := limiterOn(t, connect(t, proxy.Addr), slidegate.PerHour(1_000_000), redisstore.WithTimeout(ample))
		const callers, each = 64, 40
		var wg sync.WaitGroup
		answered := make([]int64, callers)
		for i := range callers {
			wg.Go(func() {
				for j := range each {
					if i == 0 && j%4 == 0 {
						proxy.CutReply("evalsha", 1)
					}
					if _, err := limiter.Take(background, "k"); err == nil {
						answered[i]++
					}
				}
			})
		}
		wg.Wait()
		proxy.Pass()
		var sum int64
		for _, n := range answered {
			sum += n
		}
		answersAgain(t, limiter)
		if n := used(t, limiter, "k"); n < sum || n > callers*each || sum == callers*each {
			t.Errorf("%d requests, %d answered, %d charged", callers*each, sum, n)
		}
		calls := server.Calls()
		if st := store.Stats(); calls["evalsha"] > int64(st.Calls) || calls["eval"] > int64(2*abreast) {
			t.Errorf("%d calls of the store, the server ran %d EVALSHA and %d EVAL", st.Calls, calls["evalsha"], calls["eval"])
		}
	})
}

// abreast is how many calls of a plan may be under way, and find the script unknown, at a time.
const abreast = 4

// TestOneCallADecision of at most 300 bytes there and back, for one limit and a short key.
func TestOneCallADecision(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, connect connector) {
		server := redistest.Standalone(t)
		proxy := redistest.NewProxy(t, server.Addr)
		limiter, _ := limiterOn(t, connect(t, proxy.Addr), slidegate.PerMinute(100), redisstore.WithTimeout(ample))
		ask := func() {
			if _, err := limiter.Take(background, "user:42"); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		server.ResetCalls()
		before := proxy.Up() + proxy.Down()
		for range 50 {
			ask()
		}
		if n := (proxy.Up() + proxy.Down() - before) / 50; n > 300 {
			t.Errorf("a decision takes %d bytes", n)
		}
		if calls := server.Calls(); calls["evalsha"] != 50 || calls["eval"] != 0 {
			t.Errorf("50 decisions took %d EVALSHA and %d EVAL", calls["evalsha"], calls["eval"])
		}
	})
}

// TestTheClientStaysOpen when nobody uses the store any more.
func TestTheClientStaysOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer client.Close()
	limiter, _ := limiterOn(t, goredisstore.New(client), slidegate.PerMinute(100), redisstore.WithTimeout(ample))
	if _, err := limiter.Take(background, "k"); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(background).Err(); err != nil {
		t.Error(err)
	}
}

// TestARingIsRefused, and why.
func TestARingIsRefused(t *testing.T) {
	t.Parallel()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for _, client := range []goredis.UniversalClient{ring, nil, (*goredis.Client)(nil), (*goredis.ClusterClient)(nil)} {
		_, err := slidegate.New(redisstore.New(goredisstore.New(client)), slidegate.PerMinute(1))
		if !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("%T: %v", client, err)
		}
	}
	if _, err := slidegate.New(redisstore.New(rueidisstore.New(nil)), slidegate.PerMinute(1)); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a nil rueidis client: %v", err)
	}
}
