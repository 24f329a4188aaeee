package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
)

var errBroken = errors.New("connection reset")

// A gated fake holds every call until the test lets it go, or until its context ends.
type gated struct {
	*fake
	gate chan error
}

func newGated() *gated {
	g := &gated{fake: new(fake), gate: make(chan error)}
	g.before = func(ctx context.Context, _ sent) error {
		select {
		case err := <-g.gate:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g
}

// A deaf fake does not look at contexts: it holds every call until the gate is closed.
func newDeaf() *gated {
	g := &gated{fake: new(fake), gate: make(chan error)}
	g.before = func(context.Context, sent) error { return <-g.gate }
	return g
}

// An outcome is what a caller got, and how long it took.
type outcome struct {
	cost   int64
	answer slidegate.Answer
	err    error
	took   time.Duration
}

// takeAll takes costs 1 to n of keys of one plan at the same time. The outcomes come when they are there.
func takeAll(ctx context.Context, p *plan, n int) <-chan outcome {
	all := make(chan outcome, n)
	for i := range n {
		go func() {
			start := time.Now()
			answer, err := p.Take(ctx, "k"+strconv.Itoa(i), int64(i+1))
			all <- outcome{int64(i + 1), answer, err, time.Since(start)}
		}()
	}
	return all
}

// checkOwn fails unless every caller got its own answer.
func checkOwn(t *testing.T, all <-chan outcome) {
	t.Helper()
	for range cap(all) {
		if o := <-all; o.err != nil || !o.answer.Allowed || o.answer.Readings[0].Units != o.cost {
			t.Errorf("cost %d got %+v, %v", o.cost, o.answer.Readings[0], o.err)
		}
	}
}

// sizes returns how many decisions each call carried.
func sizes(all []sent, limits int) (n []int) {
	for _, s := range all {
		n = append(n, len(s.decisions()))
	}
	return n
}

// TestFewCallersAreSentAtOnce, each by itself.
func TestFewCallersAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := bind(t, New(g), named(t, "10/m"))
		all := takeAll(t.Context(), p, abreast)
		synctest.Wait()
		if got := sizes(g.sent(), 1); !slices.Equal(got, slices.Repeat([]int{1}, abreast)) {
			t.Errorf("calls of %v decisions are under way, want %d of 1", got, abreast)
		}
		close(g.gate)
		checkOwn(t, all)
	})
}

// TestThoseWhoWaitAreFolded, up to as many as the option says, and each gets its own answer.
func TestThoseWhoWaitAreFolded(t *testing.T) {
	for _, c := range []struct {
		folding, callers int
		want             []int // decisions of the calls beside the first
	}{
		{64, abreast + 1, []int{1}},
		{64, abreast + 64, []int{64}},
		{64, abreast + 100, []int{64, 36}},
		{10, abreast + 25, []int{10, 10, 5}},
		{2, abreast + 3, []int{2, 1}},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.callers, c.folding), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGated()
				s := New(g, WithFolding(c.folding))
				p := bind(t, s, named(t, "10/m"), named(t, "20/h,counter"))
				all := takeAll(t.Context(), p, c.callers)
				synctest.Wait()
				for range c.want {
					g.gate <- nil
					synctest.Wait()
				}
				close(g.gate)
				checkOwn(t, all)
				got, want := sizes(g.sent(), 2), append(slices.Repeat([]int{1}, abreast), c.want...)
				slices.Sort(got) // a full call does not wait until those before it are on their way
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("calls of %v decisions were sent, want %v", got, want)
				}
				folded := 0
				for _, n := range c.want {
					if n > 1 {
						folded += n
					}
				}
				if st := s.Stats(); st.Decisions != uint64(c.callers) || st.Calls != uint64(abreast+len(c.want)) || st.Folded != uint64(folded) {
					t.Errorf("%+v after %d decisions in %d calls, %d of them folded", st, c.callers, abreast+len(c.want), folded)
				}
			})
		})
	}
}

