package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// reserving returns a gate that settles and charges n at first, and has next behind it.
func reserving(l *slidegate.Limiter, n int64, next http.HandlerFunc, options ...httpgate.Option) http.Handler {
	return httpgate.MustNew(l, append(options, httpgate.Settling(), httpgate.Cost(func(*http.Request) int64 { return n }))...).Wrap(next)
}

// TestSettleUpAndDown: the last call counts, and what did not fit is said.
func TestSettleUpAndDown(t *testing.T) {
	for _, c := range []struct {
		used, reserved  int64
		settled, unpaid []int64
		left            string
	}{
		{0, 60, []int64{20}, []int64{0}, "[80 180]"},
		{20, 50, []int64{70}, []int64{0}, "[10 110]"},
		{0, 60, []int64{60}, []int64{0}, "[40 140]"},
		{0, 60, []int64{0}, []int64{0}, "[100 200]"},
		{0, 0, []int64{30}, []int64{0}, "[70 170]"},
		{30, 60, []int64{75}, []int64{5}, "[0 95]"},
		{40, 60, []int64{1000}, []int64{940}, "[0 0]"},
		{0, 10, []int64{20, 50, 90, 40, 30, 35}, []int64{0, 0, 0, 0, 0, 0}, "[65 165]"},
		{30, 60, []int64{75, 65}, []int64{5, 0}, "[5 105]"},
		{30, 60, []int64{75, 0, 100}, []int64{5, 0, 30}, "[0 70]"},
		{0, 10, []int64{50, 5, 0}, []int64{0, 0, 0}, "[100 200]"},
	} {
		l := slidegate.MustNew(memstore.New(), slidegate.PerHour(100), slidegate.PerDay(200).Counter())
		if _, err := l.TakeN(context.Background(), "ip:192.0.2.1", c.used); err != nil {
			t.Fatal(err)
		}
		handler := reserving(l, c.reserved, func(_ http.ResponseWriter, r *http.Request) {
			for i, n := range c.settled {
				if unpaid, err := httpgate.Settle(r.Context(), n); err != nil || unpaid != c.unpaid[i] {
					t.Errorf("%d used, %d reserved, settled %v: %d unpaid, %v; want %d", c.used, c.reserved, c.settled[:i+1], unpaid, err, c.unpaid[i])
				}
			}
		})
		handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
		expect(t, fmt.Sprint(c.used, " used, ", c.reserved, " reserved, settled ", c.settled, ": left"), left(t, l, "ip:192.0.2.1"), c.left)
	}
}

// TestSettlingIsOfTheTimeCharged: what is given back leaves when it was charged, what is charged on top leaves a
// window after that.
func TestSettlingIsOfTheTimeCharged(t *testing.T) {
	clock := gatetest.NewClock(time.UnixMilli(0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.PerMinute(100))
	for at, cost := range map[int64]int64{0: 10, 30_000: 50} {
		clock.SetMilli(0)
		if err := l.Reset(context.Background(), "ip:192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		reserving(l, 40, func(_ http.ResponseWriter, r *http.Request) {
			clock.SetMilli(at)
			if _, err := httpgate.Settle(r.Context(), cost); err != nil {
				t.Error(err)
			}
		}).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
		want := map[int64]string{59_999: "[90]", 60_000: "[100]", 89_999: "[100]", 90_000: "[100]"}
		if at > 0 {
			want = map[int64]string{59_999: "[50]", 60_000: "[90]", 89_999: "[90]", 90_000: "[100]"}
		}
		for _, now := range []int64{59_999, 60_000, 89_999, 90_000} {
			clock.SetMilli(now)
			expect(t, fmt.Sprint("settled to ", cost, ", left at ", now), left(t, l, "ip:192.0.2.1"), want[now])
		}
	}
}

// TestSettleAtOnce: a handler may settle from several goroutines, and no window holds more than the quota.
func TestSettleAtOnce(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(10_000))
	handler := reserving(l, 1, func(_ http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := httpgate.Settle(r.Context(), int64(10*i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if unpaid, err := httpgate.Settle(r.Context(), 30); unpaid != 0 || err != nil {
			t.Errorf("%d unpaid, %v", unpaid, err)
		}
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "")) })
	}
	wg.Wait()
	expect(t, "left", left(t, l, "ip:192.0.2.1"), "[9700]")
}

