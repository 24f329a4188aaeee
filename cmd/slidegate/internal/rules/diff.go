package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
)

// A Change is what a new file means for one thing.
type Change struct {
	About  string  // the rule, with its domain, or a field of the file
	Text   string  // what changes, in words
	Factor float64 // how much looser, 1 for neither; below 1 it is tighter, and infinite or 0 where a limit goes or comes
}

func (c Change) String() string { return c.About + ": " + c.Text }

// IsLarge tells of a change by which twice as much passes, or half as much, or more than that.
func (c Change) IsLarge() bool { return c.Factor >= 2 || c.Factor <= 0.5 }

// Loosening returns the large changes by which more passes.
func Loosening(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Factor < 2 })
}

// A differ compares two files.
type differ struct {
	changes     []Change
	oldKey, key string // of rules that do not say, as far as the files tell
}

func (d *differ) add(about string, factor float64, format string, args ...any) {
	d.changes = append(d.changes, Change{about, fmt.Sprintf(format, args...), factor})
}

// Diff says what it means to go from one file to another, in words, a line for each thing. Order: the
// settings, the lists, and then the rules as the new file has them.
func Diff(before, after *File) []Change {
	d := differ{oldKey: before.key(), key: after.key()}
	d.settings(before, after)
	d.lists(before, after)
	old, all := before.sets(), after.sets()
	for _, s := range all {
		i := slices.IndexFunc(old, func(o set) bool { return o.domain == s.domain })
		if i < 0 {
			d.add("domain "+string(s.domain), 1, "added, for %s", strings.Join(texts(after.Domains[s.domain].Hosts), " and "))
			d.set(set{domain: s.domain, match: s.match}, s)
			continue
		}
		if s.domain != "" {
			d.field("domain "+string(s.domain), "host", texts(before.Domains[s.domain].Hosts), texts(after.Domains[s.domain].Hosts))
		}
		d.set(old[i], s)
	}
	for _, o := range old {
		if !slices.ContainsFunc(all, func(s set) bool { return s.domain == o.domain }) {
			d.add("domain "+string(o.domain), 1, "removed: its hosts have the rules of no domain")
			d.set(o, set{domain: o.domain, match: o.match})
		}
	}
	return d.changes
}

// inherited are the settings that rules have where they say nothing: they change with a reload.
var inherited = []string{"key", "headers", "on-store-error"}

func (d *differ) settings(before, after *File) {
	old, now := map[string]Setting{}, map[string]Setting{}
	names := map[string]bool{}
	for _, s := range before.Settings {
		old[s.Name], names[s.Name] = s, true
	}
	for _, s := range after.Settings {
		now[s.Name], names[s.Name] = s, true
	}
	for _, name := range sortedNames(names) {
		a, b := orText(old[name].String(), "the default"), orText(now[name].String(), "the default")
		effect := ": takes effect at the next start"
		if slices.Contains(inherited, name) {
			effect = ", for rules that do not say"
		}
		if name == "key" {
			effect += ": their counting starts afresh"
		}
		switch {
		case slices.Equal(old[name].Values, now[name].Values):
		case a == b:
			d.add(name, 1, "another password%s", effect)
		default:
			d.add(name, 1, "%s → %s%s", a, b, effect)
		}
	}
}

func (d *differ) lists(before, after *File) {
	for _, l := range []struct {
		name          string
		before, after []Entry
		more          float64
	}{{"exempt", before.Exempt, after.Exempt, math.Inf(1)}, {"deny", before.Deny, after.Deny, 0}} {
		for _, e := range l.after {
			if !slices.Contains(l.before, e) {
				d.add(l.name, l.more, "%s is added", e)
			}
		}
		for _, e := range l.before {
			if !slices.Contains(l.after, e) {
				d.add(l.name, 1/l.more, "%s is removed", e)
			}
		}
	}
}

