package slidegate_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// canned is a store that gives one answer to everything.
type canned struct {
	slidegate.Plan
	answer slidegate.Answer
}

func (c *canned) Bind([]slidegate.Limit) (slidegate.Plan, error) { return c, nil }

func (c *canned) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return c.answer, nil
}

func decide(t *testing.T, answer slidegate.Answer, cost int64, limits ...slidegate.Limit) slidegate.Decision {
	t.Helper()
	d, err := slidegate.MustNew(&canned{answer: answer}, limits...).TakeN(background, "secret", cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// answer builds an Answer at now of readings.
func answer(allowed bool, now int64, readings ...slidegate.Reading) slidegate.Answer {
	a := slidegate.Answer{Allowed: allowed, Now: now}
	copy(a.Readings[:], readings)
	return a
}

// TestReadingsBecomeStates: what each reading means, by hand.
func TestReadingsBecomeStates(t *testing.T) {
	const now = 1_000_000
	log, counter := slidegate.Per(time.Second, 10), slidegate.Per(time.Second, 10).Counter()
	ms := time.Millisecond
	for _, c := range []struct {
		what       string
		limit      slidegate.Limit
		allowed    bool
		cost       int64
		now        int64
		reading    slidegate.Reading
		left       int64
		reset, try time.Duration
	}{
		{"an empty log", log, true, 0, now, slidegate.Reading{}, 10, 0, 0},
		{"a log with a charge of now", log, true, 1, now, slidegate.Reading{At: now, Units: 1}, 9, 1000 * ms, 0},
		{"the newest charge counts for the reset", log, true, 1, now, slidegate.Reading{At: now - 400, Units: 3}, 7, 600 * ms, 0},
		{"a refusal waits for the unit that has to leave", log, false, 4, now, slidegate.Reading{At: now - 100, Units: 8, Back: now - 700}, 2, 900 * ms, 300 * ms},
		{"a lowered quota leaves nothing, never less", log, false, 1, now, slidegate.Reading{At: now, Units: 40, Back: now - 1}, 0, 1000 * ms, 999 * ms},
		{"a charge recorded ahead of the clock", log, false, 3, now, slidegate.Reading{At: now + 500, Units: 8, Back: now + 250}, 2, 1500 * ms, 1250 * ms},
		{"an empty counter", counter, true, 0, now, slidegate.Reading{At: now}, 10, 0, 0},
		{"cur counts in the next window too", counter, true, 1, now, slidegate.Reading{At: now, Units: 1}, 9, 1001 * ms, 0},
		{"prev is weighed", counter, true, 1, now + 500, slidegate.Reading{At: now, Units: 2, Back: 6}, 5, 1001 * ms, 0},
		{"prev alone", counter, true, 0, now + 500, slidegate.Reading{At: now, Back: 6}, 7, 334 * ms, 0},
		{"a full counter waits for prev", counter, false, 1, now, slidegate.Reading{At: now, Units: 5, Back: 5}, 0, 1801 * ms, 1 * ms},
		{"a full counter waits for the next window", counter, false, 1, now + 999, slidegate.Reading{At: now, Units: 10}, 0, 902 * ms, 2 * ms},
		{"a clock behind the stored start", counter, false, 1, now - 5000, slidegate.Reading{At: now, Units: 10}, 0, 6901 * ms, 6001 * ms},
	} {
		d := decide(t, answer(c.allowed, c.now, c.reading), c.cost, c.limit)
		s := d.State(0)
		if s.Remaining != c.left || s.ResetIn != c.reset || s.RetryIn != c.try || d.RetryAfter() != c.try {
			t.Errorf("%s: %d left, reset %s, retry %s (%s); want %d, %s, %s", c.what, s.Remaining, s.ResetIn, s.RetryIn, d.RetryAfter(), c.left, c.reset, c.try)
		}
		if d.Remaining() != s.Remaining || d.ResetAfter() != s.ResetIn || d.Binding() != s || d.BindingIndex() != 0 {
			t.Errorf("%s: the only limit is not the binding one", c.what)
		}
		if d.At() != time.UnixMilli(c.now) || d.Len() != 1 || d.Key() != "secret" {
			t.Errorf("%s: at %s, %d limits", c.what, d.At(), d.Len())
		}
	}
}

// TestBindingLimit: one that refuses; then the least remaining; then the longest to wait; then
// declared order.
func TestBindingLimit(t *testing.T) {
	const now = 1_000_000
	at := func(units, newest, leaver int64) slidegate.Reading {
		return slidegate.Reading{At: newest, Units: units, Back: leaver}
	}
	limit := func(name string, quota int64) slidegate.Limit { return slidegate.PerSecond(quota).Named(name) }
	for _, c := range []struct {
		what   string
		answer slidegate.Answer
		cost   int64
		limits []slidegate.Limit
		want   string
		retry  time.Duration
	}{
		{"least remaining", answer(true, now, at(1, now, 0), at(3, now, 0)), 1, []slidegate.Limit{limit("a", 9), limit("b", 5)}, "b", 0},
		{"a tie goes to the longer reset", answer(true, now, at(1, now-500, 0), at(1, now, 0)), 1, []slidegate.Limit{limit("a", 5), limit("b", 5)}, "b", 0},
		{"a full tie goes to the first", answer(true, now, at(1, now, 0), at(1, now, 0)), 1, []slidegate.Limit{limit("a", 5), limit("b", 5)}, "a", 0},
		{"one that refuses before one with less left", answer(false, now, at(9, now, 0), at(1, now, now-100)), 5,
			[]slidegate.Limit{limit("a", 14), limit("b", 5)}, "b", 900 * time.Millisecond},
		{"one that refuses, though others have less left", answer(false, now, at(94, now, 0), at(3, now, now-400)), 6,
			[]slidegate.Limit{limit("a", 100), limit("b", 8)}, "b", 600 * time.Millisecond},
		{"of several that refuse the least remaining", answer(false, now, at(3, now, now-100), at(4, now, now-900)), 5,
			[]slidegate.Limit{limit("a", 6), limit("b", 6)}, "b", 900 * time.Millisecond},
		{"of equals that refuse the longest retry", answer(false, now, at(5, now, now-900), at(5, now, now-100)), 1,
			[]slidegate.Limit{limit("a", 5), limit("b", 5)}, "b", 900 * time.Millisecond},
		{"of equals that refuse alike the first", answer(false, now, at(5, now, now-100), at(5, now, now-100)), 1,
			[]slidegate.Limit{limit("a", 5), limit("b", 5)}, "a", 900 * time.Millisecond},
	} {
		d := decide(t, c.answer, c.cost, c.limits...)
		if got := d.Binding().Limit.Name; got != c.want || d.RetryAfter() != c.retry {
			t.Errorf("%s: %q binds, retry %s; want %q, %s", c.what, got, d.RetryAfter(), c.want, c.retry)
		}
	}
}

// TestTheBindingLimitIsFirstByTheRule: whatever three limits read, it is the one that sorting them by the rule puts first.
func TestTheBindingLimitIsFirstByTheRule(t *testing.T) {
	const now = 1_000_000
	var readings []slidegate.Reading
	for _, units := range []int64{1, 3, 4} {
		for _, newest := range []int64{now, now - 500} {
			readings = append(readings, slidegate.Reading{At: newest, Units: units, Back: now - 900}, slidegate.Reading{At: newest, Units: units, Back: now - 600})
		}
	}
	limits := []slidegate.Limit{slidegate.PerSecond(4).Named("a"), slidegate.PerSecond(5).Named("b"), slidegate.PerSecond(4).Named("c")}
	for _, a := range []slidegate.Answer{{Allowed: true, Now: now}, {Now: now}} {
		for n := range len(readings) * len(readings) * len(readings) {
			for i := range limits {
				a.Readings[i] = readings[n%len(readings)]
				n /= len(readings)
			}
			d := decide(t, a, 2, limits...)
			order := []int{0, 1, 2}
			slices.SortStableFunc(order, func(i, j int) int {
				switch s, other := d.State(i), d.State(j); {
				case d.Refuses(i) != d.Refuses(j):
					return cmp.Compare(other.RetryIn, s.RetryIn)
				case s.Remaining != other.Remaining:
					return cmp.Compare(s.Remaining, other.Remaining)
				case d.Refuses(i):
					return cmp.Compare(other.RetryIn, s.RetryIn)
				default:
					return cmp.Compare(other.ResetIn, s.ResetIn)
				}
			})
			if got := d.BindingIndex(); got != order[0] {
				t.Fatalf("%+v: limit %d binds, and by the rule %d", a, got, order[0])
			}
		}
	}
}

// TestAnAdmittedRequestHasNothingToWaitFor, though what it took may leave no room for another.
func TestAnAdmittedRequestHasNothingToWaitFor(t *testing.T) {
	d := decide(t, answer(true, 1000, slidegate.Reading{At: 1000, Units: 5}, slidegate.Reading{At: 1000, Units: 5}), 5,
		slidegate.PerSecond(5), slidegate.PerSecond(5).Counter())
	for i := range d.Len() {
		if s := d.State(i); s.RetryIn != 0 || s.Remaining != 0 {
			t.Errorf("%s: %d left, retry %s", s.Limit, s.Remaining, s.RetryIn)
		}
	}
	if d.RetryAfter() != 0 {
		t.Errorf("retry %s", d.RetryAfter())
	}
}

// TestLimitsWithRoomDoNotMakeARefusalWait: the retry is that of the limits that refuse.
func TestLimitsWithRoomDoNotMakeARefusalWait(t *testing.T) {
	d := decide(t, answer(false, 1000, slidegate.Reading{At: 1000, Units: 2, Back: 1000}, slidegate.Reading{At: 1000, Units: 2}), 1,
		slidegate.PerSecond(2), slidegate.PerDay(3))
	if d.RetryAfter() != time.Second || d.State(1).RetryIn != 0 {
		t.Errorf("retry %s, of the limit with room %s; want 1s and 0s", d.RetryAfter(), d.State(1).RetryIn)
	}
}

// TestWaitsSaturate instead of wrapping round: a clock can step back by more than a Duration holds.
func TestWaitsSaturate(t *testing.T) {
	d := decide(t, answer(false, -1<<50, slidegate.Reading{At: 1 << 50, Units: 1, Back: 1 << 50}), 1, slidegate.PerSecond(1))
	if most := time.Duration(math.MaxInt64).Truncate(time.Millisecond); d.RetryAfter() != most || d.ResetAfter() != most {
		t.Errorf("retry %s, reset %s; want %s", d.RetryAfter(), d.ResetAfter(), most)
	}
}

// TestADecisionNeverPrintsItsKey: keys are people.
func TestADecisionNeverPrintsItsKey(t *testing.T) {
	d := decide(t, answer(false, 1000, slidegate.Reading{At: 1000, Units: 2, Back: 700}), 1, slidegate.PerSecond(2).Named("burst"))
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(verb, d); got != "refused by burst=2/1s, 0 left, retry in 700ms" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	free, _ := slidegate.Unlimited().Take(background, "secret")
	shut, _ := slidegate.Blocked().Take(background, "secret")
	admitted := decide(t, answer(true, 1000, slidegate.Reading{At: 1000, Units: 1}), 1, slidegate.PerMinute(100))
	for want, d := range map[string]slidegate.Decision{
		"admitted without limits": free, "refused without limits": shut,
		"admitted, 99 of 100/1m left, full in 1m0s": admitted,
	} {
		if got := d.String(); got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
	}
}

// TestADecisionWithoutLimitsIsHarmless to whoever asks it.
func TestADecisionWithoutLimitsIsHarmless(t *testing.T) {
	var d slidegate.Decision
	if d.Allowed || d.Len() != 0 || d.BindingIndex() != -1 || d.Binding() != (slidegate.State{}) || d.Remaining() != 0 ||
		d.ResetAfter() != 0 || d.RetryAfter() != 0 || !d.At().IsZero() || d.Charged() || d.Key() != "" {
		t.Errorf("the zero Decision is %+v", d)
	}
}
