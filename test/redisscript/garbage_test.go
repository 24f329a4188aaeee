package redisscript

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/redistest"
)

// foreign are ways to put what is nothing of ours under a key.
var foreign = map[string][]string{
	"text":             {"SET", "", "hello"},
	"long text":        {"SET", "", fmt.Sprintf("%0400d", 7)},
	"number":           {"SET", "", "12345"},
	"mark alone":       {"SET", "", "\xf5"},
	"format nothing":   {"SET", "", "\xf5\x00"},
	"format too old":   {"SET", "", "\xf5\x08abcdefghijklmnopqrstuvwxyz0123456789"},
	"unknown form":     {"SET", "", "\xf5\x0cabcdefghijklmnopqrstuvwxyz0123456789"},
	"last form":        {"SET", "", "\xf5\x0fabcdefghijklmnopqrstuvwxyz0123456789"},
	"head alone":       {"SET", "", "\xf5\x09"},
	"large alone":      {"SET", "", "\xf5\x0a"},
	"counter alone":    {"SET", "", "\xf5\x0b"},
	"zero small log":   {"SET", "", "\xf5\x09" + string(make([]byte, 25))},
	"zero large log":   {"SET", "", "\xf5\x0a" + string(make([]byte, 500))},
	"log of another":   {"SET", "", "\xf4" + smallOf(start, 0, 7, 7)[1:]},
	"counter and more": {"SET", "", "\xf5\x0b\x01\x01\x01\x01"},
	"list":             {"RPUSH", "", "a", "b"},
	"set":              {"SADD", "", "a", "b"},
	"sorted set":       {"ZADD", "", "1", "a"},
	"hash":             {"HSET", "", "a", "b"},
	"stream":           {"XADD", "", "*", "a", "b"},
}

// put runs a command on a key, whose place is the first argument.
func (s *scripts) put(t testing.TB, key string, command []string) {
	t.Helper()
	command = append([]string{command[0], key}, command[2:]...)
	for _, c := range [][]string{{"DEL", key}, command} {
		if _, err := s.conn.Do(c...); err != nil {
			t.Fatal(err)
		}
	}
}

// A picture is all there is of some keys: their bytes, and when they expire.
type picture struct {
	values  []any
	expires []int64
}

// picture takes one of the keys of limits.
func (s *scripts) picture(t testing.TB, key string, limits ...slidegate.Limit) (p picture) {
	t.Helper()
	for _, l := range limits {
		value, err := s.conn.Do("DUMP", s.key(key, l))
		if err != nil {
			t.Fatal(err)
		}
		p.values, p.expires = append(p.values, value), append(p.expires, s.expires(t, s.key(key, l)))
	}
	return p
}

// changed tells whether anything differs, expiries by more than what a server before 7.0 can tell of them.
func (p picture) changed(q picture) bool {
	return !slices.Equal(p.values, q.values) || !slices.EqualFunc(p.expires, q.expires, func(a, b int64) bool { return a-b <= 2 && b-a <= 2 })
}

// expires returns when a key expires by the server's clock, negative if it does not or is not there.
func (s *scripts) expires(t testing.TB, key string) int64 {
	t.Helper()
	at, err := s.conn.Do("PEXPIRETIME", key)
	if err != nil {
		return s.expiresBefore7(t, key)
	}
	return at.(int64)
}

// expiresBefore7 is expires for servers that say only how long is left. Time that passes between their two readings of
// the clock makes the sum too large, so the least of a few is best.
func (s *scripts) expiresBefore7(t testing.TB, key string) int64 {
	t.Helper()
	const text = "local left, t = redis.call('PTTL', KEYS[1]), redis.call('TIME') " +
		"return left < 0 and left or t[1] * 1000 + math.floor(t[2] / 1000) + left"
	least := int64(math.MaxInt64)
	for range 8 {
		at, err := s.conn.Do("EVAL", text, "1", key)
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, at.(int64))
	}
	return least
}

