package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/vectors"
)

// TestConfigVectors: what the original does not load, this does not either, and says where.
func TestConfigVectors(t *testing.T) {
	type input struct{ Case, YAML string }
	vectors.Each(t, "rls.config", func(id string, in input, want struct{ Error bool }) {
		_, err := rules.Read([]rules.File{{Name: "cfg.yaml", Text: []byte(in.YAML)}})
		if (err != nil) != want.Error {
			t.Errorf("%s (%s): error is %v, want one: %v", id, in.Case, err, want.Error)
		}
		if err != nil && (!errors.Is(err, rules.ErrInvalid) || !regexp.MustCompile(`(?m)^cfg\.yaml:\d+: `).MatchString(err.Error())) {
			t.Errorf("%s (%s): %q does not wrap ErrInvalid or has no line", id, in.Case, err)
		}
	})
}

const tail = "    rate_limit: {unit: second, requests_per_unit: 1}\n"

// TestProblemsSayWhere: file, line, what is wrong and what is allowed.
func TestProblemsSayWhere(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"misspelt field":        {"domain: d\ndescriptors:\n  - key: a\n    rate_limit:\n      unlimied: true\n", `f.yaml:5: unknown field "unlimied" of rate_limit: allowed is unit, requests_per_unit, unlimited, name, replaces`},
		"field in wrong place":  {"domain: d\ndescriptors:\n  - key: a\n    unit: second\n" + tail, `f.yaml:4: unknown field "unit" of a descriptor`},
		"bad unit":              {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: fortnight, requests_per_unit: 1}\n", `f.yaml:4: the unit "fortnight": allowed is second, minute, hour, day, week, month or year`},
		"missing unit":          {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {requests_per_unit: 1}\n", `f.yaml:4: the unit is missing`},
		"number that is text":   {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: many}\n", `f.yaml:4: requests_per_unit "many": allowed is a whole number from 0 to 4294967295`},
		"number that is none":   {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: .nan}\n", `f.yaml:4: requests_per_unit ".nan"`},
		"number that is broken": {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1.5}\n", `f.yaml:4: requests_per_unit "1.5"`},
		"field given twice":     {"domain: d\ndomain: e\n", `f.yaml:2: the field "domain" is given twice`},
		"no YAML":               {"domain: d\n  x: [\n", `f.yaml:2: not YAML: mapping values are not allowed`},
		"second document":       {"domain: d\n---\ndomain: e\n", `f.yaml:2: a second document`},
		"empty file":            {"", `f.yaml:1: the file is empty`},
		"comments alone":        {"# nothing\n", `f.yaml:1: `},
		"a list":                {"- a\n", `f.yaml:1: a rule file is a list: allowed is a mapping with domain, descriptors`},
		"descriptors no list":   {"domain: d\ndescriptors: {key: a}\n", `f.yaml:2: descriptors is a mapping: allowed is a list`},
		"descriptor no mapping": {"domain: d\ndescriptors: [a]\n", `f.yaml:2: a descriptor is "a": allowed is a mapping`},
		"mode no boolean":       {"domain: d\ndescriptors:\n  - key: a\n    shadow_mode: perhaps\n" + tail, `f.yaml:4: shadow_mode is "perhaps": allowed is true or false`},
		"same value twice":      {"domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: a, value: c}\n  - {key: a, value: b}\n", `f.yaml:5: a second descriptor with key "a" and value "b" on this level of d`},
		"nested twice":          {"domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n      - key: b\n", `f.yaml:6: a second descriptor with key "b" and no value on this level of d.a`},
		"empty replaces":        {"domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, replaces: [{name: ''}]}\n", `f.yaml:4: an entry of replaces has no name`},
		"numeric key":           {"domain: d\n5: x\n", `f.yaml:2: unknown field "5"`},
		"metadata with a time":  {"domain: d\ndescriptors:\n  - key: a\n    metadata: {at: 2026-01-01}\n" + tail, `f.yaml:4: metadata cannot be sent`},
		"merge of a merge":      {"domain: d\ndescriptors:\n  - &a {key: a}\n  - &b {<<: *a, value: b}\n  - {<<: *b, value: c}\n", `f.yaml:4: what << refers to has a << of its own`},
		"a part within itself":  {"domain: d\ndescriptors: &d\n  - key: a\n    descriptors: *d\n", `too many descriptors: allowed are 100000, in up to 64 levels`},
		"doubling":              {"domain: d\ndescriptors: &d\n  - {key: a, descriptors: *d}\n  - {key: b, descriptors: *d}\n", `too many descriptors`},
	} {
		set, err := rules.Read([]rules.File{{Name: "f.yaml", Text: []byte(c.text)}})
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestAllProblemsAreTold at once, of all files.
func TestAllProblemsAreTold(t *testing.T) {
	_, err := rules.Read([]rules.File{
		{Name: "b.yaml", Text: []byte("domain: d\ndescriptors:\n  - key: ''\n  - key: x\n    rate_limit: {unit: day, per: 3}\n")},
		{Name: "a.yaml", Text: []byte("domane: d\n")},
	})
	for _, want := range []string{"a.yaml:1: unknown field", "a.yaml:1: the domain is missing", "b.yaml:3: the key", "b.yaml:5: unknown field"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestWhatTheOriginalTakes: scalars of any kind are texts, units are in any case, << and aliases work.
// TestFilesWithoutADomainAreEachTold: they are not the same domain.
func TestFilesWithoutADomainAreEachTold(t *testing.T) {
	for _, text := range []string{"descriptors: []", "a scalar", "domain: ''", "domain:"} {
		_, err := rules.Read([]rules.File{{Name: "a.yaml", Text: []byte(text)}, {Name: "b.yaml", Text: []byte(text)}})
		for _, want := range []string{"a.yaml:1: the domain is missing", "b.yaml:1: the domain is missing"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q twice: %v, want %q in it", text, err, want)
			}
		}
	}
}

func TestWhatTheOriginalTakes(t *testing.T) {
	set, err := rules.Read([]rules.File{{Name: "f.yaml", Text: []byte(`
domain: d
descriptors:
  - key: code
    value: 200
    rate_limit: &limit {unit: MINUTE, requests_per_unit: 7, name: n}
  - key: code
    value: true
    rate_limit: {<<: *limit, unit: Hour}
  - {key: code, value: 1.50, rate_limit: *limit, descriptors: }
  - {key: free, rate_limit: {unlimited: yes}}
  - key: meta
    metadata: {team: a, tags: [1, x], deep: {b: true}}
    rate_limit: {unit: week, requests_per_unit: 1}
`)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, value string
		unit       rules.Unit
		requests   uint32
	}{{"code", "200", rules.Minute, 7}, {"code", "true", rules.Hour, 7}, {"code", "1.50", rules.Minute, 7}, {"free", "x", 0, 0}, {"meta", "", rules.Week, 1}} {
		rule := set.Match("d", descriptor(c.key, c.value)).Rule
		if rule == nil || rule.Unit != c.unit || rule.Requests != c.requests || rule.Unlimited != (c.key == "free") {
			t.Errorf("%s=%s: %+v", c.key, c.value, rule)
		}
		if rule != nil && (rule.Metadata != nil) != (c.key == "meta") {
			t.Errorf("%s=%s: metadata %v", c.key, c.value, rule.Metadata)
		}
	}
}

// TestSeveralFiles: domains are apart, one of two files is an error, unless domains are merged.
func TestSeveralFiles(t *testing.T) {
	a := rules.File{Name: "a.yaml", Text: []byte("domain: d\ndescriptors:\n  - key: a\n" + tail)}
	b := rules.File{Name: "b.yaml", Text: []byte("domain: d\ndescriptors:\n  - key: b\n" + tail)}
	c := rules.File{Name: "c.yaml", Text: []byte("domain: e\ndescriptors:\n  - key: a\n" + tail)}
	if _, err := rules.Read([]rules.File{a, b}); err == nil || !strings.Contains(err.Error(), `b.yaml:1: the domain "d" is also in a.yaml:1`) {
		t.Errorf("a domain in two files: %v", err)
	}
	if _, err := rules.Read([]rules.File{a, a}, rules.MergeDomains()); err == nil || !strings.Contains(err.Error(), "a second descriptor") {
		t.Errorf("merged domains with the same descriptor: %v", err)
	}
	set, err := rules.Read([]rules.File{c, b, a}, rules.MergeDomains())
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Rules) != 3 || strings.Join(set.Domains(), ",") != "d,e" || !set.Has("e") || set.Has("f") {
		t.Errorf("%d rules, domains %q", len(set.Rules), set.Domains())
	}
	for i, r := range set.Rules {
		if r.ID != i {
			t.Errorf("rule %d has the ID %d", i, r.ID)
		}
	}
}

// TestLoadReadsADirectory as Kubernetes mounts it: what begins with a dot is not read, links to files are.
func TestLoadReadsADirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rules.Load(dir); !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), "no file") {
		t.Errorf("an empty directory: %v", err)
	}
	write("..2026_11_30/edge.yaml", "domain: edge\ndescriptors:\n  - key: a\n"+tail)
	write("..2026_11_29/edge.yaml", "old: and broken\n")
	write("below/more.yaml", "domain: more\n")
	if err := errors.Join(os.Symlink("..2026_11_30", filepath.Join(dir, "..data")), os.Symlink("..data/edge.yaml", filepath.Join(dir, "edge.yaml"))); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load(dir)
	if err != nil || strings.Join(set.Domains(), ",") != "edge,more" {
		t.Errorf("domains %v, %v", set, err)
	}
	write("broken", "domain: x\nnonsense: y\n")
	if _, err := rules.Load(dir); err == nil || !strings.Contains(err.Error(), "broken:2: unknown field") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := rules.Load(filepath.Join(dir, "nowhere")); err == nil || errors.Is(err, rules.ErrInvalid) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// FuzzRead: no file makes it panic, and one with an error makes no set.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"domain: d\ndescriptors:\n  - key: a\n" + tail, "a: &a [*a]", "- - -", "? {a: b}\n: c", "%YAML 9", "domain: &a {<<: *a}", "domain: d\ndescriptors: [{key: a, metadata: {? [] : x}}]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := rules.Read([]rules.File{{Name: "f", Text: text}})
		if (set == nil) != (err != nil) || err != nil && !errors.Is(err, rules.ErrInvalid) {
			t.Errorf("set %v, error %v", set, err)
		}
	})
}
