package redistest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16_384

// A RedisCluster is a cluster of three primaries without replicas, each of which has a third of the
// slots. Slots can be moved between them, or half moved.
type RedisCluster struct {
	Nodes []*Server

	t testing.TB
}

// Cluster starts a cluster and stops it when the test ends. It takes about three seconds, most of
// which a node waits before it trusts the others.
func Cluster(t testing.TB, options ...Option) *RedisCluster {
	t.Helper()
	c := &RedisCluster{t: t}
	options = append([]Option{With("cluster-enabled", "yes"), With("cluster-config-file", "nodes.conf"), With("cluster-node-timeout", "2000")}, options...)
	for range 3 {
		s := newServer(t, options...)
		withoutTLS(s)
		s.Start()
		c.Nodes = append(c.Nodes, s)
	}
	for i, s := range c.Nodes {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		s.Do(append([]string{"CLUSTER", "ADDSLOTS"}, slotsOf(i, len(c.Nodes))...)...)
		c.meet(s, c.Nodes[0])
	}
	c.AwaitOK()
	return c
}

// slotsOf returns the i-th of n equal parts of the slots.
func slotsOf(i, n int) []string {
	var slots []string
	for slot := i * Slots / n; slot < (i+1)*Slots/n; slot++ {
		slots = append(slots, strconv.Itoa(slot))
	}
	return slots
}

func (c *RedisCluster) meet(s, other *Server) {
	c.t.Helper()
	if s != other {
		s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port))
	}
}

// Addrs returns the addresses of the nodes.
func (c *RedisCluster) Addrs() []string {
	var all []string
	for _, s := range c.Nodes {
		all = append(all, s.Addr)
	}
	return all
}

// AwaitOK waits until every node serves and all agree on who has which slot.
func (c *RedisCluster) AwaitOK() {
	c.t.Helper()
	if poll(settleTime, c.agrees) {
		return
	}
	for _, s := range c.Nodes {
		nodes, err := s.Try("CLUSTER", "NODES")
		c.t.Logf("%s says %v, %v", s.Addr, nodes, err)
	}
	c.t.Fatalf("redistest: the nodes of the cluster do not agree within %s", settleTime)
}

func (c *RedisCluster) agrees() bool {
	first := c.owners(c.Nodes[0])
	for _, s := range c.Nodes {
		if !c.serves(s) || len(first) != len(c.Nodes) || !slices.Equal(c.owners(s), first) {
			return false
		}
	}
	return true
}

func (c *RedisCluster) serves(s *Server) bool {
	reply, err := s.Try("CLUSTER", "INFO")
	if err != nil {
		return false
	}
	text, _ := reply.(string)
	info := fields(text)
	return info["cluster_state"] == "ok" && info["cluster_slots_ok"] == strconv.Itoa(Slots) && info["cluster_known_nodes"] == strconv.Itoa(len(c.Nodes))
}

// owners returns who has which slots in the eyes of a node, in order.
func (c *RedisCluster) owners(s *Server) []string {
	reply, err := s.Try("CLUSTER", "NODES")
	if err != nil {
		return nil
	}
	text, _ := reply.(string)
	var all []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || f[7] != "connected" || strings.Contains(f[2], "handshake") || strings.Contains(f[2], "fail") {
			continue
		}
		slots := slices.DeleteFunc(f[8:], func(s string) bool { return s[0] == '[' }) // on its way
		all = append(all, f[0]+" "+strings.Join(slots, " "))
	}
	slices.Sort(all)
	return all
}

// SlotOf returns the slot of a key: CRC-16/XMODEM of what is between its first braces, or of all of it.
func (c *RedisCluster) SlotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc & 0x8000
			if crc <<= 1; carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % Slots
}

// OwnerOf returns the node that has a slot.
func (c *RedisCluster) OwnerOf(slot int) *Server {
	c.t.Helper()
	reply, _ := c.Nodes[0].Do("CLUSTER", "SLOTS").([]any)
	for _, r := range reply {
		part, _ := r.([]any) // first, last, [host, port, …], …
		first, _ := part[0].(int64)
		last, _ := part[1].(int64)
		if int64(slot) < first || int64(slot) > last {
			continue
		}
		primary, _ := part[2].([]any)
		for _, s := range c.Nodes {
			if primary[1] == int64(s.Port) {
				return s
			}
		}
	}
	c.t.Fatalf("redistest: nobody has slot %d", slot)
	return nil
}

// OtherThan returns a node that is not s.
func (c *RedisCluster) OtherThan(s *Server) *Server {
	return c.Nodes[(slices.Index(c.Nodes, s)+1)%len(c.Nodes)]
}

// MoveSlot moves a slot and its keys to a node. Clients that ask the old one are answered MOVED.
func (c *RedisCluster) MoveSlot(slot int, to *Server) {
	c.t.Helper()
	if c.OwnerOf(slot) == to {
		return
	}
	m := c.BeginMove(slot, to)
	m.Keys()
	m.End()
}

// A Move is a slot on its way from one node to another.
type Move struct {
	From, To *Server

	cluster *RedisCluster
	slot    string
}

// BeginMove begins to move a slot and moves no key yet. Until [Move.End] the old node has the slot,
// and answers ASK for keys that it does not have, new ones among them, and TRYAGAIN (before Redis 7
// ASK) where it has only some keys of a call.
func (c *RedisCluster) BeginMove(slot int, to *Server) *Move {
	c.t.Helper()
	m := &Move{From: c.OwnerOf(slot), To: to, cluster: c, slot: strconv.Itoa(slot)}
	to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", id(m.From))
	m.From.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", id(to))
	return m
}

func id(s *Server) string {
	s.t.Helper()
	return s.Text("CLUSTER", "MYID")
}

// Key moves one key.
func (m *Move) Key(key string) {
	m.cluster.t.Helper()
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.To.Port), key, "0", "5000"}
	if m.To.password != "" {
		args = append(args, "AUTH", m.To.password)
	}
	m.From.Do(args...)
}

// Keys moves every key that the slot has now.
func (m *Move) Keys() {
	m.cluster.t.Helper()
	keys, _ := m.From.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100000").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		m.Key(key)
	}
}

// End gives the slot to the new node, and returns when all nodes know.
func (m *Move) End() {
	m.cluster.t.Helper()
	owner := id(m.To)
	m.To.Do("CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	for _, s := range m.cluster.Nodes {
		if s != m.To {
			s.Do("CLUSTER", "SETSLOT", m.slot, "NODE", owner)
		}
	}
	m.cluster.AwaitOK()
}

// Flush removes every key of every node.
func (c *RedisCluster) Flush() {
	c.t.Helper()
	for _, s := range c.Nodes {
		s.Flush()
	}
}

// Calls is [Server.Calls] over all nodes.
func (c *RedisCluster) Calls() map[string]int64 {
	c.t.Helper()
	sum := map[string]int64{}
	for _, s := range c.Nodes {
		for command, n := range s.Calls() {
			sum[command] += n
		}
	}
	return sum
}

// ResetCalls begins counting anew at all nodes.
func (c *RedisCluster) ResetCalls() {
	c.t.Helper()
	for _, s := range c.Nodes {
		s.ResetCalls()
	}
}

// Keys returns every key of every node, in no order.
func (c *RedisCluster) Keys() []string {
	c.t.Helper()
	var all []string
	for _, s := range c.Nodes {
		all = append(all, s.Keys()...)
	}
	return all
}

// settleTime is how long servers may take to agree on who is who. A sentinel on a machine so busy that
// it does not trust its clock looks on for thirty seconds.
const settleTime = 60 * time.Second
