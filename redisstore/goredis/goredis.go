// Package goredis lets a redisstore ask Redis through github.com/redis/go-redis.
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(goredis.New(client))
//
// Set ContextTimeoutEnabled. Without it go-redis does not look at deadlines, and a call to a server that
// has frozen keeps its connection for the whole ReadTimeout, 5 seconds by default. The store answers its
// callers in time all the same, but the connections of the pool are busy for longer.
//
// go-redis repeats a command up to MaxRetries times, 3 by default, when the connection breaks before the
// answer has come; a script that has run would run again, and charge again. Commands of this adapter
// are marked as not to be repeated, whatever the client's options say. Where a cluster says MOVED or
// ASK they are sent on, for the node that says so has not run them.
//
// It tries to connect up to DialerRetries times, 5 by default, and DialerRetryTimeout apart, 100 ms by default, which is
// longer than the store waits. So that the store's error says why nobody answered, as in "connection refused", the
// adapter adds a hook to the client, which looks at attempts to connect and at nothing else.
package goredis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/redisstore"
)

// New adapts a go-redis client: a [redis.Client], of one server or of sentinels, or a
// [redis.ClusterClient]. It never closes the client. A [redis.Ring] is refused by [slidegate.New].
//
// [slidegate.New]: https://pkg.go.dev/github.com/slidegate/slidegate#New
func New(client redis.UniversalClient) redisstore.Client {
	a := &adapter{client: client}
	if a.Check() != nil {
		return a
	}
	switch c := client.(type) {
	case *redis.Client:
		c.AddHook(&a.connects)
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(&a.connects) })
	}
	return a
}

type adapter struct {
	client   redis.UniversalClient
	connects connects
}

// connects is a hook that keeps how the last attempt to connect went.
type connects struct{ failed atomic.Pointer[error] }

// DialHook implements redis.Hook.
func (c *connects) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		switch {
		case err == nil:
			c.failed.Store(nil)
		case ctx.Err() == nil: // else nobody wanted the connection any more
			c.failed.Store(&err)
		}
		return conn, err
	}
}

// ProcessHook and ProcessPipelineHook implement redis.Hook. They let commands pass.
func (c *connects) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *connects) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ConnectError implements [redisstore.ConnectingClient].
func (a *adapter) ConnectError() error {
	if err := a.connects.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Check implements [redisstore.CheckedClient].
func (a *adapter) Check() error {
	switch c := a.client.(type) {
	case nil:
		return errNil
	case *redis.Client:
		if c == nil {
			return errNil
		}
	case *redis.ClusterClient:
		if c == nil {
			return errNil
		}
	case *redis.Ring:
		return errors.New("a redis.Ring moves the keys of a server that is down to the others, and their history stays behind: use a redis.ClusterClient, or a redis.Client of one server")
	}
	return nil
}

var errNil = errors.New("the go-redis client is nil")

// clusterClient is what a redis.ClusterClient has and others have not, also when it is embedded in a
// client of the user's own.
type clusterClient interface{ ReloadState(ctx context.Context) }

// Clustered implements [redisstore.ClusterClient].
func (a *adapter) Clustered() bool {
	_, ok := a.client.(clusterClient)
	return ok
}

// Prompt implements [redisstore.PromptClient].
func (a *adapter) Prompt() bool {
	switch c := a.client.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}

// Run implements [redisstore.Client].
func (a *adapter) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	reply, err := a.send(ctx, "evalsha", s.Hash(), keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = a.send(ctx, "eval", s.Source(), keys, args)
	}
	if err != nil {
		a.look(ctx, err)
	}
	return reply, err
}

// once is a command that is not sent again when its answer is lost.
type once struct{ *redis.IntSliceCmd }

func (once) NoRetry() bool { return true }

func (a *adapter) send(ctx context.Context, command, script string, keys, args []string) ([]int64, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, command, script, len(keys))
	for i := range keys {
		all = append(all, keys[i])
	}
	for i := range args {
		all = append(all, args[i])
	}
	cmd := once{redis.NewIntSliceCmd(ctx, all...)}
	if err := a.client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// look makes a cluster client look at once who has the slots of a node that does not answer. It
// would for commands that it repeats; else it looks every ten seconds.
func (a *adapter) look(ctx context.Context, err error) {
	var answer redis.Error
	if c, ok := a.client.(clusterClient); ok && !errors.As(err, &answer) {
		c.ReloadState(ctx)
	}
}
