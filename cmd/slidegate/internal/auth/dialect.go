package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/httpgate"
)

// A Dialect is how a proxy says which request it asks about: the fields that it sets, whatever its client sent
// in them. No other field is read, since clients can send all of them.
type Dialect struct {
	name   string
	method string // empty: the method of the proxy's own request
	uri    string // empty: the path of the proxy's own request, behind that of the door
	host   string // empty or not sent: the Host of the proxy's own request
	scheme string // empty or not sent: not known
	client string // a list that the proxy appends whom it serves to, or X-Real-Ip
}

// dialects are named, in canonical form, as the proxies' own documentation and our recipes have them.
var dialects = []Dialect{
	{"nginx", "X-Original-Method", "X-Original-Uri", "", "X-Forwarded-Proto", "X-Forwarded-For"},
	{"ingress-nginx", "X-Original-Method", "X-Original-Url", "", "", "X-Real-Ip"},
	{"traefik", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For"},
	{"caddy", "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For"},
	{"haproxy", "X-Original-Method", "X-Original-Uri", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For"},
	{"envoy", "", "", "", "X-Forwarded-Proto", "X-Forwarded-For"},
}

// Dialects returns the names of the dialects there are.
func Dialects() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// ParseDialect returns the dialect of a name that [Dialects] returns.
func ParseDialect(name string) (Dialect, error) {
	for _, d := range dialects {
		if d.name == name {
			return d, nil
		}
	}
	return Dialect{}, fmt.Errorf("dialect %q: allowed is %s", name, strings.Join(Dialects(), ", "))
}

// String returns the dialect's name.
func (d Dialect) String() string { return d.name }

// What the fields of a proxy may be long, in bytes: clients write what is in them.
const (
	maxMethod = 64
	maxHost   = 512
	maxURI    = 16 << 10
)

// A faulty request is one that a proxy asks about in a way that its dialect does not have. What it says names no
// value, since a client may have sent it.
type faulty string

func (f faulty) Error() string { return string(f) }

// original returns the method, the URI, the host and the scheme of the request that r asks about. A scheme
// that is not known is empty.
func (d Dialect) original(r *http.Request, path string) (method string, uri *url.URL, host, scheme string, err error) {
	method, own := r.Method, strings.TrimPrefix(r.RequestURI, path)
	if d.method != "" {
		if method, err = need(r.Header, d.method, maxMethod); err != nil {
			return "", nil, "", "", err
		}
		if own, err = need(r.Header, d.uri, maxURI); err != nil {
			return "", nil, "", "", err
		}
	}
	if !isToken(method) {
		return "", nil, "", "", faulty("the method of the request is none")
	}
	if uri, err = parseURI(own); err != nil {
		return "", nil, "", "", err
	}
	if host, err = may(r.Header, d.host, maxHost); err != nil {
		return "", nil, "", "", err
	}
	if scheme, err = may(r.Header, d.scheme, len("https")); err != nil {
		return "", nil, "", "", err
	}
	if d.uri == "X-Original-Url" {
		host, scheme = uri.Host, uri.Scheme
	}
	if host == "" {
		host = r.Host
	}
	if scheme = strings.ToLower(scheme); scheme != "" && scheme != "http" && scheme != "https" {
		return "", nil, "", "", faulty("the scheme of the request is neither http nor https")
	}
	return method, uri, host, scheme, nil
}

// need returns the value of a field that has to be there, once.
func need(h http.Header, name string, limit int) (string, error) {
	value, err := may(h, name, limit)
	if err == nil && value == "" {
		err = faulty("the field " + name + " is missing")
	}
	return value, err
}

// may returns the value of a field that is there at most once.
func may(h http.Header, name string, limit int) (string, error) {
	values := h[name]
	switch {
	case name == "" || len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", faulty("the field " + name + " is there more than once")
	case len(values[0]) > limit:
		return "", faulty(fmt.Sprintf("the field %s is longer than %d bytes", name, limit))
	}
	return values[0], nil
}

// parseURI reads what stood in a request line, as net/http does: an absolute path with a query, * or a URL. A # ends it, as
// it does for nginx, which passes it on where no request line may have one (RFC 9112, section 3.2): else /login#x would be
// another path here than there.
func parseURI(s string) (*url.URL, error) {
	if len(s) > maxURI {
		return nil, faulty("the URI of the request is none")
	}
	s, _, _ = strings.Cut(s, "#")
	u, err := url.ParseRequestURI(s)
	if err != nil || u.Opaque != "" {
		return nil, faulty("the URI of the request is none")
	}
	if u.Path == "" {
		u.Path = "/" // http://example.com
	}
	return u, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// copyHeader copies the fields that the client sent, as far as they are known: without those that the proxy added. Of a list of
// addresses the last one, which is the client's, is left out.
func (d *Dialect) copyHeader(to, from http.Header) {
	for name, values := range from {
		if !d.isAdded(name) {
			to[name] = values
		}
	}
	if d.client != "X-Forwarded-For" {
		return
	}
	if before := withoutLast(from[d.client]); len(before) > 0 {
		to[d.client] = before
	}
}

// isAdded tells of a field that the proxy adds.
func (d *Dialect) isAdded(name string) bool {
	switch name {
	case d.method, d.uri, d.host, d.scheme, d.client, "X-Forwarded-For":
		return true
	}
	return false
}

// withoutLast returns the lines of a list without its last member.
func withoutLast(lines []string) []string {
	for n := len(lines); n > 0; n-- {
		line := strings.TrimRight(lines[n-1], ", \t")
		if line == "" {
			continue
		}
		before := slices.Clone(lines[:n-1])
		if comma := strings.LastIndexByte(line, ','); comma >= 0 {
			before = append(before, line[:comma])
		}
		return before
	}
	return nil
}

// addresses finds whom a trusted proxy serves: the one address that it vouches for.
func (d Dialect) addresses(trusted []string) (*httpgate.Addresses, error) {
	return httpgate.NewAddresses(httpgate.TrustProxies(trusted...), httpgate.TrustHops(1), httpgate.ClientIPHeader(d.client))
}
