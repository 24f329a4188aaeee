package test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// A script is bytes that stand for limits and operations: any bytes are a script.
type script []byte

func (s *script) byte() int64 {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int64(b)
}

// number is 1 to most, of any magnitude, by two bytes.
func (s *script) number(most int64) int64 {
	mantissa := 1 + s.byte()
	return min(most, mantissa<<(s.byte()%40))
}

func (s *script) plan() []slidegate.Limit {
	limits := make([]slidegate.Limit, 1+s.byte()%3)
	for i := range limits {
		window := s.number(slidegate.MaxWindow.Milliseconds())
		l := slidegate.Per(time.Duration(window)*time.Millisecond, s.number(slidegate.MaxQuota)).Named(string(rune('a' + i)))
		switch s.byte() % 3 {
		case 1:
			l = l.Counter()
		case 2:
			l = l.WithResolution(time.Duration(s.number(window)) * time.Millisecond)
		}
		limits[i] = l
	}
	return limits
}

// FuzzMemoryStoreIsTheOracle: whatever the bytes ask of both, they answer alike.
func FuzzMemoryStoreIsTheOracle(f *testing.F) {
	f.Add([]byte("0\x02\x08\x03\x00\x00 aaaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte{0, 9, 5, 2, 0, 0, 0, 0, 1, 0, 0, 1, 6, 200, 4, 0, 0, 3, 0, 0, 1, 5, 0, 9, 0, 1, 1, 7, 0})
	f.Add([]byte{2, 99, 3, 5, 1, 1, 50, 9, 255, 30, 0, 7, 20, 9, 2, 2, 3, 1, 0, 0, 1, 2, 0, 1, 6, 9, 9, 0, 0, 3, 7, 1, 1, 8, 0, 0, 0, 1, 4, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		plan := s.plan()
		other := append([]slidegate.Limit(nil), plan...)
		other[0].Quota = s.number(slidegate.MaxQuota)
		w, err := newTwins(plan, other)
		if err != nil {
			t.Fatal(err)
		}
		span := plan[0].Window.Milliseconds()
		for step := 0; len(s) > 0 && step < 2000; step++ {
			verb, which := s.byte(), int(s.byte())
			p, key := which&1, string(rune('a'+which>>1&1))
			switch verb % 9 {
			case 0, 1:
				err = w.take(p, key, s.number(plan[0].Quota)-1)
			case 2:
				err = w.peek(p, key, s.number(plan[0].Quota))
			case 3:
				err = w.allow(p, key)
			case 4:
				err = w.refund(p, int(s.byte()))
			case 5:
				w.advance(s.byte())
			case 6:
				w.advance(span*(s.byte()-32)/64 + int64(which%3) - 1)
			case 7:
				w.sweep()
			case 8:
				err = w.reset(p, key)
			}
			if err != nil {
				t.Fatalf("%v, step %d: %v", plan, step, err)
			}
		}
		for p := range w.mine {
			if err := w.peek(p, "a", 1); err != nil {
				t.Fatalf("%v, at the end: %v", plan, err)
			}
		}
	})
}
