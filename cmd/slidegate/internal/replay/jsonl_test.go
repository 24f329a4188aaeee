package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestEventLines(t *testing.T) {
	const t0 = 1_757_750_400_000
	for _, c := range []struct {
		line string
		want event
		key  string
		err  string
	}{
		{`{"t":1757750400000,"op":"take","key":"a","cost":1}`, event{t: t0, cost: 1}, "a", ""},
		{` { "key" : "a" , "t" : 1757750400000 } `, event{t: t0, cost: 1}, "a", ""},
		{`{"t":"2025-09-13T08:00:00Z","key":"a","op":"peek","cost":0}`, event{t: t0, op: peek}, "a", ""},
		{`{"t":"2025-09-13T10:00:00.1239+02:00","key":"a","op":"reset"}`, event{t: t0 + 123, cost: 1, op: reset}, "a", ""},
		{`{"t":"1969-12-31T23:59:59.9999Z","key":"a"}`, event{t: -1, cost: 1}, "a", ""},
		{`{"t":-5,"key":"a","cost":-1}`, event{t: -5, cost: -1}, "a", ""},
		{`{"t":1.7577504e12,"key":"a","cost":2.0}`, event{t: t0, cost: 2}, "a", ""},
		{`{"t":-0,"key":"a","cost":999999999999999999}`, event{cost: 999_999_999_999_999_999}, "a", ""},
		{`{"t":0,"key":"ip:2001:db8::1/64 \"x\" \\ \u00e9 \ud83d\ude00"}`, event{cost: 1}, `ip:2001:db8::1/64 "x" \ é 😀`, ""},
		{`{"t":0,"key":"é�"}`, event{cost: 1}, "é�", ""},
		{`{"\u0074":0,"key":"a"}`, event{cost: 1}, "a", ""},
		{`{"t":0,"key":"a","path":"/x?}","n":{"a":[1,{"b":"]"}],"c":null},"ok":true,"x":-1.5e3}`, event{cost: 1}, "a", ""},
		{"{\"t\":0,\r\"key\":\"a\"\t}", event{cost: 1}, "a", ""},

		{`what`, event{}, "", errNoObject.Error()},
		{`[1]`, event{}, "", errNoObject.Error()},
		{`{}`, event{}, "", errNoT.Error()},
		{`{"t":0}`, event{}, "", errNoKey.Error()},
		{`{"key":"a"}`, event{}, "", errNoT.Error()},
		{`{"T":0,"key":"a"}`, event{}, "", errNoT.Error()},
		{`{"t":0,"key":"a"`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a",}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a"}}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a"} {"t":1,"key":"a"}`, event{}, "", errNoObject.Error()},
		{`{"t":0 "key":"a"}`, event{}, "", errNoObject.Error()},
		{`{"t":,"key":"a"}`, event{}, "", errNoObject.Error()},
		{`{"t" 0,"key":"a"}`, event{}, "", errNoObject.Error()},
		{`{t:0,"key":"a"}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":[1}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":nil}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":01}`, event{}, "", errNoObject.Error()},
		{`{"t":0,"t":0,"key":"a"}`, event{}, "", "t is given twice"},
		{`{"t":0,"key":"a","key":"b"}`, event{}, "", "key is given twice"},
		{`{"t":null,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":true,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":1.5,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":01,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":+1,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":-,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":1e99,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":1e400,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":253402300800000,"key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"0","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"2025-09-13","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"2025-09-13 08:00:00Z","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"2025-02-30T08:00:00Z","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"2025-09-13T08:00:00","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":"9999-12-31T23:59:59-01:00","key":"a"}`, event{}, "", errTime.Error()},
		{`{"t":0,"key":"a","op":"Take"}`, event{}, "", errOp.Error()},
		{`{"t":0,"key":"a","op":1}`, event{}, "", errOp.Error()},
		{`{"t":0,"key":"a","op":null}`, event{}, "", errOp.Error()},
		{`{"t":0,"key":1}`, event{}, "", errKey.Error()},
		{`{"t":0,"key":null}`, event{}, "", errKey.Error()},
		{`{"t":0,"key":["a"]}`, event{}, "", errKey.Error()},
		{"{\"t\":0,\"key\":\"\xff\"}", event{}, "", errKey.Error()},
		{"{\"t\":0,\"key\":\"a\tb\"}", event{}, "", errKey.Error()},
		{`{"t":0,"key":"\ud800"}`, event{}, "", errKey.Error()},
		{`{"t":0,"key":"\x"}`, event{}, "", errKey.Error()},
		{`{"t":0,"key":""}`, event{}, "", errEmptyKey.Error()},
		{`{"t":0,"key":"a","cost":"1"}`, event{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":1.5}`, event{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":1000000000000000000}`, event{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":null}`, event{}, "", errCost.Error()},
	} {
		k := newKeys()
		var e event
		err := (&eventLog{k}).parse([]byte(c.line), &e)
		if err == nil {
			err = errors.New("")
		}
		if err.Error() != c.err || len(k.names) > 0 != (c.err == "") {
			t.Errorf("%s: %v, keys %v; want %q", c.line, err, k.names, c.err)
			continue
		}
		if c.err == "" && (e != c.want || k.names[e.key] != c.key) {
			t.Errorf("%s: %+v of %q, want %+v of %q", c.line, e, k.names[e.key], c.want, c.key)
		}
	}
}

// FuzzEventLog: what is read is what encoding/json reads, and nothing panics.
func FuzzEventLog(f *testing.F) {
	f.Add([]byte(`{"t":1757750400000,"op":"take","key":"a","cost":1}`))
	f.Add([]byte(`{"t":"2026-11-30T10:00:00.123Z","key":"\u00e9\\","x":{"a":[1,"]"]}}`))
	f.Add([]byte(`{"t":1.5e3,"op":"reset","key":"a","cost":2.0}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		k := newKeys()
		var e event
		if err := (&eventLog{k}).parse(line, &e); err != nil {
			if len(k.names) > 0 {
				t.Errorf("%q: a key of a line that cannot be read", line)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(bytes.TrimSpace(line), &want); err != nil {
			t.Fatalf("%q was read, but %v", line, err)
		}
		var key string
		if err := json.Unmarshal(want["key"], &key); err != nil || key != k.names[e.key] || !utf8.ValidString(key) {
			t.Errorf("%q: key %q, %v", line, k.names[e.key], err)
		}
		cost, name := 1.0, "take"
		if raw, ok := want["cost"]; ok && json.Unmarshal(raw, &cost) != nil || int64(cost) != e.cost && cost < 1<<53 && cost > -1<<53 {
			t.Errorf("%q: cost %d", line, e.cost)
		}
		if raw, ok := want["op"]; ok && json.Unmarshal(raw, &name) != nil || name != e.op.String() {
			t.Errorf("%q: op %s", line, e.op)
		}
		var ms float64
		if strings.HasPrefix(string(want["t"]), `"`) {
			var at time.Time
			if err := json.Unmarshal(want["t"], &at); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			ms = float64(at.UnixMilli())
		} else if err := json.Unmarshal(want["t"], &ms); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if int64(ms) != e.t {
			t.Errorf("%q: time %d, want %v", line, e.t, ms)
		}
	})
}
