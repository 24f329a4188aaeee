package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// An Answer is a decision. What it has in common with the lines of replay --verdicts has the same names.
type Answer struct {
	Allowed   bool    `json:"allowed"`
	Cost      int64   `json:"cost"`
	Time      int64   `json:"t,omitempty"` // the store's clock, in milliseconds since the Unix epoch
	Remaining int64   `json:"remaining"`   // of the limit that binds
	ResetMS   int64   `json:"reset_ms"`    // of the limit that binds
	RetryMS   int64   `json:"retry_ms"`    // the longest of the limits that refuse
	Binding   string  `json:"binding,omitempty"`
	Limits    []Limit `json:"limits"`
}

// A Limit is how one limit stands. All times are in milliseconds.
type Limit struct {
	Name      string `json:"name"`
	Quota     int64  `json:"quota"`
	WindowMS  int64  `json:"window_ms"`
	Remaining int64  `json:"remaining"`
	ResetMS   int64  `json:"reset_ms"`
	RetryMS   int64  `json:"retry_ms"`
	Refuses   bool   `json:"refuses"`
}

// A Result is what came of a request of a batch: the status that it would have had alone, and the body.
type Result struct {
	Status  int               `json:"status"`
	Answer  *Answer           `json:"answer,omitempty"`
	Problem *httpgate.Problem `json:"problem,omitempty"`
}

// Results are those of a batch, in the order of its requests.
type Results struct {
	Results []Result `json:"results"`
}

// answerOf returns what there is to say of a decision, in memory of the question.
func (a *question) answerOf(d *slidegate.Decision) *Answer {
	binding := d.Binding()
	a.limits = slices.Grow(a.limits[:0], d.Len())[:d.Len()]
	a.answer = Answer{
		Allowed: d.Allowed, Cost: d.Cost, Remaining: binding.Remaining, ResetMS: binding.ResetIn.Milliseconds(),
		RetryMS: d.RetryAfter().Milliseconds(), Binding: binding.Limit.Name, Limits: a.limits,
	}
	if d.Len() > 0 {
		a.answer.Time = d.At().UnixMilli()
	}
	for i := range a.limits {
		s := d.State(i)
		a.limits[i] = Limit{
			Name: s.Limit.Name, Quota: s.Limit.Quota, WindowMS: s.Limit.Window.Milliseconds(), Remaining: s.Remaining,
			ResetMS: s.ResetIn.Milliseconds(), RetryMS: s.RetryIn.Milliseconds(), Refuses: d.Refuses(i),
		}
	}
	return &a.answer
}

func failed(status int, detail string) Result {
	return Result{Status: status, Problem: problem(status, detail)}
}

// undecided says why there is no answer. What the store had to say is not for callers.
func undecided(err error) Result {
	var never *slidegate.CostError
	if errors.As(err, &never) {
		return failed(http.StatusBadRequest, strings.TrimPrefix(never.Error(), "slidegate: "))
	}
	return failed(http.StatusServiceUnavailable, "the store could not be asked")
}

// do does what a request wants. Those of a take have fields for the head of an answer, which are set on h unless it is nil.
func (d *door) do(ctx context.Context, q *request, a *question, h http.Header) Result {
	limiter := d.limiter(q.limiter)
	switch {
	case limiter == nil && q.limiter == "":
		return failed(http.StatusBadRequest, "limiter: it is missing, and limits have names here: give that of a rule")
	case limiter == nil:
		return failed(http.StatusNotFound, "limiter: none has that name")
	case q.op == take:
		return d.take(ctx, q, a, limiter, h)
	case q.op == reset:
		if err := limiter.Reset(ctx, q.key); err != nil {
			return undecided(err)
		}
		return Result{Status: http.StatusNoContent}
	}
	decision, err := limiter.PeekN(ctx, q.key, q.cost)
	if err != nil {
		return undecided(err)
	}
	return Result{Status: http.StatusOK, Answer: a.answerOf(&decision)}
}

