package test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

//go:embed testdata/field-cases.json
var fieldCasesJSON []byte

// fieldCases are faults that were reported of other rate limiters, by the id that they have in
// testdata/field-cases.json. Each function is what the case says, on the memory store. Those that
// speak of HTTP alone stand beside the package httpgate.
var fieldCases = map[string]func(*testing.T){
	"BND-01": noDoubleQuotaAtAnEdge,
	"BND-02": oneInTenSeconds,
	"BND-04": waitIsThatOfTheOldest,
	"BND-10": remainingOfACounter,
	"BND-12": boundOfACounter,
	"BAN-04": blockedForGood,
	"CLK-03": clockAMillisecondBehind,
	"KEY-11": keysOfSeveralParts,
	"MEM-01": oneShotKeys,
	"MEM-02": sweepsKeepWhatCounts,
	"MEM-04": exhaustedKeysSurviveAFlood,
	"MEM-07": nothingStaysBehind,
	"MEM-08": refusalsAreNotStored,
	"HOT-01": slowStoreHoldsNobodyUp,
	"RAC-01": fiftyAtOnce,
	"OVF-01": yearsOfIdleness,
	"CST-01": costsOfNothingAndLess,
	"CST-02": costThatCanNeverFit,
	"CST-04": waitForWhatCanNeverFit,
	"CST-05": waitOfSeveralUnits,
	"MUL-01": refusedRequestsPayNothing,
	"MUL-02": twoLimitsOfOneKey,
	"MUL-04": anyOrderOfLimits,
	"CFG-04": quotaLowered,
	"CFG-05": quotaRaised,
	"DYN-02": blockedAndUnlimited,
	"MET-02": refusalsCanBeCounted,
	"REF-01": reserveAndSettle,
	"REF-02": refundOfNothing,
	"REF-04": cancelledBeforeItBegan,
	"REF-06": settledTwice,
	"TST-03": virtualTime,
}

// TestFieldCases runs every case whose surface is the library, and fails if one is not run.
func TestFieldCases(t *testing.T) {
	var file struct {
		Shared []struct{ ID, Setup, Why string }
	}
	if err := json.Unmarshal(fieldCasesJSON, &file); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range file.Shared {
		if !strings.HasPrefix(c.Setup, "[lib]") && !strings.HasPrefix(c.Setup, "[lib+") {
			continue
		}
		known[c.ID] = true
		if run := fieldCases[c.ID]; run != nil {
			t.Run(c.ID, run)
		} else {
			t.Errorf("%s is not run: %s", c.ID, c.Why)
		}
	}
	for id := range fieldCases {
		if !known[id] {
			t.Errorf("%s is no case of the library", id)
		}
	}
}

// at puts the clock to so many seconds.
func at(clock *gatetest.Clock, seconds float64) {
	clock.SetMilli(int64(math.Round(seconds * 1000)))
}

// take asks n times for one unit and returns how many were admitted, and the last answer.
func take(t *testing.T, l *slidegate.Limiter, key string, n int) (admitted int, last slidegate.Decision) {
	t.Helper()
	for range n {
		last = takeN(t, l, key, 1)
		if last.Allowed {
			admitted++
		}
	}
	return admitted, last
}

