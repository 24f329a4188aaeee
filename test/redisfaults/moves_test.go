package redisfaults_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestAFailoverIsHealed: a sentinel promotes the replica, at command, when the old primary answers
// READONLY, and when the primary dies.
func TestAFailoverIsHealed(t *testing.T) {
	for _, c := range []struct {
		name     string
		failover func(*redistest.Watched)
	}{
		{"AtCommand", func(w *redistest.Watched) { w.Failover() }},
		{"WhenThePrimaryDies", func(w *redistest.Watched) { w.Primary.Kill(); w.AwaitFailover() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, connect connect) {
				w := redistest.Sentinel(t)
				r := newRig(t, connect(t, target{addrs: []string{w.Sentinel.Addr}, master: w.Name}))
				r.begin(t)
				w.AwaitSync()
				var done atomic.Bool
				var callers sync.WaitGroup
				for range 4 {
					callers.Go(func() {
						for !done.Load() {
							r.takeFor(20*time.Millisecond, 1)
						}
					})
				}
				c.failover(w)
				done.Store(true)
				callers.Wait()
				r.awaitBack(t)
				r.check(t)
				if w.Primary.Calls()["evalsha"] == 0 {
					t.Error("the new primary was not asked")
				}
			})
		})
	}
}

// TestAnAddressThatMovesIsFollowed: the address of the primary leads to another server, while
// connections stay open to the old one, which answers READONLY.
func TestAnAddressThatMovesIsFollowed(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		pair := redistest.PrimaryReplica(t)
		proxy := redistest.NewProxy(t, pair.Primary.Addr)
		r := newRig(t, connect(t, through(proxy)))
		r.begin(t)
		pair.AwaitSync()
		pair.Swap()
		proxy.Retarget(pair.Primary.Addr)
		r.awaitBack(t)
		r.check(t)
		r.checkCharged(t)
	})
}

// TestASlotMayMove while its key is asked for, without an error, and nothing is charged twice.
func TestASlotMayMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			cluster.Flush()
			r := newRig(t, c.connect(t, toCluster(cluster)), redisstore.WithTimeout(generous))
			r.begin(t)
			var done atomic.Bool
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for !done.Load() {
						r.takeFor(20*time.Millisecond, 1)
					}
				})
			}
			slot := cluster.SlotOf("slidegate:{" + key + "}:")
			for range 3 {
				from := cluster.OwnerOf(slot)
				move := cluster.BeginMove(slot, cluster.OtherThan(from))
				r.takeFor(50*time.Millisecond, 2)
				move.Keys()
				r.takeFor(50*time.Millisecond, 2)
				move.End()
			}
			done.Store(true)
			callers.Wait()
			if r.failed != 0 {
				t.Errorf("%d errors, the last: %v", r.failed, r.cause)
			}
			if used := r.used(t); used != r.admitted {
				t.Errorf("%d units charged, %d admitted", used, r.admitted)
			}
		})
	}
}

// TestASlotMayBeHalfMoved: a new key of one limit is decided where it is going to live. Where limits
// are in two places, or new and several, Redis says TRYAGAIN until the slot has moved.
func TestASlotMayBeHalfMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			cluster.Flush()
			store := redisstore.New(c.connect(t, toCluster(cluster)), redisstore.WithTimeout(timeout))
			l := eightLimits(t, store)
			redistest.Await(t, backIn, "a decision", func() bool {
				_, err := l.Peek(background, key)
				return err == nil
			})
			_, err := l.Take(background, key)
			mustDo(t, err)
			slot := cluster.SlotOf("{" + key + "}")
			move := cluster.BeginMove(slot, cluster.OtherThan(cluster.OwnerOf(slot)))
			if d, err := l.Take(background, key); err != nil || !d.Allowed {
				t.Errorf("before any key has moved: %v, %v", d, err)
			}
			other := sameSlot(cluster, slot)
			one := slidegate.MustNew(store, slidegate.PerHour(3).Named("one"))
			if d, err := one.Take(background, other); err != nil || d.Remaining() != 2 {
				t.Errorf("a new key: %v, %v", d, err)
			}
			if d, err := l.Take(background, other); err == nil && d.Remaining() != 2 || err != nil && !isUnavailable(err) {
				t.Errorf("a new key of several limits: %v, %v", d, err)
			}
			for _, k := range move.From.Keys() {
				if strings.Contains(k, "counter") {
					move.Key(k)
				}
			}
			if d, err := l.Take(background, key); err == nil && d.Remaining() != 0 || err != nil && !isUnavailable(err) {
				t.Errorf("in two places: %v, %v", d, err)
			}
			move.Keys()
			move.End()
			redistest.Await(t, backIn, "a decision", func() bool {
				_, err := l.Peek(background, key)
				return err == nil
			})
			d, err := l.Peek(background, key)
			if err != nil || d.Remaining() > 1 {
				t.Errorf("in the end: %v, %v", d, err)
			}
		})
	}
}

// sameSlot returns another key of a slot.
func sameSlot(c *redistest.RedisCluster, slot int) string {
	for i := 0; ; i++ {
		if k := "key" + strconv.Itoa(i); c.SlotOf("{"+k+"}") == slot {
			return k
		}
	}
}

// TestANodeMayBeAway: keys of the others are decided as long as the cluster lets them, and all
// when the node is back.
func TestANodeMayBeAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.With("cluster-require-full-coverage", "no"))
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.connect(t, toCluster(cluster)))
			r.begin(t)
			owner := cluster.OwnerOf(cluster.SlotOf("slidegate:{" + key + "}:"))
			other := keyAt(cluster, cluster.OtherThan(owner))
			owner.Kill()
			r.takeFor(500*time.Millisecond, 8)
			if d, err := r.Take(background, other); err != nil || !d.Allowed {
				t.Errorf("a key of another node: %v, %v", d, err)
			}
			owner.Start()
			cluster.AwaitOK()
			r.awaitBack(t)
			r.check(t)
		})
	}
}

// keyAt returns a key that a node has.
func keyAt(c *redistest.RedisCluster, node *redistest.Server) string {
	for i := 0; ; i++ {
		if k := "key" + strconv.Itoa(i); c.OwnerOf(c.SlotOf("{"+k+"}")) == node {
			return k
		}
	}
}
