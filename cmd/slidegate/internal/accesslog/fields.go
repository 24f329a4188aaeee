package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FieldsUsage says what a flag for fields takes.
const FieldsUsage = "what a field of the log is, as WHAT=NAME, where WHAT is one of time, ip, request, method, host, path, query, status, bytes, duration, header:NAME or cookie:NAME; may be repeated"

// what names the kinds as a user does.
var what = map[string]kind{
	"time": timeOfRequest, "ip": address, "request": requestLine, "method": method, "host": host, "path": target,
	"query": query, "status": status, "bytes": bytesSent, "duration": duration,
}

// Fields say which fields of a log are what, where their names do not: the zero Fields go by the names that
// servers use.
type Fields struct {
	own      map[string]meaning
	renamed  map[string]string // of a header or a cookie: the name under which a record has it
	replaced [kinds]bool       // the kinds that other names have no say in
}

// ParseFields reads WHAT=NAME for each. The error says what is allowed.
func ParseFields(texts []string) (Fields, error) {
	var f Fields
	for _, text := range texts {
		left, name, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return f, fmt.Errorf("%q: allowed is WHAT=NAME, such as ip=request.client_ip", text)
		}
		if f.own == nil {
			f.own, f.renamed = map[string]meaning{}, map[string]string{}
		}
		if _, ok := f.own[name]; ok {
			return f, fmt.Errorf("%q: field %q is there twice", text, name)
		}
		if to, ok := renamed(left); ok {
			f.own[name], f.renamed[name] = meaning{}, to
			continue
		}
		k, ok := what[left]
		if !ok {
			return f, fmt.Errorf("%q: allowed before = is %s, header:NAME or cookie:NAME", text, strings.Join(slices.Sorted(maps.Keys(what)), ", "))
		}
		m := meanings[name]
		if m.kind != k {
			m = meaning{kind: k}
		}
		m.rank, m.port = 0, true
		f.own[name], f.replaced[k] = m, true
	}
	return f, nil
}

func renamed(left string) (to string, ok bool) {
	if name, ok := strings.CutPrefix(left, "header:"); ok && name != "" {
		return "http_" + strings.ReplaceAll(strings.ToLower(name), "-", "_"), true
	}
	if name, ok := strings.CutPrefix(left, "cookie:"); ok && name != "" {
		return "cookie_" + name, true
	}
	return "", false
}

// meaning returns what a field is, which would be base if nobody had said anything.
func (f *Fields) meaning(name string, base meaning) meaning {
	if m, ok := f.own[name]; ok {
		return m
	}
	if f.replaced[base.kind] {
		return meaning{}
	}
	return base
}

// name returns the name under which a record has a field.
func (f *Fields) name(name string) []byte {
	if to, ok := f.renamed[name]; ok {
		return []byte(to)
	}
	return []byte(name)
}

// of returns the pattern with what fields say of it.
func (f *Fields) of(p *pattern) *pattern {
	if f.own == nil {
		return p
	}
	with := *p
	with.elements = slices.Clone(p.elements)
	for i := range with.elements {
		e := &with.elements[i]
		name := string(e.name)
		e.meaning, e.name = f.meaning(name, e.meaning), f.name(name)
	}
	return &with
}

// A Described format tells which fields of the log it took for what.
type described interface{ describe() map[string]string }

func describe(from *[kinds][]byte) map[string]string {
	all := map[string]string{}
	for name, k := range what {
		if from[k] != nil {
			all[name] = string(from[k])
		}
	}
	return all
}
