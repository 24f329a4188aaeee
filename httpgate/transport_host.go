package httpgate

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

const (
	// patience is how long others wait for an answer that is to say how many they may be. It is also
	// how long a request is taken to travel until its server has charged it.
	patience = time.Second

	// longestHold is the longest time that a host's word is taken for.
	longestHold = 24 * time.Hour

	// maxBudgets is how many policies of a host are kept.
	maxBudgets = 16

	// widest is the longest that requests which waited for a reset are spread apart, and usual how
	// far where no window is known.
	widest = time.Second
	usual  = 100 * time.Millisecond

	// finest is how close together timers fire.
	finest = time.Millisecond
)

// A host is what is known of one server, and who waits for it. Times are since the transport was made.
type host struct {
	used  atomic.Int64 // when last, for eviction
	clock func() time.Duration

	mu       sync.Mutex
	known    bool // an answer has come, or the program told
	sent     int64
	answered int64
	budgets  []*budget
	hold     time.Duration // nothing is sent before
	probe    time.Duration // when the probe that is out was sent, -1 if none is

	lastSent time.Duration
	lost     time.Duration // when the last request failed that may have been charged

	queue  list.List // of *waiter
	spread bool      // who waits does so for a moment that comes to all at once
	next   time.Duration
	timer  *time.Timer
}

func newHost(clock func() time.Duration, presumed []slidegate.Limit) *host {
	h := &host{clock: clock, known: len(presumed) > 0, probe: -1, lost: -maxTold}
	for _, l := range presumed {
		b := &budget{name: l.Name, quota: l.Quota, window: l.Window, span: l.Window, presumed: true, complete: true}
		if l.Algorithm == slidegate.SlidingCounter {
			b.span *= 2 // a charge counts until the end of the window after its own
		}
		b.said.free = l.Quota
		h.budgets = append(h.budgets, b)
	}
	return h
}

// A pass is the right to send one request.
type pass struct {
	at       time.Duration
	answered int64 // requests whose answer had come by then: they are in whatever this one's says
	probe    bool
}

// A waiter is a request that is held back.
type waiter struct {
	until   time.Duration // the latest moment to be sent
	granted bool
	ready   chan struct{}
	pass    pass
	err     error
}

// loose is when the last request was charged at the latest whose answer does not say so: it has none
// yet, or was lost. It is long ago if there is none.
func (h *host) loose() time.Duration {
	if h.sent > h.answered {
		return max(h.lost, h.lastSent+patience)
	}
	return h.lost
}

func (h *host) charged(b *budget) int64 { return h.sent - b.spared }

// admit sends one more request if every budget has room.
func (h *host) admit(now time.Duration) (pass, bool) {
	if now < h.hold || !h.known && h.probe >= 0 && now < h.probe+patience {
		return pass{}, false
	}
	probe := false
	for _, b := range h.budgets {
		charged := h.charged(b)
		b.ripen(now, h.loose(), charged)
		ok, alone := b.admits(charged)
		if !ok {
			return pass{}, false
		}
		probe = probe || alone
	}
	if probe && h.probe >= 0 && now < h.probe+patience {
		return pass{}, false
	}
	if probe = probe || !h.known && h.probe < 0; probe {
		h.probe = now
	}
	h.sent++
	h.lastSent = now
	return pass{now, h.answered, probe}, true
}

// wake returns the earliest time at which the n-th request from now may be sent, as far as is known.
func (h *host) wake(n int64, now time.Duration) time.Duration {
	at := max(now, h.hold)
	if h.spread {
		at = max(at, h.next+time.Duration(n-1)*h.distance())
	}
	for _, b := range h.budgets {
		at = max(at, b.when(n, now, h.loose(), h.charged(b)))
	}
	return at
}

// tightest returns the name of the policy that has room last.
func (h *host) tightest(now time.Duration) (name string) {
	last := now
	for _, b := range h.budgets {
		if at := b.when(1, now, h.loose(), h.charged(b)); at > last {
			name, last = b.name, at
		}
	}
	return name
}

// distance is how far apart requests are sent that waited for the same moment.
func (h *host) distance() time.Duration {
	d := time.Duration(0)
	for _, b := range h.budgets {
		if b.quota > 0 && b.window > 0 {
			d = max(d, b.window/time.Duration(b.quota))
		}
	}
	if d == 0 {
		return usual
	}
	return min(d, widest)
}

// hopeful tells whether an answer that is on its way may change how long there is to wait.
func (h *host) hopeful(now time.Duration) bool { return h.sent > h.answered && now >= h.hold }

// enter returns when the request may be sent, or fails at once if that cannot be until a moment. A
// request that was refused goes before those that have not been sent.
func (h *host) enter(ctx context.Context, until time.Duration, first bool) (pass, error) {
	if err := ctx.Err(); err != nil {
		return pass{}, err
	}
	h.mu.Lock()
	now := h.clock()
	if h.queue.Len() == 0 || first {
		if p, ok := h.admit(now); ok {
			h.mu.Unlock()
			return p, nil
		}
	}
	wait := until - now
	switch need := h.wake(int64(h.queue.Len())+1, now) - now; {
	case h.hopeful(now):
		wait = max(wait, patience)
	case need > wait:
		name := h.tightest(now)
		h.mu.Unlock()
		return pass{}, tooSoon(ctx, need, name)
	}
	w := &waiter{until: until, ready: make(chan struct{})}
	var place *list.Element
	if first {
		place = h.queue.PushFront(w)
	} else {
		place = h.queue.PushBack(w)
	}
	h.dispatch(now)
	h.mu.Unlock()
	return h.await(ctx, w, place, wait)
}

