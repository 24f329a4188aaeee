package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// A rig is a door over a store in memory with one limiter.
type rig struct {
	store   *memstore.Store
	limiter *slidegate.Limiter
	bans    *bans.List
	door    http.Handler
}

func newRig(t testing.TB, limits ...slidegate.Limit) *rig {
	t.Helper()
	g := &rig{store: memstore.New(), bans: bans.NewList(nil)}
	t.Cleanup(func() { g.store.Close() })
	g.limiter = slidegate.MustNew(g.bans.Wrap(g.store), limits...)
	audit, err := NewAudit("", slog.New(slog.DiscardHandler), false, "")
	if err != nil {
		t.Fatal(err)
	}
	g.door = New(Config{
		Open: http.NotFoundHandler(), IsPrivate: true, Counted: strings.ToLower, Store: g.store, Rules: func() any { return []int{1} },
		Counts: func(rule, plan, key string) ([]Count, bool) {
			return []Count{{Rule: "r", Key: key, Limiter: g.limiter}}, rule == "" || rule == "r"
		},
		Unban: func(*http.Request, string) error { return nil }, Bans: g.bans, Refusals: NewRefusals(g.bans), Audit: audit,
	})
	return g
}

func (g *rig) ask(path, body string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	g.door.ServeHTTP(w, r)
	return w
}

// TestBadRequests change nothing, and are told what is allowed and nothing of what they said.
func TestBadRequests(t *testing.T) {
	g := newRig(t, slidegate.PerMinute(5))
	long := strings.Repeat("k", 513)
	for body, want := range map[string]string{
		``: "no JSON object", ` `: "no JSON object", `null`: "no JSON object", `[]`: "no JSON object", `"secret"`: "no JSON object", `{`: "no JSON object", "{\"key\":\"\xff\"}": "no JSON object",
		`{"key":"secret"} x`: "no JSON object", `{"key":"secret"}{"key":"secret"}`: "no JSON object",
		`{"keys":"secret"}`: "a member is unknown", `{"Key":"secret"}`: "a member is unknown", `{"key":"secret","\u006bey":"secret"}`: "key: it is there twice",
		`{"key":7}`: "key: it is no string", `{"key":{"a":"secret"}}`: "key: it is no string", `{"key":"secret","charges":"1"}`: "charges: it is no int",
		`{}`: "key: allowed is a string of 1 to 512 bytes", `{"key":""}`: "key: allowed", `{"key":"` + long + `"}`: "key: allowed", `{"key":"secret\ud800"}`: "key: allowed",
	} {
		for _, path := range []string{"/v1/inspect", "/v1/reset", "/v1/ban", "/v1/unban"} {
			if w := g.ask(path, body); w.Code != 400 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
			}
		}
	}
	for _, c := range [][]string{
		{"/v1/inspect", `{"key":"secret","charges":-1}`, "charges: allowed is a whole number from 0 to 10000"},
		{"/v1/inspect", `{"key":"secret","charges":10001}`, "charges: allowed"},
		{"/v1/inspect", `{"key":"secret","charges":1e99}`, "charges: it is no int"},
		{"/v1/inspect", `{"key":"secret","length":"1h"}`, "length: this request has none"},
		{"/v1/reset", `{"key":"secret","charges":1}`, "charges: this request has none"},
		{"/v1/unban", `{"key":"secret","rule":"r"}`, "rule: this request has none"},
		{"/v1/ban", `{"key":"secret","rule":"r","length":"1h"}`, "rule: this request has none"},
		{"/v1/ban", `{"key":"secret"}`, "length: allowed is a duration of 1ms to 3650d"},
		{"/v1/ban", `{"key":"secret","length":"soon"}`, "length: allowed"},
		{"/v1/ban", `{"key":"secret","length":"0"}`, "length: allowed"},
		{"/v1/ban", `{"key":"secret","length":"-1h"}`, "length: allowed"},
		{"/v1/ban", `{"key":"secret","length":"1us"}`, "length: allowed"},
		{"/v1/ban", `{"key":"secret","length":"3651d"}`, "length: allowed"},
		{"/v1/ban", `{"key":"secret","length":3600}`, "length: it is no string"},
		{"/v1/ban", `{"key":"secret","length":"1h","reason":"` + long + `"}`, "reason: allowed is a string of up to 500 bytes"},
	} {
		if w := g.ask(c[0], c[1]); w.Code != 400 || !strings.Contains(w.Body.String(), c[2]) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s %q: %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
	if w := g.ask("/v1/ban", strings.Repeat(" ", maxBody+1)); w.Code != 413 {
		t.Errorf("a body that is too large: %d", w.Code)
	}
	if w := g.ask("/v1/reset", `{"key":"secret","rule":"none"}`); w.Code != 404 {
		t.Errorf("a rule that there is not: %d", w.Code)
	}
	if g.bans.Len() != 0 {
		t.Errorf("%d are banned", g.bans.Len())
	}
}

