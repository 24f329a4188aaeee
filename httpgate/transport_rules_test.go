package httpgate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A transcript answers requests one after the other as it is written; the last answer stays.
type transcript struct {
	mu      sync.Mutex
	answers []scripted
	sent    []time.Time
	bodies  []string
	last    *closing // the body of the latest answer
}

type scripted struct {
	status int
	fields []string
	err    error
	after  time.Duration
}

func (s *transcript) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	a := s.answers[min(len(s.sent), len(s.answers)-1)]
	s.sent = append(s.sent, time.Now())
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	s.bodies = append(s.bodies, body)
	s.last = &closing{Reader: strings.NewReader("answer")}
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: s.last, Request: r}
	for i := 0; i < len(a.fields); i += 2 {
		resp.Header.Add(a.fields[i], a.fields[i+1])
	}
	s.mu.Unlock()
	if a.after > 0 {
		<-time.After(a.after)
	}
	if a.err != nil {
		return nil, a.err
	}
	return resp, nil
}

// at returns when the requests were sent, since begin.
func (s *transcript) at(begin time.Time) (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.sent {
		all = append(all, t.Sub(begin))
	}
	return all
}

func plainly(t *testing.T, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// TestTransportObeys: what an answer says decides when the next request of the same host is sent.
func TestTransportObeys(t *testing.T) {
	const s, day = time.Second, 24 * time.Hour
	for name, c := range map[string]struct {
		status int
		fields []string
		want   time.Duration // between the answer and the next request
		option httpgate.TransportOption
	}{
		"a list":                    {200, []string{"RateLimit", `"a";r=0;t=7`}, 7 * s, nil},
		"of several the longest":    {200, []string{"RateLimit", `"a";r=0;t=7, "b";r=0;t=9, "c";r=1;t=99`}, 9 * s, nil},
		"several lines":             {200, []string{"RateLimit", `"a";r=0;t=7`, "RateLimit", `"b";r=0;t=9`}, 9 * s, nil},
		"one name twice":            {200, []string{"RateLimit", `"a";r=0;t=7, "a";r=9;t=9`}, 7 * s, nil},
		"one name twice, turned":    {200, []string{"RateLimit", `"a";r=9;t=9, "a";r=0;t=7`}, 7 * s, nil},
		"a Token":                   {200, []string{"RateLimit", `a;r=0;t=7`}, 7 * s, nil},
		"a dictionary":              {200, []string{"RateLimit", `limit=9, remaining=0, reset=7`}, 7 * s, nil},
		"draft 6":                   {200, []string{"RateLimit-Limit", "9", "RateLimit-Remaining", "0", "RateLimit-Reset", "7"}, 7 * s, nil},
		"GitLab":                    {200, []string{"RateLimit-Limit", "9", "RateLimit-Remaining", "0", "RateLimit-Reset", "1796040007", "Date", "Mon, 30 Nov 2026 12:00:00 GMT"}, 7 * s, nil},
		"GitHub":                    {200, []string{"X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796040007", "Date", "Mon, 30 Nov 2026 12:00:00 GMT"}, 7 * s, nil},
		"fastify":                   {200, []string{"X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"}, 7 * s, nil},
		"Envoy":                     {200, []string{"X-RateLimit-Limit", `9, 9;w=60;name="x"`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"}, 7 * s, nil},
		"a window, no reset":        {200, []string{"X-RateLimit-Limit", `9;w=60`, "X-RateLimit-Remaining", "0"}, 60 * s, nil},
		"no time at all":            {200, []string{"RateLimit", `"a";r=0`}, s, nil},
		"units are left":            {200, []string{"RateLimit", `"a";r=1;t=7`}, 0, nil},
		"no requests":               {200, []string{"RateLimit", `"a";r=0;t=7`, "RateLimit-Policy", `"a";q=9;w=60;qu="content-bytes"`}, 0, nil},
		"malformed":                 {200, []string{"RateLimit", `"a";r=0;t=7,`}, 0, nil},
		"negative":                  {200, []string{"RateLimit", `"a";r=-1;t=7`}, 0, nil},
		"cached":                    {200, []string{"RateLimit", `"a";r=0;t=7`, "Age", "1"}, 0, nil},
		"fresh":                     {200, []string{"RateLimit", `"a";r=0;t=7`, "Age", "0"}, 7 * s, nil},
		"a year":                    {200, []string{"RateLimit", `"a";r=0;t=31536000`}, day, nil},
		"for ever":                  {429, []string{"Retry-After", "99999999999999999999"}, day, nil},
		"refused":                   {429, []string{"Retry-After", "7"}, 7 * s, nil},
		"refused until a date":      {429, []string{"Retry-After", "Mon, 30 Nov 2026 12:00:07 GMT", "Date", "Mon, 30 Nov 2026 12:00:00 GMT"}, 7 * s, nil},
		"refused until now":         {429, []string{"Retry-After", "0"}, s, nil},
		"refused until yesterday":   {429, []string{"Retry-After", "Sun, 29 Nov 2026 12:00:07 GMT", "Date", "Mon, 30 Nov 2026 12:00:00 GMT"}, s, nil},
		"refused without a word":    {429, nil, s, nil},
		"refused with nonsense":     {429, []string{"Retry-After", "soon"}, s, nil},
		"refused with fields alone": {429, []string{"RateLimit", `"a";r=0;t=7, "b";r=1;t=9`}, 7 * s, nil},
		"Retry-After beats fields":  {429, []string{"RateLimit", `"a";r=0;t=7`, "Retry-After", "5"}, 5 * s, nil},
		"a cached refusal":          {429, []string{"Retry-After", "7", "Age", "60"}, 0, nil},
		"forbidden for a while":     {403, []string{"Retry-After", "7"}, 7 * s, nil},
		"forbidden":                 {403, nil, 0, nil},
		"forbidden, as GitHub does": {403, []string{"X-RateLimit-Limit", "9", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"}, 7 * s, nil},
		"moved":                     {301, []string{"Retry-After", "7"}, 0, nil},
		"unavailable":               {503, []string{"Retry-After", "7"}, 0, nil},
		"unavailable, by option":    {503, []string{"Retry-After", "7"}, 7 * s, httpgate.RetryUnavailable()},
		"unavailable for good":      {503, nil, 0, httpgate.RetryUnavailable()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &transcript{answers: []scripted{{status: c.status, fields: c.fields}, {status: 200}}}
				options := []httpgate.TransportOption{httpgate.MaxWait(2 * day), httpgate.Retries(0)}
				if c.option != nil {
					options = append(options, c.option)
				}
				rt := httpgate.MustNewTransport(next, options...)
				begin := time.Now()
				if status, err := plainly(t, rt, "http://a.test/"); status != c.status {
					t.Fatalf("got %d, %v", status, err)
				}
				// Another host is not concerned, nor is another port.
				for _, url := range []string{"http://b.test/", "http://a.test:81/", "https://a.test/"} {
					if _, err := plainly(t, rt, url); err != nil || time.Since(begin) != 0 {
						t.Errorf("%s: %v after %s", url, err, time.Since(begin))
					}
				}
				if status, err := plainly(t, rt, "http://A.test:80/"); status != 200 || time.Since(begin) != c.want {
					t.Errorf("got %d, %v after %s, want %s", status, err, time.Since(begin), c.want)
				}
			})
		})
	}
}

// TestTransportSendsAgain: what was refused, if it is safe, in time and not too often.
func TestTransportSendsAgain(t *testing.T) {
	refused := scripted{status: 429, fields: []string{"Retry-After", "2"}}
	fine := scripted{status: 200}
	opaque := func(r *http.Request) { r.GetBody = nil }
	broken := func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") } }
	for name, c := range map[string]struct {
		answers  []scripted
		body     string
		change   func(*http.Request)
		deadline time.Duration
		options  []httpgate.TransportOption
		status   int
		sent     int
	}{
		"without a body":        {answers: []scripted{refused, fine}, status: 200, sent: 2},
		"with a body":           {answers: []scripted{refused, refused, fine}, body: "data", status: 200, sent: 3},
		"not an opaque body":    {answers: []scripted{refused, fine}, body: "data", change: opaque, status: 429, sent: 1},
		"not a body that fails": {answers: []scripted{refused, fine}, body: "data", change: broken, status: 429, sent: 1},
		"three times":           {answers: []scripted{refused}, body: "data", status: 429, sent: 4},
		"once, by option":       {answers: []scripted{refused}, options: []httpgate.TransportOption{httpgate.Retries(1)}, status: 429, sent: 2},
		"never, by option":      {answers: []scripted{refused}, options: []httpgate.TransportOption{httpgate.Retries(0)}, status: 429, sent: 1},
		"not beyond MaxWait":    {answers: []scripted{refused}, options: []httpgate.TransportOption{httpgate.MaxWait(5 * time.Second)}, status: 429, sent: 3},
		"not without waiting":   {answers: []scripted{refused}, options: []httpgate.TransportOption{httpgate.MaxWait(0)}, status: 429, sent: 1},
		"not past a deadline":   {answers: []scripted{refused}, deadline: 3 * time.Second, status: 429, sent: 2},
		"not without a time":    {answers: []scripted{{status: 429}, fine}, status: 429, sent: 1},
		"by the fields":         {answers: []scripted{{status: 429, fields: []string{"RateLimit", `"a";r=0;t=2`}}, fine}, status: 200, sent: 2},
		"no 403":                {answers: []scripted{{status: 403, fields: []string{"Retry-After", "2"}}, fine}, status: 403, sent: 1},
		"no 403 by option": {answers: []scripted{{status: 403, fields: []string{"Retry-After", "2"}}, fine},
			options: []httpgate.TransportOption{httpgate.RetryUnavailable()}, status: 403, sent: 1},
		"no 503": {answers: []scripted{{status: 503, fields: []string{"Retry-After", "2"}}, fine}, status: 503, sent: 1},
		"a 503 by option": {answers: []scripted{{status: 503, fields: []string{"Retry-After", "2"}}, fine},
			options: []httpgate.TransportOption{httpgate.RetryUnavailable()}, status: 200, sent: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &transcript{answers: c.answers}
				rt := httpgate.MustNewTransport(next, c.options...)
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				var body io.Reader
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				r, err := http.NewRequestWithContext(ctx, "POST", "http://a.test/", body)
				if err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					c.change(r)
				}
				before, begin := *r, time.Now()
				resp, err := rt.RoundTrip(r)
				if err != nil || resp.StatusCode != c.status || len(next.sent) != c.sent {
					t.Fatalf("got %v, %v, sent %d times", resp, err, len(next.sent))
				}
				if r.Body != before.Body || r.URL != before.URL || len(r.Header) != len(before.Header) {
					t.Error("the request was changed")
				}
				if text, err := io.ReadAll(resp.Body); string(text) != "answer" || err != nil || next.last.closed != 0 {
					t.Errorf("the answer is %q, %v", text, err)
				}
				for i, at := range next.at(begin) {
					if at != time.Duration(i)*2*time.Second || next.bodies[i] != c.body {
						t.Errorf("sent %q at %s", next.bodies[i], at)
					}
				}
			})
		})
	}
}

