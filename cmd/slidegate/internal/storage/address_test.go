package storage

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]Address{
		"redis://127.0.0.1:6379/0":            {hosts: []string{"127.0.0.1:6379"}},
		" redis://redis ":                     {hosts: []string{"redis:6379"}},
		"redis://Redis-1.example.com./":       {hosts: []string{"Redis-1.example.com.:6379"}},
		"redis://redis:6380/15":               {hosts: []string{"redis:6380"}, db: 15},
		"redis://redis?db=3":                  {hosts: []string{"redis:6379"}, db: 3},
		"redis://redis/3?db=3":                {hosts: []string{"redis:6379"}, db: 3},
		"redis://:secret@redis":               {hosts: []string{"redis:6379"}, password: "secret"},
		"redis://app:secret@redis":            {hosts: []string{"redis:6379"}, username: "app", password: "secret"},
		"redis://a%40b:s%2F%3F%23%40%25+%20@": {},
		"redis://a%40b:s%2F%3F%23%40%25+%20@r": {
			hosts: []string{"r:6379"}, username: "a@b", password: "s/?#@%+ ",
		},
		"redis://app:p:w@d@r:1":        {hosts: []string{"r:1"}, username: "app", password: "p:w@d"},
		"redis://[::1]":                {hosts: []string{"[::1]:6379"}},
		"redis://[fe80::1%25eth0]:7/1": {hosts: []string{"[fe80::1%eth0]:7"}, db: 1},
		"redis+cluster://a:1,b,[::1]:3": {
			hosts: []string{"a:1", "b:6379", "[::1]:3"},
		},
		"redis+cluster://u:p@a:1,a:1/0": {hosts: []string{"a:1"}, username: "u", password: "p"},
		"redis+sentinel://a,b:7/primary": {
			hosts: []string{"a:26379", "b:7"}, master: "primary",
		},
		"rediss+sentinel://u:p@a/my%20primary/4?sentinel_username=s&sentinel_password=q%40": {
			hosts: []string{"a:26379"}, master: "my primary", db: 4, username: "u", password: "p", sentinelUsername: "s", sentinelPassword: "q@",
		},
		"redis+sentinel://a/m?db=2":          {hosts: []string{"a:26379"}, master: "m", db: 2},
		"unix:///run/redis%20one.sock":       {hosts: []string{"/run/redis one.sock"}},
		"unix://:secret@/run/redis.sock?db=": {},
		"unix://:secret@/run/redis.sock?db=1": {
			hosts: []string{"/run/redis.sock"}, password: "secret", db: 1,
		},
		"rediss://redis":           {hosts: []string{"redis:6379"}},
		"rediss+cluster://redis:1": {hosts: []string{"redis:1"}},
	} {
		got, err := ParseAddress(text)
		if want.hosts == nil {
			if err == nil {
				t.Errorf("%s: no error", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(text), "://")
		want.name, want.scheme = name, schemes[name]
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", text, *got, want)
		}
	}
}