// TestAFullCallWaitsForNoAnswer, while few are under way.
func TestAFullCallWaitsForNoAnswer(t *testing.T) {
	const folding = 10
	for waiting, want := range map[int][]int{
		folding - 1:   nil,
		folding:       {folding},
		2*folding - 1: {folding},
		5 * folding:   slices.Repeat([]int{folding}, mostAbreast-abreast),
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated()
			p := bind(t, New(g, WithFolding(folding)), named(t, "10/m"))
			all := []<-chan outcome{takeAll(t.Context(), p, abreast)}
			synctest.Wait()
			for range waiting { // one after the other, as callers come
				all = append(all, takeAll(t.Context(), p, 1))
				synctest.Wait()
			}
			if got := sizes(g.sent(), 1)[abreast:]; !slices.Equal(got, want) {
				t.Errorf("of %d that wait calls of %v decisions are under way, want %v", waiting, got, want)
			}
			close(g.gate)
			for _, some := range all {
				checkOwn(t, some)
			}
		})
	}
}

// TestFoldedCallHasTheKeysOfAll, decision by decision, then what it is to know of limits once, and
// the costs.
func TestFoldedCallHasTheKeysOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := bind(t, New(g), named(t, "a=10/m"), named(t, "b=20/h,counter"))
		first := takeAll(t.Context(), p, abreast)
		synctest.Wait()
		for i, key := range []string{"x", "y"} {
			go p.Take(t.Context(), key, int64(i+3))
			synctest.Wait()
		}
		close(g.gate)
		checkOwn(t, first)
		synctest.Wait()
		got := g.sent()[abreast]
		keys := []string{"slidegate:{x}:a:1m", "slidegate:{x}:b:1h,counter", "slidegate:{y}:a:1m", "slidegate:{y}:b:1h,counter"}
		args := []string{"tlc", "10", "60000", "20", "3600000", "3", "4"}
		if !slices.Equal(got.keys, keys) || !slices.Equal(got.args, args) {
			t.Errorf("keys %q, arguments %q", got.keys, got.args)
		}
	})
}

// TestOtherVerbsAndPlansAreNotFolded: a call decides for one plan, and takes or peeks.
func TestOtherVerbsAndPlansAreNotFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		s := New(g)
		p, other := bind(t, s, named(t, "10/m")), bind(t, s, named(t, "20/m"))
		all := takeAll(t.Context(), p, abreast+2)
		synctest.Wait()
		go p.Peek(t.Context(), "k", 1)
		go other.Take(t.Context(), "k", 1)
		go p.Reset(t.Context(), "k")
		go p.Refund(t.Context(), "k", slidegate.Answer{}, 1)
		synctest.Wait()
		if n := len(g.sent()); n != abreast+4 {
			t.Errorf("%d calls are under way, want %d: the others do not wait for takes of this plan", n, abreast+4)
		}
		close(g.gate)
		checkOwn(t, all)
		synctest.Wait()
	})
}

// TestWithoutFoldingNobodyWaits.
func TestWithoutFoldingNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		all := takeAll(t.Context(), bind(t, New(g, WithFolding(1)), named(t, "10/m")), 100)
		synctest.Wait()
		if n := len(g.sent()); n != 100 {
			t.Errorf("%d calls are under way, want 100", n)
		}
		close(g.gate)
		checkOwn(t, all)
	})
}

