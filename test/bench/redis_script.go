package bench

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
)

// What our scripts take inside Redis is held against a sorted set. Both are asked over one connection, on a clock
// of the harness's, so that a log stays full while it slides.

// An Outcome is what a log answers. Times are in milliseconds.
type Outcome struct {
	Allowed                 bool
	Remaining, Retry, Reset int64
}

// A Scripted is a log in Redis, one for each key, that is asked at given times.
type Scripted struct {
	Take func(now time.Time, key string, cost int64) Outcome

	queue   *queue // if not nil it takes the commands, and outcomes mean nothing
	verdict int    // which number of a reply is odd where it admits
	stored  string // where the first limit of the key that was asked for last is
}

// run runs a script now, or queues it and returns a reply of so many numbers that admits.
func (s *Scripted) run(r *Redis, hash string, keys, args []string, size int) []int64 {
	s.stored = keys[0]
	command := append(append([]string{"EVALSHA", hash, strconv.Itoa(len(keys))}, keys...), args...)
	if s.queue == nil {
		return integers(must(r.logs.Do(command...)))
	}
	s.queue.add(command)
	reply := make([]int64, size)
	reply[0], reply[s.verdict] = 1, 1 // also a time that no store doubts
	return reply
}

func integers(reply any) []int64 {
	all, _ := reply.([]any)
	numbers := make([]int64, len(all))
	for i, n := range all {
		numbers[i], _ = n.(int64)
	}
	return numbers
}

// A queue sends many commands at once, so that a server finds the next when it is done with one.
type queue struct {
	bytes []byte
	n     int
}

func (q *queue) add(command []string) {
	q.n++
	q.bytes = fmt.Appendf(q.bytes, "*%d\r\n", len(command))
	for _, argument := range command {
		q.bytes = fmt.Appendf(q.bytes, "$%d\r\n%s\r\n", len(argument), argument)
	}
}

// flushQueue empties a queue and returns how many of its scripts admitted.
func (r *Redis) flushQueue(q *queue, verdict int) (admitted int) {
	if err := r.logs.SendRaw(q.bytes); err != nil {
		panic(err)
	}
	for range q.n {
		if integers(must(r.logs.Receive()))[verdict]%2 == 1 {
			admitted++
		}
	}
	q.bytes, q.n = q.bytes[:0], 0
	return admitted
}

// Ours returns our store on a Redis. An outcome is about the first limit, and the verdict about all.
func Ours(r *Redis, prefix string, limits ...slidegate.Limit) *Scripted {
	s := &Scripted{verdict: 1}
	client := &direct{redis: r, log: s, size: 1 + len(limits), hashes: map[*redisstore.Script]string{}}
	store := redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(time.Minute))
	limiter := slidegate.MustNew(store, limits...)
	s.Take = func(at time.Time, key string, cost int64) Outcome {
		client.now = at
		d := must(limiter.TakeN(context.Background(), key, cost))
		first := d.State(0)
		return Outcome{d.Allowed, first.Remaining, first.RetryIn.Milliseconds(), first.ResetIn.Milliseconds()}
	}
	return s
}

//go:embed sortedset.lua
var sortedSet string

// SortedSet returns a log in a sorted set.
func SortedSet(r *Redis, prefix string, limit slidegate.Limit) *Scripted {
	hash := r.load(sortedSet)
	quota, window := strconv.FormatInt(limit.Quota, 10), strconv.FormatInt(limit.Window.Milliseconds(), 10)
	s, request := &Scripted{}, int64(0)
	s.Take = func(at time.Time, key string, cost int64) Outcome {
		request++
		reply := s.run(r, hash, []string{prefix + ":{" + key + "}:" + limit.String()},
			append([]string{quota, window, strconv.FormatInt(cost, 10), strconv.FormatInt(request, 36)}, clock(at)...), 4)
		return Outcome{reply[0] == 1, reply[1], reply[2], reply[3]}
	}
	return s
}

// The clock of the harness is two arguments behind all others. A script that is put behind takeClock, with TIME
// replaced by hisClock, costs what it costs on the server's clock and more, and takes the time that it is told.
const (
	takeClock = "local microseconds, seconds = table.remove(ARGV), table.remove(ARGV)\n"
	hisClock  = "(redis.call('TIME') and {seconds, microseconds})"
)

// clock returns those arguments.
func clock(now time.Time) []string {
	return []string{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
}

// load lets the server know a script on the clock of the harness, and returns its hash.
func (r *Redis) load(source string) string {
	hash, _ := must(r.logs.Do("SCRIPT", "LOAD", takeClock+strings.ReplaceAll(source, "redis.call('TIME')", hisClock))).(string)
	return hash
}

// direct is a client of the store that asks over the connection of the harness.
type direct struct {
	redis  *Redis
	log    *Scripted
	size   int // of a reply
	now    time.Time
	hashes map[*redisstore.Script]string
}

// Run implements [redisstore.Client].
func (d *direct) Run(_ context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	hash, ok := d.hashes[s]
	if !ok {
		hash = d.redis.load(s.Source())
		d.hashes[s] = hash
	}
	return d.log.run(d.redis, hash, keys, slices.Concat(args, clock(d.now)), d.size), nil
}
