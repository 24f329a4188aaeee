package redisscript

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// stored reads what lies under a key: the zero value if nothing does.
func (s *scripts) stored(key string) (value, error) {
	reply, err := s.conn.Do("GET", key)
	if err != nil || reply == nil {
		return value{}, err
	}
	return understand([]byte(reply.(string)))
}

// longLogs are plans whose logs become long enough for every form.
func longLogs(d draw) [][]slidegate.Limit {
	window := time.Duration(1+d.Int64N(1<<(4+d.IntN(36)))) * time.Millisecond
	window = min(max(window, 2*time.Second), slidegate.MaxWindow)
	l := slidegate.Per(window, 100+d.number(1_000_000)).Named("long")
	other := l
	other.Quota = 100 + d.number(1_000_000_000)
	other.Resolution = time.Duration(1+d.Int64N(max(1, window.Milliseconds()/500))) * time.Millisecond
	return [][]slidegate.Limit{{l}, {other}}
}

// TestLongLogsAreTheOracle, and what is stored of them is sound after every few steps: logs that grow through
// all forms and sizes, drain, idle, are refunded at every place, and shrink.
func TestLongLogsAreTheOracle(t *testing.T) {
	server := redistest.Standalone(t)
	seen := map[string]int{}
	for seed := range 20 * *seeds {
		d := draw{rand.New(rand.NewPCG(seed, 2))}
		s := newScripts(t, server, newClock())
		s.prefix = "long" + decimal(int64(seed))
		w := newTwins(s, longLogs(d)...)
		if err := w.grow(d, seen); err != nil {
			t.Fatalf("seed %d, %v: %v", seed, w.limits[0], err)
		}
		if s.replaced != 0 {
			t.Fatalf("seed %d: %d values of our own were not understood", seed, s.replaced)
		}
	}
	for _, must := range []string{"small", "large", "pages", "many pages", "large to small", "ring shrank", "ring grew"} {
		if seen[must] == 0 {
			t.Errorf("no log was ever seen: %s", must)
		}
	}
	t.Log(seen)
}

// grow asks for much in phases: each has its own pace and its own mix of verbs.
func (w *twins) grow(d draw, seen map[string]int) error {
	span := w.limits[0][0].Window.Milliseconds()
	var before value
	for phase := range 12 {
		gap := max(1, span/int64(1+d.IntN(3000)))
		refunds, most := d.IntN(4)*d.IntN(20), int64(1)<<d.IntN(12)
		for step := range 200 + d.IntN(400) {
			w.advance(d.Int64N(gap + 1))
			if err := w.stride(d, refunds, most); err != nil {
				return fmt.Errorf("phase %d, step %d: %w", phase, step, err)
			}
			if step%16 != 0 {
				continue
			}
			v, err := w.scripts.stored(w.scripts.key("k", w.limits[0][0]))
			if err != nil {
				return fmt.Errorf("phase %d, step %d: %w", phase, step, err)
			}
			note(seen, before, v)
			before = v
		}
		if d.IntN(3) == 0 {
			w.advance(d.Int64N(span + span/2))
		}
	}
	return nil
}

// stride is one step: mostly a charge.
func (w *twins) stride(d draw, refunds int, most int64) error {
	plan := min(1, d.IntN(12)/11)
	quota := smallest(w.limits[plan])
	switch n := d.IntN(100); {
	case n < refunds:
		back := 1 + d.IntN(min(len(w.receipts)+1, 1<<d.IntN(12)))
		return w.refund(max(0, len(w.receipts)-back), 1+d.Int64N(2*most))
	case n < 90:
		return w.take(plan, "k", min(quota, 1+d.Int64N(most)*int64(d.IntN(2))))
	case n < 97:
		return w.peek(plan, "k", d.Int64N(quota+1))
	case n < 98:
		w.advance(-d.Int64N(w.limits[0][0].Window.Milliseconds() / 20))
	}
	return nil
}

// note counts what has been seen of logs.
func note(seen map[string]int, before, after value) {
	for what, is := range map[string]bool{
		"small":          after.form == small && len(after.entries) > 1,
		"large":          after.form == large,
		"pages":          after.pages > 0,
		"many pages":     after.pages > 8,
		"large to small": before.form == large && after.form == small,
		"ring grew":      before.form == large && after.slots > before.slots,
		"ring shrank":    after.form == large && after.slots < before.slots,
	} {
		if is {
			seen[what]++
		}
	}
}

// TestEverythingMayBeRefunded, in any order: pages that become empty are closed up from either side, and in the end
// there is no key.
func TestEverythingMayBeRefunded(t *testing.T) {
	server := redistest.Standalone(t)
	const charges = 700
	orders := map[string]func(d draw) []int{
		"oldest first":      func(draw) []int { return upTo(charges) },
		"newest first":      func(draw) []int { return backwards(upTo(charges)) },
		"from a third on":   func(draw) []int { return append(upTo(charges)[charges/3:], upTo(charges/3)...) },
		"back from a third": func(draw) []int { return backwards(append(upTo(charges)[charges/3:], upTo(charges/3)...)) },
		"back from the end": func(draw) []int { return append(backwards(upTo(charges-60)), upTo(charges)[charges-60:]...) },
		"any":               func(d draw) []int { return d.Perm(charges) },
	}
	for name, order := range orders {
		for _, rotated := range []int{0, 400} {
			d := draw{rand.New(rand.NewPCG(16, 17))}
			s := newScripts(t, server, newClock())
			s.prefix = fmt.Sprint(name, rotated)
			l := slidegate.Per(time.Hour, 1_000_000).Named("long")
			w := newTwins(s, []slidegate.Limit{l})
			if err := w.charge(d, rotated, 10_000); err != nil { // they will have left: the ring is rotated
				t.Fatal(err)
			}
			w.advance(time.Hour.Milliseconds() - 10_000)
			w.receipts = nil
			if err := w.charge(d, charges, 3000); err != nil {
				t.Fatal(err)
			}
			for step, i := range order(d) {
				if err := w.giveBack(i, step); err != nil {
					t.Fatalf("%s, rotated by %d, step %d: %v", name, rotated, step, err)
				}
			}
			if n, _ := s.conn.Do("EXISTS", s.key("k", l)); n != int64(0) && rotated == 0 {
				t.Errorf("%s: there is a key although all was given back", name)
			}
		}
	}
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func backwards(all []int) []int {
	slices.Reverse(all)
	return all
}

// charge charges n times, at uneven times within so many milliseconds.
func (w *twins) charge(d draw, n, within int) error {
	for range n {
		w.advance(1 + d.Int64N(int64(max(1, 2*within/n))))
		if err := w.take(0, "k", 1+d.Int64N(3)); err != nil {
			return err
		}
	}
	return nil
}

// giveBack gives a receipt back in full and looks at what is left.
func (w *twins) giveBack(i, step int) error {
	if err := w.refund(i, slidegate.MaxQuota); err != nil {
		return err
	}
	if step%7 != 0 {
		return nil
	}
	if v, err := w.scripts.stored(w.scripts.key("k", w.limits[0][0])); err != nil {
		return fmt.Errorf("%+v: %w", v.form, err)
	}
	return w.peek(0, "k", w.limits[0][0].Quota-int64(step))
}
