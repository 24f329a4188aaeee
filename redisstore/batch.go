package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A call is what one caller asks, and its answer.
type call struct {
	slot    uint16   // of a cluster, where its keys are; 0 where there are no slots
	keys    []string // of every limit
	args    []string // those that are not the same for all calls of a plan
	entered time.Time
	left    atomic.Bool // the caller has gone

	done  chan struct{} // receives when the answer is there
	now   int64         // the clock of the script
	reply []int64
	err   error
}

func (c *call) settle(now int64, reply []int64, err error) {
	c.now, c.reply, c.err = now, reply, err
	c.done <- struct{}{}
}

// abreast is how many batches of a lane may be under way before a call waits for one of them to be
// answered, and is then folded with the others that wait. Up to so many concurrent callers nobody waits. When a whole
// batch waits it is sent at once, while fewer than mostAbreast are under way: far from Redis they are many.
// docs/adr/0013 has what was measured.
const (
	abreast     = 2
	mostAbreast = 4
)

// A batcher runs one script for the callers of one plan. While few batches are under way a call is
// sent at once, by itself. Otherwise it waits, and the next batch to be answered is followed by one with
// all that wait, up to most; so many that wait are also sent before. Calls of different hash slots are in different lanes.
//
// Every call is answered by its deadline. A batch has the deadline of its oldest call. A call that
// waits is seen to when a batch of its lane is answered or given up, and those that are under way when
// it comes have earlier deadlines.
type batcher struct {
	store  *Store
	script *Script
	head   []string // arguments that are the same for all calls
	clock  int      // where in head the clock is, or noClock
	usual  string   // calls with this argument alone do not send it, if all in a batch are such
	limits int      // whose readings the reply to one call has, or none of a status alone, or anyNumber
	most   int      // calls in a batch

	calls, batches sync.Pool

	mu       sync.Mutex
	lanes    map[uint16]*lane
	spare    []*lane
	inFlight inFlight
}

// A lane is how many batches are under way, and who waits, in one hash slot.
type lane struct {
	slot     uint16
	inFlight int
	waiting  []*call
}

// noClock is in place of the position of a clock where none is sent.
const noClock = -1

// anyNumber is in place of the number of limits where replies are of another kind: there is one call in a batch then.
const anyNumber = -1

func newBatcher(s *Store, script *Script, head []string, clock, limits, most int) *batcher {
	b := &batcher{store: s, script: script, head: head, clock: clock, limits: limits, most: most, lanes: map[uint16]*lane{}}
	b.inFlight.expire = b.expire
	return b
}

// call returns an empty call.
func (b *batcher) call() *call {
	if c, ok := b.calls.Get().(*call); ok {
		return c
	}
	return &call{done: make(chan struct{}, 1)}
}

// release makes an answered call ready for the next caller.
func (b *batcher) release(c *call) {
	clear(c.keys)
	clear(c.args)
	c.keys, c.args = c.keys[:0], c.args[:0]
	c.slot, c.now, c.reply, c.err = 0, 0, nil, nil
	b.calls.Put(c)
}

// batch returns an empty batch.
func (b *batcher) batch(l *lane) *batch {
	bt, ok := b.batches.Get().(*batch)
	if !ok {
		bt = new(batch)
	}
	bt.b, bt.lane, bt.slot = b, l, l.slot
	return bt
}

// ask returns the script's clock and the reply to a call, which is its own from now on. If ctx ends first the error is the
// context's, and the call may or may not have been made.
func (b *batcher) ask(ctx context.Context, c *call) (now int64, reply []int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	c.entered = time.Now()
	gone := ctx.Done()
	switch bt := b.enter(c, gone == nil); {
	case bt == nil:
	case bt.here:
		bt.runHere()
	default:
		go bt.run()
	}
	if gone == nil {
		<-c.done // a select takes longer
	} else {
		select {
		case <-c.done:
		case <-gone:
			c.left.Store(true)
			return 0, nil, ctx.Err()
		}
	}
	if err := c.err; err != nil {
		// What failed may still be in the hands of a client that has not returned.
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return 0, nil, err
	}
	now, reply = c.now, c.reply
	b.release(c)
	return now, reply, nil
}

