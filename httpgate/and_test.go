package httpgate_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// account is who logs in, which nobody has verified yet.
func account(r *http.Request) (string, error) {
	if user, _, ok := r.BasicAuth(); ok {
		return "account:" + user, nil
	}
	return "", errors.New("no credentials")
}

// login returns a site that holds logins to what their address, their account and all of them may.
func login(t *testing.T, options ...httpgate.Option) *site {
	t.Helper()
	s := newSite(t, limits(slidegate.PerMinute(4).Named("address")))
	s.behind(slidegate.MustNew(s.store, slidegate.PerMinute(4).Named("address")), append([]httpgate.Option{
		httpgate.And(slidegate.MustNew(s.store, slidegate.PerHour(2).Named("account")), httpgate.By(account)),
		httpgate.And(slidegate.MustNew(s.store, slidegate.PerMinute(6).Named("everybody")), httpgate.ByEverybody()),
	}, options...)...)
	return s
}

// as sends a login of a user, nobody if empty, from a host.
func (s *site) as(user, host string) (status int, fields http.Header, body string) {
	r := request("POST", "/login", host+":1", "Accept", "application/json")
	if user != "" {
		r.SetBasicAuth(user, "guess")
	}
	w := s.do(r)
	return w.Code, w.Header(), w.Body.String()
}

// TestAndDecidesOverSeveralKeys: a login passes if address, account and all logins together have room, and a
// refusal by one of them costs the others nothing.
func TestAndDecidesOverSeveralKeys(t *testing.T) {
	s := login(t)
	for i, c := range []struct {
		user, host string
		status     int
		fields     string
	}{
		{"ann", "203.0.113.7", 200, `"address";r=3;t=60, "account";r=1;t=3600, "everybody";r=5;t=60`},
		{"ann", "203.0.113.7", 200, `"address";r=2;t=60, "account";r=0;t=3600, "everybody";r=4;t=60`},
		{"ann", "203.0.113.7", 429, `"address";r=2;t=60, "account";r=0;t=3600, "everybody";r=4;t=60`},
		{"ann", "198.51.100.1", 429, `"address";r=4;t=0, "account";r=0;t=3600, "everybody";r=4;t=60`},
		{"bob", "203.0.113.7", 200, `"address";r=1;t=60, "account";r=1;t=3600, "everybody";r=3;t=60`},
		{"", "203.0.113.7", 200, `"address";r=0;t=60, "account";r=1;t=3600, "everybody";r=2;t=60`},
		{"cid", "203.0.113.7", 429, `"address";r=0;t=60, "account";r=2;t=0, "everybody";r=2;t=60`},
		{"cid", "198.51.100.1", 200, `"address";r=3;t=60, "account";r=1;t=3600, "everybody";r=1;t=60`},
		{"dan", "198.51.100.2", 200, `"address";r=3;t=60, "account";r=1;t=3600, "everybody";r=0;t=60`},
		{"eve", "198.51.100.3", 429, `"address";r=4;t=0, "account";r=2;t=0, "everybody";r=0;t=60`},
	} {
		status, fields, body := s.as(c.user, c.host)
		if status != c.status || fields.Get("RateLimit") != c.fields {
			t.Errorf("login %d: %d, %s; want %d, %s", i, status, fields.Get("RateLimit"), c.status, c.fields)
		}
		if want := `"address";q=4;w=60, "account";q=2;w=3600, "everybody";q=6;w=60`; fields.Get("RateLimit-Policy") != want {
			t.Errorf("login %d: RateLimit-Policy is %s", i, fields.Get("RateLimit-Policy"))
		}
		if i == 2 && (!strings.Contains(body, `"violated-policies":["account"]`) || fields.Get("Retry-After") != "3600") {
			t.Errorf("login %d: Retry-After %s, %s", i, fields.Get("Retry-After"), body)
		}
	}
	if n := s.runs.Load(); n != 6 {
		t.Errorf("the handler ran %d times, want 6", n)
	}
}

