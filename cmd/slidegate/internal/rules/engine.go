package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/httpgate"
)

// Options are what an Engine needs beside its file: the store, and what holds where a rule says nothing.
type Options struct {
	Store   slidegate.Store
	Key     *keyexpr.Expr     // nil for the client's address
	Policy  Policy            // empty for open
	Headers []httpgate.Format // of rules that do not say; empty for none

	// Gate are options of every gate, such as those about addresses and the logger.
	Gate   []httpgate.Option
	Logger *slog.Logger // nil to log nothing

	// Observe is told of every decision, as httpgate.Observe is. It is called on the request's goroutine and must not
	// keep the event.
	Observe func(*Event)

	// Recount makes of every limit the one that is counted in its place, with its name. nil: each is counted as it is.
	Recount func(slidegate.Limit) slidegate.Limit

	rehearses bool // requests have been matched already
}

// An Event is one decision as an observer sees it.
type Event struct {
	*httpgate.Event
	Rules   []*Rule // that it was about; none for a request on the list of those denied
	Blocked bool    // a rule or a plan refuses all; the Decision has no limits then
}

// Refuser returns the rule that a refusal binds by, nil where no rule does.
func (e *Event) Refuser() *Rule {
	if len(e.Rules) == 0 {
		return nil
	}
	binding := ""
	if e.Decision != nil {
		binding = e.Decision.Binding().Limit.Name
	}
	name, _, _ := strings.Cut(binding, ":") // as limitName has it
	for _, r := range e.Rules {
		if binding != "" && string(r.Name) == name || e.Blocked && r.Limits.Word == blocked {
			return r
		}
	}
	return e.Rules[0]
}

func (o *Options) observe(e *httpgate.Event, about []*Rule, blocked bool) {
	if o.Observe != nil {
		o.Observe(&Event{e, about, blocked})
	}
}

// An Engine holds requests to the rules of a file. It is safe for concurrent use and needs no closing; the store may.
type Engine struct {
	file      *File
	options   Options
	addresses *httpgate.Addresses
	lists     *httpgate.Gate // nil where nothing is exempt or denied
	sets      []*ruleset     // of domains, and last that of everything else
	gates     gates
}

// A ruleset is a set of rules that is ready to decide.
type ruleset struct {
	hosts  []Host // empty for those of no domain
	match  Match
	rules  []*bound
	stages stages
}

// A bound is a rule with its limiters.
type bound struct {
	*Rule
	index     uint16
	key       *keyexpr.Expr
	formats   []httpgate.Format
	policy    Policy
	plans     []*slidegate.Limiter // that of the rule's own limits, and those of its plans, unlimited and blocked; nil for unlimited
	planNames map[Name]uint16
	overrides map[string]uint16
	terms     string // what rules have to have in common to be one decision
}

// New returns an Engine. It asks the store nothing. State is found by the key, the names of rule and limit, and the
// window, so a later Engine over the same store goes on where this one is.
func New(f *File, o Options) (*Engine, error) {
	if o.Key == nil {
		o.Key, _ = keyexpr.Parse("ip")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{file: f, options: o}
	var err error
	if e.addresses, err = httpgate.NewAddresses(o.Gate...); err != nil {
		return nil, err
	}
	if err := e.bindLists(); err != nil {
		return nil, err
	}
	sets := f.sets()
	for _, s := range append(sets[1:], sets[0]) {
		bound, err := e.bind(s)
		if err != nil {
			return nil, err
		}
		e.sets = append(e.sets, bound)
	}
	return e, nil
}

// bindLists makes the gate that looks whether a request is exempt or denied. It counts nothing.
func (e *Engine) bindLists() (err error) {
	options := slices.Concat(e.options.Gate, []httpgate.Option{httpgate.ByEverybody(), httpgate.CountPreflights()})
	for _, entry := range e.file.Exempt {
		options = append(options, httpgate.Exempt(string(entry)))
	}
	for _, entry := range e.file.Deny {
		options = append(options, httpgate.Deny(string(entry)))
	}
	if len(e.file.Exempt)+len(e.file.Deny) == 0 {
		return nil
	}
	options = append(options, httpgate.Observe(func(event *httpgate.Event) {
		if !e.options.rehearses && errors.Is(event.Err, httpgate.ErrForbidden) {
			e.options.observe(event, nil, false)
		}
	}))
	e.lists, err = httpgate.New(slidegate.Unlimited(), options...)
	return err
}

func (e *Engine) bind(s set) (*ruleset, error) {
	bound := &ruleset{match: s.match}
	if s.domain != "" {
		bound.hosts = e.file.Domains[s.domain].Hosts
	}
	for i, r := range s.rules {
		b, err := e.bindRule(r, i)
		if err == nil {
			err = bound.stages.alone(e, b)
		}
		if err != nil {
			return nil, Problems{{e.file.Name, r.start, fmt.Sprintf("rule %s: %s", r.Name, strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": "))}}
		}
		bound.rules = append(bound.rules, b)
	}
	return bound, nil
}

