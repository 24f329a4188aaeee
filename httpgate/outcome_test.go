package httpgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
)

func ExampleGate_Decide() {
	gate := httpgate.MustNew(slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(1).Named("calls")))
	for range 2 {
		o := gate.Decide(httptest.NewRequest("GET", "/", nil))
		fmt.Println(o.Admitted, o.Violated, o.Header["Ratelimit"], o.Header["Retry-After"])
	}
	// Output:
	// true [] ["calls";r=0;t=60] []
	// false [calls] ["calls";r=0;t=60] [60]
}

func ExampleGate_DecideInto() {
	gate := httpgate.MustNew(slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(2).Named("calls")))
	h := http.Header{"Content-Type": {"application/json"}}
	o := gate.DecideInto(h, httptest.NewRequest("GET", "/", nil))
	fmt.Println(o.Admitted, len(h), h["Ratelimit"])
	// Output:
	// true 3 ["calls";r=1;t=60]
}

// TestDecideIsWrapWithoutTheAnswer: of the same requests, one gate answers and its twin decides.
func TestDecideIsWrapWithoutTheAnswer(t *testing.T) {
	everything := httpgate.Headers(httpgate.Draft8, httpgate.Draft6, httpgate.Legacy)
	twin := func() *httpgate.Gate {
		limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerSecond(3).Named("burst"), slidegate.PerMinute(5).Named("sustained"))
		return httpgate.MustNew(limiter, everything,
			httpgate.Cost(func(r *http.Request) int64 { return int64(len(r.Header["Unit"])) }),
			httpgate.Exempt("/exempt"), httpgate.Deny("/denied"),
			httpgate.Skip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))
	}
	answers, decides := twin(), twin()
	for i, units := range []int{1, 0, 2, 1, 9, 1, 0} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Unit"] = make([]string, units)
		served := false
		w := httptest.NewRecorder()
		answers.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(w, r)
		o := decides.Decide(r)
		if o.Admitted != served {
			t.Errorf("%d: decided %v, answered %v", i, o.Admitted, served)
		}
		for name, value := range o.Header {
			if !slices.Equal(value, w.Header()[name]) {
				t.Errorf("%d: %s: decided %q, answered %q", i, name, value, w.Header()[name])
			}
		}
		for name := range w.Header() {
			if _, ok := o.Header[name]; !ok && !slices.Contains([]string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"}, name) {
				t.Errorf("%d: %s is answered and not in %q", i, name, slices.Sorted(maps.Keys(o.Header)))
			}
		}
		d, ok := httpgate.FromContext(o.Context)
		if !ok || d != o.Decision || d.Cost != int64(units) {
			t.Errorf("%d: the context holds %v", i, d)
		}
		var never *slidegate.CostError
		if errors.As(o.Err, &never) != (units == 9) {
			t.Errorf("%d: error %v", i, o.Err)
		}
		if units == 9 && !slices.Equal(o.Violated, []string{"burst"}) {
			t.Errorf("%d: violated %q", i, o.Violated)
		}
	}
	for path, admitted := range map[string]bool{"/healthz": true, "/exempt": true, "/denied": false} {
		o := decides.Decide(httptest.NewRequest("GET", path, nil))
		if o.Admitted != admitted || o.Decision != nil || o.Header != nil || errors.Is(o.Err, httpgate.ErrForbidden) == admitted {
			t.Errorf("%s: %+v", path, o)
		}
	}
}

// TestDecideFailsAsTheGateDoes, open or closed, and never open for those who cannot be told apart.
func TestDecideFailsAsTheGateDoes(t *testing.T) {
	broken := slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1))
	unix := httptest.NewRequest("GET", "/", nil).WithContext(context.Background())
	unix.RemoteAddr = "@"
	for _, c := range []struct {
		name     string
		gate     *httpgate.Gate
		request  *http.Request
		admitted bool
		err      error
	}{
		{"open", httpgate.MustNew(broken), httptest.NewRequest("GET", "/", nil), true, slidegate.ErrUnavailable},
		{"closed", httpgate.MustNew(broken, httpgate.FailClosed()), httptest.NewRequest("GET", "/", nil), false, slidegate.ErrUnavailable},
		{"no address", httpgate.MustNew(broken), unix, false, httpgate.ErrNoAddress},
	} {
		o := c.gate.Decide(c.request)
		if o.Admitted != c.admitted || !errors.Is(o.Err, c.err) || o.Decision != nil || o.Header != nil {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
}

// TestDecideInShadow admits everything and says nothing.
func TestDecideInShadow(t *testing.T) {
	for name, limiter := range map[string]*slidegate.Limiter{
		"refused": slidegate.Blocked(), "undecided": slidegate.MustNew(gatetest.Failing(nil), slidegate.PerMinute(1)),
	} {
		told := false
		gate := httpgate.MustNew(limiter, httpgate.Shadow(), httpgate.FailClosed(), httpgate.Deny("/denied"),
			httpgate.Observe(func(e *httpgate.Event) { told = e.Shadow }))
		for _, path := range []string{"/", "/denied"} {
			if o := gate.Decide(httptest.NewRequest("GET", path, nil)); !o.Admitted || o.Header != nil || o.Violated != nil || !told {
				t.Errorf("%s, %s: %+v, observers told: %v", name, path, o, told)
			}
		}
	}
}

// TestDoneSettlesAsAHandlerWould: what is not to count is given back, and once.
func TestDoneSettlesAsAHandlerWould(t *testing.T) {
	limiter := slidegate.MustNew(atTheEpoch(), slidegate.PerMinute(10))
	gate := httpgate.MustNew(limiter, httpgate.RefundIf(func(status int) bool { return status == 7 }), httpgate.Settling())
	left := func() int64 {
		d, err := limiter.Peek(context.Background(), "ip:192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining()
	}
	for _, c := range []struct {
		status int
		cost   int64
		left   int64
	}{{0, 1, 9}, {7, 1, 9}, {7, 4, 9}, {0, 4, 5}, {7, 5, 5}} {
		o := gate.Decide(httptest.NewRequest("GET", "/", nil))
		if unpaid, err := httpgate.Settle(o.Context, c.cost); err != nil || unpaid != 0 {
			t.Errorf("%+v: %d unpaid, %v", c, unpaid, err)
		}
		o.Done(c.status)
		o.Done(c.status)
		if n := left(); n != c.left {
			t.Errorf("%+v: %d left", c, n)
		}
	}
	var nothing httpgate.Outcome
	nothing.Done(7)
}