// enter returns a batch that is to be sent, by a caller who stays if it may be, or in a goroutine of its own; nil if the
// call has to wait for another to be answered.
func (b *batcher) enter(c *call, stays bool) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lane(c.slot)
	if b.most > 1 && l.inFlight >= abreast {
		l.waiting = append(l.waiting, c)
		if len(l.waiting) == b.most && l.inFlight < mostAbreast {
			l.inFlight++
			go b.batch(l).runWaiting()
		}
		return nil
	}
	l.inFlight++
	bt := b.batch(l)
	bt.calls = append(bt.calls, c)
	b.start(bt, stays && b.store.steady() && b.store.courtesy.tryHere())
	return bt
}

// lane returns the lane of a hash slot.
func (b *batcher) lane(slot uint16) *lane {
	l := b.lanes[slot]
	if l != nil {
		return l
	}
	if n := len(b.spare); n > 0 {
		l, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		l = new(lane)
	}
	l.slot = slot
	b.lanes[slot] = l
	return l
}

// free gives the place of a batch in a lane back, and puts a lane aside that is not used.
func (b *batcher) free(l *lane) {
	if l.inFlight--; l.inFlight == 0 && l.slot != 0 {
		delete(b.lanes, l.slot)
		b.spare = append(b.spare, l)
	}
}

// collect fills an empty batch with those who wait and starts it, or gives its place back if nobody does.
// Callers that have left are left out, and those whose time is up are told. Where more wait than a batch holds, time
// is up when half of it is: otherwise an overloaded Redis would be sent, by the time that is left, what can only be late,
// and decide all day for callers who have been told already.
func (b *batcher) collect(bt *batch) bool {
	var late []*call
	now := time.Now()
	b.mu.Lock()
	l, n, patience := bt.lane, 0, b.store.timeout
	if len(l.waiting) > b.most {
		patience /= 2
	}
	for ; n < len(l.waiting) && len(bt.calls) < b.most; n++ {
		switch c := l.waiting[n]; {
		case c.left.Load():
		case now.Sub(c.entered) >= patience:
			late = append(late, c)
		default:
			bt.calls = append(bt.calls, c)
		}
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	if len(bt.calls) > 0 {
		b.start(bt, false)
	} else {
		b.free(l)
	}
	b.mu.Unlock()
	if len(late) > 0 {
		err := b.store.failed(b.store.errTimeout)
		for _, c := range late {
			c.settle(0, nil, err)
		}
		b.store.failures.Add(uint64(len(late) - 1))
		b.store.report()
	}
	return len(bt.calls) > 0
}

// start counts a batch, which has all its calls, among those that are under way. The client may take longer than the
// callers, unless one of them makes a call itself.
func (b *batcher) start(bt *batch, here bool) {
	bt.deadline = bt.calls[0].entered.Add(b.store.timeout)
	until := bt.deadline
	if bt.here = here; !here {
		if bt.long = b.store.courtesy.tryLong(); bt.long {
			until = until.Add(clientGrace)
		}
	}
	bt.ctx = &clientContext{until: until, done: make(chan struct{})}
	b.inFlight.add(bt)
	b.inFlight.arm()
}

// finish ends a batch that has its answer. It tells whether the batch was in time and, if it was,
// whether others wait; if nobody does, its place is given back.
func (b *batcher) finish(bt *batch) (inTime, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !bt.running {
		return false, false
	}
	b.inFlight.remove(bt)
	if len(bt.lane.waiting) > 0 {
		return true, true
	}
	b.free(bt.lane)
	return true, false
}

// expire gives up the batches whose time is up.
func (b *batcher) expire() {
	b.mu.Lock()
	late := b.inFlight.late(time.Now())
	b.inFlight.arm()
	b.mu.Unlock()
	for _, bt := range late {
		bt.giveUp()
	}
	b.store.report()
}

// A batch is one call of a script for one caller or several.
type batch struct {
	b          *batcher
	lane       *lane  // until it is given up; another slot may use it then
	slot       uint16 // of the lane
	calls      []*call
	keys, args []string
	deadline   time.Time
	ctx        *clientContext

	here, long bool // run by a caller; the client may take longer than the callers
	running    bool // not answered, and not given up
	prev, next *batch
}

// clientGrace is how much longer than the callers a client may take. To connect takes several round
// trips, and a client that were told to stop with its callers might never get there.
const clientGrace = time.Second

// run sends a batch, and then those who wait. It runs in a goroutine of its own, so that
// its callers can leave whatever the client does.
func (bt *batch) run() {
	if bt.send() {
		bt.runWaiting()
	}
}

// runHere sends a batch of one in the goroutine of its caller, who has no way to leave.
func (bt *batch) runHere() {
	if bt.send() {
		go bt.runWaiting()
	}
}

// runWaiting sends those who wait, until nobody does.
func (bt *batch) runWaiting() {
	for bt.b.collect(bt) {
		if !bt.send() {
			return
		}
	}
	bt.b.batches.Put(bt)
}

// send runs the script and answers the callers. It tells whether the batch, empty now, is to take
// along those who wait.
func (bt *batch) send() bool {
	s := bt.b.store
	bt.pack()
	var reply []int64
	var err error
	switch {
	case s.overdue.full(bt.slot, s.clustered()):
		err = errOverdue
	case !time.Now().Before(bt.deadline):
		err = s.errTimeout
	default:
		s.calls.Add(1)
		reply, err = bt.ask()
	}
	if bt.here {
		s.courtesy.here.Add(-1)
	} else if bt.long {
		s.courtesy.long.Add(-1)
	}
	inTime, more := bt.b.finish(bt)
	if !inTime {
		s.overdue.of(bt.slot).Add(-1)
		return false
	}
	bt.settle(reply, bt.judge(reply, err))
	s.report()
	if !more {
		bt.b.batches.Put(bt)
	}
	return more
}

// ask asks the client. A client that panics has failed: nobody above could recover from it, for this may be a goroutine
// of the store's, and what is under way must be ended.
func (bt *batch) ask() (reply []int64, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case runtime.Error:
			reply, err = nil, fmt.Errorf("the client panicked: %w", v)
		default: // which may say a key
			reply, err = nil, fmt.Errorf("the client panicked with a %T", v)
		}
	}()
	return bt.b.store.client.Run(bt.ctx, bt.b.script, bt.keys, bt.args)
}

