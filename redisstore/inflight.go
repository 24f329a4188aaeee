package redisstore

import (
	"context"
	"time"
)

// inFlight are the batches under way, by deadline. One timer serves them all: a timer for each would cost
// as much as the rest of a call. It is set for the first deadline there is when it is set, so under
// steady traffic it goes off once in a timeout.
type inFlight struct {
	first, last *batch
	expire      func() // called by the timer
	timer       *time.Timer
	at          time.Time // when the timer goes off; zero while it is off
}

func (f *inFlight) add(bt *batch) {
	before := f.last
	for before != nil && bt.deadline.Before(before.deadline) { // rarely: deadlines come in order
		before = before.prev
	}
	bt.running, bt.prev = true, before
	if before != nil {
		bt.next, before.next = before.next, bt
	} else {
		bt.next, f.first = f.first, bt
	}
	if bt.next != nil {
		bt.next.prev = bt
	} else {
		f.last = bt
	}
}

func (f *inFlight) remove(bt *batch) {
	if bt.prev != nil {
		bt.prev.next = bt.next
	} else {
		f.first = bt.next
	}
	if bt.next != nil {
		bt.next.prev = bt.prev
	} else {
		f.last = bt.prev
	}
	bt.running, bt.prev, bt.next = false, nil, nil
}

// late removes the batches whose deadline has come. It is what the timer calls.
func (f *inFlight) late(now time.Time) (all []*batch) {
	f.at = time.Time{}
	for f.first != nil && !now.Before(f.first.deadline) {
		all = append(all, f.first)
		f.remove(f.first)
	}
	return all
}

// arm makes sure that expire is called at the first deadline.
func (f *inFlight) arm() {
	if f.first == nil || !f.at.IsZero() && !f.first.deadline.Before(f.at) {
		return
	}
	f.at = f.first.deadline
	if f.timer == nil {
		f.timer = time.AfterFunc(time.Until(f.at), f.expire)
	} else {
		f.timer.Reset(time.Until(f.at))
	}
}

// A clientContext is what a client gets: a deadline, and nothing of the callers, whose contexts may hold
// what is not theirs any more once they have left. It ends only for a batch that was given up.
type clientContext struct {
	until time.Time
	done  chan struct{}
}

var _ context.Context = (*clientContext)(nil)

func (c *clientContext) Deadline() (time.Time, bool) { return c.until, true }

func (c *clientContext) Done() <-chan struct{} { return c.done }

func (c *clientContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (c *clientContext) Value(any) any { return nil }

// end ends it when it is time. It is called once.
func (c *clientContext) end() { time.AfterFunc(time.Until(c.until), func() { close(c.done) }) }