func takeN(t *testing.T, l *slidegate.Limiter, key string, cost int64) slidegate.Decision {
	t.Helper()
	d, err := l.TakeN(background, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func refund(t *testing.T, l *slidegate.Limiter, d *slidegate.Decision) {
	t.Helper()
	if err := l.Refund(background, d); err != nil {
		t.Fatal(err)
	}
}

func left(t *testing.T, l *slidegate.Limiter, key string) int64 {
	t.Helper()
	d, err := l.Peek(background, key)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining()
}

// expect reports an answer that is not the right one; retry is of interest where it is refused.
func expect(t *testing.T, when string, d slidegate.Decision, allowed bool, retry time.Duration) {
	t.Helper()
	if d.Allowed != allowed || d.RetryAfter() != retry {
		t.Errorf("%s: %s; want allowed %v, retry %s", when, d, allowed, retry)
	}
}

func noDoubleQuotaAtAnEdge(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(5))
	at(clock, 59.999)
	if n, _ := take(t, l, "a", 5); n != 5 {
		t.Errorf("%d of five admitted before the edge", n)
	}
	at(clock, 60)
	n, d := take(t, l, "a", 5)
	if n != 0 || d.RetryAfter() != 59_999*time.Millisecond {
		t.Errorf("%d of five admitted at the edge, retry %s", n, d.RetryAfter())
	}
	at(clock, 119.998)
	expect(t, "a millisecond early", takeN(t, l, "a", 1), false, time.Millisecond)
	at(clock, 119.999)
	expect(t, "when they have left", takeN(t, l, "a", 1), true, 0)
}

func oneInTenSeconds(t *testing.T) {
	l, clock := newLimiter(t, slidegate.Per(10*time.Second, 1))
	for s := range 31 {
		at(clock, float64(s))
		if d := takeN(t, l, "a", 1); d.Allowed != (s%10 == 0) {
			t.Errorf("at %d s: %s", s, d)
		}
	}
}

func waitIsThatOfTheOldest(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(2))
	for _, s := range []float64{0, 10} {
		at(clock, s)
		expect(t, "within the quota", takeN(t, l, "a", 1), true, 0)
	}
	at(clock, 20)
	expect(t, "at 20 s", takeN(t, l, "a", 1), false, 40*time.Second)
	at(clock, 60)
	expect(t, "the first at 60 s", takeN(t, l, "a", 1), true, 0)
	expect(t, "the second at 60 s", takeN(t, l, "a", 1), false, 10*time.Second)
}

func remainingOfACounter(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(100).Counter())
	take(t, l, "a", 50)
	at(clock, 66)
	if n, d := take(t, l, "a", 10); n != 10 || d.Remaining() != 45 || left(t, l, "a") != 45 {
		t.Errorf("%d of ten admitted, %d left; want 45", n, d.Remaining())
	}
	if n, d := take(t, l, "a", 46); n != 45 || d.Allowed {
		t.Errorf("%d of 46 admitted, the last %v; want 45 and not the last", n, d.Allowed)
	}
}

func boundOfACounter(t *testing.T) {
	log, clockL := newLimiter(t, slidegate.PerMinute(100))
	counter, clockC := newLimiter(t, slidegate.PerMinute(100).Counter())
	at(clockL, 59.9)
	at(clockC, 59.9)
	take(t, log, "a", 100)
	take(t, counter, "a", 100)
	admitted := slices.Repeat([]int64{59_900}, 100)
	for ms := int64(60_000); ms <= 120_000; ms += 100 {
		clockL.SetMilli(ms)
		clockC.SetMilli(ms)
		if n, _ := take(t, log, "a", 1); n == 1 && ms < 119_900 {
			t.Fatalf("the log admitted at %d ms", ms)
		}
		if n, _ := take(t, counter, "a", 1); n == 1 {
			admitted = append(admitted, ms)
		}
	}
	most := 0
	for i := range admitted {
		n := 0
		for _, ms := range admitted[:i+1] {
			if admitted[i]-ms < 60_000 {
				n++
			}
		}
		most = max(most, n)
	}
	if most <= 100 || most > 200 {
		t.Errorf("a minute held %d of a counter of 100; the bound is 200, and the case is there to exceed 100", most)
	}
}

func clockAMillisecondBehind(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(10))
	at(clock, 1000)
	takeN(t, l, "a", 1)
	clock.Advance(-time.Millisecond)
	if d := takeN(t, l, "a", 1); !d.Allowed || d.Remaining() != 8 {
		t.Errorf("a millisecond behind: %s, want 8 left", d)
	}
}

