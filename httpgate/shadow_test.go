package httpgate_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// shadowRefusesNobody is SHD-01.
func shadowRefusesNobody(t *testing.T) {
	wouldDeny, denied := 0, 0
	s := newSite(t, limits(slidegate.PerMinute(2)), httpgate.Shadow(), allFormats, httpgate.RetryAfter(), httpgate.Observe(func(e *httpgate.Event) {
		switch {
		case e.Decision.Allowed:
		case e.Shadow:
			wouldDeny++
		default:
			denied++
		}
	}))
	for range 5 {
		if w := s.want(200, ""); fmt.Sprint(w.Header()) != "map[Content-Type:[text/plain; charset=utf-8]]" || w.Body.String() != "hello" {
			t.Errorf("%v %q", w.Header(), w.Body)
		}
	}
	expect(t, "would deny, denied, ran", fmt.Sprint(wouldDeny, denied, s.runs.Load()), "3 0 5")
}

// shadowBesideAnEnforcedLimit is SHD-02, in either order.
func shadowBesideAnEnforcedLimit(t *testing.T) {
	for _, shadowOutside := range []bool{true, false} {
		store := memstore.New()
		enforced := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(3)), httpgate.Headers(httpgate.Draft6)).Wrap
		shadow := httpgate.MustNew(slidegate.MustNew(store, slidegate.PerMinute(1)), httpgate.Shadow(), httpgate.Headers(httpgate.Draft6)).Wrap
		s := &site{t: t, handler: enforced(shadow(hello))}
		if shadowOutside {
			s.handler = shadow(enforced(hello))
		}
		w := s.want(200, "")
		expect(t, "fields", w.Header().Get("RateLimit-Limit")+" "+w.Header().Get("RateLimit-Policy"), "3 3;w=60")
		expect(t, "the rest", s.codes(4, ""), "200 200 429 429")
	}
}

// TestShadowIsNotInTheWay of what gates around it and inside it say together.
func TestShadowIsNotInTheWay(t *testing.T) {
	h := httpgate.PerIP(slidegate.PerHour(100), httpgate.Headers(httpgate.Draft6))(hello)
	h = httpgate.PerIP(slidegate.PerHour(1), httpgate.Shadow(), httpgate.Headers(httpgate.Draft6))(h)
	h = httpgate.PerIP(slidegate.PerHour(10), httpgate.Headers(httpgate.Draft6))(h)
	s := &site{t: t, handler: h}
	for _, left := range []string{"9", "8"} {
		header := s.want(200, "").Header()
		expect(t, "fields", header.Get("RateLimit-Limit")+" "+header.Get("RateLimit-Remaining"), "10 "+left)
	}
}

// TestShadowChargesWhatItWouldAdmit, gives back and bans as a gate that refuses does.
func TestShadowChargesWhatItWouldAdmit(t *testing.T) {
	var seen []string
	serve := func(options ...httpgate.Option) *site {
		options = append(options, twoStrikes, httpgate.Settling(), httpgate.Cost(func(*http.Request) int64 { return 3 }), httpgate.RefundIf(func(status int) bool { return status == 418 }),
			httpgate.Observe(func(e *httpgate.Event) {
				seen = append(seen, fmt.Sprint(e.Decision, " ", e.Banned, " ", e.BanBegan))
			}))
		s := newSite(t, limits(slidegate.Per(10*time.Second, 5)), options...)
		gate := httpgate.MustNew(slidegate.MustNew(s.store, slidegate.Per(10*time.Second, 5)), options...)
		s.handler = gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Free") != "" {
				w.WriteHeader(418)
			}
			if _, err := httpgate.Settle(r.Context(), 2); err != nil {
				t.Error(err)
			}
		}))
		return s
	}
	trace := func(s *site) string {
		seen = nil
		for i, at := range []float64{0, 1, 2, 2, 3, 4, 5, 30, 65, 66} {
			s.at(at)
			if i == 1 {
				s.get("", "Free", "x")
			} else {
				s.get("")
			}
		}
		return strings.Join(seen, "\n")
	}
	if shadow, enforced := trace(serve(httpgate.Shadow())), trace(serve()); shadow != enforced || !strings.Contains(shadow, "true 1m0s") {
		t.Errorf("in shadow mode:\n%s\nenforced:\n%s", shadow, enforced)
	}
}

