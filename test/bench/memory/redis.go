package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/test/bench"
)

// Sizes in Redis are measured with keys of fifteen bytes, such as user:1000000007.
const (
	redisEntries = 400_000 // in all keys together
	redisKeys    = 50_000  // at most
	connections  = 1000
)

// inRedis measures what a server needs for each key, and for each connection, beyond MEMORY USAGE: its tables are a part of it.
func inRedis() {
	r, err := bench.StartRedis()
	if err != nil {
		fatal(err)
	}
	defer r.Stop()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 1})
	defer client.Close()
	s := &redisMemory{addr: r.Addr, client: client}
	fmt.Printf("\n**redis**: bytes of Redis for each key, by used_memory and by MEMORY USAGE\n\n| | keys | used_memory | MEMORY USAGE |\n|---|--:|--:|--:|\n")
	s.keys("log, one charge", bench.RedisLog, 1)
	for _, n := range sizes[:3] {
		s.keys(fmt.Sprintf("log, %d charges", n), bench.RedisLog, n)
	}
	s.keys("counter", bench.RedisCounter, 1)
	fmt.Printf("\n**connections**: %d that have asked once\n\n| | |\n|---|--:|\n| bytes of Redis for each | %s |\n", connections, by(connections, s.connection()))
	for _, name := range []string{bench.RedisLog, bench.GoRedisLog} {
		fmt.Printf("| of a process of %d callers, %s | %d |\n", 256, name, s.ofOneProcess(name))
	}
}

// A redisMemory asks a server that does nothing else about its memory.
type redisMemory struct {
	addr   string
	client *redis.Client
}

func (s *redisMemory) info(section, field string) int64 {
	text, err := s.client.Info(context.Background(), section).Result()
	if err != nil {
		fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				fatal(err)
			}
			return n
		}
	}
	fatal(fmt.Errorf("INFO %s has no %s", section, field))
	return 0
}

func (s *redisMemory) contender(name string) bench.Limiter {
	for _, c := range bench.RedisContenders(func() string { return s.addr }) {
		if c.Name == name {
			return c.Open(1_000_000, 24*time.Hour)
		}
	}
	panic("memory: no contender " + name)
}

// keys charges each of many keys so many times, at times apart, and prints what that came to.
func (s *redisMemory) keys(name, contender string, charges int) {
	note("redis/%s", name)
	n := min(redisKeys, redisEntries/charges)
	s.client.FlushDB(context.Background())
	l := s.contender(contender)
	defer l.Close()
	l.Take("warm")
	before := s.info("memory", "used_memory")
	for range charges {
		crowd(64, func(i int) {
			for k := i; k < n; k += 64 {
				if v, _ := l.Take(bench.Key(k)); v != bench.Allowed {
					fatal(fmt.Errorf("%s: a key has no room", name))
				}
			}
		})
	}
	used, usage := s.info("memory", "used_memory")-before, int64(0)
	stored, err := s.client.Keys(context.Background(), "*"+bench.Key(n-1)+"*").Result()
	if err != nil {
		fatal(err)
	}
	for _, key := range stored {
		usage += s.client.MemoryUsage(context.Background(), key).Val()
	}
	fmt.Printf("| %s | %d | %s | %d |\n", name, n, by(n, used), usage)
}

// crowd runs f in so many goroutines.
func crowd(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// connection returns what many connections take, each of which has asked something and is open.
func (s *redisMemory) connection() int64 {
	before := s.info("memory", "used_memory")
	open := make([]net.Conn, 0, connections)
	for range connections {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			fatal(err)
		}
		open = append(open, c)
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			fatal(err)
		}
		if _, err := c.Read(make([]byte, len("+PONG\r\n"))); err != nil {
			fatal(err)
		}
	}
	used := s.info("memory", "used_memory") - before
	for _, c := range open {
		_ = c.Close()
	}
	return used
}

// ofOneProcess returns how many connections a client has opened for many callers.
func (s *redisMemory) ofOneProcess(name string) int64 {
	note("redis/connections/%s", name)
	before := s.info("clients", "connected_clients")
	l := s.contender(name)
	defer l.Close()
	crowd(256, func(i int) {
		for k := range 100 {
			l.Take(bench.Key(i + k))
		}
	})
	return s.info("clients", "connected_clients") - before
}
