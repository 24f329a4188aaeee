package storage

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/redisstore"
	goredisstore "github.com/slidegate/slidegate/redisstore/goredis"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
)

// dialTimeout is how long connecting may take where the call that needs the connection does not wait
// for it: the connection is there for the next. Where the call waits longer, so does connecting.
const dialTimeout = time.Second

// patience is how long connecting may take, and how long a connection may be silent.
func (r *Redis) patience() time.Duration { return max(dialTimeout, r.Timeout) }

// A Client runs scripts on the Redis of an address. It connects when it is first asked, shows no
// password in its errors, and is closed by whoever made it.
type Client struct {
	redisstore.Client
	address *Address
	close   func()
}

var (
	_ redisstore.ClusterClient = (*Client)(nil)
	_ redisstore.PromptClient  = (*Client)(nil)
)

// Client returns a client that has not connected yet.
func (r *Redis) Client() *Client {
	if r.client == "goredis" {
		c := r.goredis()
		return &Client{goredisstore.New(c), r.Address, func() { _ = c.Close() }}
	}
	c := rueidisstore.Lazy(r.rueidis())
	return &Client{c, r.Address, c.Close}
}

// Clustered implements [redisstore.ClusterClient].
func (c *Client) Clustered() bool { return c.address.kind == cluster }

// Prompt implements [redisstore.PromptClient].
func (c *Client) Prompt() bool {
	p, ok := c.Client.(redisstore.PromptClient)
	return ok && p.Prompt()
}

// Close ends the connections.
func (c *Client) Close() { c.close() }

// Run implements [redisstore.Client].
func (c *Client) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	reply, err := c.Client.Run(ctx, s, keys, args)
	if err != nil {
		err = c.address.explain(err)
	}
	return reply, err
}

func (r *Redis) tls() *tls.Config {
	if !r.Address.tls {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

func (r *Redis) goredis() redis.UniversalClient {
	logging.Disable() // what it has to say comes as errors as well
	a := r.Address
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: a.hosts, MasterName: a.master, IsClusterMode: a.kind == cluster, DB: a.db,
		Username: a.username, Password: a.password, TLSConfig: r.tls(),
		SentinelUsername: a.sentinelUsername, SentinelPassword: a.sentinelPassword,

		DialTimeout: r.patience(), DialerRetries: 1,
		ReadTimeout: r.patience(), ContextTimeoutEnabled: true,
		MaxRetries: -1, // a call whose answer is lost may have been charged

		// Nothing that the call does not need is asked of the server, or of its access rules.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (r *Redis) rueidis() rueidis.ClientOption {
	a := r.Address
	option := rueidis.ClientOption{
		InitAddress: a.hosts, ForceSingleClient: a.kind == single || a.kind == socket, SelectDB: a.db,
		Username: a.username, Password: a.password, TLSConfig: r.tls(),

		Dialer:           net.Dialer{Timeout: r.patience()},
		ConnWriteTimeout: r.patience(),
		DisableRetry:     true,

		DisableCache:  true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	if a.kind == sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: a.master, Username: a.sentinelUsername, Password: a.sentinelPassword, TLSConfig: option.TLSConfig,
			TopologyRefreshInterval: dialTimeout, Dialer: option.Dialer,
		}
	}
	if a.kind == socket {
		option.DialCtxFn = func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	}
	return option
}