// bindRule makes the limiters of a rule.
func (e *Engine) bindRule(r *Rule, index int) (*bound, error) {
	b := &bound{Rule: r, index: uint16(index), key: e.options.Key, policy: e.options.Policy, formats: e.options.Headers, planNames: map[Name]uint16{}}
	if r.Key != nil {
		b.key = r.Key.Expr
	}
	if r.OnStoreError != "" {
		b.policy = r.OnStoreError
	}
	if r.has("headers") {
		b.formats = formatsOf(r.Headers)
	}
	b.terms = b.termsOf()
	all := append(r.plans(), plan{unlimited, Limits{Word: unlimited}}, plan{blocked, Limits{Word: blocked}})
	for i, p := range all {
		limiter, err := e.limiter(r, p.limits)
		if err != nil {
			return nil, err
		}
		b.plans = append(b.plans, limiter)
		b.planNames[p.name] = uint16(i)
	}
	delete(b.planNames, "")
	return b, e.bindOverrides(b)
}

func (e *Engine) limiter(r *Rule, l Limits) (*slidegate.Limiter, error) {
	switch l.Word {
	case unlimited:
		return nil, nil
	case blocked:
		return slidegate.Blocked(), nil
	}
	limits := r.limits(l)
	for i := range limits {
		limits[i] = e.recounted(limits[i])
	}
	return slidegate.New(e.options.Store, limits...)
}

func (e *Engine) recounted(l slidegate.Limit) slidegate.Limit {
	if e.options.Recount == nil {
		return l
	}
	return e.options.Recount(l)
}

// bindOverrides has addresses as they are counted: an IPv6 address by its network.
func (e *Engine) bindOverrides(b *bound) error {
	if len(b.Rule.overrides) == 0 {
		return nil
	}
	b.overrides = make(map[string]uint16, len(b.Rule.overrides))
	for key, name := range b.Rule.overrides {
		if text, ok := strings.CutPrefix(key, "ip:"); ok {
			if addr, err := netip.ParseAddr(strings.TrimSuffix(text, suffixOf(text))); err == nil {
				key = "ip:" + e.addresses.Key(addr.Unmap())
			}
		}
		b.overrides[key] = b.planNames[name]
	}
	return nil
}

func formatsOf(names []Format) (all []httpgate.Format) {
	for _, name := range names {
		if f, err := httpgate.ParseFormat(string(name)); err == nil {
			all = append(all, f)
		}
	}
	return all
}

// File returns the file that the engine was made of.
func (e *Engine) File() *File { return e.file }

// Addresses returns how the engine finds the address of a client.
func (e *Engine) Addresses() *httpgate.Addresses { return e.addresses }

type matchKey struct{}

// Of returns the rule that says where a request goes: of those that hold for it the first that has an upstream and is
// not in shadow. It is nil outside of an engine's handlers, and where there is none.
func Of(ctx context.Context) *Rule {
	r, _ := ctx.Value(matchKey{}).(*Rule)
	return r
}

// UpstreamURL is where the requests of a rule go, nil where it does not say.
func (r *Rule) UpstreamURL() *url.URL {
	if r == nil || r.upstream == nil {
		return nil
	}
	return r.upstream.URL
}

// Handler returns a handler that holds requests to the rules before next, which runs once for a request that is
// admitted, or that no rule is about, and never for one that is refused.
func (e *Engine) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, next, false) })
}

// Verdicts is Handler for a next that only says that a request may pass, and does not know what it is answered: nothing is given
// back by the status.
func (e *Engine) Verdicts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, next, true) })
}

// serve is one request.
func (e *Engine) serve(w http.ResponseWriter, r *http.Request, next http.Handler, blind bool) {
	switch e.fateOf(r) {
	case Denied:
		forbidden.ServeHTTP(w, r)
		return
	case Exempt:
		next.ServeHTTP(w, r)
		return
	}
	s := newSubject(r, e.addresses)
	var room [8]choice
	set := e.sets[e.indexOf(s.host)]
	chosen := e.choose(set, &s, room[:0], blind)
	if len(chosen) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	if to := leader(chosen); to != nil {
		r = r.WithContext(context.WithValue(r.Context(), matchKey{}, to))
	}
	e.run(w, r, set.stages.of(e, set.match, chosen), next)
}

