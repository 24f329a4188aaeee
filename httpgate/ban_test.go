package httpgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// twoStrikes bans for a minute at the second refusal within a minute.
var twoStrikes = httpgate.Ban(slidegate.PerMinute(2), time.Minute)

// banOutlivesTheWindow is BAN-01.
func banOutlivesTheWindow(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(10*time.Second, 1)), twoStrikes)
	for _, c := range []struct {
		at         float64
		status     int
		retryAfter string
	}{
		{0, 200, ""}, {1, 429, "9"}, {1, 429, "60"}, {11, 429, "50"}, {11.5, 429, "50"}, {60.9, 429, "1"}, {60.999, 429, "1"}, {61, 200, ""}, {61.1, 429, "10"},
	} {
		s.at(c.at)
		expect(t, fmt.Sprint("Retry-After at ", c.at), s.want(c.status, "").Header().Get("Retry-After"), c.retryAfter)
	}
}

// banBeginsOnce is BAN-03: of many offenders at once one alone begins the ban, and the observer is told who, by what
// rule and for how long.
func banBeginsOnce(t *testing.T) {
	var mu sync.Mutex
	var began []string
	s := newSite(t, limits(slidegate.Per(10*time.Second, 1)), twoStrikes, httpgate.Observe(func(e *httpgate.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.BanBegan > 0 {
			began = append(began, fmt.Sprint(e.Key, " ", e.Decision.Binding().Limit.Name, " ", e.BanBegan, " ", e.Banned))
		}
	}))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { s.get("") })
	}
	wg.Wait()
	s.want(429, "")
	expect(t, "told", strings.Join(began, ", "), "ip:192.0.2.1 ban:2/1m 1m0s true")
}

// TestBanIsNotProlongedByTheBanned, nor does what they send cost them anything.
func TestBanIsNotProlongedByTheBanned(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(10*time.Second, 1).Named("a"), slidegate.PerHour(5).Named("b")), twoStrikes)
	expect(t, "to the ban", s.codes(3, ""), "200 429 429")
	for at := 1; at < 60; at++ {
		s.at(float64(at))
		expect(t, "Retry-After", s.want(429, "").Header().Get("Retry-After"), fmt.Sprint(60-at))
	}
	s.at(60)
	w := s.want(200, "")
	expect(t, "fields", w.Header().Get("RateLimit"), `"a";r=0;t=10, "b";r=3;t=3600`)
	expect(t, "a new count", s.codes(1, ""), "429")
	s.at(61)
	expect(t, "strikes were forgotten when the ban began", s.want(429, "").Header().Get("Retry-After"), "60")
}

// TestRefusalsFarBetweenBanNobody.
func TestRefusalsFarBetweenBanNobody(t *testing.T) {
	s := newSite(t, limits(slidegate.PerSecond(1)), twoStrikes)
	for minute := range 5 {
		s.at(float64(60 * minute))
		expect(t, "a refusal a minute", s.codes(2, ""), "200 429")
	}
}

// TestBannedAnswer is that of a refusal in all but the type of its problem and the RateLimit fields.
func TestBannedAnswer(t *testing.T) {
	s := newSite(t, limits(slidegate.Per(10*time.Second, 1)), httpgate.Ban(slidegate.PerMinute(1).Named("login"), time.Hour), allFormats)
	s.want(200, "")
	for range 2 { // the refusal that begins the ban is of it already
		w := s.want(429, "")
		var body httpgate.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Type != httpgate.AbnormalUsage().Type || fmt.Sprint(body.Violated) != "[ban:login]" {
			t.Errorf("%s, %v", w.Body, err)
		}
		w.Header().Del("Content-Length")
		expect(t, "fields", fmt.Sprint(w.Header()), "map[Cache-Control:[no-store] Content-Type:[application/problem+json] Retry-After:[3600] X-Content-Type-Options:[nosniff]]")
	}
	s = newSite(t, limits(slidegate.PerHour(1)), twoStrikes, httpgate.Headers())
	expect(t, "to the ban", s.codes(3, ""), "200 429 429")
	expect(t, "Retry-After where no field is wanted", s.want(429, "").Header().Get("Retry-After"), "")
	s = newSite(t, limits(slidegate.PerHour(1)), twoStrikes, httpgate.DenyWith(403, "go away"))
	expect(t, "another status", s.codes(4, ""), "200 403 403 403")
	s = newSite(t, limits(slidegate.PerHour(1)), twoStrikes, httpgate.OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := httpgate.FromContext(r.Context())
		fmt.Fprint(w, d.Binding().Limit.Name, " ", d.RetryAfter())
	})))
	var bodies []string
	for range 4 {
		bodies = append(bodies, s.get("").Body.String())
	}
	expect(t, "OnDeny", strings.Join(bodies, ", "), "hello, 1/1h 1h0m0s, ban:2/1m 1m0s, ban:2/1m 1m0s")
}

