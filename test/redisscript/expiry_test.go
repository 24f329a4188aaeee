package redisscript

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestOnlyChargesWrite: what refuses, peeks or costs nothing leaves every byte and every expiry as it was, and
// makes no key.
func TestOnlyChargesWrite(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	limits := []slidegate.Limit{
		slidegate.PerMinute(100).Named("a"),
		slidegate.PerHour(2000).Named("b"),
		slidegate.PerMinute(90).Counter().Named("c"),
	}
	plan, _ := s.Bind(limits)
	ask := func(key string, cost int64, verb func(string, int64) (slidegate.Answer, error)) {
		t.Helper()
		was := s.picture(t, key, limits...)
		a, err := verb(key, cost)
		if err != nil {
			t.Fatal(err)
		}
		if was.changed(s.picture(t, key, limits...)) {
			t.Errorf("cost %d, %+v: something was written", cost, a)
		}
	}
	take := func(key string, cost int64) (slidegate.Answer, error) { return plan.Take(background, key, cost) }
	peek := func(key string, cost int64) (slidegate.Answer, error) { return plan.Peek(background, key, cost) }
	d := draw{rand.New(rand.NewPCG(7, 8))}
	for range 400 {
		if _, err := plan.Take(background, "u", 1+d.Int64N(3)); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(time.Duration(d.IntN(3000)) * time.Millisecond)
		ask("u", 90, take) // the counter or the first log refuses unless all is full
		ask("u", 0, take)
		ask("u", 1, peek)
		ask("u", 90, peek)
		ask("nobody", 0, take)
		ask("nobody", 1, peek)
	}
}

// TestKeyLivesUntilItsLimitIsFull: on the server's clock the expiry after every charge and every refund is the very
// time at which the limit is full again: never sooner, and later by no more than the script may take.
func TestKeyLivesUntilItsLimitIsFull(t *testing.T) {
	server := redistest.Standalone(t)
	s := newScripts(t, server, nil)
	d := draw{rand.New(rand.NewPCG(9, 10))}
	for run := range 60 {
		l := slidegate.Per(time.Duration(20+d.number(5_000_000))*time.Millisecond, 1000).Named("x")
		switch run % 3 {
		case 1:
			l = l.Counter()
		case 2:
			l.Resolution = time.Duration(1+d.Int64N(l.Window.Milliseconds())) * time.Millisecond
		}
		key := fmt.Sprint("u", run)
		if err := s.checkExpiry(t, d, l, key); err != nil {
			t.Fatalf("%v: %v", l, err)
		}
	}
}

// checkExpiry charges and refunds a key and compares its expiry with the core's own reset.
func (s *scripts) checkExpiry(t testing.TB, d draw, l slidegate.Limit, key string) error {
	limiter, err := slidegate.New(s, l)
	if err != nil {
		return err
	}
	for step := range 30 {
		before := s.serverTime(t)
		charged, err := limiter.TakeN(background, key, 1+d.Int64N(9))
		if err != nil || !charged.Allowed {
			return fmt.Errorf("step %d: %v, %v", step, charged, err)
		}
		if step%4 == 3 {
			if err := limiter.Refund(background, &charged); err != nil {
				return err
			}
		}
		took := s.serverTime(t) - before // servers before 7.2 count from when the command inside of the script is run
		d, err := limiter.Peek(background, key)
		if err != nil {
			return err
		}
		full := d.At().UnixMilli() + d.ResetAfter().Milliseconds()
		at := s.expires(t, s.key(key, l))
		if d.ResetAfter() == 0 && at == -2 || at < 0 && l.Window < time.Second {
			return nil // it is full, or became so meanwhile
		}
		if at < full || at > full+took+2 {
			return fmt.Errorf("step %d: full at %d, the key expires at %d, which took %d ms to say", step, full, at, took)
		}
	}
	return nil
}

// serverTime returns the server's clock in milliseconds.
func (s *scripts) serverTime(t testing.TB) int64 {
	t.Helper()
	reply, err := s.conn.Do("TIME")
	if err != nil {
		t.Fatal(err)
	}
	seconds, _ := strconv.ParseInt(reply.([]any)[0].(string), 10, 64)
	micros, _ := strconv.ParseInt(reply.([]any)[1].(string), 10, 64)
	return seconds*1000 + micros/1000
}

