package rediscases

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// A twin is a gate on Redis and the same on memory, on one clock, asked alike.
type twin struct {
	t             *testing.T
	clock         *gatetest.Clock
	redis, memory http.Handler
}

func newTwin(t *testing.T, server *redistest.Server, limits []slidegate.Limit, options ...httpgate.Option) *twin {
	t.Helper()
	w := &twin{t: t, clock: gatetest.NewClock(time.UnixMilli(1_796_032_800_400))}
	server.Flush()
	for store, handler := range map[slidegate.Store]*http.Handler{
		newStore(t, server, redisstore.WithClock(w.clock.Now)): &w.redis, memstore.New(memstore.WithClock(w.clock.Now)): &w.memory,
	} {
		*handler = newSite(t, newLimiter(t, store, limits...), options...).handler
	}
	return w
}

// get asks both, and returns the answer if it is one.
func (w *twin) get(user string) *httptest.ResponseRecorder {
	w.t.Helper()
	a, b := get(w.redis, "/", user), get(w.memory, "/", user)
	if a.Code != b.Code || a.Body.String() != b.Body.String() || fmt.Sprint(a.Header()) != fmt.Sprint(b.Header()) {
		w.t.Errorf("on Redis %d %v %s\nin memory %d %v %s", a.Code, a.Header(), a.Body, b.Code, b.Header(), b.Body)
	}
	return a
}

var formats = []httpgate.Option{
	httpgate.Headers(httpgate.Draft8, httpgate.Draft6), httpgate.Headers(httpgate.Draft7), httpgate.Headers(httpgate.Draft8, httpgate.Legacy), httpgate.Headers(httpgate.LegacyDelta), httpgate.Headers(),
}

// TestAnswersOverHTTPAreThoseOfMemory: status, fields and body of every scenario, in every format.
func TestAnswersOverHTTPAreThoseOfMemory(t *testing.T) {
	server := redistest.Standalone(t)
	answers := 0
	for _, sc := range gatetest.AllScenarios() {
		for _, format := range formats {
			var cost int64
			w := newTwin(t, server, sc.AllLimits(), format, httpgate.Cost(func(*http.Request) int64 { return cost }))
			for _, step := range sc.Steps {
				if step.Op == "take" && step.Repeat < 1000 {
					w.clock.SetMilli(step.T)
					cost = step.Cost
					for range max(1, step.Repeat) {
						w.get(step.Key)
						answers++
					}
				}
			}
			if t.Failed() {
				t.Fatalf("that was scenario %s", sc.ID)
			}
		}
	}
	if answers < 1000 {
		t.Errorf("only %d answers were compared", answers)
	}
}

// TestFieldsAndBodyOnRedis, to the byte, of an admitted and of a refused request.
func TestFieldsAndBodyOnRedis(t *testing.T) {
	server := redistest.Standalone(t)
	w := newTwin(t, server, []slidegate.Limit{slidegate.PerSecond(10).Named("burst"), slidegate.PerMinute(2).Named("sustained")})
	equal(t, "fields of the first", fields(w.get("a").Header()), `Ratelimit-Policy: "burst";q=10;w=1, "sustained";q=2;w=60
Ratelimit: "burst";r=9;t=1, "sustained";r=1;t=60`)
	w.clock.Advance(1500 * time.Millisecond)
	w.get("a")
	refused := w.get("a")
	equal(t, "status", refused.Code, 429)
	equal(t, "Retry-After", refused.Header().Get("Retry-After"), "59") // 58.5 s, rounded up
	equal(t, "another client", w.get("b").Code, 200)
	w.clock.Advance(58_499 * time.Millisecond)
	equal(t, "a millisecond early", w.get("a").Code, 429)
	w.clock.Advance(time.Millisecond)
	equal(t, "when it was told", w.get("a").Code, 200)
}

// TestACounterStandsBehindTheSameGate: the algorithm is a word of the limit.
func TestACounterStandsBehindTheSameGate(t *testing.T) {
	server := redistest.Standalone(t)
	w := newTwin(t, server, []slidegate.Limit{slidegate.PerMinute(4).Counter()})
	for _, want := range []int{200, 200, 200, 200, 429} {
		equal(t, "status", w.get("a").Code, want)
	}
	w.clock.SetMilli(1_796_032_860_000 + 30_000) // half of the next window: two of the four still weigh
	for _, want := range []int{200, 200, 429} {
		equal(t, "status in the next window", w.get("a").Code, want)
	}
}

// TestRoutesShareAGateOrHaveTheirOwn: one gate before two routes is one budget, so are two gates over one
// limiter, and a route without a gate has no limit.
func TestRoutesShareAGateOrHaveTheirOwn(t *testing.T) {
	server := redistest.Standalone(t)
	limiter := newLimiter(t, newStore(t, server), slidegate.PerHour(3))
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	one, two := httpgate.MustNew(limiter, httpgate.ByHeader("User")), httpgate.MustNew(limiter, httpgate.ByHeader("User"))
	mux := http.NewServeMux()
	mux.Handle("/a", one.Wrap(ok))
	mux.Handle("/b", one.Wrap(ok))
	mux.Handle("/c", two.Wrap(ok))
	mux.Handle("/free", ok)
	for _, c := range []struct {
		route string
		want  int
	}{{"/a", 200}, {"/b", 200}, {"/c", 200}, {"/a", 429}, {"/b", 429}, {"/c", 429}, {"/free", 200}} {
		w := get(mux, c.route, "u")
		equal(t, c.route, w.Code, c.want)
		equal(t, c.route+": fields", fields(w.Header()) == "", c.route == "/free")
	}
	equal(t, "another user", get(mux, "/a", "v").Code, 200)
}

// TestALoweredQuotaOfACounterKeepsItsHistory: four of four in the window before, three now, half of the
// window over: two still weigh, so one more is admitted.
func TestALoweredQuotaOfACounterKeepsItsHistory(t *testing.T) {
	server := redistest.Standalone(t)
	limiter, clock := clocked(t, server, slidegate.PerMinute(4).Counter().Named("n"))
	take(t, limiter, "a", 4)
	lower, err := limiter.With(slidegate.PerMinute(3).Counter().Named("n"))
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(90 * time.Second)
	n, d := take(t, lower, "a", 1)
	equal(t, "admitted, and left", []int64{int64(n), d.Remaining()}, "[1 0]")
	n, _ = take(t, lower, "a", 1)
	equal(t, "admitted when full", n, 0)
}
