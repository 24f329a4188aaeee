package linear

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
)

// The specification has two limits of each key, both narrow, so that units come and go while a history is made.
const (
	logSpan, logQuota         = 40, 5
	counterSpan, counterQuota = 100, 12
)

func limits() []slidegate.Limit {
	return []slidegate.Limit{
		slidegate.Per(logSpan*time.Millisecond, logQuota).Named("log"),
		slidegate.Per(counterSpan*time.Millisecond, counterQuota).Counter().Named("counter"),
	}
}

// An input is what a caller asked for.
type input struct {
	Verb string // take, peek, refund or reset
	Key  string
	Cost int64
	At   int64 // of a refund, the store's clock when the units were charged
}

// An output is what the caller was told: all of it. Times are in milliseconds.
type output struct {
	Allowed bool
	Now     int64 // the store's clock
	Limits  [2]standing
}

// A standing is how one limit stands.
type standing struct{ Remaining, Reset, Retry int64 }

// A state is the store of one key as the contract has it: the units of the log by the time of their charge, and those of the
// counter by the start of their window.
//
// A decision carries the clock by which it was made, so a state has one answer to it, and its whole answer is judged: the
// verdict, and of each limit what remains and both waits. Were the clock left open, within the time of the call, an answer
// could be explained by any of many states. A refund or a reset carries none. It needs none: units that have left the window
// count no more, whether they are given back or not.
type state struct {
	now          int64 // of the last decision
	log, counter []units
}

type units struct{ at, n int64 }

func logUsed(log []units, now int64) (used int64) {
	for _, u := range log {
		if now-u.at < logSpan {
			used += u.n
		}
	}
	return used
}

func counterUsed(counter []units, now int64) (used int64) {
	start := now - now%counterSpan
	for _, u := range counter {
		switch u.at {
		case start:
			used += u.n
		case start - counterSpan:
			used += u.n * (counterSpan - (now - start)) / counterSpan
		}
	}
	return used
}

// used returns the units that count at a time.
func (s state) used(now int64) [2]int64 {
	return [2]int64{logUsed(s.log, now), counterUsed(s.counter, now)}
}

var quotas = [2]int64{logQuota, counterQuota}

// wait returns the milliseconds until no more than so many units of a limit count.
func (s state) wait(i int, now, most int64) (ms int64) {
	for s.used(now + ms)[i] > most {
		ms++
	}
	return ms
}

// charge returns units with n more at a time, and without those that are past.
func charge(all []units, at, n, past int64) []units {
	kept := slices.DeleteFunc(slices.Clone(all), func(u units) bool { return u.at <= past })
	if last := len(kept) - 1; last >= 0 && kept[last].at == at {
		kept[last].n += n
		return kept
	}
	return append(kept, units{at, n})
}

// giveBack returns units without n of those at a time.
func giveBack(all []units, at, n int64) []units {
	kept := slices.Clone(all)
	for i := range kept {
		if kept[i].at == at {
			kept[i].n -= min(n, kept[i].n)
		}
	}
	return slices.DeleteFunc(kept, func(u units) bool { return u.n == 0 })
}

// step tells whether a call may have come to that, and returns the state after it.
func (s state) step(in input, out output) (bool, state) {
	switch in.Verb {
	case "reset":
		return true, state{now: s.now}
	case "refund":
		s.log = giveBack(s.log, in.At, in.Cost)
		s.counter = giveBack(s.counter, in.At-in.At%counterSpan, in.Cost)
		return true, s
	}
	if out.Now < s.now {
		return false, s // a store's clock is read in the act
	}
	s.now = out.Now
	used := s.used(s.now)
	fits := used[0]+in.Cost <= logQuota && used[1]+in.Cost <= counterQuota
	if fits && in.Verb == "take" {
		s.log = charge(s.log, s.now, in.Cost, s.now-logSpan)
		start := s.now - s.now%counterSpan
		s.counter = charge(s.counter, start, in.Cost, start-2*counterSpan)
	}
	return out.Allowed == fits && s.explains(in, out, used), s
}

// explains tells whether the limits stand as was told, for a request before which so many units were used.
func (s state) explains(in input, out output, before [2]int64) bool {
	after := s.used(s.now)
	for i, told := range out.Limits {
		if told.Remaining != quotas[i]-after[i] || told.Reset != s.wait(i, s.now, 0) {
			return false
		}
		retry := int64(0)
		if before[i]+in.Cost > quotas[i] {
			retry = s.wait(i, s.now, quotas[i]-in.Cost)
		}
		if told.Retry != retry {
			return false
		}
	}
	return true
}

var spec = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(input).Key
			of[key] = append(of[key], op)
		}
		for _, part := range of {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) { return s.(state).step(in.(input), out.(output)) },
	Equal: func(a, b any) bool {
		x, y := a.(state), b.(state)
		return x.now == y.now && slices.Equal(x.log, y.log) && slices.Equal(x.counter, y.counter)
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
}