// TestTransportFailsAtOnce: what cannot be served in time fails when that is known, with the time to
// wait, and its body is closed.
func TestTransportFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=9`, "RateLimit-Policy", `"a";q=10;w=10`}}}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(8*time.Second))
		if _, err := plainly(t, rt, "http://a.test/"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second / 2)
		for _, deadline := range []time.Duration{5 * time.Second, time.Hour} {
			r, body := post(t, "http://a.test/")
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			begin := time.Now()
			_, err := rt.RoundTrip(r.WithContext(ctx))
			cancel()
			var early *httpgate.TooSoonError
			if !errors.As(err, &early) || early.Wait != 8500*time.Millisecond || early.Policy != "a" || time.Since(begin) != 0 || body.closed != 1 {
				t.Errorf("got %v after %s", err, time.Since(begin))
			}
			if errors.Is(err, context.DeadlineExceeded) != (deadline < time.Hour) {
				t.Errorf("with %s: %v", deadline, err)
			}
			if text := err.Error(); !strings.Contains(text, "8.5s") || !strings.Contains(text, `"a"`) {
				t.Error(text)
			}
		}
		<-time.After(time.Second / 2)
		begin := time.Now()
		if _, err := plainly(t, rt, "http://a.test/"); err != nil || time.Since(begin) != 8*time.Second {
			t.Errorf("at the bound: %v after %s", err, time.Since(begin))
		}
		if len(next.sent) != 2 {
			t.Errorf("%d were sent", len(next.sent))
		}
	})
}

// TestTransportWaitersLeave: who gives up is not sent, takes nobody's place, and leaves nothing behind.
func TestTransportWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=10`}}, {status: 200}}}
		rt := httpgate.MustNewTransport(next)
		if _, err := plainly(t, rt, "http://a.test/"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			r, body := post(t, "http://a.test/")
			wg.Go(func() {
				_, err := rt.RoundTrip(r.WithContext(ctx))
				if left := i != 9; left != (err == context.Canceled) || body.closed != 1 {
					t.Errorf("%d: %v", i, err)
				}
			})
			if i != 9 {
				time.AfterFunc(time.Duration(i)*time.Second, cancel)
			} else {
				defer cancel()
			}
		}
		begin := time.Now()
		wg.Wait()
		if at := next.at(begin); len(at) != 2 || at[1] != 10*time.Second {
			t.Errorf("sent at %s", at)
		}
	})
}