// The library takes a key as it is; Join makes one of parts.
func keysOfSeveralParts(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(1))
	for _, parts := range [][]string{{"a:b", "c"}, {"a", "b:c"}, {"a|b", ""}, {"a", "b|"}} {
		if d := takeN(t, l, httpgate.Join(parts...), 1); !d.Allowed {
			t.Errorf("%q shares a key with others", parts)
		}
	}
}

func oneShotKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 500_000
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(store, slidegate.Per(time.Second, 5))
		before := heap()
		for i := range keys {
			if ok, err := l.Allow(background, "user:"+strconv.Itoa(i)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if store.Len() != keys {
			t.Errorf("%d keys held, want %d", store.Len(), keys)
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if after := heap(); store.Len() != 0 || after > before+before/10 {
			t.Errorf("%d keys, %d bytes of heap; it began with %d", store.Len(), after, before)
		}
	})
}

func sweepsKeepWhatCounts(t *testing.T) {
	l, clock, store := newStore(t, slidegate.PerMinute(3))
	take(t, l, "a", 3)
	for s := range 30 {
		at(clock, float64(s+1))
		store.Sweep()
	}
	expect(t, "after thirty sweeps", takeN(t, l, "a", 1), false, 30*time.Second)
	at(clock, 60)
	if store.Sweep(); store.Len() != 0 {
		t.Errorf("%d keys when nothing counts", store.Len())
	}
}

func exhaustedKeysSurviveAFlood(t *testing.T) {
	store := memstore.New(memstore.WithMaxKeys(1000), memstore.WithClock(gatetest.NewClock(time.UnixMilli(0)).Now))
	l := slidegate.MustNew(store, slidegate.PerMinute(3))
	for i := range 10 {
		take(t, l, "exhausted "+strconv.Itoa(i), 3)
	}
	for i := range 100_000 {
		take(t, l, "fresh "+strconv.Itoa(i), 1)
		if n := store.Len(); n > 1000 {
			t.Fatalf("%d keys, more than the cap", n)
		}
	}
	for i := range 10 {
		if n, _ := take(t, l, "exhausted "+strconv.Itoa(i), 1); n != 0 {
			t.Errorf("exhausted key %d was refilled by the flood", i)
		}
	}
	if n := store.Stats().Evicted; n != 100_000+10-1000 {
		t.Errorf("%d evictions are counted, want %d", n, 100_000+10-1000)
	}
}

func nothingStaysBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 500 {
		store := memstore.New()
		take(t, slidegate.MustNew(store, slidegate.PerMinute(3)), "a", 1)
		for range 2 {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	l, _ := newLimiter(t, slidegate.PerMinute(3).Named("plan"))
	for i := range 200 {
		next, err := l.With(slidegate.PerMinute(int64(3 + i)).Named("plan"))
		if err != nil {
			t.Fatal(err)
		}
		take(t, next, "a", 1)
		l = next
	}
	if after := runtime.NumGoroutine(); after > before+2 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

func refusalsAreNotStored(t *testing.T) {
	l, clock, store := newStore(t, slidegate.Per(10*time.Second, 5))
	take(t, l, "a", 5)
	before := heap()
	for i := range int64(100_000) {
		clock.SetMilli(i * 9 / 100)
		if ok, err := l.Allow(background, "a"); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if after := heap(); after > before+before/10 {
		t.Errorf("a hundred thousand refusals left %d bytes of heap, %d before", after, before)
	}
	clock.SetMilli(9000)
	d, err := l.PeekN(background, "a", 5)
	if err != nil || d.RetryAfter() != time.Second || d.ResetAfter() != time.Second || store.Len() != 1 {
		t.Errorf("%s, reset %s, %v: five units of 0 s count and no more, until 10 s", d, d.ResetAfter(), err)
	}
	at(clock, 10)
	expect(t, "at 10 s", takeN(t, l, "a", 1), true, 0)
}

func slowStoreHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		l := slidegate.MustNew(gatetest.Slow(store, 100*time.Millisecond), slidegate.PerMinute(1000))
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := l.Take(background, "a"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("twenty at once took %s, one alone takes 100ms", took)
		}
	})
}