// TestWhatIsGivenBackIsWhatWasSettled: RefundIf takes the rises too, and afterwards nothing is to be settled.
func TestWhatIsGivenBackIsWhatWasSettled(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(100))
	var ctx context.Context
	settle := func(cost int64) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx = r.Context()
			if _, err := httpgate.Settle(ctx, cost); err != nil {
				t.Error(err)
			}
		}
	}
	for _, cost := range []int64{5, 10, 40} {
		reserving(l, 10, settle(cost), httpgate.RefundIf(ok)).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
		expect(t, fmt.Sprint(cost, " given back, left"), left(t, l, "ip:192.0.2.1"), "[100]")
		if _, err := httpgate.Settle(ctx, 50); !errors.Is(err, httpgate.ErrNothingToSettle) {
			t.Errorf("settled after it was given back: %v", err)
		}
	}
	reserving(l, 10, settle(40), httpgate.RefundIf(func(status int) bool { return !ok(status) })).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	expect(t, "a success, left", left(t, l, "ip:192.0.2.1"), "[60]")
}

// TestFullMinuteDoesNotHideTheDay: what a limit has room for it counts, whatever the others have none for, and all of it
// can be given back. Unpaid is what the fullest has no room for.
func TestFullMinuteDoesNotHideTheDay(t *testing.T) {
	for _, c := range []struct {
		settled, unpaid []int64
		left            string
	}{
		{[]int64{50_000}, []int64{49_000}, "[0 50000 9950000]"},
		{[]int64{500, 50_000}, []int64{0, 49_000}, "[0 50000 9950000]"},
		{[]int64{2_000_000}, []int64{1_999_000}, "[0 0 8000000]"},
		{[]int64{50_000, 60_000, 200_000}, []int64{49_000, 59_000, 199_000}, "[0 0 9800000]"},
		{[]int64{200_000, 30_000}, []int64{199_000, 29_000}, "[0 70000 9970000]"},
		{[]int64{200_000, 400, 2000}, []int64{199_000, 0, 1000}, "[0 98000 9998000]"},
		{[]int64{200_000, 0}, []int64{199_000, 0}, "[1000 100000 10000000]"},
	} {
		for giveBack, want := range map[bool]string{false: c.left, true: "[1000 100000 10000000]"} {
			l := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1000), slidegate.PerDay(100_000).Counter(), slidegate.Per(30*24*time.Hour, 10_000_000))
			reserving(l, 1, func(_ http.ResponseWriter, r *http.Request) {
				for i, n := range c.settled {
					if unpaid, err := httpgate.Settle(r.Context(), n); err != nil || unpaid != c.unpaid[i] {
						t.Errorf("settled %v: %d unpaid, %v; want %d", c.settled[:i+1], unpaid, err, c.unpaid[i])
					}
				}
			}, httpgate.RefundIf(func(int) bool { return giveBack })).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
			expect(t, fmt.Sprint("settled ", c.settled, ", given back ", giveBack, ": left"), left(t, l, "ip:192.0.2.1"), want)
		}
	}
}

