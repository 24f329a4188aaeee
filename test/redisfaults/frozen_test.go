package redisfaults_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

// TestAFrozenNodeIsNotAll: of a cluster of which one node is frozen, the keys of the others are decided, however many
// ask for keys of that one.
func TestAFrozenNodeIsNotAll(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.With("cluster-require-full-coverage", "no"), redistest.With("cluster-node-timeout", "60000"))
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.connect(t, toCluster(cluster)))
			r.begin(t)
			node := cluster.OwnerOf(cluster.SlotOf("{" + key + "}"))
			well := map[string]bool{}
			for i := range 300 {
				k := strconv.Itoa(i)
				well[k] = cluster.OwnerOf(cluster.SlotOf("{"+k+"}")) != node
				r.Take(background, k)
			}
			node.Freeze()
			defer node.Thaw()
			var decided, failed atomic.Int64
			var all sync.WaitGroup
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for range 1000 {
				<-tick.C
				for range 4 {
					k := strconv.Itoa(rand.IntN(300))
					all.Go(func() {
						if _, err := r.Take(background, k); !well[k] {
						} else if err == nil {
							decided.Add(1)
						} else {
							failed.Add(1)
						}
					})
				}
			}
			all.Wait()
			if n := failed.Load(); n > decided.Load()/20 {
				t.Errorf("of the keys of nodes that are well %d were decided, %d were not; %+v", decided.Load(), n, r.store.Stats())
			}
		})
	}
}
