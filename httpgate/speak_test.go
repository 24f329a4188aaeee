package httpgate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

func frozen(limits ...slidegate.Limit) *slidegate.Limiter {
	store := memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(1_700_000_000_000) }))
	return slidegate.MustNew(store, limits...)
}

// send sends n requests from one address and returns the last answer.
func send(h http.Handler, n int) *httptest.ResponseRecorder {
	var w *httptest.ResponseRecorder
	for range n {
		w = httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.7:1"
		h.ServeHTTP(w, r)
	}
	return w
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// TestPartitionKey is the HMAC of the key, in both fields of draft 8 and behind every limit, admitted
// or refused.
func TestPartitionKey(t *testing.T) {
	secret := []byte("a secret of this deployment alone")
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, "ip:203.0.113.7")
	pk := base64.StdEncoding.EncodeToString(mac.Sum(nil)[:12])
	if len(pk) != 16 {
		t.Fatalf("pk %q", pk)
	}
	g := MustNew(frozen(slidegate.PerSecond(1).Named("burst"), slidegate.PerMinute(9).Named("all")), PartitionKeys(secret), Headers(Draft8, Draft6))
	h := g.Wrap(nothing)
	for i, want := range []string{
		`"burst";r=0;t=1;pk=:PK:, "all";r=8;t=60;pk=:PK:`,
		`"burst";r=0;t=1;pk=:PK:, "all";r=8;t=60;pk=:PK:`,
	} {
		fields := send(h, 1).Header()
		if got := fields.Get("RateLimit"); got != strings.ReplaceAll(want, "PK", pk) {
			t.Errorf("request %d: RateLimit is %s", i, got)
		}
		if got, want := fields.Get("RateLimit-Policy"), `"burst";q=1;w=1;pk=:PK:, "all";q=9;w=60;pk=:PK:`; got != strings.ReplaceAll(want, "PK", pk) {
			t.Errorf("request %d: RateLimit-Policy is %s", i, got)
		}
	}
	if got := send(MustNew(frozen(slidegate.PerMinute(9)), PartitionKeys(secret), Headers(Draft7)).Wrap(nothing), 1).Header(); strings.Contains(fmt.Sprint(got), "pk") {
		t.Errorf("drafts before 8 know no pk: %v", got)
	}
	if got := send(MustNew(frozen(slidegate.PerMinute(9))).Wrap(nothing), 1).Header(); strings.Contains(fmt.Sprint(got), "pk") {
		t.Errorf("unasked: %v", got)
	}
}

// TestJitterOnlyAdds: from nothing to its percentage, in whole seconds, to every field that tells the
// wait of a limit that refuses and to no other; and all fields of a response agree.
func TestJitterOnlyAdds(t *testing.T) {
	for _, c := range []struct {
		percent int
		at      float64
		want    string
	}{
		{50, 0, `60 "m";r=0;t=60, "d";r=8;t=86400 1700000060 60`},
		{50, 0.999999, `90 "m";r=0;t=90, "d";r=8;t=86400 1700000090 90`},
		{50, 0.5, `75 "m";r=0;t=75, "d";r=8;t=86400 1700000075 75`},
		{100, 0.999999, `120 "m";r=0;t=120, "d";r=8;t=86400 1700000120 120`},
		{1, 0.999999, `60 "m";r=0;t=60, "d";r=8;t=86400 1700000060 60`}, // less than a second of it
	} {
		g := MustNew(frozen(slidegate.PerMinute(1).Named("m"), slidegate.PerDay(9).Named("d")), Jitter(c.percent), Headers(Draft8, Draft6, Legacy))
		g.random = func() float64 { return c.at }
		h := send(g.Wrap(nothing), 2).Header()
		got := fmt.Sprint(h.Get("Retry-After"), " ", h.Get("RateLimit"), " ", h.Get("X-RateLimit-Reset"), " ", h.Get("RateLimit-Reset"))
		if got != c.want {
			t.Errorf("%d percent at %v: got %s, want %s", c.percent, c.at, got, c.want)
		}
	}
	g := MustNew(frozen(slidegate.PerMinute(5)), Jitter(100))
	g.random = func() float64 { t.Error("an admitted request asks for a jitter"); return 0 }
	if got := send(g.Wrap(nothing), 1).Header().Get("RateLimit"); got != `"5/1m";r=4;t=60` {
		t.Errorf("admitted: %s", got)
	}
}

