// Package rules reads the rule files of envoyproxy/ratelimit as they are, and finds the rule of a descriptor.
//
// It is stricter than the original where a file would mean something else than its author thinks: a field in a place where
// it has no meaning, a second document in a file, and a key given twice are errors. All that is wrong is said at once, with
// file, line and what is allowed.
package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// A Unit is what a limit counts in. Weeks, months and years are of 7, 30 and 365 days, as in the original.
type Unit uint8

// The units; the zero Unit is none of them.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Year
)

const day = 24 * time.Hour

var (
	unitNames   = []string{"", "second", "minute", "hour", "day", "week", "month", "year"}
	unitLengths = []time.Duration{0, time.Second, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day}
)

// String returns the name of the unit in lower case, empty for none.
func (u Unit) String() string { return unitNames[u] }

// Length returns how long the unit is, 0 for none.
func (u Unit) Length() time.Duration { return unitLengths[u] }

// parseUnit reads the name of a unit, in upper or lower case. It returns the zero Unit for anything else.
func parseUnit(s string) Unit {
	if i := slices.Index(unitNames, strings.ToLower(s)); i > 0 {
		return Unit(i)
	}
	return 0
}

// A Rule is a descriptor of a file that has a rate_limit. It must not be modified.
type Rule struct {
	ID        int    // its place in Set.Rules
	Place     string // FILE:LINE, for messages
	StateName string // what its counters are called beside their keys; see StateName
	StatKey   string // what it is called in statistics, where no value of a request is part of that

	Requests  uint32 // per unit; 0 refuses all
	Unit      Unit   // 0 if Unlimited
	Unlimited bool

	Name     string
	Replaces []string // names of the rules that do not count where this one does

	Shadow   bool             // counted, never refused
	Quota    bool             // refuses only where all rules of this mode in a request do
	Detailed bool             // the values of a request are part of what it is called in statistics
	Metadata *structpb.Struct // nil if there is none
}

// String describes a rule on one line: what it is called in statistics, what it admits, and in which mode it is.
func (r *Rule) String() string {
	text := fmt.Sprintf("%s: %d/%s", r.StatKey, r.Requests, r.Unit)
	if r.Unlimited {
		text = r.StatKey + ": unlimited"
	}
	if r.Shadow {
		text += " (shadow)"
	}
	return text
}

// A Set is all rules that were read, of all domains. It does not change, and is safe for concurrent use.
type Set struct {
	Rules   []*Rule
	domains map[string]*node
}

// Domains returns the names of all domains, sorted.
func (s *Set) Domains() []string {
	names := make([]string, 0, len(s.domains))
	for name := range s.domains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Has tells whether there is such a domain.
func (s *Set) Has(domain string) bool { return s.domains[domain] != nil }

// mostListed is how many rules a summary has.
const mostListed = 20

// Summary says what is limited: how many rules of which domains there are, and then a rule on a line.
func (s *Set) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rules %d, domains %d: %s", len(s.Rules), len(s.domains), strings.Join(s.Domains(), ", "))
	for i, r := range s.Rules {
		if i == mostListed {
			fmt.Fprintf(&b, "\nand %d more", len(s.Rules)-i)
			break
		}
		fmt.Fprintf(&b, "\n%s", r)
	}
	return b.String()
}

// A node is a descriptor of a file, or a domain.
type node struct {
	rule      *Rule // nil if it has no rate_limit
	statName  string
	stateName string

	pattern       *pattern // of the value, nil where it has no wildcards
	share         bool     // all that match the pattern have one counter
	valueToMetric bool
	variable      bool // here or above, statistics name the values of requests

	children map[entry]*node
	patterns map[string][]*node // of a key, in the order of the file
}

// An entry is the key and the value of a descriptor; without a value it stands for all that have no rule of their own.
type entry struct{ key, value string }
