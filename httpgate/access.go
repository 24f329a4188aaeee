package httpgate

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode"
)

// ErrForbidden is the Err of an [Event] about a request that a [Deny] list refused: nothing was counted
// and no store was asked.
var ErrForbidden = errors.New("httpgate: the request is on the gate's Deny list")

// Exempt lets requests pass that an entry describes: no store is asked, no field is sent, and there is no
// decision. By default none is exempt. An entry is data, such as a line of a configuration file:
//
//	192.0.2.0/24                   a client's network, or an address
//	/healthz                       a path
//	/static/                       all paths below it
//	GET /healthz                   a path with a method; GET is also HEAD
//	GET /healthz from 10.0.0.0/8   only from a network, or several with commas between
//
// The client's address is the one the gate counts by, behind proxies too. A path is exact, without
// escapes: neither /healthz/ nor /healthz/../x nor /health%7A is /healthz. With a slash at its end it is that path and
// all below, as in a http.ServeMux, but / is the root alone. Below a path only what is clean is exempt, with no escape that
// is not needed, and without backslashes, semicolons and percent signs, in which servers behind the gate might
// see the way out. Of the entries of all Exempt and [Deny] options that describe a request the one with the narrowest
// network decides, then one with the path itself, then the longest above it, then one with a method; of equal ones
// Deny. However many networks there are, they cost one look-up for each length of prefix among them.
func Exempt(entries ...string) Option {
	return func(g *Gate) { g.list("Exempt", exempt, entries) }
}

// Deny refuses requests that an entry describes, with status 403 and no fields, and no store is
// asked; by default none is refused. [ForbidWith] changes the answer. Observers are told, with
// [ErrForbidden]. Entries are those of [Exempt], and what is said there of several is true here, with
// one difference: a denied path is denied in every spelling that a router could take for it, in
// either case, cleaned, and with a slash at the end. So /internal/ denies /internal too, and what leads out of it again,
// as /internal/../x does in a router that does not clean paths.
func Deny(entries ...string) Option {
	return func(g *Gate) { g.list("Deny", forbidden, entries) }
}

// ForbidWith answers the requests of a [Deny] list with a status, 400 to 599, and a body, as [DenyWith]
// has them; the default is 403 and a problem of type about:blank.
func ForbidWith(status int, body any) Option {
	return func(g *Gate) {
		title := cmp.Or(http.StatusText(status), "Forbidden")
		g.forbid = negotiated(Problem{Type: "about:blank", Title: title, Status: status})
		if a := g.fixed("ForbidWith", status, body); a != nil {
			g.forbid = a
		}
	}
}

var forbiddenAnswer http.Handler = negotiated(Problem{Type: "about:blank", Title: "Forbidden", Status: http.StatusForbidden})

// A verdict is what becomes of a request before it is counted.
type verdict uint8

const (
	counted verdict = iota
	exempt
	forbidden
)

// A rule is an entry of a list without its networks. An empty path or method is any.
type rule struct {
	verdict verdict
	method  string
	path    string
}

// before orders rules as they decide.
func (r rule) before(other rule) int {
	return cmp.Or(
		-cmp.Compare(r.narrowness(), other.narrowness()),
		-cmp.Compare(min(len(r.method), 1), min(len(other.method), 1)),
		-cmp.Compare(r.verdict, other.verdict),
	)
}

// narrowness orders rules by their paths: none, those above a request's the longer the better, and that itself.
func (r rule) narrowness() int {
	if r.path != "" && !r.below() {
		return math.MaxInt
	}
	return len(r.path)
}

// below tells whether a rule is of all paths below its own.
func (r rule) below() bool { return len(r.path) > 1 && strings.HasSuffix(r.path, "/") }

// describes tells whether a rule is of a request, networks aside. Exempt takes one spelling of a path and
// Deny takes all, so that neither can be talked into something by another one.
func (r rule) describes(req *asked) bool {
	switch {
	case r.method != "" && r.method != methodAsGet(req.Method):
		return false
	case r.path == "":
		return true
	case r.verdict == exempt && r.below():
		return strings.HasPrefix(req.URL.Path, r.path) && req.isPlain()
	case r.verdict == exempt:
		return req.URL.Path == r.path && req.URL.RawPath == ""
	case r.below():
		return isBelow(req.cleaned(), r.path) || isBelow(req.URL.Path, r.path)
	}
	return strings.EqualFold(req.cleaned(), path.Clean(r.path))
}

// isBelow tells whether a path, in either case, is below one that ends with a slash, or is that without the slash.
func isBelow(p, above string) bool {
	dir := strings.TrimSuffix(above, "/")
	return strings.EqualFold(beginning(p, strings.Count(dir, "/")), dir)
}

