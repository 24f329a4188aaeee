package httpgate

import (
	"net/netip"
	"strings"
)

// forwardedFor returns the "for" of every element of Forwarded fields, RFC 7239 section 4, in order.
// Any syntax error spoils the whole: a quote that a client leaves open could swallow what a proxy
// adds. An element without "for" yields an empty text, which no address parser takes.
func forwardedFor(lines []string) (members []string, ok bool) {
	for _, line := range lines {
		if trim(line) == "" {
			continue
		}
		s := scanner{line}
		for {
			node, present, ok := s.element()
			if !ok {
				return nil, false
			}
			if present {
				members = append(members, node)
			}
			if s.rest == "" {
				break
			}
			s.rest = s.rest[1:] // the comma
		}
	}
	return members, true
}

// maxParameters bounds an element: the search for a name that is there twice is quadratic.
const maxParameters = 16

// A scanner reads a Forwarded field from its start.
type scanner struct{ rest string }

// element reads up to a comma or the end. An element without any pair is not present.
func (s *scanner) element() (node string, present, ok bool) {
	var seen []string
	for {
		s.space()
		if s.rest == "" || s.rest[0] == ',' {
			return node, present, true
		}
		if s.rest[0] == ';' {
			s.rest = s.rest[1:]
			continue
		}
		name, value, good := s.pair()
		if !good || len(seen) == maxParameters {
			return "", false, false
		}
		for _, earlier := range seen {
			if strings.EqualFold(earlier, name) {
				return "", false, false // each parameter at most once
			}
		}
		seen = append(seen, name)
		present = true
		if strings.EqualFold(name, "for") {
			node = value
		}
		s.space()
		if s.rest != "" && s.rest[0] != ';' && s.rest[0] != ',' {
			return "", false, false
		}
	}
}

func (s *scanner) space() { s.rest = strings.TrimLeft(s.rest, " \t") }

// pair reads token "=" (token / quoted-string). A bare IPv6 address is no token.
func (s *scanner) pair() (name, value string, ok bool) {
	if name = s.token(); name == "" || s.rest == "" || s.rest[0] != '=' {
		return "", "", false
	}
	s.rest = s.rest[1:]
	if s.rest != "" && s.rest[0] == '"' {
		value, ok = s.quoted()
		return name, value, ok
	}
	value = s.token()
	return name, value, value != ""
}

func (s *scanner) token() string {
	i := 0
	for i < len(s.rest) && isTokenByte(s.rest[i]) {
		i++
	}
	t := s.rest[:i]
	s.rest = s.rest[i:]
	return t
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func (s *scanner) quoted() (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case c == '\\' && i+1 < len(s.rest):
			i++
			b.WriteByte(s.rest[i])
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// parseNode reads a node identifier, RFC 7239 section 6. "unknown" and obfuscated ones are no
// addresses; an IPv6 address without its brackets is taken, since nothing else can be meant.
func parseNode(s string) (netip.Addr, bool) {
	if host, port, ok := strings.Cut(s, ":_"); ok && port != "" && !strings.ContainsAny(port, "[]:") {
		s = host // an obfuscated port
	}
	return parseMember(s)
}
