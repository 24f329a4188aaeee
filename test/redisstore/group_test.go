package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// loginOn returns the group of a login over a store: address, account, everybody.
func loginOn(t testing.TB, store slidegate.Store) *slidegate.Group {
	t.Helper()
	var limiters []*slidegate.Limiter
	for _, limit := range []slidegate.Limit{
		slidegate.PerHour(20).Named("address"), slidegate.PerHour(5).Counter().Named("account"), slidegate.PerHour(30).Named("everybody"),
	} {
		l, err := slidegate.New(store, limit)
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, l)
	}
	g, err := slidegate.NewGroup(limiters...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func takeGroup(t testing.TB, g *slidegate.Group, cost int64, keys ...string) slidegate.Decision {
	t.Helper()
	d, err := g.TakeN(background, cost, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSeveralKeysAreOneScript on a single server, whatever the keys and the verdict, and behind a circuit too.
func TestSeveralKeysAreOneScript(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	withEach(t, func(t *testing.T, connect connector) {
		server.Flush()
		store := redisstore.New(connect(t, server.Addr), redisstore.WithTimeout(ample))
		for _, g := range []*slidegate.Group{loginOn(t, store), loginOn(t, wrap.Circuit(store))} {
			takeGroup(t, g, 0, "first", "of", "all") // connects
			server.ResetCalls()
			d := takeGroup(t, g, 5, "203.0.113.7", "ann}", "all")
			refused := takeGroup(t, g, 1, "203.0.113.7", "ann}", "all")
			if err := g.Refund(background, &d); err != nil || refused.Allowed {
				t.Errorf("%s, %v", refused, err)
			}
			if n := server.Calls()["evalsha"]; n != 3 || !g.Atomic("203.0.113.7", "ann}", "all") {
				t.Errorf("a take, a refusal and a refund were %d scripts", n)
			}
		}
		d := takeGroup(t, loginOn(t, store), 0, "203.0.113.7", "ann}", "all")
		if d.State(0).Remaining != 20 || d.State(1).Remaining != 5 || d.State(2).Remaining != 30 {
			t.Errorf("after all was given back: %d, %d, %d are left", d.State(0).Remaining, d.State(1).Remaining, d.State(2).Remaining)
		}
	})
}

// sameSlot returns keys of one hash slot, and one of another.
func sameSlot(c *redistest.RedisCluster) (same []string, other string) {
	first := "key:0"
	same = []string{first}
	for i := 1; len(same) < 3 || other == ""; i++ {
		switch key := fmt.Sprint("key:", i); {
		case c.SlotOf(key) != c.SlotOf(first):
			other = key
		case len(same) < 3:
			same = append(same, key)
		}
	}
	return same, other
}

// TestSeveralKeysOnACluster are one script where they share a hash slot, and one for each limiter where they do not:
// then a refusal gives back what was charged.
func TestSeveralKeysOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	same, other := sameSlot(cluster)
	withEach(t, func(t *testing.T, connect connector) {
		cluster.Flush()
		g := loginOn(t, redisstore.New(connect(t, cluster.Addrs()...), redisstore.WithTimeout(ample)))
		for _, node := range []string{same[0], other, "a", "b", "c", "d", "e"} {
			takeGroup(t, g, 0, node, node, node) // connects
		}
		for _, c := range []struct {
			keys                   []string
			oneAct                 bool
			taken, refused, refund int64 // scripts
		}{
			{same, true, 1, 1, 1},
			{[]string{same[0], same[0], same[0]}, true, 1, 1, 1},
			{[]string{same[0], other, same[1]}, false, 3, 5, 3}, // refused by the second: two takes, one refund, two peeks
		} {
			cluster.Flush()
			if g.Atomic(c.keys...) != c.oneAct {
				t.Errorf("%q: Atomic says %v", c.keys, !c.oneAct)
			}
			cluster.ResetCalls()
			d := takeGroup(t, g, 5, c.keys...)
			taken := cluster.Calls()["evalsha"]
			refused := takeGroup(t, g, 1, c.keys...)
			afterRefusal := cluster.Calls()["evalsha"] - taken
			if !d.Allowed || refused.Allowed || taken != c.taken || afterRefusal != c.refused {
				t.Errorf("%q: %s, then %s, in %d and %d scripts", c.keys, d, refused, taken, afterRefusal)
			}
			if left := []int64{refused.State(0).Remaining, refused.State(1).Remaining, refused.State(2).Remaining}; !slices.Equal(left, []int64{15, 0, 25}) {
				t.Errorf("%q: after a refusal %d are left", c.keys, left)
			}
			if err := g.Refund(background, &d); err != nil {
				t.Fatal(err)
			}
			if n := cluster.Calls()["evalsha"] - taken - afterRefusal; n != c.refund || len(cluster.Keys()) != 0 {
				t.Errorf("%q: %d scripts to refund, and %q are left", c.keys, n, cluster.Keys())
			}
		}
	})
}

// TestSeveralKeysAreFolded with those who wait at the same time, and every answer finds its caller.
func TestSeveralKeysAreFolded(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	withEach(t, func(t *testing.T, connect connector) {
		server.Flush()
		store := redisstore.New(connect(t, server.Addr), redisstore.WithTimeout(ample))
		g := loginOn(t, store)
		var admitted atomic.Int64
		redistest.Await(t, ample, "folded decisions", func() bool {
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					address, account := fmt.Sprint("ip", i%3), fmt.Sprint("account", i%8)
					d := takeGroup(t, g, 1, address, account, "all")
					if d.KeyOf(0) != address || d.KeyOf(1) != account {
						t.Errorf("%s and %s got the answer to %s and %s", address, account, d.KeyOf(0), d.KeyOf(1))
					}
					if d.Allowed {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			return store.Stats().Folded > 0
		})
		if n := admitted.Load(); n != 30 {
			t.Errorf("%d were admitted, want everybody's 30", n)
		}
	})
}

// TestAGroupWithoutRedis is undecided, and no panic of a client that is given keys of several slots.
func TestAGroupWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	g := loginOn(t, redisstore.New(connectGoRedis(t, server.Addr)))
	takeGroup(t, g, 1, "a", "b", "c")
	server.Kill()
	if d, err := g.Take(background, "a", "b", "c"); !errors.Is(err, slidegate.ErrUnavailable) || d.Allowed {
		t.Errorf("%s, %v", d, err)
	}
}
