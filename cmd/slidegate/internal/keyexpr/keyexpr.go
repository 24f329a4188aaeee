// Package keyexpr reads key expressions: what tells clients apart. An expression is one or several of
// ip, header:NAME, cookie:NAME, path, host and method, joined by '+'.
package keyexpr

import (
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"path"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/httpgate"
)

// An Expr is a key expression. It is safe for concurrent use.
type Expr struct {
	text  string
	parts []part
}

// A part yields one part of the key; an empty text means that it cannot tell.
type part struct {
	name   string // the kind, and the name of what it reads: no two kinds yield the same text
	client bool   // tells clients apart
	of     func(r *http.Request, address string) string
}

const allowed = "allowed is ip, header:NAME, cookie:NAME, path, host, method, joined by +"

// Parse reads an expression. The error names the part that is wrong and what is allowed.
func Parse(text string) (*Expr, error) {
	e := &Expr{text: text}
	seen := map[string]bool{}
	for _, s := range strings.Split(text, "+") {
		p, err := parse(s)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w: %s", text, err, allowed)
		}
		if seen[p.name] {
			return nil, fmt.Errorf("key %q: part %q is there twice", text, s)
		}
		seen[p.name] = true
		e.parts = append(e.parts, p)
	}
	return e, nil
}

func parse(s string) (part, error) {
	kind, name, named := strings.Cut(s, ":")
	switch {
	case s == "ip":
		return part{s, true, func(_ *http.Request, address string) string { return address }}, nil
	case s == "path":
		return part{s, false, func(r *http.Request, _ string) string { return "path:" + path.Clean("/"+r.URL.Path) }}, nil
	case s == "host":
		return part{s, false, func(r *http.Request, _ string) string { return "host:" + Host(r.Host) }}, nil
	case s == "method":
		return part{s, false, func(r *http.Request, _ string) string { return "method:" + r.Method }}, nil
	case (kind == "header" || kind == "cookie") && named && !isToken(name):
		return part{}, fmt.Errorf("part %q has no valid %s name", s, kind)
	case kind == "header" && named:
		return fromHeader(textproto.CanonicalMIMEHeaderKey(name)), nil
	case kind == "cookie" && named:
		return part{s, true, func(r *http.Request, _ string) string { return value("cookie:"+name+":", cookie(r, name)) }}, nil
	}
	return part{}, fmt.Errorf("part %q is unknown", s)
}

func fromHeader(name string) part {
	read := func(r *http.Request) string { return strings.TrimSpace(r.Header.Get(name)) }
	if name == "Host" { // net/http keeps it elsewhere
		read = func(r *http.Request) string { return strings.ToLower(r.Host) }
	}
	return part{"header:" + name, true, func(r *http.Request, _ string) string { return value("header:"+name+":", read(r)) }}
}

func value(prefix, v string) string {
	if v == "" {
		return ""
	}
	return prefix + v
}

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// Host is a host as clients mean it: Shop.example:8080 and shop.example. are the same, and so are [::1]:8080 and [::1].
func Host(h string) string {
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	} else if strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]") {
		h = h[1 : len(h)-1]
	}
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}+`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// String returns the expression as it was written.
func (e *Expr) String() string { return e.text }

// CanBe tells whether a key may be one of the expression, as far as its beginning shows.
func (e *Expr) CanBe(key string) bool {
	if len(e.parts) > 1 {
		length, _, ok := strings.Cut(key, ":")
		_, err := strconv.Atoi(length)
		return ok && err == nil
	}
	p := e.parts[0]
	return p.client && strings.HasPrefix(key, "ip:") || p.name != "ip" && strings.HasPrefix(key, p.name+":")
}

// Parts returns the parts of the expression as they are named, such as ip or header:X-Api-Key.
func (e *Expr) Parts() (names []string) {
	for _, p := range e.parts {
		names = append(names, p.name)
	}
	return names
}

// IsAddress tells whether the expression is the client's address alone.
func (e *Expr) IsAddress() bool { return e.text == "ip" }

// TellsClients tells whether any part of the expression is the client's: without one, clients
// share a quota.
func (e *Expr) TellsClients() bool {
	for _, p := range e.parts {
		if p.client {
			return true
		}
	}
	return false
}

// Key returns the key of a request. A header or a cookie that is missing is replaced by address, the
// key of the client's address, which may be empty if there is none: then there is no key. Different
// values give different keys.
func (e *Expr) Key(r *http.Request, address string) string {
	values := make([]string, len(e.parts))
	for i, p := range e.parts {
		values[i] = p.of(r, address)
		if values[i] == "" && p.client {
			values[i] = address
		}
		if values[i] == "" {
			return ""
		}
	}
	if len(values) == 1 {
		return values[0]
	}
	return httpgate.Join(values...)
}
