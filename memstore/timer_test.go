package memstore

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

// timerOff tells whether the timer is off, by what the store holds and by the timer itself, which it stops.
func timerOff(s *Store) bool {
	runs := s.timer.t != nil && s.timer.t.Stop()
	return !runs && s.timer.at.Load() == math.MaxInt64
}

// TestTheTimerWaitsForTheFirstKey that is over, and a second at least.
func TestTheTimerWaitsForTheFirstKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			window time.Duration
			wait   int64 // ms
		}{{time.Millisecond, 1000}, {time.Second, 1000}, {1001 * time.Millisecond, 1001}, {time.Minute, 60_000}} {
			s := New()
			if !timerOff(s) {
				t.Error("an empty store has a timer")
			}
			one, two := slidegate.Per(c.window, 9), slidegate.Per(2*c.window, 9)
			for i := range 3 { // of which one opens something
				slidegate.MustNew(s, one, two).Allow(ctx, "a")
				if wait := s.timer.at.Load() - s.now(); wait != c.wait {
					t.Errorf("request %d in windows of %v: the timer goes off in %d ms, want %d", i, c.window, wait, c.wait)
				}
			}
			if timerOff(s) {
				t.Errorf("a window of %v: the timer is off", c.window)
			}
			s.Close()
		}
	})
}

// TestTheTimerComesBackForLaterKeys, each in its time.
func TestTheTimerComesBackForLaterKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		lim := slidegate.MustNew(s, slidegate.PerMinute(1))
		for i := range 3 {
			lim.Allow(ctx, strconv.Itoa(i))
			<-time.After(20 * time.Second)
		}
		for left := 2; left >= 0; left-- {
			<-time.After(time.Millisecond)
			synctest.Wait()
			if s.Len() != left || timerOff(s) != (left == 0) {
				t.Fatalf("%d keys are held, want %d", s.Len(), left)
			}
			s.timer.t.Reset(20*time.Second - time.Millisecond) // which the look at it has stopped
			<-time.After(20*time.Second - time.Millisecond)
		}
	})
}

// TestTheTimerIsOff where nothing is held, or nothing is to be swept by itself.
func TestTheTimerIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, now := slidegate.PerMinute(1), int64(0)
		for name, make := range map[string]func() *Store{
			"after a reset of the only key": func() *Store {
				s := New()
				lim := slidegate.MustNew(s, limit)
				lim.Allow(ctx, "a")
				lim.Reset(ctx, "a")
				return s
			},
			"with a clock": func() *Store {
				s := New(at(&now))
				slidegate.MustNew(s, limit).Allow(ctx, "a")
				return s
			},
			"in a closed store": func() *Store {
				s := New()
				slidegate.MustNew(s, limit).Allow(ctx, "a")
				s.Close()
				return s
			},
			"in a closed store, as a request that was under way ends": func() *Store {
				s := New()
				slidegate.MustNew(s, limit).Allow(ctx, "a")
				s.Close()
				s.arm(s.now(), s.now()+1)
				return s
			},
		} {
			if !timerOff(make()) {
				t.Errorf("%s, the timer is on", name)
			}
		}
	})
}

// TestAKeyThatComesMeanwhileKeepsTheTimer: who took the last key, but one, finds another when the timer is to be stopped.
func TestAKeyThatComesMeanwhileKeepsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		slidegate.MustNew(s, slidegate.PerMinute(1)).Allow(ctx, "a")
		before := s.timer.at.Load()
		s.disarm()
		if after := s.timer.at.Load(); after != before || timerOff(s) {
			t.Errorf("the timer goes off at %d, want %d", after, before)
		}
	})
}