// beginning returns a path up to its slash number n, counted from 0, or all of it.
func beginning(p string, n int) string {
	for i := range len(p) {
		if p[i] != '/' {
			continue
		}
		if n == 0 {
			return p[:i]
		}
		n--
	}
	return p
}

// An asked is a request that rules are looked up for. Its path is cleaned once, however many rules
// there are: how long that takes is the client's to choose.
type asked struct {
	*http.Request
	clean string
}

func (r *asked) cleaned() string {
	if r.clean == "" {
		r.clean = path.Clean("/" + r.URL.Path)
	}
	return r.clean
}

// isPlain tells whether the path has one spelling, and leads nowhere else for any server.
func (r *asked) isPlain() bool {
	return r.URL.RawPath == "" && !strings.ContainsAny(r.URL.Path, `\;%`) && strings.TrimSuffix(r.URL.Path, "/") == r.cleaned()
}

// rules are the entries of a gate's lists, by network. Those of no network are under the zero Prefix.
type rules struct {
	of      map[netip.Prefix][]rule
	lengths []int // of the networks, the longest first
}

// verdict returns what becomes of a request.
func (l *rules) verdict(req *http.Request, addresses *Addresses) verdict {
	r := &asked{Request: req}
	if len(l.lengths) > 0 {
		addr, _ := addresses.Find(req)
		addr = addresses.unwrap(addr)
		for _, bits := range l.lengths {
			network, err := addr.Prefix(bits)
			if err != nil {
				continue // no address, or one that is shorter
			}
			if v := first(l.of[network], r); v != counted {
				return v
			}
		}
	}
	return first(l.of[netip.Prefix{}], r)
}

func first(rules []rule, r *asked) verdict {
	for _, rule := range rules {
		if rule.describes(r) {
			return rule.verdict
		}
	}
	return counted
}

func (l *rules) add(network netip.Prefix, r rule) {
	all := append(l.of[network], r)
	slices.SortStableFunc(all, rule.before)
	l.of[network] = all
	if bits := network.Bits(); network.IsValid() && !slices.Contains(l.lengths, bits) {
		l.lengths = append(l.lengths, bits)
		slices.SortFunc(l.lengths, func(a, b int) int { return b - a })
	}
}

// list takes the entries of an option.
func (g *Gate) list(option string, v verdict, entries []string) {
	if len(entries) == 0 {
		g.reject("%s: no entry: %s", option, entryForms)
	}
	if g.rules == nil {
		g.rules = &rules{of: map[netip.Prefix][]rule{}}
	}
	for _, entry := range entries {
		networks, r, why := parseEntry(entry)
		if why != "" {
			g.reject("%s %q: %s: %s", option, entry, why, entryForms)
			return
		}
		r.verdict = v
		for _, network := range networks {
			g.rules.add(network, r)
		}
	}
}

const entryForms = `allowed is a network such as 10.0.0.0/8, a path such as /healthz, all below one such as /static/, or "GET /healthz from 10.0.0.0/8"`

// parseEntry reads an entry; why says what is wrong with it. The networks are never empty.
func parseEntry(entry string) (networks []netip.Prefix, r rule, why string) {
	words := strings.Split(entry, " ")
	if !strings.Contains(entry, " ") && !strings.HasPrefix(entry, "/") {
		networks, why = parseNetworks(entry)
		return networks, r, why
	}
	if !strings.HasPrefix(words[0], "/") {
		r.method, words = words[0], words[1:]
		if !validFieldName(r.method) || strings.ToUpper(r.method) != r.method {
			return nil, r, "no method"
		}
		r.method = methodAsGet(r.method)
	}
	r.path = words[0]
	if why := badPath(r.path); why != "" {
		return nil, r, why
	}
	switch {
	case len(words) == 1:
		return []netip.Prefix{{}}, r, ""
	case len(words) != 3 || words[1] != "from":
		return nil, r, `what follows the path is not "from" and networks`
	}
	networks, why = parseNetworks(words[2])
	return networks, r, why
}

func parseNetworks(list string) (networks []netip.Prefix, why string) {
	for s := range strings.SplitSeq(list, ",") {
		p, why := parsePrefix(s)
		if why != "" {
			return nil, why
		}
		networks = append(networks, p)
	}
	return networks, ""
}

// badPath says what is wrong with the path of an entry.
func badPath(p string) string {
	clean := path.Clean(p)
	switch {
	case !strings.HasPrefix(p, "/"):
		return "the path does not begin with a slash"
	case strings.ContainsAny(p, "*{}?#%\\") || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "a path is exact, or ends with a slash for all below it: it has no wildcard, no query and no escape"
	case p != clean && p != clean+"/":
		return "the path is not clean: it is " + clean
	}
	return ""
}
