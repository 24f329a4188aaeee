package wrap_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// TestWhatChangesNothingForgetsNothing: a refusal is forgotten when the state of one of its limits changes, and only then. A
// limit is the same by name, window and algorithm.
func TestWhatChangesNothingForgetsNothing(t *testing.T) {
	hour := slidegate.PerHour(1).Named("l")
	for _, c := range []struct {
		what string
		do   func(store slidegate.Store) error
		asks int
	}{
		{"a take of nothing", func(store slidegate.Store) error {
			_, err := slidegate.MustNew(store, hour).TakeN(background, "a", 0)
			return err
		}, 0},
		{"a look by a group", func(store slidegate.Store) error {
			_, err := groupOf(store, hour, slidegate.PerDay(9)).Peek(background, "a", "b")
			return err
		}, 0},
		{"a take of nothing by a group", func(store slidegate.Store) error {
			_, err := groupOf(store, hour, slidegate.PerDay(9)).TakeN(background, 0, "a", "b")
			return err
		}, 0},
		{"a refusal by a group", func(store slidegate.Store) error {
			_, err := groupOf(store, hour, slidegate.PerDay(9)).Take(background, "a", "b")
			return err
		}, 0},
		{"another key", takes("b", hour), 0},
		{"another name", takes("a", hour.Named("m")), 0},
		{"another window", takes("a", slidegate.PerDay(1).Named("l")), 0},
		{"another algorithm", takes("a", hour.Counter()), 0},
		{"another algorithm and window", takes("a", slidegate.PerDay(1).Named("l").Counter()), 0},
		{"a reset", func(store slidegate.Store) error { return slidegate.MustNew(store, hour).Reset(background, "a") }, 1},
		{"a charge by a larger quota", takes("a", slidegate.PerHour(9).Named("l")), 1},
	} {
		store, behind := remembering(gatetest.NewClock(start))
		l := slidegate.MustNew(store, hour)
		must(t)(l.Take(background, "a"))
		must(t)(l.Take(background, "a"))
		if err := c.do(store); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		asked := behind.asked()
		must(t)(l.Peek(background, "a"))
		if n := behind.asked() - asked; n != c.asks {
			t.Errorf("after %s the store is asked %d times of what it had refused, want %d", c.what, n, c.asks)
		}
	}
}

func groupOf(store slidegate.Store, a, b slidegate.Limit) *slidegate.Group {
	return slidegate.MustNewGroup(slidegate.MustNew(store, a), slidegate.MustNew(store, b))
}

func takes(key string, limit slidegate.Limit) func(slidegate.Store) error {
	return func(store slidegate.Store) error {
		_, err := slidegate.MustNew(store, limit).Take(background, key)
		return err
	}
}

// TestALookIsRememberedToo, if it is refused; and of several limits one that has room is no reason to ask.
func TestALookIsRememberedToo(t *testing.T) {
	for _, began := range []time.Time{start, time.UnixMilli(0)} {
		clock := gatetest.NewClock(began)
		store, behind := remembering(clock)
		l := slidegate.MustNew(store, slidegate.PerHour(1), slidegate.Per(10*time.Millisecond, 2), slidegate.PerDay(9).Counter())
		must(t)(l.Take(background, "a"))
		must(t)(l.Peek(background, "a"))
		asked := behind.asked()
		for range 2 {
			if d := must(t)(l.Peek(background, "a")); d.Allowed || behind.asked() != asked {
				t.Errorf("at %v: allowed is %v, and the store was asked %d times more", clock.Now(), d.Allowed, behind.asked()-asked)
			}
			clock.Advance(50 * time.Millisecond)
		}
	}
}

// TestARefusalIsRememberedToTheNanosecond: as long as no store's clock, which may be up to a millisecond further than it
// says, can be at the retry; and as long as the cap. A clock that goes back knows nothing.
func TestARefusalIsRememberedToTheNanosecond(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		window, most time.Duration
		after        time.Duration
		asks         int
	}{
		{ms, time.Second, 0, 0},
		{ms, time.Second, 1, 1},
		{5 * ms, time.Second, 4 * ms, 0},
		{5 * ms, time.Second, 4*ms + 1, 1},
		{2 * ms, ms + ms/2, ms, 0},
		{2 * ms, ms + ms/2, ms + 1, 1},
		{time.Hour, ms + ms/2, ms + ms/2 - 1, 0},
		{time.Hour, ms + ms/2, ms + ms/2, 1},
		{time.Hour, time.Second, -1, 1},
	} {
		clock := gatetest.NewClock(start)
		store, behind := remembering(clock, wrap.WithCap(c.most))
		l := slidegate.MustNew(store, slidegate.Per(c.window, 1))
		must(t)(l.Take(background, "a"))
		must(t)(l.Take(background, "a"))
		asked := behind.asked()
		clock.Advance(c.after)
		must(t)(l.Peek(background, "a"))
		if n := behind.asked() - asked; n != c.asks {
			t.Errorf("%v in %v, cap %v: the store is asked %d times, want %d", c.after, c.window, c.most, n, c.asks)
		}
	}
}

