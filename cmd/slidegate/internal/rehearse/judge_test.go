package rehearse_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/memstore"
)

const file = `
exempt: [GET /healthz]
deny: [198.51.100.0/24]
rules:
  - {name: login, path: /login, methods: POST, limits: [2/10s, 5/1m], ban: {strikes: 3/1m, length: 2m}}
  - {name: tried, path: /api/, key: ip+path, limits: 1/10s, mode: shadow}
  - {name: api, path: /api/, key: header:User-Agent, limits: 20/1m, refund-if-status: 5xx}
  - {name: rest, methods: GET, limits: 30/1m}
`

// A line is a request of an access log.
type line struct {
	at                             time.Time
	address, method, target, agent string
	status                         int
}

func (l line) String() string {
	return fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %d 12 "-" "%s"`, l.address, l.at.Format("02/Jan/2006:15:04:05 -0700"), l.method, l.target, l.status, l.agent)
}

// request is what the server that wrote the line had.
func (l line) request(t *testing.T) *http.Request {
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: example.com\r\nUser-Agent: %s\r\n\r\n", l.method, l.target, l.agent)
	q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	q.RemoteAddr = net.JoinHostPort(l.address, "1")
	return q
}

func lines(seed uint64, n int) []line {
	r := rand.New(rand.NewPCG(seed, 2))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	all := make([]line, n)
	for i := range all {
		at = at.Add(time.Duration(r.IntN(3)) * time.Second)
		all[i] = line{at, pick("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::2", "198.51.100.9"), pick("GET", "GET", "POST"),
			pick("/", "/healthz", "/healthz?x=1", "/login", "/login", "/%6Cogin", "//login/", "/api/a", "/api/b?c", "/api/a%2Fb", "/stra%C3%9Fe"),
			pick("curl/8", "Mozilla/5.0 (X11)"), []int{200, 200, 404, 503}[r.IntN(4)]}
	}
	return all
}

// TestALogIsDecidedAsServeWouldHave: every line has the verdict that the rules engine of serve gives to the request from
// which a server wrote it, over a store on the same clock.
func TestALogIsDecidedAsServeWouldHave(t *testing.T) {
	path := written(t, "rules.yaml", file)
	for seed := range uint64(5) {
		all := lines(seed, 1500)
		want := served(t, path, all)
		admitted := 0
		judged(t, path, all, func(i int, v *rehearse.Verdict, _ *rules.Matching) {
			if v.Admitted != want[i] {
				t.Errorf("seed %d: line %d, %s: admitted %v, want %v", seed, i+1, all[i], v.Admitted, want[i])
			}
			if v.Admitted {
				admitted++
			}
		})
		if admitted == 0 || admitted == len(all) {
			t.Errorf("%d of %d admitted: nothing is tried", admitted, len(all))
		}
	}
}

// served returns who was admitted by the handler of the engine.
func served(t *testing.T, path string, all []line) (admitted []bool) {
	f, o, err := serve.RulesOf(path, "")
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	defer store.Close()
	o.Store = store
	engine, err := rules.New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		now = l.at
		passed := false
		engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			passed = true
			w.WriteHeader(l.status)
		})).ServeHTTP(httptest.NewRecorder(), l.request(t))
		admitted = append(admitted, passed)
	}
	return admitted
}

// judged tells the verdict of every line.
func judged(t *testing.T, path string, all []line, tell func(i int, v *rehearse.Verdict, m *rules.Matching)) *rehearse.Policy {
	t.Helper()
	policy, err := rehearse.File(path, "")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, l := range all {
		fmt.Fprintln(&text, l)
	}
	flags := source.Flags{Format: "auto", Key: "ip"}
	s, err := flags.Parse("replay", []string{written(t, "access.log", text.String())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	book := rehearse.NewBook(policy)
	s.Ask(book.Subjects)
	log, tl, err := s.Read(context.Background(), new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	defer tl.Close()
	if bad := log.Bad(); bad.Count > 0 {
		t.Fatal(bad.Sentence())
	}
	book.Of(&tl.Subjects)
	judge, _, err := policy.Judge(rehearse.AsGiven, 0)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	err = tl.Each(context.Background(), func(e *timeline.Event) error {
		v, err := judge.Decide(context.Background(), e, book.Asked(e))
		if err == nil {
			tell(i, v, book.Asked(e).Matching(0))
		}
		i++
		return err
	})
	if err != nil || i != len(all) {
		t.Fatalf("%d lines of %d: %v", i, len(all), err)
	}
	return policy
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhatALogDoesNotHaveIsSaid once for each part, and nothing that it has.
func TestWhatALogDoesNotHaveIsSaid(t *testing.T) {
	path := written(t, "rules.yaml", `
rules:
  - {name: a, key: header:X-API-Key+method, limits: 1/1s, request-headers: {User-Agent: true, X-Debug: false}}
  - {name: b, host: example.com, path: /b, key: cookie:session, limits: 1/1s, plan-by: header:X-Plan, plans: {gold: 9/1s}, cost: header:X-Cost}
  - {name: c, key: header:X-API-Key, limits: 1/1s, refund-if-status: 5xx}
  - {name: d, key: header:X-Off, limits: 1/1s, mode: off}
`)
	policy := judged(t, path, lines(1, 3), func(int, *rehearse.Verdict, *rules.Matching) {})
	got := strings.Join(policy.Unmet(), "\n")
	want := "the header X-Debug: a condition of a\nthe header X-Api-Key: the key of a, the key of c\nthe host: a condition of b\n" +
		"the cookie session: the key of b\nthe header X-Cost: the cost of b\nthe header X-Plan: plan-by of b"
	if got != want {
		t.Errorf("the log does not have\n%s\nwant\n%s", got, want)
	}
}

// TestFixedWindowsBeginAtMultiples of the window, for each key and limit, and give back what was charged in theirs.
func TestFixedWindowsBeginAtMultiples(t *testing.T) {
	ctx := context.Background()
	memory := rehearse.NewMemory(rehearse.Fixed, 1)
	limiter := slidegate.MustNew(memory.Store(), slidegate.PerSecond(3), slidegate.PerMinute(5))
	for _, step := range []struct {
		at, cost int64
		key      string
		want     bool
		retry    time.Duration
	}{
		{900, 3, "a", true, 0},
		{999, 1, "a", false, time.Millisecond},
		{999, 1, "b", true, 0},
		{1000, 2, "a", true, 0},
		{2000, 1, "a", false, 58 * time.Second},
		{60_000, 3, "a", true, 0},
	} {
		memory.At(step.at)
		peeked, err := limiter.PeekN(ctx, step.key, step.cost)
		if err != nil {
			t.Fatal(err)
		}
		d, err := limiter.TakeN(ctx, step.key, step.cost)
		if err != nil || d.Allowed != step.want || peeked.Allowed != step.want || d.RetryAfter() != step.retry {
			t.Errorf("%+v: %v, peeked %v, %v", step, d, peeked, err)
		}
	}
	memory.At(60_001)
	d, _ := limiter.TakeN(ctx, "b", 3)
	if err := limiter.Refund(ctx, &d); err != nil {
		t.Fatal(err)
	}
	if again, _ := limiter.TakeN(ctx, "b", 3); !again.Allowed {
		t.Errorf("what was given back is not there: %v", again)
	}
	if err := limiter.Reset(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if again, _ := limiter.TakeN(ctx, "b", 3); !again.Allowed {
		t.Errorf("what was reset still counts: %v", again)
	}
}