// judge returns the error of those who asked, and counts.
func (bt *batch) judge(reply []int64, err error) error {
	s := bt.b.store
	if err == nil {
		err = bt.check(reply)
	}
	if err != nil {
		return s.failed(err)
	}
	s.succeeded(len(bt.calls))
	return nil
}

// check tells whether a reply can be one of our scripts: what a client made of another reply must not
// be read as an answer.
func (bt *batch) check(reply []int64) error {
	if len(reply) == 0 || reply[0] <= 0 && bt.b.store.clock == nil {
		return errReply
	}
	rest := reply[1:]
	for range bt.calls {
		n := partSize(rest, bt.b.limits)
		if n == 0 {
			return errReply
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}

var errReply = errors.New("a reply that is not one of our scripts")

// pack writes down keys and arguments.
func (bt *batch) pack() {
	b, usual := bt.b, true
	bt.keys, bt.args = bt.keys[:0], append(bt.args[:0], b.head...)
	if b.clock != noClock {
		bt.args[b.clock] = b.store.now()
	}
	for _, c := range bt.calls {
		bt.keys = append(bt.keys, c.keys...)
		usual = usual && len(c.args) == 1 && c.args[0] == b.usual
	}
	for i := 0; i < len(bt.calls) && !usual; i++ {
		bt.args = append(bt.args, bt.calls[i].args...)
	}
}

// settle answers the callers and empties the batch.
func (bt *batch) settle(reply []int64, err error) {
	var rest []int64
	if err == nil {
		rest = reply[1:]
	}
	for _, c := range bt.calls {
		if err != nil {
			c.settle(0, nil, err)
			continue
		}
		n := partSize(rest, bt.b.limits)
		c.settle(reply[0], rest[:n:n], nil)
		rest = rest[n:]
	}
	clear(bt.calls)
	clear(bt.keys)
	clear(bt.args)
	bt.calls, bt.keys, bt.args, bt.ctx = bt.calls[:0], bt.keys[:0], bt.args[:0], nil
}

// giveUp answers the callers of a batch whose time is up before the client has returned, and lets
// another take its place.
func (bt *batch) giveUp() {
	s := bt.b.store
	s.overdue.of(bt.slot).Add(1)
	err := s.failed(s.errTimeout)
	for _, c := range bt.calls {
		c.settle(0, nil, err)
	}
	bt.ctx.end()
	go bt.b.batch(bt.lane).runWaiting()
}