// TestTransportGoneBefore: who has given up before it asks is not sent.
func TestTransportGoneBefore(t *testing.T) {
	next := &transcript{answers: []scripted{{status: 200}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, body := post(t, "http://a.test/")
	if _, err := httpgate.MustNewTransport(next).RoundTrip(r.WithContext(ctx)); err != context.Canceled || body.closed != 1 || len(next.sent) != 0 {
		t.Errorf("got %v, sent %d times", err, len(next.sent))
	}
}

// TestTransportSpreadsAReset: after a reset one request asks how much is left, and the rest follow one
// by one, in the order in which they came.
func TestTransportSpreadsAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := []string{"RateLimit-Policy", `"a";q=20;w=10`}
		next := &transcript{answers: []scripted{
			{status: 200, fields: append(policy, "RateLimit", `"a";r=0;t=10`)},
			{status: 200, fields: append(policy, "RateLimit", `"a";r=19;t=10`), after: 700 * time.Millisecond},
			{status: 200, fields: append(policy, "RateLimit", `"a";r=10;t=10`)},
		}}
		rt := httpgate.MustNewTransport(next)
		begin := time.Now()
		if _, err := plainly(t, rt, "http://a.test/"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := plainly(t, rt, "http://a.test/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := "[0s 10s 10.7s 11.2s 11.7s 12.2s]"
		if got := fmt.Sprint(next.at(begin)); got != want {
			t.Errorf("sent at %s, want %s", got, want)
		}
	})
}

// TestTransportSpreadsManyQuickly: a thousand that wait for a reset of a wide limit do not take a
// timer each.
func TestTransportSpreadsManyQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := []string{"RateLimit-Policy", `"a";q=100000;w=1`}
		next := &transcript{answers: []scripted{
			{status: 200, fields: append(policy, "RateLimit", `"a";r=0;t=1`)},
			{status: 200, fields: append(policy, "RateLimit", `"a";r=99999;t=1`)},
		}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(math.MaxInt64))
		begin := time.Now()
		var wg sync.WaitGroup
		for range 1001 {
			wg.Go(func() {
				if _, err := plainly(t, rt, "http://a.test/"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took < time.Second+9*time.Millisecond || took > time.Second+12*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// TestTransportFirstAnswer: the first request goes alone; if its answer takes more than a second, the
// others go; if it fails, another goes first.
func TestTransportFirstAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		first scripted
		want  string
	}{
		"no fields":    {scripted{status: 200, after: 300 * time.Millisecond}, "[0s 300ms 300ms 300ms]"},
		"two are left": {scripted{status: 200, fields: []string{"RateLimit", `"a";r=2;t=5`}, after: 300 * time.Millisecond}, "[0s 300ms 300ms 5.3s]"},
		"slow":         {scripted{status: 200, after: time.Minute}, "[0s 1s 1s 1s]"},
		"lost":         {scripted{err: io.ErrUnexpectedEOF, after: 300 * time.Millisecond}, "[0s 300ms 300ms 300ms]"},
		"nobody there": {scripted{err: &net.OpError{Op: "dial", Err: io.EOF}, after: 300 * time.Millisecond}, "[0s 300ms 300ms 300ms]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &transcript{answers: []scripted{c.first,
					{status: 200, fields: []string{"RateLimit", `"a";r=1;t=5`}},
					{status: 200, fields: []string{"RateLimit", `"a";r=0;t=5`}}}}
				if c.first.fields == nil {
					next.answers[1].fields, next.answers[2].fields = nil, nil
				}
				rt := httpgate.MustNewTransport(next, httpgate.MaxWait(10*time.Second))
				begin := time.Now()
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { _, _ = plainly(t, rt, "http://a.test/") })
					synctest.Wait()
				}
				wg.Wait()
				if got := fmt.Sprint(next.at(begin)); got != c.want {
					t.Errorf("sent at %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestTransportTurnsAwayAtOnce: who waits for a first answer, and learns from it that the wait is too
// long, fails then.
func TestTransportTurnsAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=20`}, after: 300 * time.Millisecond}}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(10*time.Second))
		begin := time.Now()
		var wg sync.WaitGroup
		var failed atomic.Int64
		for range 4 {
			wg.Go(func() {
				r, body := post(t, "http://a.test/")
				_, err := rt.RoundTrip(r)
				var early *httpgate.TooSoonError
				if errors.As(err, &early) && early.Wait == 20*time.Second && early.Policy == "a" && time.Since(begin) == 300*time.Millisecond && body.closed == 1 {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if failed.Load() != 3 || len(next.sent) != 1 {
			t.Errorf("%d failed, %d were sent", failed.Load(), len(next.sent))
		}
	})
}

// TestTransportSendsTheRefusedFirst: before those that came later and have not been sent.
func TestTransportSendsTheRefusedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{answers: []scripted{{status: 429, fields: []string{"Retry-After", "2"}, after: 300 * time.Millisecond}, {status: 200}}}
		rt := httpgate.MustNewTransport(next)
		var wg sync.WaitGroup
		for i := range 4 {
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://a.test/", strings.NewReader(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { _, _ = rt.RoundTrip(r) })
			synctest.Wait()
		}
		wg.Wait()
		if got := fmt.Sprint(next.bodies); got != "[0 0 1 2 3]" {
			t.Errorf("sent in order %s", got)
		}
	})
}

// TestTransportAnswersOvertake: of answers that overlap the best one counts, whichever comes last.
func TestTransportAnswersOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=10;t=99`}}}
		for i := range 10 {
			answers = append(answers, scripted{
				status: 200, fields: []string{"RateLimit", fmt.Sprintf(`"a";r=%d;t=99`, 9-i)}, after: time.Duration(i+1) * time.Millisecond,
			})
		}
		next := &transcript{answers: answers}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0))
		if _, err := plainly(t, rt, "http://a.test/"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if _, err := plainly(t, rt, "http://a.test/"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if _, err := plainly(t, rt, "http://a.test/"); err == nil {
			t.Error("the eleventh of ten is sent")
		}
	})
}

