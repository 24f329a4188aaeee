package rules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/slidegate/slidegate"
)

// A Rehearsal holds the requests of a log to the rules of a file. What the rules make of a request, its [Matching], is
// found apart from the decision: it does not depend on what came before, so it can be found in several goroutines and
// kept as bytes, and is the same for all requests that are alike. Decisions are those of an [Engine], by the same gates.
type Rehearsal struct {
	engine *Engine
	err    error // the first request that could not be decided
}

// NewRehearsal returns a Rehearsal. The options are those of New. Observe is told of every decision, from the goroutine of Decide.
func NewRehearsal(f *File, o Options) (*Rehearsal, error) {
	r := &Rehearsal{}
	observe := o.Observe
	o.rehearses, o.Headers = true, nil
	o.Observe = func(e *Event) {
		if e.Err != nil && r.err == nil {
			r.err = e.Err
		}
		if observe != nil && e.Err == nil {
			observe(e)
		}
	}
	var err error
	r.engine, err = New(f, o)
	return r, err
}

// A Fate is what becomes of a request before anything is counted.
type Fate uint8

const (
	Counted   Fate = iota // by the rules that hold for it
	Unmatched             // no rule holds for it, and it passes
	Exempt                // it passes, whatever the rules say
	Denied                // it is refused, whatever the rules say
)

func (f Fate) String() string { return [...]string{"counted", "unmatched", "exempt", "denied"}[f] }

// A Matching is what the rules make of a request: with the time and what was counted before it is all that a decision
// depends on.
type Matching struct {
	Fate  Fate
	Holds []Held // the rules that hold, in their order

	set       int // its place in every engine of the file, as those of picks
	picks     []pick
	preflight bool
	status    int // of the answer, 0 where no rule asks
}

// A pick is a rule and the plan of a request, by their places.
type pick struct{ rule, plan uint16 }

// A Held is a rule that holds for a request, and what it counts it as.
type Held struct {
	*Rule
	Key    string            // as it is counted
	Cost   int64             // units
	Limits []slidegate.Limit // of the request's plan; none if that refuses or admits all

	Unlimited, Blocked bool
	Refunded           bool // what it charges is given back, by the status of the answer
}

// ErrNobody is why a request of a log has no matching: the log does not have what it would be counted under.
var ErrNobody = errors.New("the line does not tell who asks")

// Client returns who a request is from by the key that holds where a rule has none.
func (r *Rehearsal) Client(q *http.Request) (string, error) {
	address, _ := r.engine.addresses.KeyOf(q)
	if key := r.engine.options.Key.Key(q, address); key != "" {
		return key, nil
	}
	return "", ErrNobody
}

// Match appends to b what the rules make of a request whose answer had a status. It is safe for concurrent use.
func (r *Rehearsal) Match(q *http.Request, status int, b []byte) ([]byte, error) {
	e := r.engine
	fate := e.fateOf(q)
	if fate != Counted {
		return append(b, byte(fate)), nil
	}
	s := newSubject(q, e.addresses)
	set := e.indexOf(s.host)
	var room [8]choice
	chosen := e.choose(e.sets[set], &s, room[:0], false)
	if len(chosen) == 0 {
		return append(b, byte(Unmatched)), nil
	}
	b = append(b, byte(Counted))
	b = binary.AppendUvarint(b, uint64(set))
	b = append(b, preflightFlag(q))
	b = binary.AppendUvarint(b, uint64(statusFor(chosen, status)))
	for _, c := range chosen {
		key := e.keyOf(c.bound, q)
		if key == "" {
			return nil, ErrNobody
		}
		b = binary.AppendUvarint(b, uint64(c.index))
		b = binary.AppendUvarint(b, uint64(c.plan))
		b = binary.AppendVarint(b, c.costOf(q))
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
	}
	return b, nil
}

// statusFor is the status where it makes a difference.
func statusFor(chosen []choice, status int) int {
	for _, c := range chosen {
		if len(c.RefundIf) > 0 && status > 0 {
			return status
		}
	}
	return 0
}

// preflightFlag tells of a request that gates do not count: see [httpgate.CountPreflights].
func preflightFlag(q *http.Request) byte {
	if q.Method == http.MethodOptions && q.Header.Get(preflightMethod) != "" && q.Header.Get("Origin") != "" {
		return 1
	}
	return 0
}

const preflightMethod = "Access-Control-Request-Method"

// costOf is what a request spends in a rule.
func (b *bound) costOf(q *http.Request) int64 {
	switch {
	case b.Cost == nil:
		return 1
	case b.Cost.header != "":
		return cost(b.Cost.header)(q)
	}
	return b.Cost.units
}

