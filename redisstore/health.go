package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// ErrNewerFormat is wrapped, together with [slidegate.ErrUnavailable], by the error of a request that
// meets a value in a format that this version does not know. A newer version wrote it, as happens
// while versions are exchanged; the value stays as it is. It says nothing about the health of Redis.
var ErrNewerFormat = errors.New("a stored value was written by a newer version")

// maxOverdue is how many calls may be left behind in a client that does not return when their time
// is up. Beyond it nothing is sent until some return. In front of a cluster it is maxOverdueNear for each
// neighbourhood of hash slots: the nodes have ranges of them, and one that does not answer must not keep from the others.
const (
	maxOverdue     = 256
	maxOverdueNear = 16
)

var errOverdue = errors.New("too many calls are overdue and the client does not return from them")

// overdue counts the calls that are left behind, by neighbourhoods of hash slots.
type overdue [slots / near]atomic.Int64

// near is the number of hash slots in a neighbourhood.
const near = 64

func (o *overdue) of(slot uint16) *atomic.Int64 { return &o[slot/near] }

// full tells whether nothing may be sent to a slot for what is overdue there.
func (o *overdue) full(slot uint16, clustered bool) bool {
	n := o.of(slot).Load()
	return n >= maxOverdue || clustered && n >= maxOverdueNear
}

func (o *overdue) sum() (n int) {
	for i := range o {
		n += int(o[i].Load())
	}
	return n
}

// courtesy keeps apart the calls that callers make themselves and those that a client may take longer for than the
// callers: a client may let a call wait while another one connects, and would keep a caller who cannot leave.
type courtesy struct{ here, long atomic.Int64 }

// tryHere counts a call that its caller makes, unless others may take longer.
func (c *courtesy) tryHere() bool { return try(&c.here, &c.long) }

// tryLong counts a call that may take longer, unless callers make some themselves.
func (c *courtesy) tryLong() bool { return try(&c.long, &c.here) }

func try(mine, others *atomic.Int64) bool {
	mine.Add(1) // first, so that of two at the same time one sees the other
	if others.Load() == 0 {
		return true
	}
	mine.Add(-1)
	return false
}

// health is how Redis is, and what the logger has been told of it.
type health struct {
	down       atomic.Bool
	news       atomic.Pointer[news] // what the logger has not been told yet
	lastFailed atomic.Int64         // in nanoseconds since the Unix epoch
	warned     atomic.Int64         // of values that are not ours, likewise
}

// calm is how long no call must have failed before the logger hears that all is well again: where one node
// of several is down, failures and answers alternate, and that is one state.
const calm = time.Second

// failed counts a failed call and returns the error for those who asked. The errors of contexts are
// not wrapped: the store's own deadline has passed, and no caller has given up.
func (s *Store) failed(cause error) error {
	if ofContext(cause) || cause == s.errTimeout {
		cause = s.late(cause)
	}
	cause = withoutArguments(cause)
	s.failures.Add(1)
	s.health.lastFailed.Store(time.Now().UnixNano())
	if !s.health.down.Swap(true) && s.tellsOutages() {
		s.health.news.Store(&news{cause})
	}
	return fmt.Errorf("%w: redis: %w", slidegate.ErrUnavailable, cause)
}

func ofContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// late is the cause of a call that was not answered in time, with why the client could not connect if it knows.
func (s *Store) late(cause error) error {
	if c, ok := s.client.(ConnectingClient); ok {
		switch err := c.ConnectError(); {
		case err != nil && ofContext(err): // that of a dialer's own deadline
			return fmt.Errorf("%w: the last attempt to connect failed: %v", s.errTimeout, err)
		case err != nil:
			return fmt.Errorf("%w: the last attempt to connect failed: %w", s.errTimeout, err)
		}
	}
	if cause == s.errTimeout {
		return cause
	}
	return fmt.Errorf("%w: %v", s.errTimeout, cause)
}

// arguments is what a server says before it repeats the arguments of a command that it does not know.
const arguments = ", with args beginning with"

// withoutArguments returns an error without the arguments that a server has repeated: a key is among
// them, and a key may be an address or a secret.
func withoutArguments(err error) error {
	text, _, found := strings.Cut(err.Error(), arguments)
	if !found {
		return err
	}
	return &cutError{text, err}
}

// A cutError is an error of which the end is not to be shown.
type cutError struct {
	text string
	err  error
}

func (c *cutError) Error() string { return c.text }

// Unwrap returns the error; its text may hold a key, so nobody prints it.
func (c *cutError) Unwrap() error { return c.err }

// succeeded counts a call that answered n callers.
func (s *Store) succeeded(n int) {
	s.decisions.Add(uint64(n))
	if n > 1 {
		s.folded.Add(uint64(n))
	}
	if !s.health.down.Load() || time.Now().UnixNano()-s.health.lastFailed.Load() < int64(calm) {
		return
	}
	if s.health.down.Swap(false) && s.tellsOutages() {
		s.health.news.Store(&news{})
	}
}

// news is a change that the logger is to be told of: the cause if Redis cannot be asked, nil if it answers again.
type news struct{ cause error }

// report tells the logger of the last change. It is called when the callers have their answers: a log may be slow.
func (s *Store) report() {
	if s.health.news.Load() == nil {
		return
	}
	switch n := s.health.news.Swap(nil); {
	case n == nil:
	case n.cause != nil:
		s.logger.Warn("slidegate: Redis cannot be asked", "error", n.cause)
	default:
		s.logger.Info("slidegate: Redis answers again")
	}
}

func (s *Store) tellsOutages() bool { return s.logger != nil && !s.outagesUntold }

// clustered tells whether Redis is a cluster, as far as is known.
func (s *Store) clustered() bool { return s.cluster != nil && s.cluster.Clustered() }

// steady tells whether Redis answers, through a client that returns by the deadline.
func (s *Store) steady() bool {
	return s.prompt != nil && s.prompt.Prompt() && !s.health.down.Load()
}

// replaced counts values that were not ours and have been replaced.
func (s *Store) replaced(n int64) {
	s.strange.Add(uint64(n))
	s.warn("slidegate: stored values were not understood and have been replaced", "replaced", &s.strange)
}

// newer counts a request that met a newer format, and returns its error.
func (s *Store) newer() error {
	s.newers.Add(1)
	s.warn("slidegate: stored values were written by a newer version, and what meets them is not decided", "newer", &s.newers)
	return fmt.Errorf("%w: redis: %w", slidegate.ErrUnavailable, ErrNewerFormat)
}

// warn tells the logger of values that are not ours, and of how many, at most once a minute.
func (s *Store) warn(what, name string, count *atomic.Uint64) {
	if s.logger == nil {
		return
	}
	now, last := time.Now().UnixNano(), s.health.warned.Load()
	if now-last < int64(time.Minute) || !s.health.warned.CompareAndSwap(last, now) {
		return
	}
	s.logger.Warn(what, name, count.Load())
}
