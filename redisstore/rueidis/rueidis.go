// Package rueidis lets a redisstore ask Redis through github.com/redis/rueidis, which sends the commands
// of many callers down one connection. Up to two calls at a time have a connection each, of the client's pool for
// blocking commands: its BlockingPoolSize has to leave room for them.
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

	underWay atomic.Int64 // calls
	left     atomic.Int64 // when connections were last ended, in nanoseconds since the Unix epoch
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

// few is how many calls under way at once get a connection each, of the client's pool for blocking commands: whoever
// calls writes and reads there itself, and does not wait for two goroutines to be woken. More calls share connections,
// where one write carries many. A store that folds has so many under way, unless they are full.
const few = 2

func (a *adapter) send(ctx context.Context, keys, args []string, command ...string) rueidis.RedisResult {
	defer a.underWay.Add(-1)
	cmd := a.client.B().Arbitrary(command...).Keys(keys...).Args(args...)
	// On a connection of its own a blocking command has no other end than that of its context.
	if _, ends := ctx.Deadline(); a.underWay.Add(1) <= few && ends {
		return a.client.Do(ctx, cmd.Blocking())
	}
	return a.client.Do(ctx, cmd.Build())
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
	for range few {
		go a.client.Dedicated(func(c rueidis.DedicatedClient) error { c.Close(); return nil })
	}
	for range farewells {
		go a.client.Do(ctx, a.client.B().Arbitrary("QUIT").Keys(anyKey).Build())
	}
}

// anyKey makes rueidis choose a connection; Redis does not look at it.
const anyKey = "now"