// TestTransportUnspokenPolicies: a request whose answer does not speak of a policy was not charged to it.
func TestTransportUnspokenPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := scripted{status: 200, fields: []string{"RateLimit", `"a";r=1;t=60`, "RateLimit-Policy", `"a";q=2;w=60`}}
		next := &transcript{answers: []scripted{limited, {status: 200}}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0))
		for range 50 {
			if _, err := plainly(t, rt, "http://a.test/"); err != nil {
				t.Fatal(err)
			}
		}
		next.answers = []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=60`}}}
		if _, err := plainly(t, rt, "http://a.test/"); err != nil {
			t.Fatal(err)
		}
		if _, err := plainly(t, rt, "http://a.test/"); err == nil {
			t.Error("the policy is forgotten")
		}
	})
}

// TestTransportOutdatedPolicies: a policy that answers no longer speak of is forgotten: with a quota
// an hour after it was last heard of, otherwise soon.
func TestTransportOutdatedPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		first   scripted
		after   time.Duration
		bounded bool
	}{
		"quota":                   {scripted{status: 200, fields: []string{"RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=2;w=2`}}, 59 * time.Minute, true},
		"quota, an hour later":    {scripted{status: 200, fields: []string{"RateLimit", `"a";r=0;t=2`, "RateLimit-Policy", `"a";q=2;w=2`}}, 61 * time.Minute, false},
		"no quota":                {scripted{status: 429, fields: []string{"Retry-After", "2"}}, 5 * time.Second, true},
		"no quota, a while later": {scripted{status: 429, fields: []string{"Retry-After", "2"}}, 7 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := &transcript{answers: []scripted{c.first, {status: 200, after: 100 * time.Millisecond}}}
				rt := httpgate.MustNewTransport(next, httpgate.Retries(0))
				_, _ = plainly(t, rt, "http://a.test/")
				<-time.After(c.after)
				_, _ = plainly(t, rt, "http://a.test/") // its answer does not speak of the policy
				next.sent, next.answers = nil, next.answers[1:]
				begin := time.Now()
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() { _, _ = plainly(t, rt, "http://a.test/") })
				}
				wg.Wait()
				if all := next.at(begin); (all[len(all)-1] > 0) != c.bounded {
					t.Errorf("sent at %s", all)
				}
			})
		})
	}
}

