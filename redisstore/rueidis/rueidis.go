// Package rueidis lets a redisstore ask Redis through github.com/redis/rueidis, which sends the commands
// of many callers down one connection.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
//	...
//	store := redisstore.New(rueidisstore.New(client))
//
// rueidis.NewClient fails while Redis is down; [Lazy] is for a program that may start before Redis does.
//
// rueidis repeats only commands that are marked for it, and those of this adapter are not: a script
// whose answer is lost may have run. Where a cluster says MOVED or ASK they are sent on, for the node
// that says so has not run them. Leave ConnLifetime unset: rueidis repeats every command that it was waiting for
// when a connection at the end of its lifetime breaks.
package rueidis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/redisstore"
)

// New adapts a rueidis client of one server, of sentinels or of a cluster. It never closes the client.
func New(client rueidis.Client) redisstore.Client { return &adapter{client: client} }

type adapter struct {
	client rueidis.Client
	left   atomic.Int64 // when connections were last ended, in nanoseconds since the Unix epoch
}

// Check implements [redisstore.CheckedClient].
func (a *adapter) Check() error {
	if a.client == nil {
		return errors.New("the rueidis client is nil")
	}
	return nil
}

// Clustered implements [redisstore.ClusterClient].
func (a *adapter) Clustered() bool { return a.client.Mode() == rueidis.ClientModeCluster }

// Prompt implements [redisstore.PromptClient].
func (a *adapter) Prompt() bool { return true }

// Run implements [redisstore.Client].
func (a *adapter) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	reply := a.send(ctx, keys, args, "EVALSHA", s.Hash(), strconv.Itoa(len(keys)))
	if err, ok := rueidis.IsRedisErr(reply.Error()); ok && err.IsNoScript() {
		reply = a.send(ctx, keys, args, "EVAL", s.Source(), strconv.Itoa(len(keys)))
	}
	if err, ok := rueidis.IsRedisErr(reply.Error()); ok && strings.Contains(err.Error(), "READONLY") {
		a.leave(ctx)
	}
	return integers(reply)
}

// integers reads a reply. AsIntSlice would take what is no integer for 0.
func integers(reply rueidis.RedisResult) ([]int64, error) {
	values, err := reply.ToArray()
	all := make([]int64, len(values))
	for i := 0; i < len(values) && err == nil; i++ {
		all[i], err = values[i].ToInt64()
	}
	return all, err
}

func (a *adapter) send(ctx context.Context, keys, args []string, command ...string) rueidis.RedisResult {
	return a.client.Do(ctx, a.client.B().Arbitrary(command...).Keys(keys...).Args(args...).Build())
}

// After a failover an open connection may lead to a server that was the primary and is a replica now,
// while its address leads to the new one. Such a server answers READONLY and closes nothing, and
// rueidis connects anew only where a connection ends. It has several, and chooses at random, so it takes
// some QUITs to end them all: farewells at a time, and no sooner again than a pause later.
const (
	farewells = 16
	pause     = 250 * time.Millisecond
)

// leave ends the connections of the client. Calls that are behind a QUIT are lost, and have not run.
func (a *adapter) leave(ctx context.Context) {
	now, last := time.Now().UnixNano(), a.left.Load()
	if now-last < int64(pause) || !a.left.CompareAndSwap(last, now) {
		return
	}
	for range farewells {
		go a.send(ctx, anyKey, nil, "QUIT")
	}
}

// anyKey makes rueidis choose a connection; Redis does not look at it.
var anyKey = []string{"now"}