func bothAlgorithms() []slidegate.Limit {
	return []slidegate.Limit{slidegate.PerMinute(10).Named("l"), slidegate.PerMinute(10).Counter().Named("c")}
}

// TestForeignValuesAreReplaced: what is nothing of ours counts for nothing and is left alone, until a charge is
// admitted. That charge replaces and counts it.
func TestForeignValuesAreReplaced(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	for name, command := range foreign {
		for _, l := range bothAlgorithms() {
			plan, _ := s.Bind([]slidegate.Limit{l})
			key := s.key("u", l)
			s.put(t, key, command)
			was := s.picture(t, "u", l)
			for _, cost := range []int64{0, 1, 10} {
				if a, err := plan.Peek(background, "u", cost); err != nil || !a.Allowed || a.Readings[0].Units != 0 {
					t.Errorf("%s under %v: peek of %d: %+v, %v", name, l, cost, a, err)
				}
			}
			if err := plan.Refund(background, "u", slidegate.Answer{}, 1); err != nil {
				t.Errorf("%s under %v: refund: %v", name, l, err)
			}
			if all, err := s.list("u", l, 10); err != nil || len(all) > 0 {
				t.Errorf("%s under %v: listed as %v, %v", name, l, all, err)
			}
			if was.changed(s.picture(t, "u", l)) {
				t.Errorf("%s under %v: changed without a charge", name, l)
			}
			s.replaced = 0
			a, err := plan.Take(background, "u", 3)
			if err != nil || !a.Allowed || a.Readings[0].Units != 3 || s.replaced != 1 {
				t.Errorf("%s under %v: take: %+v, %v, replaced %d", name, l, a, err, s.replaced)
			}
			if v, err := s.stored(key); err != nil || v.units != 3 {
				t.Errorf("%s under %v: stored %+v, %v", name, l, v, err)
			}
			s.put(t, key, command)
			if err := plan.Reset(background, "u"); err != nil {
				t.Errorf("%s under %v: reset: %v", name, l, err)
			}
			if n, _ := s.conn.Do("EXISTS", key); n != int64(0) {
				t.Errorf("%s under %v: there after a reset", name, l)
			}
		}
	}
}

// TestOneForeignValueOfSeveral is counted once, and only where the charge is admitted.
func TestOneForeignValueOfSeveral(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	limits := []slidegate.Limit{slidegate.PerMinute(5).Named("a"), slidegate.PerHour(2).Named("b"), slidegate.PerDay(9).Counter().Named("c")}
	plan, _ := s.Bind(limits)
	if a, err := plan.Take(background, "u", 2); err != nil || !a.Allowed {
		t.Fatal(a, err)
	}
	s.put(t, s.key("u", limits[2]), foreign["list"])
	if a, err := plan.Take(background, "u", 1); err != nil || a.Allowed || s.replaced != 0 {
		t.Errorf("refused by another limit: %v, %v, replaced %d", a.Allowed, err, s.replaced)
	}
	if kind, _ := s.conn.Do("TYPE", s.key("u", limits[2])); kind != "list" {
		t.Errorf("a refusal replaced it by a %v", kind)
	}
	s.clock.Advance(time.Hour)
	if a, err := plan.Take(background, "u", 1); err != nil || !a.Allowed || s.replaced != 1 {
		t.Errorf("admitted: %v, %v, replaced %d", a.Allowed, err, s.replaced)
	}
}

