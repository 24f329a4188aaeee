package redisstore

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slidegate/slidegate"
)

// What a store does unless an [Option] says otherwise.
const (
	DefaultPrefix  = "slidegate"
	DefaultTimeout = 50 * time.Millisecond
	DefaultFolding = 64 // decisions in one call, at most
)

// An Option changes how [New] builds a store.
type Option func(*Store)

// WithPrefix puts p in front of every stored key; the default is [DefaultPrefix]. Stores with
// different prefixes share nothing. It must not be blank, and must hold no control characters and no braces: those
// would move the hash tag that keeps all limits of a key in one slot of a cluster.
func WithPrefix(p string) Option {
	return func(s *Store) {
		if !IsPrefix(p) {
			s.reject("the prefix " + strconv.Quote(p) + ": allowed is text that is not blank, without braces and control characters")
			return
		}
		s.prefix = p
	}
}

// IsPrefix tells whether [WithPrefix] takes p.
func IsPrefix(p string) bool {
	return strings.TrimSpace(p) != "" && !strings.ContainsFunc(p, func(r rune) bool { return r == '{' || r == '}' || unicode.IsControl(r) })
}

// WithClock makes the store read its time from now instead of the clock of the Redis server: for tests,
// and for replaying what has been. The store rounds it down to a whole millisecond, and calls it from
// many goroutines. Redis still expires keys by its own clock, so a key then lives at least a day longer
// than it would. The default is the server's clock.
func WithClock(now func() time.Time) Option {
	return func(s *Store) {
		if now == nil {
			s.reject("the clock is nil: give a function such as time.Now, or leave the option out for the server's clock")
			return
		}
		s.clock = now
	}
}

// WithTimeout bounds every call, from asking to answer, whatever the client does; the default is
// [DefaultTimeout]. A call that is not answered in d fails with an error that wraps
// [slidegate.ErrUnavailable]. Allowed is 1 ms to 1 minute. It has to leave time for a round trip, but not
// for connecting: a client goes on connecting for a second after its caller was told.
func WithTimeout(d time.Duration) Option {
	return func(s *Store) {
		if d < time.Millisecond || d > time.Minute {
			s.reject(fmt.Sprintf("the timeout of %s: allowed is 1ms to 1m", d))
			return
		}
		s.timeout = d
	}
}

// WithFolding lets one call carry up to n decisions that wait at the same time; the default is
// [DefaultFolding]. A decision waits only while several calls are under way, so a lone caller is
// never delayed. Allowed is 1, which sends each decision by itself, to 64.
func WithFolding(n int) Option {
	return func(s *Store) {
		if n < 1 || n > 64 {
			s.reject(fmt.Sprintf("folding %d decisions: allowed is 1 to 64", n))
			return
		}
		s.folding = n
	}
}

// WithLogger makes the store say when Redis cannot be asked and when it can be again, and when it
// finds values that it does not understand: one line a change, and never a key. By default it logs
// nothing; [Store.Stats] counts in any case.
func WithLogger(l *slog.Logger) Option {
	return func(s *Store) {
		if l == nil {
			s.reject("the logger is nil: leave the option out to log nothing")
			return
		}
		s.logger = l
	}
}

// WithoutOutages keeps the logger of [WithLogger] to stored values; by default it also hears when Redis cannot be
// asked. It is for a program whose gate tells of that already, with what becomes of the requests.
func WithoutOutages() Option { return func(s *Store) { s.outagesUntold = true } }

func (s *Store) reject(why string) {
	if s.invalid == nil {
		s.invalid = fmt.Errorf("%w: redis store: %s", slidegate.ErrInvalidLimit, why)
	}
}