// TestBadAddresses: one sentence that says what to do, without a part of what may be a password.
func TestBadAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        ": allowed is a URL such as redis://",
		"disk":                                    ` "disk": allowed is a URL`,
		"http://hunter2@x":                        ` "http": allowed is a URL`,
		"hunter2":                                 ": allowed is a URL",
		"redis:hunter2@x":                         ": allowed is a URL",
		"hunter2@x:6379":                          ": allowed is a URL",
		"HUNTER2://x":                             ": allowed is a URL",
		"redis://":                                "a host is missing, as in redis://127.0.0.1:6379",
		"redis://:hunter2@":                       "a host is missing",
		"redis://:hunter2":                        "a host is missing",
		"redis://app:hunter2":                     "a port is a whole number of 1 to 65535",
		"redis://x:0":                             "a port is a whole number of 1 to 65535",
		"redis://x:":                              "a port is",
		"redis://x:65536":                         "a port is",
		"redis://x:hunter2/0":                     "a port is",
		"redis://hunter2/hunter2":                 "a database is a whole number from 0",
		"redis://x/-1":                            "a database is",
		"redis://x/1/2":                           "a database is",
		"redis://x/99999999999":                   "a database is",
		"redis://x/1?db=2":                        "name two databases",
		"redis://x?db=hunter2":                    "a database is",
		"redis://x?db=1&db=2":                     "the parameter db is given 2 times",
		"redis://x?password=hunter2":              "the parameter password is unknown: allowed with redis:// is db",
		"redis://x?hunter2=1":                     "a parameter is unknown",
		"redis+cluster://x?db=0":                  "the parameter db is unknown: allowed with redis+cluster:// is none",
		"redis://x?%zz":                           "the URL cannot be read",
		"redis://:hun/ter2@x":                     "/ is written as %2F",
		"redis://:hun?ter2@x":                     "? as %3F",
		"redis://:hun#ter2@x":                     "# as %23",
		"redis://:hun ter2@x":                     "a space as %20",
		"redis://:hunter2%@x":                     "% as %25",
		"redis://%zz:hunter2@x":                   "% as %25",
		"redis://a,b":                             "redis:// has 2 hosts: several nodes of a cluster are written redis+cluster://",
		"redis+cluster://a,,b":                    "a host is missing",
		"redis+cluster://a/1":                     "a cluster has the database 0 alone",
		"redis+sentinel://a":                      "the name that the sentinels have for the primary is missing",
		"redis+sentinel://a//1":                   "the name that the sentinels have",
		"redis+sentinel://a/m/hunter2":            "a database is",
		"redis+sentinel://a/m?master_name=x":      "the parameter master_name is unknown: allowed with redis+sentinel:// is db, sentinel_username, sentinel_password",
		"redis://::1":                             "an IPv6 address is written in brackets",
		"redis://[::1":                            "an IPv6 address is written in brackets",
		"redis://[::1]6379":                       "an IPv6 address is written in brackets",
		"redis://[127.0.0.1]":                     "an IPv6 address is written in brackets",
		"redis://[::1]:":                          "a port is",
		"redis://hun+ter2":                        "a host is missing, or holds what no host name does",
		"unix://run/redis.sock":                   "three slashes, as in unix:///run/redis.sock",
		"unix:///":                                "three slashes",
		"unix:///run/redis.sock?sentinel_user=hu": "the parameter sentinel_user is unknown",
	} {
		a, err := ParseAddress(text)
		if err == nil {
			t.Errorf("%q: %v, no error", text, a)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") || strings.Contains(strings.ToLower(got), "hun") || strings.Contains(got, "ter2") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAddressesPrintWithoutPasswords, in whatever way they are printed.
func TestAddressesPrintWithoutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"redis://127.0.0.1":                              "redis://127.0.0.1:6379/0",
		"redis://:hunter2@[::1]:1/2":                     "redis://:xxxxx@[::1]:1/2",
		"rediss://app:hunter2@redis":                     "rediss://app:xxxxx@redis:6379/0",
		"redis+cluster://app:hunter2@a,b:2":              "redis+cluster://app:xxxxx@a:6379,b:2",
		"redis+sentinel://:hunter2@a/m/3":                "redis+sentinel://:xxxxx@a:26379/m/3",
		"redis+sentinel://a/m":                           "redis+sentinel://a:26379/m",
		"unix://:hunter2@/run/r.sock?db=1":               "unix://:xxxxx@/run/r.sock?db=1",
		"unix:///run/r.sock":                             "unix:///run/r.sock",
		"redis+sentinel://a/m?db=1":                      "redis+sentinel://a:26379/m/1",
		"redis://x:hunter2%2Fhunter2@x:1/0/":             "redis://x:xxxxx@x:1/0",
		"redis+sentinel://a/m?sentinel_password=hunter2": "redis+sentinel://a:26379/m",
	} {
		a, err := ParseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := a.String(); got != want {
			t.Errorf("%s prints as %s, want %s", text, got, want)
		}
		if printed := fmt.Sprintf("%v %+v %#v %q", a, a, a, a); strings.Contains(printed, "hunter2") {
			t.Errorf("%s prints as %s", text, printed)
		}
		if again, err := ParseAddress(strings.ReplaceAll(a.String(), "xxxxx", "hunter2")); err != nil || again.String() != want {
			t.Errorf("%s: what is printed cannot be read: %v", text, err)
		}
	}
}

// TestErrorsHideThePassword: a server that knows no HELLO repeats the arguments.
func TestErrorsHideThePassword(t *testing.T) {
	a, err := ParseAddress("redis+sentinel://:hunter2@a/m?sentinel_password=swordfish")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `hunter2`, `swordfish`")
	got := a.explain(fmt.Errorf("asking: %w", cause))
	if strings.Contains(got.Error(), "hunter2") || strings.Contains(got.Error(), "swordfish") || !strings.HasPrefix(got.Error(), "asking: ERR unknown command `HELLO`") || !errors.Is(got, cause) {
		t.Errorf("%v", got)
	}
	if plain := errors.New("ERR"); a.explain(plain) != plain {
		t.Error("an error without a password was changed")
	}
	one, _ := ParseAddress("redis://a")
	for _, text := range []string{"NOAUTH Authentication required.", "ERR Protocol error: unauthenticated multibulk length"} {
		if got := one.explain(errors.New(text)).Error(); !strings.Contains(got, "$SLIDEGATE_STORE_PASSWORD") || !strings.Contains(got, text) {
			t.Errorf("%s", got)
		}
	}
	if got := one.explain(errors.New("MOVED 1 127.0.0.1:7001")).Error(); !strings.Contains(got, "redis+cluster://") {
		t.Errorf("%s", got)
	}
}

func FuzzAddressesHideThePassword(f *testing.F) {
	f.Add("redis://", "", "", "x:1/2")
	f.Add("redis+sentinel://a", "a/b?c", "#d@e%", "b,c/m?db=1")
	f.Fuzz(func(t *testing.T, before, head, tail, after string) {
		if strings.Contains(before+after, "unter") {
			return // the text without it has it as well
		}
		a, err := ParseAddress(before + ":" + head + "hunter2" + tail + "@" + after)
		if err != nil && strings.Contains(err.Error(), "unter") || a != nil && err == nil && strings.Contains(a.String(), "unter") {
			t.Errorf("%v, %v", a, err)
		}
	})
}