func fiftyAtOnce(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10))
	for round := range 200 {
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if ok, err := l.Allow(background, strconv.Itoa(round)); err != nil {
					t.Error(err)
				} else if ok {
					admitted.Add(1)
				}
			})
		}
		if wg.Wait(); admitted.Load() != 10 {
			t.Fatalf("round %d admitted %d, want 10", round, admitted.Load())
		}
	}
}

func yearsOfIdleness(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.PerSecond(1_000_000), slidegate.PerMinute(5), slidegate.PerMinute(5).Counter()} {
		l, clock := newLimiter(t, limit)
		for _, idle := range []time.Duration{0, 12 * time.Hour, 400 * 24 * time.Hour, 30 * 365 * 24 * time.Hour} {
			clock.Advance(idle)
			if d := takeN(t, l, "a", 1); !d.Allowed || d.Remaining() != limit.Quota-1 {
				t.Errorf("%s after %s: %s", limit, idle, d)
			}
		}
	}
}

func costsOfNothingAndLess(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(5))
	if d := takeN(t, l, "a", 0); !d.Allowed || d.Charged() {
		t.Errorf("a cost of 0: %s", d)
	}
	for _, cost := range []int64{-1, math.MinInt64} {
		var e *slidegate.CostError
		if _, err := l.TakeN(background, "a", cost); !errors.As(err, &e) {
			t.Errorf("a cost of %d: %v", cost, err)
		}
	}
	if n := left(t, l, "a"); n != 5 {
		t.Errorf("%d left of 5", n)
	}
}

func costThatCanNeverFit(t *testing.T) {
	l, _ := newLimiter(t, slidegate.Per(2*time.Second, 3))
	d, err := l.TakeN(background, "a", 4)
	var e *slidegate.CostError
	if !errors.As(err, &e) || errors.Is(err, slidegate.ErrUnavailable) || d.RetryAfter() != 0 || left(t, l, "a") != 3 {
		t.Errorf("%v, retry %s, %d left", err, d.RetryAfter(), left(t, l, "a"))
	}
	gate := httpgate.MustNew(l, httpgate.Cost(func(*http.Request) int64 { return 4 }))
	w := httptest.NewRecorder()
	gate.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusTooManyRequests || len(w.Header()["Retry-After"]) != 0 {
		t.Errorf("over HTTP: %d, Retry-After %q; want 429 without it", w.Code, w.Header()["Retry-After"])
	}
}

func waitForWhatCanNeverFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLimiter(t, slidegate.PerSecond(20))
		began := time.Now()
		var e *slidegate.CostError
		if _, err := l.WaitN(background, "a", 200); !errors.As(err, &e) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func waitOfSeveralUnits(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(10))
	takeN(t, l, "a", 4)
	at(clock, 30)
	takeN(t, l, "a", 6)
	at(clock, 40)
	expect(t, "5 at 40 s", takeN(t, l, "a", 5), false, 50*time.Second)
	expect(t, "4 at 40 s", takeN(t, l, "a", 4), false, 20*time.Second)
	at(clock, 89)
	expect(t, "5 at 89 s", takeN(t, l, "a", 5), false, time.Second)
	at(clock, 90)
	expect(t, "5 at 90 s", takeN(t, l, "a", 5), true, 0)
}

func refusedRequestsPayNothing(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(1), slidegate.PerHour(10))
	admitted := 0
	for s := range 10 {
		at(clock, float64(s))
		n, _ := take(t, l, "a", 1)
		admitted += n
	}
	d, err := l.Peek(background, "a")
	if err != nil || admitted != 1 || d.State(1).Remaining != 9 {
		t.Errorf("%d admitted, %d left in the hour, %v; want 1 and 9", admitted, d.State(1).Remaining, err)
	}
}

func twoLimitsOfOneKey(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(5), slidegate.PerDay(50))
	if n, d := take(t, l, "a", 6); n != 5 || d.Allowed || d.State(1).Remaining != 45 {
		t.Errorf("%d admitted, %d left in the day; want 5 and 45", n, d.State(1).Remaining)
	}
}

