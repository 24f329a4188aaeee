package httpgate

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parseAreas are the vectors that a client has to read, and what our writers write.
var parseAreas = map[string]func(t *testing.T, v vector){
	"parse.RateLimit": parseRateLimitVector,
	"express.draft-8": parseExpress,
	"retry_after":     parseRetryAfterVector,
	"sf.string":       readBack,
	"sf.bytes":        readBack,
	"sf.integer":      readBack,
	"sf.key":          readBackKey,
}

// TestParseVectors: each is read as it was meant.
func TestParseVectors(t *testing.T) { runVectors(t, parseAreas) }

func parseRateLimitVector(t *testing.T, v vector) {
	var in struct{ Lines []string }
	read(t, v.Input, &in)
	var want []struct {
		Name string
		R    int64
		T    *int64
	}
	malformed := json.Unmarshal(v.Expect, &want) != nil
	policies, ok := ParseRateLimit(http.Header{"Ratelimit": in.Lines}, time.Time{})
	if ok == malformed || len(policies) != len(want) {
		t.Fatalf("got %+v, %v; want %s", policies, ok, v.Expect)
	}
	for i, w := range want {
		reset := time.Duration(-1)
		if w.T != nil {
			reset = time.Duration(*w.T) * time.Second
		}
		if got := policies[i]; got != (Policy{Name: w.Name, Remaining: w.R, Reset: reset}) {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
}

func parseExpress(t *testing.T, v vector) {
	var in struct {
		Limit, Remaining, ResetSeconds, WindowMs int64
	}
	var want struct{ Headers map[string]string }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	h := http.Header{}
	for name, value := range want.Headers {
		h.Set(name, value)
	}
	policies, ok := ParseRateLimit(h, time.Time{})
	if !ok || len(policies) != 1 {
		t.Fatalf("%v: got %+v", h, policies)
	}
	p := policies[0]
	window := (time.Duration(in.WindowMs)*time.Millisecond + time.Second - 1).Truncate(time.Second)
	if p.Quota != in.Limit || p.Remaining != in.Remaining || p.Reset != time.Duration(in.ResetSeconds)*time.Second || p.Window != window {
		t.Errorf("%v: got %+v", h, p)
	}
}

func parseRetryAfterVector(t *testing.T, v vector) {
	var want map[string]any
	read(t, v.Expect, &want)
	h := http.Header{}
	value, sent := want["Retry-After"].(string)
	if sent {
		h.Set("Retry-After", value)
	}
	wait, ok := parseRetryAfter(h, time.Time{})
	seconds, _ := time.ParseDuration(value + "s")
	if ok != sent || sent && wait != min(seconds, maxTold) {
		t.Errorf("%q: got %s, %v", value, wait, ok)
	}
}

func readBack(t *testing.T, v vector) {
	var in struct {
		Value  any
		Base64 string
	}
	var want struct{ Text string }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	if want.Text == "" {
		return // what cannot be written
	}
	s := scanField(want.Text)
	b, ok := s.bare()
	if !ok || !s.done() {
		t.Fatalf("%q is not read", want.Text)
	}
	var text []byte
	switch b.kind {
	case kindString:
		text, _ = appendString(nil, b.text)
		if b.text != in.Value {
			t.Errorf("%q became %q", want.Text, b.text)
		}
	case kindBytes:
		text = appendBytes(nil, []byte(b.text))
	case kindInteger:
		text, _ = appendInteger(nil, b.n)
	}
	if string(text) != want.Text {
		t.Errorf("%q came back as %q", want.Text, text)
	}
}

func readBackKey(t *testing.T, v vector) {
	var in struct{ Key string }
	var want struct{ Error bool }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	s := scanField(in.Key)
	key, ok := s.key()
	if whole := ok && s.done(); whole == want.Error || whole && key != in.Key {
		t.Errorf("%q became %q, %v", in.Key, key, ok)
	}
}

// The parts of RFC 9651 that no vector has.
func TestParseStructured(t *testing.T) {
	for value, want := range map[string]bool{
		`a;r=1`:             true,
		`  a;r=1  `:         true,
		"a;r=1 \t,\t b;r=2": true,
		`a;r=1,`:            false,
		`,a;r=1`:            false,
		`a;r=1 b;r=1`:       false,
		`a;r=1;`:            false,
		`a; r=1;  t=1`:      true,
		`a;r =1`:            false,
		`a;r= 1`:            false,
		`a;r=007`:           true,
		`a;r=-0`:            true,
		`a;r=-1`:            false,
		`a;r=1.0`:           false,
		`a;r`:               false,
		`a;r=1;r="x"`:       false,
		`a;r=1;x;y=?0;z=@-1;b=::;d=%"f%c3%bc";e=1.25;f=*t/:`: true,
		`a;r=1;y=?2`:              false,
		`a;r=1;z=@1.5`:            false,
		`a;r=1;d=%"f%C3"`:         false,
		`a;r=1;d=%"f%c`:           false,
		`a;r=1;d=%"f`:             false,
		"a;r=1;d=%\"f\x7f\"":      false,
		`a;r=1;d=%x`:              false,
		`a;r=1;e=1.2345`:          false,
		`a;r=1;e=1.`:              false,
		`a;r=1;e=1234567890123.1`: false,
		`a;r=1;e=-`:               false,
		`a;r=1;b=:aGk`:            false,
		`a;r=1;b=:aGk=:`:          true,
		`a;r=1;b=:aGk:`:           true,
		`a;r=1;b=:a!:`:            false,
		`a;r=1;pk=:aGk=:`:         true,
		`a;r=1;pk="aGk="`:         false,
		`a;r=1;t="1"`:             false,
		`a;r=1;t=-1`:              false,
		`("a" "b");r=1`:           false,
		`?1;r=1`:                  false,
		`"a\"\\b";r=1`:            true,
		`"a\b";r=1`:               false,
		`"a\`:                     false,
		``:                        false,
		strings.Repeat("a;r=1,", maxPolicies-1) + "a;r=1":       true,
		strings.Repeat("a;r=1,", maxPolicies) + "a;r=1":         false,
		`a;r=1;c="` + strings.Repeat("x", maxFieldLength) + `"`: false,
	} {
		if _, ok := ParseRateLimit(http.Header{"Ratelimit": {value}}, time.Time{}); ok != want {
			t.Errorf("%.60q: %v, want %v", value, ok, want)
		}
	}
	if s := scanField(`"a\"\\b"`); true {
		if b, _ := s.bare(); b.text != `a"\b` {
			t.Errorf("escapes became %q", b.text)
		}
	}
}

// Every format that interfaces are known to speak, read at noon of a day.
func TestParseRateLimitFormats(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const epoch = "1796040030" // 30 s later
	one := func(quota, left int64, window, reset time.Duration) []Policy {
		return []Policy{{Quota: quota, Window: window, Remaining: left, Reset: reset}}
	}
	const s = time.Second
	for name, c := range map[string]struct {
		fields []string
		want   []Policy
	}{
		"draft-8 with policies": {[]string{"RateLimit", `"burst";r=7;t=1, "day";r=64;t=42`, "RateLimit-Policy", `"burst";q=10;w=1`, "RateLimit-Policy", `"day";q=100;qu="requests";w=60`},
			[]Policy{{Name: "burst", Quota: 10, Window: s, Remaining: 7, Reset: s}, {Name: "day", Unit: "requests", Quota: 100, Window: 60 * s, Remaining: 64, Reset: 42 * s}}},
		"draft-8 with partitions": {[]string{"RateLimit", `"a";r=7;t=1;pk=:aGk=:`, "RateLimit-Policy", `"a";q=10;w=1;pk=:aGk=:`},
			[]Policy{{Name: "a", Partition: "hi", Quota: 10, Window: s, Remaining: 7, Reset: s}}},
		"draft-8 of two gates": {[]string{"RateLimit", `"a";r=7;t=1`, "RateLimit", `"a";r=3;t=9`, "RateLimit-Policy", `"a";q=10;w=1`, "RateLimit-Policy", `"a";q=20;w=60`},
			[]Policy{{Name: "a", Quota: 10, Window: s, Remaining: 7, Reset: s}, {Name: "a", Quota: 20, Window: 60 * s, Remaining: 3, Reset: 9 * s}}},
		"draft-8 with a malformed policy": {[]string{"RateLimit", `"a";r=7;t=1`, "RateLimit-Policy", `"a";q=10;w=0`},
			[]Policy{{Name: "a", Remaining: 7, Reset: s}}},
		"draft-8 with a policy of no name": {[]string{"RateLimit", `"a";r=7;t=1`, "RateLimit-Policy", `"a";q=10;w=1, :aGk=:;q=20;w=1`},
			[]Policy{{Name: "a", Remaining: 7, Reset: s}}},
		"draft-8 with more policies than are read": {[]string{"RateLimit", `"a";r=7;t=1`, "RateLimit-Policy", strings.Repeat(`"a";q=10;w=1,`, maxPolicies) + `"b";q=1;w=1`},
			[]Policy{{Name: "a", Remaining: 7, Reset: s}}},
		"Cloudflare": {[]string{"Ratelimit", `"default";r=50;t=30`, "Ratelimit-Policy", `"burst";q=100;w=60`},
			[]Policy{{Name: "default", Remaining: 50, Reset: 30 * s}}},
		"draft-7":                    {[]string{"RateLimit", "limit=10, remaining=9, reset=1", "RateLimit-Policy", "10;w=1, 100;w=60"}, one(10, 9, s, s)},
		"draft-7 in any order":       {[]string{"RateLimit", "reset=1,x,remaining=9;p=1,limit=10"}, one(10, 9, 0, s)},
		"draft-7 without reset":      {[]string{"RateLimit", "limit=10, remaining=9"}, nil},
		"draft-6":                    {[]string{"RateLimit-Limit", "100", "RateLimit-Remaining", "99", "RateLimit-Reset", "60", "RateLimit-Policy", "100;w=60"}, one(100, 99, 60*s, 60*s)},
		"draft-6 with parameters":    {[]string{"RateLimit-Limit", "100;x=1", "RateLimit-Remaining", "99;y", "RateLimit-Reset", "60;z"}, one(100, 99, 0, 60*s)},
		"drafts 00 to 03":            {[]string{"RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "99", "RateLimit-Reset", "60"}, one(100, 99, 60*s, 60*s)},
		"GitLab":                     {[]string{"RateLimit-Limit", "60", "RateLimit-Remaining", "59", "RateLimit-Reset", epoch, "RateLimit-Name", "x"}, one(60, 59, 0, 30*s)},
		"Docker Hub":                 {[]string{"RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "76;w=21600"}, one(100, 76, 21600*s, -1)},
		"Envoy":                      {[]string{"X-RateLimit-Limit", `10, 10;w=1;name="x", 1000;w=3600`, "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "1"}, one(10, 3, s, s)},
		"GitHub, express":            {[]string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", epoch}, one(5000, 4999, 0, 30*s)},
		"by the server's clock":      {[]string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", epoch, "Date", "Mon, 30 Nov 2026 12:00:10 GMT"}, one(5000, 4999, 0, 20*s)},
		"epoch in milliseconds":      {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", epoch + "500"}, one(5, 4, 0, 30500*time.Millisecond)},
		"fastify":                    {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "59"}, one(5, 4, 0, 59*s)},
		"Reddit":                     {[]string{"X-RateLimit-Used", "6", "X-RateLimit-Remaining", "594.0", "X-RateLimit-Reset", "321"}, one(0, 594, 0, 321*s)},
		"Discord":                    {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", epoch + ".25"}, one(5, 0, 0, 31*s)},
		"Atlassian":                  {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-30T12:00Z"}, one(5, 0, 0, 60*s)},
		"Laravel":                    {[]string{"X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "59"}, one(60, 59, 0, -1)},
		"tollbooth":                  {[]string{"X-Rate-Limit-Limit", "1.00", "RateLimit-Limit", "1", "RateLimit-Remaining", "0", "RateLimit-Reset", "1"}, one(1, 0, 0, s)},
		"a date of no minute":        {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-30T12Z"}, nil},
		"ISO 8601":                   {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-30T12:01:00Z"}, one(5, 0, 0, 60*s)},
		"go-limiter":                 {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "Mon, 30 Nov 2026 12:01:00 UTC"}, one(5, 0, 0, 60*s)},
		"X-Rate-Limit":               {[]string{"X-Rate-Limit-Limit", "450", "X-Rate-Limit-Remaining", "449", "X-Rate-Limit-Reset", epoch}, one(450, 449, 0, 30*s)},
		"a malformed list is absent": {[]string{"RateLimit", `"a"`, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "59"}, one(5, 4, 0, 59*s)},
		"the newest counts":          {[]string{"RateLimit", `"a";r=1`, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "59"}, []Policy{{Name: "a", Remaining: 1, Reset: -1}}},
		"remaining is negative":      {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "-1", "X-RateLimit-Reset", "59"}, nil},
		"remaining is below zero":    {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "-0.5", "X-RateLimit-Reset", "59"}, nil},
		"remaining twice":            {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "1", "X-RateLimit-Remaining", "2"}, nil},
		"no limit":                   {[]string{"X-RateLimit-Remaining", "unlimited", "X-RateLimit-Limit", "-1"}, nil},
		"a reset of words":           {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "soon"}, nil},
		"a reset that has passed":    {[]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "1600000000"}, one(5, 4, 0, 0)},
		"a reset in a million years": {[]string{"RateLimit", `a;r=0;t=99999999999999`}, []Policy{{Name: "a", Reset: maxTold}}},
		"nothing":                    {nil, nil},
	} {
		h := http.Header{}
		for i := 0; i < len(c.fields); i += 2 {
			h.Add(c.fields[i], c.fields[i+1])
		}
		if got, ok := ParseRateLimit(h, now); ok != (c.want != nil) || !(len(got) == 0 && c.want == nil) && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "007": 7 * time.Second,
		"99999999999999999999999999":     maxTold,
		"Mon, 30 Nov 2026 12:01:00 GMT":  time.Minute,
		"Monday, 30-Nov-26 12:01:00 GMT": time.Minute,
		"Mon Nov 30 12:01:00 2026":       time.Minute,
		"Mon, 30 Nov 2026 12:01:00 UTC":  time.Minute,
		"Sun, 29 Nov 2026 12:01:00 GMT":  0,
		"Thu, 30 Nov 9999 12:01:00 GMT":  maxTold,
		"":                               -1, "-1": -1, "1.5": -1, "1s": -1, "soon": -1, "+1": -1, "1, 2": -1, " ": -1,
	} {
		got, ok := parseRetryAfter(http.Header{"Retry-After": {value}}, now)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %s, %v; want %s", value, got, ok, want)
		}
	}
	if _, ok := parseRetryAfter(http.Header{"Retry-After": {"1", "2"}}, now); ok {
		t.Error("two lines are read")
	}
	h := http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:01:00 GMT"}, "Date": {"Mon, 30 Nov 2026 12:00:50 GMT"}}
	if got, _ := parseRetryAfter(h, now); got != 10*time.Second {
		t.Errorf("by the server's clock: got %s, want 10s", got)
	}
}
