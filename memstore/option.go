package memstore

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate"
)

// DefaultMaxKeys is the cap on keys of a store that does not say otherwise.
const DefaultMaxKeys = 1_000_000

// An Option changes how [New] builds a store.
type Option func(*Store)

// WithClock makes the store read its time from now instead of the process clock. The store rounds
// it down to a whole millisecond, and takes one more than 8,900 years from 1970 for the farthest it can
// hold. It is called under a lock of the store and must not call the
// store. A store with another clock runs no timer: idle keys go when [Store.Sweep] is called.
func WithClock(now func() time.Time) Option {
	return func(s *Store) {
		if now == nil {
			s.reject("the clock is nil: give a function such as time.Now")
			return
		}
		s.clock = now
	}
}

// WithMaxKeys holds the store to at most n keys, 1 to 2^30; the default is [DefaultMaxKeys]. What
// happens at the cap is told in the documentation of the package.
func WithMaxKeys(n int) Option {
	return func(s *Store) {
		if n < 1 || n > 1<<30 {
			s.reject(fmt.Sprintf("the cap of %d keys: allowed is 1 to %d", n, 1<<30))
			return
		}
		s.maxKeys = int64(n)
	}
}

// RefuseNewKeys makes a full store answer ErrUnavailable for a key that it does not hold, instead
// of forgetting the key that would be idle soonest. By default it forgets.
func RefuseNewKeys() Option { return func(s *Store) { s.refuse = true } }

// WithLogger makes the store say when it is full: at most one line a minute, and never a key. By
// default it logs nothing; [Store.Stats] counts in any case.
func WithLogger(l *slog.Logger) Option {
	return func(s *Store) {
		if l == nil {
			s.reject("the logger is nil: leave the option out to log nothing")
			return
		}
		s.logger = l
	}
}

func (s *Store) reject(why string) {
	if s.invalid == nil {
		s.invalid = fmt.Errorf("%w: memory store: %s", slidegate.ErrInvalidLimit, why)
	}
}
