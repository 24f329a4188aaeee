package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// Effective is what holds, with everything filled in that a file leaves out. The names are those of the file.
type Effective struct {
	File   string          `json:"file,omitempty"`
	Exempt []string        `json:"exempt,omitempty"`
	Deny   []string        `json:"deny,omitempty"`
	Rules  []EffectiveRule `json:"rules"`
}

// An EffectiveRule is a rule with its defaults. What is not there is of no request, or matches all.
type EffectiveRule struct {
	Name         string              `json:"name"`
	Domain       string              `json:"domain,omitempty"`
	Match        string              `json:"match,omitempty"` // of the rules that it stands among
	Hosts        []string            `json:"host,omitempty"`
	Paths        []string            `json:"path,omitempty"`
	Methods      []string            `json:"methods,omitempty"`
	Headers      map[string]string   `json:"request-headers,omitempty"`
	Clients      []string            `json:"clients,omitempty"`
	Key          string              `json:"key"`
	Limits       []string            `json:"limits"` // as they are counted; or unlimited, or blocked
	Cost         string              `json:"cost"`
	Mode         string              `json:"mode"`
	OnStoreError string              `json:"on-store-error"`
	Fields       []string            `json:"headers"`
	Response     EffectiveResponse   `json:"response"`
	Ban          *EffectiveBan       `json:"ban,omitempty"`
	RefundIf     []string            `json:"refund-if-status,omitempty"`
	Plans        map[string][]string `json:"plans,omitempty"`
	PlanBy       string              `json:"plan-by,omitempty"`
	Overrides    int                 `json:"overrides,omitempty"` // how many keys have a plan of their own
	Upstream     string              `json:"upstream,omitempty"`
}

