package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A search is for one refusal of a key.
type search struct {
	policy  *rehearse.Policy
	book    *rehearse.Book
	source  *source.Source
	key     string
	nth     int
	from    int64 // milliseconds since 1970
	hasFrom bool
	stderr  io.Writer
	cut     error // of a file that could not be read to its end
}

// same tells whether a name is the key: an address may be given with its kind or without.
func (s *search) same(name string) bool {
	return strings.TrimPrefix(name, "ip:") == strings.TrimPrefix(s.key, "ip:")
}

// subjects are those of the book. Where they may be of the key, the file and the line are written behind.
func (s *search) subjects() accesslog.Subject {
	inner := s.book.Subjects()
	key := []byte(strings.TrimPrefix(s.key, "ip:"))
	return func(r *accesslog.Record, b []byte) ([]byte, error) {
		from := len(b)
		b, err := inner(r, b)
		switch {
		case err != nil:
			return b, err
		case bytes.Contains(b[from:], key):
			return fmt.Appendf(b, "%s:%d", r.File, r.Line), nil
		case s.policy.File == nil:
			return b, accesslog.ErrSkip // keys know nothing of each other
		}
		return b, nil
	}
}

// isOf tells whether a request is the key's.
func (s *search) isOf(a *rehearse.Asked) bool {
	if s.same(s.book.Clients.Name(a.Client)) {
		return true
	}
	m := a.Matching(0)
	return m != nil && slices.ContainsFunc(m.Holds, func(h rules.Held) bool { return s.same(h.Key) })
}

var (
	errNoKey = errors.New("no line of the log is of that key")
	errStop  = errors.New("enough")
)

