package laws

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// A fault is a store with something wrong in it, which a law is there to find.
type fault struct {
	law   string
	what  string
	limit func(slidegate.Limit) slidegate.Limit                // what is counted in the place of a limit
	alter func(p, free slidegate.Plan, ls plan) slidegate.Plan // free has the largest quotas over the same state
	open  opener                                               // where it is not in a memory store
}

// faults has at least one for each law.
var faults = []fault{
	{
		law:  "NoWindowHoldsMoreThanTheQuota",
		what: "a charge counts a millisecond too short",
		limit: func(l slidegate.Limit) slidegate.Limit {
			l.Window = max(l.Window-time.Millisecond, time.Millisecond)
			l.Resolution = min(l.Resolution, l.Window)
			return l
		},
	},
	{
		law:  "NoWindowHoldsMoreThanTheQuota",
		what: "in an outage each process decides by the whole quota, and not by its share",
		open: func(t *rapid.T, clock *gatetest.Clock) *stage {
			s := withFallback(onMemory)(t, clock)
			for i, backup := range s.backups {
				s.stores[i] = wrap.Fallback(s.outage, backup)
			}
			return s
		},
	},
	{
		law:  "RetryIsTight",
		what: "a refusal is remembered for twice its wait",
		open: func(t *rapid.T, clock *gatetest.Clock) *stage {
			s := onMemory(t, clock)
			half := func() time.Time { return time.UnixMilli(clock.Now().UnixMilli() / 2) }
			s.stores[0] = wrap.Denials(s.inside, wrap.WithDenialsClock(half))
			return s
		},
	},
	{
		law:  "RetryIsTight",
		what: "who is refused is told to wait a millisecond too long",
		alter: func(p, _ slidegate.Plan, ls plan) slidegate.Plan {
			later := func(a slidegate.Answer, err error) (slidegate.Answer, error) {
				for i := range ls {
					if a.Readings[i].Back != 0 && ls[i].Algorithm == slidegate.SlidingLog {
						a.Readings[i].Back++
					}
				}
				return a, err
			}
			return &altered{Plan: p, take: func(k string, n int64) (slidegate.Answer, error) { return later(p.Take(background, k, n)) },
				peek: func(k string, n int64) (slidegate.Answer, error) { return later(p.Peek(background, k, n)) }}
		},
	},
	{
		law:  "ResetIsTight",
		what: "the newest charge is told a millisecond too old",
		alter: func(p, _ slidegate.Plan, ls plan) slidegate.Plan {
			return &altered{Plan: p, peek: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Peek(background, k, n)
				for i := range ls {
					if a.Readings[i].Units > 0 && ls[i].Algorithm == slidegate.SlidingLog {
						a.Readings[i].At--
					}
				}
				return a, err
			}}
		},
	},
	{
		law:  "RefusalChangesNothing",
		what: "a refusal drops what has left the window",
		alter: func(p, free slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, take: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Take(background, k, n)
				if err != nil || a.Allowed {
					return a, err
				}
				charged, err := free.Take(background, k, 1)
				if err != nil {
					return a, err
				}
				return a, free.Refund(background, k, charged, 1)
			}}
		},
	},
	{
		law:  "PeekForetellsTakeAndWritesNothing",
		what: "a look drops what has left the window",
		alter: func(p, free slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, peek: func(k string, n int64) (slidegate.Answer, error) {
				charged, err := free.Take(background, k, 1)
				if err == nil {
					err = free.Refund(background, k, charged, 1)
				}
				if err != nil {
					return charged, err
				}
				return p.Peek(background, k, n)
			}}
		},
	},
	{
		law:  "PeekForetellsTakeAndWritesNothing",
		what: "a look says yes to one unit more",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, peek: func(k string, n int64) (slidegate.Answer, error) { return p.Peek(background, k, max(n, 1)-1) }}
		},
	},
	{
		law:  "TakingManyIsTakingOneByOne",
		what: "of more than three units at once one is not charged",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, take: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Take(background, k, n)
				if err == nil && a.Allowed && n > 3 {
					err = p.Refund(background, k, a, 1)
				}
				return a, err
			}}
		},
	},
	{
		law:  "TakeThenRefundIsNothing",
		what: "a refund of several units gives one too few",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, refund: func(k string, a slidegate.Answer, n int64) error { return p.Refund(background, k, a, max(1, n-1)) }}
		},
	},
	{
		law:  "UsedAndRemainingAreTheQuota",
		what: "one unit more is told to remain than does",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, peek: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Peek(background, k, n)
				a.Readings[0].Units = max(0, a.Readings[0].Units-1)
				return a, err
			}}
		},
	},
	{
		law:  "CounterErrsWithinItsBound",
		what: "a counter admits twice the quota in an aligned window",
		limit: func(l slidegate.Limit) slidegate.Limit {
			if l.Algorithm == slidegate.SlidingCounter {
				l.Quota = min(2*l.Quota, slidegate.MaxQuota)
			}
			return l
		},
	},
	{
		law:  "TimeRunningBackFreesNothing",
		what: "a clock that is set back forgets",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			latest := map[string]int64{}
			return &altered{Plan: p, peek: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Peek(background, k, n)
				if was, seen := latest[k]; err == nil && seen && a.Now < was {
					if err = p.Reset(background, k); err == nil {
						a, err = p.Peek(background, k, n)
					}
				}
				latest[k] = a.Now
				return a, err
			}}
		},
	},
	{
		law:  "IdleForAWindowLeavesNothing",
		what: "state is held a millisecond longer than it matters",
		limit: func(l slidegate.Limit) slidegate.Limit {
			l.Window += time.Millisecond
			return l
		},
	},
	{
		law:  "OthersAreNeverTouched",
		what: "keys that are no text are one",
		alter: func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			text := func(k string) string { return strings.ToValidUTF8(k, "?") }
			return &altered{Plan: p,
				take:  func(k string, n int64) (slidegate.Answer, error) { return p.Take(background, text(k), n) },
				peek:  func(k string, n int64) (slidegate.Answer, error) { return p.Peek(background, text(k), n) },
				reset: func(k string) error { return p.Reset(background, text(k)) },
			}
		},
	},
	{
		law:  "ChangingAQuotaKeepsHistory",
		what: "state is found by the quota too",
		limit: func(l slidegate.Limit) slidegate.Limit {
			return l.Named(fmt.Sprint(l.Name, l.Quota))
		},
	},
}

