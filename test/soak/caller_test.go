package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A verdict is what a request came to.
type verdict uint8

const (
	admitted   verdict = iota
	refused            // by a limit
	passed             // not decided, and let through; or no rule is about it
	turnedAway         // not decided, and told so
	lost               // not answered
	wrong              // anything else
	verdicts           // how many there are
)

func (v verdict) String() string {
	return [...]string{"admitted", "refused", "passed", "turned away", "lost", "wrong"}[v]
}

// An answer is what came of a take.
type answer struct {
	verdict
	span
	kind
	units int64  // that were charged
	note  string // of what is wrong
}

// A target is what can be asked about keys.
type target interface {
	take(key string, cost int64) answer
	peek(key string) (verdict, string)
	// reset returns some time before the key was forgotten, and some time after it.
	reset(key string) span
	// takeAndRefund takes, and gives back what was charged.
	takeAndRefund(key string, cost int64) (verdict, string)
}

// An ask is a target and who keeps the account of it.
type ask struct {
	target
	ledger   *ledger
	mostCost int64
}

// A caller asks again and again, at a pace, now this of its targets and now that.
type caller struct {
	name string
	pace time.Duration
	asks []ask
}

// The keys that are always wanted. One of them is given back to at times, and another one reset: where both were
// done to one key, a refund could take units of somebody else that were charged in the same millisecond as the reset.
const (
	plainKey  = iota
	refundKey // is given back to
	resetKey  // is reset
	hotKeys
)

// newKeys numbers the keys that come and go. Each is asked for six times.
var newKeys atomic.Uint32

func anyKey() (name string, number uint32) {
	if rand.IntN(10) < 6 {
		number = rand.Uint32N(hotKeys)
		return fmt.Sprintf("hot-%d", number), number
	}
	number = hotKeys + newKeys.Add(1)/6
	return fmt.Sprintf("new-%d", number), number
}

// A tally counts what was asked and what came of it.
type tally struct {
	verdicts                [verdicts]atomic.Int64
	takes, peeks, refunds   atomic.Int64
	resets, faults, reloads atomic.Int64
	firstWrong              atomic.Pointer[string]
}

func (t *tally) note(who string, v verdict, note string) {
	t.verdicts[v].Add(1)
	if v == wrong {
		text := who + ": " + note
		t.firstWrong.CompareAndSwap(nil, &text)
	}
}

// asked returns how many requests there were of all kinds.
func (t *tally) asked() int64 {
	return t.takes.Load() + t.peeks.Load() + t.refunds.Load() + t.resets.Load()
}

// speak asks until ctx ends. What is under way then is waited for.
func (c *caller) speak(ctx context.Context, h *history, t *tally) {
	tick := time.NewTicker(c.pace)
	defer tick.Stop()
	for {
		c.once(h, t)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *caller) once(h *history, t *tally) {
	a := c.asks[rand.IntN(len(c.asks))]
	name, key := anyKey()
	cost := int64(1)
	if rand.IntN(5) == 0 {
		cost += rand.Int64N(a.mostCost)
	}
	switch n := rand.IntN(1000); {
	case n < 30:
		t.peeks.Add(1)
		v, note := a.peek(name)
		t.note(c.name, v, note)
	case n < 33 && key == resetKey:
		t.resets.Add(1)
		h.add(entry{span: a.reset(name), key: key, ledger: a.ledger.id, kind: reset})
	case n < 150 && key == refundKey:
		t.refunds.Add(1)
		v, note := a.takeAndRefund(name, cost)
		t.note(c.name, v, note)
	default:
		t.takes.Add(1)
		got := a.take(name, cost)
		t.note(c.name, got.verdict, got.note)
		if got.verdict == admitted {
			h.add(entry{got.span, got.units, key, a.ledger.id, got.kind})
		}
	}
}
