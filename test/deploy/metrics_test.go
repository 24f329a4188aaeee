package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/slidegate/slidegate/test/redistest"
)

var promQL = parser.NewParser(parser.Options{})

// exported returns every series that the command exports, with its state in memory and in Redis, by a file of rules and
// for Envoy, and with the labels that Prometheus puts on what it scrapes.
func exported(t *testing.T) (all []labels.Labels) {
	t.Helper()
	add := func(s labels.Labels) {
		b := labels.NewBuilder(s)
		b.Set("job", "slidegate").Set("instance", "a:9090")
		all = append(all, b.Labels())
	}
	add(labels.FromStrings(model.MetricNameLabel, "up"))
	for _, r := range everyKind(t) {
		r.want(200)
		_, text := r.get(r.admin + "/metrics")
		for _, s := range parse(t, text) {
			add(s)
		}
	}
	return all
}

// everyKind starts a server of every kind that has metrics of its own, and asks it once.
func everyKind(t *testing.T) []*running {
	t.Helper()
	dir := writeFiles(t, map[string]string{
		"rules.yaml":    "rules: [{name: trial, limits: 1/1m, mode: shadow}, {name: login, limits: 2/1m}]\n",
		"rls/edge.yaml": "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 10}}]\n",
	})
	limited, redis := settings{"SLIDEGATE_LIMIT": "login=2/1m"}, redistest.Standalone(t).URL()
	byRules := serve(t, local(nil), "serve", "--config", filepath.Join(dir, "rules.yaml"), "--rls-http-listen", "127.0.0.1:0", "--rls-config", filepath.Join(dir, "rls"))
	byRules.askRLS(`{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}`)
	return []*running{serve(t, local(limited), "serve"), serve(t, local(limited.with(settings{
		"SLIDEGATE_STORE": redis, "SLIDEGATE_FALLBACK": "replicas", "SLIDEGATE_REMEMBER_REFUSALS": "1s",
	})), "serve"), byRules}
}

// parse returns the series of an exposition.
func parse(t *testing.T, text string) (all []labels.Labels) {
	t.Helper()
	p, err := textparse.New([]byte(text), "text/plain", nil, textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		entry, err := p.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry == textparse.EntrySeries {
			var s labels.Labels
			p.Labels(&s)
			all = append(all, s)
		}
	}
}

// check says what of an expression the command does not export: a metric, a label, or a label's value.
func check(t *testing.T, where, expr string, series []labels.Labels) {
	t.Helper()
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	var selected []labels.Labels
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			matching := slices.DeleteFunc(slices.Clone(series), func(s labels.Labels) bool { return !matches(s, v.LabelMatchers) })
			if len(matching) == 0 {
				t.Errorf("%s: the command exports nothing that %s selects", where, v)
			}
			selected = append(selected, matching...)
		}
		return nil
	})
	has := func(label string) bool {
		return slices.ContainsFunc(selected, func(s labels.Labels) bool { return s.Has(label) })
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var by []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range by {
			if !has(label) {
				t.Errorf("%s: nothing of it has the label %s", where, label)
			}
		}
		return nil
	})
}

// matches tells whether a series has every label that is asked for, and with such a value.
func matches(s labels.Labels, all []*labels.Matcher) bool {
	return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !s.Has(m.Name) || !m.Matches(s.Get(m.Name)) })
}

// alerts are the rules of deploy/prometheus/alerts.yaml, read as Prometheus reads them.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(readFile(t, "deploy", "prometheus", "alerts.yaml")), false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) != 1 || len(groups.Groups[0].Rules) < 10 {
		t.Fatalf("the rules are %+v", groups)
	}
	return groups.Groups[0].Rules
}

// TestAlertsAreOfMetricsThatAreExported, by the very command, labels and their values included.
func TestAlertsAreOfMetricsThatAreExported(t *testing.T) {
	series := exported(t)
	for _, rule := range alerts(t) {
		check(t, rule.Alert, rule.Expr, series)
	}
}

