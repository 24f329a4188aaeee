package redisscript

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// A story is bytes that stand for limits and steps: any bytes are a story.
type story []byte

func (s *story) byte() int64 {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int64(b)
}

// number is 1 to most, of any magnitude, by two bytes.
func (s *story) number(most int64) int64 {
	mantissa := 1 + s.byte()
	return min(most, mantissa<<(s.byte()%40))
}

// plan returns one to three limits.
func (s *story) plan() []slidegate.Limit {
	limits := make([]slidegate.Limit, 1+s.byte()%3)
	for i := range limits {
		window := s.number(slidegate.MaxWindow.Milliseconds())
		l := slidegate.Per(time.Duration(window)*time.Millisecond, s.number(slidegate.MaxQuota)).Named(string(rune('a' + i)))
		switch s.byte() % 3 {
		case 1:
			l = l.Counter()
		case 2:
			l.Resolution = time.Duration(s.number(window)) * time.Millisecond
		}
		limits[i] = l
	}
	return limits
}

// variant returns limits over the same state as others, with other quotas and resolutions.
func (s *story) variant(limits []slidegate.Limit) []slidegate.Limit {
	others := append([]slidegate.Limit(nil), limits...)
	for i := range others {
		l := &others[i]
		l.Quota = s.number(slidegate.MaxQuota)
		if l.Algorithm == slidegate.SlidingLog {
			l.Resolution = time.Duration(s.number(l.Window.Milliseconds())) * time.Millisecond
		}
	}
	return others
}

// follow takes one step of a story.
func (w *twins) follow(s *story) error {
	verb, which := s.byte(), s.byte()
	plan, key := int(which&1), string(rune('a'+which>>1&1))
	most := smallest(w.limits[plan])
	span := w.limits[0][0].Window.Milliseconds()
	switch verb % 8 {
	case 0, 1:
		return w.take(plan, key, s.number(most)-1)
	case 2:
		return w.peek(plan, key, s.number(most))
	case 3:
		return w.refund(int(s.byte()), s.number(slidegate.MaxQuota))
	case 4:
		w.advance(s.byte() - 64)
	case 5:
		w.advance(span*(s.byte()-32)/64 + which%3 - 1)
	case 6: // many at a pace: this is how logs become long
		gap := s.byte() * max(1, span>>12)
		var costs []int64
		for ; which > 0; which -= 4 {
			costs = append(costs, min(most, 1+which&3))
		}
		return w.pace(plan, key, gap, costs)
	case 7:
		return w.reset(plan, key)
	}
	return nil
}

// The engine gives up on an execution after ten seconds, takes it for hung and says nothing of why. The longest of stories would be seconds of
// CPU, since the oracle counts by looking at all it holds, and half a minute where others use the machine; so a story ends
// after so many decisions, or after so long.
const (
	mostDecisions = 1000
	longestStory  = 4 * time.Second
)

// FuzzScriptsAreTheOracle: whatever the bytes ask of both, they answer alike, and what is stored is sound.
func FuzzScriptsAreTheOracle(f *testing.F) {
	f.Add([]byte{0, 99, 9, 99, 9, 0, 9, 9, 9, 9, 0, 0, 3, 2, 5, 0, 40, 0, 1, 2, 1, 3, 0, 2, 2, 2, 0, 5, 5})
	f.Add([]byte{2, 99, 20, 9, 20, 0, 99, 10, 99, 3, 1, 200, 30, 200, 38, 2, 9, 9, 6, 255, 3, 6, 255, 9, 2, 0, 200, 9, 3, 0, 7, 1, 9, 5, 0, 70, 6, 255, 1})
	f.Add([]byte{0, 255, 39, 255, 39, 2, 3, 3, 255, 20, 6, 255, 255, 6, 254, 200, 3, 1, 9, 40, 40, 3, 2, 99, 0, 0, 2, 0, 250, 39, 5, 2, 90, 6, 250, 4})
	all := newScripts(f, redistest.Standalone(f), nil)
	var runs atomic.Int64
	f.Fuzz(func(t *testing.T, data []byte) {
		s := *all
		s.clock, s.prefix = newClock(), decimal(runs.Add(1))
		told := story(data)
		limits := told.plan()
		w := newTwins(&s, limits, told.variant(limits))
		began := time.Now()
		for step := 0; len(told) > 0 && step < 60 && w.decisions < mostDecisions && time.Since(began) < longestStory; step++ {
			if err := w.follow(&told); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		for _, key := range []string{"a", "b"} {
			if err := w.sound(key); err != nil {
				t.Fatal(err)
			}
			w.reset(0, key)
		}
	})
}

// sound checks what is stored of a key, and that nothing of it was taken for garbage on the way.
func (w *twins) sound(key string) error {
	for _, l := range w.limits[0] {
		stored := w.scripts.key(key, l)
		if n, err := w.scripts.conn.Do("EXISTS", stored); err != nil || n == int64(0) {
			continue
		}
		if _, err := w.scripts.stored(stored); err != nil {
			return err
		}
	}
	if w.scripts.replaced != 0 {
		return errReplaced
	}
	return w.peek(0, key, 1)
}
