package rules

import (
	"errors"
	"path"
	"strings"
	"unicode"
)

// A Path is a pattern of paths, in the form that net/http.ServeMux has. Paths are compared as a router sees them:
// without escapes, cleaned of //, /./ and /../, and with or without a slash at the end.
type Path struct {
	text     string
	segments []string // of one segment each; empty for any
	below    bool     // and everything below
}

const pathPattern = `^/[^?#%*\\ ]*$`

const pathForms = "allowed is a path such as /login, /api/ for all below, /users/{id} for any one segment, or /{$} for the root"

func (p *Path) UnmarshalText(text []byte) error {
	p.text = string(text)
	if why := p.parse(); why != "" {
		return errors.New(why + ": " + pathForms)
	}
	return nil
}

// parse returns what is wrong with the pattern.
func (p *Path) parse() string {
	rest, ok := strings.CutPrefix(p.text, "/")
	switch {
	case !ok && strings.Contains(p.text, " "):
		return "a method or a host has a field of its own"
	case !ok:
		return "a path begins with a slash"
	case strings.Contains(rest, "%"):
		return "a path has no escapes here: write what they stand for"
	case strings.ContainsAny(rest, `?#*\`) || strings.ContainsFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return `none of ? # * \ and no space is in a path`
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "" && last:
			p.below = true
		case s == "{$}" && last:
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "...}") && last && isWord(s[1:len(s)-4]):
			p.below = true
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && isWord(s[1:len(s)-1]):
			p.segments = append(p.segments, "")
		case s == "" || s == "." || s == ".." || strings.ContainsAny(s, "{}"):
			return "the part " + s + " is none"
		default:
			p.segments = append(p.segments, s)
		}
	}
	return ""
}

func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func (p Path) String() string { return p.text }

// cleanPath is the path of a request as patterns see it: it begins with a slash and does not end with one.
func cleanPath(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return path.Clean(p)
}

// matches tells whether a clean path is one of the pattern.
func (p *Path) matches(clean string) bool {
	rest := clean[1:]
	for _, s := range p.segments {
		if rest == "" {
			return false
		}
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if s != "" && s != segment {
			return false
		}
	}
	return rest == "" || p.below
}

// covers tells whether every path of another pattern is one of this.
func (p Path) covers(other Path) bool {
	if len(p.segments) > len(other.segments) {
		return false
	}
	for i, s := range p.segments {
		if s != "" && s != other.segments[i] {
			return false
		}
	}
	return p.below || len(p.segments) == len(other.segments) && !other.below
}

// meets tells whether a path may be one of both patterns.
func (p Path) meets(other Path) bool {
	for i := range min(len(p.segments), len(other.segments)) {
		if a, b := p.segments[i], other.segments[i]; a != "" && b != "" && a != b {
			return false
		}
	}
	return len(p.segments) == len(other.segments) || len(p.segments) < len(other.segments) && p.below || len(p.segments) > len(other.segments) && other.below
}