// TestTransportSharedBudget: where somebody else spends the budget too, refusals are few: each is one that
// nobody could foresee, and is waited out.
func TestTransportSharedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		limiter := slidegate.MustNew(store, slidegate.PerMinute(60))
		l := newLoop(t, limiter, 20*time.Millisecond, nil, httpgate.MaxWait(time.Hour))
		stop := make(chan struct{})
		var other sync.WaitGroup
		other.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(1500 * time.Millisecond): // two thirds of the rate
					_, _ = limiter.Take(context.Background(), "ip:192.0.2.1")
				}
			}
		})
		l.work(t, 5, 80)
		close(stop)
		other.Wait()
		t.Logf("%d refused", l.refused.Load())
		if n := l.refused.Load(); n > 10 {
			t.Errorf("%d of %d were refused", n, l.served.Load()+n)
		}
	})
}

// TestTransportHostileAnswers: whatever a server answers, memory and time stay bounded.
func TestTransportHostileAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := &strings.Builder{}
		for i := range 1000 {
			fmt.Fprintf(many, `"p%d";r=999999999999999;t=999999999999999,`, i)
		}
		many.WriteString(`"last";r=1;t=0`)
		next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", many.String()}}}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0))
		for range 1000 {
			if _, err := plainly(t, rt, "http://a.test/"); err != nil {
				t.Fatal(err)
			}
		}
		next.answers = []scripted{{status: 200, fields: []string{"RateLimit", `"x";r=0;t=999999999999999`, "RateLimit-Policy", `"x";q=999999999999999;w=999999999999999`}}}
		for range 2 {
			if _, err := plainly(t, rt, "http://b.test/"); err != nil {
				t.Fatal(err)
			}
			_, err := plainly(t, rt, "http://b.test/")
			var early *httpgate.TooSoonError
			if !errors.As(err, &early) || early.Wait != 24*time.Hour {
				t.Errorf("got %v", err)
			}
			<-time.After(24 * time.Hour)
		}
	})
}