// TestNewerFormatIsNeverTouched: not by a take, a peek, a refund or a reset, and no other limit of the plan is
// either.
func TestNewerFormatIsNeverTouched(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	limits := []slidegate.Limit{slidegate.PerMinute(5).Named("a"), slidegate.PerHour(8).Counter().Named("b"), slidegate.PerDay(9).Named("c")}
	plan, _ := s.Bind(limits)
	for _, newer := range []string{"\xf5\x10", "\xf5\x11abc", "\xf5\x12" + string(make([]byte, 300)), "\xf5\x19x", "\xf5\xff"} {
		for i := range limits {
			if err := plan.Reset(background, "u"); err != nil {
				t.Fatal(err)
			}
			charged, err := plan.Take(background, "u", 2)
			if err != nil {
				t.Fatal(err)
			}
			s.put(t, s.key("u", limits[i]), []string{"SET", "", newer})
			was := s.picture(t, "u", limits...)
			_, took := plan.Take(background, "u", 1)
			_, peeked := plan.Peek(background, "u", 1)
			_, free := plan.Take(background, "u", 0)
			_, listed := s.list("u", limits[i], 10)
			for verb, err := range map[string]error{"take": took, "peek": peeked, "take of 0": free, "list": listed, "refund": plan.Refund(background, "u", charged, 2), "reset": plan.Reset(background, "u")} {
				if !errors.Is(err, errNewer) {
					t.Errorf("% x in limit %d: %s: %v", newer, i, verb, err)
				}
			}
			if was.changed(s.picture(t, "u", limits...)) {
				t.Errorf("% x in limit %d: something was written", newer, i)
			}
			s.put(t, s.key("u", limits[i]), []string{"SET", "", "old"})
		}
	}
}

// TestFoldedDecisionsAreEachTheirOwn: one that meets a newer format is not decided, those around it are.
func TestFoldedDecisionsAreEachTheirOwn(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.PerMinute(5).Named("a")
	s.put(t, s.key("new", l), []string{"SET", "", "\xf5\x11abc"})
	args := question("t", s.now(), []slidegate.Limit{l})
	keys := []string{s.key("x", l), s.key("new", l), s.key("x", l), s.key("y", l)}
	reply, err := s.run(s.take, keys, append(args, "3", "1", "3", "0"))
	now := s.clock.Now().UnixMilli()
	want := []int64{now, 64*(4*3) + 1, -1, 64 * (4*3 + 2), now, 64*1 + 1, 0}
	if err != nil || fmt.Sprint(reply) != fmt.Sprint(want) {
		t.Errorf("reply %v, %v, want %v", reply, err, want)
	}
}

// TestRepliesLeaveOutWhatIsKnown: of a log the time where it is now, of a counter the start of the window that now is in, and no other.
func TestRepliesLeaveOutWhatIsKnown(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	l := slidegate.PerMinute(5).Counter().Named("c")
	half := l.Window.Milliseconds() / 2
	begin := start - start%(2*half)
	for _, c := range []struct{ now, units, told int64 }{
		{begin + 2*half + 1, 1, 0}, {begin + 2*half + 2, 2, 0}, {begin + half, 3, begin + 2*half}, // the clock steps back
	} {
		s.clock.SetMilli(c.now)
		reply, err := s.run(s.take, []string{s.key("x", l)}, question("t", s.now(), []slidegate.Limit{l}))
		want := []int64{c.now, 64*(4*c.units) + 1}
		if c.told != 0 {
			want = []int64{c.now, 64*(4*c.units+1) + 1, c.told}
		}
		if err != nil || fmt.Sprint(reply) != fmt.Sprint(want) {
			t.Errorf("reply %v, %v, want %v", reply, err, want)
		}
	}
	log := slidegate.PerMinute(5).Named("l")
	for _, c := range []struct{ cost, units int64 }{{2, 2}, {1, 3}} {
		s.clock.Advance(time.Millisecond)
		reply, err := s.run(s.take, []string{s.key("x", log)}, append(question("t", s.now(), []slidegate.Limit{log}), decimal(c.cost)))
		if want := []int64{s.clock.Now().UnixMilli(), 64*(4*c.units) + 1}; err != nil || fmt.Sprint(reply) != fmt.Sprint(want) {
			t.Errorf("reply %v, %v, want %v", reply, err, want)
		}
	}
}