// TestClusterFoldsWithinAHashSlot alone: keys of two slots in one call are an error there.
func TestClusterFoldsWithinAHashSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := bind(t, New(clustered{g.fake}), named(t, "10/m"))
		results := make(chan error, 300)
		for i := range cap(results) {
			key := []string{"foo", "bar", "123456789"}[i%3]
			go func() {
				a, err := p.Take(t.Context(), key, int64(i))
				if err == nil && a.Readings[0].Units != int64(i) {
					err = fmt.Errorf("cost %d got %d", i, a.Readings[0].Units)
				}
				results <- err
			}()
		}
		synctest.Wait()
		if n := len(g.sent()); n != 3*(abreast+1) {
			t.Errorf("%d calls are under way, want %d and a full one in each of 3 slots", n, abreast)
		}
		close(g.gate)
		for range cap(results) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		for _, s := range g.sent() {
			for _, key := range s.keys {
				if tagOf(key) != tagOf(s.keys[0]) {
					t.Errorf("%q and %q are in one call", key, s.keys[0])
				}
			}
		}
		synctest.Wait() // who answered last may still be putting away
		if n := len(p.takes.lanes); n > 1 {
			t.Errorf("%d lanes are left when nothing is under way", n)
		}
	})
}

// TestWhoLeavesDisturbsNobody: of those who wait and of those under way, some leave. They are told at
// once and by their context's error, the others get their answers, and who left before being sent is not sent.
func TestWhoLeavesDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		s := New(g)
		p := bind(t, s, named(t, "10/m"))
		stay := takeAll(t.Context(), p, abreast)
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		some := takeAll(ctx, p, 7)
		more := takeAll(t.Context(), p, 5)
		synctest.Wait()
		leave()
		for range 7 {
			if o := <-some; o.err != context.Canceled || o.took != 0 {
				t.Errorf("who left got %v after %s", o.err, o.took)
			}
		}
		for range abreast {
			g.gate <- nil
		}
		checkOwn(t, stay)
		synctest.Wait()
		if got := sizes(g.sent(), 1)[abreast:]; !slices.Equal(got, []int{5}) {
			t.Errorf("calls of %v decisions followed, want one with the 5 who stayed", got)
		}
		// Of a call that is under way one leaves.
		ctx, leave = context.WithCancel(t.Context())
		under := takeAll(ctx, p, 1)
		synctest.Wait()
		leave()
		if o := <-under; o.err != context.Canceled || o.took != 0 {
			t.Errorf("who left a call under way got %v after %s", o.err, o.took)
		}
		close(g.gate)
		checkOwn(t, more)
		synctest.Wait()
		if st := s.Stats(); st.Failed != 0 {
			t.Errorf("leaving counts as %d failures", st.Failed)
		}
	})
}

// TestACallersOwnDeadlineIsItsOwn: it is no failure of the store.
func TestACallersOwnDeadlineIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		s := New(g)
		p := bind(t, s, named(t, "10/m"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		o := <-takeAll(ctx, p, 1)
		if o.err != context.DeadlineExceeded || o.took != 20*time.Millisecond {
			t.Errorf("got %v after %s", o.err, o.took)
		}
		close(g.gate)
		if _, err := p.Take(ctx, "k", 1); err != context.DeadlineExceeded || len(g.sent()) != 1 {
			t.Errorf("a context that has ended gets %v and %d calls, want none for it", err, len(g.sent())-1)
		}
		synctest.Wait()
		if st := s.Stats(); st.Failed != 0 {
			t.Errorf("it counts as %d failures", st.Failed)
		}
	})
}

// TestTheDeadlineHolds for everybody, to the millisecond, whether the client looks at its context or
// not, whether they are under way or wait, at any number.
func TestTheDeadlineHolds(t *testing.T) {
	for name, client := range map[string]func() *gated{"deaf": newDeaf, "gated": newGated} {
		for _, folding := range []int{1, 64} {
			for _, callers := range []int{1, abreast, 200, 1000} {
				t.Run(fmt.Sprintf("%s %d %d", name, folding, callers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						g := client()
						s := New(g, WithFolding(folding), WithTimeout(70*time.Millisecond))
						all := takeAll(t.Context(), bind(t, s, named(t, "10/m")), callers)
						for range callers {
							o := <-all
							if o.took > 70*time.Millisecond || !errors.Is(o.err, slidegate.ErrUnavailable) || errors.Is(o.err, context.DeadlineExceeded) {
								t.Fatalf("after %s: %v", o.took, o.err)
							}
						}
						close(g.gate)
						synctest.Wait()
						if st := s.Stats(); st.Overdue != 0 || st.Failed == 0 {
							t.Errorf("when the client has returned: %+v", st)
						}
					})
				})
			}
		}
	}
}

