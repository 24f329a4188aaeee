package httpgate

import (
	"cmp"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// A Format is a generation of the RateLimit header fields. The fields are an Internet-Draft, not
// an RFC; a Format emits the field syntax of the drafts that it names.
//
// In every format t, or reset, of a limit that refuses this request is the wait until the request
// would fit in it, at least 1, the number that also feeds Retry-After; of any other limit it is
// the time until it is completely full again. All are whole seconds, rounded up.
type Format uint8

const (
	// Draft8 is draft-ietf-httpapi-ratelimit-headers-08 to -11, and the default: every limit in
	// RateLimit: "burst";r=9;t=1, "day";r=98;t=60 and RateLimit-Policy: "burst";q=10;w=1, …
	Draft8 Format = iota + 1
	// Draft7 is draft-07: the binding limit in RateLimit: limit=10, remaining=9, reset=1, and
	// RateLimit-Policy: 10;w=1, 100;w=60.
	Draft7
	// Draft6 is draft-04 to -06: the binding limit in RateLimit-Limit, RateLimit-Remaining and
	// RateLimit-Reset, and RateLimit-Policy as Draft7 has it.
	Draft6
	// Legacy is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset of the binding limit,
	// the last one in seconds since the Unix epoch.
	Legacy
	// LegacyDelta is Legacy with X-RateLimit-Reset in seconds from now.
	LegacyDelta
)

// String returns the name that [ParseFormat] reads.
func (f Format) String() string {
	switch f {
	case Draft8:
		return "draft-8"
	case Draft7:
		return "draft-7"
	case Draft6:
		return "draft-6"
	case Legacy:
		return "legacy"
	case LegacyDelta:
		return "legacy-delta"
	}
	return "format(" + strconv.Itoa(int(f)) + ")"
}

// ParseFormat reads the name of a format: draft-8 (also draft-9, draft-10 and draft-11, which have
// the same syntax), draft-7, draft-6, legacy, legacy-delta.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "draft-9", "draft-10", "draft-11":
		return Draft8, nil
	}
	for f := Draft8; f <= LegacyDelta; f++ {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, invalidf("header format %q: allowed is draft-8, draft-7, draft-6, legacy, legacy-delta", s)
}

// The names of the fields, as http.Header spells them.
const (
	fieldRateLimit  = "Ratelimit"
	fieldLimit      = "Ratelimit-Limit"
	fieldRemaining  = "Ratelimit-Remaining"
	fieldReset      = "Ratelimit-Reset"
	fieldXLimit     = "X-Ratelimit-Limit"
	fieldXRemaining = "X-Ratelimit-Remaining"
	fieldXReset     = "X-Ratelimit-Reset"
	policyName      = "Ratelimit-Policy"
)

// formats is a set of Format.
type formats uint8

func (s formats) has(f Format) bool { return s&(1<<f) != 0 }

// listed are the formats without single-valued fields.
const listed formats = 1 << Draft8

// A policy is a limit as the fields speak of it. What never changes is worked out once.
type policy struct {
	raw    string // the limit's name
	name   string // the same as a structured String
	item   string // how its item of RateLimit begins
	quota  int64
	line   []string // the quota as a field
	window int64    // whole seconds, rounded up, at least 1
	unit   string
}

func policiesOf(limits []slidegate.Limit) []policy {
	policies := make([]policy, len(limits))
	for i, limit := range limits {
		policies[i] = newPolicy(limit)
	}
	return policies
}

func newPolicy(l slidegate.Limit) policy {
	name, _ := appendString(nil, l.Name) // a limit's name is printable ASCII
	return policy{raw: l.Name, name: string(name), item: string(name) + ";r=", quota: clamp(l.Quota), line: one(strconv.FormatInt(clamp(l.Quota), 10)), window: max(1, seconds(l.Window))}
}

// A standing is how a policy stands: what a response says of it.
type standing struct {
	remaining int64
	wait      time.Duration // the retry where it refuses, else the reset
	refuses   bool
}

func standingOf(s slidegate.State) standing {
	if s.RetryIn > 0 {
		return standing{clamp(s.Remaining), s.RetryIn, true}
	}
	return standing{clamp(s.Remaining), s.ResetIn, false}
}

// seconds is the wait as the fields have it.
func (s standing) seconds() int64 {
	if s.refuses {
		return max(1, seconds(s.wait))
	}
	return min(seconds(s.wait), maxInteger)
}

