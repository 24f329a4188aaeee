package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
)

// TestDiff: what a change means, in words.
func TestDiff(t *testing.T) {
	const login, rest = "- {name: login, path: /login, limits: 5/15m}", "- {name: rest, limits: 100/1m}"
	for _, c := range []struct {
		name          string
		before, after string
		want          []string
		large         int
	}{
		{"nothing", login, "# the same\n" + login, nil, 0},
		{"looser", login, "- {name: login, path: /login, limits: 50/15m}", []string{"login: 5/15m → 50/15m, 10 times looser"}, 1},
		{"a little tighter", login, "- {name: login, path: /login, limits: 4/15m}", []string{"login: 5/15m → 4/15m, 1.2 times tighter"}, 0},
		{"tighter by a longer window", login, "- {name: login, path: /login, limits: 5/1h}", []string{"login: 5/15m → 5/1h, 4 times tighter; counting starts afresh"}, 1},
		{"the same rate", login, "- {name: login, path: /login, limits: 20/1h}", []string{"login: 5/15m → 20/1h; counting starts afresh"}, 0},
		{"another algorithm", login, "- {name: login, path: /login, limits: '5/15m,counter'}", []string{"login: 5/15m → 5/15m,counter; counting starts afresh"}, 0},
		{"a second limit", login, "- {name: login, path: /login, limits: [burst=1/1m, 5/15m]}", []string{"login: 5/15m → burst=1/1m and 5/15m; counting starts afresh"}, 0},
		{"unlimited", login, "- {name: login, path: /login, limits: unlimited}", []string{"login: 5/15m → unlimited, no limit any more"}, 1},
		{"limited", "- {name: a, limits: unlimited}", "- {name: a, limits: 5/1m}", []string{"a: unlimited → 5/1m, which was unlimited"}, 1},
		{"blocked", login, "- {name: login, path: /login, limits: blocked}", []string{"login: 5/15m → blocked, nothing passes any more"}, 1},
		{"no longer blocked", "- {name: a, limits: blocked}", "- {name: a, limits: 5/1m}", []string{"a: blocked → 5/1m, which was blocked"}, 1},
		{"added", rest, login + "\n" + rest, []string{"login: added: 5/15m, for /login; takes requests from rest"}, 1},
		{"added behind", login, login + "\n" + rest, []string{"rest: added: 100/1m"}, 1},
		{"added in shadow", rest, "- {name: login, path: /login, limits: 5/15m, mode: shadow}\n" + rest, []string{"login: added: 5/15m, for /login (shadow)"}, 0},
		{"removed", login + "\n" + rest, rest, []string{"login: removed: 5/15m no longer holds"}, 1},
		{"renamed", login, "- {name: signin, path: /login, limits: 5/15m}", []string{"login: now called signin: its counts start afresh"}, 1},
		{"another key", login, "- {name: login, path: /login, limits: 5/15m, key: header:X-Api-Key}", []string{"login: key by default → header:X-Api-Key: counting starts afresh"}, 0},
		{"the default key, said", login, "- {name: login, path: /login, limits: 5/15m, key: ip}", []string{"login: key by default → ip: the default is ip, unless the command line has another"}, 0},
		{"a cost of less", "- {name: a, limits: 10/1m, cost: 4}", "- {name: a, limits: 10/1m, cost: 3}", []string{"a: cost 4 → 3, 1.3 times looser"}, 0},
		{"a cost that a header says", "- {name: a, limits: 10/1m, cost: 4}", "- {name: a, limits: 10/1m, cost: header:X-Cost}", []string{"a: cost 4 → header:X-Cost"}, 0},
		{"looser in shadow", "- {name: a, limits: 5/1m, mode: shadow}", "- {name: a, limits: 50/1m, mode: shadow}", []string{"a: 5/1m → 50/1m, 10 times looser"}, 0},
		{"removed from shadow", "- {name: a, path: /a, limits: 5/1m, mode: shadow}\n" + rest, rest, []string{"a: removed: 5/1m no longer holds"}, 0},
		{"shadow", login, "- {name: login, path: /login, limits: 5/15m, mode: shadow}", []string{"login: mode enforce → shadow: counts and refuses nobody"}, 1},
		{"enforced", "- {name: a, limits: 5/1m, mode: off}", "- {name: a, limits: 5/1m}", []string{"a: mode off → enforce: refuses"}, 1},
		{"other requests", login, "- {name: login, path: [/login, /signin], methods: POST, limits: 5/15m}", []string{"login: for /login → for POST, /login or /signin"}, 0},
		{"the small things", "- {name: a, limits: 5/1m}", "- {name: a, limits: 5/1m, cost: 2, on-store-error: closed, headers: none, refund-if-status: [404, 5xx], ban: {strikes: 3/1m, length: 1h}, upstream: 'http://a', response: {status: 503}}",
			[]string{"a: cost 1 → 2, 2 times tighter", "a: on-store-error by default → closed", "a: headers by default → none", "a: refund-if-status none → 404 5xx", "a: ban none → 1h after 3/1m", "a: upstream the default → http://a", "a: another response to refused requests"}, 1},
		{"plans", "- {name: a, limits: 5/1m, plan-by: header:P, plans: {gold: 10/1m, old: 9/1m}}", "- {name: a, limits: 5/1m, plan-by: header:Q, plans: {gold: 20/1m, vip: unlimited}}",
			[]string{"a, plan gold: 10/1m → 20/1m, 2 times looser", "a, plan vip: added: unlimited", "a, plan old: removed: 9/1m no longer holds", "a: plan-by header:P → header:Q"}, 1},
		{"overrides, without the keys", "- {name: a, limits: 5/1m, overrides: {ip:192.0.2.1: blocked, ip:192.0.2.2: blocked, ip:192.0.2.3: blocked}}", "- {name: a, limits: 5/1m, overrides: {ip:192.0.2.1: unlimited, ip:192.0.2.4: blocked}}",
			[]string{"a: overrides: 1 key added, 2 removed, 1 with another plan"}, 0},
		{"order", "- {name: a, path: '/{x}/b', limits: 1/1s}\n- {name: b, path: '/a/{x}', limits: 2/1s}\n- {name: c, path: /c/d, limits: 3/1s}", "- {name: c, path: /c/d, limits: 3/1s}\n- {name: b, path: '/a/{x}', limits: 2/1s}\n- {name: a, path: '/{x}/b', limits: 1/1s}",
			[]string{"b: now before a: requests that match both are held to 2/1s, no longer to 1/1s"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := rules.Diff(read(t, "rules:\n"+c.before+"\n"), read(t, "rules:\n"+c.after+"\n"))
			large := 0
			var got []string
			for _, change := range changes {
				got = append(got, change.String())
				if change.IsLarge() {
					large++
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if large != c.large {
				t.Errorf("%d large changes, want %d", large, c.large)
			}
		})
	}
}

// TestDiffOfTheRest: settings, lists, domains, and how rules match.
func TestDiffOfTheRest(t *testing.T) {
	before := read(t, file("listen: 127.0.0.1:1", "store: 'redis://:secret@a'", "exempt: [/a, /b]", "deny: /d", "rules: [{name: a, limits: 1/1s}]",
		"domains:", "  x: {host: x.example, rules: [{name: a, limits: 1/1s}]}", "  y: {host: y.example, rules: [{name: a, limits: 1/1s}]}"))
	after := read(t, file("listen: 127.0.0.1:2", "store: 'redis://:other@a'", "key: header:A", "match: all", "exempt: [/b, /c]", "rules: [{name: a, limits: 1/1s}]",
		"domains:", "  x: {host: z.example, rules: [{name: a, limits: 2/1s}]}", "  w: {host: w.example, rules: [{name: a, limits: 1/1s}]}"))
	var got []string
	for _, change := range rules.Diff(before, after) {
		got = append(got, change.String())
	}
	want := []string{
		"key: the default → header:A, for rules that do not say: their counting starts afresh",
		"listen: 127.0.0.1:1 → 127.0.0.1:2: takes effect at the next start",
		"store: another password: takes effect at the next start",
		"exempt: /c is added", "exempt: /a is removed", "deny: /d is removed",
		"match: first → all: every rule that matches holds",
		"domain w: added, for w.example", "w/a: added: 1/1s",
		"domain x: host x.example → z.example", "x/a: 1/1s → 2/1s, 2 times looser",
		"domain y: removed: its hosts have the rules of no domain", "y/a: removed: 1/1s no longer holds",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var loose []string
	for _, change := range rules.Loosening(rules.Diff(before, after)) {
		loose = append(loose, change.About)
	}
	if fmt.Sprint(loose) != "[exempt deny x/a y/a]" {
		t.Errorf("looser: %v", loose)
	}
}
