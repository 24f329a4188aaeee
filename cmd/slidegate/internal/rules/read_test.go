package rules_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
)

// flags are some that a command may have.
func flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.StringArray("limit", nil, "")
	f.String("config", "", "")
	f.String("listen", "127.0.0.1:8080", "the `address` to serve on")
	f.String("store", "memory", "")
	f.String("on-store-error", "open", "")
	f.StringSlice("trusted-proxies", nil, "")
	f.StringSlice("headers", nil, "")
	f.String("key", "ip", "")
	f.Int("max-keys", 1000, "")
	f.Duration("grace", 0, "")
	config.TakesWords(f.Lookup("on-store-error"), []string{"open", "closed"})
	return f
}

// file joins lines; a file of rules begins its own count with the first.
func file(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func read(t *testing.T, text string) *rules.File {
	t.Helper()
	f, err := rules.Read("rules.yaml", []byte(text), flags())
	if err != nil {
		t.Fatalf("%v\nof\n%s", err, text)
	}
	return f
}

// TestWrongFiles: everything that is wrong is said, each with its line, what was asked for, and what is allowed.
func TestWrongFiles(t *testing.T) {
	const ok = "- {name: ok, limits: 1/1s}"
	rule := func(fields ...string) string {
		return file(append([]string{"rules:", "- name: login", "  limits: 5/15m"}, fields...)...)
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{`rules.yaml: the file is empty`}},
		{"a comment", "# nothing\n", []string{`rules.yaml: the file is empty`}},
		{"no YAML", file("rules:", "\t- name: x"), []string{`rules.yaml:2: this is no YAML: found character`}},
		{"a field too far to the left", file("rules:", "- name: a", "  limits: 1/1s", " path: /x", "- name: b", "  limits: 1/1s"), []string{`rules.yaml:4: this is no YAML: `}},
		{"a bracket that nothing closes", file("rules:", "- name: a", "  limits: [1/1s", "- name: b", "  limits: 1/1s"), []string{`rules.yaml:3: this is no YAML: `}},
		{"a quote that nothing closes", file("rules:", "- name: a", "  path: \"/x", "  limits: 1/1s"), []string{`rules.yaml:3: this is no YAML: `}},
		{"a text", "hello\n", []string{`rules.yaml:1: the file is "hello": allowed are names with values`}},
		{"a log", strings.Repeat("198.18.0.1 GET / 200\n", 1000), []string{`rules.yaml:1: the file is "` + strings.Repeat("198.18.0.1 GET / 200 ", 10)[:200] + `…": allowed are names with values`}},
		{"two documents", file("rules:", ok, "---", "rules:", ok), []string{`rules.yaml:3: a second document: allowed is one`}},
		{"no rules", "match: all\n", []string{`there is no rule: give at least one`}},
		{"an empty list of rules", "rules: []\n", []string{`rules.yaml:1: rules is an empty list`}},
		{"a rule that is a text", file("rules:", "- login"), []string{`rules.yaml:2: rule 1 is "login": allowed are names with values`}},
		{"rules that are a mapping", file("rules:", "  login: {limits: 1/1s}"), []string{`rules.yaml:2: rules is a mapping: allowed is a list`}},

		{"a typo in a field", rule("  methds: POST"), []string{`rules.yaml:4: unknown field "methds" in rule 1: did you mean "methods"? allowed is name, host, path`}},
		{"a typo at the top", file("rule:", ok), []string{`rules.yaml:1: unknown field "rule" in the file: did you mean "rules"?`}},
		{"a flag at the top", file("listn: x", "rules:", ok), []string{`rules.yaml:1: unknown field "listn" in the file: did you mean "listen"?`}},
		{"a field that is nothing like any", rule("  unlimied_stuff: 1"), []string{`rules.yaml:4: unknown field "unlimied_stuff" in rule 1: allowed is name`}},
		{"limits at the top", file("limits: 1/1s", "rules:", ok), []string{`rules.yaml:1: limits outside of a rule: limits stand in rules`}},
		{"the file itself", file("config: x", "rules:", ok), []string{`rules.yaml:1: unknown field "config" in the file`}},
		{"a field twice", rule("  limits: 6/15m"), []string{`rules.yaml:4: "limits" is there twice in rule 1: it is in line 3 already`}},
		{"a name twice", file("rules:", "- {name: a, path: /a, limits: 1/1s}", "- {name: a, limits: 1/1s}"), []string{`rules.yaml:3: name "a": the rule of line 2 has it already`}},
		{"no name and no limits", file("rules:", "- path: /"), []string{`rules.yaml:2: rule 1 has no name: it needs one`, `rules.yaml:2: rule 1 has no limits: it needs one`}},
		{"a field without a value", rule("  key:"), []string{`rules.yaml:4: key has no value: give one, or leave it out`}},

		{"a bad name", file("rules:", "- {name: a b, limits: 1/1s}"), []string{`rules.yaml:2: name "a b": allowed are 1 to 40 letters`}},
		{"a bad limit", file("rules:", "- name: a", "  limits: 5/soon"), []string{`rules.yaml:3: limits "5/soon": the window "soon" is not a duration such as 10s`}},
		{"a bad limit beside a ban", file("rules:", "- name: a", "  limits: 5/soon", "  ban: {strikes: 3/1m, length: 1h}", "  mode: on"), []string{"the window \"soon\" is not a duration such as 10s, 15m, 1h or 1d\nrules.yaml:5: mode"}},
		{"a quota of nothing", file("rules:", "- name: a", "  limits: [1/1s, 0/1s]"), []string{`rules.yaml:3: limits "0/1s": quota 0: allowed is 1 to 1000000000000`}},
		{"a window that is too long", file("rules:", "- name: a", "  limits:", "  - 1/3651d"), []string{`rules.yaml:4: limits "1/3651d": window 87624h0m0s: allowed is 1ms to 3650d`}},
		{"limits without window", file("rules:", "- name: a", "  limits: 5"), []string{`rules.yaml:3: limits 5: YAML takes it for no text: write a text, such as 5/1m, or put it in quotes`}},
		{"two limits of one window", file("rules:", "- name: a", "  limits: [5/1m, 6/1m]"), []string{`rules.yaml:3: limits "6/1m": two limits are called 1m`}},
		{"too many limits", file("rules:", "- name: a", "  limits: [1/1s, 1/2s, 1/3s, 1/4s, 1/5s, 1/6s, 1/7s, 1/8s, 1/9s]"), []string{`rules.yaml:3: limits: allowed are 1 to 8 limits`}},
		{"a cost that never fits", rule("  cost: 6"), []string{`rules.yaml:3: limits "5/15m": a cost of 6 never fits`}},
		{"a cost below one", rule("  cost: 0"), []string{`rules.yaml:4: cost "0": allowed is a whole number from 1, or header:NAME`}},
		{"a name that is too long with its limit", file("rules:", "- name: "+strings.Repeat("a", 40), "  limits: "+strings.Repeat("b", 24)+"=1/1s"), []string{`rules.yaml:3: limits "bbb`, `allowed are 64 characters`}},

		{"a host with a port", rule("  host: shop.example:80"), []string{`rules.yaml:4: host "shop.example:80": allowed is a name without a port`}},
		{"a path without a slash", rule("  path: login"), []string{`rules.yaml:4: path "login": a path begins with a slash: allowed is a path such as /login`}},
		{"a path with a star", rule("  path: [/a, /b/*]"), []string{`rules.yaml:4: path "/b/*": none of`}},
		{"a path with a method", rule("  path: POST /login"), []string{`rules.yaml:4: path "POST /login": a method or a host has a field of its own`}},
		{"a path with an escape", rule("  path: /%61"), []string{`rules.yaml:4: path "/%61": a path has no escapes here`}},
		{"a path that is not clean", rule("  path: /a/../b"), []string{`rules.yaml:4: path "/a/../b": the part .. is none`}},
		{"a method that is none", rule("  methods: [GET, PSOT]"), []string{`rules.yaml:4: methods "PSOT": did you mean "POST"? allowed is GET`}},
		{"a method in lower case", rule("  methods: post"), []string{`rules.yaml:4: methods "post": did you mean`}},
		{"a client that is none", rule("  clients: 10.0.0.0/33"), []string{`rules.yaml:4: clients "10.0.0.0/33": allowed is a network such as 10.0.0.0/8`}},
		{"a network with too many bits", rule("  clients: 10.0.0.1/8"), []string{`rules.yaml:4: clients "10.0.0.1/8": the address has more bits than the network: did you mean 10.0.0.0/8?`}},
		{"a header that is no name", rule("  request-headers: {a b: true}"), []string{`rules.yaml:4: request-headers "a b": allowed is the name of a header`}},
		{"a host as a header", rule("  request-headers: {Host: a}"), []string{`rules.yaml:4: request-headers "Host": the host is no header here`}},
		{"a header that is a number", rule("  request-headers: {X-A: 1}"), []string{`rules.yaml:4: request-headers X-A 1: YAML takes it for no text`}},
		{"a key that is none", rule("  key: ip+nobody"), []string{`rules.yaml:4: key "ip+nobody": part "nobody" is unknown: allowed is ip, header:NAME`}},
		{"a mode that is none", rule("  mode: shaddow"), []string{`rules.yaml:4: mode "shaddow": did you mean "shadow"? allowed is enforce, shadow or off`}},
		{"a match that is none", file("match: any", "rules:", ok), []string{`rules.yaml:1: match "any": allowed is first or all`}},
		{"a policy that is none", rule("  on-store-error: shut"), []string{`rules.yaml:4: on-store-error "shut": allowed is open or closed`}},
		{"a format that is none", rule("  headers: draft-5"), []string{`rules.yaml:4: headers "draft-5": did you mean "draft-8"?`}},
		{"none and more", rule("  headers: [none, legacy]"), []string{`rules.yaml:4: headers: none beside others: allowed is none alone`}},
		{"a status that refuses nobody", rule("  response: {status: 200}"), []string{`rules.yaml:4: status 200: allowed is 400 to 599`}},
		{"two bodies", rule("  response:", "    body: a", "    json: {a: 1}"), []string{`rules.yaml:6: body and json: an answer has one body`}},
		{"a ban without a length", rule("  ban: {strikes: 3/1m}"), []string{`rules.yaml:4: ban has no length: it needs one`}},
		{"a ban that is too short", rule("  ban: {strikes: 3/1m, length: 0s}"), []string{`rules.yaml:4: length "0s": allowed is 1ms to 3650d`}},
		{"a ban of nobody", file("rules:", "- name: a", "  limits: unlimited", "  ban: {strikes: 3/1m, length: 1h}"), []string{`rules.yaml:4: ban in the rule a, whose limits are unlimited`}},
		{"a status to refund that is none", rule("  refund-if-status: [404, 6xx]"), []string{`rules.yaml:4: refund-if-status "6xx": allowed is a status from 200 to 599, or a class such as 5xx`}},
		{"plans of nobody", rule("  plans: {gold: 50/15m}"), []string{`rules.yaml:4: plans that nobody has`}},
		{"plan-by without plans", rule("  plan-by: header:X-Plan"), []string{`rules.yaml:4: plan-by without plans`}},
		{"plan-by by an address", rule("  plan-by: ip", "  plans: {gold: 50/15m}"), []string{`rules.yaml:4: plan-by "ip": allowed is header:NAME`}},
		{"a plan whose name is taken", rule("  plan-by: header:X-Plan", "  plans: {blocked: 50/15m}"), []string{`rules.yaml:5: plans: blocked is there already`}},
		{"an override of no plan", rule("  plans: {gold: 50/15m}", "  overrides: {ip:203.0.113.9: glod}"), []string{`rules.yaml:5: overrides: plan "glod": did you mean "gold"? allowed is unlimited, blocked or gold`}},
		{"an override of a key that cannot be", rule("  key: header:X-Api-Key", "  overrides: {user:1: blocked}"), []string{`rules.yaml:5: overrides: the key is none that the key expression header:X-Api-Key gives`}},
		{"an override of an address that is none", rule("  overrides: {ip:example: blocked}"), []string{`rules.yaml:4: overrides: the address of a key cannot be read`}},
		{"overrides in a file that is not there", rule("  overrides-file: nowhere.txt"), []string{`rules.yaml:4: overrides-file "nowhere.txt" cannot be read: no such file`}},
		{"an upstream that is none", rule("  upstream: shop"), []string{`rules.yaml:4: upstream "shop": allowed is a URL such as http://127.0.0.1:3000`}},
		{"an upstream of another scheme", file("upstreams: {shop: ftp://shop}", "rules:", ok), []string{`rules.yaml:1: upstreams shop "ftp://shop": allowed is a URL of http, https or h2c`}},
		{"an upstream with a password", file("upstreams: {shop: http://me:secret@shop}", "rules:", ok), []string{`"http://me:xxxxx@shop": a user, a query or a fragment has no place in it`}},

		{"an exemption that is none", file("exempt: [GET /healthz, healthz]", "rules:", ok), []string{`rules.yaml:1: exempt "healthz": no address: allowed is a network such as 10.0.0.0/8`}},
		{"a denial that is none", file("deny:", "- /a/*", "rules:", ok), []string{`rules.yaml:2: deny "/a/*": a path is exact`}},
		{"a domain without hosts", file("domains:", "  shop:", "    rules:", "    "+ok), []string{`rules.yaml:3: domains shop has no host: it needs one`}},
		{"a host of two domains", file("domains:", "  a: {host: x.example, rules: [{name: a, limits: 1/1s}]}", "  b: {host: x.example, rules: [{name: a, limits: 1/1s}]}"), []string{`rules.yaml:3: host "x.example" is in the domains a and b: allowed is one`}},
		{"a rule that no request reaches", file("rules:", "- {name: all, limits: 1/1s}", "- {name: login, path: /login, limits: 1/1s}"), []string{`rules.yaml:3: no request reaches the rule login: the rule all of line 2 comes first and matches all that it does: put login before it, or say match: all`}},
		{"one behind a wider path", file("rules:", "- {name: api, path: [/x, /api/], methods: [GET, POST], limits: 1/1s}", "- {name: users, path: '/api/users/{id}', methods: HEAD, host: a.example, limits: 1/1s}"), []string{`rules.yaml:3: no request reaches the rule users`}},

		{"a setting that takes words", file("on-store-error: opne", "rules:", ok), []string{`rules.yaml:1: on-store-error "opne": did you mean "open"? allowed is open or closed`}},
		{"a number that is none", file("max-keys: many", "rules:", ok), []string{`rules.yaml:1: max-keys "many": allowed is a whole number`}},
		{"a duration that is none", file("grace: soon", "rules:", ok), []string{`rules.yaml:1: grace "soon": allowed is 1ms to 3650d`}},
		{"a list where one belongs", file("listen: [a, b]", "rules:", ok), []string{`rules.yaml:1: listen is a list: allowed is one value`}},
		{"values between commas", file("trusted-proxies: 10.0.0.0/8,192.0.2.1", "rules:", ok), []string{`rules.yaml:1: trusted-proxies "10.0.0.0/8,192.0.2.1": several values are a list, as in [a, b]`}},
		{"a port alone", file("listen: 8080", "rules:", ok), []string{`rules.yaml:1: listen 8080: YAML takes it for no text: write a text, or put it in quotes`}},

		{"an alias in itself", file("rules: &a", "- {name: a, limits: *a}"), []string{`rules.yaml:2: the alias of a stands in itself`}},
		{"fields that are merged", file("rules:", "- &a {name: a, limits: 1/1s}", "- {<<: *a, name: b, path: /b}"), []string{`rules.yaml:3: << in rule 2: fields are not merged`}},
		{"aliases of aliases", file("exempt: &a [/a, /a, /a, /a, /a, /a, /a, /a]", "deny: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]", "rules: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b, *b]",
			"domains: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]", "match: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]", "upstreams: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e]"), []string{`rules.yaml: the file has more than 1048576 values`}},
		{"many things at once", file("match: any", "rules:", "- name: a", "  limts: 1/1s", "- name: b", "  limits: 0/1s", "  mode: on"), []string{
			`rules.yaml:1: match "any"`, `rules.yaml:3: rule 1 has no limits`, `rules.yaml:4: unknown field "limts"`, `rules.yaml:6: limits "0/1s"`, `rules.yaml:7: mode "on"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Read("rules.yaml", []byte(c.text), flags())
			if err == nil {
				t.Fatalf("taken:\n%s", c.text)
			}
			text := err.Error()
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("it says\n%s\nwithout %q", text, want)
				}
			}
			if strings.Contains(text, "secret") {
				t.Errorf("it shows a password: %s", text)
			}
		})
	}
}

// TestAliases stand for what they name.
func TestAliases(t *testing.T) {
	f := read(t, file("rules:", "- {name: a, path: /a, limits: &l [&one 1/1s, 2/1m]}", "- {name: b, path: /b, limits: *l}", "- {name: c, limits: [*one]}"))
	if got := f.Summary(); got != "3 rules\na: 1/1s and 2/1m, for /a\nb: 1/1s and 2/1m, for /b\nc: 1/1s" {
		t.Errorf("it says %s", got)
	}
}

// FuzzRead: whatever a file is, it is taken or everything that is wrong is said.
func FuzzRead(f *testing.F) {
	f.Add(everything)
	f.Add("rules: &a [*a]\n")
	f.Add("rules: [{name: a, limits: !!binary aGVsbG8=, ? [x] : y}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := rules.Read("rules.yaml", []byte(text), flags())
		if (err == nil) == (file == nil) {
			t.Errorf("%v and %v", file, err)
		}
		if problems, ok := err.(rules.Problems); err != nil && (!ok || len(problems) == 0) {
			t.Errorf("the error is %T", err)
		}
		if err == nil && len(rules.Diff(file, file)) > 0 {
			t.Errorf("a file differs from itself: %v", rules.Diff(file, file))
		}
	})
}