// A faulty store is a memory store with a fault.
type faulty struct {
	slidegate.Store
	fault
}

func (f faulty) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	limits = slices.Clone(limits)
	for i := range limits {
		if f.limit != nil {
			limits[i] = f.limit(limits[i])
		}
	}
	p, err := f.Store.Bind(limits)
	if err != nil || f.alter == nil {
		return p, err
	}
	free, err := f.Store.Bind(plan(limits).with(func(int64) int64 { return slidegate.MaxQuota }))
	return f.alter(p, free, limits), err
}

// An altered plan has verbs replaced, those that are given.
type altered struct {
	slidegate.Plan
	take   func(key string, cost int64) (slidegate.Answer, error)
	peek   func(key string, cost int64) (slidegate.Answer, error)
	refund func(key string, a slidegate.Answer, cost int64) error
	reset  func(key string) error
}

func (p *altered) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.take != nil {
		return p.take(key, cost)
	}
	return p.Plan.Take(background, key, cost)
}

func (p *altered) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.peek != nil {
		return p.peek(key, cost)
	}
	return p.Plan.Peek(background, key, cost)
}

func (p *altered) Refund(ctx context.Context, key string, a slidegate.Answer, cost int64) error {
	if p.refund != nil {
		return p.refund(key, a, cost)
	}
	return p.Plan.Refund(background, key, a, cost)
}

func (p *altered) Reset(ctx context.Context, key string) error {
	if p.reset != nil {
		return p.reset(key)
	}
	return p.Plan.Reset(background, key)
}

// in opens what an opener does, with the fault in the store.
func (f fault) in(open opener) opener {
	return func(t *rapid.T, clock *gatetest.Clock) *stage {
		s := open(t, clock)
		s.stores[0] = faulty{s.stores[0], f}
		return s
	}
}

// A recorder is a test that fails for itself alone, and remembers what it was told.
type recorder struct {
	testing.TB
	failed bool
	lines  []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Name() string              { return "fault" }
func (r *recorder) Failed() bool              { return r.failed }
func (r *recorder) Fail()                     { r.failed = true }
func (r *recorder) FailNow()                  { r.failed = true; runtime.Goexit() }
func (r *recorder) Log(args ...any)           { r.lines = append(r.lines, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, a ...any)   { r.Log(fmt.Sprintf(f, a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.Logf(f, a...); r.Fail() }
func (r *recorder) Fatalf(f string, a ...any) { r.Logf(f, a...); r.FailNow() }

// finds tells whether rapid finds a law broken, and what it says.
func finds(t *testing.T, law Law, open opener) (bool, string) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(r, func(t *rapid.T) { law.Check(t, open) })
	}()
	<-done
	return r.failed, strings.Join(r.lines, "\n")
}

// set gives a flag of rapid another value until the test ends.
func set(t *testing.T, name, value string) {
	t.Helper()
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flag.Set(name, old) })
}