// TestAndIsOneDecisionForTheHandler, who may give it back whole.
func TestAndIsOneDecisionForTheHandler(t *testing.T) {
	s, store := newSite(t, limits(slidegate.PerHour(9))), memstore.New()
	mine := slidegate.MustNew(store, slidegate.PerMinute(4).Named("address"))
	g := httpgate.MustNew(mine, httpgate.And(slidegate.MustNew(store, slidegate.PerHour(2).Named("account")), httpgate.By(account)))
	s.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := httpgate.FromContext(r.Context())
		if !ok || d.Len() != 2 || d.KeyOf(0) != "ip:203.0.113.7" || d.KeyOf(1) != "account:ann" {
			t.Errorf("%v, of %q", ok, d.Keys())
		}
		if err := mine.Refund(r.Context(), d); err != nil {
			t.Error(err)
		}
	}))
	for range 5 {
		if status, fields, _ := s.as("ann", "203.0.113.7"); status != 200 || fields.Get("RateLimit") != `"address";r=3;t=60, "account";r=1;t=3600` {
			t.Errorf("%d, %s", status, fields.Get("RateLimit"))
		}
	}
}

// TestTheOuterGateGivesBackWhatTheInnerRefuses, where two units are two gates, and what it would give back for nothing else.
func TestTheOuterGateGivesBackWhatTheInnerRefuses(t *testing.T) {
	store := memstore.New()
	requests := slidegate.MustNew(store, slidegate.PerHour(3).Named("requests"))
	outer := httpgate.MustNew(requests, httpgate.RefundIf(func(status int) bool { return status == 429 }))
	tokens := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerHour(100).Named("tokens")),
		httpgate.Cost(func(*http.Request) int64 { return 60 }), httpgate.And(slidegate.MustNew(store, slidegate.PerHour(1000).Named("everybody")), httpgate.ByEverybody()))
	s := &site{t: t, handler: outer.Wrap(tokens.Wrap(hello))}
	expect(t, "answers", s.codes(5, "203.0.113.7:1"), "200 429 429 429 429")
	if d, err := requests.Peek(t.Context(), "ip:203.0.113.7"); err != nil || d.Remaining() != 2 {
		t.Errorf("%d requests left, %v; want 2", d.Remaining(), err)
	}
}

// TestAndHoldsWhateverIsChosen: a chosen limiter stands in the place of the gate's own.
func TestAndHoldsWhateverIsChosen(t *testing.T) {
	store := memstore.New()
	everybody := slidegate.MustNew(store, slidegate.PerHour(3).Named("everybody"))
	plans := map[string]*slidegate.Limiter{
		"":        nil,
		"pro":     slidegate.MustNew(store, slidegate.PerHour(9).Named("pro")),
		"free":    slidegate.Unlimited(),
		"blocked": slidegate.Blocked(),
		"broken":  slidegate.MustNew(store, slidegate.PerHour(9).Named("everybody")),
	}
	var log bytes.Buffer
	failures := 0
	s := newSite(t, limits(slidegate.PerHour(5).Named("own")), // nothing but the handler of this one is used
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return nil }))
	s.behind(slidegate.MustNew(store, slidegate.PerHour(5).Named("own")),
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return plans[r.Header.Get("Plan")] }),
		httpgate.And(everybody, httpgate.ByEverybody()),
		httpgate.OnStoreError(func(error) { failures++ }),
		httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for _, c := range []struct {
		plan   string
		status int
		fields string
	}{
		{"blocked", 429, ""},
		{"", 200, `"own";r=4;t=3600, "everybody";r=2;t=3600`},
		{"pro", 200, `"pro";r=8;t=3600, "everybody";r=1;t=3600`},
		{"free", 200, `"everybody";r=0;t=3600`},
		{"free", 429, `"everybody";r=0;t=3600`},
		{"pro", 429, `"pro";r=8;t=3600, "everybody";r=0;t=3600`},
		{"broken", 500, ""},
		{"broken", 500, ""},
	} {
		if w := s.want(c.status, "203.0.113.7:1", "Plan", c.plan); w.Header().Get("RateLimit") != c.fields {
			t.Errorf("%q: RateLimit is %s, want %s", c.plan, w.Header().Get("RateLimit"), c.fields)
		}
	}
	if n := strings.Count(log.String(), "two limits of the group have the name"); n != 1 || failures != 0 || s.runs.Load() != 3 {
		t.Errorf("%d lines, %d failures of the store, %d runs:\n%s", n, failures, s.runs.Load(), log.String())
	}
}

