package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// A Match is what a set has for a descriptor.
type Match struct {
	// Rule is nil where none matches.
	Rule *Rule

	// Key is what the descriptor is counted under: the same for the same domain, keys and values, and for all that share a
	// threshold; different for all others.
	Key string

	// StateName is that of the rule, or one for limits that come with requests.
	StateName string

	// StatKey is what the original calls the rule in its statistics: domain.key_value.key.
	StatKey string

	// FirstLevel is where in StatKey its first level ends.
	FirstLevel int
}

// overrideName is the state name of descriptors that have no place in the rules.
const overrideName = "override"

// Match finds the rule of a descriptor. On each level it is the one of the entry's very key and value; else, in the order
// of the file, the first whose wildcards match; else the one of the key without a value. What was chosen on one level is
// kept on the next. A rule matches where the descriptor ends with it, so a rule further up never does.
//
// A descriptor that brings a limit has no rule, but a Key to count under and a StatKey, if there is the domain. One
// without entries has nothing.
func (s *Set) Match(domain string, d *ratelimitv3.RateLimitDescriptor) Match {
	root := s.domains[domain]
	if root == nil || len(d.GetEntries()) == 0 {
		return Match{}
	}
	var places [8]*node
	path := root.walk(d.GetEntries(), places[:0])
	if d.GetLimit() != nil {
		return override(domain, d.GetEntries(), path)
	}
	if len(path) < len(d.GetEntries()) || path[len(path)-1].rule == nil {
		return Match{}
	}
	last := path[len(path)-1]
	m := Match{Rule: last.rule, StateName: last.stateName, StatKey: last.rule.StatKey}
	m.Key, m.FirstLevel = keyOf(domain, d.GetEntries(), path), len(domain)+1+len(path[0].statName)
	if last.variable {
		m.StatKey = statKey(domain, d.GetEntries(), path, last.rule.Detailed)
		if !path[0].share && (path[0].valueToMetric || last.rule.Detailed) {
			m.FirstLevel = levelEnd(domain, d.GetEntries()[0])
		}
	}
	return m
}

// walk appends the nodes of the entries to path, as far as there are some.
func (n *node) walk(entries []*ratelimitv3.RateLimitDescriptor_Entry, path []*node) []*node {
	for _, e := range entries {
		if n = n.child(e.GetKey(), e.GetValue()); n == nil {
			return path
		}
		path = append(path, n)
	}
	return path
}

func (n *node) child(key, value string) *node {
	if value != "" {
		if next := n.children[entry{key, value}]; next != nil {
			return next
		}
	}
	for _, next := range n.patterns[key] {
		if next.pattern.matches(value) {
			return next
		}
	}
	return n.children[entry{key: key}]
}

func override(domain string, entries []*ratelimitv3.RateLimitDescriptor_Entry, path []*node) Match {
	m := Match{Key: keyOf(domain, entries, nil), StateName: overrideName}
	if len(path) == len(entries) {
		m.StateName = path[len(path)-1].stateName
	}
	var b strings.Builder
	b.WriteString(domain)
	for _, e := range entries {
		writeStat(&b, e.GetKey(), e.GetValue())
	}
	m.StatKey, m.FirstLevel = b.String(), levelEnd(domain, entries[0])
	return m
}

// statKey names a rule in statistics with values of a request in it.
func statKey(domain string, entries []*ratelimitv3.RateLimitDescriptor_Entry, path []*node, detailed bool) string {
	var b strings.Builder
	b.WriteString(domain)
	for i, n := range path {
		if (detailed || n.valueToMetric) && !n.share {
			writeStat(&b, entries[i].GetKey(), entries[i].GetValue())
		} else {
			b.WriteByte('.')
			b.WriteString(n.statName)
		}
	}
	return b.String()
}

// levelEnd returns where the first level of a statKey ends in which it is an entry with its value.
func levelEnd(domain string, e *ratelimitv3.RateLimitDescriptor_Entry) int {
	if e.GetValue() == "" {
		return len(domain) + 1 + len(e.GetKey())
	}
	return len(domain) + 1 + len(e.GetKey()) + 1 + len(e.GetValue())
}

func writeStat(b *strings.Builder, key, value string) {
	b.WriteByte('.')
	b.WriteString(key)
	if value != "" {
		b.WriteByte('_')
		b.WriteString(value)
	}
}

// keyOf joins domain, keys and values to what is counted under: rls:DOMAIN|KEY=VALUE|KEY=VALUE. Where a threshold is shared
// the pattern stands for the value, behind ~. Signs of these that are part of a text have a backslash before them, so no two
// descriptors have the same key.
func keyOf(domain string, entries []*ratelimitv3.RateLimitDescriptor_Entry, path []*node) string {
	size := len("rls:") + len(domain)
	for _, e := range entries {
		size += 2 + len(e.GetKey()) + len(e.GetValue())
	}
	b := make([]byte, 0, size)
	b = append(b, "rls:"...)
	b = appendEscaped(b, domain, `\|`)
	for i, e := range entries {
		b = append(b, '|')
		b = appendEscaped(b, e.GetKey(), `\|=~`)
		if path != nil && path[i].share {
			b = append(b, '~')
			b = appendEscaped(b, path[i].pattern.text, `\|`)
			continue
		}
		b = append(b, '=')
		b = appendEscaped(b, e.GetValue(), `\|`)
	}
	return string(b)
}

func appendEscaped(b []byte, s, signs string) []byte {
	if !strings.ContainsAny(s, signs) {
		return append(b, s...)
	}
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(signs, s[i]) >= 0 {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return b
}

// longestStateName is in bytes.
const longestStateName = 64

// stateName makes the name of the limit under which counters are kept, out of the keys alone: message_type/to_number. So a
// rule for one value begins with what the rule for all values has counted, and no counter is lost when a file changes. It
// need not be unique, for the key of a counter is.
func stateName(keys []string) string {
	joined := strings.Join(keys, "/")
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '=' {
			return '_'
		}
		return r
	}, joined)
	if len(name) <= longestStateName {
		return name
	}
	sum := sha256.Sum256([]byte(joined))
	return name[:longestStateName-17] + "~" + hex.EncodeToString(sum[:8])
}
