package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
)

var background = context.Background()

// An operation is one call of one caller: what was asked and told, and when, by a clock that all callers share.
type operation struct {
	Process      int // of the caller, where several have made a history
	Caller       int
	Call, Return int64 // nanoseconds
	In           input
	Out          output
}

// A crowd is callers who ask at the same time for few keys, each one call after another.
type crowd struct {
	callers, calls, keys int
	process              int    // that it is in
	seed                 uint64 // of what they ask
	name                 string // of this history, in every key
}

// ask lets all ask a limiter and returns what they were told, with the times that clock gives.
func (c crowd) ask(l *slidegate.Limiter, clock func() int64) (history []operation, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range c.callers {
		wg.Go(func() {
			number := c.process*c.callers + i
			one := caller{process: c.process, number: number, limiter: l, rng: rand.New(rand.NewPCG(c.seed, uint64(number))), clock: clock}
			<-begin
			for range c.calls {
				one.call(c.name + "-" + strconv.Itoa(one.rng.IntN(c.keys)))
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, one.history...)
			if one.err != nil {
				err = one.err
			}
		})
	}
	close(begin)
	wg.Wait()
	return history, err
}

// A caller asks one call after another.
type caller struct {
	process int
	number  int
	limiter *slidegate.Limiter
	rng     *rand.Rand
	clock   func() int64
	held    []slidegate.Decision // that may be given back
	history []operation
	err     error
}

func (c *caller) call(key string) {
	op := operation{Process: c.process, Caller: c.number, In: input{Verb: c.verb(), Key: key, Cost: 1 + c.rng.Int64N(3)}}
	var d slidegate.Decision
	var err error
	switch op.In.Verb {
	case "refund":
		last := c.held[len(c.held)-1]
		c.held = c.held[:len(c.held)-1]
		op.In.Key, op.In.Cost, op.In.At = last.Key(), last.Held(), last.At().UnixMilli()
		op.Call = c.clock()
		err = c.limiter.Refund(background, &last)
	case "reset":
		op.Call = c.clock()
		err = c.limiter.Reset(background, key)
	case "peek":
		op.Call = c.clock()
		d, err = c.limiter.PeekN(background, key, op.In.Cost)
	default:
		op.Call = c.clock()
		d, err = c.limiter.TakeN(background, key, op.In.Cost)
	}
	op.Return = c.clock()
	if err != nil {
		c.err = err
		return
	}
	op.Out = told(&d)
	if d.Charged() {
		c.held = append(c.held, d)
	}
	c.history = append(c.history, op)
}

func (c *caller) verb() string {
	switch n := c.rng.IntN(20); {
	case n < 4:
		return "peek"
	case n < 9 && len(c.held) > 0:
		return "refund"
	case n == 9:
		return "reset"
	}
	return "take"
}

func told(d *slidegate.Decision) (out output) {
	if d.Len() == 0 {
		return out // of a refund, or a reset
	}
	out.Allowed, out.Now = d.Allowed, d.At().UnixMilli()
	for i := range out.Limits {
		s := d.State(i)
		out.Limits[i] = standing{s.Remaining, s.ResetIn.Milliseconds(), s.RetryIn.Milliseconds()}
	}
	return out
}

// verdict tells whether some order explains a history.
func verdict(history []operation) porcupine.CheckResult {
	ops := make([]porcupine.Operation, len(history))
	for i, op := range history {
		ops[i] = porcupine.Operation{ClientId: op.Caller, Call: op.Call, Return: op.Return, Input: op.In, Output: op.Out}
	}
	return porcupine.CheckOperationsTimeout(spec, ops, time.Minute)
}

// mustBeLinearizable fails the test if no order explains a history.
func mustBeLinearizable(t *testing.T, history []operation) {
	t.Helper()
	if result := verdict(history); result != porcupine.Ok {
		t.Fatalf("%s: no order of these explains the answers:\n%s", result, describe(history))
	}
}

func describe(history []operation) string {
	var b strings.Builder
	slices.SortFunc(history, func(a, b operation) int {
		if c := strings.Compare(a.In.Key, b.In.Key); c != 0 {
			return c
		}
		return int(a.Call - b.Call)
	})
	for _, op := range history {
		fmt.Fprintf(&b, "%d-%d caller %d: %+v: %+v\n", op.Call, op.Return, op.Caller, op.In, op.Out)
	}
	return b.String()
}

// A census is what histories had in them: where little happens little is shown.
type census struct {
	admitted, refused, peeked, refunded, reset int
	overlaps                                   int // pairs of calls for one key that were under way at the same time
	abroad                                     int // those of different processes
}

func (c *census) add(history []operation) {
	for i, a := range history {
		switch {
		case a.In.Verb == "peek":
			c.peeked++
		case a.In.Verb == "refund":
			c.refunded++
		case a.In.Verb == "reset":
			c.reset++
		case a.Out.Allowed:
			c.admitted++
		default:
			c.refused++
		}
		for _, b := range history[:i] {
			if a.In.Key == b.In.Key && a.Call < b.Return && b.Call < a.Return {
				c.overlaps++
				if a.Process != b.Process {
					c.abroad++
				}
			}
		}
	}
}

// mustShowSomething fails the test if hardly anything happened at the same time.
func (c *census) mustShowSomething(t *testing.T) {
	t.Helper()
	t.Logf("%+v", *c)
	if c.overlaps < 1000 || min(c.admitted, c.refused, c.peeked, c.refunded) < 100 || c.reset < 10 {
		t.Errorf("the histories show little: %+v", *c)
	}
}