// run reads the log and decides it twice: to find the refusal, and what came before it.
func (s *search) run(ctx context.Context) (*Explanation, error) {
	l, tl, err := s.source.Read(ctx, s.stderr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer tl.Close()
	if err := source.NothingRead(l, tl); err != nil {
		return nil, err
	}
	if err := s.policy.Missed(); err != nil && tl.Len() > 0 {
		return nil, err
	}
	s.cut = source.CutShort(l)
	s.book.Of(&tl.Subjects)
	x, place, err := s.find(ctx, tl)
	if err != nil {
		return nil, err
	}
	x.WholeSeconds, x.Spread, x.Missing = tl.WholeSeconds(), tl.Spread(), s.policy.Unmet()
	return x, s.fill(ctx, tl, x, place)
}

// find returns the refusal without what filled its windows, and its place in the log.
func (s *search) find(ctx context.Context, tl *timeline.Timeline) (x *Explanation, place int64, err error) {
	seen, refusals, at := false, 0, int64(-1)
	err = s.decide(ctx, tl, "looking", func(e *timeline.Event, a *rehearse.Asked, v *rehearse.Verdict) error {
		at++
		if !s.isOf(a) {
			return nil
		}
		seen = true
		if v.Admitted || e.Op != accesslog.Take || s.hasFrom && e.Time < s.from {
			return nil
		}
		if refusals++; refusals < s.nth {
			return nil
		}
		x, place = s.explanation(e, a, v), at
		return errStop
	})
	switch {
	case x != nil:
		return x, place, nil
	case err != nil:
		return nil, 0, err
	case !seen:
		return nil, 0, errNoKey
	}
	return nil, 0, fmt.Errorf("--refusal %d: the key has %d refusals where they were looked for", s.nth, refusals)
}

// decide decides the log from its beginning, until f returns an error.
func (s *search) decide(ctx context.Context, tl *timeline.Timeline, what string, f func(*timeline.Event, *rehearse.Asked, *rehearse.Verdict) error) error {
	judge, memory, err := s.policy.Judge(rehearse.AsGiven, 0)
	if err != nil {
		return err
	}
	err = source.Each(ctx, s.stderr, what, tl, func(e *timeline.Event) error {
		a := s.book.Asked(e)
		v, err := judge.Decide(ctx, e, a)
		if err != nil {
			return err
		}
		return f(e, a, v)
	})
	if err == nil || err == errStop {
		if forgotten := memory.Forgotten(); forgotten != nil {
			return forgotten
		}
	}
	return err
}

// explanation is what the verdict itself tells.
func (s *search) explanation(e *timeline.Event, a *rehearse.Asked, v *rehearse.Verdict) *Explanation {
	x := &Explanation{Request: s.request(e, a), now: e.Time, Refusals: []Refusal{}}
	m := a.Matching(0)
	switch {
	case m == nil && !v.Fits:
		x.add(Refusal{Why: never, Key: x.Request.Client})
	case m == nil:
		for i := range v.Decision.Len() {
			if v.Decision.Refuses(i) {
				x.add(ofLimit(nil, &v.Decision, i))
			}
		}
	case m.Fate == rules.Denied:
		x.add(Refusal{Why: denied})
	default:
		for _, event := range v.Events {
			if !event.Shadow {
				m.Refusals(event, func(h *rules.Held, l *slidegate.Limit, i int) { x.add(ofRule(h, l, i, event)) })
			}
		}
	}
	return x
}

func ofRule(h *rules.Held, l *slidegate.Limit, i int, e *rules.Event) Refusal {
	switch {
	case l != nil:
		return ofLimit(h, e.Decision, i)
	case e.Banned:
		r := ofLimit(h, e.Decision, 0)
		r.Why, r.Rule, r.Begins = banned, h.FullName(), e.BanBegan > 0
		return r
	case e.Blocked:
		return Refusal{Why: blocked, Rule: h.FullName(), Key: h.Key}
	}
	return Refusal{Why: never, Rule: h.FullName(), Key: h.Key}
}

func ofLimit(h *rules.Held, d *slidegate.Decision, i int) Refusal {
	state := d.State(i)
	r := Refusal{
		Why: full, Limit: state.Limit.String(), Key: d.KeyOf(i), Cost: d.Cost, Quota: state.Limit.Quota,
		Used: state.Limit.Quota - state.Remaining, RetryMS: state.RetryIn.Milliseconds(), limit: state.Limit,
	}
	if h != nil {
		r.Rule, r.rule = h.FullName(), h.Rule
	}
	return r
}

// request says which one it is.
func (s *search) request(e *timeline.Event, a *rehearse.Asked) Request {
	return Request{Time: at(e.Time), Cost: e.Cost, Client: s.book.Clients.Name(a.Client), Line: a.Rest, ms: e.Time}
}

// fill decides again up to the refusal and adds what its windows held.
func (s *search) fill(ctx context.Context, tl *timeline.Timeline, x *Explanation, place int64) error {
	histories := make([]history, len(x.Refusals))
	now := int64(-1)
	err := s.decide(ctx, tl, "explaining", func(e *timeline.Event, a *rehearse.Asked, v *rehearse.Verdict) error {
		if now++; now == place {
			return errStop
		}
		for i := range x.Refusals {
			s.remember(&histories[i], &x.Refusals[i], e, a, v)
		}
		return nil
	})
	if err != errStop {
		return err
	}
	for i := range x.Refusals {
		x.Refusals[i].told(histories[i].events, x.now)
	}
	return nil
}

// A history is the requests that charged a limit, the latest last.
type history struct{ events []Request }

// remember adds a request to a history if it charged the limit.
func (s *search) remember(h *history, r *Refusal, e *timeline.Event, a *rehearse.Asked, v *rehearse.Verdict) {
	request := s.request(e, a)
	switch m := a.Matching(0); {
	case m == nil && s.policy.File == nil:
		if s.book.Clients.Name(a.Client) != r.Key {
			return
		}
		if e.Op == accesslog.Reset {
			h.events = nil
			return
		}
		if e.Op != accesslog.Take || !v.Admitted || e.Cost == 0 {
			return
		}
	case m == nil || r.Why == banned && !refusedBy(m, v, r):
		return
	case r.Why != banned:
		held := charged(m, v, r)
		if held == nil {
			return
		}
		request.Cost = held.Cost
	}
	for len(h.events) > 0 && h.events[0].ms+r.reach() <= e.Time {
		h.events = h.events[1:]
	}
	h.events = append(h.events, request)
}

// charged returns the rule of a refusal if a request was charged there, and it was not given back.
func charged(m *rules.Matching, v *rehearse.Verdict, r *Refusal) *rules.Held {
	for i := range m.Holds {
		h := &m.Holds[i]
		sameLimit := func(l slidegate.Limit) bool {
			return l.Name == r.limit.Name && l.Window == r.limit.Window && l.Algorithm == r.limit.Algorithm
		}
		if h.Rule != r.rule || h.Key != r.Key || h.Refunded || !slices.ContainsFunc(h.Limits, sameLimit) {
			continue
		}
		isAdmitted := func(e *rules.Event) bool { return slices.Contains(e.Rules, h.Rule) && e.Decision.Allowed }
		if v.Admitted && slices.ContainsFunc(v.Events, isAdmitted) {
			return h
		}
	}
	return nil
}

// refusedBy tells whether a request was refused by a limit of the rule, for its key: a strike.
func refusedBy(m *rules.Matching, v *rehearse.Verdict, r *Refusal) (is bool) {
	for _, e := range v.Events {
		m.Refusals(e, func(h *rules.Held, l *slidegate.Limit, _ int) {
			is = is || h.FullName() == r.Rule && h.Key == r.Key && (l != nil || e.BanBegan > 0)
		})
	}
	return is
}