// TestFullKeyDoesNotHideTheOthers: of several keys each limit counts its own, over one store and over two, and for a plan
// that was chosen too.
func TestFullKeyDoesNotHideTheOthers(t *testing.T) {
	for stores, other := range map[string]slidegate.Store{"one store": nil, "two stores": memstore.New()} {
		store := memstore.New()
		if other == nil {
			other = store
		}
		address := slidegate.MustNew(store, slidegate.PerMinute(100).Named("address"))
		plan, err := address.With(slidegate.PerMinute(200).Named("address"), slidegate.PerDay(1000).Named("day"))
		if err != nil {
			t.Fatal(err)
		}
		account := slidegate.MustNew(other, slidegate.PerMinute(500).Named("account"))
		service := slidegate.MustNew(store, slidegate.PerMinute(10_000).Named("service"))
		for _, giveBack := range []bool{true, false} {
			handler := reserving(address, 50, func(_ http.ResponseWriter, r *http.Request) {
				if unpaid, err := httpgate.Settle(r.Context(), 700); err != nil || unpaid != 500 {
					t.Errorf("%s: %d unpaid, %v", stores, unpaid, err)
				}
			}, httpgate.Choose(func(*http.Request) *slidegate.Limiter { return plan }),
				httpgate.And(account, httpgate.ByValue("account", func(*http.Request) string { return "ann" })),
				httpgate.And(slidegate.Unlimited(), httpgate.ByMethod()),
				httpgate.And(service, httpgate.ByEverybody()),
				httpgate.RefundIf(func(int) bool { return giveBack }))
			handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
			want := "[0 300][0][9300]"
			if giveBack {
				want = "[200 1000][500][10000]"
			}
			expect(t, fmt.Sprint(stores, ", given back ", giveBack, ": left"), left(t, plan, "ip:192.0.2.1")+left(t, account, "account:ann")+left(t, service, "everybody"), want)
		}
	}
}

// TestOvershootsAtOnce: the day has counted all that happened, and the hour no more than that.
func TestOvershootsAtOnce(t *testing.T) {
	l := slidegate.MustNew(memstore.New(), slidegate.PerHour(1000), slidegate.PerDay(100_000))
	handler := reserving(l, 1, func(_ http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if _, err := httpgate.Settle(r.Context(), int64(100*i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := httpgate.Settle(r.Context(), 300); err != nil {
			t.Error(err)
		}
	})
	var wg sync.WaitGroup
	var served atomic.Int64
	for range 20 {
		wg.Go(func() {
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, request("GET", "/", "")); w.Code == 200 {
				served.Add(1)
			}
		})
	}
	wg.Wait()
	d, err := l.Peek(context.Background(), "ip:192.0.2.1")
	if used := 100_000 - d.State(1).Remaining; err != nil || used != 300*served.Load() || 1000-d.State(0).Remaining > used {
		t.Errorf("%d served, %d counted, %s, %v", served.Load(), used, d, err)
	}
}

// TestNothingToSettle says so, and where there are no limits it is no error.
func TestNothingToSettle(t *testing.T) {
	store := newFailing()
	l := slidegate.MustNew(store, slidegate.PerHour(100))
	var unpaid int64
	var err error
	settle := func(_ http.ResponseWriter, r *http.Request) { unpaid, err = httpgate.Settle(r.Context(), 7) }
	for name, handler := range map[string]http.Handler{
		"no gate":                 http.HandlerFunc(settle),
		"a gate that settles not": httpgate.MustNew(l, httpgate.RefundIf(func(int) bool { return false })).Wrap(http.HandlerFunc(settle)),
		"a skipped request":       reserving(l, 1, settle, httpgate.Skip(func(*http.Request) bool { return true })),
	} {
		if handler.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "")); !errors.Is(err, httpgate.ErrNothingToSettle) || unpaid != 0 {
			t.Errorf("%s: %d, %v", name, unpaid, err)
		}
	}
	store.down.Store(true)
	if reserving(l, 1, settle).ServeHTTP(httptest.NewRecorder(), request("GET", "/", "")); !errors.Is(err, httpgate.ErrNothingToSettle) {
		t.Errorf("an undecided request: %v", err)
	}
	if reserving(slidegate.Unlimited(), 1, settle).ServeHTTP(httptest.NewRecorder(), request("GET", "/", "")); err != nil || unpaid != 0 {
		t.Errorf("an unlimited request: %d, %v", unpaid, err)
	}
	negative := func(_ http.ResponseWriter, r *http.Request) { _, err = httpgate.Settle(r.Context(), -1) }
	store.down.Store(false)
	var never *slidegate.CostError
	if reserving(l, 1, negative).ServeHTTP(httptest.NewRecorder(), request("GET", "/", "")); !errors.As(err, &never) {
		t.Errorf("a negative cost: %v", err)
	}
}

