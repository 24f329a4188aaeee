package accesslog

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
)

// An Op is what an event asks of the limiter. An access log has takes alone.
type Op uint8

const (
	Take Op = iota
	Peek
	Reset
)

func (o Op) String() string { return [...]string{"take", "peek", "reset"}[o] }

// A Record is one request, as far as its line tells. What the line does not tell is empty, and -1
// where it is a number. The bytes belong to the reader and are valid until the next line is read.
type Record struct {
	File string // as on the command line; "standard input" for -
	Line int64  // from 1, or 0 where the record was not read from a file

	// Time is when the request began, in milliseconds since 1970, rounded down. Where the log has
	// the time of its end and how long it took, that is subtracted; see docs/logs.md.
	Time int64

	Address []byte // of the client: an IPv4 or IPv6 address as it is written, without a port
	Method  []byte
	Host    []byte // as the client named it, with a port if it did
	Path    []byte // of the request's target as it was sent: escaped, without the query
	Query   []byte // without the question mark
	Status  int
	Bytes   int64 // of the response, with or without its headers, as the log counts

	// Key, Op and Cost are those of an event. In an access log Key is nil, Op is Take and Cost is 1.
	Key  []byte
	Op   Op
	Cost int64

	fields []field
	wrote  []byte // the values that are not in the line as they stand
}

// A field is something that has a name in the log.
type field struct{ name, value []byte }

func (r *Record) reset() {
	*r = Record{File: r.File, Line: r.Line, Status: -1, Bytes: -1, Cost: 1, fields: r.fields[:0], wrote: r.wrote[:0]}
}

func (r *Record) add(name, value []byte) { r.fields = append(r.fields, field{name, value}) }

// Field returns what the log has under a name: that of an nginx variable, of a JSON member (with the
// names of the objects around it, as in request.tls.proto) or of a column. Apache's fields have the
// names that nginx has for them, where it has any, and are named by their letters otherwise.
// It is nil if the log does not have it.
func (r *Record) Field(name string) []byte {
	for i := range r.fields {
		if string(r.fields[i].name) == name {
			return r.fields[i].value
		}
	}
	return nil
}

// Header returns a header field of the request, nil if the log does not have it.
func (r *Record) Header(name string) []byte {
	for i := range r.fields {
		if h, ok := headerName(r.fields[i].name); ok && sameHeader(h, name) {
			return r.fields[i].value
		}
	}
	return nil
}

// UserAgent returns what the client calls itself, nil if the log does not have it.
func (r *Record) UserAgent() []byte { return r.Header("User-Agent") }

// The names under which logs have header fields: nginx and Apache (which is read under nginx's
// names), Traefik, and Caddy.
var headerPrefixes = [][]byte{[]byte("http_"), []byte("request_"), []byte("request.headers.")}

var userAgentNames = [][]byte{[]byte("user_agent"), []byte("userAgent"), []byte("agent")}

// headerName returns which header field a field of the log is.
func headerName(field []byte) ([]byte, bool) {
	for _, p := range headerPrefixes {
		if name, ok := bytes.CutPrefix(field, p); ok {
			return name, true
		}
	}
	for _, n := range userAgentNames {
		if bytes.Equal(field, n) {
			return []byte("User-Agent"), true
		}
	}
	if string(field) == "x_forwarded_for" {
		return field, true
	}
	return nil, false
}

// sameHeader compares names of header fields; nginx writes user_agent for User-Agent.
func sameHeader(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if lower(c) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	}
	return c
}

// cookieNames are the names under which logs have a cookie: nginx's.
var cookiePrefix = []byte("cookie_")

// Fill makes q the request of the record, so that what reads requests reads logs: key expressions and
// rules. It has a method, a host, a path with its query, the header fields that the log has and,
// as RemoteAddr, the address of the client with port 0. Fill may be called again and again
// with the same q, whose header it empties.
func (r *Record) Fill(q *http.Request) {
	q.Method, q.Host, q.RequestURI = string(r.Method), string(r.Host), ""
	if q.URL == nil {
		q.URL = new(url.URL)
	}
	written := string(r.Path)
	*q.URL = url.URL{RawQuery: string(r.Query), Path: written}
	if path, err := url.PathUnescape(written); err == nil {
		q.URL.Path = path
	}
	if q.URL.EscapedPath() != written { // as net/http has it: empty where the path says it all
		q.URL.RawPath = written
	}
	q.RemoteAddr = ""
	if len(r.Address) > 0 {
		q.RemoteAddr = joinPort(r.Address)
	}
	if q.Header == nil {
		q.Header = http.Header{}
	}
	clear(q.Header)
	for _, f := range r.fields {
		if len(f.value) == 0 {
			continue
		}
		if name, ok := headerName(f.name); ok {
			q.Header.Set(canonical(name), string(f.value))
		} else if name, ok := bytes.CutPrefix(f.name, cookiePrefix); ok {
			q.Header.Add("Cookie", string(name)+"="+string(f.value))
		}
	}
}

func joinPort(address []byte) string {
	if bytes.IndexByte(address, ':') >= 0 {
		return "[" + string(address) + "]:0"
	}
	return string(address) + ":0"
}

// canonical returns the name of a header field as net/http has it.
func canonical(name []byte) string {
	return textproto.CanonicalMIMEHeaderKey(string(bytes.ReplaceAll(name, []byte{'_'}, []byte{'-'})))
}

// parts are what a request line tells.
type parts struct{ method, host, path, query []byte }

// partsOf takes a request line apart: a method, a target and a version. One that is none, as servers log what was
// no HTTP, tells nothing and is a request all the same.
func partsOf(line []byte) (p parts) {
	method, rest, ok := bytes.Cut(line, space)
	if !ok || len(method) == 0 || string(method) == "-" {
		return p
	}
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 && bytes.HasPrefix(rest[i+1:], []byte("HTTP/")) {
		rest = rest[:i]
	}
	p = partsOfTarget(rest)
	p.method = method
	return p
}

// partsOfTarget takes the target of a request apart: /path?query or a whole URL.
func partsOfTarget(target []byte) (p parts) {
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i > 0 {
			end := bytes.IndexAny(target[i+3:], "/?")
			if end < 0 {
				end = len(target) - i - 3
			}
			p.host, target = target[i+3:i+3+end], target[i+3+end:]
			if len(target) == 0 {
				target = []byte{'/'}
			}
		}
	}
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		p.path, p.query = target[:i], target[i+1:]
		return p
	}
	p.path = target
	return p
}

var space = []byte{' '}