// TestWhatIsNoStrike: a cost that can never fit, a plan that is Blocked, and an admission.
func TestWhatIsNoStrike(t *testing.T) {
	s := newSite(t, limits(slidegate.PerMinute(3)), twoStrikes,
		httpgate.Cost(func(r *http.Request) int64 { return int64(1 + len(r.Header.Values("More"))) }),
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
			if r.Header.Get("Blocked") != "" {
				return slidegate.Blocked()
			}
			return nil
		}))
	expect(t, "what can never fit", s.codes(5, "", "More", "1", "More", "2", "More", "3"), "429 429 429 429 429")
	expect(t, "blocked", s.codes(5, "", "Blocked", "x"), "429 429 429 429 429")
	expect(t, "what fits", s.codes(4, ""), "200 200 200 429")
	if w := s.get(""); !strings.Contains(w.Body.String(), "abnormal-usage") {
		t.Errorf("the second strike: %s", w.Body)
	}
}

// TestUnlimitedPlansAreNotBanned.
func TestUnlimitedPlansAreNotBanned(t *testing.T) {
	s := newSite(t, limits(slidegate.PerHour(1)), twoStrikes, httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
		if r.Header.Get("Staff") != "" {
			return slidegate.Unlimited()
		}
		return nil
	}))
	expect(t, "to the ban", s.codes(4, ""), "200 429 429 429")
	s.want(200, "", "Staff", "x")
}

// TestBansAreShared by all gates over a store with the same rule, and by no others.
func TestBansAreShared(t *testing.T) {
	store := memstore.New()
	gate := func(option httpgate.Option) *site {
		return (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(2)), option)
	}
	a, b := gate(twoStrikes), gate(twoStrikes)
	other, longer := gate(httpgate.Ban(slidegate.PerMinute(2).Named("other"), time.Minute)), gate(httpgate.Ban(slidegate.PerMinute(2), time.Hour))
	expect(t, "to the ban", a.codes(2, "")+" "+b.codes(1, "")+" "+a.codes(1, ""), "200 200 429 429")
	for name, c := range map[string]struct {
		s    *site
		want bool
	}{"a": {a, true}, "b": {b, true}, "another name": {other, false}, "another length": {longer, false}} {
		if got := strings.Contains(c.s.get("").Body.String(), "abnormal-usage"); got != c.want {
			t.Errorf("%s: banned %v", name, got)
		}
	}
	if got := a.get("203.0.113.9:1").Code; got != 200 {
		t.Errorf("another key got %d", got)
	}
}

// TestUnban lets the key in again, with no strike against it; its limits are as they are.
func TestUnban(t *testing.T) {
	ctx := context.Background()
	clock := gatetest.NewClock(time.UnixMilli(0))
	l := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.Per(10*time.Second, 1))
	gate := httpgate.MustNew(l, twoStrikes)
	s := &site{t: t, handler: gate.Wrap(hello)}
	expect(t, "to the ban", s.codes(4, ""), "200 429 429 429")
	if err := gate.Unban(ctx, "ip:192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	s.want(429, "")
	clock.SetMilli(10_000)
	expect(t, "unbanned, with one strike", s.codes(2, ""), "200 429")
	if w := s.get(""); !strings.Contains(w.Body.String(), "abnormal-usage") {
		t.Errorf("the third: %s", w.Body)
	}
	if err := gate.Unban(ctx, "ip:192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	clock.SetMilli(20_000)
	expect(t, "unbanned", s.codes(2, ""), "200 429")
	if err := gate.Unban(ctx, "ip:192.0.2.1"); err != nil { // of the strike alone
		t.Fatal(err)
	}
	if w := s.get(""); strings.Contains(w.Body.String(), "abnormal-usage") {
		t.Errorf("one strike after Unban: %s", w.Body)
	}
	if err := gate.Unban(ctx, "ip:203.0.113.9"); err != nil {
		t.Errorf("who is not banned: %v", err)
	}
	if err := gate.Unban(ctx, ""); !errors.Is(err, slidegate.ErrInvalidKey) {
		t.Errorf("an empty key: %v", err)
	}
	if err := httpgate.MustNew(l).Unban(ctx, "a"); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("without Ban: %v", err)
	}
}

// TestStrikeOfWhoHangsUp counts all the same.
func TestStrikeOfWhoHangsUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(context.Background())
	store := &hangsUp{failing: newFailing(), hangUp: hangUp}
	s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(1)), httpgate.Ban(slidegate.PerMinute(1), time.Hour))
	s.want(200, "")
	if w := s.do(request("GET", "/", "").WithContext(ctx)); ctx.Err() == nil || w.Code != 429 || !strings.Contains(w.Body.String(), "abnormal-usage") {
		t.Errorf("got %d %s, the context has %v", w.Code, w.Body, ctx.Err())
	}
}

// A hangsUp store ends the client's context when it refuses.
type hangsUp struct {
	*failing
	hangUp func()
}

type hangsUpPlan struct {
	slidegate.Plan
	s *hangsUp
}

func (s *hangsUp) Bind(l []slidegate.Limit) (slidegate.Plan, error) {
	p, err := s.failing.Bind(l)
	return hangsUpPlan{p, s}, err
}

func (p hangsUpPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	a, err := p.Plan.Take(ctx, key, cost)
	if err == nil && !a.Allowed {
		p.s.hangUp()
	}
	return a, err
}

