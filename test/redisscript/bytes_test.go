package redisscript

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestStoredBytesAreThoseOfTheFormat: the same charges and refunds store the very same bytes, in every version that says it
// writes this format: programs of several versions share a server while they are replaced. Where a digest has to change, see first
// that the version before reads what this one stores.
func TestStoredBytesAreThoseOfTheFormat(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for _, c := range []struct {
		limit  slidegate.Limit
		digest string
	}{
		{slidegate.Per(time.Minute, 100_000).Named("minute"), "44bc2480f547c52a"},
		{slidegate.Per(24*time.Hour, 100_000).Named("day"), "d113f042a272ce0d"},
		{slidegate.Per(time.Hour, 100_000).Named("coarse").WithResolution(time.Second), "14e225f4e3ab31be"},
		{slidegate.Per(time.Minute, 100_000).Counter().Named("counter"), "90efc7b05f2625c9"},
	} {
		s.clock.SetMilli(start)
		seen := map[string]int{}
		got, err := s.digest(c.limit, seen)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.digest {
			t.Errorf("%v: the digest of what was stored is %s, want %s", c.limit, got, c.digest)
		}
		if c.limit.Algorithm == slidegate.SlidingLog && min(seen["small"], seen["many pages"], seen["ring grew"], seen["ring shrank"]) == 0 {
			t.Errorf("%v: not all forms were seen: %v", c.limit, seen)
		}
	}
}

// digest charges a limit and gives back, at many a pace, and returns what all that was stored comes to.
func (s *scripts) digest(l slidegate.Limit, seen map[string]int) (string, error) {
	d, sum := draw{rand.New(rand.NewPCG(31, 32))}, sha256.New()
	plan, _ := s.Bind([]slidegate.Limit{l})
	var charged []slidegate.Answer
	var before value
	gap := l.Window
	for step := range 1500 {
		if step%150 == 0 {
			gap = l.Window / []time.Duration{40, 1200, 300, 3000, 20, 2000, 60, 700, 5000, 30}[step/150]
		}
		s.clock.Advance(time.Duration(d.Int64N(int64(gap))))
		if n := d.IntN(10); n > 1 || len(charged) == 0 {
			a, err := plan.Take(background, "k", 1+d.Int64N(2)*d.Int64N(2)*d.Int64N(300))
			if err != nil {
				return "", err
			}
			charged = append(charged, a)
		} else if err := plan.Refund(background, "k", charged[max(0, len(charged)-1-d.IntN(200)*n)], 1+d.Int64N(400)); err != nil {
			return "", err
		}
		reply, err := s.conn.Do("GET", s.key("k", l))
		if err != nil {
			return "", err
		}
		text, _ := reply.(string)
		fmt.Fprintf(sum, "%d %s", len(text), text)
		if v, err := understand([]byte(text)); err != nil && text != "" {
			return "", err
		} else if text != "" {
			note(seen, before, v)
			before = v
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}