func anyOrderOfLimits(t *testing.T) {
	a, b, c := slidegate.PerSecond(2), slidegate.PerMinute(3), slidegate.PerHour(4)
	var first []string
	for _, limits := range [][]slidegate.Limit{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
		rng := rand.New(rand.NewPCG(1, 2))
		l, clock := newLimiter(t, limits...)
		var trace []string
		for range 200 {
			clock.Advance(time.Duration(rng.Int64N(90_000)) * time.Millisecond)
			d := takeN(t, l, "a", 1)
			trace = append(trace, fmt.Sprint(d.Allowed, d.Remaining(), d.RetryAfter()))
		}
		if first == nil {
			first = trace
		}
		if !slices.Equal(trace, first) {
			t.Errorf("in the order %v the decisions differ from those in the first order", limits)
		}
	}
}

func quotaLowered(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(100).Named("plan"))
	take(t, l, "a", 50)
	l, err := l.With(slidegate.PerMinute(10).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	at(clock, 10)
	d := takeN(t, l, "a", 1)
	expect(t, "at 10 s", d, false, 50*time.Second)
	if d.Remaining() != 0 || d.Binding().Limit.Quota != 10 {
		t.Errorf("%d left of %d; want 0 of 10", d.Remaining(), d.Binding().Limit.Quota)
	}
	at(clock, 60)
	expect(t, "at 60 s", takeN(t, l, "a", 1), true, 0)
}

func quotaRaised(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(5).Named("plan"))
	take(t, l, "a", 5)
	l, err := l.With(slidegate.PerMinute(10).Named("plan"))
	if err != nil {
		t.Fatal(err)
	}
	at(clock, 1)
	if d := takeN(t, l, "a", 1); !d.Allowed || d.Remaining() != 4 {
		t.Errorf("after raising the quota: %s; want 4 left", d)
	}
}

func blockedAndUnlimited(t *testing.T) {
	if d := takeN(t, slidegate.Blocked(), "a", 1); d.Allowed || d.RetryAfter() != 0 || d.Len() != 0 {
		t.Errorf("Blocked: %s, retry %s", d, d.RetryAfter())
	}
	if d := takeN(t, slidegate.Unlimited(), "a", 1); !d.Allowed || d.Len() != 0 {
		t.Errorf("Unlimited: %s", d)
	}
	// A plan that is Unlimited asks no store, also where the other plans' store fails, and is
	// observed like any other.
	stub, events := gatetest.Failing(nil), 0
	gate := httpgate.MustNew(slidegate.MustNew(stub, slidegate.PerMinute(5)),
		httpgate.Choose(func(*http.Request) *slidegate.Limiter { return slidegate.Unlimited() }),
		httpgate.Observe(func(*httpgate.Event) { events++ }))
	w := httptest.NewRecorder()
	gate.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusNotFound || stub.Calls() != 0 || events != 1 {
		t.Errorf("over HTTP: %d, %d store calls, %d events; want 404, 0, 1", w.Code, stub.Calls(), events)
	}
}

// blockedForGood: whom a program blocks is data of its own; it chooses the limiter Blocked for them. What a key
// has used stays as it was.
func blockedForGood(t *testing.T) {
	l, clock := newLimiter(t, slidegate.PerMinute(2))
	blocked := map[string]bool{}
	gate := httpgate.MustNew(l, httpgate.ByHeader("User"), httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
		if blocked[r.Header.Get("User")] {
			return slidegate.Blocked()
		}
		return nil
	}))
	h := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	consume := func(want int) {
		t.Helper()
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("User", "ann")
		if h.ServeHTTP(w, r); w.Code != want || w.Header().Get("Retry-After") != "" {
			t.Errorf("got %d, Retry-After %q; want %d and none", w.Code, w.Header().Get("Retry-After"), want)
		}
	}
	consume(200)
	blocked["ann"] = true
	consume(429)
	blocked["ann"] = false
	consume(200)
	blocked["ann"] = true
	for range 3 {
		clock.Advance(10 * time.Minute)
		consume(429)
	}
	blocked["ann"] = false
	consume(200)
}

