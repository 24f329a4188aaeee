package httpgate

import (
	"cmp"
	"net/http"
	"strings"
	"time"
)

// A Policy is what a response says of one limit of its server.
type Policy struct {
	// Name is empty in the formats that name none: all but those of [Draft8].
	Name string

	// Partition tells apart the budgets that a server keeps under one name, where it says so: the
	// bytes of the pk parameter, opaque.
	Partition string

	// Unit is what is counted: requests where it is empty.
	Unit string

	// Quota is the number of units per Window; 0 where the response does not say.
	Quota  int64
	Window time.Duration

	// Remaining is the number of units that are left, 0 to 999,999,999,999,999.
	Remaining int64

	// Reset is the time until Remaining changes for the better. What exactly it promises depends on the
	// server: see docs/headers.md. It is -1 where the response does not say, and never more than a
	// hundred years.
	Reset time.Duration
}

// ParseRateLimit reads the RateLimit fields of a response: the lists of drafts 08 to 11, with names
// that are Strings or Tokens; the dictionary of draft 07; RateLimit-Limit, -Remaining and -Reset of
// draft 06 and before; X-RateLimit-* and X-Rate-Limit-*, also with policies behind the limit, as Envoy
// sends them. Where a response has several of these, the first of them counts that is well-formed; a
// malformed field counts as absent, whole. A reset may be seconds from now, seconds or milliseconds
// since the Unix epoch, which are the larger numbers, or a date; a point in time is taken relative to
// the response's Date, or else to now. ok is false if there is nothing to read.
func ParseRateLimit(h http.Header, now time.Time) (policies []Policy, ok bool) {
	policies, _ = announced(h, now, nil)
	return policies, len(policies) > 0
}

// maxPolicies is how many members of a field are read, which is what RFC 9651 section 3.1 asks of a
// parser; a longer field counts as malformed.
const maxPolicies = 1024

// announced appends what a response says of the limits of its server to into, which is empty, and tells
// whether that is all of them, not only the one that binds.
func announced(h http.Header, now time.Time, into []Policy) (policies []Policy, all bool) {
	if lines := h[fieldRateLimit]; len(lines) > 0 {
		value := joined(lines)
		if policies, ok := policyList(value, into); ok {
			describe(policies, joined(h[policyName]))
			return policies, true
		}
		if p, ok := dictionary(value); ok {
			return only(p, joined(h[policyName]), into)
		}
	}
	for i := range threeFields {
		if p, policies, ok := three(h, &threeFields[i], now); ok {
			return only(p, policies, into)
		}
	}
	return into, false
}

var threeFields = [][3]string{
	{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
	{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"},
}

// policyList reads RateLimit of drafts 08 to 11.
func policyList(value string, into []Policy) (policies []Policy, ok bool) {
	s := scanField(value)
	for more, ok := !s.done(), true; more; more, ok = s.next() {
		p := Policy{Reset: -1}
		name, fine := s.bare()
		if !ok || !fine || name.kind != kindString && name.kind != kindToken || len(into) == maxPolicies {
			return nil, false
		}
		var r, t, pk bare
		fine = s.params(func(key string, v bare) {
			switch key {
			case "r":
				r = v
			case "t":
				t = v
			case "pk":
				pk = v
			}
		})
		p.Name = name.text
		p.Remaining, ok = r.count()
		if !fine || !ok || !setReset(&p, t) || !setPartition(&p, pk) {
			return nil, false
		}
		into = append(into, p)
	}
	return into, len(into) > 0
}

func setReset(p *Policy, t bare) bool {
	if t.kind == kindNone {
		return true
	}
	n, ok := t.count()
	p.Reset = wholeSeconds(n)
	return ok
}

func setPartition(p *Policy, pk bare) bool {
	p.Partition = pk.text
	return pk.kind == kindNone || pk.kind == kindBytes
}

// maxTold is the longest time that a field is taken to mean: a hundred years.
const maxTold = 100 * 365 * 24 * time.Hour

func wholeSeconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(maxTold/time.Second))) * time.Second
}

// A described is a member of RateLimit-Policy: of draft 08 to 11 with a name, before with none.
type described struct {
	name, partition, unit string
	quota                 int64
	window                time.Duration
}

// describe adds what RateLimit-Policy says, if that is well-formed.
func describe(policies []Policy, value string) {
	if !eachDescribed(value, func(described) {}) {
		return
	}
	eachDescribed(value, func(d described) {
		for i := range policies {
			p := &policies[i]
			same := p.Partition == d.partition || p.Partition == "" || d.partition == ""
			if p.Name == d.name && same && p.Quota == 0 {
				p.Quota, p.Window, p.Unit = d.quota, d.window, d.unit
				if p.Partition == d.partition {
					return // the next of this name is another's
				}
				p.Partition = cmp.Or(p.Partition, d.partition) // express names it only here
			}
		}
	})
}

func eachDescribed(value string, f func(described)) bool {
	s, n := scanField(value), 0
	for more, ok := !s.done(), true; more; more, ok = s.next() {
		item, fine := s.bare()
		if n++; !ok || !fine || n > maxPolicies {
			return false
		}
		d, fine := s.described(item)
		if !fine {
			return false
		}
		f(d)
	}
	return n > 0
}