// TestExpiryIsRepaired: a key found without one is given one by the next charge and by the next refund, of every form.
func TestExpiryIsRepaired(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for _, sample := range s.samples(t) {
		l, key := sample.limit, s.key("sample", sample.limit)
		s.clock.Set(sample.end)
		plan, _ := s.Bind([]slidegate.Limit{l})
		var charged slidegate.Answer
		for _, step := range []struct {
			verb string
			do   func() error
		}{
			{"a charge", func() (err error) { charged, err = plan.Take(background, "sample", 2); return err }},
			{"a refund", func() error { return plan.Refund(background, "sample", charged, 1) }},
		} {
			if n, err := s.conn.Do("PERSIST", key); err != nil || n != int64(1) {
				t.Fatal(n, err)
			}
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if at := s.expires(t, key); at < 0 {
				t.Errorf("%v: no expiry after %s", l, step.verb)
			}
		}
	}
}

// TestWhatHasLeftIsNotKept: where the newest charge is given back, a key lives on the server's clock until the one before it has
// left, to the millisecond, and is gone if it has. The server's clock stands still within a transaction.
func TestWhatHasLeftIsNotKept(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), nil)
	there, gone := 0, 0
	for attempt := 0; there < 8 || gone < 8; attempt++ { // on a busy machine all may have left before they are given back
		if attempt == 50 {
			t.Fatalf("in %d attempts %d keys were there, and %d gone", attempt, there, gone)
		}
		there, gone = s.giveNewestBack(t, 20+int64(attempt)*4)
	}
}