// TestEveryLawCanFail: of a store with a fault that is planted for it each law says so. The draws are the same every time, so
// nothing here hangs on luck.
func TestEveryLawCanFail(t *testing.T) {
	set(t, "rapid.seed", "1")
	set(t, "rapid.checks", "1000")
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.shrinktime", "100ms") // to find is enough
	planted := map[string]bool{}
	for _, f := range slices.Concat(faults, faultsOfRedis(t)) {
		planted[f.law] = true
		open := f.open
		if open == nil {
			open = f.in(onMemory)
		}
		found, said := finds(t, law(t, f.law), open)
		if !found {
			t.Errorf("%s does not find that %s", f.law, f.what)
		}
		t.Logf("%s, planted: %s\n%s", f.law, f.what, said)
	}
	for _, law := range Laws() {
		if !planted[law.Name] {
			t.Errorf("%s: no fault is planted for it", law.Name)
		}
	}
}

// TestTheFailureOnThePage: what docs/laws.md shows is what the first fault comes to, and nothing of it can be left out.
func TestTheFailureOnThePage(t *testing.T) {
	set(t, "rapid.checks", "1")
	set(t, "rapid.nofailfile", "true")
	plans := []plan{{slidegate.Per(2*time.Millisecond, 1).Named("a")}}
	history := []step{{verb: take, cost: 1}, {verb: pass, ms: 1}, {verb: take, cost: 1}}
	play := func(history []step) (bool, string) {
		return finds(t, Law{Check: func(t *rapid.T, open opener) {
			w := enter(t, open(t, gatetest.NewClock(time.UnixMilli(1_757_750_412_345))), plans, "k")
			w.countWindows()
			for _, s := range history {
				w.play(s, "k")
			}
		}}, faults[0].in(onMemory))
	}
	found, said := play(history)
	_, shown, _ := strings.Cut(page(t), "```text\n")
	message, draws, _ := strings.Cut(shown, "\n")
	if !found || !strings.Contains(said, message) {
		t.Errorf("the page shows %q, and the law says %s", message, said)
	}
	for _, line := range []string{fmt.Sprintf("[rapid] draw plans: %#v\n", plans), fmt.Sprintf("[rapid] draw history: %#v\n", history)} {
		if !strings.Contains(draws, line) {
			t.Errorf("the page does not show %s", line)
		}
	}
	for i := range history {
		if found, said := play(slices.Delete(slices.Clone(history), i, i+1)); found {
			t.Errorf("without step %d it fails as well: %s", i, said)
		}
	}
}

func law(t *testing.T, name string) Law {
	t.Helper()
	i := slices.IndexFunc(Laws(), func(l Law) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("there is no law %s", name)
	}
	return Laws()[i]
}

// faultsOfRedis are such that only who looks at the bytes of a server sees them.
func faultsOfRedis(t *testing.T) []fault {
	server := redistest.Standalone(t)
	onServer := onRedisOf(t, server)
	node := shelfOf(t, server)[0]
	// behind runs a command on every key, after what the wrong verdict says.
	behind := func(verdict bool, command ...string) func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
		return func(p, _ slidegate.Plan, _ plan) slidegate.Plan {
			return &altered{Plan: p, take: func(k string, n int64) (slidegate.Answer, error) {
				a, err := p.Take(background, k, n)
				if err != nil || a.Allowed != verdict {
					return a, err
				}
				for _, key := range server.Keys() {
					if _, err := node.Do(slices.Insert(slices.Clone(command), 1, key)...); err != nil {
						return a, err
					}
				}
				return a, nil
			}}
		}
	}
	all := []fault{
		{law: "RefusalChangesNothing", what: "a refusal prolongs the life of a key", alter: behind(false, "PEXPIRE", "100000000")},
		{law: "RefusalChangesNothing", what: "a refusal writes a byte", alter: behind(false, "APPEND", "x")},
		{law: "IdleForAWindowLeavesNothing", what: "a charge sets no expiry", alter: behind(true, "PERSIST")},
	}
	for i := range all {
		all[i].open = all[i].in(onServer)
	}
	return all
}
