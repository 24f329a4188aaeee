package redisscript

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/test/redistest"
)

// Twins are the scripts and the oracle on one clock: whatever is asked of both, they must answer alike, to
// the last number of a reading.
type twins struct {
	clock    *gatetest.Clock
	scripts  *scripts
	limits   [][]slidegate.Limit
	mine     []*scriptPlan
	theirs   []slidegate.Plan
	receipts []receipt

	decisions int64 // that were compared
}

// A receipt is what a charge answered: enough to give it back.
type receipt struct {
	plan   int
	key    string
	cost   int64
	answer slidegate.Answer
}

func newTwins(s *scripts, plans ...[]slidegate.Limit) *twins {
	w := &twins{clock: s.clock, scripts: s, limits: plans}
	oracle := gatetest.NewOracle(s.clock)
	for _, limits := range plans {
		mine, _ := s.Bind(limits)
		theirs, _ := oracle.Bind(limits)
		w.mine, w.theirs = append(w.mine, mine.(*scriptPlan)), append(w.theirs, theirs)
	}
	return w
}

func (w *twins) take(plan int, key string, costs ...int64) error {
	if err := w.mine[plan].ask("t", key, costs...); err != nil {
		return err
	}
	return w.hear(plan, key, costs, w.tell(plan, key, costs))
}

// tell asks the oracle for decisions at this time.
func (w *twins) tell(plan int, key string, costs []int64) (theirs []slidegate.Answer) {
	for _, cost := range costs {
		answer, _ := w.theirs[plan].Take(background, key, cost)
		theirs = append(theirs, answer)
	}
	return theirs
}

// hear compares what the scripts answered with what the oracle did.
func (w *twins) hear(plan int, key string, costs []int64, theirs []slidegate.Answer) error {
	mine, err := w.mine[plan].answers(len(costs))
	if err != nil {
		return err
	}
	w.decisions += int64(len(costs))
	for i, cost := range costs {
		if mine[i] != theirs[i] {
			return w.differ(fmt.Sprintf("take of %d", cost), plan, mine[i], theirs[i])
		}
		if theirs[i].Allowed && cost > 0 {
			w.receipts = append(w.receipts, receipt{plan, key, cost, theirs[i]})
		}
	}
	return nil
}