// TestTheDeadlineCountsFromAsking: who waited for others has that much less time.
func TestTheDeadlineCountsFromAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDeaf()
		p := bind(t, New(g), named(t, "10/m"))
		first := takeAll(t.Context(), p, abreast)
		<-time.After(30 * time.Millisecond)
		second := takeAll(t.Context(), p, 3)
		for range abreast {
			if o := <-first; o.took != DefaultTimeout {
				t.Errorf("the first were told after %s", o.took)
			}
		}
		for range 3 {
			if o := <-second; o.took != DefaultTimeout {
				t.Errorf("those who waited were told after %s", o.took)
			}
		}
		close(g.gate)
	})
}

// TestAClientHasTimeToConnect: longer than its callers, but not for ever.
func TestAClientHasTimeToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		s := New(g)
		p := bind(t, s, named(t, "10/m"))
		start := time.Now()
		<-takeAll(t.Context(), p, 1)
		if st := s.Stats(); st.Overdue != 1 {
			t.Errorf("%d calls are overdue when the caller is told, want 1", st.Overdue)
		}
		<-time.After(clientGrace - DefaultTimeout)
		synctest.Wait()
		if st := s.Stats(); st.Overdue != 1 {
			t.Errorf("the client was stopped after %s", time.Since(start))
		}
		<-time.After(DefaultTimeout)
		synctest.Wait()
		if st := s.Stats(); st.Overdue != 0 {
			t.Errorf("the client was not stopped after %s", time.Since(start))
		}
	})
}

// TestWhatIsLeftBehindIsBounded: a client that never returns gets no more than so many calls, and more
// when it returns.
func TestWhatIsLeftBehindIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDeaf()
		s := New(g, WithFolding(1))
		p := bind(t, s, named(t, "10/m"))
		all := takeAll(t.Context(), p, maxOverdue)
		for range maxOverdue {
			<-all
		}
		o := <-takeAll(t.Context(), p, 1)
		if o.took != 0 || !errors.Is(o.err, errOverdue) || !errors.Is(o.err, slidegate.ErrUnavailable) || len(g.sent()) != maxOverdue {
			t.Errorf("beyond it: %v after %s, %d calls", o.err, o.took, len(g.sent()))
		}
		close(g.gate)
		synctest.Wait()
		checkOwn(t, takeAll(t.Context(), p, 10))
	})
}

// TestNothingIsSentTwice: a call that failed may have been charged.
func TestNothingIsSentTwice(t *testing.T) {
	f := &fake{before: func(context.Context, sent) error { return errBroken }}
	s := New(f)
	p := bind(t, s, named(t, "10/m"))
	_, err := p.Take(background, "k", 1)
	if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, errBroken) {
		t.Errorf("take: %v", err)
	}
	_, peekErr := p.Peek(background, "k", 1)
	for _, err := range []error{peekErr, p.Refund(background, "k", slidegate.Answer{}, 1), p.Reset(background, "k")} {
		if !errors.Is(err, slidegate.ErrUnavailable) || !errors.Is(err, errBroken) {
			t.Errorf("another verb: %v", err)
		}
	}
	if n := len(f.sent()); n != 4 || s.Stats().Failed != 4 {
		t.Errorf("%d calls, %d failures, want 4", n, s.Stats().Failed)
	}
}