// TestEveryAlertHasARunbook: a heading of docs/operations.md by its name, to which it links, and no heading
// is of an alert that is not there.
func TestEveryAlertHasARunbook(t *testing.T) {
	const page = "https://github.com/slidegate/slidegate/blob/main/docs/operations.md#"
	told := regexp.MustCompile(`(?m)^#+ (Slidegate\w+)$`).FindAllStringSubmatch(readFile(t, "docs", "operations.md"), -1)
	for _, rule := range alerts(t) {
		if got, want := rule.Annotations["runbook_url"], page+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: the runbook is %s, want %s", rule.Alert, got, want)
		}
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s: no severity, summary or description", rule.Alert)
		}
		n := len(told)
		told = slices.DeleteFunc(told, func(m []string) bool { return m[1] == rule.Alert })
		if len(told) != n-1 {
			t.Errorf("%s: docs/operations.md has %d sections of it", rule.Alert, n-len(told))
		}
	}
	if len(told) > 0 {
		t.Errorf("docs/operations.md tells of %q, which are no alerts", told)
	}
}

// calm is two hours of a limiter that is well: a sample a minute.
const calm = `load 1m
  up{job="slidegate",instance="a"} 1x120
  slidegate_store_errors_total{job="slidegate",instance="a"} 0x120
  slidegate_upstream_errors_total{job="slidegate",instance="a"} 0+3x120
  slidegate_decision_duration_seconds_count{job="slidegate",instance="a"} 0+600x120
  slidegate_decision_duration_seconds_bucket{job="slidegate",instance="a",le="0.001"} 0+500x120
  slidegate_decision_duration_seconds_bucket{job="slidegate",instance="a",le="0.025"} 0+600x120
  slidegate_decision_duration_seconds_bucket{job="slidegate",instance="a",le="0.05"} 0+600x120
  slidegate_decision_duration_seconds_bucket{job="slidegate",instance="a",le="+Inf"} 0+600x120
  slidegate_decisions_total{job="slidegate",instance="a",limit="login",result="admitted"} 0+588x120
  slidegate_decisions_total{job="slidegate",instance="a",limit="login",result="refused"} 0+12x120
  slidegate_circuit_open{job="slidegate",instance="a"} 0x120
  slidegate_circuit_opened_total{job="slidegate",instance="a"} 1x120
  slidegate_tracked_keys{job="slidegate",instance="a"} 800000x120
  slidegate_max_keys{job="slidegate",instance="a"} 1000000x120
  slidegate_evictions_total{job="slidegate",instance="a"} 7x120
  slidegate_redis_overdue{job="slidegate",instance="a"} 0x118 3 0
  slidegate_redis_replaced_total{job="slidegate",instance="a"} 2x120
  slidegate_redis_newer_total{job="slidegate",instance="a"} 2x120
  slidegate_ignored_forwarded_headers_total{job="slidegate",instance="a"} 0x120
  slidegate_self_check_failed{job="slidegate",instance="a"} 0x120
  slidegate_config_last_reload_successful{job="slidegate",instance="a"} 1x120
  slidegate_rls_config_last_load_successful{job="slidegate",instance="a"} 1x120
  slidegate_rls_errors_total{job="slidegate",instance="a",cause="store"} 0x120
  slidegate_rls_errors_total{job="slidegate",instance="a",cause="request"} 0+60x120
  slidegate_rls_duration_seconds_count{job="slidegate",instance="a"} 0+600x120
  slidegate_rls_unknown_domain_total{job="slidegate",instance="a"} 3x120
`

// troubles are what an alert is for: samples of a metric of calm instead of those that it has there, from
// which on a minute of the last ten it is wrong.
var troubles = map[string][][2]string{
	"SlidegateDown":             {{"up", "1x110 0x9"}, {"up", "1x60 _x60"}},
	"SlidegateUndecided":        {{"slidegate_store_errors_total", "0x110 12+12x9"}},
	"SlidegateCircuitOpen":      {{"slidegate_circuit_open", "0x110 1x9"}},
	"SlidegateCircuitFlaps":     {{"slidegate_circuit_opened_total", "1x110 2+1x9"}},
	"SlidegateDecisionsSlow":    {{`slidegate_decision_duration_seconds_bucket{job="slidegate",instance="a",le="0.025"}`, "0+590x120"}},
	"SlidegateRefusalsJump":     {{`slidegate_decisions_total{job="slidegate",instance="a",limit="login",result="refused"}`, "0+12x110 1380+60x9"}},
	"SlidegateKeysNearCap":      {{"slidegate_tracked_keys", "800000x110 950000x9"}},
	"SlidegateEvictions":        {{"slidegate_evictions_total", "7x115 8x4"}},
	"SlidegateRedisOverdue":     {{"slidegate_redis_overdue", "0x110 2x9"}},
	"SlidegateValuesReplaced":   {{"slidegate_redis_replaced_total", "2x115 3x4"}},
	"SlidegateNewerFormat":      {{"slidegate_redis_newer_total", "2x110 3+1x9"}},
	"SlidegateProxyNotTrusted":  {{"slidegate_ignored_forwarded_headers_total", "0x115 1x4"}},
	"SlidegateRulesWrong":       {{"slidegate_config_last_reload_successful", "1x110 0x9"}},
	"SlidegateRLSRulesWrong":    {{"slidegate_rls_config_last_load_successful", "1x110 0x9"}},
	"SlidegateRLSUndecided":     {{`slidegate_rls_errors_total{job="slidegate",instance="a",cause="store"}`, "0x110 12+12x9"}},
	"SlidegateRLSUnknownDomain": {{"slidegate_rls_unknown_domain_total", "3x115 4x4"}},
	"SlidegateStoreDoesNotHold": {{"slidegate_self_check_failed", "0x110 1x9"}},
	"SlidegateUpstreamErrors":   {{"slidegate_upstream_errors_total", "0+3x110 400+60x9"}},
}