// TestShadowNeverFails: no store that is away, no client without an address, no cost that never fits, no plan
// that is Blocked and no Deny list keeps a request out.
func TestShadowNeverFails(t *testing.T) {
	for _, how := range []httpgate.Option{httpgate.FailOpen(), httpgate.FailClosed(), httpgate.FailWith(http.NotFoundHandler())} {
		store := newFailing()
		told := 0
		s := (&site{t: t}).behind(slidegate.MustNew(store, slidegate.PerMinute(1)), httpgate.Shadow(), how, httpgate.DenyWith(403, nil), httpgate.Deny("198.51.100.0/24"), twoStrikes,
			httpgate.OnStoreError(func(error) { told++ }),
			httpgate.Cost(func(r *http.Request) int64 { return int64(1 + len(r.Header.Values("More"))) }),
			httpgate.Choose(func(r *http.Request) *slidegate.Limiter {
				if r.Header.Get("Blocked") != "" {
					return slidegate.Blocked()
				}
				return nil
			}))
		s.want(200, "198.51.100.7:1")
		s.want(200, "@")
		s.want(200, "", "More", "x")
		s.want(200, "", "Blocked", "x")
		expect(t, "told", fmt.Sprint(told), "0")
		store.down.Store(true)
		s.want(200, "")
		expect(t, "ran, told", fmt.Sprint(s.runs.Load(), told), "5 1")
	}
}

// TestShadowInTheContext: the handler sees the decision, also one that it would not have been asked with.
func TestShadowInTheContext(t *testing.T) {
	var seen []bool
	h := httpgate.PerIP(slidegate.PerMinute(1), httpgate.Shadow())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, ok := httpgate.FromContext(r.Context())
		seen = append(seen, ok, d.Allowed)
	}))
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", ""))
	}
	expect(t, "seen", fmt.Sprint(seen), "[true true true false]")
}

// TestShadowLogsOnceAMinute, and no key.
func TestShadowLogsOnceAMinute(t *testing.T) {
	var log strings.Builder
	s := newSite(t, limits(slidegate.PerMinute(1).Named("tight")), httpgate.Shadow(), httpgate.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 10 {
		s.want(200, "")
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "limit=tight") || strings.Contains(log.String(), "192.0.2.1") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestShadowLeavesTheWriterAlone.
func TestShadowLeavesTheWriterAlone(t *testing.T) {
	rec := httptest.NewRecorder()
	httpgate.PerIP(slidegate.PerHour(1), httpgate.Shadow())(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w != http.ResponseWriter(rec) {
			t.Errorf("the writer is a %T", w)
		}
	})).ServeHTTP(rec, request("GET", "/", ""))
}

func ExampleShadow() {
	store := atTheEpoch()
	limiter := slidegate.MustNew(store, slidegate.PerMinute(2).Named("tighter"))
	handler := httpgate.MustNew(limiter, httpgate.Shadow(), httpgate.Observe(func(e *httpgate.Event) {
		if e.Decision != nil && !e.Decision.Allowed {
			fmt.Println("would have been", e.Decision)
		}
	})).Wrap(hello)

	for range 3 {
		show(handler, "203.0.113.7", nil)
	}
	d, _ := limiter.Peek(context.Background(), "ip:203.0.113.7")
	fmt.Println(d.Remaining(), "left")
	// Output:
	// 200
	// 200
	// would have been refused by tighter=2/1m, 0 left, retry in 1m0s
	// 200
	// 0 left
}

// TestShadowBansGoOn when the shadow is made to refuse over the same store, and so do its counts.
func TestShadowBansGoOn(t *testing.T) {
	limiter := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	ban := func(name string) httpgate.Option {
		return httpgate.Ban(slidegate.PerMinute(2).Named(name), time.Hour)
	}
	shadow := &site{t: t, handler: httpgate.MustNew(limiter, ban("often"), httpgate.Shadow()).Wrap(hello)}
	expect(t, "in the shadow", shadow.codes(4, ""), "200 200 200 200")
	for name, wait := range map[string]string{"often": "3600", "anew": "60"} {
		refuses := &site{t: t, handler: httpgate.MustNew(limiter, ban(name)).Wrap(hello)}
		w := refuses.want(429, "")
		expect(t, "the wait, with strikes named "+name, w.Header().Get("Retry-After"), wait)
	}
}
