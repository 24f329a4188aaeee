package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// The bounds of what is read. No file that means something comes near them; one that refers to its own parts again and
// again does.
const (
	deepest      = 64      // levels of descriptors
	most         = 100_000 // descriptors
	mostProblems = 100     // that are told of
)

// A reader makes a set of files and notes all that is wrong with them.
type reader struct {
	set         *Set
	merge       bool
	name        string // of the file
	firstSeen   map[string]string
	descriptors int
	problems    Problems
}

func (r *reader) place(n *yaml.Node) string { return r.name + ":" + strconv.Itoa(max(1, n.Line)) }

// wrong notes a problem, unless there are enough.
func (r *reader) wrong(n *yaml.Node, format string, args ...any) {
	if len(r.problems) >= mostProblems {
		return
	}
	r.problems = append(r.problems, r.place(n)+": "+fmt.Sprintf(format, args...))
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// notYAML notes what the library says, with its line in front.
func (r *reader) notYAML(err error) {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	r.wrong(&yaml.Node{Line: line}, "not YAML: %s", strings.TrimPrefix(text, "yaml: "))
}

func (r *reader) file(f File) {
	r.name = f.Name
	decoder := yaml.NewDecoder(bytes.NewReader(f.Text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		r.wrong(&document, "the file is empty: it needs a domain")
		return
	case err != nil:
		r.notYAML(err)
		return
	}
	if err := decoder.Decode(&second); err == nil {
		r.wrong(&second, "a second document: only one is read, so put its rules into a file of their own")
	} else if !errors.Is(err, io.EOF) {
		r.notYAML(err)
	}
	r.root(document.Content[0])
}

func (r *reader) root(n *yaml.Node) {
	fields := r.fields(n, "a rule file", "domain", "descriptors")
	domain := r.text(fields["domain"], "domain")
	if domain == "" {
		r.wrong(n, "the domain is missing or empty: name the domain that Envoy sends")
		r.children(fields["descriptors"], &node{}, above{})
		return
	}
	root := r.set.domains[domain]
	if root != nil && !r.merge {
		r.wrong(fields["domain"], "the domain %q is also in %s: allowed is one file for each, unless domains are merged", domain, r.firstSeen[domain])
		return
	}
	if root == nil {
		root = &node{statName: domain}
		r.set.domains[domain] = root
		r.firstSeen[domain] = r.place(n)
	}
	r.children(fields["descriptors"], root, above{stat: domain})
}

// above is what a descriptor has from those it is in.
type above struct {
	stat     string   // the StatKey so far
	keys     []string // of the levels so far
	variable bool     // a value_to_metric is among them
}

func (r *reader) children(list *yaml.Node, parent *node, up above) {
	for _, n := range r.list(list, "descriptors") {
		if r.descriptors++; r.descriptors > most || len(up.keys) >= deepest {
			r.wrong(n, "too many descriptors: allowed are %d, in up to %d levels", most, deepest)
			return
		}
		r.descriptor(n, parent, up)
	}
}

func (r *reader) descriptor(n *yaml.Node, parent *node, up above) {
	fields := r.fields(n, "a descriptor", "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata")
	e := entry{r.text(fields["key"], "key"), r.text(fields["value"], "value")}
	if e.key == "" {
		r.wrong(n, "the key of a descriptor is missing or empty")
		return
	}
	child := &node{
		pattern: newPattern(e.value), share: r.yes(fields, "share_threshold"), valueToMetric: r.yes(fields, "value_to_metric"),
		statName: e.key,
	}
	if e.value != "" {
		child.statName += "_" + e.value
	}
	if child.share && child.pattern == nil {
		r.wrong(fields["share_threshold"], "share_threshold needs a value with a * in it, and that of %q has none", e.key)
	}
	if !parent.add(e, child) {
		r.wrong(n, "a second descriptor %s on this level of %s: allowed is one for each key and value", e, up.stat)
		return
	}
	here := above{up.stat + "." + child.statName, append(slices.Clip(up.keys), e.key), up.variable || child.valueToMetric && !child.share}
	child.stateName, child.variable = stateName(here.keys), here.variable
	if limit := fields["rate_limit"]; limit != nil {
		r.rule(limit, fields, child, here)
	}
	if fields["metadata"] != nil && fields["rate_limit"] == nil {
		r.metadata(fields["metadata"]) // wrong is wrong, also where it has no effect
	}
	r.children(fields["descriptors"], child, here)
}

func (e entry) String() string {
	if e.value == "" {
		return fmt.Sprintf("with key %q and no value", e.key)
	}
	return fmt.Sprintf("with key %q and value %q", e.key, e.value)
}

// add puts a descriptor below another and tells whether its place was free.
func (n *node) add(e entry, child *node) bool {
	if n.children == nil {
		n.children, n.patterns = map[entry]*node{}, map[string][]*node{}
	}
	if n.children[e] != nil {
		return false
	}
	n.children[e] = child
	if child.pattern != nil {
		n.patterns[e.key] = append(n.patterns[e.key], child)
	}
	return true
}

const unitsAllowed = "allowed is second, minute, hour, day, week, month or year"

func (r *reader) rule(n *yaml.Node, descriptor map[string]*yaml.Node, child *node, here above) {
	fields := r.fields(n, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces")
	rule := &Rule{
		ID: len(r.set.Rules), Place: r.place(n), StatKey: here.stat, StateName: child.stateName,
		Unlimited: r.yes(fields, "unlimited"), Name: r.text(fields["name"], "name"),
		Shadow: r.yes(descriptor, "shadow_mode"), Quota: r.yes(descriptor, "quota_mode"), Detailed: r.yes(descriptor, "detailed_metric"),
		Metadata: r.metadata(descriptor["metadata"]),
	}
	child.variable = child.variable || rule.Detailed
	unit := r.text(fields["unit"], "unit")
	rule.Unit = parseUnit(unit)
	switch {
	case rule.Unlimited && unit != "":
		r.wrong(fields["unit"], "the unit %q of a limit that is unlimited: leave out one of them", unit)
	case !rule.Unlimited && unit == "":
		r.wrong(n, "the unit is missing: %s", unitsAllowed)
	case !rule.Unlimited && rule.Unit == 0:
		r.wrong(fields["unit"], "the unit %q: %s", unit, unitsAllowed)
	}
	rule.Requests = r.requests(fields["requests_per_unit"])
	for _, other := range r.list(fields["replaces"], "replaces") {
		name := r.text(r.fields(other, "an entry of replaces", "name")["name"], "name")
		switch name {
		case "":
			r.wrong(other, "an entry of replaces has no name: name the rule that is replaced")
		case rule.Name:
			r.wrong(other, "replaces names %q, which is the rule's own name: name another", name)
		}
		rule.Replaces = append(rule.Replaces, name)
	}
	child.rule = rule
	r.set.Rules = append(r.set.Rules, rule)
}

// fields returns the values of a mapping by their names, which must be among the allowed. An alias stands for what it
// refers to, and << merges.
func (r *reader) fields(n *yaml.Node, of string, allowed ...string) map[string]*yaml.Node {
	fields := map[string]*yaml.Node{}
	if n = follow(n); n.Kind != yaml.MappingNode {
		r.wrong(n, "%s is %s: allowed is a mapping with %s", of, shown(n), strings.Join(allowed, ", "))
		return fields
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case key.Kind != yaml.ScalarNode || !slices.Contains(allowed, key.Value):
			r.wrong(key, "unknown field %s of %s: allowed is %s", shown(key), of, strings.Join(allowed, ", "))
		case fields[key.Value] != nil:
			r.wrong(key, "the field %q is given twice", key.Value)
		default:
			fields[key.Value] = follow(value)
		}
	}
	for _, value := range merged {
		r.mergeInto(fields, value, of, allowed)
	}
	for name, value := range fields {
		if value.Tag == "!!null" {
			delete(fields, name) // as if it were not there
		}
	}
	return fields
}

// mergeInto adds the fields of what << refers to, a mapping or several, where there are none of that name yet.
func (r *reader) mergeInto(fields map[string]*yaml.Node, value *yaml.Node, of string, allowed []string) {
	value = follow(value)
	sources := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		sources = value.Content
	}
	for _, source := range sources {
		if source = follow(source); source == value && value.Kind == yaml.SequenceNode {
			continue // it refers to itself
		}
		for name, v := range r.plainFields(source, of, allowed) {
			if fields[name] == nil {
				fields[name] = v
			}
		}
	}
}

// plainFields is fields for a mapping in which nothing is merged in its turn.
func (r *reader) plainFields(n *yaml.Node, of string, allowed []string) map[string]*yaml.Node {
	if n.Kind == yaml.MappingNode && slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Tag == "!!merge" }) {
		r.wrong(n, "what << refers to has a << of its own: write out one of them")
		return nil
	}
	return r.fields(n, of, allowed...)
}

