package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func ok(status int) bool { return status < 400 }

// left returns what is left of every limit of a key.
func left(t *testing.T, l *slidegate.Limiter, key string) string {
	t.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for i := range d.Len() {
		all = append(all, d.State(i).Remaining)
	}
	return fmt.Sprint(all)
}

// logins serves logins that are good with the header Password: right, and gives their charges back.
func logins(t *testing.T, l *slidegate.Limiter, options ...httpgate.Option) *site {
	t.Helper()
	s := &site{t: t}
	gate, err := httpgate.New(l, append(options, httpgate.RefundIf(ok))...)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, "welcome")
	}))
	return s
}

// TestRefundIsOfTheTimeCharged: what a long request gives back are its own units, not younger ones.
func TestRefundIsOfTheTimeCharged(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.PerMinute(3))
	handler := httpgate.MustNew(l, httpgate.RefundIf(ok)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		clock.SetMilli(30_000)
		if _, err := l.TakeN(context.Background(), "ip:192.0.2.1", 2); err != nil {
			t.Error(err)
		}
		clock.SetMilli(45_000)
	}))
	handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	for _, c := range []struct {
		at   int64
		left string
	}{{45_000, "[1]"}, {60_000, "[1]"}, {89_999, "[1]"}, {90_000, "[3]"}} {
		clock.SetMilli(c.at)
		expect(t, fmt.Sprint("left at ", c.at), left(t, l, "ip:192.0.2.1"), c.left)
	}
}

// TestRefundTooLate gives nothing back that has left its window.
func TestRefundTooLate(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.PerMinute(3))
	handler := httpgate.MustNew(l, httpgate.RefundIf(ok)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		clock.SetMilli(60_000)
		if _, err := l.TakeN(context.Background(), "ip:192.0.2.1", 2); err != nil {
			t.Error(err)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	expect(t, "left", left(t, l, "ip:192.0.2.1"), "[1]")
}

// TestRefundInEveryLimit, of whatever it cost, under whatever plan.
func TestRefundInEveryLimit(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerMinute(12).Named("a"), slidegate.PerHour(20).Counter().Named("b"))
	plan, err := l.With(slidegate.PerMinute(30).Named("a"), slidegate.PerDay(40).Named("c"))
	if err != nil {
		t.Fatal(err)
	}
	choose := httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
		if r.Header.Get("Plan") != "" {
			return plan
		}
		return nil
	})
	cost := httpgate.Cost(func(*http.Request) int64 { return 4 })
	s := logins(t, l, choose, cost)
	s.want(401, "", "Plan", "x")
	s.want(200, "", "Plan", "x", "Password", "right")
	s.want(401, "")
	s.want(200, "", "Password", "right")
	expect(t, "left", left(t, l, "ip:192.0.2.1")+left(t, plan, "ip:192.0.2.1"), "[4 16][22 36]")
}

// TestRefundOnceWhoeverAsks: a handler that gives back by hand, and twice, leaves nothing for the gate.
func TestRefundOnceWhoeverAsks(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerMinute(10))
	if _, err := l.TakeN(context.Background(), "ip:192.0.2.1", 5); err != nil {
		t.Fatal(err)
	}
	handler := httpgate.MustNew(l, httpgate.RefundIf(ok)).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := httpgate.FromContext(r.Context())
		for range 2 {
			if err := l.Refund(r.Context(), d); err != nil {
				t.Error(err)
			}
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	expect(t, "left", left(t, l, "ip:192.0.2.1"), "[5]")
}

// TestRefundFunctionIsNotAskedOfRefusals, nor of requests that are skipped, free of limits or undecided.
func TestRefundFunctionIsNotAskedOfRefusals(t *testing.T) {
	asked := 0
	store := newFailing()
	l := slidegate.MustNew(store, slidegate.PerMinute(1))
	s := (&site{t: t}).behind(l, httpgate.Skip(func(r *http.Request) bool { return r.Header.Get("Skip") != "" }),
		httpgate.RefundIf(func(int) bool { asked++; return false }))
	s.want(200, "", "Skip", "x")
	expect(t, "asked of the skipped", fmt.Sprint(asked), "0")
	s.want(200, "")
	s.want(429, "")
	expect(t, "asked of one that is admitted and one that is not", fmt.Sprint(asked), "1")
	store.down.Store(true)
	s.want(200, "")
	expect(t, "asked of an undecided one", fmt.Sprint(asked), "1")
}

// refundFails is FAL-07: a store that dies while the handler runs spoils no answer, and is told of once.
func refundFails(t *testing.T) {
	var log strings.Builder
	var events []httpgate.Event
	store := newFailing()
	var failures []error
	gate := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(5)), httpgate.RefundIf(ok),
		httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))),
		httpgate.Observe(func(e *httpgate.Event) { events = append(events, *e) }),
		httpgate.OnStoreError(func(err error) { failures = append(failures, err) }))
	handler := gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		store.down.Store(true)
		io.WriteString(w, "hello")
	}))
	ctx, hangUp := context.WithCancel(context.Background())
	for i := range 2 {
		store.down.Store(false)
		events, failures = nil, nil
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request("GET", "/", "").WithContext(ctx))
		if w.Code != 200 || w.Body.String() != "hello" {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
		if len(events) != 2 || events[0].After || events[0].Err != nil || !events[1].After || events[1].Canceled || events[1].Decision != nil ||
			!errors.Is(events[1].Err, slidegate.ErrUnavailable) || events[1].Key != "ip:192.0.2.1" {
			t.Errorf("events %+v", events)
		}
		if len(failures) != 1 || !errors.Is(failures[0], slidegate.ErrUnavailable) {
			t.Errorf("OnStoreError saw %v", failures)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "refund") || strings.Contains(log.String(), "192.0.2.1") {
			t.Errorf("after %d failures the log says %s", i+1, log.String())
		}
	}
	hangUp()
}

