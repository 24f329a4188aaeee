// Package rules is the file of rules: what it may hold, whether it makes sense, what a change of it means, and an
// Engine that holds requests to it.
package rules

import (
	"reflect"
	"sort"

	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate"
)

// A File is a file of rules that has been read and checked.
type File struct {
	lines
	Name     string
	Settings []Setting // flags of the command, in the order of the file

	Match     Match             `yaml:"match" doc:"Which of the rules that match a request hold: the first one, which is the default, or all of them in one decision."`
	Exempt    []Entry           `yaml:"exempt" doc:"What passes uncounted, whatever the rules say: a network, a path, or \"GET /healthz from 10.0.0.0/8\"."`
	Deny      []Entry           `yaml:"deny" doc:"What gets 403, whatever the rules say. Entries are those of exempt."`
	Upstreams map[Name]URL      `yaml:"upstreams" doc:"Services behind, by a name that rules use."`
	Rules     []*Rule           `yaml:"rules" doc:"The rules, in their order."`
	Domains   map[Name]*Domain  `yaml:"domains" doc:"Sets of rules of their own for some hosts. No two domains share a count."`
	sources   map[string][]byte // the content of every file that was read
	flags     *pflag.FlagSet
}

// A Domain is a set of rules for some hosts. Its keys are its own: nothing that is counted in one domain
// counts in another.
type Domain struct {
	lines
	Name Name

	Hosts []Host  `yaml:"host,required" doc:"The hosts that have these rules and no others: a name, or *.example.com for all names below."`
	Match Match   `yaml:"match" doc:"Which of the rules that match a request hold: the first one, which is the default, or all of them in one decision."`
	Rules []*Rule `yaml:"rules,required" doc:"The rules, in their order."`
}

// A Rule holds the requests that it matches to limits. A condition that is not given matches everything; of
// several values one has to match.
type Rule struct {
	lines
	Domain Name // empty for none

	Name           Name                 `yaml:"name,required" doc:"What the rule is called in counts, metrics and logs. A new name starts afresh."`
	Hosts          []Host               `yaml:"host" doc:"The host that is asked for, without port: a name, or *.example.com for all names below."`
	Paths          []Path               `yaml:"path" doc:"The path: /login is that path, /api/ it and all below, {name} one segment, {name...} the rest, /{$} the root alone."`
	Methods        []Method             `yaml:"methods" doc:"The methods. GET is also HEAD."`
	RequestHeaders map[Field]HeaderTest `yaml:"request-headers" doc:"Headers of the request: true where there has to be one, false where there must be none, or the value, or several."`
	Clients        []Network            `yaml:"clients" doc:"Networks or addresses of clients."`
	Key            *Key                 `yaml:"key" doc:"What tells clients apart: ip, header:NAME, cookie:NAME, path, host, method, joined by +. By default what --key says, which is ip."`
	Limits         Limits               `yaml:"limits,required" doc:"Up to 8 limits, [name=]QUOTA/WINDOW[,counter][,resolution=DUR]; or unlimited, or blocked."`
	Cost           *Cost                `yaml:"cost" doc:"The units a request spends: a whole number, 1 by default, or header:NAME for the number in a header."`
	Mode           Mode                 `yaml:"mode" doc:"enforce, the default; shadow counts and tells and refuses nobody; off is as if the rule were not there."`
	OnStoreError   Policy               `yaml:"on-store-error" doc:"What to do with requests that cannot be decided: open lets them pass, closed answers 503. By default what --on-store-error says."`
	Headers        []Format             `yaml:"headers" doc:"The RateLimit fields to send. By default what --headers says."`
	Response       *Response            `yaml:"response" doc:"The answer to refused requests; 429 with a problem+json by default."`
	Ban            *Ban                 `yaml:"ban" doc:"Refuse a key for a length of its own once it was refused too often."`
	RefundIf       []Status             `yaml:"refund-if-status" doc:"Give the charge back where the answer has one of these statuses, such as 404 or 5xx."`
	Plans          map[Name]Limits      `yaml:"plans" doc:"Other limits for some clients, by the name of their plan."`
	PlanBy         *HeaderName          `yaml:"plan-by" doc:"header:NAME, the header whose value is the name of the plan. It has to come from who may say it."`
	Overrides      map[OverrideKey]Name `yaml:"overrides" doc:"The plan of single keys, by the very key, such as ip:203.0.113.9."`
	OverridesFile  string               `yaml:"overrides-file" doc:"A file with more overrides: a key and the name of its plan on each line. It is looked for beside this one."`
	Upstream       string               `yaml:"upstream" doc:"Where the requests go: a name of upstreams, or a URL. By default what --upstream says."`

	overrides map[string]Name // both, and as they are counted
	upstream  *URL
}

