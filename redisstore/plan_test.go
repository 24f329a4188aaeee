package redisstore

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

// A scripted client answers what it is told to.
type scripted struct {
	fake
	reply []int64
}

func (c *scripted) Run(ctx context.Context, s *Script, keys, args []string) ([]int64, error) {
	if _, err := c.fake.Run(ctx, s, keys, args); err != nil {
		return nil, err
	}
	return slices.Clone(c.reply), nil
}

// TestWhatIsSent: keys and arguments of every verb, with the server's clock and with one of our own.
func TestWhatIsSent(t *testing.T) {
	f := new(fake)
	limits := []slidegate.Limit{named(t, "burst=10/s"), named(t, "day=1000000/d,resolution=1m"), named(t, "plan=5/90s,counter")}
	keys := []string{"app:{k}:burst:1s", "app:{k}:day:1d", "app:{k}:plan:90s,counter"}
	charged := slidegate.Answer{Readings: [slidegate.MaxLimits]slidegate.Reading{{At: 1001}, {At: 60000}, {At: -90000}}}
	bounds := []string{"10", "1000", "1000000", "86400000", "5", "90000"}
	for clock, option := range map[string]Option{
		"":     func(*Store) {},
		"1234": WithClock(func() time.Time { return time.UnixMicro(1_234_999) }),
		"-1":   WithClock(func() time.Time { return time.UnixMicro(-1) }),
	} {
		p := bind(t, New(f, WithPrefix("app"), WithTimeout(time.Minute), option), limits...)
		take, peek, then := []string{"tlrc"}, []string{"plrc"}, append(bounds[:6:6], "60000")
		if clock != "" {
			take, peek, then = []string{"Tlrc"}, []string{"Plrc"}, append(bounds[:6:6], clock, "60000")
		}
		for _, c := range []struct {
			script *Script
			ask    func() error
			args   []string
		}{
			{takeScript, func() error { _, err := p.Take(background, "k", 3); return err }, slices.Concat(take, then, []string{"3"})},
			{takeScript, func() error { _, err := p.Take(background, "k", 1); return err }, slices.Concat(take, then)},
			{takeScript, func() error { _, err := p.Peek(background, "k", 0); return err }, slices.Concat(peek, then, []string{"0"})},
			{refundScript, func() error { return p.Refund(background, "k", charged, 3) },
				[]string{clock, "3", "l", "10", "1000", "1", "1001", "l", "1000000", "86400000", "60000", "60000", "c", "5", "90000", "1", "-90000"}},
			{resetScript, func() error { return p.Reset(background, "k") }, []string{clock}},
		} {
			if err := c.ask(); err != nil {
				t.Errorf("%s: %v", c.script.Name(), err)
			}
			all := f.sent()
			if got := all[len(all)-1]; got.script != c.script || !slices.Equal(got.keys, keys) || !slices.Equal(got.args, c.args) {
				t.Errorf("%s sent %q %q, want %q %q", c.script.Name(), got.keys, got.args, keys, c.args)
			}
		}
	}
}

// TestAnswersAreRead: the verdict is the lowest bit of the status, and what a reply leaves out is what is usual.
func TestAnswersAreRead(t *testing.T) {
	for _, c := range []struct {
		now          int64
		log, counter []int64 // heads without units, and what follows
		at           [2]int64
		back         [2]int64
	}{
		{5000, []int64{0}, []int64{0}, [2]int64{5000, 4000}, [2]int64{}},
		{5000, []int64{hasAt, 3000}, []int64{hasBack, 9}, [2]int64{3000, 4000}, [2]int64{0, 9}},
		{5000, []int64{hasBack, 3000}, []int64{hasAt, 2000}, [2]int64{5000, 2000}, [2]int64{3000, 0}},
		{5000, []int64{hasAt + hasBack, 3000, 9}, []int64{hasAt + hasBack, 0, 0}, [2]int64{3000, 0}, [2]int64{9, 0}},
		{-1, []int64{0}, []int64{0}, [2]int64{-1, -2000}, [2]int64{}},
		{-2000, []int64{0}, []int64{0}, [2]int64{-2000, -2000}, [2]int64{}},
	} {
		script := new(scripted)
		p := bind(t, New(script, WithClock(func() time.Time { return time.UnixMilli(c.now) })), named(t, "10/m"), named(t, "10/2s,counter"))
		c.counter[0] += 8 * headFlags
		want := slidegate.Answer{Now: c.now}
		want.Readings[0] = slidegate.Reading{Units: 7, At: c.at[0], Back: c.back[0]}
		want.Readings[1] = slidegate.Reading{Units: 8, At: c.at[1], Back: c.back[1]}
		for status, allowed := range map[int64]bool{0: false, 1: true, 2: false, 3: true, 5: true} {
			head := (7*headFlags+c.log[0])*statuses + status
			script.reply, want.Allowed = slices.Concat([]int64{c.now, head}, c.log[1:], c.counter), allowed
			for verb, ask := range map[string]func(context.Context, string, int64) (slidegate.Answer, error){"take": p.Take, "peek": p.Peek} {
				if got, err := ask(background, "k", 1); err != nil || got != want {
					t.Errorf("a %s that is replied %d is %+v, %v, want %+v", verb, script.reply, got, err, want)
				}
			}
		}
	}
}

