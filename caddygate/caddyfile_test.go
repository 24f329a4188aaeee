package caddygate

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

// adapt makes JSON of a Caddyfile.
func adapt(caddyfile string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// handlers returns what the handlers of this module are in a configuration.
func handlers(t *testing.T, config []byte) (all []any) {
	t.Helper()
	var tree any
	if err := json.Unmarshal(config, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case object:
			if v["handler"] == "slidegate" {
				all = append(all, v)
			}
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(tree)
	return all
}

// fences returns what stands in fences of a language in docs/caddy.md.
func fences(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/caddy.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "```"+language+"\n")[1:]
	for i := range parts {
		parts[i], _, _ = strings.Cut(parts[i], "```")
	}
	return parts
}

// handlerOf reads a handler as Caddy does.
func handlerOf(t *testing.T, text string) (h Handler) {
	t.Helper()
	var members object
	err := json.Unmarshal([]byte(text), &members)
	delete(members, "handler") // Caddy's own
	rest, _ := json.Marshal(members)
	if err := errors.Join(err, caddy.StrictUnmarshalJSON(rest, &h)); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestTheCaddyfileAndTheJSONSayTheSame: of the documentation, what Caddy makes of the block with every
// setting is the JSON beside it.
func TestTheCaddyfileAndTheJSONSayTheSame(t *testing.T) {
	blocks, objects := fences(t, "caddyfile"), fences(t, "json")
	if len(blocks) != 2 || len(objects) != 1 {
		t.Fatalf("docs/caddy.md has %d Caddyfiles and %d objects", len(blocks), len(objects))
	}
	config, err := adapt(blocks[1])
	if err != nil {
		t.Fatal(err)
	}
	all := handlers(t, config)
	if len(all) != 1 {
		t.Fatalf("%d handlers", len(all))
	}
	written, err := json.Marshal(all[0])
	if err != nil {
		t.Fatal(err)
	}
	got, want := handlerOf(t, string(written)), handlerOf(t, objects[0])
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the handler is\n%+v, want\n%+v", got, want)
	}
	fields := reflect.TypeFor[Handler]()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.IsExported() {
			if reflect.ValueOf(want).Field(i).IsZero() {
				t.Errorf("the example of docs/caddy.md says nothing of %s", f.Name)
			}
		}
	}
}

// TestCaddyfiles: what is written is what is meant.
func TestCaddyfiles(t *testing.T) {
	for _, c := range []struct{ block, want string }{
		{"limit 1/s", `{"limits": ["1/s"]}`},
		{"limit a=1/s b=2/1m\n limit c=3/1h", `{"limits": ["a=1/s", "b=2/1m", "c=3/1h"]}`},
		{"limit 1/s\n key {header.K} {client_ip} x", `{"limits": ["1/s"], "key": ["{http.request.header.K}", "{http.vars.client_ip}", "x"]}`},
		{"limit 1/s\n key \"a b\"", `{"limits": ["1/s"], "key": ["a b"]}`},
		{"limit 1/s\n cost 0", `{"limits": ["1/s"], "cost": "0"}`},
		{"limit 1/s\n headers none", `{"limits": ["1/s"], "headers": ["none"]}`},
		{"limit 1/s\n deny 503", `{"limits": ["1/s"], "deny": {"status": 503}}`},
		{"limit 1/s\n fail open", `{"limits": ["1/s"], "fail": "open"}`},
		{"limit 1/s\n store memory", `{"limits": ["1/s"], "store": {"url": "memory"}}`},
		{"store memory {\n max_keys 5\n }\n limit 1/s", `{"limits": ["1/s"], "store": {"url": "memory", "max_keys": 5}}`},
		{"limit 1/s\n store rediss+cluster://a:1,[::1]:2,c", `{"limits": ["1/s"], "store": {"url": "rediss+cluster://a:1,[::1]:2,c"}}`},
		{"limit 1/s\n store {env.REDIS}", `{"limits": ["1/s"], "store": {"url": "{env.REDIS}"}}`},
	} {
		config, err := adapt("http:// {\n slidegate {\n" + c.block + "\n}\n}")
		if err != nil {
			t.Errorf("%s: %v", c.block, err)
			continue
		}
		var want object
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		want["handler"] = "slidegate"
		if got := handlers(t, config); len(got) != 1 || !reflect.DeepEqual(got[0], any(want)) {
			t.Errorf("%s: %v, want %v", c.block, got, want)
		}
	}
}