func (h *host) await(ctx context.Context, w *waiter, place *list.Element, wait time.Duration) (pass, error) {
	timer := time.NewTimer(max(wait, 0) + finest)
	defer timer.Stop()
	select {
	case <-w.ready:
		return w.pass, w.err
	case <-ctx.Done():
	case <-timer.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	if w.granted {
		if ctx.Err() == nil {
			return w.pass, w.err
		}
		if w.err == nil {
			h.close(w.pass, true)
		}
	} else {
		h.queue.Remove(place)
	}
	h.dispatch(now)
	if err := ctx.Err(); err != nil {
		return pass{}, err
	}
	return pass{}, tooSoon(ctx, max(h.wake(1, now)-now, finest), h.tightest(now))
}

// dispatch lets as many go as may, in order, and sees to it that the rest is woken.
func (h *host) dispatch(now time.Duration) {
	for h.queue.Len() > 0 && !(h.spread && now < h.next) {
		p, ok := h.admit(now)
		if !ok {
			break
		}
		if h.spread { // what is denser than timers are goes in batches
			d := h.distance()
			h.next = max(h.next, now-finest+min(d, finest)) + d
		}
		h.release(h.queue.Front(), p, nil)
	}
	if h.queue.Len() == 0 {
		h.spread, h.next = false, 0
		if h.timer != nil {
			h.timer.Stop()
		}
		return
	}
	at := h.wake(1, now)
	h.spread = h.spread || at > now
	if at <= now {
		at = h.probe + patience
	}
	h.turnAway(now, at)
	wait := max(at-now, finest)
	if h.timer == nil {
		h.timer = time.AfterFunc(wait, h.tick)
		return
	}
	h.timer.Reset(wait)
}

func (h *host) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch(h.clock())
}

func (h *host) release(place *list.Element, p pass, err error) {
	w := place.Value.(*waiter)
	h.queue.Remove(place)
	w.pass, w.err, w.granted = p, err, true
	close(w.ready)
}

// turnAway fails those at once that cannot be served in time any more.
func (h *host) turnAway(now, at time.Duration) {
	if h.hopeful(now) {
		return
	}
	name := ""
	for e := h.queue.Front(); e != nil; {
		next := e.Next()
		if w := e.Value.(*waiter); at > w.until {
			if name == "" {
				name = h.tightest(now)
			}
			h.release(e, pass{}, &TooSoonError{Wait: at - now, Policy: name})
		}
		e = next
	}
}

// close counts a request as done; spared says that no policy charged it.
func (h *host) close(p pass, spared bool) {
	h.answered++
	if p.probe {
		h.probe = -1
	}
	if spared {
		for _, b := range h.budgets {
			b.spared++
		}
	}
}

// An outcome is what became of a request.
type outcome struct {
	policies []Policy
	all      bool // they are all that the server has

	unsent  bool // it never reached the server
	failed  bool // it may have
	stale   bool // from a cache: the server was not asked
	refused bool
	again   bool          // it may be sent once more after that
	wait    time.Duration // of a refusal, -1 where it does not say
}

// leave takes over what became of a request.
func (h *host) leave(p pass, o *outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	defer h.dispatch(now)
	h.close(p, o.unsent || o.stale)
	if o.unsent || o.stale {
		return
	}
	if o.failed {
		h.lost = now
		return
	}
	h.known = true
	if o.refused {
		h.hold = max(h.hold, now+min(max(o.wait, patience), longestHold))
	}
	h.hear(p, o, now)
}

// hear tells every budget what the answer says of it.
func (h *host) hear(p pass, o *outcome, now time.Duration) {
	spoken := uint32(0)
	for _, policy := range o.policies {
		if policy.Unit != "" && policy.Unit != "requests" && policy.Unit != "request" {
			continue
		}
		i := h.find(&policy, spoken)
		if i < 0 {
			continue
		}
		b := h.budgets[i]
		spoken |= 1 << i
		b.complete = b.presumed || o.all
		b.hear(&hearing{
			Policy: policy, sent: p.at, now: now, charged: h.charged(b), seen: p.answered + 1 - b.spared,
			refused: o.refused, wait: h.hold - now,
		})
	}
	for i := len(h.budgets) - 1; i >= 0; i-- {
		b := h.budgets[i]
		switch {
		case spoken&(1<<i) != 0:
		case b.presumed:
			b.silent(now, p.answered+1-b.spared)
		case b.outdated(now):
			h.budgets = slices.Delete(h.budgets, i, i+1)
		default:
			b.spared++
		}
	}
}

// find returns the index of a policy's budget, which is made if there is none. Where an answer has one
// name twice, as gates in a row may send, each has its own. Of a host that announces more policies
// than are kept, those stay that were heard of last; it is -1 where this answer alone has more.
func (h *host) find(p *Policy, spoken uint32) int {
	name, partition := bounded(p.Name), bounded(p.Partition) // the server chooses how long they are
	for i, b := range h.budgets {
		if spoken&(1<<i) == 0 && b.name == name && (b.partition == partition || b.presumed) {
			return i
		}
	}
	b := &budget{name: strings.Clone(name), partition: strings.Clone(partition)} // not the whole field
	if len(h.budgets) < maxBudgets {
		h.budgets = append(h.budgets, b)
		return len(h.budgets) - 1
	}
	oldest := -1
	for i, other := range h.budgets {
		if spoken&(1<<i) == 0 && !other.presumed && (oldest < 0 || other.latest < h.budgets[oldest].latest) {
			oldest = i
		}
	}
	if oldest >= 0 {
		h.budgets[oldest] = b
	}
	return oldest
}