// TestOtherRepliesAreNoAnswer: a script or a client that is not ours.
func TestOtherRepliesAreNoAnswer(t *testing.T) {
	for _, reply := range [][]int64{nil, {5000}, {5000, 1, 1}, {5000, 1, 1, 2, 3}, {5000, 18}, {5000, statuses - 1}, {5000, -2}, {5000, -1, 0}, {0, 1},
		{5000, hasAt * statuses}, {5000, hasBack * statuses}, {5000, (hasAt + hasBack) * statuses, 1}, {5000, (hasAt + hasBack) * statuses, 1, 2, 3}} {
		p := bind(t, New(&scripted{reply: reply}), named(t, "10/m"))
		if a, err := p.Take(background, "k", 1); !errors.Is(err, slidegate.ErrUnavailable) || a.Allowed {
			t.Errorf("a reply of %d is %+v, %v", reply, a, err)
		}
	}
	p := bind(t, New(&scripted{reply: []int64{5000}}), named(t, "10/m"))
	if err := p.Reset(background, "k"); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("reset: %v", err)
	}
}

// TestNewerFormatIsNotDecided, and is told apart from a store that cannot be asked.
func TestNewerFormatIsNotDecided(t *testing.T) {
	c := &scripted{reply: []int64{5000, -1}}
	s := New(c)
	p := bind(t, s, named(t, "10/m"))
	a, err := p.Take(background, "k", 1)
	if a.Allowed {
		t.Error("a take is admitted")
	}
	errs := []error{err}
	_, err = p.Peek(background, "k", 1)
	errs = append(errs, err, p.Refund(background, "k", a, 1), p.Reset(background, "k"))
	for _, err := range errs {
		if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, ErrNewerFormat) {
			t.Errorf("got %v", err)
		}
	}
	if st := s.Stats(); st.Newer != 4 || st.Failed != 0 {
		t.Errorf("%+v, want 4 newer and no failure", st)
	}
}

// TestReplacedValuesAreCounted when a charge replaced them, not when they were only met.
func TestReplacedValuesAreCounted(t *testing.T) {
	c := &scripted{reply: []int64{5000, 5, 0}}
	s := New(c)
	p := bind(t, s, named(t, "10/m"), named(t, "20/m"))
	p.Take(background, "k", 1)
	if st := s.Stats(); st.Replaced != 2 {
		t.Errorf("%d values count as replaced, want 2", st.Replaced)
	}
	p.Take(background, "k", 0)
	p.Peek(background, "k", 1)
	c.reply[1] = 4
	p.Take(background, "k", 1)
	if st := s.Stats(); st.Replaced != 2 {
		t.Errorf("%d values count as replaced, though nothing was charged again", st.Replaced)
	}
}

// A journal is where a logger writes.
type journal struct {
	sync.Mutex
	bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.Lock()
	defer j.Unlock()
	return j.Buffer.Write(b)
}

func (j *journal) lines() []string {
	j.Lock()
	defer j.Unlock()
	return strings.Split(strings.TrimSuffix(j.String(), "\n"), "\n")
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestEachChangeIsOneLine: Redis goes and comes back, with many calls before, meanwhile and after; while
// failures and answers alternate it is still gone.
func TestEachChangeIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var broken bool
		f := &fake{before: func(context.Context, sent) error {
			if broken {
				return errBroken
			}
			return nil
		}}
		p := bind(t, New(f, WithLogger(j.logger())), named(t, "10/m"))
		ask := func(n int) {
			for range n {
				p.Take(t.Context(), "secret", 1)
			}
		}
		for range 2 {
			ask(100)
			broken = true
			ask(100)
			for range 20 { // one of two nodes is down
				broken = !broken
				ask(1)
				<-time.After(100 * time.Millisecond)
			}
			broken = false
			<-time.After(calm)
			ask(100)
		}
		synctest.Wait() // an answer may be there before it is told of
		want := []string{
			`level=WARN msg="slidegate: Redis cannot be asked" error="connection reset"`,
			`level=INFO msg="slidegate: Redis answers again"`,
		}
		if got := j.lines(); !slices.Equal(got, slices.Concat(want, want)) {
			t.Errorf("logged\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestOutagesMayBeLeftToTheGate: what is said of values is not.
func TestOutagesMayBeLeftToTheGate(t *testing.T) {
	var j journal
	c := &scripted{reply: []int64{5000, 3}}
	c.before = func(context.Context, sent) error { return errors.New("connection reset") }
	p := bind(t, New(c, WithLogger(j.logger()), WithoutOutages()), named(t, "10/m"))
	if _, err := p.Take(t.Context(), "secret", 1); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Fatalf("the error is %v", err)
	}
	c.before = nil
	p.Take(t.Context(), "secret", 1)
	if got := j.lines(); len(got) != 1 || !strings.Contains(got[0], "values were not understood") {
		t.Errorf("logged\n%s", strings.Join(got, "\n"))
	}
}

// TestForeignValuesAreTold once a minute, without the key.
func TestForeignValuesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		c := &scripted{reply: []int64{5000, 3}}
		p := bind(t, New(c, WithLogger(j.logger())), named(t, "10/m"))
		ask := func() {
			for range 10 {
				p.Take(t.Context(), "secret", 1)
			}
		}
		ask()
		<-time.After(time.Minute)
		c.reply[1] = -1
		ask()
		want := []string{
			`level=WARN msg="slidegate: stored values were not understood and have been replaced" replaced=1`,
			`level=WARN msg="slidegate: stored values were written by a newer version, and what meets them is not decided" newer=1`,
		}
		if got := j.lines(); !slices.Equal(got, want) {
			t.Errorf("logged\n%s", strings.Join(got, "\n"))
		}
	})
}

