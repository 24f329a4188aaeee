package redistest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// TestACluster in all that it can do, on one, since it takes a while to start.
func TestACluster(t *testing.T) {
	c := redistest.Cluster(t, redistest.WithPassword("p"))
	keyOf := keysOfNodes(t, c)

	t.Run("HasAllSlots", func(t *testing.T) {
		if len(c.Nodes) != 3 || len(c.Addrs()) != 3 || len(keyOf) != 3 {
			t.Fatalf("%d nodes, %d of them with slots", len(c.Nodes), len(keyOf))
		}
		for s, key := range keyOf {
			s.Do("SET", key, "x")
			if got, want := refused(t, c.OtherThan(s), "GET", key), "MOVED "+strconv.Itoa(c.SlotOf(key))+" "+s.Addr; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if got := c.Keys(); len(got) != 3 {
			t.Errorf("keys %q", got)
		}
		c.Flush()
		if got := c.Keys(); len(got) != 0 {
			t.Errorf("keys %q after Flush", got)
		}
	})
	t.Run("KnowsTheSlotOfAKey", func(t *testing.T) {
		for _, key := range []string{"", "a", "123456789", "{a}b", "x{a}b{c}", "{}a", "{a", "a}b{c}", "{{a}}", "\x00\xff"} {
			if want := c.Nodes[0].Int("CLUSTER", "KEYSLOT", key); int64(c.SlotOf(key)) != want {
				t.Errorf("%q: %d, want %d", key, c.SlotOf(key), want)
			}
		}
	})
	t.Run("CountsCalls", func(t *testing.T) {
		c.ResetCalls()
		for s, key := range keyOf {
			s.Do("INCR", key)
		}
		if n := c.Calls()["incr"]; n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
	t.Run("MovesASlot", func(t *testing.T) {
		from := c.Nodes[0]
		key, to := keyOf[from], c.OtherThan(from)
		slot := c.SlotOf(key)
		from.Do("SET", key, "here")
		c.MoveSlot(slot, to)
		c.MoveSlot(slot, to) // it is there
		if got := to.Text("GET", key); got != "here" || c.OwnerOf(slot) != to {
			t.Errorf("got %q", got)
		}
		if got := refused(t, from, "GET", key); !strings.HasPrefix(got, "MOVED") {
			t.Error(got)
		}
	})
	t.Run("MovesHalfASlot", func(t *testing.T) {
		from := c.Nodes[1]
		tag := "{" + keyOf[from] + "}"
		from.Do("MSET", tag+"1", "x", tag+"2", "x")
		m := c.BeginMove(c.SlotOf(tag), c.OtherThan(from))
		m.Key(tag + "1")
		if got := from.Text("GET", tag+"2"); got != "x" {
			t.Errorf("what has not moved: %q", got)
		}
		if got := refused(t, from, "GET", tag+"1"); got != "ASK "+strconv.Itoa(c.SlotOf(tag))+" "+m.To.Addr {
			t.Error("what has moved:", got)
		}
		if got := refused(t, from, "MGET", tag+"1", tag+"2"); !strings.HasPrefix(got, "TRYAGAIN") && !strings.HasPrefix(got, "ASK") {
			t.Error("both:", got)
		}
		to, err := m.To.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		to.Do("ASKING")
		if got, err := to.Do("GET", tag+"1"); got != "x" || err != nil {
			t.Error("asked:", got, err)
		}
		m.Keys()
		m.End()
		if got := m.To.Do("MGET", tag+"1", tag+"2"); !slices.Equal(got.([]any), []any{"x", "x"}) {
			t.Errorf("in the end: %v", got)
		}
	})
	t.Run("HealsWhenANodeWasAway", func(t *testing.T) {
		c.Nodes[2].Kill()
		c.Nodes[2].Start()
		c.AwaitOK()
	})
}

// keysOfNodes returns a key for each node that has any.
func keysOfNodes(t *testing.T, c *redistest.RedisCluster) map[*redistest.Server]string {
	t.Helper()
	keys := map[*redistest.Server]string{}
	for i := 0; len(keys) < len(c.Nodes) && i < 1000; i++ {
		key := "key" + strconv.Itoa(i)
		keys[c.OwnerOf(c.SlotOf(key))] = key
	}
	return keys
}

func TestAReplicaHasWhatThePrimaryHas(t *testing.T) {
	p := redistest.PrimaryReplica(t, redistest.WithPassword("p"))
	p.Primary.Do("SET", "a", "1")
	p.AwaitSync()
	if got := p.Replica.Text("GET", "a"); got != "1" {
		t.Errorf("got %q", got)
	}
	if got := refused(t, p.Replica, "SET", "a", "2"); !strings.HasPrefix(got, "READONLY") {
		t.Error(got)
	}
}

func TestRolesSwap(t *testing.T) {
	p := redistest.PrimaryReplica(t)
	old := p.Primary
	p.Primary.Do("SET", "a", "1")
	p.AwaitSync()
	p.Swap()
	if p.Replica != old {
		t.Error("the old primary is not the replica")
	}
	if got := refused(t, old, "SET", "a", "2"); !strings.HasPrefix(got, "READONLY") {
		t.Error(got)
	}
	p.Primary.Do("APPEND", "a", "2")
	p.AwaitSync()
	if got := old.Text("GET", "a"); got != "12" {
		t.Errorf("got %q", got)
	}
}

func TestAReplicaIsPromotedOverADeadPrimary(t *testing.T) {
	p := redistest.PrimaryReplica(t)
	p.Primary.Do("SET", "a", "1")
	p.AwaitSync()
	p.Primary.Kill()
	p.Promote()
	p.Replica.Do("APPEND", "a", "2")
}

func TestASentinelPromotes(t *testing.T) {
	w := redistest.Sentinel(t, redistest.WithPassword("p"))
	w.Primary.Do("SET", "a", "1")
	w.AwaitSync()
	old := w.Primary
	t.Run("AtCommand", func(t *testing.T) {
		w.Failover()
		if w.Replica != old {
			t.Error("the old primary is not the replica")
		}
		if got := refused(t, old, "SET", "a", "2"); !strings.HasPrefix(got, "READONLY") {
			t.Error(got)
		}
	})
	t.Run("WhenThePrimaryDies", func(t *testing.T) {
		w.Primary.Kill()
		w.AwaitFailover()
		if w.Primary != old {
			t.Error("the old primary is not the primary again")
		}
		w.Primary.Do("APPEND", "a", "2")
		if got := w.Primary.Text("GET", "a"); got != "12" {
			t.Errorf("got %q", got)
		}
	})
}
