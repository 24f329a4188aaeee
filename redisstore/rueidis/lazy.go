package rueidis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/redisstore"
)

// A LazyClient connects when it is first asked, and as often as it takes. It is safe for concurrent
// use. Make one with [Lazy].
type LazyClient struct {
	option    rueidis.ClientOption
	connected atomic.Pointer[adapter]

	mu      sync.Mutex
	trying  chan struct{} // closed at the end of the attempt under way; nil if there is none
	tried   time.Time     // when the last attempt ended
	problem error         // what came of it
	closed  bool
}

var _ redisstore.ClusterClient = (*LazyClient)(nil)

// Lazy returns a client that needs no Redis yet. It calls rueidis.NewClient with the option when it is
// first asked and, while that fails, again with later calls, four times a second at most; until then
// calls fail. Unlike a client that is given to [New], it has to be closed.
func Lazy(option rueidis.ClientOption) *LazyClient { return &LazyClient{option: option} }

// retryPause is the time from one attempt to connect to the next, at least.
const retryPause = 250 * time.Millisecond

// Run implements [redisstore.Client].
func (l *LazyClient) Run(ctx context.Context, s *redisstore.Script, keys, args []string) ([]int64, error) {
	a := l.connected.Load()
	if a == nil {
		var err error
		if a, err = l.await(ctx); err != nil {
			return nil, err
		}
	}
	return a.Run(ctx, s, keys, args)
}

// Clustered implements [redisstore.ClusterClient]. Before it is connected it says yes where it may have to: keys of
// several hash slots in one call would be a panic of rueidis then.
func (l *LazyClient) Clustered() bool {
	if a := l.connected.Load(); a != nil {
		return a.Clustered()
	}
	o := &l.option
	return !o.ForceSingleClient && o.Sentinel.MasterSet == "" && len(o.Standalone.ReplicaAddress) == 0 && !o.Standalone.EnableRedirect
}

// Prompt implements [redisstore.PromptClient].
func (l *LazyClient) Prompt() bool { return true }

// Close closes the connections, if there are any. Later calls fail.
func (l *LazyClient) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.problem = true, rueidis.ErrClosing
	if a := l.connected.Load(); a != nil {
		a.client.Close()
	}
}

// await returns the adapter when it is connected, or why it is not.
func (l *LazyClient) await(ctx context.Context) (*adapter, error) {
	l.mu.Lock()
	if l.trying == nil && !l.closed && time.Since(l.tried) >= retryPause {
		l.trying = make(chan struct{})
		go l.connect(l.trying)
	}
	trying := l.trying
	l.mu.Unlock()
	if trying != nil {
		select {
		case <-trying:
		case <-ctx.Done():
			return nil, errors.New("still connecting")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.connected.Load(); a != nil {
		return a, nil
	}
	return nil, l.problem
}

func (l *LazyClient) connect(done chan struct{}) {
	client, err := rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	l.trying, l.tried = nil, time.Now()
	if err == nil && !l.closed {
		l.connected.Store(&adapter{client: client})
		return
	}
	if client != nil {
		client.Close()
	}
	if !l.closed {
		l.problem = err
	}
}
