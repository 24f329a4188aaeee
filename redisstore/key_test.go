package redisstore

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

func keysOf(prefix, key string, limits ...slidegate.Limit) []string {
	n := newNaming(prefix, limits)
	return n.keys(escape(key), nil)
}

func TestKeysReadAsTheyAreDocumented(t *testing.T) {
	for _, c := range []struct{ prefix, key, limit, want string }{
		{"slidegate", "user:42", "burst=10/s", "slidegate:{user:42}:burst:1s"},
		{"slidegate", "user:42", "100/60s", "slidegate:{user:42}:100/60s:1m"},
		{"slidegate", "user:42", "plan=100000/d,counter", "slidegate:{user:42}:plan:1d,counter"},
		{"slidegate", "user:42", "burst=10/90s,resolution=1s", "slidegate:{user:42}:burst:90s"},
		{"a:b", "192.0.2.1", "x=1/3650d", "a:b:{192.0.2.1}:x:3650d"},
		{"p", "{a", "x=1/1ms", "p:{{a}:x:1ms"},
		{"p", "a}b", "x=1/1s", "p:{a%7Db}:x:1s"},
		{"p", "100%", "x=1/1s", "p:{100%25}:x:1s"},
		{"p", "%7D", "x=1/1s", "p:{%257D}:x:1s"},
		{"p", "\x00\xff\r\n", "x=1/1s", "p:{\x00\xff\r\n}:x:1s"},
		{"p", "k", "a:b}c{,counter=1/1s", "p:{k}:a:b}c{,counter:1s"},
		{"p", strings.Repeat("k", 200), "x=1/1s", "p:{" + strings.Repeat("k", 200) + "}:x:1s"},
		{"p", strings.Repeat("k", 201), "x=1/1s", "p:{%sha256:ebf0ead0a3b837bc388d6a36c93833fff64a0a8bc8198fc0f1b7b5031dddd254}:x:1s"},
	} {
		if got := keysOf(c.prefix, c.key, named(t, c.limit)); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q under %s of prefix %s is %q, want %q", c.key, c.limit, c.prefix, got, c.want)
		}
	}
}

// nasty are texts that end tags, look like other parts of a key, or like what escaping makes.
func nasty() []string {
	long := strings.Repeat("x", 300)
	return []string{
		"a", "b", "{", "}", "%", "{}", "}{", "}}", "%7D", "%7d", "%25", "%257D", "%%", "%}", "}%", "a}", "a%7D", ":", "a:", ":a", "}:", "a}:x:1s",
		"{a}", "x:1s", "\x00", "\xff", "é", long, long + "x", long[:200], long[:201], "%sha256:" + strings.Repeat("0", 64),
		strings.Repeat("}", 66), strings.Repeat("}", 67), strings.Repeat("%7D", 66), escape(long), escape(long + "x"), escape(strings.Repeat("}", 67)),
	}
}

// TestDifferentStateHasDifferentKeys: two keys are equal only if prefix, key, name, window and
// algorithm are.
func TestDifferentStateHasDifferentKeys(t *testing.T) {
	names := []string{"x", "x:1s", "x:1s,counter", "a}:x", ",counter", "1s", ":", "::", "}", "{", "}:", "x}:x", "%7D", "1/1s", "1/1s,counter"}
	windows := []time.Duration{time.Millisecond, time.Second, time.Minute, 90 * time.Second, 60 * time.Minute, 24 * time.Hour}
	seen := map[string]string{}
	for _, prefix := range []string{"p", "p:", "p:p", "%7D", ":"} {
		for _, key := range nasty() {
			for _, name := range names {
				for _, window := range windows {
					for _, algorithm := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
						l := slidegate.Limit{Name: name, Quota: 1, Window: window, Algorithm: algorithm}
						if err := l.Validate(); err != nil {
							t.Fatal(err)
						}
						stored, what := keysOf(prefix, key, l)[0], fmt.Sprintf("%q %q %q %s %s", prefix, key, name, window, algorithm)
						if other, ok := seen[stored]; ok {
							t.Fatalf("%s and %s are both %q", what, other, stored)
						}
						seen[stored] = what
					}
				}
			}
		}
	}
}

// tagOf returns what Redis Cluster hashes of a key: what is between its first opening brace and
// the first closing brace after that, if there is anything; else the whole key.
func tagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// TestTheKeyAloneDecidesTheSlot: the tag of every stored key is the escaped key, whatever the limit.
func TestTheKeyAloneDecidesTheSlot(t *testing.T) {
	for _, key := range nasty() {
		limits := []slidegate.Limit{named(t, "a=1/s"), named(t, "}b{=5/h,counter"), named(t, "a:b=7/d,resolution=1h")}
		for _, stored := range keysOf("p", key, limits...) {
			if tagOf(stored) != escape(key) {
				t.Errorf("the tag of %q is %q, want %q", stored, tagOf(stored), escape(key))
			}
		}
	}
}

// unescape is the definition of what escape does to a key that is not hashed.
func unescape(s string) string { return strings.NewReplacer("%7D", "}", "%25", "%").Replace(s) }

// checkEscape checks what has to hold of every key.
func checkEscape(t *testing.T, key string) {
	t.Helper()
	e := escape(key)
	hash, hashed := strings.CutPrefix(e, "%sha256:")
	switch {
	case e == "" || strings.Contains(e, "}"):
		t.Errorf("%q is escaped as %q", key, e)
	case len(e) > longestTag:
		t.Errorf("%q is escaped in %d bytes", key, len(e))
	case !hashed && unescape(e) != key:
		t.Errorf("%q is escaped as %q, which says %q", key, e, unescape(e))
	case hashed && len(escaper.Replace(key)) <= longestTag:
		t.Errorf("%q is hashed, and is %d bytes long", key, len(key))
	}
	if b, err := hex.DecodeString(hash); hashed && (err != nil || len(b) != 32) {
		t.Errorf("%q is hashed as %q", key, e)
	}
	if plain := !strings.ContainsAny(key, "%}") && len(key) <= longestTag; plain && e != key {
		t.Errorf("%q needs no escape and is escaped as %q", key, e)
	}
}

func TestEscapingIsInjective(t *testing.T) {
	seen := map[string]string{}
	for _, key := range nasty() {
		checkEscape(t, key)
		if other, ok := seen[escape(key)]; ok && other != key {
			t.Errorf("%q and %q are both %q", key, other, escape(key))
		}
		seen[escape(key)] = key
	}
	for b := range 256 {
		checkEscape(t, string([]byte{byte(b)}))
	}
}

func FuzzEscape(f *testing.F) {
	all := nasty()
	for i, key := range all {
		f.Add(key, all[(i+1)%len(all)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, key := range []string{a, b} {
			if key != "" {
				checkEscape(t, key)
			}
		}
		if a != b && escape(a) == escape(b) {
			t.Errorf("%q and %q are both %q", a, b, escape(a))
		}
	})
}

// TestHashSlot: the check value of CRC-16/XMODEM, and slots that CLUSTER KEYSLOT answers.
func TestHashSlot(t *testing.T) {
	for tag, want := range map[string]uint16{"123456789": 0x31C3, "foo": 12182, "bar": 5061, "user:42": 15880, "\xff\x00": 1023} {
		if got := hashSlot(tag); got != want {
			t.Errorf("the slot of %q is %d, want %d", tag, got, want)
		}
	}
}