// until is the end of the wait in seconds since the Unix epoch, rounded up; now is in milliseconds.
func (s standing) until(now int64) int64 {
	return (now + int64((s.wait+time.Millisecond-1)/time.Millisecond) + 999) / 1000
}

// binds tells whether a single-valued field speaks for s rather than for other, which was
// declared earlier: one that refuses, then the least remaining, then the longest to wait.
func (s standing) binds(other standing) bool {
	switch {
	case s.refuses != other.refuses:
		return s.refuses
	case s.remaining != other.remaining:
		return s.remaining < other.remaining
	}
	return s.wait > other.wait
}

// lengthen makes the waits of limits that refuse longer, each by the same part of percent of it: at
// is from 0 to 1, without 1. Whole seconds are added, so that all fields of a response still agree.
func lengthen(standings []standing, percent int64, at float64) {
	for i := range standings {
		if s := &standings[i]; s.refuses {
			most := s.seconds() * percent / 100
			s.wait += time.Duration(at*float64(most+1)) * time.Second
		}
	}
}

// seconds rounds up, and never below 0.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// A plate is the part of the answers that is the same for every response of a limiter.
type plate struct {
	ban      bool // it refuses who has been refused too often
	policies []policy
	draft8   []string // RateLimit-Policy, shared by all responses and never modified
	draft7   []string
	short    bool                          // it has one limit, and only draft8 is spoken
	recent   *[recent]atomic.Pointer[told] // of one limit, by what remains; nil for several
	refusals []atomic.Pointer[choice]      // by the set of limits that refused, made when first needed

	group *slidegate.Group // where the gate decides over several keys
	each  []alone          // limits, where there are several and the gate settles
	err   error            // why the limiters do not go together
}

func newPlate(policies []policy) *plate {
	p := &plate{policies: policies, refusals: make([]atomic.Pointer[choice], 1<<len(policies))}
	if len(policies) == 0 {
		return p
	}
	p.draft8 = one(string(appendPolicies8(nil, policies, nil)))
	p.draft7 = one(string(appendPolicies7(nil, policies)))
	if len(policies) == 1 {
		p.recent = new([recent]atomic.Pointer[told])
	}
	return p
}

// recent is how many units may remain for a RateLimit to be remembered.
const recent = 512

// A told RateLimit of a limit is what was said last with so much remaining.
type told struct {
	seconds int64
	line    []string
}

// rateLimit returns RateLimit. Of one limit it is mostly what was said before: all clients with the same
// remaining units get it until the seconds are others.
func (p *plate) rateLimit(standings []standing, partitions [][]byte) []string {
	if p.recent != nil && partitions == nil {
		return p.rateLimitOfOne(standings[0])
	}
	var buffer [256]byte
	return line(p.appendDraft8(buffer[:0], standings, partitions))
}

func (p *plate) rateLimitOfOne(s standing) []string {
	var buffer [maxItem]byte
	seconds := s.seconds()
	if uint64(s.remaining) >= recent {
		return line(p.policies[0].appendItem(buffer[:0], s.remaining, seconds))
	}
	slot := &p.recent[s.remaining]
	if t := slot.Load(); t != nil && t.seconds == seconds {
		return t.line
	}
	t := &told{seconds, one(string(p.policies[0].appendItem(buffer[:0], s.remaining, seconds)))}
	slot.Store(t)
	return t.line
}

// maxItem is the length of an item that nearly all are within.
const maxItem = 64

// bit returns the set that holds the limit of a name alone.
func (p *plate) bit(name string) uint8 {
	for i := range p.policies {
		if p.policies[i].raw == name {
			return 1 << i
		}
	}
	return 0
}

// names returns the names of a set of limits.
func (p *plate) names(set uint8) (names []string) {
	for i := range p.policies {
		if set&(1<<i) != 0 {
			names = append(names, p.policies[i].raw)
		}
	}
	return names
}

// refusal returns the answer to a request that a set of limits refused.
func (g *Gate) refusal(p *plate, refused uint8) *choice {
	slot := &p.refusals[refused]
	if c := slot.Load(); c != nil {
		return c
	}
	names := p.names(refused)
	problem := QuotaExceeded(names...)
	if g.problem != nil {
		problem = g.problem(names...)
	}
	if p.ban {
		problem = AbnormalUsage(names...)
	}
	problem.Status = cmp.Or(g.status, problem.Status)
	c := negotiated(problem)
	slot.Store(c)
	return c
}