// take asks the gate, which tells the observers and knows the fields.
func (d *door) take(ctx context.Context, q *request, a *question, limiter *slidegate.Limiter, h http.Header) Result {
	a.asked = asked{ctx, limiter, q.key, q.cost}
	a.request = *asking.WithContext(&a.asked)
	o := d.gate.DecideInto(h, &a.request)
	switch {
	case o.Err != nil:
		return undecided(o.Err)
	case o.Admitted:
		return Result{Status: http.StatusOK, Answer: a.answerOf(o.Decision)}
	}
	return Result{Status: http.StatusTooManyRequests, Answer: a.answerOf(o.Decision)}
}

// asking is the request that a gate sees: everything about it is in its context.
var asking = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Header: http.Header{}}

// asked is a context with what a gate is asked.
type asked struct {
	context.Context
	limiter *slidegate.Limiter
	key     string
	cost    int64
}

// A question is what is asked, the request that carries it, and what is answered, in one piece of memory.
type question struct {
	asked
	request http.Request
	answer  Answer
	limits  []Limit // of the answer
}

func askedIn(r *http.Request) *asked { return r.Context().(*asked) }

// A chain is the requests of a batch that are about one key, by their places.
type chain []int

// doAll does what the requests of a batch want: those about one key one after the other, in their order, and others at
// the same time, so that a store that is far away is asked about all of them at once.
func (d *door) doAll(ctx context.Context, requests []request) []Result {
	results := make([]Result, len(requests))
	type about struct {
		key     string
		limiter *slidegate.Limiter // which may have several names
	}
	chains := map[about]chain{}
	for i, q := range requests {
		a := about{q.key, d.limiter(q.limiter)}
		chains[a] = append(chains[a], i)
	}
	var all sync.WaitGroup
	for _, c := range chains {
		if len(chains) == 1 {
			d.doChain(ctx, requests, results, c)
			break
		}
		all.Go(func() { d.doChain(ctx, requests, results, c) })
	}
	all.Wait()
	return results
}

// doChain stops at a store that could not be asked: the rest is not decided either, and the store is not waited for as
// often as there are requests.
func (d *door) doChain(ctx context.Context, requests []request, results []Result, c chain) {
	for n, i := range c {
		results[i] = d.do(ctx, &requests[i], new(question), nil)
		if results[i].Status != http.StatusServiceUnavailable {
			continue
		}
		for _, rest := range c[n+1:] {
			results[rest] = results[i]
		}
		return
	}
}

// The fields of every answer, shared by all.
var (
	noStore  = []string{"no-store"}
	jsonType = []string{"application/json"}
)

// shortBody is the length up to which net/http says itself how long a body is.
const shortBody = 2048

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if len(body) > shortBody {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller's going away is no concern here
}

// appendTo writes an answer as encoding/json does, which would take longer than the decision.
func (a *Answer) appendTo(b []byte) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), a.Allowed)
	b = appendNumber(b, `,"cost":`, a.Cost)
	if a.Time != 0 {
		b = appendNumber(b, `,"t":`, a.Time)
	}
	b = appendNumber(b, `,"remaining":`, a.Remaining)
	b = appendNumber(b, `,"reset_ms":`, a.ResetMS)
	b = appendNumber(b, `,"retry_ms":`, a.RetryMS)
	if a.Binding != "" {
		b = appendString(append(b, `,"binding":`...), a.Binding)
	}
	b = append(b, `,"limits":[`...)
	for i := range a.Limits {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.Limits[i].appendTo(b)
	}
	return append(b, "]}"...)
}

func (l *Limit) appendTo(b []byte) []byte {
	b = appendString(append(b, `{"name":`...), l.Name)
	b = appendNumber(b, `,"quota":`, l.Quota)
	b = appendNumber(b, `,"window_ms":`, l.WindowMS)
	b = appendNumber(b, `,"remaining":`, l.Remaining)
	b = appendNumber(b, `,"reset_ms":`, l.ResetMS)
	b = appendNumber(b, `,"retry_ms":`, l.RetryMS)
	b = strconv.AppendBool(append(b, `,"refuses":`...), l.Refuses)
	return append(b, '}')
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendString writes the name of a limit, which is printable ASCII.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		switch s[i] {
		case '"', '\\', '<', '>', '&':
			text, _ := json.Marshal(s) // there is nothing to fail
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