// TestTransportManyPolicies: a host that announces ever more names is held to the last ones.
func TestTransportManyPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{}
		for i := range 100 {
			next.answers = append(next.answers, scripted{status: 200, fields: []string{"RateLimit", fmt.Sprintf(`"p%d";r=9;t=%d`, i, 100+i)}})
		}
		next.answers = append(next.answers, scripted{status: 200, fields: []string{"RateLimit", `"last";r=0;t=9999`}})
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0))
		for range 101 {
			if _, err := plainly(t, rt, "http://a.test/"); err != nil {
				t.Fatal(err)
			}
		}
		var early *httpgate.TooSoonError
		if _, err := plainly(t, rt, "http://a.test/"); !errors.As(err, &early) || early.Policy != "last" {
			t.Errorf("got %v", err)
		}
	})
}

// TestTransportDeadlineAndTurnAtOnce: whose deadline comes at the very moment of its turn is sent or
// is not, and takes nobody's place if it is not.
func TestTransportDeadlineAndTurnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=10`}}, {status: 200}}}
			rt := httpgate.MustNewTransport(next)
			if _, err := plainly(t, rt, "http://a.test/"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			r, body := post(t, "http://a.test/")
			_, err := rt.RoundTrip(r.WithContext(ctx))
			cancel()
			if err != nil && err != context.DeadlineExceeded || body.closed != 1 || (err == nil) != (len(next.sent) == 2) {
				t.Fatalf("round %d: %v, sent %d times", i, err, len(next.sent))
			}
			begin := time.Now()
			if _, err := plainly(t, rt, "http://a.test/"); err != nil || time.Since(begin) > 0 {
				t.Fatalf("round %d: the next got %v after %s", i, err, time.Since(begin))
			}
		}
	})
}

// TestTransportMemory: neither servers that name policies at length, and each time others, nor what a redirect may
// call a host take more than a little memory.
func TestTransportMemory(t *testing.T) {
	asked := 0
	rt := httpgate.MustNewTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		asked++
		field := fmt.Sprintf(`"%d%s";r=1000000;t=1`, asked, strings.Repeat("x", 30_000))
		return &http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {field}}, Body: http.NoBody, Request: r}, nil
	}), httpgate.MaxHosts(100))
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for range 16 {
		for host := range 100 {
			if status, err := plainly(t, rt, fmt.Sprintf("http://%s%d.test/", strings.Repeat("a", 50_000), host)); status != 200 {
				t.Fatal(err)
			}
		}
	}
	if grown := held() - before; grown > 4<<20 {
		t.Errorf("100 hosts take %d bytes", grown)
	}
	runtime.KeepAlive(rt)
}

// TestTransportMaxHosts: one host more than are remembered makes it forget one.
func TestTransportMaxHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=60`}}}}
		rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0), httpgate.MaxHosts(3))
		refused := func(host string) bool {
			_, err := plainly(t, rt, "http://"+host)
			<-time.After(time.Millisecond)
			return err != nil
		}
		for _, c := range []struct {
			host string
			want bool
		}{{"a", false}, {"b", false}, {"c", false}, {"a", true}, {"b", true}, {"c", true}, {"d", false}, {"b", true}, {"c", true}, {"d", true}, {"a", false}} {
			if got := refused(c.host); got != c.want {
				t.Errorf("%s: held back is %v", c.host, got)
			}
		}
	})
}

