package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/servetest"
)

// A library is a limiter in this program.
type library struct {
	*slidegate.Limiter
	decided func() uint64 // how many decisions were made by a share so far; nil where there is none
}

func (l library) take(key string, cost int64) answer {
	d, kind, err := l.decide(key, cost)
	v, note := judged(&d, err)
	at := d.At().UnixMilli()
	return answer{verdict: v, span: span{at, at}, kind: kind | exact, units: cost, note: note}
}

// decide takes, and tells whether it may have been a share that decided: then some was decided by it meanwhile.
func (l library) decide(key string, cost int64) (d slidegate.Decision, kind kind, err error) {
	if l.decided == nil {
		d, err = l.TakeN(context.Background(), key, cost)
		return d, 0, err
	}
	before := l.decided()
	d, err = l.TakeN(context.Background(), key, cost)
	if l.decided() != before {
		kind = byShare
	}
	return d, kind, err
}

func judged(d *slidegate.Decision, err error) (verdict, string) {
	switch {
	case errors.Is(err, slidegate.ErrUnavailable):
		return turnedAway, ""
	case err != nil:
		return wrong, err.Error()
	case d.Allowed:
		return admitted, ""
	}
	return refused, ""
}

func (l library) peek(key string) (verdict, string) {
	d, err := l.Peek(context.Background(), key)
	return judged(&d, err)
}

func (l library) reset(key string) span {
	from := l.clock(key)
	err := l.Reset(context.Background(), key)
	return resetWithin(span{from, l.clock(key)}, err == nil)
}

// resetWithin returns when a reset may have been done, whether it was or not: where nobody said so, a Redis that stood
// still may do it later, with all that was sent to it meanwhile.
func resetWithin(s span, isDone bool) span {
	if !isDone {
		s.to += 5 * outage.Milliseconds()
	}
	return s
}

// clock reads that of the store, or this program's where it is away.
func (l library) clock(key string) int64 {
	if d, err := l.Peek(context.Background(), key); err == nil {
		return d.At().UnixMilli()
	}
	return now()
}

func (l library) takeAndRefund(key string, cost int64) (verdict, string) {
	d, _, err := l.decide(key, cost)
	v, note := judged(&d, err)
	if v != admitted {
		return v, note
	}
	if err := l.Refund(context.Background(), &d); err != nil && !errors.Is(err, slidegate.ErrUnavailable) {
		return wrong, err.Error()
	}
	return admitted, ""
}

// A door is one of a process of the command, for one of its rules.
type door struct {
	at     *servetest.Replica
	client *http.Client
	name   string // as servetest has it
	rule   string
	kind   kind // of what is admitted there: byShare where the process has one
	isFar  bool // the clock of its store is not that of Redis, and may run away from ours
}

// A said is what a door answered.
type said struct {
	span
	status int
	fields http.Header
	body   []byte
	err    error
}

func (d door) send(method, path string, body []byte, fields ...string) (s said) {
	s.from = now()
	defer func() { s.to = now() }()
	request, err := http.NewRequest(method, d.at.Door(d.name)+path, bytes.NewReader(body))
	if err != nil {
		s.err = err
		return s
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	response, err := d.client.Do(request)
	if err != nil {
		s.err = err
		return s
	}
	defer response.Body.Close()
	s.status, s.fields = response.StatusCode, response.Header
	s.body, s.err = io.ReadAll(response.Body)
	return s
}

// ask sends a request of the API about a key.
func (d door) ask(verb, key string, cost int64) said {
	body, err := json.Marshal(struct {
		Key     string `json:"key"`
		Limiter string `json:"limiter"`
		Cost    int64  `json:"cost,omitempty"`
	}{"header:X-Client:" + key, d.rule, cost})
	if err != nil {
		return said{err: err}
	}
	return door{at: d.at, client: d.client, name: servetest.API}.send(http.MethodPost, "/v1/"+verb, body, "Content-Type", "application/json")
}

// costly is the rule whose requests say what they cost, and are given back where the service does not know them.
const costly = "cost"

func (d door) take(key string, cost int64) answer {
	if d.name != servetest.API && d.rule != costly {
		cost = 1 // whatever is asked
	}
	var s said
	switch d.name {
	case servetest.API:
		s = d.ask("take", key, cost)
	case servetest.Auth:
		s = d.send(http.MethodGet, "/auth", nil, "X-Client", key, "X-Cost", strconv.FormatInt(cost, 10),
			"X-Original-Method", "GET", "X-Original-URI", "/"+d.rule+"/", "X-Forwarded-For", "203.0.113.7")
	default:
		s = d.send(http.MethodGet, "/"+d.rule+"/", nil, "X-Client", key, "X-Cost", strconv.FormatInt(cost, 10))
	}
	a := answer{span: s.span, kind: d.kind, units: cost}
	a.verdict, a.note = d.judge(s)
	if d.name != servetest.API || a.verdict != admitted || d.isFar {
		return a
	}
	var told struct {
		T int64 `json:"t"`
	}
	if err := json.Unmarshal(s.body, &told); err != nil || told.T == 0 {
		a.verdict, a.note = wrong, "no time in "+string(s.body)
	}
	a.span, a.kind = span{told.T, told.T}, a.kind|exact
	return a
}

// judge tells what an answer to a take means. Where a request was not decided no field may speak of limits.
func (d door) judge(s said) (verdict, string) {
	if s.err != nil {
		return lost, ""
	}
	fields, retry := s.fields.Get("RateLimit") != "", s.fields.Get("Retry-After") != ""
	isAPI := d.name == servetest.API
	switch {
	case s.status == http.StatusOK && fields && !retry:
		return admitted, ""
	case s.status == http.StatusTooManyRequests && fields && retry:
		return refused, ""
	case s.status == http.StatusOK && !fields && !retry && !isAPI:
		return passed, ""
	case s.status == http.StatusNotFound && isAPI && d.rule == extra:
		return passed, ""
	case s.status == http.StatusServiceUnavailable && !fields && !retry:
		return turnedAway, ""
	}
	return wrong, fmt.Sprintf("status %d, fields %v, %q", s.status, s.fields, s.body)
}

// peek asks the API, as the other doors have no word for it.
func (d door) peek(key string) (verdict, string) {
	s := d.ask("peek", key, 0)
	switch {
	case s.err != nil:
		return lost, ""
	case s.status == http.StatusOK && strings.Contains(string(s.body), `"allowed":`):
		return admitted, ""
	case s.status == http.StatusServiceUnavailable:
		return turnedAway, ""
	case s.status == http.StatusNotFound && d.rule == extra:
		return passed, ""
	}
	return wrong, fmt.Sprintf("peek: status %d, %q", s.status, s.body)
}

func (d door) reset(key string) span {
	s := d.ask("reset", key, 0)
	return resetWithin(s.span, s.err == nil && s.status == http.StatusNoContent)
}

// takeAndRefund asks for what the service does not know, by a rule that gives it back then; no other door gives back.
func (d door) takeAndRefund(key string, cost int64) (verdict, string) {
	if d.name != servetest.Proxy || d.rule != costly {
		return d.peek(key)
	}
	s := d.send(http.MethodGet, "/"+d.rule+"/unknown", nil, "X-Client", key, "X-Cost", strconv.FormatInt(cost, 10))
	if s.err == nil && s.status == http.StatusNotFound {
		return admitted, "" // or not decided, and passed
	}
	return d.judge(s)
}

// newClient makes one that keeps its connections, and a patience of its own.
func newClient() *http.Client {
	return &http.Client{Timeout: servetest.Patience, Transport: &http.Transport{IdleConnTimeout: time.Minute}}
}
