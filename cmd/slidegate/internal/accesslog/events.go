package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

var (
	errNoObject  = errors.New(`the line is not a JSON object such as {"t":1757750400000,"op":"take","key":"a","cost":1}`)
	errEventTime = errors.New("t is neither whole milliseconds since 1970 nor an RFC 3339 time, of the years 0 to 9999")
	errOp        = errors.New("op is none of take, peek, reset")
	errKey       = errors.New("key is not a string of Unicode characters")
	errCost      = errors.New("cost is not a whole number of at most 18 digits")
	errNoT       = errors.New("t is missing")
	errEmptyKey  = errors.New("the key is empty: it would be one bucket for everybody")
	errNoKey     = errors.New("key is missing")
)

// Events are one a line, each a JSON object with the members t, op, key and cost. Other
// members are passed over. The reader is strict: a member of the wrong type, or given
// twice, makes the line unreadable, since a guess would be an event that nobody wrote.
type events struct{}

func (events) String() string { return "jsonl" }

// NewParser implements [Format].
func (events) NewParser() Parser { return events{} }

// Parse implements [Parser].
func (events) Parse(line []byte, e *Record) error {
	e.reset()
	var m members
	s := scanner{rest: line}
	if err := m.read(&s); err != nil {
		return err
	}
	if m.t == nil {
		return errNoT
	}
	if m.key == nil {
		return errNoKey
	}
	var ok bool
	if e.Time, ok = timeOf(m.t); !ok {
		return errEventTime
	}
	if m.op != nil {
		if e.Op, ok = opOf(m.op); !ok {
			return errOp
		}
	}
	if m.cost != nil {
		if e.Cost, ok = whole(m.cost); !ok {
			return errCost
		}
	}
	key, ok := text(m.key)
	if !ok {
		return errKey
	}
	if len(key) == 0 {
		return errEmptyKey
	}
	e.Key = key
	return nil
}

// members are the values of an event as they stand in the line, nil where there is none.
type members struct{ t, op, key, cost []byte }

func (m *members) read(s *scanner) error {
	if !s.skip('{') {
		return errNoObject
	}
	for more := !s.skip('}'); more; {
		name, ok := text(s.value())
		if !ok || !s.skip(':') {
			return errNoObject
		}
		value := s.value()
		if value == nil {
			return errNoObject
		}
		if err := m.set(name, value); err != nil {
			return err
		}
		if more = s.skip(','); !more && !s.skip('}') {
			return errNoObject
		}
	}
	if len(s.trim()) > 0 {
		return errNoObject
	}
	return nil
}

func (m *members) set(name, value []byte) error {
	var to *[]byte
	switch string(name) {
	case "t":
		to = &m.t
	case "op":
		to = &m.op
	case "key":
		to = &m.key
	case "cost":
		to = &m.cost
	default:
		if !json.Valid(value) {
			return errNoObject
		}
		return nil
	}
	if *to != nil {
		return fmt.Errorf("%s is given twice", name)
	}
	*to = value
	return nil
}

// A scanner takes a line apart into tokens. It finds where a value ends; whether the value is right
// is for the one who reads it.
type scanner struct{ rest []byte }

func (s *scanner) trim() []byte {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\r' || s.rest[0] == '\n') {
		s.rest = s.rest[1:]
	}
	return s.rest
}

// skip passes over the character if it is the next one.
func (s *scanner) skip(c byte) bool {
	if b := s.trim(); len(b) == 0 || b[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value returns the next value, nil if there is none.
func (s *scanner) value() []byte {
	b, depth := s.trim(), 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := quoted(b[i:])
			if n < 0 {
				return nil
			}
			if i += n - 1; depth == 0 {
				return s.cut(i + 1)
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.cut(i)
			}
			if depth--; depth == 0 {
				return s.cut(i + 1)
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.cut(i)
			}
		}
	}
	return nil
}

func (s *scanner) cut(n int) []byte {
	if n == 0 {
		return nil
	}
	value := s.rest[:n]
	s.rest = s.rest[n:]
	return value
}

// quoted returns the length of the string that b begins with, quotes included, -1 if it has no end.
func quoted(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// text returns what a string says. The bytes are those of the line where nothing is escaped.
func text(value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' || !utf8.Valid(value) {
		return nil, false
	}
	plain := value[1 : len(value)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return plain, bytes.IndexFunc(plain, func(r rune) bool { return r < ' ' }) < 0
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return nil, false
	}
	// Half a surrogate pair is no character: encoding/json makes every one of them U+FFFD, and
	// two keys would become one.
	b := []byte(s)
	return b, bytes.ContainsRune(b, utf8.RuneError) == bytes.ContainsRune(plain, utf8.RuneError)
}

func opOf(value []byte) (Op, bool) {
	name, ok := text(value)
	if !ok {
		return 0, false
	}
	switch string(name) {
	case "take":
		return Take, true
	case "peek":
		return Peek, true
	case "reset":
		return Reset, true
	}
	return 0, false
}

func timeOf(value []byte) (t int64, ok bool) {
	if value[0] != '"' {
		t, ok = whole(value)
		return t, ok && t >= firstTime && t <= lastTime
	}
	written, ok := text(value)
	if !ok {
		return 0, false
	}
	var at time.Time
	if at.UnmarshalText(written) != nil {
		return 0, false
	}
	t = at.UnixMilli() // rounded down, as every clock is
	return t, t >= firstTime && t <= lastTime
}

// whole reads a number without a fraction, however it is written: 12, 12.0 and 1.2e1 are one.
func whole(value []byte) (int64, bool) {
	digits := value
	if digits[0] == '-' {
		digits = digits[1:]
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return written(value)
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	if len(digits) < len(value) {
		n = -n
	}
	return n, true
}

// written reads a whole number with a point or an exponent.
func written(value []byte) (int64, bool) {
	const exact = 1 << 53 // a double tells all whole numbers up to here apart
	if !json.Valid(value) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, false
	}
	return int64(f), true
}