// Read returns the matching that Match appended. It is the same for every Rehearsal of the file.
func (r *Rehearsal) Read(b []byte) *Matching {
	m := &Matching{Fate: Fate(b[0])}
	if m.Fate != Counted {
		return m
	}
	p := parcel(b[1:])
	m.set = int(p.number())
	m.preflight = p.number() == 1
	m.status = int(p.number())
	for len(p) > 0 {
		pick := pick{uint16(p.number()), uint16(p.number())}
		c := r.chosen(m.set, pick)
		h := Held{Rule: c.Rule, Cost: p.signed(), Key: p.text(), Blocked: c.isBlocked(), Unlimited: c.limiter() == nil}
		h.Refunded = c.refunds(max(http.StatusOK, m.status))
		if !h.Unlimited {
			h.Limits = c.limiter().Limits()
		}
		m.Holds, m.picks = append(m.Holds, h), append(m.picks, pick)
	}
	return m
}

// chosen returns what was picked.
func (r *Rehearsal) chosen(set int, p pick) choice {
	return choice{bound: r.engine.sets[set].rules[p.rule], plan: p.plan}
}

// A parcel is bytes that Match has written.
type parcel []byte

func (p *parcel) number() uint64 {
	n, size := binary.Uvarint(*p)
	*p = (*p)[size:]
	return n
}

func (p *parcel) signed() int64 {
	n, size := binary.Varint(*p)
	*p = (*p)[size:]
	return n
}

func (p *parcel) text() string {
	n := p.number()
	text := string((*p)[:n])
	*p = (*p)[n:]
	return text
}

type rehearsedKey struct{}

// held returns what a rule counts the request of a rehearsal as.
func (b *bound) held(q *http.Request) *Held {
	m := q.Context().Value(rehearsedKey{}).(*Matching)
	return m.of(b.Rule)
}

// Decide decides a request, and tells whether it was admitted. An error is the store's: there is no verdict, then.
func (r *Rehearsal) Decide(ctx context.Context, m *Matching) (admitted bool, err error) {
	switch m.Fate {
	case Denied:
		return false, nil
	case Exempt, Unmatched:
		return true, nil
	}
	q := &http.Request{Method: http.MethodGet, URL: root, Header: http.Header{}}
	if m.preflight {
		q.Method = http.MethodOptions
		q.Header.Set("Origin", "null")
		q.Header.Set(preflightMethod, http.MethodGet)
	}
	q = q.WithContext(context.WithValue(ctx, rehearsedKey{}, m))
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		admitted = true
		w.WriteHeader(max(http.StatusOK, m.status))
	})
	r.engine.run(nobody{http.Header{}}, q, r.stages(m), next)
	if r.err != nil {
		return false, r.err
	}
	return admitted, ctx.Err()
}

// stages returns the decisions about a request.
func (r *Rehearsal) stages(m *Matching) []*stage {
	set := r.engine.sets[m.set]
	var room [8]choice
	choices := room[:0]
	for _, p := range m.picks {
		choices = append(choices, r.chosen(m.set, p))
	}
	return set.stages.of(r.engine, set.match, choices)
}

// Forget has the store forget all that was counted of requests like one.
func (r *Rehearsal) Forget(ctx context.Context, m *Matching) error {
	if m.Fate != Counted {
		return nil
	}
	var failed error
	for _, s := range r.stages(m) {
		for _, rule := range s.rules {
			if h := m.of(rule); rule.Ban != nil && !h.Blocked {
				failed = errors.Join(failed, s.gate.Unban(ctx, h.Key))
			}
		}
	}
	for i, p := range m.picks {
		if limiter := r.chosen(m.set, p).limiter(); limiter != nil {
			failed = errors.Join(failed, limiter.Reset(ctx, m.Holds[i].Key))
		}
	}
	return failed
}

var root = &url.URL{Path: "/"}

// nobody gets the answers of a rehearsal.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header       { return n.header }
func (nobody) Write(b []byte) (int, error) { return len(b), nil }
func (nobody) WriteHeader(int)             {}

// Refusals calls f for every rule, and every limit of it, that took part in a refusal. limit is nil where the rule's
// plan refuses all, and where a request costs more than can ever fit or a ban refuses it, which the event tells.
func (m *Matching) Refusals(e *Event, f func(h *Held, limit *slidegate.Limit, i int)) {
	if e.Decision == nil || e.Decision.Allowed {
		return
	}
	at := 0
	for _, rule := range e.Rules {
		h := m.of(rule)
		switch {
		case h == nil:
			continue
		case e.Banned, e.Decision.Len() == 0 && h.Blocked == e.Blocked:
			f(h, nil, -1)
			return
		}
		for i := range h.Limits {
			if at+i < e.Decision.Len() && e.Decision.Refuses(at+i) {
				f(h, &h.Limits[i], at+i)
			}
		}
		at += len(h.Limits)
	}
}

func (m *Matching) of(r *Rule) *Held {
	for i := range m.Holds {
		if m.Holds[i].Rule == r {
			return &m.Holds[i]
		}
	}
	return nil
}

// String describes a matching without its keys.
func (m *Matching) String() string {
	if m.Fate != Counted {
		return m.Fate.String()
	}
	return fmt.Sprintf("%d rules", len(m.Holds))
}