// described reads the parameters of a member of RateLimit-Policy: q, w, qu and pk. The item is the
// name, or, before draft 08, the quota.
func (s *fieldScanner) described(item bare) (d described, ok bool) {
	var q, w, qu, pk bare
	fine := s.params(func(key string, v bare) {
		switch key {
		case "q":
			q = v
		case "w":
			w = v
		case "qu":
			qu = v
		case "pk":
			pk = v
		}
	})
	switch item.kind {
	case kindInteger, kindDecimal:
		q, d.quota = item, item.n
	case kindString, kindToken:
		d.name = item.text
		d.quota, ok = q.count()
		fine = fine && ok
	default:
		return d, false
	}
	if w.kind != kindNone {
		n, ok := w.count()
		d.window, fine = wholeSeconds(n), fine && ok && n > 0
	}
	d.unit, d.partition = qu.text, pk.text
	return d, fine && q.n >= 0 &&
		(qu.kind == kindNone || qu.kind == kindString) && (pk.kind == kindNone || pk.kind == kindBytes)
}

// dictionary reads RateLimit of draft 07.
func dictionary(value string) (p Policy, ok bool) {
	s := scanField(value)
	var limit, remaining, reset bare
	for more, ok := !s.done(), true; more; more, ok = s.next() {
		key, fine := s.key()
		v := bare{kind: kindOther}
		if fine && s.take('=') {
			v, fine = s.bare()
		}
		if !ok || !fine || !s.params(func(string, bare) {}) {
			return p, false
		}
		switch key {
		case "limit":
			limit = v
		case "remaining":
			remaining = v
		case "reset":
			reset = v
		}
	}
	var ok1, ok2 bool
	p.Quota, ok1 = limit.count()
	p.Remaining, ok2 = remaining.count()
	return p, ok1 && ok2 && reset.kind != kindNone && setReset(&p, reset)
}

// three reads the fields of one value each, and finds the list of policies.
func three(h http.Header, names *[3]string, now time.Time) (p Policy, policies string, ok bool) {
	remaining, ok := scalar(joined(h[names[1]]))
	if !ok {
		return p, "", false
	}
	p.Remaining, p.Reset = remaining.n, -1
	if lines := h[names[2]]; len(lines) > 0 {
		if p.Reset, ok = resetOf(joined(lines), h, now); !ok {
			return p, "", false
		}
	}
	policies = joined(h[policyName])
	limit := joined(h[names[0]])
	if limit == "" {
		return p, policies, true
	}
	// Envoy, and drafts 00 to 03, have the policies behind the limit that binds.
	first, rest, more := strings.Cut(limit, ",")
	switch {
	case policies != "":
	case more:
		policies = rest
	case strings.Contains(limit, ";"):
		policies = limit
	}
	quota, ok := scalar(first)
	p.Quota = quota.n
	return p, policies, ok
}

// only appends the one policy that a format has room for, with what the list of policies says of it. It
// is all there is if that has no other.
func only(p Policy, policies string, into []Policy) (one []Policy, all bool) {
	n := 0
	window := time.Duration(0)
	ok := eachDescribed(policies, func(d described) {
		if n++; d.quota == p.Quota && window == 0 {
			window = d.window
		}
	})
	if ok {
		p.Window = window
	}
	return append(into, p), ok && n == 1
}

// scalar reads a number that is not negative. Some servers send it as a Decimal.
func scalar(value string) (bare, bool) {
	s := scanField(value)
	b, ok := s.bare()
	return b, ok && (b.kind == kindInteger || b.kind == kindDecimal) && b.n >= 0 &&
		!strings.HasPrefix(s.s, "-") && s.params(func(string, bare) {}) && s.done()
}

// The numbers above which a reset is a point in time: in 2001, and the same in milliseconds.
const (
	sinceEpoch      = 1_000_000_000
	sinceEpochMilli = 1_000_000_000_000
)

// resetOf reads a reset of the formats before draft 07.
func resetOf(value string, h http.Header, now time.Time) (time.Duration, bool) {
	b, ok := scalar(value)
	if !ok {
		at, ok := date(value)
		return until(at, h, now), ok
	}
	if b.more {
		b.n++
	}
	switch {
	case b.n >= sinceEpochMilli:
		return until(time.UnixMilli(b.n), h, now), true
	case b.n >= sinceEpoch:
		return until(time.Unix(b.n, 0), h, now), true
	}
	return wholeSeconds(b.n), true
}

// until returns the time from when the response was made, by the server's clock, until at.
func until(at time.Time, h http.Header, now time.Time) time.Duration {
	if lines := h["Date"]; len(lines) == 1 {
		if sent, err := http.ParseTime(lines[0]); err == nil {
			now = sent
		}
	}
	return min(max(at.Sub(now), 0), maxTold)
}

// date reads a point in time: an HTTP-date, the same with a zone that HTTP does not allow, or RFC 3339. One that
// names a minute alone, as Atlassian does, is the end of it.
func date(value string) (time.Time, bool) {
	if at, err := http.ParseTime(value); err == nil {
		return at, true
	}
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC3339} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, true
		}
	}
	at, err := time.Parse("2006-01-02T15:04Z07:00", value)
	return at.Add(time.Minute), err == nil
}

// parseRetryAfter reads Retry-After (RFC 9110 section 10.2.3): seconds, however many digits they have, or a
// date, which is taken relative to the response's own. It is never negative.
func parseRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	lines := h["Retry-After"]
	if len(lines) != 1 || lines[0] == "" {
		return 0, false
	}
	value := strings.TrimSpace(lines[0])
	n := int64(0)
	for i := range len(value) {
		if !isDigit(value[i]) {
			at, ok := date(value)
			return until(at, h, now), ok
		}
		n = min(n*10+int64(value[i]-'0'), maxInteger)
	}
	return wholeSeconds(n), value != ""
}