func (d *differ) set(before, after set) {
	about := "match"
	if after.domain != "" {
		about = string(after.domain) + "/match"
	}
	if a, b := orWord(before.match, First), orWord(after.match, First); a != b {
		means := map[Match]string{First: "only the first rule that matches holds", All: "every rule that matches holds"}
		d.add(about, 1, "%s → %s: %s", a, b, means[b])
	}
	renamed := map[*Rule]*Rule{}
	for _, r := range after.rules {
		old := named(before.rules, r.Name)
		if old == nil {
			old = d.renamed(before, after, r)
			renamed[old] = r
		}
		if old == nil {
			d.added(after, r)
			continue
		}
		first := len(d.changes)
		d.rule(old, r)
		if !old.refuses() && !r.refuses() {
			for i := range d.changes[first:] {
				d.changes[first+i].Factor = 1 // whatever it says, as much passes as before
			}
		}
	}
	for _, r := range before.rules {
		if named(after.rules, r.Name) == nil && renamed[r] == nil {
			d.add(r.FullName(), gone(r), "removed: %s no longer holds", r.Limits)
		}
	}
	if after.match != All {
		d.order(before, after)
	}
}

func named(rules []*Rule, name Name) *Rule {
	for _, r := range rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// renamed returns the rule that was like one of a new name, and is gone.
func (d *differ) renamed(before, after set, r *Rule) *Rule {
	for _, old := range before.rules {
		if named(after.rules, old.Name) == nil && old.conditions() == r.conditions() && old.Limits.String() == r.Limits.String() && keyText(old) == keyText(r) {
			d.add(old.FullName(), gone(old), "now called %s: its counts start afresh", r.Name)
			return old
		}
	}
	return nil
}

// gone is how much looser it is without a rule, or with all its counts forgotten.
func gone(r *Rule) float64 {
	if !r.refuses() {
		return 1
	}
	return math.Inf(1)
}

// refuses tells whether a rule can keep anybody out.
func (r *Rule) refuses() bool {
	return orWord(r.Mode, Enforce) == Enforce && (r.Limits.Word != unlimited || len(r.Plans) > 0 || len(r.overrides) > 0)
}

// added tells of a new rule, and, where the first one holds, from which it takes requests.
func (d *differ) added(after set, r *Rule) {
	text := "added: " + strings.TrimPrefix(r.String(), r.FullName()+": ")
	i := slices.Index(after.rules, r)
	if after.match != All && r.Mode != Off && r.Mode != Shadow {
		var from []string
		for _, later := range after.rules[i+1:] {
			if later.Mode != Off && r.meets(later) {
				from = append(from, string(later.Name))
			}
		}
		if len(from) > 0 {
			text += "; takes requests from " + strings.Join(from, " and ")
		}
	}
	d.add(r.FullName(), factorOf(Limits{Word: unlimited}, r), "%s", text)
}

// factorOf is how much looser a rule is than limits that there were.
func factorOf(before Limits, r *Rule) float64 {
	if r.Mode == Off || r.Mode == Shadow || r.Limits.Word == unlimited {
		return 1
	}
	return looser(before, r.Limits)
}

// order tells of rules that have changed places and may match the same request.
func (d *differ) order(before, after set) {
	for i, r := range after.rules {
		for _, later := range after.rules[i+1:] {
			a, b := named(before.rules, r.Name), named(before.rules, later.Name)
			if a == nil || b == nil || slices.Index(before.rules, a) < slices.Index(before.rules, b) || !r.meets(later) {
				continue
			}
			d.add(r.FullName(), 1, "now before %s: requests that match both are held to %s, no longer to %s", later.Name, r.Limits, later.Limits)
		}
	}
}

// rule compares a rule with what it was.
func (d *differ) rule(before, after *Rule) {
	about := after.FullName()
	d.limits(about, before.Limits, after.Limits)
	d.plans(before, after)
	if a, b := keyText(before), keyText(after); a != b {
		d.add(about, 1, "key %s → %s%s", a, b, d.counting(before, after))
	}
	if a, b := orWord(before.Mode, Enforce), orWord(after.Mode, Enforce); a != b {
		factor := 1.0
		switch {
		case a == Enforce:
			factor = math.Inf(1)
		case b == Enforce:
			factor = 0
		}
		means := map[Mode]string{Enforce: "refuses", Shadow: "counts and refuses nobody", Off: "as if it were not there"}
		d.add(about, factor, "mode %s → %s: %s", a, b, means[b])
	}
	if a, b := before.conditions(), after.conditions(); a != b {
		d.add(about, 1, "for %s → for %s", orText(a, "all requests"), orText(b, "all requests"))
	}
	d.cost(about, before.Cost, after.Cost)
	d.field(about, "on-store-error", orWord(before.OnStoreError, "by default"), orWord(after.OnStoreError, "by default"))
	d.field(about, "headers", headersText(before), headersText(after))
	d.field(about, "refund-if-status", before.RefundIf, after.RefundIf)
	d.field(about, "ban", before.Ban.String(), after.Ban.String())
	d.field(about, "upstream", orText(redacted(before.Upstream), "the default"), orText(redacted(after.Upstream), "the default"))
	if fmt.Sprint(before.UpstreamURL()) != fmt.Sprint(after.UpstreamURL()) && before.Upstream == after.Upstream {
		d.add(about, 1, "upstream %s is another URL", after.Upstream)
	}
	if a, b := before.Response.String(), after.Response.String(); a != b {
		d.add(about, 1, "another response to refused requests")
	}
}

// field tells of a field that says something else.
func (d *differ) field(about, name string, before, after any) {
	a, b := strings.Trim(fmt.Sprint(before), "[]"), strings.Trim(fmt.Sprint(after), "[]")
	if a != b {
		d.add(about, 1, "%s %s → %s", name, orText(a, "none"), orText(b, "none"))
	}
}

func (d *differ) limits(about string, before, after Limits) {
	if before.String() == after.String() {
		return
	}
	text := fmt.Sprintf("%s → %s", before, after)
	factor := looser(before, after)
	switch {
	case before.Word == blocked:
		text += ", which was blocked"
	case before.Word == unlimited:
		text += ", which was unlimited"
	case after.Word == blocked:
		text += ", nothing passes any more"
	case after.Word == unlimited:
		text += ", no limit any more"
	default:
		text += inTimes(factor)
	}
	if startsAfresh(before, after) {
		text += "; counting starts afresh"
	}
	d.add(about, factor, "%s", text)
}

// cost is tighter by what a request costs more. What a header says nobody knows here.
func (d *differ) cost(about string, before, after *Cost) {
	a, b := before.String(), after.String()
	if a == b {
		return
	}
	x, y := before.fixed(), after.fixed()
	if x == 0 || y == 0 {
		d.add(about, 1, "cost %s → %s", a, b)
		return
	}
	factor := float64(x) / float64(y)
	d.add(about, factor, "cost %s → %s%s", a, b, inTimes(factor))
}

// fixed is what each request costs, 0 where a header says it.
func (c *Cost) fixed() int64 {
	if c == nil {
		return 1
	}
	return c.units
}

func inTimes(factor float64) string {
	switch {
	case factor > 1.005:
		return ", " + times(factor) + " looser"
	case factor < 0.995:
		return ", " + times(1/factor) + " tighter"
	}
	return ""
}

func times(factor float64) string {
	text := strings.TrimSuffix(fmt.Sprintf("%.1f", factor), ".0")
	return text + " times"
}

// looser is how much more passes in the long run: the ratio of the lowest rates.
func looser(before, after Limits) float64 {
	a, b := lowest(before), lowest(after)
	switch {
	case a == b:
		if len(before.List) == len(after.List) {
			for i := range after.List { // the lowest rate is the same, and yet they differ
				if x, y := rate(before.List[i]), rate(after.List[i]); x != y {
					return y / x
				}
			}
		}
		return 1
	case a == 0:
		return math.Inf(1)
	case math.IsInf(a, 1):
		return 0
	}
	return b / a
}

func lowest(l Limits) float64 {
	switch l.Word {
	case blocked:
		return 0
	case unlimited:
		return math.Inf(1)
	}
	least := math.Inf(1)
	for _, one := range l.List {
		least = min(least, rate(one))
	}
	return least
}

func rate(l slidegate.Limit) float64 { return float64(l.Quota) / float64(l.Window) }

// startsAfresh tells whether a limit is counted elsewhere than any before, under another name, window or algorithm.
func startsAfresh(before, after Limits) bool {
	return slices.ContainsFunc(after.List, func(l slidegate.Limit) bool {
		return len(before.List) > 0 && !slices.ContainsFunc(before.List, func(old slidegate.Limit) bool {
			return shortName(old) == shortName(l) && old.Window == l.Window && old.Algorithm == l.Algorithm
		})
	})
}

func (d *differ) plans(before, after *Rule) {
	for _, name := range sortedNames(after.Plans) {
		about := fmt.Sprintf("%s, plan %s", after.FullName(), name)
		old, ok := before.Plans[name]
		if !ok {
			d.add(about, 1, "added: %s", after.Plans[name])
			continue
		}
		d.limits(about, old, after.Plans[name])
	}
	for _, name := range sortedNames(before.Plans) {
		if _, ok := after.Plans[name]; !ok {
			d.add(fmt.Sprintf("%s, plan %s", after.FullName(), name), 1, "removed: %s no longer holds", before.Plans[name])
		}
	}
	if a, b := planBy(before), planBy(after); a != b {
		d.add(after.FullName(), 1, "plan-by %s → %s", a, b)
	}
	d.overrides(before, after)
}

// overrides are counted and not named: keys are people.
func (d *differ) overrides(before, after *Rule) {
	added, removed, changed := 0, 0, 0
	for key, plan := range after.overrides {
		switch old, ok := before.overrides[key]; {
		case !ok:
			added++
		case old != plan:
			changed++
		}
	}
	for key := range before.overrides {
		if _, ok := after.overrides[key]; !ok {
			removed++
		}
	}
	if added+removed+changed > 0 {
		d.add(after.FullName(), 1, "overrides: %s added, %d removed, %d with another plan", counted(added, "key"), removed, changed)
	}
}

func planBy(r *Rule) string {
	if r.PlanBy == nil {
		return "nothing"
	}
	return "header:" + string(*r.PlanBy)
}

// counting is what another key means. One that is written out where it was the default is no other.
func (d *differ) counting(before, after *Rule) string {
	a, b := d.oldKey, d.key
	if before.Key != nil {
		a = before.Key.String()
	}
	if after.Key != nil {
		b = after.Key.String()
	}
	if a == b {
		return fmt.Sprintf(": the default is %s, unless the command line has another", a)
	}
	return ": counting starts afresh"
}

// key is that of rules that do not say.
func (f *File) key() string {
	for _, s := range f.Settings {
		if s.Name == "key" {
			return s.String()
		}
	}
	return "ip"
}

func keyText(r *Rule) string {
	if r.Key == nil {
		return "by default"
	}
	return r.Key.String()
}

func headersText(r *Rule) string {
	if !r.has("headers") {
		return "by default"
	}
	return strings.Join(texts(r.Headers), " ")
}

func orWord[T ~string](word, otherwise T) T {
	if word == "" {
		return otherwise
	}
	return word
}

func orText(text, otherwise string) string { return orWord(text, otherwise) }

func (b *Ban) String() string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%s after %s", b.Length, b.Strikes)
}

func (p *Response) String() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d %q %v", p.Status, p.Body, p.JSON)
}