func refusalsCanBeCounted(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(10).Named("rule"), slidegate.PerDay(1000).Named("other"))
	refused := map[string]int{}
	for range 10 + 25 {
		d := takeN(t, l, "a", 1)
		for i := range d.Len() {
			if d.Refuses(i) {
				refused[d.Key()+" by "+d.State(i).Limit.Name]++
			}
		}
	}
	if len(refused) != 1 || refused["a by rule"] != 25 {
		t.Errorf("%v; want 25 refusals of a by rule", refused)
	}
}

func reserveAndSettle(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(100))
	for _, step := range []struct{ reserve, actual, reserved, settled int64 }{{60, 20, 40, 80}, {50, 70, 30, 10}} {
		d := takeN(t, l, "a", step.reserve)
		if n := left(t, l, "a"); !d.Allowed || n != step.reserved {
			t.Errorf("%d reserved: %d left, want %d", step.reserve, n, step.reserved)
		}
		if err := l.RefundN(background, &d, max(0, step.reserve-step.actual)); err != nil {
			t.Error(err)
		}
		if _, err := l.TakeUpTo(background, "a", max(0, step.actual-step.reserve)); err != nil {
			t.Error(err)
		}
		if n := left(t, l, "a"); n != step.settled {
			t.Errorf("%d settled: %d left, want %d", step.actual, n, step.settled)
		}
	}
	expect(t, "20 of 10", takeN(t, l, "a", 20), false, time.Minute)
}

func refundOfNothing(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(5))
	looked, err := l.Peek(background, "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*slidegate.Decision{{}, nil, &looked} {
		refund(t, l, d)
	}
	if n := left(t, l, "a"); n != 5 {
		t.Errorf("%d left of 5", n)
	}
	if n, d := take(t, l, "a", 6); n != 5 || d.Allowed {
		t.Errorf("%d of six admitted", n)
	}
}

func cancelledBeforeItBegan(t *testing.T) {
	l, _ := newLimiter(t, slidegate.PerMinute(1))
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := l.Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	expect(t, "after that", takeN(t, l, "a", 1), true, 0)
}

func settledTwice(t *testing.T) {
	l, clock := newLimiter(t, slidegate.Per(10*time.Second, 10))
	first := takeN(t, l, "a", 5)
	for s := range 2 {
		at(clock, float64(s+1))
		if refund(t, l, &first); left(t, l, "a") != 10 {
			t.Errorf("refund %d: %d left of 10", s+1, left(t, l, "a"))
		}
	}
	at(clock, 3)
	if d := takeN(t, l, "a", 5); d.Remaining() != 5 {
		t.Errorf("at 3 s: %s, want 5 left", d)
	}
	if refund(t, l, &first); left(t, l, "a") != 5 {
		t.Errorf("a third refund: %d left, want 5", left(t, l, "a"))
	}
	at(clock, 14)
	if refund(t, l, &first); left(t, l, "a") != 10 {
		t.Errorf("at 14 s: %d left of 10", left(t, l, "a"))
	}
}

func virtualTime(t *testing.T) {
	began := time.Now() // outside of the bubble: real time
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := slidegate.MustNew(store, slidegate.PerHour(1))
		take(t, l, "a", 1)
		virtual := time.Now()
		if d, err := l.Wait(background, "a"); err != nil || !d.Allowed || time.Since(virtual) != time.Hour {
			t.Errorf("%s, %v after %s, want an hour", d, err, time.Since(virtual))
		}
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if store.Len() != 0 {
			t.Errorf("%d keys after two windows", store.Len())
		}
		take(t, l, "a", 1)
		store.Close() // or the bubble would wait for the timer
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("three virtual hours took %s", took)
	}
}