// TestARefusalIsNeverBehindTheStore, wherever in its millisecond the store's clock was: nobody is refused, and nobody told to
// wait longer, than by the store itself.
func TestARefusalIsNeverBehindTheStore(t *testing.T) {
	for _, part := range []time.Duration{0, 1, 500_000, 999_998, 999_999} {
		for _, later := range []time.Duration{0, 1, 2, 999_999, 1_000_000, 1_000_001, 3_999_999, 4_000_000, 4_000_001, 4_000_002} {
			clock := gatetest.NewClock(start.Add(part))
			store, behind := remembering(clock)
			mine, bare := slidegate.MustNew(store, slidegate.Per(5*time.Millisecond, 1)), slidegate.MustNew(behind, slidegate.Per(5*time.Millisecond, 1))
			must(t)(mine.Take(background, "a"))
			must(t)(mine.Take(background, "a"))
			clock.Advance(later)
			got, want := must(t)(mine.Peek(background, "a")), must(t)(bare.Peek(background, "a"))
			if want.Allowed && !got.Allowed || got.At().Before(want.At()) || got.RetryAfter() > want.RetryAfter() {
				t.Errorf("%v later than %v in a millisecond: %s at %v, and the store says %s at %v", later, part, got, got.At(), want, want.At())
			}
		}
	}
}

// TestRefusalsOfSeveralKeysStay as long as there is room, and one that is refused anew takes its own place.
func TestRefusalsOfSeveralKeysStay(t *testing.T) {
	clock := gatetest.NewClock(start)
	store, behind := remembering(clock, wrap.WithMaxDenials(8), wrap.WithCap(time.Second))
	l := slidegate.MustNew(store, slidegate.PerHour(1))
	for range 3 {
		for i := range 8 {
			must(t)(l.Take(background, strconv.Itoa(i)))
			must(t)(l.Take(background, strconv.Itoa(i)))
		}
		asked := behind.asked()
		for i := range 8 {
			must(t)(l.Peek(background, strconv.Itoa(i)))
		}
		if n := behind.asked() - asked; n != 0 || store.Stats().Remembered != 8 {
			t.Errorf("of 8 refusals %d were forgotten: %+v", n, store.Stats())
		}
		clock.Advance(2 * time.Second)
	}
}

// TestTheSoonestToEndGivesWay, wherever it is among the others.
func TestTheSoonestToEndGivesWay(t *testing.T) {
	for soonest := range 8 {
		store, behind := remembering(gatetest.NewClock(start), wrap.WithMaxDenials(8), wrap.WithCap(time.Minute))
		var all []*slidegate.Limiter
		for i := range 9 {
			window := time.Duration(30-i) * time.Second // so that each is sooner than the one before
			if i == soonest {
				window = time.Second
			}
			l := slidegate.MustNew(store, slidegate.Per(window, 1))
			must(t)(l.Take(background, strconv.Itoa(i)))
			must(t)(l.Take(background, strconv.Itoa(i)))
			all = append(all, l)
		}
		for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8} {
			if i == soonest {
				continue
			}
			asked := behind.asked()
			if must(t)(all[i].Peek(background, strconv.Itoa(i))); behind.asked() != asked {
				t.Errorf("refusal %d gave way, and %d ends sooner", i, soonest)
			}
		}
	}
}

// A told store answers what it is told, and binds unless it is not to.
type told struct {
	answer slidegate.Answer
	unable error
}

func (s *told) Bind([]slidegate.Limit) (slidegate.Plan, error) { return s, s.unable }

func (s *told) BindJoint([][]slidegate.Limit) (slidegate.JointPlan, error) { return nil, s.unable }

func (s *told) Take(context.Context, string, int64) (slidegate.Answer, error) { return s.answer, nil }

func (s *told) Peek(context.Context, string, int64) (slidegate.Answer, error) { return s.answer, nil }

func (s *told) Refund(context.Context, string, slidegate.Answer, int64) error { return nil }