// FuzzBody: whatever is sent, nobody is banned but by a request that names a key and a length, and no answer fails.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"key":"k","length":"1h"}`, `{"KEY":"k","length":"1h","key":"l"}`, `{"key":"k","length":"9999999999999h"}`, `{"key":null}`, "\x00", `{"key":"\u0000","length":"1ms"}`} {
		f.Add(seed)
	}
	g := newRig(f, slidegate.PerMinute(5))
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/inspect", "/v1/reset", "/v1/ban", "/v1/unban"} {
			before := g.bans.Len()
			w := g.ask(path, body)
			if !slices.Contains([]int{200, 400, 404, 409, 413}, w.Code) || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if after := g.bans.Len(); after > before && (path != "/v1/ban" || w.Code != 200) {
				t.Errorf("%s: %d, and %d are banned after %d", path, w.Code, after, before)
			}
		}
	})
}

// TestRefusalsAreBounded: those that came last are there, the newest first, and a flood of them makes no garbage.
func TestRefusalsAreBounded(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	limiter := slidegate.MustNew(store, slidegate.PerHour(1))
	r := NewRefusals(bans.NewList(nil))
	event := func(key string) *httpgate.Event {
		d, err := limiter.Take(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		return &httpgate.Event{Decision: &d, Key: key}
	}
	if all, total := r.All(); len(all) != 0 || total != 0 {
		t.Errorf("at first: %v, %d", all, total)
	}
	event("k")
	for i := range Kept + 7 {
		e := event("k")
		e.Key = fmt.Sprint("k", i)
		r.Note(e, "r", false)
	}
	r.Note(event("other"), "r", false)                                    // admitted
	r.Note(&httpgate.Event{Err: slidegate.ErrUnavailable}, "r", false)    // undecided
	r.Note(&httpgate.Event{Err: io.EOF, After: true, Key: "k"}, "", true) // after the verdict
	all, total := r.All()
	if len(all) != Kept || total != Kept+7 || all[0].Key != fmt.Sprint("k", Kept+6) || all[Kept-1].Key != "k7" || all[0].Reason != "limit" || all[0].Limit != "1/1h" || all[0].RetryMS < 1 {
		t.Errorf("%d of %d, the newest %+v, the oldest %+v", len(all), total, all[0], all[len(all)-1])
	}
	e := event("k")
	if n := testing.AllocsPerRun(2*Kept, func() { r.Note(e, "r", false) }); n != 0 {
		t.Errorf("%v allocations a refusal", n)
	}
	var nobody *Refusals
	nobody.Note(e, "r", false)
}

// TestReasons of refusals.
func TestReasons(t *testing.T) {
	list := bans.NewList(nil)
	store := memstore.New()
	defer store.Close()
	limiter := slidegate.MustNew(list.Wrap(store), slidegate.PerHour(1))
	take := func(l *slidegate.Limiter, key string, times int) *slidegate.Decision {
		var d slidegate.Decision
		for range times {
			d, _ = l.Take(context.Background(), key)
		}
		return &d
	}
	if _, err := list.Add(context.Background(), "banned", time.Hour, ""); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		event   httpgate.Event
		blocked bool
		want    string
	}{
		"admitted":            {httpgate.Event{Decision: take(limiter, "a", 1)}, false, ""},
		"a limit":             {httpgate.Event{Decision: take(limiter, "b", 2)}, false, "limit"},
		"people banned it":    {httpgate.Event{Decision: take(limiter, "banned", 1), Key: "banned"}, false, "ban"},
		"a rule banned it":    {httpgate.Event{Decision: take(limiter, "c", 2), Banned: true}, false, "ban"},
		"a rule that refuses": {httpgate.Event{Decision: take(slidegate.Blocked(), "c", 1)}, true, "blocked"},
		"it never fits":       {httpgate.Event{Decision: &slidegate.Decision{Cost: 9}}, false, "cost"},
		"on the list":         {httpgate.Event{Err: httpgate.ErrForbidden}, false, "denied"},
		"no address":          {httpgate.Event{Err: httpgate.ErrNoAddress}, false, "no-address"},
	} {
		r := NewRefusals(list)
		r.Note(&c.event, "", c.blocked)
		all, _ := r.All()
		got := ""
		if len(all) > 0 {
			got = all[0].Reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// description is what a test reads of OpenAPI.
type description struct {
	Paths      map[string]map[string]struct{ Responses map[string]any }
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
			Required   []string
		}
	}
}

// TestDescriptionIsOfTheDoor: every path with its method, and the members of every answer and of every request.
func TestDescriptionIsOfTheDoor(t *testing.T) {
	var doc description
	if err := json.Unmarshal(Description, &doc); err != nil {
		t.Fatal(err)
	}
	for path, e := range endpoints {
		for method := range doc.Paths[path] {
			if strings.ToUpper(method) != e.methods[0] {
				t.Errorf("%s is described with %s", path, method)
			}
		}
		if len(doc.Paths[path]) != 1 && path != "/openapi.json" {
			t.Errorf("%s is not described", path)
		}
	}
	if len(doc.Paths) != len(endpoints)-1 {
		t.Errorf("%d paths are described, and there are %d", len(doc.Paths), len(endpoints)-1)
	}
	for name, value := range map[string]any{
		"Inspection": Inspection{}, "Counts": Counts{}, "Limits": Limits{}, "Charge": Charge{}, "Reset": Reset{}, "Ban": Ban{}, "Bans": Bans{},
		"Unban": Unban{}, "Refusal": Refusal{}, "Recent": Recent{},
	} {
		var members, required, described []string
		for field := range reflect.TypeOf(value).Fields() {
			member, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			members = append(members, member)
			if option == "" {
				required = append(required, member)
			}
		}
		schema := doc.Components.Schemas[name]
		for member := range schema.Properties {
			described = append(described, member)
		}
		for _, all := range [][]string{members, required, described, schema.Required} {
			slices.Sort(all)
		}
		if !slices.Equal(members, described) || !slices.Equal(required, schema.Required) {
			t.Errorf("%s has %q, of which %q are always there; described are %q, of which %q", name, members, required, described, schema.Required)
		}
	}
	asks := map[string]string{"/v1/inspect": "InspectRequest", "/v1/reset": "ResetRequest", "/v1/ban": "BanRequest", "/v1/unban": "UnbanRequest"}
	values := map[string]any{"rule": "r", "plan": "p", "charges": 3, "length": "1h", "reason": "why"}
	for path, name := range asks {
		for member, value := range values {
			body, _ := json.Marshal(map[string]any{"key": "k", "length": "1h", member: value})
			if path != "/v1/ban" && member != "length" {
				body, _ = json.Marshal(map[string]any{"key": "k", member: value})
			}
			_, is := doc.Components.Schemas[name].Properties[member]
			if w := newRig(t, slidegate.PerMinute(1)).ask(path, string(body)); (w.Code != 400) != is {
				t.Errorf("%s %s: %d %s, described %v", path, body, w.Code, w.Body, is)
			}
		}
	}
}

// TestDescriptionIsInTheDocumentation, the very one that is served.
func TestDescriptionIsInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "admin.openapi.json"))
	if err != nil || !bytes.Equal(text, Description) {
		t.Errorf("docs/admin.openapi.json is not cmd/slidegate/internal/admin/openapi.json: copy it (%v)", err)
	}
}