// TestNoErrorNamesAKey.
func TestNoErrorNamesAKey(t *testing.T) {
	for _, reply := range [][]int64{{1}, {5000, -1}} {
		p := bind(t, New(&scripted{reply: reply}), named(t, "10/m"))
		if _, err := p.Take(background, "secret", 1); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

// TestScriptsHaveTheirHash: what Redis will know them by.
func TestScriptsHaveTheirHash(t *testing.T) {
	names := map[string]bool{}
	for _, s := range []*Script{takeScript, refundScript, resetScript, chargesScript} {
		sum := sha1.Sum([]byte(s.Source()))
		if s.Hash() != hex.EncodeToString(sum[:]) || names[s.Name()] || !strings.HasPrefix(s.Source(), luaFile("common")+"\n") {
			t.Errorf("script %s has the hash %s", s.Name(), s.Hash())
		}
		names[s.Name()] = true
	}
}

// unfit is a client that cannot serve.
type unfit struct{ fake }

func (*unfit) Check() error { return errors.New("it moves keys about") }

// TestWhatCannotBeBuilt is reported by slidegate.New, which names what was asked and what is allowed.
func TestWhatCannotBeBuilt(t *testing.T) {
	for _, c := range []struct {
		client Client
		option Option
		want   string
	}{
		{nil, nil, "the client is nil: adapt one with package goredis or rueidis"},
		{new(unfit), nil, "it moves keys about"},
		{new(fake), WithPrefix(""), `the prefix "": allowed is text that is not blank, without braces and control characters`},
		{new(fake), WithPrefix(" \t"), `the prefix " \t": allowed is text that is not blank, without braces and control characters`},
		{new(fake), WithPrefix("a{b"), `the prefix "a{b": allowed is text that is not blank, without braces and control characters`},
		{new(fake), WithPrefix("a\nb"), `the prefix "a\nb": allowed is text that is not blank, without braces and control characters`},
		{new(fake), WithPrefix("}"), `the prefix "}": allowed is text that is not blank, without braces and control characters`},
		{new(fake), WithClock(nil), "the clock is nil: give a function such as time.Now, or leave the option out for the server's clock"},
		{new(fake), WithTimeout(0), "the timeout of 0s: allowed is 1ms to 1m"},
		{new(fake), WithTimeout(-time.Second), "the timeout of -1s: allowed is 1ms to 1m"},
		{new(fake), WithTimeout(time.Minute + 1), "the timeout of 1m0.000000001s: allowed is 1ms to 1m"},
		{new(fake), WithFolding(0), "folding 0 decisions: allowed is 1 to 64"},
		{new(fake), WithFolding(65), "folding 65 decisions: allowed is 1 to 64"},
		{new(fake), WithLogger(nil), "the logger is nil: leave the option out to log nothing"},
	} {
		var options []Option
		if c.option != nil {
			options = append(options, c.option)
		}
		_, err := slidegate.New(New(c.client, options...), slidegate.PerMinute(10))
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.HasSuffix(err.Error(), ": redis store: "+c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := slidegate.New(New(new(fake), WithTimeout(time.Millisecond), WithTimeout(time.Minute), WithFolding(1), WithFolding(64)), slidegate.PerMinute(10)); err != nil {
		t.Errorf("the ends of what is allowed: %v", err)
	}
}

// TestADecisionAllocatesLittle: the text of its keys and the context of its batch, with a channel. Pools
// forget, so what counts is the least of several.
func TestADecisionAllocatesLittle(t *testing.T) {
	p := bind(t, New(still{5000, headFlags*statuses + 1, headFlags}), named(t, "10/m"), named(t, "20/h,counter"))
	least := 100.0
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, func() { p.Take(background, "user:42", 1) }))
	}
	if least > 3 {
		t.Errorf("%g allocations a decision, want at most 3", least)
	}
}

// still is a client that always answers the same, and allocates nothing.
type still []int64

func (s still) Run(context.Context, *Script, []string, []string) ([]int64, error) { return s, nil }

func (still) Prompt() bool { return true }
