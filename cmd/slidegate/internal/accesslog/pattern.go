package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

var errShape = errors.New("the line is not written in this format")

// A pattern is a format in which texts stand between fields: what Apache and nginx call a log format.
type pattern struct {
	name     string // of the format
	text     string // as it was written, empty where the name says enough
	elements []element
	tail     []byte // what follows the last field
}

// An element is a text and the field that follows it.
type element struct {
	before []byte
	name   []byte // of the field, nil for one that nobody can ask for
	meaning
	clock clockPart
}

// A clockPart is a field that is only a part of a time, as Apache can write them.
type clockPart struct {
	kind   clockKind
	layout string
}

type clockKind uint8

const (
	noPart        clockKind = iota
	laidOut                 // as package time lays it out, in UTC unless a zone is there
	epochPart               // a number
	milliFraction           // three digits
	microFraction           // six digits
	zonePart                // -0700
)

func (p *pattern) String() string {
	if p.text != "" {
		return p.text
	}
	return p.name
}

// check is an error if nobody could read lines of the pattern.
func (p *pattern) check() error {
	var has [kinds]bool
	for i, e := range p.elements {
		has[e.kind] = true
		if i > 0 && len(e.before) == 0 {
			return errors.New("nothing stands between two fields, so nothing tells where one ends")
		}
	}
	switch {
	case !has[timeOfRequest]:
		return errors.New("no field is the time of the request")
	case !has[address]:
		return errors.New("no field is the address of the client")
	}
	return nil
}

// join makes one field of two where it is known how they end: $host$request_uri, %U%q, $uri$is_args$args.
func (p *pattern) join() *pattern {
	joined := p.elements[:0]
	for _, e := range p.elements {
		if len(joined) == 0 || len(e.before) > 0 {
			joined = append(joined, e)
			continue
		}
		switch last := &joined[len(joined)-1]; {
		case last.kind == target && (e.kind == query || string(e.name) == "is_args"):
		case last.kind == host && e.kind == target:
			last.meaning = meaning{kind: hostTarget, rank: e.rank}
		case last.kind == hostTarget && e.kind == query:
		default:
			joined = append(joined, e)
		}
	}
	p.elements = joined
	return p
}

// NewParser implements [Format].
func (p *pattern) NewParser() Parser { return &patternParser{pattern: p, until: len(p.elements)} }

// newBriefParser implements [briefly]: what follows the last field that tells the time or the address is not read.
func (p *pattern) newBriefParser() Parser {
	until := 0
	for i, e := range p.elements {
		if e.kind == timeOfRequest || e.kind == address || e.kind == duration {
			until = i + 1
		}
	}
	return &patternParser{pattern: p, until: until}
}

type patternParser struct {
	*pattern
	assembly
	parts timeParts
	until int // elements that are read
}

// Parse implements [Parser]. A line that was cut short after the time and the address is a request all the
// same.
func (p *patternParser) Parse(line []byte, r *Record) error {
	p.begin(r)
	p.parts = timeParts{}
	rest, ok := bytes.CutPrefix(line, p.elements[0].before)
	if !ok {
		return errShape
	}
	for i := range p.until {
		value, left, found := p.cut(rest, i)
		if err := p.field(&p.elements[i], value); err != nil {
			return err
		}
		if rest = left; !found {
			break
		}
	}
	if p.parts.some {
		if p.rank[timeOfRequest] = 1; !p.parts.into(p.Record) {
			return errBadTime
		}
	}
	return p.finish()
}

// cut returns what field i is, and what follows the text after it.
func (p *patternParser) cut(rest []byte, i int) (value, left []byte, found bool) {
	end := p.tail
	if i+1 < len(p.elements) {
		end = p.elements[i+1].before
	}
	if len(end) == 0 {
		return rest, nil, true
	}
	at := -1
	switch {
	case end[0] == '"':
		at = indexQuote(rest, end)
	case len(end) == 1:
		at = bytes.IndexByte(rest, end[0])
	default:
		at = bytes.Index(rest, end)
	}
	if at < 0 {
		// The line was cut short, or goes on in another way.
		if at = bytes.IndexByte(rest, end[0]); at < 0 {
			at = len(rest)
		}
		return rest[:at], nil, false
	}
	return rest[:at], rest[at+len(end):], true
}