// TestJitterKeepsTheOrder of what refuses, so that Retry-After is never shorter than a t, at random.
func TestJitterKeepsTheOrder(t *testing.T) {
	g := MustNew(frozen(slidegate.PerMinute(1).Named("m"), slidegate.PerHour(1).Named("h")), Jitter(25), Headers(Draft8))
	h := g.Wrap(nothing)
	send(h, 1)
	different := map[string]bool{}
	for range 200 {
		var m, hour, retry int
		fields := send(h, 1).Header()
		fmt.Sscanf(fields.Get("RateLimit"), `"m";r=0;t=%d, "h";r=0;t=%d`, &m, &hour)
		fmt.Sscan(fields.Get("Retry-After"), &retry)
		if m < 60 || m > 75 || hour < 3600 || hour > 4500 || retry != hour {
			t.Fatalf("got %v", fields)
		}
		different[fields.Get("Retry-After")] = true
	}
	if len(different) < 20 {
		t.Errorf("only %d different waits of 200", len(different))
	}
}

// TestRetryAfterIsItsOwnSwitch, both ways.
func TestRetryAfterIsItsOwnSwitch(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []Option
		want    string
	}{
		{"by default", nil, `60 "1/1m";r=0;t=60`},
		{"on without fields", []Option{RetryAfter(), Headers()}, "60 "},
		{"off with fields", []Option{NoRetryAfter(), Headers(Draft8)}, ` "1/1m";r=0;t=60`},
		{"neither", []Option{Headers()}, " "},
		{"on twice", []Option{RetryAfter(), RetryAfter(), Headers()}, "60 "},
	} {
		h := send(MustNew(frozen(slidegate.PerMinute(1)), c.options...).Wrap(nothing), 2).Header()
		if got := h.Get("Retry-After") + " " + h.Get("RateLimit"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestProblemTypes: a refusal is of the type that DenyAs chose, names what refused, and has the
// problem's status.
func TestProblemTypes(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []Option
		want    string
	}{
		{"by default", nil, `429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["m"]}`},
		{"capacity", []Option{DenyAs(ReducedCapacity)}, `503 {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"violated-policies":["m"]}`},
		{"abuse", []Option{DenyAs(AbnormalUsage)}, `429 {"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Request not satisfied due to detection of abnormal request pattern","status":429,"violated-policies":["m"]}`},
		{"its own status", []Option{DenyAs(ReducedCapacity), DenyWith(429, nil)}, `429 {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":429,"violated-policies":["m"]}`},
		{"its own status, the other way round", []Option{DenyWith(429, nil), DenyAs(ReducedCapacity)}, `429 {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":429,"violated-policies":["m"]}`},
		{"the last of two", []Option{DenyAs(AbnormalUsage), DenyAs(func(v ...string) Problem {
			return Problem{Type: "https://example.com/slow", Title: "Slow down", Status: 420, Violated: v}
		})}, `420 {"type":"https://example.com/slow","title":"Slow down","status":420,"violated-policies":["m"]}`},
		{"a body", []Option{DenyWith(429, nil), DenyWith(403, "no")}, `403 no`},
	} {
		w := send(MustNew(frozen(slidegate.PerMinute(1).Named("m"), slidegate.PerHour(9).Named("h")), c.options...).Wrap(nothing), 2)
		if got := fmt.Sprint(w.Code, " ", w.Body); got != c.want || w.Header().Get("Retry-After") != "60" {
			t.Errorf("%s: got %s, want %s; %v", c.name, got, c.want, w.Header())
		}
	}
}