var forbidden = httpgate.Problem{Type: "about:blank", Title: http.StatusText(http.StatusForbidden), Status: http.StatusForbidden}

// fateOf tells what the lists of the file make of a request: exempt, denied, or counted.
func (e *Engine) fateOf(r *http.Request) Fate {
	if e.lists == nil {
		return Counted
	}
	switch o := e.lists.Decide(r); {
	case errors.Is(o.Err, httpgate.ErrForbidden):
		return Denied
	case o.Decision == nil && o.Err == nil:
		return Exempt
	}
	return Counted
}

// indexOf returns where the rules of a host are: those of the domain that names it, else of the one with the longest
// suffix, else those of no domain.
func (e *Engine) indexOf(host string) int {
	best, length := len(e.sets)-1, -1
	for i, s := range e.sets[:len(e.sets)-1] {
		for _, h := range s.hosts {
			switch {
			case !h.below && h.name == host:
				return i
			case h.below && len(h.name) > length && h.matches(host):
				best, length = i, len(h.name)
			}
		}
	}
	return best
}

// A choice is a rule that holds for a request, with the plan of the request.
type choice struct {
	*bound
	plan  uint16
	blind bool // for how the request is answered
}

func (c choice) limiter() *slidegate.Limiter { return c.plans[c.plan] }

// isBlocked tells of limits that refuse all.
func (c choice) isBlocked() bool { return c.limiter() != nil && len(c.limiter().Limits()) == 0 }

// choose appends the rules that hold for a request. A rule in shadow takes none from those behind it: trying it
// changes nothing for anybody.
func (e *Engine) choose(set *ruleset, s *subject, chosen []choice, blind bool) []choice {
	for _, b := range set.rules {
		if !b.matches(s) {
			continue
		}
		chosen = append(chosen, choice{b, e.planOf(b, s.r), blind && len(b.RefundIf) > 0})
		if set.match != All && b.Mode != Shadow {
			break
		}
	}
	return chosen
}

// planOf returns the plan of a request: that of its key, or the one that a header names, or the rule's own.
func (e *Engine) planOf(b *bound, r *http.Request) uint16 {
	if b.overrides != nil {
		address, _ := e.addresses.KeyOf(r)
		if p, ok := b.overrides[b.key.Key(r, address)]; ok {
			return p
		}
	}
	if b.PlanBy != nil {
		return b.planNames[Name(strings.TrimSpace(r.Header.Get(string(*b.PlanBy))))]
	}
	return 0
}

// leader is the rule that says where the request goes.
func leader(chosen []choice) *Rule {
	for _, c := range chosen {
		if c.upstream != nil && c.Mode != Shadow {
			return c.Rule
		}
	}
	return nil
}

// key returns the key of a request in a rule: what the expression gives, and the domain around it.
func (e *Engine) keyOf(b *bound, r *http.Request) string {
	address, err := e.addresses.KeyOf(r)
	if err != nil {
		address = ""
	}
	key := b.key.Key(r, address)
	if key == "" || b.Domain == "" {
		return key
	}
	return b.Rule.Keyed(key)
}

// Limiter returns the limiter of a rule by its full name, with its own limits, nil if there is no such rule or it is off. Keys of
// a rule in a domain are those of Keyed.
func (e *Engine) Limiter(name string) *slidegate.Limiter {
	for _, set := range e.sets {
		for _, b := range set.rules {
			switch {
			case b.FullName() != name || b.Mode == Off:
			case b.plans[0] == nil:
				return free
			default:
				return b.plans[0]
			}
		}
	}
	return nil
}

// free is the limiter of all rules that are unlimited.
var free = slidegate.Unlimited()

// LimitNames are what the limits of a rule are called in decisions, those of its plans too.
func (r *Rule) LimitNames() (names []string) {
	for _, p := range r.plans() {
		for _, l := range r.limits(p.limits) {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// Keyed is a key as it is counted in the rule's domain.
func (r *Rule) Keyed(key string) string {
	if r.Domain == "" {
		return key
	}
	return "domain:" + string(r.Domain) + "|" + key
}

// cost reads the units of a request from its header. What is no number from 1 is 1: nobody is free for saying so.
func cost(name string) func(*http.Request) int64 {
	return func(r *http.Request) int64 {
		units, err := strconv.ParseInt(strings.TrimSpace(r.Header.Get(name)), 10, 64)
		if errors.Is(err, strconv.ErrRange) && units > 0 {
			return units
		}
		if err != nil || units < 1 {
			return 1
		}
		return units
	}
}
