package wrap

import (
	"fmt"
	"time"
)

// A DenialsOption changes how [Denials] builds a store.
type DenialsOption func(*DenialsStore)

// WithCap remembers a refusal for d at most, 1 ms to 1 minute; the default is a second. It is how long at most a
// reset or a refund that another process made is not seen. A key that stays refused costs one round trip in every d.
func WithCap(d time.Duration) DenialsOption {
	return func(s *DenialsStore) {
		if d < time.Millisecond || d > time.Minute {
			s.reject(fmt.Sprintf("to remember a refusal for %s: allowed is 1ms to 1m0s", d))
			return
		}
		s.most = d
	}
}

// WithMaxDenials remembers at most n refusals, 8 to 2^24, rounded down to a multiple of eight; the default is
// [DefaultMaxDenials]. It takes 14 bytes for each from the start, and some 130 more for each that is remembered.
func WithMaxDenials(n int) DenialsOption {
	return func(s *DenialsStore) {
		if n < ways || n > 1<<24 {
			s.reject(fmt.Sprintf("to remember %d refusals: allowed is %d to %d", n, ways, 1<<24))
			return
		}
		s.max = n
	}
}

// WithDenialsClock reads from now how long ago a refusal was; the default is [time.Now], whose monotonic reading
// does not move when the wall clock is set. It need not agree with the clock of the store, only go as fast.
func WithDenialsClock(now func() time.Time) DenialsOption {
	return func(s *DenialsStore) {
		if now == nil {
			s.reject("the clock is nil: give a function such as time.Now")
			return
		}
		begin := now()
		s.clock = func() time.Duration { return now().Sub(begin) }
	}
}