// TestAndCountsWhomItCannotTellByAddress, looks for it once, and lets nobody pass who has none.
func TestAndCountsWhomItCannotTellByAddress(t *testing.T) {
	store := memstore.New()
	per := func(name string) *slidegate.Limiter {
		return slidegate.MustNew(store, slidegate.PerHour(2).Named(name))
	}
	s := newSite(t, limits(slidegate.PerHour(9)))
	g := httpgate.MustNew(per("key"), httpgate.ByHeader("X-API-Key"),
		httpgate.And(per("account"), httpgate.By(account)), httpgate.And(per("address"), httpgate.ByAddress()))
	s.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, _ := httpgate.FromContext(r.Context()); r.Header.Get("Want") != fmt.Sprint(d.Keys()) {
			t.Errorf("the keys are %q", d.Keys())
		}
	}))
	s.want(200, "10.0.0.7:1", "X-Forwarded-For", "203.0.113.7", "Want", "[ip:10.0.0.7 ip:10.0.0.7 ip:10.0.0.7]")
	if n := g.IgnoredHeaders(); n != 1 {
		t.Errorf("one request has %d ignored headers", n)
	}
	s.want(200, "10.0.0.7:1", "X-API-Key", "k", "X-Forwarded-For", "203.0.113.7", "Want", "[header:X-Api-Key:k ip:10.0.0.7 ip:10.0.0.7]")
	if n := g.IgnoredHeaders(); n != 2 {
		t.Errorf("two requests have %d ignored headers", n)
	}
	s.want(429, "10.0.0.7:1", "X-API-Key", "other")
	s.want(500, "@", "X-API-Key", "other")
}

// TestAndHidesEveryKey: what Secret and PartitionKeys do holds for each key by itself.
func TestAndHidesEveryKey(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), 32)
	var keys []string
	s := login(t, httpgate.Secret(secret), httpgate.PartitionKeys(secret), httpgate.Observe(func(e *httpgate.Event) { keys = e.Decision.Keys() }))
	_, first, _ := s.as("ann", "203.0.113.7")
	if keys[0] != "ip:203.0.113.7" || !strings.HasPrefix(keys[1], "hmac:") || !strings.HasPrefix(keys[2], "hmac:") || keys[1] == keys[2] {
		t.Errorf("the keys are %q", keys)
	}
	_, second, _ := s.as("bob", "203.0.113.7")
	a, b := strings.Split(first.Get("RateLimit-Policy"), ", "), strings.Split(second.Get("RateLimit-Policy"), ", ")
	if len(a) != 3 || len(b) != 3 || a[0] != b[0] || a[1] == b[1] || a[2] != b[2] || !strings.Contains(a[1], ";pk=:") {
		t.Errorf("the partitions are %q, then %q", a, b)
	}
}

// TestAndNamesTheLimitThatACostNeverFits.
func TestAndNamesTheLimitThatACostNeverFits(t *testing.T) {
	s := login(t, httpgate.Cost(func(*http.Request) int64 { return 3 }))
	status, fields, body := s.as("ann", "203.0.113.7")
	if status != 429 || fields.Get("Retry-After") != "" || !strings.Contains(body, `"violated-policies":["account"]`) || s.runs.Load() != 0 {
		t.Errorf("%d, %v, %s", status, fields, body)
	}
}