// TestTheGateThatSettles is the nearest with the option, not one that counts requests inside it.
func TestTheGateThatSettles(t *testing.T) {
	store := memstore.New()
	tokens := slidegate.MustNew(store, slidegate.PerHour(100).Named("tokens"))
	plan, err := tokens.With(slidegate.PerHour(1000).Named("tokens"), slidegate.PerDay(500).Named("day"))
	if err != nil {
		t.Fatal(err)
	}
	requests := slidegate.MustNew(store, slidegate.PerHour(100).Named("requests"))
	inner := httpgate.MustNew(requests, httpgate.RefundIf(func(int) bool { return false })).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if unpaid, err := httpgate.Settle(r.Context(), 30); unpaid != 0 || err != nil {
			t.Errorf("%d unpaid, %v", unpaid, err)
		}
		if d, _ := httpgate.FromContext(r.Context()); d.State(0).Limit.Name != "requests" {
			t.Errorf("the decision is of %s", d)
		}
	}))
	reserving(tokens, 10, inner.ServeHTTP, httpgate.Choose(func(*http.Request) *slidegate.Limiter { return plan })).
		ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	expect(t, "left", left(t, plan, "ip:192.0.2.1")+left(t, requests, "ip:192.0.2.1"), "[970 470][99]")
}

// TestSettleForWhoHasGone, and of a store that has.
func TestSettleForWhoHasGone(t *testing.T) {
	store := newFailing()
	l := slidegate.MustNew(store, slidegate.PerHour(100), slidegate.PerDay(100))
	var told []httpgate.Event
	observe := httpgate.Observe(func(e *httpgate.Event) { told = append(told, *e) })
	for _, cost := range []int64{3, 30} {
		ctx, hangUp := context.WithCancel(context.Background())
		reserving(l, 10, func(_ http.ResponseWriter, r *http.Request) {
			hangUp()
			if _, err := httpgate.Settle(r.Context(), cost); err != nil {
				t.Error(err)
			}
			store.down.Store(true)
			if _, err := httpgate.Settle(r.Context(), 50-cost); !errors.Is(err, slidegate.ErrUnavailable) {
				t.Errorf("a store that is away: %v", err)
			}
			store.down.Store(false)
		}, observe).ServeHTTP(httptest.NewRecorder(), request("GET", "/", "").WithContext(ctx))
	}
	expect(t, "left", left(t, l, "ip:192.0.2.1"), "[67 67]")
	if len(told) != 4 || !told[1].After || !told[3].After || told[3].Canceled {
		t.Errorf("events %+v", told)
	}
}

// TestSettlingLeavesTheWriterAlone: only RefundIf has to watch it.
func TestSettlingLeavesTheWriterAlone(t *testing.T) {
	rec := httptest.NewRecorder()
	reserving(slidegate.MustNew(memstore.New(), slidegate.PerHour(1)), 1, func(w http.ResponseWriter, _ *http.Request) {
		if w != http.ResponseWriter(rec) {
			t.Errorf("the writer is a %T", w)
		}
	}).ServeHTTP(rec, request("GET", "/", ""))
}

func ExampleSettle() {
	tokens := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1000).Named("tokens"))
	handler := httpgate.MustNew(tokens,
		httpgate.Cost(func(*http.Request) int64 { return 400 }), // what an answer may well take
		httpgate.Settling(),
	).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used, _ := strconv.ParseInt(r.Header.Get("Used"), 10, 64) // known when the answer is made
		unpaid, err := httpgate.Settle(r.Context(), used)
		d, _ := tokens.Peek(r.Context(), "ip:203.0.113.7")
		fmt.Println(used, "used,", d.Remaining(), "left,", unpaid, "unpaid", err)
	}))
	for _, used := range []string{"250", "700", "10"} {
		show(handler, "203.0.113.7", http.Header{"Used": {used}})
	}
	// Output:
	// 250 used, 750 left, 0 unpaid <nil>
	// 200
	// 700 used, 50 left, 0 unpaid <nil>
	// 200
	// 429
}

