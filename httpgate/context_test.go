package httpgate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// TestWithoutContext: next gets the request itself, and the answer is the same.
func TestWithoutContext(t *testing.T) {
	tiers := limits(slidegate.PerMinute(1).Named("burst"), slidegate.PerDay(9).Named("day"))
	for name, c := range map[string]struct {
		options []httpgate.Option
		served  int // of two requests
	}{
		"alone":              {nil, 1},
		"in shadow mode":     {[]httpgate.Option{httpgate.Shadow()}, 2},
		"with charges back":  {[]httpgate.Option{httpgate.RefundIf(func(int) bool { return true })}, 2},
		"with single values": {[]httpgate.Option{httpgate.Headers(httpgate.Draft6, httpgate.Legacy)}, 1},
	} {
		with, without := newSite(t, tiers, c.options...), newSite(t, tiers)
		g := httpgate.MustNew(slidegate.MustNew(without.store, tiers...), append(c.options, httpgate.WithoutContext())...)
		var sent *http.Request
		served := 0
		without.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			if r != sent {
				t.Errorf("%s: next gets another request", name)
			}
			if _, ok := httpgate.FromContext(r.Context()); ok {
				t.Errorf("%s: the decision is in the context", name)
			}
			_, _ = w.Write([]byte("hello"))
		}))
		for range 2 {
			sent = request("GET", "/", "203.0.113.7:1")
			want, got := httptest.NewRecorder(), httptest.NewRecorder()
			with.handler.ServeHTTP(want, sent)
			without.handler.ServeHTTP(got, sent)
			if got.Code != want.Code || !reflect.DeepEqual(got.Header(), want.Header()) || got.Body.String() != want.Body.String() {
				t.Errorf("%s: answered %d %v %q, want %d %v %q", name, got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
			}
		}
		if served != c.served {
			t.Errorf("%s: next ran %d times for two requests, want %d", name, served, c.served)
		}
	}
}

// TestWithoutContextStillTells whoever answers in the place of next.
func TestWithoutContextStillTells(t *testing.T) {
	told := 0
	deny := httpgate.OnDeny(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := httpgate.FromContext(r.Context()); ok && !d.Allowed {
			told++
		}
	}))
	s := newSite(t, limits(slidegate.PerMinute(1)), httpgate.WithoutContext(), deny)
	s.get("203.0.113.7:1")
	s.get("203.0.113.7:1")
	fail := httpgate.FailWith(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if errors.Is(httpgate.ErrorFromContext(r.Context()), slidegate.ErrUnavailable) {
			told++
		}
	}))
	s = newSite(t, limits(slidegate.PerMinute(1)), httpgate.WithoutContext(), fail)
	_ = s.store.Close()
	s.get("203.0.113.7:1")
	if told != 2 {
		t.Errorf("%d handlers found what they are told, want 2", told)
	}
}

// TestWithoutContextInARow: what is found is the decision of the gate around it, the lists of both gates
// are there, and an inner gate without it leaves a single value that binds.
func TestWithoutContextInARow(t *testing.T) {
	outerLimit, innerLimit := slidegate.PerMinute(3).Named("outer"), slidegate.PerMinute(5).Named("inner")
	outer := httpgate.MustNew(slidegate.MustNew(memstore.New(), outerLimit), httpgate.Headers(httpgate.Draft8, httpgate.Legacy))
	inner := httpgate.MustNew(slidegate.MustNew(memstore.New(), innerLimit), httpgate.Headers(httpgate.Draft8, httpgate.Legacy), httpgate.WithoutContext())
	found := ""
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := httpgate.FromContext(r.Context()); ok {
			found = d.State(0).Limit.Name
		}
	})
	w := httptest.NewRecorder()
	outer.Wrap(inner.Wrap(next)).ServeHTTP(w, request("GET", "/", "203.0.113.7:1"))
	if lines := w.Header()["Ratelimit"]; found != "outer" || len(lines) != 2 || w.Header().Get("X-RateLimit-Limit") != "3" {
		t.Errorf("found the decision of %q, and %v", found, w.Header())
	}
	found, w = "", httptest.NewRecorder()
	inner.Wrap(outer.Wrap(next)).ServeHTTP(w, request("GET", "/", "203.0.113.7:1"))
	if lines := w.Header()["Ratelimit"]; found != "outer" || len(lines) != 2 || w.Header().Get("X-RateLimit-Limit") != "3" {
		t.Errorf("the other way round: found the decision of %q, and %v", found, w.Header())
	}
}

func TestWithoutContextNothingSettles(t *testing.T) {
	_, err := httpgate.New(slidegate.Unlimited(), httpgate.Settling(), httpgate.WithoutContext())
	if !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("got %v, want an error that wraps ErrInvalidLimit", err)
	}
}

// TestWithoutContextDecides for other servers, whose handlers get the context as it is.
func TestWithoutContextDecides(t *testing.T) {
	g := httpgate.MustNew(slidegate.MustNew(memstore.New(), slidegate.PerMinute(1)), httpgate.WithoutContext())
	r := request("GET", "/", "203.0.113.7:1")
	if o := g.Decide(r); !o.Admitted || o.Decision == nil || o.Context != r.Context() {
		t.Errorf("admitted %v, decision %v, context %v", o.Admitted, o.Decision, o.Context)
	}
}