// TestAndIsSettledForAllKeys: what a request did not need is given back to all, what it needed on top is charged to
// all, and an answer that does not count gives everything back.
func TestAndIsSettledForAllKeys(t *testing.T) {
	store := memstore.New()
	address := slidegate.MustNew(store, slidegate.PerMinute(10).Named("address"))
	perUser := slidegate.MustNew(store, slidegate.PerMinute(8).Named("account"))
	status, cost := 401, int64(0)
	s := newSite(t, limits(slidegate.PerHour(9)))
	s.handler = httpgate.MustNew(address, httpgate.And(perUser, httpgate.By(account)),
		httpgate.Cost(func(*http.Request) int64 { return 3 }), httpgate.Settling(),
		httpgate.RefundIf(func(status int) bool { return status < 400 }),
	).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unpaid, err := httpgate.Settle(r.Context(), cost); err != nil || unpaid != 0 {
			t.Errorf("a cost of %d: %d unpaid, %v", cost, unpaid, err)
		}
		w.WriteHeader(status)
	}))
	for _, c := range []struct {
		status                  int
		cost, ofAddress, ofUser int64 // left afterwards
	}{
		{401, 1, 9, 7},
		{200, 1, 9, 7},
		{200, 7, 9, 7},
		{401, 2, 7, 5},
	} {
		status, cost = c.status, c.cost
		if got, _, _ := s.as("ann", "203.0.113.7"); got != status {
			t.Errorf("%d, want %d", got, status)
		}
		a, _ := address.Peek(t.Context(), "ip:203.0.113.7")
		b, _ := perUser.Peek(t.Context(), "account:ann")
		if a.Remaining() != c.ofAddress || b.Remaining() != c.ofUser {
			t.Errorf("after %+v: %d and %d are left", c, a.Remaining(), b.Remaining())
		}
	}
}

// TestAndBansOnlyForWhatTheKeyItselfUsedUp: who finds everybody's limit full is not to blame.
func TestAndBansOnlyForWhatTheKeyItselfUsedUp(t *testing.T) {
	s := login(t, httpgate.Ban(slidegate.PerHour(2).Named("refusals"), time.Hour))
	for range 4 {
		s.as("ann", "203.0.113.7") // twice refused for the account
	}
	for range 2 {
		if status, _, body := s.as("bob", "203.0.113.7"); status != 200 {
			t.Errorf("an address is refused for what it did to an account: %d, %s", status, body)
		}
	}
	for range 2 {
		if _, _, body := s.as("cid", "203.0.113.7"); !strings.Contains(body, `"address"`) && !strings.Contains(body, "abnormal-usage") {
			t.Errorf("the address has used up its limit: %s", body)
		}
	}
	if status, fields, body := s.as("cid", "203.0.113.7"); status != 429 || fields.Get("Retry-After") != "3600" || !strings.Contains(body, "abnormal-usage") {
		t.Errorf("the address is banned: %d, %v, %s", status, fields, body)
	}
}

// TestAndThatCannotBeBuilt is reported by New, in one sentence.
func TestAndThatCannotBeBuilt(t *testing.T) {
	store := memstore.New()
	per := func(name string) *slidegate.Limiter {
		return slidegate.MustNew(store, slidegate.PerHour(2).Named(name))
	}
	var eight []httpgate.Option
	for i := range slidegate.MaxLimits {
		eight = append(eight, httpgate.And(per(fmt.Sprint("l", i)), httpgate.ByAddress()))
	}
	for want, options := range map[string][]httpgate.Option{
		"And: the limiter is nil: make one with slidegate.New":                                                            {httpgate.And(nil, httpgate.ByAddress())},
		"And: the option says nothing of who is asking: allowed are By, ByAddress, ByHeader, ByEverybody and their like":  {httpgate.And(per("a"), httpgate.FailClosed())},
		"And: the option says nothing of who is asking: allowed are By, ByAddress, ByHeader, ByEverybody and their like ": {httpgate.And(per("a"), nil)},
		"By: the key function is nil": {httpgate.And(per("a"), httpgate.By(nil))},
		`two limits of the group have the name "own": names must differ, as in address=5/1m and account=5/1m`: {httpgate.And(per("own"), httpgate.ByAddress())},
		"9 limiters: allowed is 1 to 8 in one group":                                                          eight,
	} {
		_, err := httpgate.New(per("own"), options...)
		if want = slidegate.ErrInvalidLimit.Error() + ": " + strings.TrimSpace(want); !errors.Is(err, slidegate.ErrInvalidLimit) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