// TestRefundHoldsAnAnswerUpForASecondAtMost: a store that does not answer is left to itself.
func TestRefundHoldsAnAnswerUpForASecondAtMost(t *testing.T) {
	for _, c := range []struct{ answers, took time.Duration }{{900 * time.Millisecond, 900 * time.Millisecond}, {time.Minute, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var failure error
			l := slidegate.MustNew(gatetest.Slow(memstore.New(), c.answers), slidegate.PerHour(5))
			gate := httpgate.MustNew(l, httpgate.RefundIf(ok), httpgate.OnStoreError(func(err error) { failure = err }))
			var handled time.Time
			gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = time.Now() })).
				ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
			if took := time.Since(handled); took != c.took || errors.Is(failure, context.DeadlineExceeded) != (c.took < c.answers) {
				t.Errorf("a store that answers in %s: %s, %v", c.answers, took, failure)
			}
		})
	}
}

// TestRefundFunctionThatPanics keeps the charge and spoils no answer.
func TestRefundFunctionThatPanics(t *testing.T) {
	var log strings.Builder
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.RefundIf(func(int) bool { panic("mine") }), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	s.want(200, "")
	s.want(429, "")
	if !strings.Contains(log.String(), "RefundIf panicked") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestGatesInARowGiveBackTheirOwn charges, each by its own rule.
func TestGatesInARowGiveBackTheirOwn(t *testing.T) {
	store := memstore.New()
	failures := slidegate.MustNew(store, slidegate.PerHour(5).Named("failures"))
	successes := slidegate.MustNew(store, slidegate.PerHour(5).Named("successes"))
	h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Fail") != "" {
			w.WriteHeader(500)
		}
	}))
	h = httpgate.MustNew(successes, httpgate.RefundIf(func(status int) bool { return !ok(status) })).Wrap(h)
	h = httpgate.MustNew(failures, httpgate.RefundIf(ok)).Wrap(h)
	s := &site{t: t, handler: h}
	for range 3 {
		s.want(200, "")
	}
	s.want(500, "", "Fail", "x")
	expect(t, "left", left(t, failures, "ip:192.0.2.1")+left(t, successes, "ip:192.0.2.1"), "[4][2]")
}

// overlappingRefunds is FAL-05: charges of others stand, and at no time is more left than there is.
func overlappingRefunds(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(100), slidegate.PerDay(100).Counter())
	s := logins(t, l, httpgate.By(func(*http.Request) (string, error) { return "one", nil }))
	var wg sync.WaitGroup
	for i := range 70 {
		wg.Go(func() {
			if i < 20 {
				s.get("")
			} else {
				s.get("", "Password", "right")
			}
			if d, err := l.Peek(context.Background(), "one"); err != nil || d.Remaining() < 30 || d.Remaining() > 100 {
				t.Errorf("remaining %d, %v", d.Remaining(), err)
			}
		})
	}
	wg.Wait()
	expect(t, "left", left(t, l, "one"), "[80 80]")
}

// failuresOnly is FAL-01.
func failuresOnly(t *testing.T) {
	s := logins(t, slidegate.MustNew(memstore.New(), slidegate.Per(15*time.Minute, 3)))
	expect(t, "good", s.codes(10, "", "Password", "right"), strings.TrimSpace(strings.Repeat("200 ", 10)))
	expect(t, "bad", s.codes(3, ""), "401 401 401")
	s.want(429, "", "Password", "right")
	expect(t, "handled", fmt.Sprint(s.runs.Load()), "13")
}

// refusedBeforeTheHandler is FAL-03.
func refusedBeforeTheHandler(t *testing.T) {
	for _, options := range [][]httpgate.Option{{httpgate.RefundIf(ok)}, nil} {
		runs := 0
		s := &site{t: t, handler: httpgate.PerIP(slidegate.PerMinute(1), options...)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.WriteHeader(401)
		}))}
		expect(t, "bad", s.codes(2, ""), "401 429")
		expect(t, "handled", fmt.Sprint(runs), "1")
	}
}

func ExampleRefundIf() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.Per(15*time.Minute, 2).Named("failures"))
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	succeeded := func(status int) bool { return status < 400 }
	handler := httpgate.MustNew(limiter, httpgate.RefundIf(succeeded)).Wrap(login)

	right, wrong := http.Header{"Password": {"right"}}, http.Header{"Password": {"wrong"}}
	for _, password := range []http.Header{right, right, right, wrong, wrong, right} {
		show(handler, "203.0.113.7", password)
	}
	// Output:
	// 200
	// 200
	// 200
	// 401
	// 401
	// 429
}