// TestTransportForgetsAmongMany: of many hosts no more are remembered than may be, and the newest is.
func TestTransportForgetsAmongMany(t *testing.T) {
	const most = 20
	next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=60`}}}}
	rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0), httpgate.MaxHosts(most))
	refused := func(host int) bool {
		_, err := plainly(t, rt, fmt.Sprintf("http://%d.test", host))
		return err != nil
	}
	for host := range 2 * most {
		if refused(host) {
			t.Errorf("host %d was never asked, and is held back", host)
		}
	}
	if !refused(2*most - 1) {
		t.Error("the host that was asked last is forgotten")
	}
	n := 0
	for host := range 2 * most {
		if refused(host) {
			n++
		}
	}
	if n > most {
		t.Errorf("%d hosts are held back, and %d are remembered", n, most)
	}
}

// TestTransportOfNoURL leaves it to the transport behind it to say what is wrong.
func TestTransportOfNoURL(t *testing.T) {
	resp, err := httpgate.MustNewTransport(nil).RoundTrip(&http.Request{Header: http.Header{}})
	if err == nil {
		resp.Body.Close()
		t.Fatal("it was sent")
	}
	if !strings.Contains(err.Error(), "nil Request.URL") {
		t.Error(err)
	}
}

// TestTransportBudgetBy: one budget for what f names alike, whatever the host.
func TestTransportBudgetBy(t *testing.T) {
	next := &transcript{answers: []scripted{{status: 200, fields: []string{"RateLimit", `"a";r=0;t=60`}}}}
	rt := httpgate.MustNewTransport(next, httpgate.MaxWait(0), httpgate.BudgetBy(func(r *http.Request) string {
		return strings.TrimPrefix(r.URL.Path, "/")
	}))
	for _, c := range []struct {
		url  string
		want bool
	}{{"http://a/x", true}, {"http://b/x", false}, {"http://a/y", true}, {"http://a/", true}, {"http://b/", true}, {"http://a/", false}} {
		if _, err := plainly(t, rt, c.url); (err == nil) != c.want {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

// TestTransportOnSockets: a real server and a real client, whose waits pass on a clock set by hand.
func TestTransportOnSockets(t *testing.T) {
	for _, format := range transportFormats {
		for _, limit := range []slidegate.Limit{slidegate.Per(10*time.Second, 5), slidegate.Per(10*time.Second, 5).Counter()} {
			t.Run(format.name+"/"+limit.String(), func(t *testing.T) {
				clock := gatetest.NewClock(time.Unix(1_700_000_000, 0))
				limiter := slidegate.MustNew(memstore.New(memstore.WithClock(clock.Now)), limit)
				var refused atomic.Int64
				gate := httpgate.MustNew(limiter, httpgate.Headers(format.set...), httpgate.Observe(func(e *httpgate.Event) {
					if !e.Decision.Allowed {
						refused.Add(1)
					}
				}))
				inner := gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Date", clock.Now().UTC().Format(http.TimeFormat))
					inner.ServeHTTP(w, r)
				}))
				defer server.Close()
				base := &http.Transport{}
				defer base.CloseIdleConnections()
				client := &http.Client{Transport: httpgate.MustNewTransport(base, httpgate.MaxWait(0), httpgate.TransportClock(clock.Now))}
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						for done, tries := 0, 0; done < 10 && tries < 10_000; tries++ {
							resp, err := client.Get(server.URL)
							var early *httpgate.TooSoonError
							if errors.As(err, &early) {
								clock.Advance(50 * time.Millisecond)
								runtime.Gosched()
								continue
							}
							if err != nil {
								t.Error(err)
								return
							}
							if resp.StatusCode != 200 {
								t.Errorf("got %d", resp.StatusCode)
							}
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
							done++
						}
					})
				}
				wg.Wait()
				if n := refused.Load(); n != 0 {
					t.Errorf("%d were refused", n)
				}
			})
		}
	}
}

// TestTransportPassesThrough: streams, trailers and upgrades are as they were.
func TestTransportPassesThrough(t *testing.T) {
	mux := http.NewServeMux()
	release := make(chan struct{})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-End")
		io.WriteString(w, "one ")
		http.NewResponseController(w).Flush()
		<-release
		io.WriteString(w, "two")
		w.Header().Set("X-End", "yes")
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString("echo " + line)
		rw.Flush()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	base := &http.Transport{}
	client := &http.Client{Transport: httpgate.MustNewTransport(httpgate.MustNewOutgoing(slidegate.MustNew(memstore.New(), slidegate.PerMinute(100)), base))}
	defer client.CloseIdleConnections()

	resp, err := client.Get(server.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "one " {
		t.Errorf("first %q, %v", first, err)
	}
	close(release)
	rest, err := io.ReadAll(resp.Body)
	if string(rest) != "two" || err != nil || resp.Trailer.Get("X-End") != "yes" {
		t.Errorf("then %q, %v, trailer %v", rest, err, resp.Trailer)
	}
	resp.Body.Close()

	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/upgrade", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err = client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body of %d is a %T", resp.StatusCode, resp.Body)
	}
	io.WriteString(conn, "hello\n")
	if got, _ := io.ReadAll(conn); !bytes.Equal(got, []byte("echo hello\n")) {
		t.Errorf("got %q", got)
	}
}

// TestTransportSurvivesAPanic: of what it sends through, others are not held up.
func TestTransportSurvivesAPanic(t *testing.T) {
	panics := true
	rt := httpgate.MustNewTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		if panics {
			panic("boom")
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	}), httpgate.MaxWait(0))
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic is lost")
			}
		}()
		_, _ = plainly(t, rt, "http://a.test/")
	}()
	panics = false
	if _, err := plainly(t, rt, "http://a.test/"); err != nil {
		t.Error(err)
	}
}

func TestTransportOptionsThatCannotBe(t *testing.T) {
	for name, option := range map[string]httpgate.TransportOption{
		"nil":              nil,
		"MaxWait -1ns":     httpgate.MaxWait(-1),
		"Retries -1":       httpgate.Retries(-1),
		"Retries 101":      httpgate.Retries(101),
		"BudgetBy":         httpgate.BudgetBy(nil),
		"MaxHosts 0":       httpgate.MaxHosts(0),
		"MaxHosts 1000001": httpgate.MaxHosts(1_000_001),
		"Presume":          httpgate.Presume(),
		"quota 0":          httpgate.Presume(slidegate.PerMinute(0)),
		"TransportClock":   httpgate.TransportClock(nil),
	} {
		rt, err := httpgate.NewTransport(nil, option)
		if rt != nil || !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustNewTransport does not panic")
		}
	}()
	httpgate.MustNewTransport(nil, nil)
}

// TestTransportAllocates nothing for a request that is sent at once.
func TestTransportAllocates(t *testing.T) {
	for name, h := range map[string]http.Header{
		"no fields": {},
		"draft-8":   {"Ratelimit": {`"burst";r=999;t=1, "day";r=99999;t=60`}, "Ratelimit-Policy": {`"burst";q=1000;w=1, "day";q=100000;w=60`}},
		"draft-7":   {"Ratelimit": {`limit=1000, remaining=999, reset=1`}, "Ratelimit-Policy": {`1000;w=1, 100000;w=60`}},
		"legacy":    {"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"4999"}, "X-Ratelimit-Reset": {"1796040030"}, "Date": {"Mon, 30 Nov 2026 12:00:00 GMT"}},
	} {
		answer := &http.Response{StatusCode: 200, Header: h, Body: http.NoBody}
		rt := httpgate.MustNewTransport(roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil }))
		r := httptest.NewRequest("GET", "https://a.test/", nil)
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := rt.RoundTrip(r); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