// An EffectiveResponse is the answer to refused requests. Without a body it is a problem.
type EffectiveResponse struct {
	Status int             `json:"status"`
	Body   string          `json:"body,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
}

// An EffectiveBan is the ban of a rule.
type EffectiveBan struct {
	Strikes string `json:"strikes"`
	Length  string `json:"length"`
}

// Effective returns what the engine holds requests to.
func (e *Engine) Effective() Effective {
	f := Effective{File: e.file.Name, Exempt: texts(e.file.Exempt), Deny: texts(e.file.Deny), Rules: []EffectiveRule{}}
	for _, set := range append(e.sets[len(e.sets)-1:], e.sets[:len(e.sets)-1]...) {
		for _, b := range set.rules {
			f.Rules = append(f.Rules, b.effective(set))
		}
	}
	return f
}

func (b *bound) effective(among *ruleset) EffectiveRule {
	r := EffectiveRule{
		Name: string(b.Name), Domain: string(b.Domain), Match: string(among.match), Hosts: texts(b.Hosts), Paths: texts(b.Paths), Methods: texts(b.Methods),
		Clients: texts(b.Clients), Key: b.key.String(), Limits: b.counted(b.Limits), Cost: "1", Mode: string(b.Mode), OnStoreError: string(b.policy),
		Fields: []string{}, Response: b.Response.effective(), RefundIf: texts(b.RefundIf), Overrides: len(b.overrides),
	}
	for _, format := range b.formats {
		r.Fields = append(r.Fields, format.String())
	}
	for name, test := range b.RequestHeaders {
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[string(name)] = test.String()
	}
	for name, limits := range b.Plans {
		if r.Plans == nil {
			r.Plans = map[string][]string{}
		}
		r.Plans[string(name)] = b.counted(limits)
	}
	if b.Cost != nil {
		r.Cost = b.Cost.String()
	}
	if b.Ban != nil {
		r.Ban = &EffectiveBan{b.strikes().String(), b.Ban.Length.String()}
	}
	if b.PlanBy != nil {
		r.PlanBy = "header:" + string(*b.PlanBy)
	}
	if b.upstream != nil {
		r.Upstream = b.upstream.String()
	}
	if len(r.Hosts) == 0 {
		r.Hosts = texts(among.hosts)
	}
	r.Match, r.Mode, r.OnStoreError = orText(r.Match, string(First)), orText(r.Mode, string(Enforce)), orText(r.OnStoreError, "open")
	return r
}

// counted are limits under the names that they are counted by.
func (r *Rule) counted(l Limits) []string {
	if l.Word != "" {
		return []string{l.Word}
	}
	return texts(r.limits(l))
}

func (p *Response) effective() EffectiveResponse {
	e := EffectiveResponse{Status: 429}
	if p == nil {
		return e
	}
	if p.Status != 0 {
		e.Status = p.Status
	}
	e.Body = p.Body
	if p.JSON != nil {
		e.JSON = json.RawMessage(p.JSON.text)
	}
	return e
}

// A Count is a rule that may count a key, and how.
type Count struct {
	Rule, Plan, Key string
	Limiter         *slidegate.Limiter
}

// Counts returns which rules may count a key, in the order of the file: the one of a name, or all where that is empty,
// but those that are off. A rule in a domain has the key of its domain; a key that has one already is of that alone.
// The plan is the one that is named, or that of the key. It is false where there is no such rule or plan.
func (e *Engine) Counts(rule, plan, key string) (all []Count, ok bool) {
	domain, key := e.inDomain(key)
	for _, set := range e.sets {
		for _, b := range set.rules {
			if b.Mode == Off || rule != "" && b.FullName() != rule || domain != "" && b.Domain != domain {
				continue
			}
			index, ok := b.planNames[Name(plan)]
			if plan != "" && !ok {
				continue
			}
			if p, ok := b.overrides[key]; ok && plan == "" {
				index = p
			}
			all = append(all, b.count(index, key))
		}
	}
	return all, len(all) > 0 || rule == "" && plan == ""
}

// inDomain returns the domain that stands before a key as it is counted, empty for none, and the key without it.
func (e *Engine) inDomain(key string) (domain Name, inner string) {
	for _, set := range e.sets {
		for _, b := range set.rules {
			if inner, ok := strings.CutPrefix(key, b.Rule.Keyed("")); ok && b.Domain != "" {
				return b.Domain, inner
			}
		}
	}
	return "", key
}

func (b *bound) count(plan uint16, key string) Count {
	c := Count{Rule: b.FullName(), Key: b.Rule.Keyed(key), Limiter: b.plans[plan]}
	for name, index := range b.planNames {
		if index == plan {
			c.Plan = string(name)
		}
	}
	if c.Limiter == nil {
		c.Limiter = free
	}
	return c
}

// Unban ends the bans that rules have put on a key, in every domain unless it has one, and forgets its strikes.
func (e *Engine) Unban(ctx context.Context, key string) error {
	var all []error
	domain, key := e.inDomain(key)
	for _, set := range e.sets {
		for _, b := range set.rules {
			if b.Ban == nil || b.Mode == Off || b.isBlockedAlone() || domain != "" && b.Domain != domain {
				continue
			}
			for _, s := range set.stages.of(e, set.match, []choice{{b, 0, false}}) {
				all = append(all, s.gate.Unban(ctx, b.Rule.Keyed(key)))
			}
		}
	}
	return errors.Join(all...)
}

// isBlockedAlone tells of a rule whose own limits refuse or admit all, so that it bans nobody.
func (b *bound) isBlockedAlone() bool { return b.plans[0] == nil || len(b.plans[0].Limits()) == 0 }

// EffectiveLimits is what holds where there is no file: one rule without a name.
func EffectiveLimits(limits []slidegate.Limit, key, onStoreError string, fields []httpgate.Format) Effective {
	r := EffectiveRule{
		Key: key, Limits: texts(limits), Cost: "1", Mode: string(Enforce), OnStoreError: onStoreError, Fields: []string{}, Response: EffectiveResponse{Status: 429},
	}
	for _, format := range fields {
		r.Fields = append(r.Fields, fmt.Sprint(format))
	}
	return Effective{Rules: []EffectiveRule{r}}
}
