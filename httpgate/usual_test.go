package httpgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// TestTheUsualWayIsTheLongWay: what the short way through a gate answers, request by request, and what the next handler
// finds, are those of the way that every other gate goes, whatever the limits, the fields and the refusals.
func TestTheUsualWayIsTheLongWay(t *testing.T) {
	one := []slidegate.Limit{slidegate.Per(4*time.Second, 3)}
	counter := []slidegate.Limit{slidegate.Per(4*time.Second, 3).Counter()}
	several := []slidegate.Limit{slidegate.Per(time.Second, 2).Named("burst"), slidegate.PerMinute(20).Named("all").Counter()}
	refusal := OnDeny(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := FromContext(r.Context())
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, d.RetryAfter())
	}))
	for name, c := range map[string]struct {
		limits  []slidegate.Limit
		options []Option
	}{
		"one log":                   {one, nil},
		"one counter":               {counter, nil},
		"several limits":            {several, nil},
		"the older fields":          {one, []Option{Headers(Draft6)}},
		"all fields":                {several, []Option{Headers(Draft8, Draft7, Draft6)}},
		"no fields":                 {one, []Option{Headers()}},
		"no Retry-After":            {one, []Option{NoRetryAfter()}},
		"without a context":         {one, []Option{WithoutContext()}},
		"an own refusal":            {several, []Option{refusal}},
		"a refusal of other status": {one, []Option{DenyWith(http.StatusServiceUnavailable, map[string]int{"code": 7})}},
		"shadow":                    {one, []Option{Shadow()}},
		"fail open":                 {one, []Option{FailOpen(), WithoutOutages()}},
		"fail closed":               {several, []Option{FailClosed(), WithoutOutages()}},
		"by a header":               {one, []Option{ByHeader("X-Name"), WithoutOutages()}},
	} {
		t.Run(name, func(t *testing.T) {
			rng, now := rand.New(rand.NewPCG(1, 2)), int64(1_757_750_400_000)
			clock := memstore.WithClock(func() time.Time { return time.UnixMilli(now) })
			var ways [2]http.Handler
			var stores [2]*memstore.Store
			for i := range ways {
				stores[i] = memstore.New(clock)
				g := MustNew(slidegate.MustNew(stores[i], c.limits...), c.options...)
				if g.asksMore {
					t.Fatal("a gate with these options goes the long way anyhow")
				}
				g.asksMore = i == 1
				ways[i] = g.Wrap(http.HandlerFunc(seen))
			}
			statuses := map[int]int{}
			for step := range 600 {
				now += rng.Int64N(600) - 50
				if step == 500 { // an outage until the end
					stores[0].Close()
					stores[1].Close()
				}
				client, named := rng.IntN(3), rng.IntN(9) > 0
				var answers [2]*http.Response
				var bodies [2]string
				for i, h := range ways {
					r := httptest.NewRequest("GET", "/", nil)
					r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", client)
					if named {
						r.Header.Set("X-Name", fmt.Sprint("u", client))
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					answers[i], bodies[i] = w.Result(), w.Body.String()
				}
				if a, b := answers[0], answers[1]; a.StatusCode != b.StatusCode || !reflect.DeepEqual(a.Header, b.Header) || bodies[0] != bodies[1] {
					t.Fatalf("step %d: %d %v %q; by the long way %d %v %q", step, a.StatusCode, a.Header, bodies[0], b.StatusCode, b.Header, bodies[1])
				}
				statuses[answers[0].StatusCode]++
			}
			if statuses[http.StatusOK] < 100 || len(statuses) < 2 && name != "shadow" {
				t.Errorf("the answers were %v", statuses)
			}
		})
	}
}

// seen tells what the next handler, and who comes after it, can know of a request.
func seen(w http.ResponseWriter, r *http.Request) {
	d, ok := FromContext(r.Context())
	fmt.Fprint(w, ok, ErrorFromContext(r.Context()), errors.Is(context.Cause(r.Context()), context.Canceled))
	if ok {
		fmt.Fprint(w, d.Allowed, d.Remaining(), d.RetryAfter(), d.ResetAfter(), d.Cost, d.Held())
	}
	io.WriteString(w, r.Header.Get("X-Name"))
}
