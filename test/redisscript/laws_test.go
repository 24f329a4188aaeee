package redisscript

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestSparseTrafficIsExact: a request every 0.2 to 0.95 of a window, for days of the shortest windows and
// centuries of the longest. Nothing that is stored wraps.
func TestSparseTrafficIsExact(t *testing.T) {
	server := redistest.Standalone(t)
	for i, window := range []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 49 * 24 * time.Hour, 50 * 24 * time.Hour, slidegate.MaxWindow} {
		for _, quota := range []int64{1, 2, 3, 5, slidegate.MaxQuota} {
			d := draw{rand.New(rand.NewPCG(uint64(i), uint64(quota)))}
			s := newScripts(t, server, newClock())
			server.Flush()
			w := newTwins(s, []slidegate.Limit{slidegate.Per(window, quota).Named("log"), slidegate.Per(window, quota).Counter().Named("counter")})
			span := float64(window.Milliseconds())
			for step := range 400 {
				w.advance(int64(span * (0.2 + 0.75*d.Float64())))
				if err := w.take(0, "k", 1+d.Int64N(quota)*int64(d.IntN(2))); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
		}
	}
}

// TestClockMayStepBack, by any distance, to before the epoch and back again: recorded time does not, and no step of the
// clock frees quota early.
func TestClockMayStepBack(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	d := draw{rand.New(rand.NewPCG(12, 13))}
	for _, window := range []time.Duration{time.Millisecond, time.Minute, slidegate.MaxWindow} {
		limit := slidegate.Per(window, 300).Named("log")
		w := newTwins(s, []slidegate.Limit{limit}, []slidegate.Limit{limit.Counter(), limit.WithResolution(window / 2)})
		if window == time.Millisecond {
			w = newTwins(s, []slidegate.Limit{limit}, []slidegate.Limit{limit.Counter()})
		}
		for step := range 1500 {
			far := []int64{1, window.Milliseconds(), 1 << 32, 1 << 44}[d.IntN(4)]
			now := s.clock.Now().UnixMilli() + d.Int64N(2*far+1) - far
			s.clock.SetMilli(min(1<<45, max(-1<<45, now)))
			if err := w.take(step%2, "k", d.Int64N(20)); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if err := w.peek(step/2%2, "k", 1+d.Int64N(300)); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if err := w.reset(0, "k"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunningTotalsMayWrap: quotas of 10^12 spent again and again in one log that never idles. Running totals count
// modulo 2^48, which is 281 such quotas.
func TestRunningTotalsMayWrap(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	limit := slidegate.Per(time.Second, slidegate.MaxQuota).Named("huge")
	w := newTwins(s, []slidegate.Limit{limit})
	d := draw{rand.New(rand.NewPCG(14, 15))}
	spent := int64(0)
	for step := 0; spent < 3<<47; step++ {
		w.advance(1 + d.Int64N(16))
		before := len(w.receipts)
		if err := w.take(0, "k", 1+d.Int64N(slidegate.MaxQuota/40)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if len(w.receipts) > before {
			spent += w.receipts[before].cost
		}
		if step%10 == 0 {
			if err := w.peek(0, "k", 1+d.Int64N(slidegate.MaxQuota)); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if step%15 == 0 {
			if err := w.refund(max(0, len(w.receipts)-1-d.IntN(60)), slidegate.MaxQuota); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v, err := s.stored(s.key("k", limit)); err != nil || v.form != large || v.pages == 0 {
		t.Errorf("stored: form %d with %d pages, %v: not what this test is about", v.form, v.pages, err)
	}
}

// TestServerClockDecides where none is injected: two callers see one clock, and it is the server's.
func TestServerClockDecides(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), nil)
	plan, _ := s.Bind(bothAlgorithms())
	var a slidegate.Answer
	for verb, ask := range map[string]func() (now int64, err error){
		"take":   func() (now int64, err error) { a, err = plan.Take(background, "u", 0); return a.Now, err },
		"refund": func() (int64, error) { err := plan.Refund(background, "u", a, 1); return s.told, err },
		"reset":  func() (int64, error) { err := plan.Reset(background, "u"); return s.told, err },
		"list":   func() (int64, error) { _, err := s.list("u", bothAlgorithms()[0], 1); return s.told, err },
	} {
		for range 50 {
			before := s.serverTime(t)
			now, err := ask()
			after := s.serverTime(t)
			if err != nil || now < before || now > after {
				t.Fatalf("%s: now is %d between %d and %d, %v", verb, now, before, after, err)
			}
		}
	}
}

// TestServerClockCharges what is asked for, as another clock does.
func TestServerClockCharges(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), nil)
	for _, l := range bothAlgorithms() {
		plan, _ := s.Bind([]slidegate.Limit{l})
		units := int64(0)
		for _, cost := range []int64{3, 1, 2} {
			units += cost
			if a, err := plan.Take(background, "u", cost); err != nil || !a.Allowed || a.Readings[0].Units+a.Readings[0].Back < units {
				t.Errorf("%v: after %d units: %+v, %v", l, units, a.Readings[0], err)
			}
		}
	}
}
