package httpgate

import (
	"encoding/base64"
	"strings"
)

// The readers here are those of Structured Fields, RFC 9651 section 4.2. Whatever fails voids the
// whole field. They allocate only where a String has an escape or a Byte Sequence bytes.

// maxFieldLength is the longest field value that is read, in bytes, all its lines together.
const maxFieldLength = 32 << 10

// joined returns the value of a field whose lines are one list (RFC 9110 section 5.3). One that is
// too long counts as empty.
func joined(lines []string) string {
	n := 0
	for _, line := range lines {
		n += len(line) + 1
	}
	switch {
	case n == 0 || n > maxFieldLength:
		return ""
	case len(lines) == 1:
		return lines[0]
	}
	return strings.Join(lines, ",")
}

type kind uint8

const (
	kindNone kind = iota // not there
	kindInteger
	kindDecimal
	kindString
	kindToken
	kindBytes
	kindOther // Boolean, Date and Display String, which no field here has a use for
)

// A bare is a bare item. Of a Decimal n is what stands before the point, and more tells whether
// anything but zeros stands behind it.
type bare struct {
	kind kind
	n    int64
	more bool
	text string
}

// count returns an Integer that is not negative.
func (b bare) count() (int64, bool) { return b.n, b.kind == kindInteger && b.n >= 0 }

// A fieldScanner reads one field value from left to right.
type fieldScanner struct {
	s string
	i int
}

func scanField(value string) *fieldScanner {
	return &fieldScanner{s: strings.Trim(value, " ")}
}

func (s *fieldScanner) done() bool { return s.i >= len(s.s) }

func (s *fieldScanner) peek() byte {
	if s.done() {
		return 0
	}
	return s.s[s.i]
}

// take moves on if the next byte is c.
func (s *fieldScanner) take(c byte) bool {
	if s.done() || s.s[s.i] != c {
		return false
	}
	s.i++
	return true
}

// run moves over the bytes that f accepts and returns them.
func (s *fieldScanner) run(f func(byte) bool) string {
	from := s.i
	for !s.done() && f(s.s[s.i]) {
		s.i++
	}
	return s.s[from:s.i]
}

// next moves to the next member of a List or Dictionary. more is false at the end; ok is false where a
// comma is missing, or has nothing behind it.
func (s *fieldScanner) next() (more, ok bool) {
	space := func(c byte) bool { return c == ' ' || c == '\t' }
	s.run(space)
	if s.done() {
		return false, true
	}
	if !s.take(',') {
		return true, false
	}
	s.run(space)
	return true, !s.done()
}

// params reads the parameters of an item and calls f with each, in order: of a key that is
// repeated the last one counts.
func (s *fieldScanner) params(f func(key string, value bare)) bool {
	for s.take(';') {
		s.run(func(c byte) bool { return c == ' ' })
		key, ok := s.key()
		if !ok {
			return false
		}
		value := bare{kind: kindOther}
		if s.take('=') {
			if value, ok = s.bare(); !ok {
				return false
			}
		}
		f(key, value)
	}
	return true
}

func (s *fieldScanner) key() (string, bool) {
	if c := s.peek(); !isLower(c) && c != '*' {
		return "", false
	}
	return s.run(func(c byte) bool {
		return isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'
	}), true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

func (s *fieldScanner) bare() (bare, bool) {
	switch c := s.peek(); {
	case c == '-' || isDigit(c):
		return s.number()
	case c == '"':
		text, ok := s.quoted()
		return bare{kind: kindString, text: text}, ok
	case c == '*' || isAlpha(c):
		text := s.run(func(c byte) bool { return isTokenByte(c) || c == ':' || c == '/' })
		return bare{kind: kindToken, text: text}, true
	case c == ':':
		return s.bytes()
	case c == '?':
		s.i++
		return bare{kind: kindOther}, s.take('0') || s.take('1')
	case c == '@':
		s.i++
		date, ok := s.number()
		return bare{kind: kindOther}, ok && date.kind == kindInteger
	case c == '%':
		return s.display()
	}
	return bare{}, false
}

// number reads an Integer of at most 15 digits or a Decimal of at most 12 and 3.
func (s *fieldScanner) number() (bare, bool) {
	negative := s.take('-')
	whole := s.run(isDigit)
	if whole == "" || len(whole) > 15 {
		return bare{}, false
	}
	b := bare{kind: kindInteger}
	for i := range len(whole) {
		b.n = b.n*10 + int64(whole[i]-'0')
	}
	if negative {
		b.n = -b.n
	}
	if !s.take('.') {
		return b, true
	}
	part := s.run(isDigit)
	b.kind, b.more = kindDecimal, strings.Trim(part, "0") != ""
	return b, len(whole) <= 12 && len(part) >= 1 && len(part) <= 3
}

func (s *fieldScanner) quoted() (string, bool) {
	s.i++
	from, escaped := s.i, false
	for ; !s.done(); s.i++ {
		switch c := s.s[s.i]; {
		case c == '"':
			text := s.s[from:s.i]
			s.i++
			if escaped {
				text = unescape(text)
			}
			return text, true
		case c == '\\':
			escaped = true
			s.i++
			if c := s.peek(); c != '"' && c != '\\' {
				return "", false
			}
		case c < ' ' || c > '~':
			return "", false
		}
	}
	return "", false
}

// unescape takes the backslashes out of a String that is known to be well-formed.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// bytes reads a Byte Sequence; the padding may be missing and pad bits need not be zero, as
// section 4.2.7 asks of parsers.
func (s *fieldScanner) bytes() (bare, bool) {
	s.i++
	text := s.run(func(c byte) bool { return c != ':' })
	if !s.take(':') || strings.ContainsAny(text, "\r\n") {
		return bare{}, false
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return bare{kind: kindBytes, text: string(raw)}, err == nil
}

// display reads over a Display String.
func (s *fieldScanner) display() (bare, bool) {
	s.i++
	if !s.take('"') {
		return bare{}, false
	}
	hex := func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }
	for ; !s.done(); s.i++ {
		switch c := s.s[s.i]; {
		case c == '"':
			s.i++
			return bare{kind: kindOther}, true
		case c == '%':
			if s.i+2 >= len(s.s) || !hex(s.s[s.i+1]) || !hex(s.s[s.i+2]) {
				return bare{}, false
			}
			s.i += 2
		case c < ' ' || c > '~':
			return bare{}, false
		}
	}
	return bare{}, false
}
