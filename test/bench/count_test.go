package bench_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/test/bench"
)

func ours() []bench.Contender {
	all := slices.DeleteFunc(bench.Contenders(), func(c bench.Contender) bool { return !bench.IsOurs(c.Name) })
	return append(all, bench.OursOfThree()...)
}

// most is the target of a part and one of ours.
func most(t *testing.T, part, contender string) float64 {
	t.Helper()
	m, ok := bench.Most(part, contender)
	if !ok {
		t.Fatalf("there is no target for %s of %s", part, contender)
	}
	return m
}

func TestDecisionsAllocateNothing(t *testing.T) {
	for _, c := range ours() {
		for _, quota := range []int64{100, 1_000_000_000} {
			for _, seen := range []int{1, 50_000} {
				l := c.Open(quota, time.Hour)
				for i := range seen {
					l.Take(bench.Key(i))
				}
				key := bench.Key(0)
				for range 1000 {
					l.Take(key)
				}
				if n := testing.AllocsPerRun(10_000, func() { l.Take(key) }); n != 0 {
					t.Errorf("%s at a quota of %d with %d keys: %v allocations a decision, want 0", c.Name, quota, seen, n)
				}
				l.Close()
			}
		}
	}
}

func TestHeapPerKey(t *testing.T) {
	base := bench.HeapPerKey(bench.Find(bench.Baseline))
	for _, name := range []string{bench.LogTake, bench.CounterTake} {
		got := bench.HeapPerKey(bench.Find(name))
		t.Logf("%s: %.1f bytes a key, %s: %.1f", name, got, bench.Baseline, base)
		if want := most(t, "heap", name); got > want*base {
			t.Errorf("%s: %.1f bytes a key, want at most %.2f times the %.1f of %s", name, got, want, base, bench.Baseline)
		}
	}
}

func TestIdleKeysLeaveNothing(t *testing.T) {
	for _, name := range []string{bench.LogTake, bench.CounterTake} {
		synctest.Test(t, func(t *testing.T) {
			// Sleep is the bubble's: it takes no time and nobody asks the store anything meanwhile.
			kept := bench.KeptWhenIdle(bench.Find(name), time.Minute, 4*time.Minute, time.Sleep)
			t.Logf("%s: %.2f %% of the heap is kept", name, 100*kept)
			if want := most(t, "idle", name); kept > want {
				t.Errorf("%s: %.1f %% of the heap is kept when all keys are idle, want at most %.1f %%", name, 100*kept, 100*want)
			}
		})
	}
}

func TestFullLogsArePacked(t *testing.T) {
	got := bench.BytesPerEntry(1000)
	t.Logf("%.2f bytes an entry", got)
	if want := most(t, "entry", bench.LogTake); got > want {
		t.Errorf("%.2f bytes an entry in full logs of 1,000, want at most %v", got, want)
	}
}

func TestCallersOfOneKeyGetNoErrors(t *testing.T) {
	for _, name := range []string{"hot2", "denied2"} {
		w := bench.FindWorkload(name)
		w.Callers = 8
		for _, c := range ours() {
			l := w.Prepare(&c)
			tally := w.Run(l, 100_000)
			l.Close()
			if tally.Count[w.Verdict] != 100_000 {
				t.Errorf("%s, %s: the verdicts (denied, allowed, failed) are %v, want all the same", name, c.Name, tally.Count)
			}
		}
	}
}

func TestHTTPAllocations(t *testing.T) {
	for _, m := range bench.Middlewares() {
		want, ok := bench.Most("http-allocations", m.Name)
		if !ok {
			continue
		}
		s := bench.FindCrowd("http-allowed").Serve(&m)
		if n := testing.AllocsPerRun(1000, func() { s.Ask(1) }); n > want {
			t.Errorf("%s: %v allocations for an allowed request, want at most %v", m.Name, n, want)
		}
		s.Stop()
	}
}

func TestSocketsAnswer(t *testing.T) {
	for _, m := range append([]*bench.Middleware{nil}, all(bench.Middlewares())...) {
		s, err := bench.OpenSocket(m, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ask(30); err != nil {
			t.Errorf("%v: %v", m, err)
		}
		s.Close()
	}
}

func all(list []bench.Middleware) (pointers []*bench.Middleware) {
	for i := range list {
		pointers = append(pointers, &list[i])
	}
	return pointers
}

// What is compared must do the same work.

func TestContendersDecideAlike(t *testing.T) {
	for _, w := range bench.Workloads() {
		const calls = 20_000
		many := len(w.Keys()) > 1
		if many {
			w.Warm = 0
		}
		for _, c := range append(bench.Contenders(), bench.OursOfThree()...) {
			l := w.Prepare(&c)
			tally := w.Run(l, calls)
			l.Close()
			if err := w.Check(&tally); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if tally.Calls != calls {
				t.Errorf("%s, %s: %d calls, want %d", w.Name, c.Name, tally.Calls, calls)
			}
			if denied := tally.Count[bench.Denied]; w.Mixed && (denied > 0) != (w.Quota == 100) {
				t.Errorf("%s, %s: %d of %d calls are denied at a quota of %d", w.Name, c.Name, denied, calls, w.Quota)
			}
		}
	}
}

func TestMiddlewaresAnswerAlike(t *testing.T) {
	for _, m := range bench.Middlewares() {
		for _, c := range bench.Crowds() {
			if c.Denied && m.Name == bench.HTTPFloor {
				continue // it never refuses
			}
			s := c.Serve(&m)
			status := s.Ask(1)
			if refused := status == http.StatusTooManyRequests; refused != c.Denied {
				t.Errorf("%s, %s: status %d", c.Name, m.Name, status)
			}
			if n := s.Fields(); n == 0 && m.Name != bench.LogNone {
				t.Errorf("%s, %s sends no fields", c.Name, m.Name)
			}
			s.Stop()
		}
	}
}
