package rediscases

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestAClusterKeepsAllLimitsOfAClientTogether: every key of a client is in one slot, and clients are
// spread over the nodes.
func TestAClusterKeepsAllLimitsOfAClientTogether(t *testing.T) {
	cluster := redistest.Cluster(t)
	forEach(t, func(t *testing.T, through library) {
		cluster.Flush()
		store := redisstore.New(through.connect(t, cluster.Addrs()...), redisstore.WithTimeout(generous))
		s := newSite(t, newLimiter(t, store, three...))
		var clients sync.WaitGroup
		for i := range 50 {
			clients.Go(func() {
				equal(t, "six requests of a client", s.codes(6, "client "+strconv.Itoa(i)), "200 200 200 200 200 429")
			})
		}
		clients.Wait()
		equal(t, "store errors", s.errors.Load(), 0)
		for i := range 50 {
			key := fmt.Sprintf("slidegate:{header:User:client %d}", i)
			slot := cluster.SlotOf(key + ":burst:1s")
			if cluster.SlotOf(key+":sustained:1m") != slot || cluster.SlotOf(key+":day:1d,counter") != slot {
				t.Errorf("the keys of client %d are in several slots", i)
			}
		}
		for _, node := range cluster.Nodes {
			if len(node.Keys()) == 0 {
				t.Error("a node has no key: the clients are not spread")
			}
		}
	})
}

// clusterOfOne starts a single server that is a whole cluster.
func clusterOfOne(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Standalone(t, redistest.With("cluster-enabled", "yes"), redistest.With("cluster-config-file", "nodes.conf"))
	slots := make([]string, redistest.Slots)
	for i := range slots {
		slots[i] = strconv.Itoa(i)
	}
	server.Do(append([]string{"CLUSTER", "ADDSLOTS"}, slots...)...)
	redistest.Await(t, generous, "a cluster that serves", func() bool {
		_, err := server.Try("GET", "x")
		return err == nil
	})
	return server
}
