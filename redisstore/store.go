package redisstore

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// A Store keeps the state of keys in Redis. It is safe for concurrent use. Make one with [New]; it has
// nothing to close, and it never closes the client.
type Store struct {
	client  Client
	cluster ClusterClient // client, if it knows of clusters
	prompt  PromptClient  // client, if it knows of deadlines
	prefix  string
	clock   func() time.Time // nil for the server's clock
	timeout time.Duration
	folding int
	logger  *slog.Logger
	invalid error // an option or a client that cannot be used

	outagesUntold bool // to the logger

	errTimeout error // what a call gets that was not answered in time
	overdue    overdue
	courtesy   courtesy
	calls      atomic.Uint64
	decisions  atomic.Uint64
	folded     atomic.Uint64
	failures   atomic.Uint64
	strange    atomic.Uint64
	newers     atomic.Uint64
	health     health
}

// New returns a store that asks Redis through client. An option or a client that cannot be used is
// reported by [slidegate.New], with an error that wraps [slidegate.ErrInvalidLimit]. New does not
// speak to Redis, which may come up later.
func New(client Client, options ...Option) *Store {
	s := &Store{client: client, prefix: DefaultPrefix, timeout: DefaultTimeout, folding: DefaultFolding}
	for _, option := range options {
		option(s)
	}
	s.errTimeout = fmt.Errorf("no answer within %s", s.timeout)
	s.cluster, _ = client.(ClusterClient)
	s.prompt, _ = client.(PromptClient)
	if client == nil {
		s.reject("the client is nil: adapt one with package goredis or rueidis")
	} else if c, ok := client.(CheckedClient); ok {
		if err := c.Check(); err != nil {
			s.reject(err.Error())
		}
	}
	return s
}

// Bind implements [slidegate.Store].
func (s *Store) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	return newPlan(s, limits), nil
}

// now returns the injected clock as the scripts want it; empty where the server's clock counts.
func (s *Store) now() string {
	if s.clock == nil {
		return ""
	}
	return strconv.FormatInt(s.clock().UnixMilli(), 10)
}

// Stats are counts since the store was made, and the number of calls overdue now.
type Stats struct {
	Calls     uint64 // scripts sent
	Failed    uint64 // of Calls, those that failed or were not answered in time; and calls not sent, for too many were overdue
	Decisions uint64 // answers to Take, Peek, Refund and Reset
	Folded    uint64 // of Decisions, those that shared a call with others
	Replaced  uint64 // stored values that were not understood, and replaced by an admitted charge
	Newer     uint64 // requests not decided, for a stored value has a newer format
	Overdue   int    // calls whose time is up and that the client has not returned from
}

// Stats returns the store's counts. Each is exact; together they are no snapshot.
func (s *Store) Stats() Stats {
	return Stats{
		Calls:     s.calls.Load(),
		Failed:    s.failures.Load(),
		Decisions: s.decisions.Load(),
		Folded:    s.folded.Load(),
		Replaced:  s.strange.Load(),
		Newer:     s.newers.Load(),
		Overdue:   s.overdue.sum(),
	}
}
