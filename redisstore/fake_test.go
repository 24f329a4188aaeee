package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate"
)

// background is what a caller has who cannot leave.
var background = context.Background()

// A sent script, as a client got it.
type sent struct {
	script     *Script
	keys, args []string
}

// limits returns how many limits a call of the script that decides is about.
func (s sent) limits() int { return len(s.args[0]) - 1 }

// decisions returns the costs in a call of the script that decides: one for each decision.
func (s sent) decisions() []string {
	costs := s.args[1+2*s.limits()+strings.Count(s.args[0], "r"):]
	if strings.ContainsAny(s.args[0], "TP") {
		costs = costs[1:] // the clock
	}
	if len(costs) > 0 {
		return costs
	}
	return slices.Repeat([]string{"1"}, len(s.keys)/s.limits())
}

// A fake client answers at once: everything is admitted, and Units is the cost, so that a caller can
// tell its own answer. It counts what it was asked. before, if set, is called first, and its error returned.
type fake struct {
	before func(ctx context.Context, s sent) error

	mu  sync.Mutex
	all []sent
}

func (f *fake) Run(ctx context.Context, s *Script, keys, args []string) ([]int64, error) {
	call := sent{s, append([]string(nil), keys...), append([]string(nil), args...)}
	f.mu.Lock()
	f.all = append(f.all, call)
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(ctx, call); err != nil {
			return nil, err
		}
	}
	return call.answer(), nil
}

// answer admits everything.
func (s sent) answer() []int64 {
	if s.script != takeScript {
		return []int64{1000, 0}
	}
	reply := []int64{1000}
	for _, cost := range s.decisions() {
		units, _ := strconv.ParseInt(cost, 10, 64)
		reply = append(reply, units*headFlags*statuses+1)
		if units%2 == 1 { // some parts are longer
			reply[len(reply)-1] += (hasAt + hasBack) * statuses
			reply = append(reply, 1000, 0)
		}
		for range s.limits() - 1 {
			reply = append(reply, units*headFlags)
		}
	}
	return reply
}

func (f *fake) sent() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sent(nil), f.all...)
}

// clustered is a fake in front of a cluster.
type clustered struct{ *fake }

func (clustered) Clustered() bool { return true }

// prompt is a fake that keeps deadlines.
type prompt struct{ *fake }

func (prompt) Prompt() bool { return true }

// bind returns a plan of a store.
func bind(t testing.TB, s *Store, limits ...slidegate.Limit) *plan {
	t.Helper()
	p, err := s.Bind(limits)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*plan)
}

// named returns a limit as slidegate.New hands it to a store: with a name.
func named(t testing.TB, text string) slidegate.Limit {
	t.Helper()
	l, err := slidegate.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	if l.Name == "" {
		l.Name, _, _ = strings.Cut(text, ",resolution")
	}
	return l
}