// one is a field value that may be shared: there is no room behind it for an append to write to.
func one(value string) []string { return []string{value}[:1:1] }

func separate(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	return b
}

// appendPolicies8 lists the policies of draft 8; partitions are nil for no pk.
func appendPolicies8(b []byte, policies []policy, partitions [][]byte) []byte {
	for i, p := range policies {
		b = separate(b, i)
		b = append(b, p.name...)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, p.quota, 10)
		if p.unit != "" {
			b = append(b, ";qu="...)
			b, _ = appendString(b, p.unit)
		}
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, p.window, 10)
		b = appendPartition(b, partitions, i)
	}
	return b
}

// partitionKeyLength is how much of a key's HMAC is sent as pk, in bytes.
const partitionKeyLength = 12

func appendPartition(b []byte, partitions [][]byte, i int) []byte {
	if partitions == nil || partitions[i] == nil {
		return b
	}
	return appendBytes(append(b, ";pk="...), partitions[i])
}

// appendPolicies7 lists the policies of drafts 6 and 7, where two of one quota are not allowed: the
// first stays.
func appendPolicies7(b []byte, policies []policy) []byte {
	for i, p := range policies {
		repeated := false
		for _, earlier := range policies[:i] {
			repeated = repeated || earlier.quota == p.quota
		}
		if repeated {
			continue
		}
		b = separate(b, i)
		b = strconv.AppendInt(b, p.quota, 10)
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, p.window, 10)
	}
	return b
}

func (p *plate) appendDraft8(b []byte, standings []standing, partitions [][]byte) []byte {
	for i, s := range standings {
		b = separate(b, i)
		b = p.policies[i].appendItem(b, s.remaining, s.seconds())
		b = appendPartition(b, partitions, i)
	}
	return b
}

// appendItem is the item of a policy in RateLimit.
func (p *policy) appendItem(b []byte, remaining, seconds int64) []byte {
	b = append(b, p.item...)
	b = appendUnits(b, remaining)
	b = append(b, ";t="...)
	return strconv.AppendInt(b, seconds, 10)
}

// appendUnits is strconv.AppendInt of units, which may be many: 0 to maxInteger.
func appendUnits(b []byte, n int64) []byte {
	const eight = 100_000_000
	if n < eight {
		return strconv.AppendInt(b, n, 10)
	}
	b = strconv.AppendInt(b, n/eight, 10)
	return binary.LittleEndian.AppendUint64(b, eightDigits(uint64(n%eight)))
}

// eightDigits returns the digits of a number, the first in the lowest byte. It halves all of its parts at once: into two of four
// digits, four of two and eight of one; a product and a shift are the division by 100 and by 10 of what is that small.
func eightDigits(n uint64) uint64 {
	n = n/10_000 | n%10_000<<32
	high := n * 10_486 >> 20 & 0x0000007f_0000007f
	n = high | (n-high*100)<<16
	high = n * 103 >> 10 & 0x000f_000f_000f_000f
	n = high | (n-high*10)<<8
	return n | 0x3030303030303030
}

func appendDraft7(b []byte, quota int64, s standing) []byte {
	b = append(b, "limit="...)
	b = strconv.AppendInt(b, quota, 10)
	b = append(b, ", remaining="...)
	b = strconv.AppendInt(b, s.remaining, 10)
	b = append(b, ", reset="...)
	return strconv.AppendInt(b, s.seconds(), 10)
}

// binding returns the index of the standing that binds.
func binding(standings []standing) int {
	best := 0
	for i := range standings {
		if standings[i].binds(standings[best]) {
			best = i
		}
	}
	return best
}

// A page is what the fields of one response depend on, beside how the limits stand.
type page struct {
	formats    formats
	retryAfter bool
	now        int64     // the store's clock, in milliseconds
	partitions [][]byte  // the pk of each policy; nil for none
	outer      *standing // of the limit that binds in the gates outside this one, if there are any
}

