package test

import (
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"pgregory.net/rapid"
)

// magnitudes are numbers up to most, small ones as likely as large ones.
func magnitudes(most int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1, min(most, 10)), rapid.Int64Range(1, min(most, 5000)), rapid.Int64Range(1, most), rapid.Just(most))
}

// anyLimit is every valid limit, without a name.
var anyLimit = rapid.Custom(func(t *rapid.T) slidegate.Limit {
	window := magnitudes(slidegate.MaxWindow.Milliseconds()).Draw(t, "window")
	l := slidegate.Per(time.Duration(window)*time.Millisecond, magnitudes(slidegate.MaxQuota).Draw(t, "quota"))
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 1:
		return l.Counter()
	case 2:
		return l.WithResolution(time.Duration(magnitudes(window).Draw(t, "resolution")) * time.Millisecond)
	}
	return l
})

// anyName is every valid name.
var anyName = rapid.Custom(func(t *rapid.T) string {
	inner := rapid.SliceOfN(rapid.ByteRange(' ', '~').Filter(func(b byte) bool { return b != '=' }), 1, slidegate.MaxNameLen)
	return string(inner.Draw(t, "name"))
}).Filter(func(s string) bool { return s[0] != ' ' && s[len(s)-1] != ' ' })

// anyPlan is one to eight limits by the names a, b, c, ….
var anyPlan = rapid.Custom(func(t *rapid.T) []slidegate.Limit {
	limits := rapid.SliceOfN(anyLimit, 1, slidegate.MaxLimits).Draw(t, "limits")
	for i := range limits {
		limits[i].Name = string(rune('a' + i))
	}
	return limits
})

// revised is the same plan after a change of quotas and resolutions: its state is shared.
func revised(t *rapid.T, plan []slidegate.Limit) []slidegate.Limit {
	plan = slices.Clone(plan)
	for i := range plan {
		plan[i].Quota = magnitudes(slidegate.MaxQuota).Draw(t, "revised quota")
		if plan[i].Algorithm == slidegate.SlidingLog {
			plan[i].Resolution = time.Duration(magnitudes(plan[i].Window.Milliseconds()).Draw(t, "revised resolution")) * time.Millisecond
		}
	}
	return plan
}

// TestMemoryStoreIsTheOracle: whatever is asked, in whatever order and at whatever time.
func TestMemoryStoreIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan.Draw(t, "plan")
		w, err := newTwins(plan, revised(t, plan))
		if err != nil {
			t.Fatal(err)
		}
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		keys := rapid.SampledFrom([]string{"a", "b"})
		which := rapid.IntRange(0, 1)
		cost := func(plan int) int64 {
			least := slidegate.MaxQuota
			for _, l := range w.mine[plan].Limits() {
				least = min(least, int(l.Quota))
			}
			return rapid.Int64Range(-1, int64(least)+1).Draw(t, "cost")
		}
		span := func() int64 {
			return rapid.SampledFrom(plan).Draw(t, "of").Window.Milliseconds()
		}
		t.Repeat(map[string]func(*rapid.T){
			"take":  func(t *rapid.T) { p := which.Draw(t, "plan"); check(w.take(p, keys.Draw(t, "key"), cost(p))) },
			"one":   func(t *rapid.T) { check(w.take(which.Draw(t, "plan"), keys.Draw(t, "key"), 1)) },
			"allow": func(t *rapid.T) { check(w.allow(which.Draw(t, "plan"), keys.Draw(t, "key"))) },
			"peek":  func(t *rapid.T) { p := which.Draw(t, "plan"); check(w.peek(p, keys.Draw(t, "key"), cost(p))) },
			"refund": func(t *rapid.T) {
				check(w.refund(which.Draw(t, "plan"), rapid.IntRange(0, 1000).Draw(t, "receipt")))
			},
			"reset":            func(t *rapid.T) { check(w.reset(which.Draw(t, "plan"), keys.Draw(t, "key"))) },
			"a moment passes":  func(t *rapid.T) { w.advance(rapid.Int64Range(0, 3).Draw(t, "ms")) },
			"time passes":      func(t *rapid.T) { w.advance(rapid.Int64Range(0, span()).Draw(t, "ms")) },
			"a window passes":  func(t *rapid.T) { w.advance(span() + rapid.Int64Range(-1, 1).Draw(t, "ms")) },
			"the clock jumps":  func(t *rapid.T) { w.advance(rapid.Int64Range(0, 1<<42).Draw(t, "ms")) },
			"the clock is set": func(t *rapid.T) { w.advance(-rapid.Int64Range(0, 2*span()).Draw(t, "ms")) },
			"sweep":            func(t *rapid.T) { w.sweep() },
			"": func(t *rapid.T) {
				for plan := range w.mine {
					for _, key := range []string{"a", "b"} {
						check(w.peek(plan, key, 1))
					}
				}
			},
		})
	})
}

// TestParseIsTheInverseOfString, for every limit that there is.
func TestParseIsTheInverseOfString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit.Draw(t, "limit")
		if rapid.Bool().Draw(t, "named") {
			l.Name = anyName.Draw(t, "name")
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		got, err := slidegate.ParseLimit(l.String())
		if got.Name == "" && l.Name == got.Named("").WithResolution(0).String() {
			got.Name = l.Name // a name that is the default is not printed, and comes back by itself
		}
		if err != nil || got != l {
			t.Fatalf("%+v prints %q and comes back as %+v, %v", l, l, got, err)
		}
		text, err := l.MarshalText()
		if err != nil || string(text) != l.String() {
			t.Fatalf("%+v is written as %q, %v", l, text, err)
		}
	})
}

// TestEveryWaitIsTight: after any traffic, at the retry the same request is admitted and a
// millisecond earlier it is not; at the reset a limit is full and a millisecond earlier it is not.
func TestEveryWaitIsTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := gatetest.NewClock(time.UnixMilli(start))
		plan := anyPlan.Draw(t, "plan")
		l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), plan...)
		quota := slices.MinFunc(plan, func(a, b slidegate.Limit) int { return int(max(-1, min(1, a.Quota-b.Quota))) }).Quota
		costs, spans := rapid.Int64Range(1, quota), rapid.SampledFrom(plan)
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			clock.Advance(time.Duration(rapid.Int64Range(0, spans.Draw(t, "of").Window.Milliseconds()/3+1).Draw(t, "ms")) * time.Millisecond)
			if _, err := l.TakeN(background, "a", costs.Draw(t, "cost")); err != nil {
				t.Fatal(err)
			}
		}
		at := func(ms int64, cost int64) slidegate.Decision {
			clock.SetMilli(ms)
			d, err := l.PeekN(background, "a", cost)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		now, cost := clock.Now().UnixMilli(), costs.Draw(t, "the cost asked for")
		d := at(now, cost)
		retry := d.RetryAfter().Milliseconds()
		if d.Allowed != (retry == 0) || !at(now+retry, cost).Allowed || retry > 0 && at(now+retry-1, cost).Allowed {
			t.Fatalf("allowed %v, retry %d ms: not tight", d.Allowed, retry)
		}
		for i := range d.Len() {
			reset := d.State(i).ResetIn.Milliseconds()
			full := func(ms int64) bool {
				d := at(ms, cost)
				return d.State(i).Remaining == plan[i].Quota
			}
			if !full(now+reset) || reset > 0 && full(now+reset-1) {
				t.Fatalf("%s: reset %d ms: not tight", plan[i], reset)
			}
		}
	})
}