// TestMistakesAreTold with what is allowed, the file and the line, and without a password.
func TestMistakesAreTold(t *testing.T) {
	for _, c := range []struct{ block, want string }{
		{"", "no limit: give one, as in limit burst=10/1s, at Caddyfile:"},
		{"\tzone a", "no limit: give one, as in limit burst=10/1s, at Caddyfile:"},
		{"\tlimit", "wrong argument count or unexpected line ending after 'limit', at Caddyfile:3"},
		{"\tlimit 0/s", `: quota 0: allowed is 1 to 1000000000000, at Caddyfile:3`},
		{"\tlimit ten/s", `"ten/s": `},
		{"\tlimit 1/s\n\tlimit 1/1s", `two limits have the name "1/1s": names must differ, as in a=5/1s, at Caddyfile:4`},
		{"\tlimit a=1/s b=1/s c=1/s d=1/s e=1/s f=1/s g=1/s h=1/s i=1/s", "9 limits: allowed is 1 to 8 in one limiter, at Caddyfile:3"},
		{"\tlimit 1/s\n\n\tburst 5", `unknown subdirective "burst": allowed are zone, limit, key, secret, cost, ipv6_prefix, headers, deny, fail, ban, shadow, handle_errors and store, at Caddyfile:5`},
		{"\tzone \"a b\"", `zone "a b": allowed are 1 to 64 letters, digits, dots, dashes and underscores, at Caddyfile:3`},
		{"\tzone a:b", `zone "a:b": allowed are`},
		{"\tzone a\n\tzone b", "zone is given twice, at Caddyfile:4"},
		{"\tkey", "after 'key', at Caddyfile:3"},
		{"\tkey a \"\"", "key: a part is empty, at Caddyfile:3"},
		{"\tsecret hunter2", "Secret of 7 bytes: allowed are at least 32"},
		{"\tcost much", `cost "much": allowed is a whole number of 0 to 1000000000000, or a placeholder, at Caddyfile:3`},
		{"\tcost -1", `cost "-1": allowed is`},
		{"\tcost 1 2", "wrong argument count or unexpected line ending after '1', at Caddyfile:3"},
		{"\tipv6_prefix 20", "IPv6Prefix 20: allowed is 32 to 128, at Caddyfile:3"},
		{"\tipv6_prefix /56", `ipv6_prefix "/56": allowed is a whole number from 1, at Caddyfile:3`},
		{"\theaders draft-5", `header format "draft-5": allowed is draft-8, draft-7, draft-6, legacy, legacy-delta, at Caddyfile:3`},
		{"\theaders none legacy", `header format "none": allowed is`},
		{"\tdeny", "after 'deny', at Caddyfile:3"},
		{"\tdeny no", `deny "no": allowed is a status of 400 to 599, and a body behind it, at Caddyfile:3`},
		{"\tdeny 200", "status 200: allowed is 400 to 599, at Caddyfile:3"},
		{"\tdeny 429 slow down", "wrong argument count or unexpected line ending after 'down', at Caddyfile:3"},
		{"\tfail safe", `fail "safe": allowed is open or closed, at Caddyfile:3`},
		{"\tban 10/1m", "wrong argument count or unexpected line ending after '10/1m', at Caddyfile:3"},
		{"\tban ten 1h", `"ten"`},
		{"\tban 10/1m long", `ban for "long": allowed is a duration such as 1h, of 1ms to 3650d, at Caddyfile:3`},
		{"\tban 10/1m 0s", `Ban: window 0s of "ban:10/1m": allowed is 1ms to 3650d in whole milliseconds, at Caddyfile:3`},
		{"\tshadow on", "wrong argument count or unexpected line ending after 'on', at Caddyfile:3"},
		{"\thandle_errors 429", "wrong argument count or unexpected line ending after '429', at Caddyfile:3"},
		{"\tstore", "after 'store', at Caddyfile:3"},
		{"\tstore disk", "store: allowed is memory, or a URL that begins with redis://, rediss://, redis+cluster:// or rediss+cluster://, as in redis://127.0.0.1:6379/0, at Caddyfile:3"},
		{"\tstore redis://:hunter2@x/y", "store: a database is a whole number from 0"},
		{"\tstore redis://:hun/ter2@x", "store: the URL cannot be read"},
		{"\tstore redis://:hunter2%@x", "store: the URL cannot be read"},
		{"\tstore redis://x?password=hunter2", "store: the URL cannot be read"},
		{"\tstore redis://hunter2:x", "store: a host is missing or has no port of 1 to 65535"},
		{"\tstore redis://:hunter2@", "store: a host is missing"},
		{"\tstore redis://::1", "store: a host is missing"},
		{"\tstore redis://a,b", "store: several hosts are the nodes of a cluster: redis+cluster://HOST:PORT,HOST:PORT, at Caddyfile:3"},
		{"\tstore redis+cluster://a/1", "a cluster has the database 0 alone"},
		{"\tstore memory {\n\t\tpassword hunter2\n\t}", "store memory: username, password, prefix and timeout are about Redis, at Caddyfile:4"},
		{"\tstore redis://x {\n\t\tmax_keys 5\n\t}", "store: max_keys is about memory: Redis bounds itself (see its maxmemory), at Caddyfile:4"},
		{"\tstore memory {\n\t\tmax_keys 2000000000\n\t}", "store memory: max_keys 2000000000: allowed is 1 to 1073741824, at Caddyfile:4"},
		{"\tstore redis://x {\n\t\tprefix a{b\n\t}", `store: prefix "a{b": allowed is any text that is not blank and has no braces, at Caddyfile:4`},
		{"\tstore redis://x {\n\t\ttimeout 2m\n\t}", "store: timeout 2m0s: allowed is 1ms to 1m, at Caddyfile:4"},
		{"\tstore redis://x {\n\t\ttimeout soon\n\t}", `store: timeout "soon": allowed is 1ms to 1m, at Caddyfile:4`},
		{"\tstore redis://x {\n\t\ttimeout 0\n\t}", `store: timeout "0": allowed is 1ms to 1m, at Caddyfile:4`},
		{"\tstore redis://x {\n\t\tdb 1\n\t}", `store: unknown subdirective "db": allowed are max_keys, username, password, prefix and timeout, at Caddyfile:4`},
		{"\tstore memory {\n\t\tmax_keys 1\n\t\tmax_keys 1\n\t}", "store: max_keys is given twice, at Caddyfile:5"},
	} {
		_, err := adapt("http:// {\nslidegate {\n" + c.block + "\n}\n}")
		if err == nil {
			t.Errorf("%s: no error", c.block)
		} else if got := err.Error(); !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s\nwant %s", c.block, got, c.want)
		}
	}
	if _, err := adapt("http:// {\nslidegate 5/1s {\nlimit 1/s\n}\n}"); err == nil || !strings.Contains(err.Error(), "at Caddyfile:2") {
		t.Errorf("an argument that is no matcher: %v", err)
	}
}