// giveNewestBack gives back the newest charge of logs, small and large, of which the one before leaves within so many milliseconds,
// and returns how many keys were there then, and how many gone.
func (s *scripts) giveNewestBack(t *testing.T, within int64) (there, gone int) {
	t.Helper()
	l := slidegate.PerMinute(100).Named("x")
	window, newest := l.Window.Milliseconds(), s.serverTime(t)
	commands := [][]string{{"MULTI"}}
	for i := range 2 * within {
		before := newest + i/2 - window
		value := smallOf(newest, newest-before, 2, 1, one(newest-before))
		if i%2 == 1 {
			y := &layout{
				entries: []charged{{before - 5, 1}}, front: part{one(5), before - 5, 0}, back: part{one(newest - before), before, 1},
				cap: 1, newest: newest, last: 1, sum: 3,
			}
			value = y.value()
		}
		commands = append(commands, []string{"SET", decimal(i), value},
			[]string{"EVALSHA", s.refund, "1", decimal(i), "", "1", "l", "100", decimal(window), "1", decimal(newest)}, []string{"EXISTS", decimal(i)})
	}
	commands = append(commands, []string{"EXEC"})
	var reply any
	for _, command := range commands {
		if err := s.conn.Send(command...); err != nil {
			t.Fatal(err)
		}
	}
	for range commands {
		var err error
		if reply, err = s.conn.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	all := reply.([]any)
	for i := range 2 * within {
		answer, ok := all[3*i+1].([]any)
		if !ok {
			t.Fatalf("a refund where the charge before leaves after %d ms: %v", i/2, all[3*i+1])
		}
		is := all[3*i+2] == int64(1)
		if now := answer[0].(int64); is != (now < newest+i/2) {
			t.Errorf("the charge before leaves at %d, it is %d, and there is a key: %v", newest+i/2, now, is)
		}
		if is {
			there++
		} else {
			gone++
		}
	}
	return there, gone
}

// TestExpiryNeverDecidesOnACallersClock: a key lives a day longer than its limit needs, in the server's time, also
// where the caller's clock stands still, runs back, or a refund comes long after.
func TestExpiryNeverDecidesOnACallersClock(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for _, l := range bothAlgorithms() {
		plan, _ := s.Bind([]slidegate.Limit{l})
		s.clock.SetMilli(start)
		charged, err := plan.Take(background, "u", 3)
		if err != nil {
			t.Fatal(err)
		}
		least := func(what string) {
			t.Helper()
			if left, err := s.conn.Do("PTTL", s.key("u", l)); err != nil || left.(int64) < 24*time.Hour.Milliseconds()-20_000 {
				t.Errorf("%v: %s: %v ms to live, %v", l, what, left, err)
			}
		}
		least("after a charge")
		s.clock.Advance(-time.Hour)
		if _, err := plan.Take(background, "u", 3); err != nil {
			t.Fatal(err)
		}
		least("after a charge in the past")
		s.clock.SetMilli(start)
		if err := plan.Refund(background, "u", charged, 1); err != nil {
			t.Fatal(err)
		}
		least("after a refund")
		s.clock.Advance(100 * 24 * time.Hour)
		if err := plan.Refund(background, "u", charged, 1); err != nil {
			t.Fatal(err)
		}
		least("after a refund long after")
	}
}

// TestCounterLivesAsLongAsItsWeight: until the very millisecond at which its last unit weighs nothing, whether it
// was counted in this window or in the one before. It is seen on a caller's clock, which adds a day.
func TestCounterLivesAsLongAsItsWeight(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	d := draw{rand.New(rand.NewPCG(18, 19))}
	for run := range 200 {
		window := time.Minute + time.Duration(d.IntN(1<<30))*time.Millisecond
		limiter := slidegate.MustNew(s, slidegate.Per(window, 1000).Counter().Named("x"))
		key := fmt.Sprint(run)
		if _, err := limiter.TakeN(background, key, 1+d.Int64N(30)>>d.IntN(4)); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(time.Duration(d.Int64N(int64(window))))
		charged, err := limiter.TakeN(background, key, 5)
		if err != nil {
			t.Fatal(err)
		}
		if run%2 == 0 {
			if err := limiter.Refund(background, &charged); err != nil {
				t.Fatal(err)
			}
		}
		now, err := limiter.Peek(background, key)
		if err != nil {
			t.Fatal(err)
		}
		left, err := s.conn.Do("PTTL", s.key(key, now.State(0).Limit))
		want := (now.ResetAfter() + 24*time.Hour).Milliseconds()
		if err != nil || left.(int64) > want || left.(int64) < want-20_000 {
			t.Errorf("%v, refunded %v: %d ms to live, want %d, %v", window, run%2 == 0, left, want, err)
		}
	}
}

// TestEveryKeyGoesByItself: on the server's clock nothing is left once the windows are over.
func TestEveryKeyGoesByItself(t *testing.T) {
	server := redistest.Standalone(t)
	s := newScripts(t, server, nil)
	limits := []slidegate.Limit{slidegate.Per(150*time.Millisecond, 1_000_000).Named("a"), slidegate.Per(100*time.Millisecond, 1_000_000).Counter().Named("b")}
	plan, _ := s.Bind(limits)
	for i := range 3000 {
		if _, err := plan.Take(background, fmt.Sprint(i%7), 1); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Await(t, 10*time.Second, "no key is left", func() bool { return len(server.Keys()) == 0 })
}

// TestCommandsAreOfRedis6: the scripts call what Redis 6.0 has, and what an ACL has to allow; and each call of a
// script is one call, whatever it does inside.
func TestCommandsAreOfRedis6(t *testing.T) {
	server := redistest.Standalone(t)
	s := newScripts(t, server, newClock())
	server.ResetCalls()
	for seed := range uint64(6) {
		d := draw{rand.New(rand.NewPCG(seed, 11))}
		w := newTwins(s, append(longLogs(d), d.plans()...)...)
		if err := w.grow(d, map[string]int{}); err != nil {
			t.Fatal(err)
		}
		if err := w.reset(0, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newScriptsPlan(s).Peek(background, "u", 1); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(server.Calls()))
	got = slices.DeleteFunc(got, func(name string) bool {
		return slices.Contains([]string{"evalsha", "get", "config|resetstat", "config", "info"}, name)
	})
	want := []string{"del", "getrange", "pexpire", "psetex", "setrange", "strlen", "time"}
	if !slices.Equal(got, want) {
		t.Errorf("the scripts call %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// newScriptsPlan returns a plan of one limit on the server's clock.
func newScriptsPlan(s *scripts) slidegate.Plan {
	other := *s
	other.clock = nil
	plan, _ := other.Bind([]slidegate.Limit{slidegate.PerMinute(1).Named("server")})
	return plan
}