// broken draws a value that was ours and is damaged: cut, prolonged, with bytes changed, or all of it.
func (d draw) broken(value []byte) []byte {
	b := append([]byte(nil), value...)
	for range 1 + d.IntN(3) {
		switch d.IntN(6) {
		case 0:
			b = b[:d.IntN(len(b)+1)]
		case 1:
			b = append(b, make([]byte, d.IntN(200))...)
		default:
			for range 1 + d.IntN(4) {
				if at := 2 + d.IntN(max(1, min(len(b), pagesAt<<d.IntN(8))-2)); at < len(b) { // not of a newer format: that is another test
					b[at] = byte(d.IntN(256))
				}
			}
		}
	}
	return b
}

// A sample is a sound value as it is after a while of traffic.
type sample struct {
	limit slidegate.Limit
	value []byte
	end   time.Time // of the traffic
}

// samples are of every form.
func (s *scripts) samples(t testing.TB) (samples []sample) {
	for _, l := range []slidegate.Limit{
		slidegate.Per(time.Minute, 100).Named("small"),
		slidegate.Per(time.Minute, 5000).Named("large"),
		slidegate.Per(24*time.Hour, 5000).Named("wide"),
		slidegate.Per(time.Minute, 100_000).Counter().Named("counter"),
	} {
		n := map[string]int{"small": 12, "counter": 12}[l.Name]
		if n == 0 {
			n = 600
		}
		fill(t, s, l, "sample", n, 2)
		value, err := s.conn.Do("GET", s.key("sample", l))
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, sample{l, []byte(value.(string)), s.clock.Now()})
	}
	return samples
}

// TestDamagedValuesHarmNobody: whatever bytes of a value of ours have changed, no call fails or hangs, every answer
// is possible, and once what is stored is all gone the limit is as new.
func TestDamagedValuesHarmNobody(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	samples := s.samples(t)
	d := draw{rand.New(rand.NewPCG(5, 6))}
	for range 2000 * *seeds {
		sound := samples[d.IntN(len(samples))]
		l, value := sound.limit, d.broken(sound.value)
		s.clock.Set(sound.end.Add(time.Duration(d.Int64N(int64(l.Window)))))
		plan, _ := s.Bind([]slidegate.Limit{l})
		s.put(t, s.key("u", l), []string{"SET", "", string(value)})
		for step := range 4 + d.IntN(40) {
			if err := trouble(d, s, plan, l); err != nil {
				t.Fatalf("step %d with % x: %v", step, value, err)
			}
		}
		if err := recovers(s, plan, l); err != nil {
			t.Fatalf("% x: %v", value, err)
		}
	}
}

// trouble does one thing with a damaged value, and checks that the answer is possible.
func trouble(d draw, s *scripts, plan slidegate.Plan, l slidegate.Limit) error {
	cost := 1 + d.Int64N(l.Quota)>>d.IntN(12)
	var a slidegate.Answer
	var err error
	switch d.IntN(5) {
	case 0:
		a, err = plan.Peek(background, "u", cost)
	case 1:
		at := s.clock.Now().UnixMilli() - d.Int64N(l.Window.Milliseconds())
		if v, err := s.stored(s.key("u", l)); err == nil && len(v.entries) > 0 {
			at = v.entries[d.IntN(len(v.entries))].at
		}
		a.Allowed = true
		a.Readings[0].At = at
		return plan.Refund(background, "u", a, cost)
	default:
		a, err = plan.Take(background, "u", cost)
		if r := a.Readings[0]; err == nil && a.Allowed && (r.Units < cost || r.Units > l.Quota || r.Back != 0 && l.Algorithm == slidegate.SlidingLog) {
			return fmt.Errorf("admitted %d with the reading %+v", cost, r)
		}
	}
	s.clock.Advance(time.Duration(d.Int64N(l.Window.Milliseconds()/20)) * time.Millisecond)
	if r := a.Readings[0]; err == nil && (r.Units < 0 || r.Units > slidegate.MaxQuota) {
		return fmt.Errorf("the reading %+v", r)
	}
	return err
}

