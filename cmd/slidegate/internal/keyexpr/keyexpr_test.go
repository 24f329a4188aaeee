package keyexpr

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	r := httptest.NewRequest("GET", "http://Shop.example:8080/a/../b//c?x=1", nil)
	r.Header.Set("X-Key", " k ")
	r.Header.Set("Cookie", "sid=s1; other=o")
	for expr, want := range map[string]string{
		"ip":                     "ip:1.2.3.4",
		"header:x-key":           "header:X-Key:k",
		"header:X-None":          "ip:1.2.3.4",
		"header:Host":            "header:Host:shop.example:8080",
		"cookie:sid":             "cookie:sid:s1",
		"cookie:none":            "ip:1.2.3.4",
		"cookie:sid+cookie:SID":  "13:cookie:sid:s1|10:ip:1.2.3.4",
		"path":                   "path:/b/c",
		"host":                   "host:shop.example",
		"method":                 "method:GET",
		"header:X-Key+path":      "14:header:X-Key:k|9:path:/b/c",
		"header:X-None+method":   "10:ip:1.2.3.4|10:method:GET",
		"ip+host+path+cookie:no": "10:ip:1.2.3.4|17:host:shop.example|9:path:/b/c|10:ip:1.2.3.4",
	} {
		e, err := Parse(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got := e.Key(r, "ip:1.2.3.4"); got != want || e.String() != expr {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
		if e.TellsClients() && e.Key(r, "") != "" && strings.Contains(want, "ip:") {
			t.Errorf("%s: a key %q without an address", expr, e.Key(r, ""))
		}
	}
}

func TestTellsClients(t *testing.T) {
	for expr, want := range map[string]bool{"ip": true, "path": false, "host+method": false, "path+cookie:a": true, "method+header:b": true} {
		if e, err := Parse(expr); err != nil || e.TellsClients() != want {
			t.Errorf("%s: %v, want %v", expr, !want, want)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for expr, want := range map[string]string{
		"": `part "" is unknown`, "ip+": `part "" is unknown`, "IP": `part "IP" is unknown`, "header": `part "header" is unknown`,
		"header:": "no valid header name", "header:a b": "no valid header name", "cookie:a=b": "no valid cookie name", "path+path": "twice",
		"query:x": "is unknown", "header:X-A+header:x-a": "twice",
	} {
		if _, err := Parse(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", expr, err, want)
		}
	}
}

// FuzzParse: an expression that is taken yields a key, or says that it has none, and never fails.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"ip", "header:X-Key+path", "cookie:a", "host+method", "+", "header:+", "ip+ip"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		if e.Key(httptest.NewRequest("GET", "/x", nil), "ip:a") == "" {
			t.Errorf("%q yields no key for a client with an address", s)
		}
	})
}

// TestHostsThatAreOne: case, port and the dot at the end are not another host.
func TestHostsThatAreOne(t *testing.T) {
	e, err := Parse("host")
	if err != nil {
		t.Fatal(err)
	}
	for want, hosts := range map[string][]string{
		"host:shop.example": {"shop.example", "SHOP.example", "shop.example:80", "shop.example.", "Shop.example.:8080"},
		"host:2001:db8::a":  {"[2001:db8::a]", "[2001:db8::A]:80", "[2001:DB8::a]:"},
	} {
		for _, h := range hosts {
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = h
			if got := e.Key(r, ""); got != want {
				t.Errorf("%s: %q, want %q", h, got, want)
			}
		}
	}
}

// FuzzDifferentClientsHaveDifferentKeys, whatever they send: no value of one part can look like the
// values of two.
func FuzzDifferentClientsHaveDifferentKeys(f *testing.F) {
	f.Add("a", "b", "a", "c")
	f.Add("a|3:x", "", "a", "|3:x")
	f.Add("ip:1.2.3.4", "", "", "")
	f.Add("", "1:a|1:b", "1:a", "1:b")
	e, err := Parse("header:X-A+header:X-B+ip")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		request := func(a, b string) *http.Request {
			return &http.Request{Header: http.Header{"X-A": {strings.TrimSpace(a)}, "X-B": {strings.TrimSpace(b)}}}
		}
		first, second := request(a1, b1), request(a2, b2)
		same := first.Header.Get("X-A") == second.Header.Get("X-A") && first.Header.Get("X-B") == second.Header.Get("X-B")
		one, other := e.Key(first, "ip:1.2.3.4"), e.Key(second, "ip:1.2.3.4")
		if (one == other) != same {
			t.Errorf("%q, %q has the key %q, and %q, %q has %q", a1, b1, one, a2, b2, other)
		}
		if e.Key(first, "ip:1.2.3.5") == one {
			t.Errorf("another address, and the key is %q again", one)
		}
	})
}