// write sets the fields on h. Draft 8 has lists, which go behind what another gate has put there.
// Where two formats have a field in common, the newer one has it.
func (p *plate) write(h http.Header, page *page, standings []standing) {
	if len(standings) == 0 {
		return
	}
	set := page.formats
	if page.retryAfter {
		h["Retry-After"] = integer(retryAfter(standings))
	}
	if set&^listed != 0 {
		p.writeSingles(h, page, standings)
	}
	switch {
	case set.has(Draft8):
		policies := p.draft8
		if page.partitions != nil {
			policies = line(appendPolicies8(nil, p.policies, page.partitions))
		}
		setDraft8(h, p.rateLimit(standings, page.partitions), policies)
	case set.has(Draft7), set.has(Draft6):
		h[policyName] = behind(h[policyName], p.draft7)
	}
}

// writeShort is write for a short plate and a request that was admitted.
func (p *plate) writeShort(h http.Header, d *slidegate.Decision) {
	setDraft8(h, p.rateLimitOfOne(standing{remaining: clamp(d.Remaining()), wait: d.ResetAfter()}), p.draft8)
}

func setDraft8(h http.Header, told, policies []string) {
	if len(h) > 0 {
		told, policies = behind(h[fieldRateLimit], told), behind(h[policyName], policies)
	}
	h[fieldRateLimit], h[policyName] = told, policies
}

// writeSingles sets the fields that speak for the limit that binds alone. One that is there already stays if an
// outer gate put it there and its limit binds.
func (p *plate) writeSingles(h http.Header, page *page, standings []standing) {
	set, bind := page.formats, binding(standings)
	single := standings[bind]
	mine := func(name string) bool { return h[name] == nil || page.outer == nil || single.binds(*page.outer) }
	if set.has(Draft7) && !set.has(Draft8) && mine(fieldRateLimit) {
		var buffer [128]byte
		h[fieldRateLimit] = line(appendDraft7(buffer[:0], p.policies[bind].quota, single))
	}
	if set.has(Draft6) && mine(fieldLimit) {
		h[fieldLimit] = p.policies[bind].line
		h[fieldRemaining] = integer(single.remaining)
		h[fieldReset] = integer(single.seconds())
	}
	if (set.has(Legacy) || set.has(LegacyDelta)) && mine(fieldXLimit) {
		reset := single.seconds()
		if set.has(Legacy) {
			reset = single.until(page.now)
		}
		h[fieldXLimit] = p.policies[bind].line
		h[fieldXRemaining] = integer(single.remaining)
		h[fieldXReset] = integer(reset)
	}
}

// A ream is paper for the lines of many responses, so that few of them need an allocation. What has been
// cut from it is never written again.
type ream struct {
	text  strings.Builder
	lines []string
}

const (
	reamText  = 1536
	reamLines = 64
)

var reams = sync.Pool{New: func() any { return new(ream) }}

// line returns a text as the one line of a field.
func line(text []byte) []string {
	r := reams.Get().(*ream)
	if r.text.Cap()-r.text.Len() < len(text) || len(r.lines) == 0 {
		r = &ream{lines: make([]string, reamLines)}
		r.text.Grow(max(reamText, len(text)))
	}
	l, at := r.lines[:1:1], r.text.Len()
	r.lines = r.lines[1:]
	r.text.Write(text)
	l[0] = r.text.String()[at:]
	reams.Put(r)
	return l
}

// integers are the lines of small numbers, shared by all responses and never modified.
var integers = func() (lines [256][]string) {
	for n := range lines {
		lines[n] = one(strconv.Itoa(n))
	}
	return lines
}()

// integer returns a number as the one line of a field.
func integer(n int64) []string {
	if 0 <= n && n < int64(len(integers)) {
		return integers[n]
	}
	var buffer [20]byte
	return line(strconv.AppendInt(buffer[:0], n, 10))
}

// behind puts a field line behind those that are there.
func behind(there, value []string) []string {
	if len(there) == 0 {
		return value
	}
	return append(there, value...)
}

// maxRetryAfter is what clients with 32-bit seconds can read.
const maxRetryAfter = 1<<31 - 1

// retryAfter returns the Retry-After of a refusal: the longest wait among the limits that refuse,
// in whole seconds, rounded up, at least 1 (RFC 9110 section 10.2.3).
func retryAfter(standings []standing) int64 {
	longest := time.Duration(0)
	for _, s := range standings {
		if s.refuses {
			longest = max(longest, s.wait)
		}
	}
	return min(max(1, seconds(longest)), maxRetryAfter)
}
