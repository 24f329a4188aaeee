package rules

import "strings"

// A pattern is a value with wildcards: each * stands for any text, also for none.
type pattern struct {
	text   string
	before string   // the first *
	after  string   // the last *
	middle []string // between them, in order
}

// newPattern returns the pattern of a value, nil if there is no * in it.
func newPattern(text string) *pattern {
	parts := strings.Split(text, "*")
	last := len(parts) - 1
	if last == 0 {
		return nil
	}
	return &pattern{text: text, before: parts[0], after: parts[last], middle: parts[1:last]}
}

// matches tells whether a value is of the pattern. Each part is looked for behind the one before it, at the first place
// where it is, which leaves most room for the others.
func (p *pattern) matches(value string) bool {
	rest, ok := strings.CutPrefix(value, p.before)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, p.after); !ok {
		return false
	}
	for _, part := range p.middle {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}