// in returns calm with the samples of one metric changed.
func in(t *testing.T, metric, samples string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^(  `+regexp.QuoteMeta(metric)+`(?:\{.*\})?) .*$`).ReplaceAllString(calm, "${1} "+samples)
	if lines == calm {
		t.Fatalf("%s is not among the metrics of a calm time", metric)
	}
	return lines
}

// TestAlertsTellOfTroubleAlone: each has a value when what it is for has happened, and none while all is well.
func TestAlertsTellOfTroubleAlone(t *testing.T) {
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	query := func(load, expr string) int {
		t.Helper()
		store := promqltest.LoadedStorage(t, load)
		q, err := engine.NewInstantQuery(background, store, nil, expr, time.UnixMilli(0).Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		result, err := q.Exec(background).Vector()
		if err != nil {
			t.Fatal(err)
		}
		return len(result)
	}
	for _, rule := range alerts(t) {
		if n := query(calm, rule.Expr); n > 0 {
			t.Errorf("%s: tells of trouble where there is none", rule.Alert)
		}
		if len(troubles[rule.Alert]) == 0 {
			t.Errorf("%s: nobody knows what it is for", rule.Alert)
		}
		for _, trouble := range troubles[rule.Alert] {
			if n := query(in(t, trouble[0], trouble[1]), rule.Expr); n != 1 {
				t.Errorf("%s: %d values where %s is %s", rule.Alert, n, trouble[0], trouble[1])
			}
		}
	}
}

// A dashboard is what is read here of the form that Grafana has.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Query      any
	Definition string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr  string
		LegendFormat string
		Datasource   struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(readFile(t, "deploy", "grafana", "slidegate.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// variables are replaced as Grafana does.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")

// TestTheDashboardShowsWhatIsExported, by the very command, and all of it that is ours.
func TestTheDashboardShowsWhatIsExported(t *testing.T) {
	series, d := exported(t), readDashboard(t)
	shown := map[string]bool{}
	metric := regexp.MustCompile(`slidegate_\w+`)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			where := fmt.Sprintf("panel %q, %s", p.Title, target.RefID)
			check(t, where, variables.Replace(target.Expr), series)
			for _, name := range metric.FindAllString(target.Expr, -1) {
				shown[name] = true
			}
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if strings.Contains(target.Expr, "sum") && !regexp.MustCompile(`by \([^)]*\b`+label[1]+`\b`).MatchString(target.Expr) {
					t.Errorf("%s: its legend shows %s, which the sum has not", where, label[1])
				}
			}
		}
	}
	for _, v := range d.Templating.List {
		if q := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition); q != nil {
			check(t, "variable "+v.Name, fmt.Sprintf("count by (%s) (%s)", q[2], variables.Replace(q[1])), series)
		} else if v.Type == "query" {
			t.Errorf("variable %s: %q", v.Name, v.Definition)
		}
	}
	for _, s := range series {
		name := s.Get(model.MetricNameLabel)
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "slidegate_") && !shown[name] && !shown[plain+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestTheDashboardIsWellFormed: panels have numbers of their own, and places in the 24 columns that do not overlap.
func TestTheDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) < 10 {
		t.Errorf("it has UID %q, title %q, schema %d and %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has no number or title of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, g)
		}
		for x := range g.W {
			for y := range g.H {
				at := [2]int{g.X + x, g.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q lacks a description, a unit or something to show", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || target.RefID == "" {
				t.Errorf("panel %q: %+v is not of the data source that is chosen", p.Title, target)
			}
		}
	}
}