// A Response answers refused requests.
type Response struct {
	lines
	Status int    `yaml:"status" doc:"The status, 400 to 599; 429 by default."`
	Body   string `yaml:"body" doc:"A body of plain text."`
	JSON   *JSON  `yaml:"json" doc:"A body of JSON, whatever it is. Not with body."`
}

// A Ban refuses a key for a length of its own.
type Ban struct {
	lines
	Strikes Limit    `yaml:"strikes,required" doc:"How often is too often, as a limit of refusals: 5/1m bans at the fifth within a minute."`
	Length  Duration `yaml:"length,required" doc:"How long a ban is, such as 1h."`
}

// A set is some rules and how they go together.
type set struct {
	domain Name
	match  Match
	rules  []*Rule
}

// sets returns the rules outside of domains, and then those of the domains by name.
func (f *File) sets() []set {
	all := []set{{"", f.Match, f.Rules}}
	for _, name := range sortedNames(f.Domains) {
		all = append(all, set{name, f.Domains[name].Match, f.Domains[name].Rules})
	}
	return all
}

// All returns all rules, those outside of domains first.
func (f *File) All() (all []*Rule) {
	for _, s := range f.sets() {
		all = append(all, s.rules...)
	}
	return all
}

// FullName is the name of a rule with its domain, as in shop/login.
func (r *Rule) FullName() string {
	if r.Domain == "" {
		return string(r.Name)
	}
	return string(r.Domain) + "/" + string(r.Name)
}

// A plan of a rule is the limits that some of its requests are held to.
type plan struct {
	name   Name // empty for the rule's own limits
	limits Limits
}

// plans returns the rule's own limits, and then its plans by name. Every limit has a name that does not change with
// its quota, so that a change of the quota keeps what was counted, and plans share it.
func (r *Rule) plans() []plan {
	all := []plan{{"", r.Limits}}
	for _, name := range sortedNames(r.Plans) {
		all = append(all, plan{name, r.Plans[name]})
	}
	return all
}

// limits returns limits under the names by which they are counted: that of the rule, and that of the limit or else its
// window, as in login:15m.
func (r *Rule) limits(l Limits) []slidegate.Limit {
	named := make([]slidegate.Limit, len(l.List))
	for i, limit := range l.List {
		named[i] = limit.Named(r.limitName(limit))
	}
	return named
}

func (r *Rule) limitName(l slidegate.Limit) string {
	return string(r.Name) + ":" + shortName(l)
}

// shortName is the name of a limit in its rule.
func shortName(l slidegate.Limit) string {
	if l.Name != "" {
		return l.Name
	}
	return windowOf(l)
}

func sortedNames[K ~string, V any](m map[K]V) []K {
	names := make([]K, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}

// Read reads a file and checks it. flags are those that it may set, beside the rules; none of them is
// set. The error is Problems: everything that is wrong.
func Read(name string, text []byte, flags *pflag.FlagSet) (*File, error) {
	f, err := parse(name, text, flags)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// parse returns the file also where it is wrong.
func parse(name string, text []byte, flags *pflag.FlagSet) (*File, error) {
	f := &File{Name: name, flags: flags, sources: map[string][]byte{name: text}}
	d := &decoder{file: name}
	if len(text) > maxSize {
		d.errorf(0, "the file has %d bytes: allowed is up to %d", len(text), maxSize)
	} else if n := d.parse(text); n != nil {
		d.value("the file", n, reflect.ValueOf(f).Elem())
		f.check(d)
	}
	if len(d.problems) > 0 {
		return f, d.problems.sorted()
	}
	return f, nil
}

// maxSize of a file of rules, and maxOverrides of a file of overrides, in bytes.
const (
	maxSize      = 4 << 20
	maxOverrides = 64 << 20
)
