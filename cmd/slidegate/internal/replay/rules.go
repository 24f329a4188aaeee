package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/redisstore"
)

// A rulesTally counts what became of requests by the rules that held for them.
type rulesTally struct {
	unmatched, exempt, denied int64

	rules []*ruleTally
	of    map[*rules.Rule]*ruleTally
}

// A ruleTally is what became of the requests for which one rule held.
type ruleTally struct {
	rule   *rules.Rule
	limits []LimitReport // of the rule and its plans
	given  []slidegate.Limit
	report RuleReport
	keys   timeline.Subjects
	byKey  []count
	hit    bool // it refuses the request at hand
}

func newRulesTally(p *rehearse.Policy) *rulesTally {
	t := &rulesTally{of: map[*rules.Rule]*ruleTally{}}
	for _, r := range p.Rules() {
		one := &ruleTally{rule: r}
		t.rules, t.of[r] = append(t.rules, one), one
	}
	return t
}

// count counts a request.
func (t *rulesTally) count(m *rules.Matching, v *rehearse.Verdict) {
	switch m.Fate {
	case rules.Unmatched:
		t.unmatched++
	case rules.Exempt:
		t.exempt++
	case rules.Denied:
		t.denied++
	}
	for _, e := range v.Events {
		m.Refusals(e, func(h *rules.Held, l *slidegate.Limit, _ int) { t.of[h.Rule].refusedBy(l, e) })
	}
	for i := range m.Holds {
		t.of[m.Holds[i].Rule].take(m.Holds[i].Key, v.Admitted)
	}
}

// refusedBy counts a limit that took part in a refusal, or what refused without one.
func (t *ruleTally) refusedBy(l *slidegate.Limit, e *rules.Event) {
	t.hit = true
	switch {
	case l != nil:
		t.limits[t.place(*l)].Refused++
	case e.Banned:
		t.report.Banned++
	case e.Blocked:
		t.report.Blocked++
	default:
		t.report.CostErrors++
	}
}

// place returns where a limit is counted: plans may have several under one name.
func (t *ruleTally) place(l slidegate.Limit) int {
	i := slices.Index(t.given, l)
	if i < 0 {
		i = len(t.given)
		t.given = append(t.given, l)
		t.limits = append(t.limits, LimitReport{Name: l.Name, Limit: l.String()})
	}
	return i
}

func (t *ruleTally) take(key string, admitted bool) {
	id := t.keys.Number([]byte(key))
	if int(id) == len(t.byKey) {
		t.byKey = append(t.byKey, count{})
	}
	t.report.Matched++
	switch c := &t.byKey[id]; {
	case t.hit:
		t.report.Refused++
		c.refused++
	case admitted:
		t.report.Admitted++
		c.admitted++
	}
	t.hit = false
}

// A RulesReport is what became of requests by the rules of a file.
type RulesReport struct {
	File      string       `json:"file"`
	Unmatched int64        `json:"unmatched"` // no rule held for them, and they were admitted
	Exempt    int64        `json:"exempt"`
	Denied    int64        `json:"denied"`
	Missing   []string     `json:"not_in_log,omitempty"` // what rules ask for and no line has
	Rules     []RuleReport `json:"rules"`
}

// A RuleReport is what became of the requests for which a rule held. In shadow it would have refused those that it is said
// to have refused. What is neither admitted nor refused was refused by others.
type RuleReport struct {
	Rule        string        `json:"rule"`
	Mode        string        `json:"mode"`
	Matched     int64         `json:"matched"`
	Admitted    int64         `json:"admitted"`
	Refused     int64         `json:"refused"`
	Limits      []LimitReport `json:"limits"`
	Banned      int64         `json:"banned,omitempty"`
	Blocked     int64         `json:"blocked,omitempty"`
	CostErrors  int64         `json:"cost_errors,omitempty"` // costs that can never fit
	Keys        int           `json:"keys"`
	KeysRefused int           `json:"keys_refused"`
	Worst       []KeyReport   `json:"worst"` // keys, most refused first
}

// report adds what was counted to a report.
func (t *rulesTally) report(r *Report, p *rehearse.Policy) {
	r.Rules = &RulesReport{File: p.Name, Unmatched: t.unmatched, Exempt: t.exempt, Denied: t.denied, Missing: p.Unmet(), Rules: []RuleReport{}}
	for _, one := range t.rules {
		report := one.report
		report.Rule, report.Mode = one.rule.FullName(), string(one.rule.Mode)
		if report.Mode == "" {
			report.Mode = "enforce"
		}
		report.Limits = append([]LimitReport{}, one.limits...)
		report.Keys = one.keys.Len()
		report.KeysRefused, report.Worst = worst(one.byKey, &one.keys)
		r.Rules.Rules = append(r.Rules.Rules, report)
	}
}

