package wrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// ErrOpen is wrapped by the errors that an open circuit answers with, beside
// [slidegate.ErrUnavailable] and the failure that the store was last seen with.
var ErrOpen = errors.New("wrap: circuit open")

// A State is what a circuit does with a call.
type State uint8

const (
	Closed State = iota // the store is asked
	Open                // the store is not asked, but for one call in each probe interval
)

// String returns "closed" or "open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// A CircuitStore asks the store behind it while that answers. Make one with [Circuit]. It is safe for
// concurrent use and needs no closing; the store behind it may.
type CircuitStore struct {
	store    slidegate.Store
	failures int           // in a row, to open
	interval time.Duration // between probes
	clock    func() time.Time
	logger   *slog.Logger
	onChange []func(State, error)
	ignored  []error
	invalid  error // a store or an option that cannot be used

	state                   atomic.Pointer[condition] // replaced under mu
	opened, refused, probes atomic.Uint64

	mu      sync.Mutex // never held while anybody else's code runs
	untold  []change
	telling bool
}

// A condition is all that a circuit knows of its store. It is replaced, never modified, so a call
// that finds at its end the condition of its beginning knows that nothing was learnt meanwhile.
type condition struct {
	failures int       // in a row
	cause    error     // the last failure, if open
	refusal  error     // what a call gets that is not let through; nil if closed
	opened   time.Time // if open
	asked    time.Time // when the last probe began, or the circuit opened
	refused  uint64    // calls before it opened
}

func (c *condition) state() State {
	if c.refusal != nil {
		return Open
	}
	return Closed
}

// Circuit returns a store that asks another one while that answers. After five failures in a row it
// opens: every Take, Peek, Refund and Reset gets an error that wraps [ErrOpen],
// [slidegate.ErrUnavailable] and the last failure, without the store being asked. One call a second
// is let through, and the first that succeeds closes it. Limiters over the returned store share the
// circuit: it is about the store, not about a limit.
//
// A nil store, or an option that cannot be built, is reported by [slidegate.New], with an error that
// wraps [slidegate.ErrInvalidLimit].
func Circuit(store slidegate.Store, options ...CircuitOption) *CircuitStore {
	c := &CircuitStore{
		store:    store,
		failures: 5,
		interval: time.Second,
		clock:    time.Now,
		logger:   slog.New(slog.DiscardHandler),
	}
	if store == nil {
		c.reject("the store is nil: give the one to wrap")
	}
	for _, option := range options {
		option(c)
	}
	c.state.Store(&condition{})
	return c
}

// State returns whether the circuit is open or closed.
func (c *CircuitStore) State() State { return c.state.Load().state() }

// CircuitStats counts since the circuit was made.
type CircuitStats struct {
	Opened  uint64 // times that the circuit opened
	Refused uint64 // calls that were answered without asking the store
	Probes  uint64 // calls that were let through while the circuit was open
}

// Stats returns the counts. They are read one after another, not in one instant.
func (c *CircuitStore) Stats() CircuitStats {
	return CircuitStats{c.opened.Load(), c.refused.Load(), c.probes.Load()}
}

// enter says how the store stands as a call begins, or why the call is not let through.
func (c *CircuitStore) enter(ctx context.Context) (*condition, error) {
	began := c.state.Load()
	if began.refusal == nil {
		return began, nil
	}
	return c.enterOpen(ctx, began)
}

// enterOpen lets one call through in each interval. That is a lease of the interval and not of the
// call, so a call that panics or hangs has nothing to give back.
func (c *CircuitStore) enterOpen(ctx context.Context, began *condition) (*condition, error) {
	now := c.clock() // after began was read: a monotonic clock is never behind began.asked
	since := now.Sub(began.asked)
	isDue := since >= c.interval || since < 0 // the clock was set back: asking early is the lesser evil
	if isDue && ctx.Err() == nil {
		probe := *began
		probe.asked = now
		if c.replace(began, &probe) {
			c.probes.Add(1)
			return &probe, nil
		}
	}
	c.refused.Add(1)
	return nil, began.refusal
}

// leave learns from the end of a call that was let through.
func (c *CircuitStore) leave(ctx context.Context, began *condition, err error) {
	switch {
	case err == nil:
		c.succeeded()
	case ctx.Err() == nil && c.isEvidence(err):
		c.failed(began, err)
	case began.state() == Open:
		// The probe says nothing, as when its caller gave up: the next call is one. Otherwise clients
		// that hang up could keep a circuit open whose store is back.
		next := *began
		next.asked = began.asked.Add(-c.interval)
		c.replace(began, &next)
	}
}

func (c *CircuitStore) isEvidence(err error) bool {
	if !errors.Is(err, slidegate.ErrUnavailable) {
		return false
	}
	for _, ignored := range c.ignored {
		if errors.Is(err, ignored) {
			return false
		}
	}
	return true
}

// succeeded closes the circuit and forgets the failures, whenever the call began.
func (c *CircuitStore) succeeded() {
	for now := c.state.Load(); now.failures > 0; now = c.state.Load() {
		c.replace(now, &condition{})
	}
}

// failed counts a failure, if nothing was learnt since the call began. So calls that were under way
// together count as one.
func (c *CircuitStore) failed(began *condition, err error) {
	next := *began
	next.failures++
	if next.failures >= c.failures {
		next.cause, next.refusal = err, fmt.Errorf("%w: %w", ErrOpen, err)
	}
	if began.state() == Closed && next.state() == Open {
		next.opened = c.clock()
		next.asked, next.refused = next.opened, c.refused.Load()
	}
	c.replace(began, &next)
}

// replace puts another condition in the place of the one that is, and tells of it if the state is
// another one then. It reports false, and does nothing, where the condition is not the old one any more.
func (c *CircuitStore) replace(old, next *condition) bool {
	c.mu.Lock()
	if c.state.Load() != old {
		c.mu.Unlock()
		return false
	}
	c.state.Store(next)
	isChange := old.state() != next.state()
	if isChange {
		if next.state() == Open {
			c.opened.Add(1)
		}
		c.untold = append(c.untold, change{old, next})
	}
	c.mu.Unlock()
	if isChange {
		for c.tellNext() {
		}
	}
	return true
}

// A change is the end of one state and the beginning of the other.
type change struct{ from, to *condition }

// tellNext tells of the oldest change that was not told, unless there is none or somebody is telling,
// who will find those that come meanwhile. So changes are told one by one and in their order, and
// no lock is held.
func (c *CircuitStore) tellNext() bool {
	c.mu.Lock()
	if c.telling || len(c.untold) == 0 {
		c.mu.Unlock()
		return false
	}
	next := c.untold[0]
	c.untold, c.telling = c.untold[1:], true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.telling = false
		c.mu.Unlock()
	}()
	c.log(next)
	for _, f := range c.onChange {
		c.call(f, next.to)
	}
	return true
}

func (c *CircuitStore) log(ch change) {
	if ch.to.state() == Open {
		c.logger.Error("wrap: the store does not answer: the circuit is open", "failures", ch.to.failures, "error", ch.to.cause)
		return
	}
	c.logger.Info("wrap: the store answers again: the circuit is closed",
		"open", c.clock().Sub(ch.from.opened), "refused", c.refused.Load()-ch.from.refused)
}

// call is for a function that panics: that is not the fault of the call that it happens in.
func (c *CircuitStore) call(f func(State, error), now *condition) {
	defer func() {
		if v := recover(); v != nil {
			c.logger.Error("wrap: a function given to OnChange panicked", "panic", v)
		}
	}()
	f(now.state(), now.cause)
}
