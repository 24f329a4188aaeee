package rules

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/httpgate"
)

// A subject is a request as conditions see it.
type subject struct {
	r          *http.Request
	host, path string
	method     string
	addresses  *httpgate.Addresses
	client     netip.Addr
	isFound    bool
}

func newSubject(r *http.Request, addresses *httpgate.Addresses) subject {
	method := r.Method
	if method == "" || method == http.MethodHead {
		method = http.MethodGet
	}
	return subject{r: r, host: keyexpr.Host(r.Host), path: cleanPath(r.URL.Path), method: method, addresses: addresses}
}

func (s *subject) address() netip.Addr {
	if !s.isFound {
		s.client, _ = s.addresses.Find(s.r)
		s.isFound = true
	}
	return s.client
}

// matches tells whether the rule is about a request.
func (r *Rule) matches(s *subject) bool {
	return r.Mode != Off && r.matchesPath(s.path) && r.matchesMethod(s.method) && r.matchesHost(s.host) &&
		r.matchesHeaders(s.r.Header) && r.matchesClient(s)
}

func (r *Rule) matchesPath(clean string) bool {
	for i := range r.Paths {
		if r.Paths[i].matches(clean) {
			return true
		}
	}
	return len(r.Paths) == 0
}

func (r *Rule) matchesMethod(method string) bool {
	for _, m := range r.Methods {
		if string(m) == method || m == http.MethodHead && method == http.MethodGet {
			return true
		}
	}
	return len(r.Methods) == 0
}

func (r *Rule) matchesHost(host string) bool {
	for _, h := range r.Hosts {
		if h.matches(host) {
			return true
		}
	}
	return len(r.Hosts) == 0
}

func (r *Rule) matchesHeaders(h http.Header) bool {
	for name, test := range r.RequestHeaders {
		if !test.holds(h[string(name)]) {
			return false
		}
	}
	return true
}

func (r *Rule) matchesClient(s *subject) bool {
	if len(r.Clients) == 0 {
		return true
	}
	client := s.address()
	return slices.ContainsFunc(r.Clients, func(n Network) bool { return n.Contains(client) })
}

func (h Host) matches(host string) bool {
	if !h.below {
		return host == h.name
	}
	rest, ok := strings.CutSuffix(host, h.name)
	return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
}

func (t HeaderTest) holds(values []string) bool {
	switch {
	case t.present:
		return len(values) > 0
	case t.absent:
		return len(values) == 0
	}
	return slices.ContainsFunc(values, func(v string) bool { return slices.Contains(t.values, strings.TrimSpace(v)) })
}

// covers tells whether every request of another rule is one of this, as far as can be told.
func (r *Rule) covers(other *Rule) bool {
	return allCovered(r.Hosts, other.Hosts, Host.covers) && allCovered(r.Paths, other.Paths, Path.covers) &&
		allCovered(r.Methods, other.Methods, func(a, b Method) bool { return a.asGet() == b.asGet() }) &&
		allCovered(r.Clients, other.Clients, Network.covers) && r.coversHeaders(other)
}

func allCovered[T any](by, those []T, covers func(a, b T) bool) bool {
	return len(by) == 0 || len(those) > 0 && !slices.ContainsFunc(those, func(b T) bool {
		return !slices.ContainsFunc(by, func(a T) bool { return covers(a, b) })
	})
}

func (r *Rule) coversHeaders(other *Rule) bool {
	for name, a := range r.RequestHeaders {
		b, ok := other.RequestHeaders[name]
		isSame := a.present == b.present && a.absent == b.absent && !slices.ContainsFunc(b.values, func(v string) bool { return !slices.Contains(a.values, v) })
		if !ok || !isSame && !(a.present && !b.absent) {
			return false
		}
	}
	return true
}

// meets tells whether a request may be one of both rules.
func (r *Rule) meets(other *Rule) bool {
	return someMeet(r.Hosts, other.Hosts, func(a, b Host) bool { return a.covers(b) || b.covers(a) }) &&
		someMeet(r.Paths, other.Paths, Path.meets) &&
		someMeet(r.Methods, other.Methods, func(a, b Method) bool { return a.asGet() == b.asGet() }) &&
		someMeet(r.Clients, other.Clients, func(a, b Network) bool { return a.Overlaps(b.Prefix) }) && r.meetsHeaders(other)
}

func someMeet[T any](these, those []T, meet func(a, b T) bool) bool {
	return len(these) == 0 || len(those) == 0 || slices.ContainsFunc(these, func(a T) bool {
		return slices.ContainsFunc(those, func(b T) bool { return meet(a, b) })
	})
}

// meetsHeaders does not look at values: a request may have several.
func (r *Rule) meetsHeaders(other *Rule) bool {
	for name, a := range r.RequestHeaders {
		if b, ok := other.RequestHeaders[name]; ok && a.absent != b.absent {
			return false
		}
	}
	return true
}

func (h Host) covers(other Host) bool {
	return h == other || h.below && h.matches(other.name)
}

func (n Network) covers(other Network) bool {
	return n.Bits() <= other.Bits() && n.Contains(other.Addr())
}

func (m Method) asGet() Method {
	if m == http.MethodHead {
		return http.MethodGet
	}
	return m
}