func (r *RulesReport) rows() []row {
	return []row{{"no rule", r.Unmatched, "admitted"}, {"exempt", r.Exempt, "admitted"}, {"denied", r.Denied, "refused"}}
}

// worstOfRule is how many keys are named of each rule.
const worstOfRule = 3

func (r *RulesReport) write(b *strings.Builder) {
	if r == nil {
		return
	}
	b.WriteString("\n")
	rehearse.WriteTable(b, r.table())
	r.writeWorst(b)
	if len(r.Missing) > 0 {
		b.WriteString("\nThe log does not have what these ask for, and is decided as requests without it are:\n")
		for _, missing := range r.Missing {
			fmt.Fprintf(b, "  %s\n", missing)
		}
	}
}

// table is what each rule did, and by what.
func (r *RulesReport) table() [][]string {
	table := [][]string{{"rules of " + r.File, "matched", "refused", "", "keys", "keys refused"}}
	for _, one := range r.Rules {
		table = append(table, []string{one.label(), rehearse.Thousands(one.Matched), rehearse.Thousands(one.Refused), rehearse.Share(one.Refused, one.Matched), rehearse.Thousands(int64(one.Keys)), rehearse.Thousands(int64(one.KeysRefused))})
		table = append(table, one.causes()...)
	}
	return table
}

func (r *RulesReport) writeWorst(b *strings.Builder) {
	var lines []string
	width := 0
	for _, one := range r.Rules {
		var keys []string
		for _, k := range one.Worst[:min(len(one.Worst), worstOfRule)] {
			keys = append(keys, fmt.Sprintf("%s %s", rehearse.Printable(k.Key), rehearse.Thousands(k.Refused)))
		}
		if len(keys) > 0 {
			lines = append(lines, one.Rule, strings.Join(keys, ", "))
			width = max(width, len(one.Rule))
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("\nThe worst keys of each rule, and how many of their requests it refused:\n\n")
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(b, "%-*s  %s\n", width, lines[i], lines[i+1])
	}
}

// label is the rule as it stands in the table: one in shadow would have refused.
func (r *RuleReport) label() string {
	if r.Mode == string(rules.Shadow) {
		return r.Rule + " (shadow: would have)"
	}
	return r.Rule
}

func (r *RuleReport) causes() (rows [][]string) {
	add := func(cause string, n int64) {
		if n > 0 {
			rows = append(rows, []string{"  by " + cause, "", rehearse.Thousands(n), "", "", ""})
		}
	}
	for _, l := range r.Limits {
		add(l.Limit, l.Refused)
	}
	add("its ban", r.Banned)
	add("limits: blocked", r.Blocked)
	add("costs that can never fit", r.CostErrors)
	return rows
}

// decideRules decides requests in their order, in memory or in Redis.
func (r *run) decideRules(ctx context.Context, tl *timeline.Timeline, t *tally, byRule *rulesTally, page *draft) error {
	judge, end, err := r.judge(ctx)
	if err != nil {
		return err
	}
	err = source.Each(ctx, r.stderr, "deciding", tl, func(e *timeline.Event) error {
		asked := r.book.Asked(e)
		v, err := judge.Decide(ctx, e, asked)
		if err != nil {
			return err
		}
		t.take(e, asked.Client, v.Admitted)
		page.take(e, asked.Client, v.Admitted)
		byRule.count(asked.Matching(0), v)
		return nil
	})
	return end(err)
}

// judge returns what decides, and what is to be done in the end, whatever became of it.
func (r *run) judge(ctx context.Context) (*rehearse.Judge, func(error) error, error) {
	if r.redis == nil {
		judge, memory, err := r.policy.Judge(rehearse.AsGiven, 0)
		return judge, func(err error) error { return joined(err, memory.Forgotten()) }, err
	}
	client := r.redis.Client()
	c := &clock{}
	store := redisstore.New(client, append(r.redis.Options(), redisstore.WithClock(c.time))...)
	judge, err := r.policy.JudgeOver(store, c, rehearse.AsGiven, 0)
	return judge, func(err error) error {
		defer client.Close()
		if err != nil {
			err = about(r.redis, err)
		}
		if !r.cleanUp {
			return err
		}
		for _, asked := range r.book.All() {
			if failed := judge.Forget(ctx, asked); failed != nil {
				return joined(err, notRemoved(r.redis, failed))
			}
		}
		return err
	}, err
}
