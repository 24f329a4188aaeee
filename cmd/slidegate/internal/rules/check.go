package rules

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// check looks at what no field shows by itself: names that are there twice, values that do not go together, rules
// that no request reaches.
func (f *File) check(d *decoder) {
	for _, name := range sortedNames(f.Domains) {
		f.Domains[name].Name = name
		for _, r := range f.Domains[name].Rules {
			r.Domain = name
		}
	}
	if len(f.All()) == 0 && len(d.problems) == 0 {
		d.errorf(f.line("rules"), "there is no rule: give at least one, as in rules: [{name: all, limits: 100/1m}]")
	}
	if n := len(f.All()); n > mostRules {
		d.errorf(0, "%d rules: allowed are %d", n, mostRules)
		return
	}
	f.checkDomains(d)
	for _, s := range f.sets() {
		s.checkNames(d)
		for _, r := range s.rules {
			r.check(d, f)
		}
		if s.match != All && len(d.problems) == 0 {
			s.checkReach(d)
		}
	}
}

// mostRules of a file.
const mostRules = 10_000

// checkDomains: one host has one set of rules.
func (f *File) checkDomains(d *decoder) {
	owners := map[Host]Name{}
	for _, name := range sortedNames(f.Domains) {
		for _, h := range f.Domains[name].Hosts {
			if other, taken := owners[h]; taken {
				d.errorf(f.Domains[name].line("host"), "host %q is in the domains %s and %s: allowed is one", h, other, name)
			}
			owners[h] = name
		}
	}
}

func (s set) checkNames(d *decoder) {
	seen := map[Name]*Rule{}
	for _, r := range s.rules {
		if first, twice := seen[r.Name]; twice && r.Name != "" {
			d.errorf(r.line("name"), "name %q: the rule of line %d has it already: names must differ", r.Name, first.start)
			continue
		}
		seen[r.Name] = r
	}
}

// checkReach: where the first rule that matches holds, one that matches all that a later one does leaves it
// nothing.
func (s set) checkReach(d *decoder) {
	for i, r := range s.rules {
		for _, earlier := range s.rules[:i] {
			if (earlier.Mode == "" || earlier.Mode == Enforce) && r.Mode != Off && earlier.covers(r) {
				d.errorf(r.start, "no request reaches the rule %s: the rule %s of line %d comes first and matches all that it does: put %s before it, or say match: all", r.Name, earlier.Name, earlier.start, r.Name)
				break
			}
		}
	}
}

func (r *Rule) check(d *decoder, f *File) {
	for _, p := range r.plans() {
		r.checkLimits(d, p)
	}
	r.checkFormats(d)
	r.checkResponse(d)
	r.checkBan(d)
	r.checkPlans(d)
	r.readOverrides(d, f)
	r.checkUpstream(d, f)
}

func (r *Rule) checkLimits(d *decoder, p plan) {
	at := r.line("limits")
	if p.name != "" {
		at = r.line("plans")
	}
	for _, l := range p.limits.List {
		if name := r.limitName(l); len(name) > slidegate.MaxNameLen {
			d.errorf(at, "limits %q: its name with that of the rule is %q, which is too long: allowed are %d characters", l, name, slidegate.MaxNameLen)
		}
		if r.Cost != nil && r.Cost.units > l.Quota {
			d.errorf(at, "limits %q: a cost of %d never fits: allowed is a quota of at least that", l, r.Cost.units)
		}
	}
}

func (r *Rule) checkFormats(d *decoder) {
	if len(r.Headers) > 1 && slices.Contains(r.Headers, "none") {
		d.errorf(r.line("headers"), "headers: none beside others: allowed is none alone")
	}
}

func (r *Rule) checkResponse(d *decoder) {
	p := r.Response
	if p == nil {
		return
	}
	if p.has("status") && (p.Status < 400 || p.Status > 599) {
		d.errorf(p.line("status"), "status %d: allowed is 400 to 599", p.Status)
	}
	if p.has("body") && p.has("json") {
		d.errorf(p.line("json"), "body and json: an answer has one body: give one of them")
	}
}

func (r *Rule) checkBan(d *decoder) {
	if r.Ban != nil && r.Limits.Word != "" && len(r.Plans) == 0 {
		d.errorf(r.line("ban"), "ban in the rule %s, whose limits are %s: nobody is refused too often there", r.Name, r.Limits)
	}
}

