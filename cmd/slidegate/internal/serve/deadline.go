package serve

import (
	"errors"
	"os"
	"sync"
	"time"
)

// A deadline ends the waits of a connection in one direction. net/http sets several for each request and hardly any is ever
// reached, so the connection is told of one only while somebody waits and would otherwise wait too long. Where it still has an
// earlier one it wakes up too soon, and goes on: no wait is shorter or longer for that. It is safe for concurrent use.
type deadline struct {
	tell func(time.Time) error // the connection itself

	mu    sync.Mutex
	at    time.Time // as it was set
	told  time.Time // as the connection has it
	waits int       // those under way
}

// never is the deadline of what may last.
var never time.Time

// set sets the deadline, which ends waits under way as well.
func (d *deadline) set(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at = at; d.waits == 0 {
		return nil
	}
	return d.wake(at)
}

// begin begins a wait that ends at the deadline, or at giveUp where that is earlier. Unless it is over already, end has to
// follow.
func (d *deadline) begin(giveUp time.Time) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := earlier(d.at, giveUp)
	switch {
	case isPast(at):
		return os.ErrDeadlineExceeded
	case isPast(d.told): // of the wait before
		err = d.have(at)
	default:
		err = d.wake(at)
	}
	if err == nil {
		d.waits++
	}
	return err
}

// end ends a wait that began.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits--
}

// goesOn tells whether a wait has ended too soon, with an error of the connection, and has it wait on then.
func (d *deadline) goesOn(err error, giveUp time.Time) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := earlier(d.at, giveUp)
	if !at.IsZero() && !time.Now().Before(at) {
		return false
	}
	return d.have(at) == nil
}

// comesBefore tells whether the deadline is before a time.
func (d *deadline) comesBefore(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && d.at.Before(t)
}

// wake has the connection wake up at a time at the latest. The caller has the lock.
func (d *deadline) wake(at time.Time) error {
	if earlier(at, d.told).Equal(d.told) {
		return nil
	}
	return d.have(at)
}

// have has the connection wake up at a time. The caller has the lock.
func (d *deadline) have(at time.Time) error {
	d.told = at
	return d.tell(at)
}

// earlier returns the earlier one of two deadlines.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// isPast tells of a deadline that is set to end a wait at once.
func isPast(t time.Time) bool { return !t.IsZero() && !t.After(longAgo) }