func (s *told) Reset(context.Context, string) error { return nil }

// TestARefusalThatReadingsDoNotExplain is not remembered; one whose wait is longer than a clock can tell, for its store's clock
// was set back by centuries, is remembered for the cap.
func TestARefusalThatReadingsDoNotExplain(t *testing.T) {
	const centuries = 400 * 365 * 24 * 3_600_000
	now := start.UnixMilli()
	for what, c := range map[string]struct {
		reading slidegate.Reading
		want    wrap.DenialsStats
	}{
		"room for more":      {slidegate.Reading{At: now, Units: 2}, wrap.DenialsStats{}},
		"a charge to come":   {slidegate.Reading{At: now + centuries, Units: 5, Back: now + centuries}, wrap.DenialsStats{Answered: 1, Remembered: 1}},
		"nothing that stays": {slidegate.Reading{At: now, Units: 5, Back: now - time.Hour.Milliseconds()}, wrap.DenialsStats{}},
	} {
		store := &told{answer: slidegate.Answer{Now: now, Readings: [slidegate.MaxLimits]slidegate.Reading{c.reading}}}
		denials := wrap.Denials(store, wrap.WithDenialsClock(gatetest.NewClock(start).Now))
		plan, err := denials.Bind([]slidegate.Limit{slidegate.PerHour(5)})
		if err != nil {
			t.Fatal(err)
		}
		plan.Take(background, "a", 1)
		plan.Take(background, "a", 1)
		if got := denials.Stats(); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// TestEveryErrorIsPassedOn by denials and by a fallback whose stores are both away, whatever is asked.
func TestEveryErrorIsPassedOn(t *testing.T) {
	a, b := slidegate.PerHour(9).Named("a"), slidegate.PerDay(9).Named("b")
	for name, over := range map[string]func(first, second slidegate.Store) slidegate.Store{
		"denials":  func(first, _ slidegate.Store) slidegate.Store { return wrap.Denials(first) },
		"fallback": func(first, second slidegate.Store) slidegate.Store { return wrap.Fallback(first, second) },
	} {
		first, second := newSwitch(memstore.New()), newSwitch(memstore.New())
		store := over(first, second)
		one, two := slidegate.MustNew(store, a), slidegate.MustNew(store, a, b)
		group := groupOf(store, a, b)
		charged, both := must(t)(two.Take(background, "k")), must(t)(group.Take(background, "k", "k"))
		first.off(errDown)
		second.off(errDown)
		for verb, err := range map[string]error{
			"Allow of one":      failure(one.Allow(background, "k")),
			"Allow of two":      failure(two.Allow(background, "k")),
			"Take of one":       failure(one.Take(background, "k")),
			"Take of two":       failure(two.Take(background, "k")),
			"Peek of two":       failure(two.Peek(background, "k")),
			"Refund":            two.Refund(background, &charged),
			"Reset":             two.Reset(background, "k"),
			"Take of a group":   failure(group.Take(background, "k", "k")),
			"Peek by a group":   failure(group.Peek(background, "k", "k")),
			"Refund to a group": group.Refund(background, &both),
		} {
			if !errors.Is(err, errDown) {
				t.Errorf("%s, %s: %v, want %v", name, verb, err, errDown)
			}
		}
	}
}

func failure[T any](_ T, err error) error { return err }

// TestAStoreThatCannotBindSaysSo through denials, and through a fallback as either store.
func TestAStoreThatCannotBindSaysSo(t *testing.T) {
	unable, able := &told{unable: errDown}, memstore.New()
	for name, store := range map[string]interface {
		slidegate.Store
		slidegate.JointStore
	}{
		"denials":            wrap.Denials(unable),
		"fallback's primary": wrap.Fallback(unable, able),
		"fallback's backup":  wrap.Fallback(able, unable),
	} {
		if _, err := store.Bind(limits); !errors.Is(err, errDown) {
			t.Errorf("%s: Bind: %v", name, err)
		}
		if _, err := store.BindJoint([][]slidegate.Limit{limits, limits}); !errors.Is(err, errDown) {
			t.Errorf("%s: BindJoint: %v", name, err)
		}
	}
	once := &flawed{Store: able, bind: errDown, bound: 1} // the limits together, and not each by itself
	if _, err := wrap.Fallback(once, able).Bind([]slidegate.Limit{slidegate.PerHour(1), slidegate.PerDay(1)}); !errors.Is(err, errDown) {
		t.Errorf("a primary that cannot bind each limit by itself: %v", err)
	}
}
