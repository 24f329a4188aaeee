package accesslog

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
		want Record
		key  string
		err  string
	}{
		{`{"t":1757750400000,"op":"take","key":"a","cost":1}`, Record{Time: t0, Cost: 1}, "a", ""},
		{` { "key" : "a" , "t" : 1757750400000 } `, Record{Time: t0, Cost: 1}, "a", ""},
		{`{"t":"2025-09-13T08:00:00Z","key":"a","op":"peek","cost":0}`, Record{Time: t0, Op: Peek}, "a", ""},
		{`{"t":"2025-09-13T10:00:00.1239+02:00","key":"a","op":"reset"}`, Record{Time: t0 + 123, Cost: 1, Op: Reset}, "a", ""},
		{`{"t":"1969-12-31T23:59:59.9999Z","key":"a"}`, Record{Time: -1, Cost: 1}, "a", ""},
		{`{"t":-5,"key":"a","cost":-1}`, Record{Time: -5, Cost: -1}, "a", ""},
		{`{"t":1.7577504e12,"key":"a","cost":2.0}`, Record{Time: t0, Cost: 2}, "a", ""},
		{`{"t":-0,"key":"a","cost":999999999999999999}`, Record{Cost: 999_999_999_999_999_999}, "a", ""},
		{`{"t":0,"key":"ip:2001:db8::1/64 \"x\" \\ \u00e9 \ud83d\ude00"}`, Record{Cost: 1}, `ip:2001:db8::1/64 "x" \ é 😀`, ""},
		{`{"t":0,"key":"é�"}`, Record{Cost: 1}, "é�", ""},
		{`{"\u0074":0,"key":"a"}`, Record{Cost: 1}, "a", ""},
		{`{"t":0,"key":"a","path":"/x?}","n":{"a":[1,{"b":"]"}],"c":null},"ok":true,"x":-1.5e3}`, Record{Cost: 1}, "a", ""},
		{"{\"t\":0,\r\"key\":\"a\"\t}", Record{Cost: 1}, "a", ""},

		{`what`, Record{}, "", errNoObject.Error()},
		{`[1]`, Record{}, "", errNoObject.Error()},
		{`{}`, Record{}, "", errNoT.Error()},
		{`{"t":0}`, Record{}, "", errNoKey.Error()},
		{`{"key":"a"}`, Record{}, "", errNoT.Error()},
		{`{"T":0,"key":"a"}`, Record{}, "", errNoT.Error()},
		{`{"t":0,"key":"a"`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a",}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a"}}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a"} {"t":1,"key":"a"}`, Record{}, "", errNoObject.Error()},
		{`{"t":0 "key":"a"}`, Record{}, "", errNoObject.Error()},
		{`{"t":,"key":"a"}`, Record{}, "", errNoObject.Error()},
		{`{"t" 0,"key":"a"}`, Record{}, "", errNoObject.Error()},
		{`{t:0,"key":"a"}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":[1}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":nil}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"key":"a","x":01}`, Record{}, "", errNoObject.Error()},
		{`{"t":0,"t":0,"key":"a"}`, Record{}, "", "t is given twice"},
		{`{"t":0,"key":"a","key":"b"}`, Record{}, "", "key is given twice"},
		{`{"t":null,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":true,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":1.5,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":01,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":+1,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":-,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":1e99,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":1e400,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":253402300800000,"key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"0","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"2025-09-13","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"2025-09-13 08:00:00Z","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"2025-02-30T08:00:00Z","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"2025-09-13T08:00:00","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":"9999-12-31T23:59:59-01:00","key":"a"}`, Record{}, "", errEventTime.Error()},
		{`{"t":0,"key":"a","op":"Take"}`, Record{}, "", errOp.Error()},
		{`{"t":0,"key":"a","op":1}`, Record{}, "", errOp.Error()},
		{`{"t":0,"key":"a","op":null}`, Record{}, "", errOp.Error()},
		{`{"t":0,"key":1}`, Record{}, "", errKey.Error()},
		{`{"t":0,"key":null}`, Record{}, "", errKey.Error()},
		{`{"t":0,"key":["a"]}`, Record{}, "", errKey.Error()},
		{"{\"t\":0,\"key\":\"\xff\"}", Record{}, "", errKey.Error()},
		{"{\"t\":0,\"key\":\"a\tb\"}", Record{}, "", errKey.Error()},
		{`{"t":0,"key":"\ud800"}`, Record{}, "", errKey.Error()},
		{`{"t":0,"key":"\x"}`, Record{}, "", errKey.Error()},
		{`{"t":0,"key":""}`, Record{}, "", errEmptyKey.Error()},
		{`{"t":0,"key":"a","cost":"1"}`, Record{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":1.5}`, Record{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":1000000000000000000}`, Record{}, "", errCost.Error()},
		{`{"t":0,"key":"a","cost":null}`, Record{}, "", errCost.Error()},
	} {
		var e Record
		err := Events.NewParser().Parse([]byte(c.line), &e)
		if err == nil {
			err = errors.New("")
		}
		if err.Error() != c.err || e.Key != nil != (c.err == "") {
			t.Errorf("%s: %v, key %q; want %q", c.line, err, e.Key, c.err)
			continue
		}
		if c.err == "" && (e.Time != c.want.Time || e.Op != c.want.Op || e.Cost != c.want.Cost || string(e.Key) != c.key) {
			t.Errorf("%s: %+v of %q, want %+v of %q", c.line, e, e.Key, c.want, c.key)
		}
	}
}

// FuzzEvents: what is read is what encoding/json reads, and nothing panics.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"t":1757750400000,"op":"take","key":"a","cost":1}`))
	f.Add([]byte(`{"t":"2026-11-30T10:00:00.123Z","key":"\u00e9\\","x":{"a":[1,"]"]}}`))
	f.Add([]byte(`{"t":1.5e3,"op":"reset","key":"a","cost":2.0}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e Record
		if err := Events.NewParser().Parse(line, &e); err != nil {
			if e.Key != nil {
				t.Errorf("%q: a key of a line that cannot be read", line)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(bytes.TrimSpace(line), &want); err != nil {
			t.Fatalf("%q was read, but %v", line, err)
		}
		var key string
		if err := json.Unmarshal(want["key"], &key); err != nil || key != string(e.Key) || !utf8.ValidString(key) {
			t.Errorf("%q: key %q, %v", line, e.Key, err)
		}
		cost, name := 1.0, "take"
		if raw, ok := want["cost"]; ok && json.Unmarshal(raw, &cost) != nil || int64(cost) != e.Cost && cost < 1<<53 && cost > -1<<53 {
			t.Errorf("%q: cost %d", line, e.Cost)
		}
		if raw, ok := want["op"]; ok && json.Unmarshal(raw, &name) != nil || name != e.Op.String() {
			t.Errorf("%q: op %s", line, e.Op)
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
		if int64(ms) != e.Time {
			t.Errorf("%q: time %d, want %v", line, e.Time, ms)
		}
	})
}
