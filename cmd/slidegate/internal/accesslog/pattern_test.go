package accesslog

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCommonLines(t *testing.T) {
	const march = 1_614_556_800_000 // 2021-03-01T00:00:00Z
	for _, c := range []struct {
		line, key string
		t         int64
		err       error
	}{
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march, nil},
		{`2001:db8::1 - - [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1 "-" "x"`, "2001:db8::1", march, nil},
		{`fe80::1%eth0 - - [01/Mar/2021:00:00:00 +0000] "GET /`, "fe80::1%eth0", march, nil},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +0000]`, "10.0.0.1", march, nil},
		{`10.0.0.1 - [a [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march, nil},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +0000`, "10.0.0.1", march, nil},
		{`10.0.0.1 - - [2021-03-01T00:00:00.000+00:00] x`, "10.0.0.1", march, nil},
		{`10.0.0.1 - a[b [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march, nil},
		{`10.0.0.1 - Jane Doe [01/Mar/2021:05:30:00 +0530] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march, nil},
		{`10.0.0.1 - - [28/Feb/2021:19:00:01 -0500] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march + 1000, nil},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00.1239 +0000] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march + 123, nil},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00.5 +0000] "GET / HTTP/1.0" 200 1`, "10.0.0.1", march + 500, nil},
		{`10.0.0.1 - - [29/Feb/2020:23:59:59 +0000] x`, "10.0.0.1", 1_583_020_799_000, nil},
		{`10.0.0.1 - - [31/Dec/1969:23:59:59 +0000] x`, "10.0.0.1", -1000, nil},

		{``, "", 0, errNoAddress},
		{`10.0.0.1`, "", 0, errNoTime},
		{` 10.0.0.1 - - [01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoAddress},
		{`host.example - - [01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoAddress},
		{`- - - [01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoAddress},
		{`10.0.0.1:80 - - [01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoAddress},
		{`10.0.0.256 - - [01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoAddress},
		{`10.0.0.1 - - 01/Mar/2021:00:00:00 +0000 x`, "", 0, errNoTime},
		{`10.0.0.1 - -[01/Mar/2021:00:00:00 +0000] x`, "", 0, errNoTime},
		{`10.0.0.1 - - [`, "", 0, errNoTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00]`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +00000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 0000] xx`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 UTC  ] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/mar/2021:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mrz/2021:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [00/Mar/2021:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [32/Mar/2021:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [29/Feb/2021:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:24:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:60:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:60 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:0x +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021 00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/20 1:00:00:00 +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +2400] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00 +0060] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00. +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00.1x +0000] x`, "", 0, errBadTime},
		{`10.0.0.1 - - [01/Mar/2021:00:00:00.1111111111111`, "", 0, errBadTime},
	} {
		var r Record
		err := commonPattern.NewParser().Parse([]byte(c.line), &r)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.line, err, c.err)
			continue
		}
		if err == nil && (string(r.Address) != c.key || r.Time != c.t || r.Cost != 1 || r.Op != Take) {
			t.Errorf("%s: %+v, want %d", c.line, r, c.t)
		}
	}
}

// TestMinuteRemembered: a line is read alike whatever the line before it was.
func TestMinuteRemembered(t *testing.T) {
	stamps := []string{"01/Mar/2021:00:00:59 +0000", "01/Mar/2021:00:01:00 +0000", "01/Mar/2021:00:01:00 -0500",
		"01/Mar/2021:00:00:00.25 +0000", "31/Feb/2021:00:00:00 +0000", "01/Jan/1970:00:00:00 +0000", strings.Repeat("\x00", 17) + ":00 \x00\x00\x00\x00\x00"}
	for _, first := range stamps {
		for _, second := range stamps {
			var used, fresh clock
			used.read([]byte(first))
			got, ok := used.read([]byte(second))
			want, alone := fresh.read([]byte(second))
			if got != want || ok != alone {
				t.Errorf("%s after %s: %d, %v; alone %d, %v", second, first, got, ok, want, alone)
			}
		}
	}
}

// FuzzCommon: what is read is what package time reads, and nothing panics.
func FuzzCommon(f *testing.F) {
	f.Add([]byte(`10.0.0.1 - - [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1`))
	f.Add([]byte(`2001:db8::1 - a[b [29/Feb/2020:23:59:59.999 -1130] "GET / HTTP/1.0" 200 1 "-" "x"`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Record
		if err := commonPattern.NewParser().Parse(line, &r); err != nil {
			return
		}
		address, rest, _ := strings.Cut(string(line), " ")
		if string(r.Address) != address {
			t.Errorf("%q: address %q", line, r.Address)
		}
		_, rest, _ = strings.Cut(rest, " ") // the logname
		_, rest, _ = strings.Cut(rest, " [")
		written, _, _ := strings.Cut(rest, "]")
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", written)
		if err != nil || want.UnixMilli() != r.Time {
			t.Errorf("%q: %d, package time reads %v, %v", line, r.Time, want.UnixMilli(), err)
		}
	})
}
