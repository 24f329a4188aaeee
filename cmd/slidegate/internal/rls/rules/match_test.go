package rules_test

import (
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/vectors"
)

func descriptor(keysAndValues ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(keysAndValues); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return d
}

func read(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Read([]rules.File{{Name: "f.yaml", Text: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestMatchVectors: the rule of a descriptor is that of the original, and so is its name in statistics.
func TestMatchVectors(t *testing.T) {
	type override struct {
		Unit     string
		Requests uint32 `json:"requests_per_unit"`
	}
	type input struct {
		Case, Domain, YAML string
		Descriptor         [][]string
		Override           *override
	}
	type limit struct {
		Unit      string
		Requests  uint32 `json:"requests_per_unit"`
		StatKey   string `json:"stat_key"`
		Quota     bool   `json:"quota_mode"`
		Shadow    bool   `json:"shadow_mode"`
		Unlimited bool
	}
	vectors.Each(t, "rls.match", func(id string, in input, want struct{ Limit *limit }) {
		var parts []string
		for _, e := range in.Descriptor {
			parts = append(parts, e...)
		}
		d := descriptor(parts...)
		if in.Override != nil {
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: in.Override.Requests, Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[in.Override.Unit]),
			}
		}
		m := read(t, in.YAML).Match(in.Domain, d)
		switch w := want.Limit; {
		case w == nil && m != rules.Match{}:
			t.Errorf("%s (%s): %+v, want no rule", id, in.Case, m)
		case w == nil:
		case m.StatKey != w.StatKey || m.Key == "":
			t.Errorf("%s (%s): %+v, want %s", id, in.Case, m, w.StatKey)
		case in.Override != nil && m.Rule != nil:
			t.Errorf("%s (%s): rule %+v, want the limit of the request", id, in.Case, m.Rule)
		case in.Override != nil:
		case m.Rule == nil:
			t.Errorf("%s (%s): no rule", id, in.Case)
		case m.Rule.Requests != w.Requests || !strings.EqualFold(m.Rule.Unit.String(), w.Unit) || m.Rule.Shadow != w.Shadow ||
			m.Rule.Quota != w.Quota || m.Rule.Unlimited != w.Unlimited:
			t.Errorf("%s (%s): %+v, want %+v", id, in.Case, m.Rule, w)
		}
	})
}

// TestKeysDoNotCollide: different descriptors have different keys, also where joining them by a sign would make them one.
func TestKeysDoNotCollide(t *testing.T) {
	parts := []string{"a", "b", "a_b", "a|b", "a=b", `a\`, `\`, "|", "=", "~", "a~b", "a|a=b", ""}
	set := read(t, "domain: d\n")
	seen := map[string]string{}
	add := func(entries ...string) {
		d := descriptor(entries...)
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{}
		key, what := set.Match("d", d).Key, fmt.Sprintf("%q", entries)
		if other, ok := seen[key]; ok || key == "" {
			t.Errorf("%s and %s have the key %q", what, other, key)
		}
		seen[key] = what
	}
	for _, a := range parts {
		for _, b := range parts {
			add(a, b)
			for _, c := range parts {
				for _, d := range parts {
					add(a, b, c, d)
				}
			}
		}
	}
}

// TestKeys are what is told of them: readable, and shared where a threshold is.
func TestKeys(t *testing.T) {
	set := read(t, `
domain: d
descriptors:
  - key: files
    value: "a/*"
    share_threshold: true
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 10}
  - key: files
    value: "b/*"
    detailed_metric: true
    rate_limit: {unit: hour, requests_per_unit: 10}
`)
	for _, c := range []struct {
		entries             []string
		key, state, statKey string
	}{
		{[]string{"files", "a/1", "user", "u"}, "rls:d|files~a/*|user=u", "files/user", "d.files_a/*.user"},
		{[]string{"files", "a/2", "user", "u"}, "rls:d|files~a/*|user=u", "files/user", "d.files_a/*.user"},
		{[]string{"files", "b/1"}, "rls:d|files=b/1", "files", "d.files_b/1"},
		{[]string{"files", "b/2"}, "rls:d|files=b/2", "files", "d.files_b/2"},
	} {
		m := set.Match("d", descriptor(c.entries...))
		if m.Key != c.key || m.StateName != c.state || m.StatKey != c.statKey {
			t.Errorf("%q: %+v, want %+v", c.entries, m, c)
		}
	}
}

// TestStateNamesAreNames of limits, whatever the keys.
func TestStateNamesAreNames(t *testing.T) {
	long := strings.Repeat("k", 100)
	for key, want := range map[string]string{
		"a b=c\u00e9": "a_b_c_", long: long[:47] + "~", "plain": "plain",
	} {
		set := read(t, fmt.Sprintf("domain: d\ndescriptors:\n  - key: %q\n    rate_limit: {unit: day, requests_per_unit: 1}\n", key))
		name := set.Match("d", descriptor(key, "x")).StateName
		if !strings.HasPrefix(name, want) || len(name) > 64 {
			t.Errorf("%q is called %q, want %q", key, name, want)
		}
	}
}

// TestWildcards: any text, also none, also with a slash in it; the first in the file wins, and the very value before all.
func TestWildcards(t *testing.T) {
	set := read(t, `
domain: d
descriptors:
  - {key: p, value: "*x*y*", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: p, value: "a*", rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: p, value: "a*a", rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: p, value: "ab", rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: q, value: "*", rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: q, rate_limit: {unit: day, requests_per_unit: 6}}
  - {key: r, value: "a*a", rate_limit: {unit: day, requests_per_unit: 7}}
  - {key: s, value: "*ab*ab", rate_limit: {unit: day, requests_per_unit: 8}}
`)
	for _, c := range []struct {
		key, value string
		want       uint32 // 0 for none
	}{
		{"p", "xy", 1}, {"p", "axy", 1}, {"p", "1/x/2/y/3", 1}, {"p", "yx", 0}, {"p", "a", 2}, {"p", "aba", 2}, {"p", "ab", 4}, {"p", "b", 0}, {"p", "", 0},
		{"q", "", 5}, {"q", "z", 5}, {"r", "a", 0}, {"r", "aa", 7}, {"r", "aba", 7}, {"s", "ab", 0}, {"s", "abab", 8}, {"s", "xabxab", 8},
	} {
		got := uint32(0)
		if rule := set.Match("d", descriptor(c.key, c.value)).Rule; rule != nil {
			got = rule.Requests
		}
		if got != c.want {
			t.Errorf("%s=%s: rule %d, want %d", c.key, c.value, got, c.want)
		}
	}
}

// TestMatchAllocatesTheKeyAlone for rules that name no value in statistics.
func TestMatchAllocatesTheKeyAlone(t *testing.T) {
	set := read(t, "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n        rate_limit: {unit: day, requests_per_unit: 1}\n")
	d := descriptor("a", "x", "b", "y")
	var m rules.Match
	if n := testing.AllocsPerRun(100, func() { m = set.Match("d", d) }); n > 2 || m.Rule == nil {
		t.Errorf("%v allocations", n)
	}
}