func (r *Rule) checkPlans(d *decoder) {
	byKey := r.has("overrides") || r.has("overrides-file")
	switch {
	case r.has("plan-by") && len(r.Plans) == 0:
		d.errorf(r.line("plan-by"), "plan-by without plans: give the plans that the header names")
	case r.has("plans") && !r.has("plan-by") && !byKey:
		d.errorf(r.line("plans"), "plans that nobody has: give plan-by, overrides or overrides-file")
	}
	for _, word := range []Name{unlimited, blocked} {
		if _, ok := r.Plans[word]; ok {
			d.errorf(r.line("plans"), "plans: %s is there already, and means what it says: give the plan another name", word)
		}
	}
}

// planNames are the plans that there are, with the two that are always there.
func (r *Rule) planNames() []string {
	names := []string{unlimited, blocked}
	for _, name := range sortedNames(r.Plans) {
		names = append(names, string(name))
	}
	return names
}

// readOverrides reads the file of overrides, and looks at them and at those of the rule.
func (r *Rule) readOverrides(d *decoder, f *File) {
	r.overrides = map[string]Name{}
	for key, plan := range r.Overrides {
		if why := r.override(string(key), plan); why != "" {
			d.errorf(r.line("overrides"), "overrides: %s", why)
		}
	}
	if r.OverridesFile == "" {
		return
	}
	path := r.OverridesFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.Name), path)
	}
	text, err := config.ReadFileAtOnce(path, maxOverrides)
	if err != nil {
		f.sources[path] = unreadable(err)
		d.errorf(r.line("overrides-file"), "overrides-file %q cannot be read: %v", r.OverridesFile, err)
		return
	}
	f.sources[path] = text
	lines := bufio.NewScanner(bytes.NewReader(text))
	for at := 1; lines.Scan(); at++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexAny(line, " \t")
		why := "a line has a key and the name of its plan"
		if i > 0 {
			why = r.override(strings.TrimSpace(line[:i]), Name(line[i+1:]))
		}
		if why != "" {
			d.problems = append(d.problems, Problem{path, at, why})
		}
	}
	if err := lines.Err(); err != nil {
		d.errorf(r.line("overrides-file"), "overrides-file %q: %v", r.OverridesFile, err)
	}
}

// override gives a key its plan, or says why it cannot: never with the key, which is somebody.
func (r *Rule) override(key string, plan Name) string {
	names := r.planNames()
	_, again := r.overrides[key]
	switch {
	case !slices.Contains(names, string(plan)):
		return fmt.Sprintf("plan %q: %sallowed is %s", plan, didYouMean(string(plan), names), inWords(names))
	case len(key) > maxKey:
		return fmt.Sprintf("the key has %d bytes: allowed are %d", len(key), maxKey)
	case again:
		return "the key is there twice"
	case r.Key != nil && !r.Key.CanBe(key):
		return fmt.Sprintf("the key is none that the key expression %s gives: allowed is what is counted, such as ip:203.0.113.9 or header:X-Api-Key:VALUE", r.Key)
	}
	if addr, ok := strings.CutPrefix(key, "ip:"); ok {
		if _, err := netip.ParseAddr(strings.TrimSuffix(addr, suffixOf(addr))); err != nil {
			return "the address of a key cannot be read: allowed is such as ip:203.0.113.9 or ip:2001:db8:1:2::/56"
		}
	}
	r.overrides[key] = plan
	return ""
}

// suffixOf is the length of a network with its slash.
func suffixOf(addr string) string {
	if i := strings.IndexByte(addr, '/'); i >= 0 {
		return addr[i:]
	}
	return ""
}

func (r *Rule) checkUpstream(d *decoder, f *File) {
	if r.Upstream == "" {
		return
	}
	if u, ok := f.Upstreams[Name(r.Upstream)]; ok {
		r.upstream = &u
		return
	}
	var names []string
	for _, name := range sortedNames(f.Upstreams) {
		names = append(names, string(name))
	}
	if !strings.Contains(r.Upstream, "://") {
		allowed := "a URL such as http://127.0.0.1:3000"
		d.errorf(r.line("upstream"), "upstream %q: %sallowed is %s", r.Upstream, didYouMean(r.Upstream, names), inWords(append(names, allowed)))
		return
	}
	r.upstream = new(URL)
	if err := r.upstream.UnmarshalText([]byte(r.Upstream)); err != nil {
		d.errorf(r.line("upstream"), "upstream %q: %v", redacted(r.Upstream), err)
	}
}