// recovers waits until everything that can be stored has left, and checks that a charge is then all there is.
func recovers(s *scripts, plan slidegate.Plan, l slidegate.Limit) error {
	if size, err := s.conn.Do("STRLEN", s.key("u", l)); err != nil || size.(int64) > 100_000 {
		return fmt.Errorf("grew to %v bytes, %v", size, err)
	}
	s.clock.SetMilli(1 << 52) // no stored time is later
	for range 2 {
		a, err := plan.Take(background, "u", 1)
		if err != nil || !a.Allowed {
			return fmt.Errorf("after the end of time: %v, %v", a, err)
		}
	}
	v, err := s.stored(s.key("u", l))
	if err != nil || v.units != 2 {
		return fmt.Errorf("after the end of time: %+v is stored, %v", v, err)
	}
	return nil
}

// TestRingThatLies about itself is found out when a page is needed: the charge that needs it replaces the log, and
// counts it, rather than write where no page is.
func TestRingThatLies(t *testing.T) {
	s := newScripts(t, redistest.Standalone(t), newClock())
	sample := s.samples(t)[1]
	l, sound := sample.limit, sample.value
	for name, damage := range map[string]func(b []byte) []byte{
		"shorter by a page":   func(b []byte) []byte { return b[:len(b)-pageSize] },
		"shorter by a byte":   func(b []byte) []byte { return b[:len(b)-1] },
		"longer by a page":    func(b []byte) []byte { return append(b, make([]byte, pageSize)...) },
		"no ring":             func(b []byte) []byte { return b[:ringAt+10] },
		"no slots":            func(b []byte) []byte { copy(b[pagesAt-3:], bigEndian(0, 3)); return b },
		"endless slots":       func(b []byte) []byte { copy(b[pagesAt-3:], bigEndian(1<<24-1, 3)); return b },
		"endless and full":    func(b []byte) []byte { copy(b[pagesAt-6:], bigEndian((1<<24-1)<<24|(1<<24-1), 6)); return b },
		"more than it holds":  func(b []byte) []byte { copy(b[pagesAt-6:], bigEndian(1<<24-1, 3)); return b },
		"begins past its end": func(b []byte) []byte { copy(b[pagesAt-9:], bigEndian(1<<24-1, 3)); return b },
		"back past its end":   func(b []byte) []byte { b[backAt-3] = 51; return b },
		"front past its end":  func(b []byte) []byte { b[backAt-1] = 51; return b },
	} {
		s.clock.Set(sample.end)
		s.replaced = 0
		plan, _ := s.Bind([]slidegate.Limit{l})
		damaged := damage(append([]byte(nil), sound...))
		s.put(t, s.key("u", l), []string{"SET", "", string(damaged)})
		if strings.HasSuffix(name, "past its end") { // what is not understood is left as it is, by a refund
			var at int64 // of the first charge in the back
			for _, b := range sound[ringAt : ringAt+7] {
				at = at<<8 | int64(b)
			}
			old := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: at}}}
			if err := plan.Refund(background, "u", old, 1); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if stored, err := s.conn.Do("GET", s.key("u", l)); err != nil || stored != string(damaged) {
				t.Errorf("%s: a refund changed it, %v", name, err)
			}
		}
		for step := range 120 {
			s.clock.Advance(37 * time.Millisecond)
			charged, err := plan.Take(background, "u", 1)
			if err != nil || !charged.Allowed {
				t.Fatalf("%s: step %d: %v, %v", name, step, charged.Allowed, err)
			}
			if _, err := plan.Peek(background, "u", l.Quota-1); err != nil {
				t.Fatalf("%s: step %d: %v", name, step, err)
			}
			charged.Readings[0].At -= 20_000
			if err := plan.Refund(background, "u", charged, 1); err != nil {
				t.Fatalf("%s: step %d: %v", name, step, err)
			}
		}
		if size, _ := s.conn.Do("STRLEN", s.key("u", l)); s.replaced != 1 || size.(int64) > 2000 {
			t.Errorf("%s: %d values were replaced, %d bytes are stored", name, s.replaced, size)
		}
		if _, err := s.stored(s.key("u", l)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
