package gatetest

import (
	"sync"
	"time"
)

// A Clock is set by hand. It is safe for concurrent use; the zero Clock stands at the Unix epoch.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at t.
func NewClock(t time.Time) *Clock { return &Clock{now: t} }

// Now returns the time at which the clock stands. It is what a store's WithClock option takes.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *Clock) read() time.Time {
	if c.now.IsZero() {
		return time.Unix(0, 0)
	}
	return c.now
}

// Set puts the clock to t, which may be in its past.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// SetMilli puts the clock to ms milliseconds after the Unix epoch.
func (c *Clock) SetMilli(ms int64) { c.Set(time.UnixMilli(ms)) }

// Advance moves the clock by d, which may be negative. Of concurrent calls none is lost.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.read().Add(d)
}