// follow returns what an alias refers to, and other nodes as they are.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func (r *reader) list(n *yaml.Node, name string) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		r.wrong(n, "%s is %s: allowed is a list", name, shown(n))
		return nil
	}
	return n.Content
}

// text returns a scalar as it is written, whatever YAML takes it for: an address and the number 5 are texts alike.
func (r *reader) text(n *yaml.Node, name string) string {
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode:
		r.wrong(n, "%s is %s: allowed is text", name, shown(n))
		return ""
	}
	return n.Value
}

// yes returns a field that is true or false; false where it is missing.
func (r *reader) yes(fields map[string]*yaml.Node, name string) (b bool) {
	n := fields[name]
	if n != nil && (n.Kind != yaml.ScalarNode || n.Decode(&b) != nil) {
		r.wrong(n, "%s is %s: allowed is true or false", name, shown(n))
	}
	return b
}

// requests returns a field that is a whole number, 0 where it is missing.
func (r *reader) requests(n *yaml.Node) uint32 {
	if n == nil {
		return 0
	}
	var x float64
	if n.Kind != yaml.ScalarNode || n.Decode(&x) != nil || x < 0 || x > math.MaxUint32 || x != math.Trunc(x) {
		r.wrong(n, "requests_per_unit %s: allowed is a whole number from 0 to %d", shown(n), math.MaxUint32)
		return 0
	}
	return uint32(x)
}

func (r *reader) metadata(n *yaml.Node) *structpb.Struct {
	if n == nil {
		return nil
	}
	var fields map[string]any
	err := n.Decode(&fields)
	if err == nil {
		var s *structpb.Struct
		if s, err = structpb.NewStruct(fields); err == nil {
			return s
		}
	}
	r.wrong(n, "metadata cannot be sent: allowed is a mapping of texts to what JSON has")
	return nil
}

// shown is how a message quotes what stands in a file.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" && n.Value == "" {
		return "empty"
	}
	if text := []rune(n.Value); len(text) > 60 {
		return strconv.Quote(string(text[:60]) + "…")
	}
	return strconv.Quote(n.Value)
}
