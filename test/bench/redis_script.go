package bench

import (
	"context"
	_ "embed"
	"strconv"
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
	Take   func(now time.Time, key string, cost int64) Outcome
	stored string // where the first limit of the key that was asked for last is
}

// Ours returns our store on a Redis. An outcome is about the first limit, and the verdict about all.
func Ours(r *Redis, prefix string, limits ...slidegate.Limit) *Scripted {
	s, now := &Scripted{}, time.Time{}
	store := redisstore.New(&direct{redis: r, log: s, hashes: map[*redisstore.Script]string{}},
		redisstore.WithPrefix(prefix), redisstore.WithTimeout(time.Minute), redisstore.WithClock(func() time.Time { return now }))
	limiter := slidegate.MustNew(store, limits...)
	s.Take = func(at time.Time, key string, cost int64) Outcome {
		now = at
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
		s.stored = prefix + ":{" + key + "}:" + limit.String()
		reply := r.run(hash, []string{s.stored},
			[]string{strconv.FormatInt(at.UnixMilli(), 10), quota, window, strconv.FormatInt(cost, 10), strconv.FormatInt(request, 36)})
		return Outcome{reply[0] == 1, reply[1], reply[2], reply[3]}
	}
	return s
}

// readClock is put before every script: where nobody injects a clock the server's is read, and that time counts.
const readClock = "do local t = redis.call('TIME'); local _ = t[1] * 1000 + math.floor(t[2] / 1000) end\n"

// load lets the server know a script that also reads the server's clock, and returns its hash.
func (r *Redis) load(source string) string {
	hash, _ := must(r.logs.Do("SCRIPT", "LOAD", readClock+source)).(string)
	return hash
}

func (r *Redis) run(hash string, keys, args []string) []int64 {
	command := append([]string{"EVALSHA", hash, strconv.Itoa(len(keys))}, keys...)
	all, _ := must(r.logs.Do(append(command, args...)...)).([]any)
	reply := make([]int64, len(all))
	for i, n := range all {
		reply[i], _ = n.(int64)
	}
	return reply
}

// direct is a client of the store that asks over the connection of the harness.
type direct struct {
	redis  *Redis
	log    *Scripted
	hashes map[*redisstore.Script]string
}

// Run implements [redisstore.Client].
func (d *direct) Run(_ context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	hash, ok := d.hashes[s]
	if !ok {
		hash = d.redis.load(s.Source())
		d.hashes[s] = hash
	}
	d.log.stored = keys[0]
	return d.redis.run(hash, keys, args), nil
}
