package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/servetest"
)

// A verdict is what a request came to.
type verdict uint8

const (
	admitted verdict = iota
	refused
	passed     // not decided, and let through
	turnedAway // not decided, and told so
	lost       // not answered
	wrong      // anything else
)

func (v verdict) String() string {
	return [...]string{"admitted", "refused", "passed", "turned away", "lost", "wrong"}[v]
}

func (v verdict) isDecision() bool { return v <= refused }

// A call is one request, as its client saw it.
type call struct {
	begin, end time.Time
	verdict    verdict
	note       string // of one that is lost or wrong
}

func (c call) took() time.Duration { return c.end.Sub(c.begin) }

// pace is how long a voice waits from one request to the next.
const pace = 40 * time.Millisecond

// A voice asks one door, or one limiter, again and again, and notes what it gets.
type voice struct {
	name      string
	at        *servetest.Replica // nil for a limiter in this process
	undecided verdict            // what its policy makes of a request that cannot be decided; admitted where there is none
	budget    *budget
	isBackup  bool // it decides by a share while Redis is away
	ask       func() (verdict, string)

	mu    sync.Mutex
	calls []call
}

// speak asks until ctx ends. What is under way then is waited for.
func (v *voice) speak(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		c := call{begin: time.Now()}
		c.verdict, c.note = v.ask()
		c.end = time.Now()
		v.mu.Lock()
		v.calls = append(v.calls, c)
		v.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heard returns what there is so far of the requests that began at a time or later.
func (v *voice) heard(since time.Time) []call {
	v.mu.Lock()
	defer v.mu.Unlock()
	first, _ := slices.BinarySearchFunc(v.calls, since, func(c call, t time.Time) int { return c.begin.Compare(t) })
	return slices.Clone(v.calls[first:])
}

// within returns those that began and ended between two times.
func (v *voice) within(from, to time.Time) []call {
	return slices.DeleteFunc(v.heard(from), func(c call) bool { return c.end.After(to) })
}

// count tells how many of the calls a test holds for.
func count(calls []call, test func(call) bool) (n int) {
	for _, c := range calls {
		if test(c) {
			n++
		}
	}
	return n
}

func isDecided(c call) bool   { return c.verdict.isDecision() }
func isUndecided(c call) bool { return !c.verdict.isDecision() }

// who is the client that all the voices speak for, and key what it is counted under.
const (
	who = "somebody"
	key = "header:X-Client:" + who
)

// A question is a request to a door. The URL of its process is not known yet.
type question struct {
	door, method, path, body string
	fields                   []string // names and values
}

var (
	toProxy = question{door: servetest.Proxy, method: "GET", path: "/", fields: []string{"X-Client", who}}
	toAuth  = question{door: servetest.Auth, method: "GET", path: "/auth", fields: []string{
		"X-Client", who, "X-Original-Method", "GET", "X-Original-URI", "/", "X-Forwarded-For", "203.0.113.7",
	}}
	toAPI = question{door: servetest.API, method: "POST", path: "/v1/take", body: `{"key":"` + key + `"}`, fields: inJSON}
	toRLS = question{door: servetest.RLS, method: "POST", path: "/json", body: `{"domain":"chaos","descriptors":[{"entries":[{"key":"client","value":"` + who + `"}]}]}`, fields: inJSON}

	inJSON = []string{"Content-Type", "application/json"}
)

// at returns what asks a question at a replica, on one connection while that lasts.
func (q question) at(r *servetest.Replica, client *http.Client) func() (verdict, string) {
	return func() (verdict, string) {
		request, err := http.NewRequest(q.method, r.Door(q.door)+q.path, strings.NewReader(q.body))
		if err != nil {
			return wrong, err.Error()
		}
		for i := 0; i < len(q.fields); i += 2 {
			request.Header.Set(q.fields[i], q.fields[i+1])
		}
		response, err := client.Do(request)
		if err != nil {
			return lost, err.Error()
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return lost, err.Error()
		}
		return q.judge(response.StatusCode, response.Header)
	}
}

// judge tells what an answer means. Where a request was not decided no field may speak of limits.
func (q question) judge(status int, h http.Header) (verdict, string) {
	fields, retry := h.Get("RateLimit") != "", h.Get("Retry-After") != ""
	if q.door == servetest.RLS {
		fields, retry = status != http.StatusServiceUnavailable, status == http.StatusTooManyRequests // it has none
	}
	switch {
	case status == http.StatusOK && fields && !retry:
		return admitted, ""
	case status == http.StatusTooManyRequests && fields && retry:
		return refused, ""
	case status == http.StatusOK && !fields && !retry:
		return passed, ""
	case status == http.StatusServiceUnavailable && !fields && !retry:
		return turnedAway, ""
	}
	return wrong, fmt.Sprintf("status %d, fields %v", status, h)
}

// ofLimiter returns what asks a limiter.
func ofLimiter(l *slidegate.Limiter) func() (verdict, string) {
	return func() (verdict, string) {
		d, err := l.Take(context.Background(), key)
		switch {
		case errors.Is(err, slidegate.ErrUnavailable) && !strings.Contains(err.Error(), who):
			return turnedAway, ""
		case err != nil:
			return wrong, err.Error()
		case d.Allowed:
			return admitted, ""
		}
		return refused, ""
	}
}