// TestBanThatCannotBeAskedFor makes a request one that could not be decided.
func TestBanThatCannotBeAskedFor(t *testing.T) {
	for _, c := range []struct {
		option httpgate.Option
		status int
	}{{httpgate.FailOpen(), 200}, {httpgate.FailClosed(), 503}} {
		store := newFailing()
		store.down.Store(true)
		told := 0
		s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerHour(1)), twoStrikes, c.option, httpgate.OnStoreError(func(error) { told++ }))
		if h := s.want(c.status, "").Header(); h.Get("Retry-After") != "" || told != 1 || store.calls.Load() != 0 {
			t.Errorf("%v, told %d times, %d further calls", h, told, store.calls.Load())
		}
	}
}

// TestStrikeThatCannotBeRecorded leaves the refusal as it is, and is told of; the next one tries again.
func TestStrikeThatCannotBeRecorded(t *testing.T) {
	var log strings.Builder
	var after int
	store := newFailing()
	limiter := slidegate.MustNew(store, slidegate.PerHour(1))
	s := (&site{t: t}).behind(limiter, twoStrikes, httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))), httpgate.Observe(func(e *httpgate.Event) {
		if e.After {
			after++
		}
	}))
	s.want(200, "")
	store.only = "strikes:2/1m"
	store.down.Store(true)
	for range 3 {
		if w := s.want(429, ""); !strings.Contains(w.Body.String(), "quota-exceeded") || w.Header().Get("Retry-After") != "3600" {
			t.Errorf("%s %v", w.Body, w.Header())
		}
	}
	store.down.Store(false)
	s.want(429, "")
	if after != 3 || strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "192.0.2.1") {
		t.Errorf("told %d times, logged %s", after, log.String())
	}
	if w := s.want(429, ""); !strings.Contains(w.Body.String(), "abnormal-usage") {
		t.Errorf("the second strike that was recorded: %s", w.Body)
	}
}

// TestBadBans each get one sentence that names what is wrong.
func TestBadBans(t *testing.T) {
	good := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	for _, c := range []struct {
		want    string
		limiter *slidegate.Limiter
		ban     httpgate.Option
	}{
		{"Ban: ", good, httpgate.Ban(slidegate.Limit{}, time.Hour)},
		{"Ban: ", good, httpgate.Ban(slidegate.PerMinute(0), time.Hour)},
		{"Ban: ", good, httpgate.Ban(slidegate.PerMinute(1), 0)},
		{"Ban: ", good, httpgate.Ban(slidegate.PerMinute(1), -time.Second)},
		{"Ban: ", good, httpgate.Ban(slidegate.PerMinute(1), 3651*24*time.Hour)},
		{"Ban: ", good, httpgate.Ban(slidegate.PerMinute(1).Named(strings.Repeat("n", 57)), time.Hour)},
		{"no store", slidegate.Unlimited(), twoStrikes},
	} {
		_, err := httpgate.New(c.limiter, c.ban)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := httpgate.New(good, httpgate.Ban(slidegate.PerMinute(1).Named(strings.Repeat("n", 56)), 3650*24*time.Hour)); err != nil {
		t.Error(err)
	}
}

func ExampleBan() {
	clock := gatetest.NewClock(time.Unix(0, 0))
	limiter := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), slidegate.Per(10*time.Second, 1))
	handler := httpgate.MustNew(limiter,
		httpgate.Ban(slidegate.PerMinute(5), time.Hour), // the fifth refusal within a minute bans for an hour
		httpgate.Observe(func(e *httpgate.Event) {
			if e.BanBegan > 0 {
				fmt.Println("banned for", e.BanBegan)
			}
		}),
	).Wrap(hello)

	show(handler, "203.0.113.7", nil)
	for range 5 {
		show(handler, "203.0.113.7", nil, "Retry-After")
	}
	clock.Advance(30 * time.Minute)
	show(handler, "203.0.113.7", nil, "Retry-After") // what is left; asking does not prolong it
	// Output:
	// 200
	// 429 Retry-After: 10
	// 429 Retry-After: 10
	// 429 Retry-After: 10
	// 429 Retry-After: 10
	// banned for 1h0m0s
	// 429 Retry-After: 3600
	// 429 Retry-After: 1800
}

func ExampleGate_Unban() {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2))
	gate := httpgate.MustNew(limiter, httpgate.Ban(slidegate.PerMinute(1), time.Hour))
	w := httptest.NewRecorder()
	for range 3 {
		w = httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.7:4711"
		gate.Wrap(hello).ServeHTTP(w, r)
	}
	fmt.Println(w.Code, w.Header().Get("Retry-After"))

	if err := gate.Unban(context.Background(), "ip:203.0.113.7"); err != nil {
		panic(err)
	}
	if err := limiter.Reset(context.Background(), "ip:203.0.113.7"); err != nil { // the limit itself is still full
		panic(err)
	}
	show(gate.Wrap(hello), "203.0.113.7", nil)
	// Output:
	// 429 3600
	// 200
}