// indexQuote finds a text that begins with a quote which no backslash takes the meaning of.
func indexQuote(b, text []byte) int {
	for from := 0; ; {
		i := bytes.Index(b[from:], text)
		if i < 0 {
			return -1
		}
		i += from
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		from = i + 1
	}
}

func (p *patternParser) field(e *element, value []byte) error {
	if e.clock.kind != noPart {
		if !p.parts.take(e.clock, value, &p.assembly.clock) {
			return errBadTime
		}
		return nil
	}
	if bytes.IndexByte(value, '\\') >= 0 {
		value = p.unescape(value)
	}
	if e.name != nil && !(len(value) == 1 && value[0] == '-') {
		p.add(e.name, value)
	}
	return p.set(e.meaning, value)
}

// unescape undoes what Apache and nginx do to quotes, backslashes and what is not printable:
// \xHH, and a backslash before a letter as in C.
func (r *Record) unescape(b []byte) []byte {
	start := len(r.wrote)
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 == len(b) {
			r.wrote = append(r.wrote, c)
			continue
		}
		i++
		switch c = b[i]; c {
		case 'x':
			if i+2 < len(b) && isHex(b[i+1]) && isHex(b[i+2]) {
				r.wrote = append(r.wrote, hexDigit(b[i+1])<<4|hexDigit(b[i+2]))
				i += 2
				continue
			}
			r.wrote = append(r.wrote, '\\', 'x')
		case 'n':
			r.wrote = append(r.wrote, '\n')
		case 't':
			r.wrote = append(r.wrote, '\t')
		case 'r':
			r.wrote = append(r.wrote, '\r')
		case '"', '\\', '/':
			r.wrote = append(r.wrote, c)
		default:
			r.wrote = append(r.wrote, '\\', c)
		}
	}
	return r.wrote[start:len(r.wrote):len(r.wrote)]
}

func isHex(c byte) bool {
	return c-'0' <= 9 || (c|0x20) >= 'a' && (c|0x20) <= 'f'
}

func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

// timeParts are the parts of a time that stand apart.
type timeParts struct {
	some         bool
	milli, shift int64
	based        bool
}

func (t *timeParts) take(part clockPart, value []byte, c *clock) (ok bool) {
	t.some = true
	switch part.kind {
	case laidOut:
		var at time.Time
		at, err := time.Parse(part.layout, string(value))
		t.milli += at.UnixMilli()
		t.based = true
		return err == nil
	case epochPart:
		var at int64
		at, ok = epoch(value)
		t.milli += at
		t.based = true
		return ok
	case milliFraction, microFraction:
		milli, rest := fraction(value)
		t.milli += milli
		return rest != nil && len(rest) == 0
	case zonePart:
		t.shift, ok = offsetOf(value)
	}
	return ok
}

func (t *timeParts) into(r *Record) bool {
	r.Time = t.milli - t.shift
	return t.based && r.Time >= firstTime && r.Time <= lastTime
}

// The formats that have names of their own.
var (
	commonPattern   = named("common", `%h %l %u %t "%r" %>s %b`)
	combinedPattern = named("combined", `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`)

	// Debian's: the host that was asked for, and its port, before the Combined Log Format.
	vhostPattern = named("vhost_combined", `%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`)

	// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
	albPattern = alb()

	patterns = []*pattern{commonPattern, combinedPattern, vhostPattern, albPattern}
)

func named(name, text string) *pattern {
	p, err := apache(text)
	if err != nil {
		panic(fmt.Sprintf("format %s: %v", name, err))
	}
	p.name, p.text = name, ""
	return p
}

func alb() *pattern {
	p, err := nginx(`$type $time $elb $client $target $request_processing_time $target_processing_time ` +
		`$response_processing_time $status $target_status_code $received_bytes $bytes_sent "$request" "$http_user_agent" ` +
		`$ssl_cipher $ssl_protocol $target_group_arn "$trace_id" "$domain_name" "$chosen_cert_arn" ` +
		`$matched_rule_priority $request_creation_time "$actions_executed"`)
	if err != nil {
		panic("format alb: " + err.Error())
	}
	p.name, p.text = "alb", ""
	return p
}
