package wrap

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
)

// A CircuitOption changes how [Circuit] builds a circuit.
type CircuitOption func(*CircuitStore)

// WithFailures opens the circuit after n failures in a row, 1 to 1000; the default is 5. Each has begun
// after the one before ended, so of a store that is silent it takes n timeouts.
func WithFailures(n int) CircuitOption {
	return func(c *CircuitStore) {
		if n < 1 || n > 1000 {
			c.reject(fmt.Sprintf("to open after %d failures: allowed is 1 to 1000", n))
			return
		}
		c.failures = n
	}
}

// WithProbeInterval lets one call through an open circuit in every d, 1 ms to 1 minute; the default
// is a second. It is how long at most a store that is back is not used, and how often at most a
// caller waits for one that is not.
func WithProbeInterval(d time.Duration) CircuitOption {
	return func(c *CircuitStore) {
		if d < time.Millisecond || d > time.Minute {
			c.reject(fmt.Sprintf("a probe every %s: allowed is 1ms to 1m0s", d))
			return
		}
		c.interval = d
	}
}

// Ignore makes errors that wrap one of errs no evidence against the store; by default every error is
// that wraps [slidegate.ErrUnavailable] while its caller has not given up. It is for a store that is well and
// cannot decide for one key, such as a Redis store that finds a value in a format of a newer version.
func Ignore(errs ...error) CircuitOption {
	return func(c *CircuitStore) {
		if slices.Contains(errs, nil) {
			c.reject("an error to ignore is nil")
			return
		}
		c.ignored = append(c.ignored, errs...)
	}
}

// WithClock makes the circuit read its time from now; the default is [time.Now], whose monotonic
// reading does not move when the wall clock is set. Only the wait for the next probe depends on it.
func WithClock(now func() time.Time) CircuitOption {
	return func(c *CircuitStore) {
		if now == nil {
			c.reject("the clock is nil: give a function such as time.Now")
			return
		}
		c.clock = now
	}
}

// WithLogger makes the circuit say that it opened, and why, and that it closed; by default it logs
// nothing. That is one line for each change of state, however many calls fail.
func WithLogger(l *slog.Logger) CircuitOption {
	return func(c *CircuitStore) {
		if l == nil {
			c.reject("the logger is nil: leave the option out to log nothing")
			return
		}
		c.logger = l
	}
}

// OnChange calls f after each change of state, with the state and the failure that opened the circuit,
// nil when it closed; by default nobody is told. Changes are told one by one and in their order. f runs
// on the goroutine of a call of the store and should not keep it; it may use the store. Of several
// OnChange each is called.
func OnChange(f func(State, error)) CircuitOption {
	return func(c *CircuitStore) {
		if f == nil {
			c.reject("the function given to OnChange is nil")
			return
		}
		c.onChange = append(c.onChange, f)
	}
}

func (c *CircuitStore) reject(why string) {
	if c.invalid == nil {
		c.invalid = fmt.Errorf("%w: circuit: %s", slidegate.ErrInvalidLimit, why)
	}
}