// A proxy settles by what the service behind it says.
func ExampleSettling() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tokens-Used", "120")
		fmt.Fprint(w, "an answer")
	}))
	defer service.Close()
	target, _ := url.Parse(service.URL)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(resp *http.Response) error {
		used, err := strconv.ParseInt(resp.Header.Get("Tokens-Used"), 10, 64)
		if err != nil {
			return nil // it does not say: what was charged stays charged
		}
		if _, err := httpgate.Settle(resp.Request.Context(), used); err != nil {
			slog.Warn("not settled", "error", err) // no reason to spoil the answer
		}
		return nil
	}

	tokens := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1000))
	estimate := func(*http.Request) int64 { return 500 }
	handler := httpgate.MustNew(tokens, httpgate.Cost(estimate), httpgate.Settling()).Wrap(proxy)
	for range 2 {
		show(handler, "203.0.113.7", nil, "RateLimit") // as it was when the request came in
	}
	d, _ := tokens.Peek(context.Background(), "ip:203.0.113.7")
	fmt.Println(d.Remaining(), "left")
	// Output:
	// 200 RateLimit: "1000/1m";r=500;t=60
	// 200 RateLimit: "1000/1m";r=380;t=60
	// 760 left
}

// TestSettlingOftenIsCheap: who settles at every token of a long answer pays for each the same.
func TestSettlingOftenIsCheap(t *testing.T) {
	const rises, part = 60_000, 15_000
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerHour(2*rises))
	g := httpgate.MustNew(limiter, httpgate.Settling())
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begin, first, last := time.Now(), time.Duration(0), time.Duration(0)
		for n := range int64(rises) {
			switch n {
			case part:
				first = time.Since(begin)
			case rises - part:
				begin = time.Now()
			}
			if unpaid, err := httpgate.Settle(r.Context(), n); unpaid != 0 || err != nil {
				t.Fatal(unpaid, err)
			}
		}
		if last = time.Since(begin); last > 4*first+time.Second {
			t.Errorf("the first %d times took %s and the last %s", part, first, last)
		}
		if unpaid, err := httpgate.Settle(r.Context(), 7); unpaid != 0 || err != nil {
			t.Fatal(unpaid, err)
		}
	})).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	if d, err := limiter.Peek(t.Context(), "ip:192.0.2.1"); err != nil || d.Remaining() != 2*rises-7 {
		t.Errorf("%v, %v", d, err)
	}
}

// A stalling store answers first calls, and then nobody before they give up.
type stalling struct{ slidegate.Store }

type stallingPlan struct{ slidegate.Plan }

func (s stalling) Bind(l []slidegate.Limit) (slidegate.Plan, error) {
	p, err := s.Store.Bind(l)
	return stallingPlan{p}, err
}

func (p stallingPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if cost != 1 {
		<-ctx.Done()
		return slidegate.Answer{}, ctx.Err()
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p stallingPlan) Refund(ctx context.Context, _ string, _ slidegate.Answer, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestSettlingTogetherTakesASecond: where the store does not answer, many who settle one request, and the refund
// behind them, do not wait one after another.
func TestSettlingTogetherTakesASecond(t *testing.T) {
	g := httpgate.MustNew(slidegate.MustNew(stalling{memstore.New()}, slidegate.PerMinute(100)), httpgate.Settling(),
		httpgate.RefundIf(func(int) bool { return true }))
	begin := time.Now()
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := httpgate.Settle(r.Context(), 10); err == nil {
					t.Error("settled")
				}
			})
		}
		all.Wait()
	})).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestManyFailuresAreOne: where a thousand receipts cannot be given back, since the store has failed, one error says so.
func TestManyFailuresAreOne(t *testing.T) {
	store := newFailing()
	g := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(10_000)), httpgate.Settling())
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for n := range int64(1000) {
			if _, err := httpgate.Settle(r.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		store.down.Store(true)
		if _, err := httpgate.Settle(r.Context(), 0); !errors.Is(err, slidegate.ErrUnavailable) || err.Error() != errGone.Error() {
			t.Errorf("%.200v", err)
		}
	})).ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
}
