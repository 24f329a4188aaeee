package rules_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(rules.Schema(flags())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("rules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a YAML text as an editor's validator sees it; nil if it is none.
func asJSON(text string) any {
	var value any
	if yaml.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	b, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	value, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	return value
}

// everything is a file that has every field there is.
var everything = file(
	"listen: 127.0.0.1:0",
	"max-keys: 5",
	"grace: 1m30s",
	"trusted-proxies: [10.0.0.0/8, 192.0.2.1]",
	"match: first",
	"exempt: [GET /healthz]",
	"deny: 192.0.2.0/24",
	"upstreams: {shop: 'http://127.0.0.1:3000'}",
	"rules:",
	"- name: login",
	"  host: [shop.example, '*.shop.example']",
	"  path: [/login, '/users/{id}/login', '/{$}', '/files/{rest...}']",
	"  methods: [POST, QUERY]",
	"  request-headers: {X-A: true, X-B: false, X-C: text, X-D: [a, b]}",
	"  clients: [10.0.0.0/8, '2001:db8::/32', 192.0.2.7]",
	"  key: header:X-Api-Key",
	"  limits: [burst=5/1s, '100/1h,counter', 'day=1000/1d,resolution=1m']",
	"  cost: header:X-Cost",
	"  mode: enforce",
	"  on-store-error: closed",
	"  headers: [draft-8, legacy]",
	"  response: {status: 420, json: {error: [too many, 1, 2.5, true, null]}}",
	"  ban: {strikes: 3/1m, length: 1h}",
	"  refund-if-status: [404, 5xx]",
	"  plans: {gold: 50/15m, vip: unlimited, gone: [blocked2=1/1s]}",
	"  plan-by: header:X-Plan",
	"  overrides: {'header:X-Api-Key:abc': gold, 'ip:2001:db8::/56': blocked}",
	"  upstream: shop",
	"- {name: rest, limits: blocked, cost: 1, mode: shadow, response: {body: no}}",
	"domains:",
	"  api:",
	"    host: api.example",
	"    match: all",
	"    rules: [{name: all, limits: 10/s, upstream: 'h2c://127.0.0.1:3000'}]",
)

// TestSchemaTakesWhatIsTaken: a file with every field is right for both.
func TestSchemaTakesWhatIsTaken(t *testing.T) {
	read(t, everything)
	if err := schema(t).Validate(asJSON(everything)); err != nil {
		t.Error(err)
	}
}

// TestWhatTheSchemaRefusesIsRefused: an editor complains of nothing that is right.
func TestWhatTheSchemaRefusesIsRefused(t *testing.T) {
	s := schema(t)
	refused := 0
	for _, line := range []string{
		"rules: [{name: a, limits: 1/1s, %s}]",
	} {
		for _, field := range []string{
			"host: 'a:80'", "host: 5", "host: []", "host: '*'", "path: login", "path: '/a*'", "path: /%61", "path: 1", "methods: PSOT", "methods: post",
			"request-headers: {a b: true}", "request-headers: {A: 1}", "request-headers: {A: []}", "request-headers: {A: [1]}", "request-headers: true",
			"clients: nobody", "clients: 10.0.0.0/8/8", "key: ''", "key: 5", "key: 'ip+'", "cost: 0", "cost: -1", "cost: 1.5", "cost: cheap", "cost: true",
			"mode: on", "mode: true", "on-store-error: shut", "on-store-error: false", "headers: draft-5", "headers: 8", "response: 429", "response: {code: 429}",
			"response: {status: '429'}", "response: {body: 5}", "ban: 1h", "ban: {strikes: 3/1m}", "ban: {length: 1h}", "ban: {strikes: 3, length: 1h}",
			"ban: {strikes: 3/1m, length: forever}", "ban: {strikes: 3/1m, length: 60}", "refund-if-status: 99", "refund-if-status: 6xx", "refund-if-status: [404, x]",
			"plans: {a b: 1/1s}", "plans: {gold: 5}", "plans: gold", "plan-by: ip", "plan-by: header:", "overrides: {'': gold}", "overrides: {ip:192.0.2.1: 5}",
			"overrides-file: 5", "upstream: 5", "methds: GET", "name: b c", "limits: []", "limits: 5", "limits: many", "limits: [1/1s, 5]",
		} {
			text := file(replaceOnce(line, "%s", field))
			if s.Validate(asJSON(text)) == nil {
				t.Logf("the schema takes %s", field)
				continue
			}
			refused++
			if _, err := rules.Read("rules.yaml", []byte(text), flags()); err == nil {
				t.Errorf("the schema refuses what is taken: %s", text)
			}
		}
	}
	for _, top := range []string{
		"match: any", "exempt: []", "exempt: 5", "deny: ''", "upstreams: {a: 'ftp://x'}", "upstreams: [a]", "rules: {}", "rules: []", "rules: a", "listen: 8080",
		"listen: [a]", "max-keys: many", "max-keys: '5'", "max-keys: 1.5", "grace: 60", "grace: soon", "trusted-proxies: 10.0.0.0/8,10.0.0.1", "trusted-proxies: 10",
		"on-store-error: shut", "config: x", "limit: 1/1s", "limits: 1/1s", "domains: {a: {host: x}}", "domains: {a: {rules: [{name: a, limits: 1/1s}]}}", "domains: []", "listn: x",
	} {
		text := file("rules: [{name: a, limits: 1/1s}]", top)
		if top[:5] == "rules" {
			text = file(top)
		}
		if s.Validate(asJSON(text)) == nil {
			t.Logf("the schema takes %s", top)
			continue
		}
		refused++
		if _, err := rules.Read("rules.yaml", []byte(text), flags()); err == nil {
			t.Errorf("the schema refuses what is taken: %s", text)
		}
	}
	if refused < 70 {
		t.Errorf("the schema refuses %d of them", refused)
	}
}

func replaceOnce(s, old, by string) string {
	return string(bytes.Replace([]byte(s), []byte(old), []byte(by), 1))
}