// pace takes so many times, with a gap before each, and waits for no answer in between: a round trip is dear next to
// a decision.
func (w *twins) pace(plan int, key string, gap int64, costs []int64) error {
	var theirs [][]slidegate.Answer
	for i := range costs {
		w.advance(gap)
		if err := w.mine[plan].ask("t", key, costs[i]); err != nil {
			return err
		}
		theirs = append(theirs, w.tell(plan, key, costs[i:i+1]))
	}
	for i := range costs {
		if err := w.hear(plan, key, costs[i:i+1], theirs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *twins) peek(plan int, key string, cost int64) error {
	mine, err := w.mine[plan].Peek(background, key, cost)
	if err != nil {
		return err
	}
	w.decisions++
	if theirs, _ := w.theirs[plan].Peek(background, key, cost); mine != theirs {
		return w.differ(fmt.Sprintf("peek of %d", cost), plan, mine, theirs)
	}
	return nil
}

func (w *twins) differ(verb string, plan int, mine, theirs slidegate.Answer) error {
	n := len(w.limits[plan])
	return fmt.Errorf("%s by %v: %v at %d %v; the oracle: %v at %d %v", verb, w.limits[plan],
		mine.Allowed, mine.Now, mine.Readings[:n], theirs.Allowed, theirs.Now, theirs.Readings[:n])
}

// refund gives units of the i-th receipt back, by a plan that need not be the one that charged them.
func (w *twins) refund(i int, cost int64) error {
	if len(w.receipts) == 0 {
		return nil
	}
	r := w.receipts[i%len(w.receipts)]
	w.theirs[r.plan].Refund(background, r.key, r.answer, min(cost, r.cost))
	return w.mine[r.plan].Refund(background, r.key, r.answer, min(cost, r.cost))
}

func (w *twins) reset(plan int, key string) error {
	w.theirs[plan].Reset(background, key)
	return w.mine[plan].Reset(background, key)
}

func (w *twins) advance(ms int64) { w.clock.Advance(time.Duration(ms) * time.Millisecond) }

// A draw is where random things come from.
type draw struct{ *rand.Rand }

// number is 1 to most, of any magnitude.
func (d draw) number(most int64) int64 {
	n := float64(most)
	for range d.IntN(4) {
		n = n * d.Float64()
	}
	if d.IntN(3) == 0 {
		n = min(n, float64(1+d.IntN(1000)))
	}
	return max(1, min(most, int64(n)))
}

// limit draws a limit: any of those that are allowed, of which some differ only in quota and resolution.
func (d draw) limit(name string) slidegate.Limit {
	window := d.number(slidegate.MaxWindow.Milliseconds())
	l := slidegate.Per(time.Duration(window)*time.Millisecond, d.number(slidegate.MaxQuota)).Named(name)
	switch d.IntN(5) {
	case 0:
		l = l.Counter()
	case 1:
		l = l.WithResolution(time.Duration(d.number(window)) * time.Millisecond)
	}
	return l
}

// variant draws a limit over the same state: another quota, another resolution.
func (d draw) variant(l slidegate.Limit) slidegate.Limit {
	l.Quota = d.number(slidegate.MaxQuota)
	if l.Algorithm == slidegate.SlidingLog {
		l.Resolution = time.Duration(d.number(l.Window.Milliseconds())) * time.Millisecond
	}
	return l
}

func (d draw) plans() [][]slidegate.Limit {
	var one, other []slidegate.Limit
	for i := range 1 + d.IntN(3) {
		one = append(one, d.limit(string(rune('a'+i))))
		other = append(other, d.variant(one[i]))
	}
	return [][]slidegate.Limit{one, other}
}

// smallest returns the largest cost that every limit can ever admit.
func smallest(limits []slidegate.Limit) int64 {
	most := int64(slidegate.MaxQuota)
	for _, l := range limits {
		most = min(most, l.Quota)
	}
	return most
}

// step does one random thing. Most steps are small in time, so that logs become long.
func (w *twins) step(d draw) error {
	plan, key := 0, "k"
	if d.IntN(20) == 0 {
		plan = 1
	}
	if d.IntN(10) == 0 {
		key = "other"
	}
	most := smallest(w.limits[plan])
	span := w.limits[0][0].Window.Milliseconds()
	switch n := d.IntN(100); {
	case n < 50:
		w.advance(1 + d.Int64N(max(1, span/50)))
		return w.take(plan, key, min(most, 1+d.Int64N(3)))
	case n < 51:
		costs := make([]int64, 1+d.IntN(60))
		for i := range costs {
			costs[i] = min(most, 1+d.Int64N(3))
		}
		return w.pace(plan, key, d.Int64N(max(2, span/100)), costs)
	case n < 60:
		return w.take(plan, key, d.number(most))
	case n < 65:
		return w.take(plan, key, d.Int64N(most+1), 0, 1, d.Int64N(most+1))
	case n < 75:
		return w.peek(plan, key, d.Int64N(most+1))
	case n < 85:
		return w.refund(d.IntN(1<<30), d.number(most))
	case n < 90:
		return w.refund(len(w.receipts)-1, most)
	case n < 94:
		w.advance(d.Int64N(2*span+1) - span/2)
	case n < 98:
		w.advance(d.Int64N(span/10+2) - span/20)
	case n < 99:
		w.advance(3 * span)
	default:
		return w.reset(plan, key)
	}
	return nil
}

// seeds says how many random runs a test makes: go test ./redisscript -seeds 100 is much more than usual.
var seeds = flag.Uint64("seeds", 1, "random runs of each test, in units of what is usual")

// TestScriptsAreTheOracle: whatever is asked of both, they answer alike.
func TestScriptsAreTheOracle(t *testing.T) {
	server := redistest.Standalone(t)
	decisions := int64(0)
	for seed := range 100 * *seeds {
		d := draw{rand.New(rand.NewPCG(seed, 1))}
		s := newScripts(t, server, newClock())
		if seed%5 == 0 {
			s.clock.SetMilli(-start)
		}
		s.prefix = decimal(int64(seed))
		w := newTwins(s, d.plans()...)
		for step := range 600 {
			if err := w.step(d); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		if s.replaced != 0 {
			t.Fatalf("seed %d: %d values of our own were not understood", seed, s.replaced)
		}
		decisions += w.decisions
	}
	t.Logf("%d decisions compared", decisions)
}