// TestOneFailureIsOfAllItCarried, and of nobody else.
func TestOneFailureIsOfAllItCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := bind(t, New(g), named(t, "10/m"))
		first := takeAll(t.Context(), p, abreast)
		synctest.Wait()
		second := takeAll(t.Context(), p, 20)
		synctest.Wait()
		for range abreast {
			g.gate <- nil
		}
		checkOwn(t, first)
		synctest.Wait()
		g.gate <- errBroken
		for range 20 {
			if o := <-second; !errors.Is(o.err, errBroken) {
				t.Errorf("got %v", o.err)
			}
		}
		close(g.gate)
		checkOwn(t, takeAll(t.Context(), p, 50))
	})
}

// TestACallerWhoCannotLeaveNeedsNoGoroutine, if the client keeps deadlines and Redis answers.
func TestACallerWhoCannotLeaveNeedsNoGoroutine(t *testing.T) {
	var here atomic.Bool
	f := &fake{before: func(context.Context, sent) error {
		stack := make([]byte, 1<<16)
		here.Store(strings.Contains(string(stack[:runtime.Stack(stack, false)]), "testing.tRunner("))
		return nil
	}}
	can, cancel := context.WithCancel(background)
	defer cancel()
	for _, c := range []struct {
		name   string
		client Client
		ctx    context.Context
		want   bool
	}{
		{"prompt", prompt{f}, background, true},
		{"prompt, but the caller may leave", prompt{f}, can, false},
		{"not known to be prompt", f, background, false},
	} {
		p := bind(t, New(c.client), named(t, "10/m"))
		if _, err := p.Take(c.ctx, "k", 1); err != nil || here.Load() != c.want {
			t.Errorf("%s: in the caller's goroutine: %v, %v", c.name, here.Load(), err)
		}
	}
	down := New(prompt{f})
	down.failed(errBroken)
	if _, err := bind(t, down, named(t, "10/m")).Take(background, "k", 1); err != nil || here.Load() {
		t.Errorf("after a failure: in the caller's goroutine: %v, %v", here.Load(), err)
	}
}

// TestThoseWhoWaitForACallerAreSent although that caller has gone on with its answer.
func TestThoseWhoWaitForACallerAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		p := bind(t, New(prompt{g.fake}), named(t, "10/m"))
		all := takeAll(background, p, 3*abreast)
		synctest.Wait()
		close(g.gate)
		checkOwn(t, all)
	})
}

// TestManyCallersGetTheirOwnAnswers while the client is slow, deaf or failing, and callers leave.
func TestManyCallersGetTheirOwnAnswers(t *testing.T) {
	f := &fake{before: func(ctx context.Context, _ sent) error {
		switch rand.IntN(20) {
		case 0:
			return errBroken
		case 1: // until the time is up
			<-ctx.Done()
			return ctx.Err()
		}
		for range rand.IntN(50) {
			runtime.Gosched()
		}
		return nil
	}}
	s := New(f, WithTimeout(5*time.Millisecond))
	p := bind(t, s, named(t, "10/m"), named(t, "20/h,counter"))
	var wg sync.WaitGroup
	var answers, failures, gone atomic.Int64
	for g := range 64 {
		wg.Go(func() {
			for i := range 30 {
				ctx, cancel := context.WithCancel(background)
				if rand.IntN(10) == 0 {
					go cancel()
				}
				cost := int64(g*1000 + i)
				a, err := p.Take(ctx, "k", cost)
				cancel()
				switch {
				case err == nil && a.Readings[0].Units == cost && a.Readings[1].Units == cost:
					answers.Add(1)
				case err == context.Canceled:
					gone.Add(1)
				case errors.Is(err, slidegate.ErrUnavailable):
					failures.Add(1)
				default:
					t.Errorf("cost %d got %+v, %v", cost, a.Readings[0], err)
				}
			}
		})
	}
	wg.Wait()
	if answers.Load() == 0 || failures.Load() == 0 || gone.Load() == 0 {
		t.Errorf("%d answers, %d failures, %d gone: the law shows little", answers.Load(), failures.Load(), gone.Load())
	}
}
