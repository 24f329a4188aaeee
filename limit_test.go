package slidegate_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

const (
	aDay  = 24 * time.Hour
	names = "1 to 64 printable ASCII characters without '=', no space at either end"
)

// TestEveryBadLimitIsNamed: one sentence with the field, the value and what is allowed.
func TestEveryBadLimitIsNamed(t *testing.T) {
	good := slidegate.PerMinute(5)
	for _, c := range []struct {
		limit slidegate.Limit
		want  string
	}{
		{slidegate.Limit{}, "quota 0: allowed is 1 to 1000000000000"},
		{slidegate.PerMinute(0).Named("burst"), `quota 0 of "burst": allowed is 1 to 1000000000000`},
		{slidegate.PerMinute(0).Named("a=b"), "quota 0: allowed is 1 to 1000000000000"}, // of no name that is none
		{slidegate.PerMinute(-1), "quota -1: allowed is 1 to 1000000000000"},
		{slidegate.PerMinute(math.MinInt64), "quota -9223372036854775808: allowed is 1 to 1000000000000"},
		{slidegate.PerMinute(slidegate.MaxQuota + 1), "quota 1000000000001: allowed is 1 to 1000000000000"},
		{slidegate.Per(0, 5), "window 0s: allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Per(-time.Second, 5), "window -1s: allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Per(time.Microsecond, 5), "window 1µs: allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Per(time.Second+1, 5), "window 1.000000001s: allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Per(3651*aDay, 5), "window 87624h0m0s: allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Per(math.MaxInt64, 5), "allowed is 1ms to 3650d in whole milliseconds"},
		{slidegate.Limit{Quota: 5, Window: time.Second, Algorithm: 2}, "algorithm algorithm(2): allowed is log or counter"},
		{good.Counter().WithResolution(time.Millisecond), "resolution 1ms: allowed is none for a counter"},
		{good.WithResolution(-time.Second), "resolution -1s: allowed is 1ms to the window of 1m in whole milliseconds"},
		{good.WithResolution(time.Microsecond), "resolution 1µs: allowed is 1ms to the window of 1m in whole milliseconds"},
		{good.WithResolution(time.Minute + time.Millisecond), "resolution 1m0.001s: allowed is 1ms to the window of 1m in whole milliseconds"},
		{good.Named(" a"), `name " a": allowed is ` + names},
		{good.Named("a "), `name "a ": allowed is ` + names},
		{good.Named(" "), `name " ": allowed is ` + names},
		{good.Named("a=b"), `name "a=b": allowed is ` + names},
		{good.Named("=a"), `name "=a": allowed is ` + names},
		{good.Named("\ta"), `name "\ta": allowed is ` + names},
		{good.Named("a\x1fb"), `name "a\x1fb": allowed is ` + names},
		{good.Named("a\tb"), `name "a\tb": allowed is ` + names},
		{good.Named("é"), `name "é": allowed is ` + names},
		{good.Named("a\x7f"), `name "a\x7f": allowed is ` + names},
		{good.Named(strings.Repeat("n", 65)), "allowed is " + names},
		{good.Named(strings.Repeat("n", 5000)), "…"},
	} {
		err := c.limit.Validate()
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+.200v: %v, want %q", c.limit, err, c.want)
		}
		if err != nil && (len(err.Error()) > 300 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("an error of %d bytes: %q", len(err.Error()), err)
		}
	}
}

// TestErrorsQuoteUpTo80Bytes: what is longer is cut there, and the error shows that it was.
func TestErrorsQuoteUpTo80Bytes(t *testing.T) {
	for size, want := range map[int]string{
		79: `"` + strings.Repeat("n", 79) + `"`,
		80: `"` + strings.Repeat("n", 80) + `"`,
		81: `"` + strings.Repeat("n", 80) + `…"`,
	} {
		if err := slidegate.PerMinute(1).Named(strings.Repeat("n", size)).Validate(); !strings.Contains(err.Error(), want) {
			t.Errorf("a name of %d bytes: %v, want %s", size, err, want)
		}
	}
}

// TestLimitsAtTheEdgesAreValid: everything that the ranges allow.
func TestLimitsAtTheEdgesAreValid(t *testing.T) {
	for _, l := range []slidegate.Limit{
		slidegate.Per(slidegate.MinWindow, 1),
		slidegate.Per(slidegate.MaxWindow, slidegate.MaxQuota),
		slidegate.Per(slidegate.MaxWindow, slidegate.MaxQuota).Counter(),
		slidegate.Per(slidegate.MinWindow, 1).WithResolution(time.Millisecond),
		slidegate.PerDay(1).WithResolution(aDay),
		slidegate.PerDay(1).WithResolution(7 * time.Millisecond),
		slidegate.PerSecond(1).Named("a b"),
		slidegate.PerSecond(1).Named(`"a/b",c;d`),
		slidegate.PerSecond(1).Named(strings.Repeat("n", slidegate.MaxNameLen)),
	} {
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
}

// TestLimitsPrintShort: the largest of d, h, m, s, ms that divides, and nothing that is a default.
func TestLimitsPrintShort(t *testing.T) {
	for _, c := range []struct {
		limit slidegate.Limit
		want  string
	}{
		{slidegate.PerMinute(100), "100/1m"},
		{slidegate.PerSecond(10), "10/1s"},
		{slidegate.PerHour(7), "7/1h"},
		{slidegate.PerDay(1_000_000), "1000000/1d"},
		{slidegate.Per(90*time.Second, 5), "5/90s"},
		{slidegate.Per(90*time.Minute, 5), "5/90m"},
		{slidegate.Per(36*time.Hour, 5), "5/36h"},
		{slidegate.Per(48*time.Hour, 5), "5/2d"},
		{slidegate.Per(1500*time.Millisecond, 5), "5/1500ms"},
		{slidegate.Per(time.Millisecond, 1), "1/1ms"},
		{slidegate.Per(slidegate.MaxWindow, slidegate.MaxQuota), "1000000000000/3650d"},
		{slidegate.PerMinute(100).Counter(), "100/1m,counter"},
		{slidegate.PerMinute(100).Named("burst"), "burst=100/1m"},
		{slidegate.PerMinute(100).Named("100/1m"), "100/1m"},
		{slidegate.PerMinute(100).Counter().Named("100/1m"), "100/1m=100/1m,counter"},
		{slidegate.PerDay(1e6).Named("day").WithResolution(time.Minute), "day=1000000/1d,resolution=1m"},
		{slidegate.PerDay(1e5).Named("plan").Counter(), "plan=100000/1d,counter"},
	} {
		if got := c.limit.String(); got != c.want {
			t.Errorf("%#v prints %q, want %q", c.limit, got, c.want)
		}
	}
}

// TestParseLimitReadsTheTextForm, with what may be left out.
func TestParseLimitReadsTheTextForm(t *testing.T) {
	for text, want := range map[string]slidegate.Limit{
		"100/m":                       slidegate.PerMinute(100),
		"100/1m":                      slidegate.PerMinute(100),
		"100/60s":                     slidegate.PerMinute(100),
		"10/s":                        slidegate.PerSecond(10),
		"1/ms":                        slidegate.Per(time.Millisecond, 1),
		"1/h":                         slidegate.PerHour(1),
		"1/d":                         slidegate.PerDay(1),
		"5/15m":                       slidegate.Per(15*time.Minute, 5),
		"5/1d12h":                     slidegate.Per(36*time.Hour, 5),
		"5/1.5d":                      slidegate.Per(36*time.Hour, 5),
		"5/1h30m":                     slidegate.Per(90*time.Minute, 5),
		"007/s":                       slidegate.PerSecond(7),
		"5/s,log":                     slidegate.PerSecond(5),
		"5/s,counter":                 slidegate.PerSecond(5).Counter(),
		"burst=10/1s":                 slidegate.PerSecond(10).Named("burst"),
		"a/b, c=10/1s":                slidegate.PerSecond(10).Named("a/b, c"),
		"day=1000000/1d,resolution=m": slidegate.PerDay(1e6).Named("day").WithResolution(time.Minute),
		"5/m,resolution=1s":           slidegate.PerMinute(5).WithResolution(time.Second),
		"5/m,resolution=1s,log":       slidegate.PerMinute(5).WithResolution(time.Second),
		"5/m,log,resolution=1s":       slidegate.PerMinute(5).WithResolution(time.Second),
		"plan=100000/1d,counter":      slidegate.PerDay(100_000).Named("plan").Counter(),
		"1000000000000/3650d":         slidegate.Per(slidegate.MaxWindow, slidegate.MaxQuota),
	} {
		if got, err := slidegate.ParseLimit(text); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestEveryUnreadableLimitIsNamed: the error quotes the text and says what is wrong with it.
func TestEveryUnreadableLimitIsNamed(t *testing.T) {
	const form = "the form is [name=]QUOTA/WINDOW[,log|,counter][,resolution=DUR], such as 100/1m"
	for text, want := range map[string]string{
		"":                                `"": ` + form,
		"100":                             `"100": ` + form,
		"burst=100":                       `"burst=100": ` + form,
		"/":                               `the quota "" is not a whole number from 1 to 1000000000000`,
		"/1m":                             `the quota "" is not a whole number from 1 to 1000000000000`,
		"x/1m":                            `the quota "x" is not a whole number`,
		"+5/1m":                           `the quota "+5" is not a whole number`,
		"-5/1m":                           `the quota "-5" is not a whole number`,
		" 5/1m":                           `the quota " 5" is not a whole number`,
		"1e3/1m":                          `the quota "1e3" is not a whole number`,
		"1.5/1m":                          `the quota "1.5" is not a whole number`,
		"1_000/1m":                        `the quota "1_000" is not a whole number`,
		"٣/1m":                            `the quota "٣" is not a whole number`,
		"99999999999999999999/1m":         `the quota "99999999999999999999" is not a whole number`,
		"0/1m":                            "quota 0: allowed is 1 to 1000000000000",
		"9223372036854775807/1m":          "quota 9223372036854775807: allowed is 1 to 1000000000000",
		"5/m,resolution=0.000001ms":       "resolution 1ns: allowed is 1ms to the window of 1m",
		"1000000000001/1m":                "quota 1000000000001: allowed is 1 to 1000000000000",
		"n=0/1m":                          `quota 0 of "n": allowed is 1 to 1000000000000`,
		"5/":                              `the window "" is not a duration such as 10s, 15m, 1h or 1d`,
		"5/60":                            `the window "60" is not a duration`,
		"5/1 m":                           `the window "1 m" is not a duration`,
		"5/1m ":                           `the window "1m " is not a duration`,
		"5/1w":                            `the window "1w" is not a duration`,
		"5/1m/2":                          `the window "1m/2" is not a duration`,
		"5/99999999999999d":               `the window "99999999999999d" is not a duration`,
		"5/-1m":                           "window -1m0s: allowed is 1ms to 3650d",
		"5/0s":                            "window 0s: allowed is 1ms to 3650d",
		"5/1us":                           "window 1µs: allowed is 1ms to 3650d",
		"5/3651d":                         "allowed is 1ms to 3650d",
		"5/m,":                            `the option "" is not one of log, counter, resolution=DUR`,
		"5/m,fixed":                       `the option "fixed" is not one of log, counter, resolution=DUR`,
		"5/m,Counter":                     `the option "Counter" is not one of`,
		"5/m, counter":                    `the option " counter" is not one of`,
		"5/m,log,counter":                 `the option "counter" is not one of log, counter, resolution=DUR, each at most once and one algorithm`,
		"5/m,counter,counter":             `the option "counter" is not one of`,
		"5/m,resolution":                  `the option "resolution" is not one of`,
		"5/m,resolution=":                 `the resolution "" is not a duration such as 10ms, 1s or 1m`,
		"5/m,resolution=0s":               `the resolution "0s" is not a duration`,
		"5/m,resolution=1":                `the resolution "1" is not a duration`,
		"5/m,resolution=1s,resolution=1s": `the option "resolution=1s" is not one of`,
		"5/m,resolution=2m":               "resolution 2m0s: allowed is 1ms to the window of 1m",
		"5/m,counter,resolution=1s":       "resolution 1s: allowed is none for a counter",
		"=5/m":                            `name "": allowed is ` + names,
		" n=5/m":                          `name " n": allowed is ` + names,
		"n =5/m":                          `name "n ": allowed is ` + names,
		"é=5/m":                           `name "é": allowed is ` + names,
		"a=b=5/m":                         `the quota "b=5" is not a whole number`,
		strings.Repeat("9", 5000):         "…",
		"5/" + strings.Repeat("m", 5000):  "…",
	} {
		got, err := slidegate.ParseLimit(text)
		if !errors.Is(err, slidegate.ErrInvalidLimit) || !strings.Contains(err.Error(), want) || got != (slidegate.Limit{}) {
			t.Errorf("%.60q: %+v, %v; want %q", text, got, err, want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.60q: an error of %d bytes", text, len(err.Error()))
		}
	}
}

// TestDurations: those of Go, "d" as the first unit, and a missing number that means one.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": aDay,
		"1d": aDay, "1.5d": 36 * time.Hour, ".5d": 12 * time.Hour, "1d12h": 36 * time.Hour, "1d1ms": aDay + time.Millisecond,
		"d12h": 36 * time.Hour, "-1d": -aDay, "+1d": aDay, "0d": 0, "0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-1m": -time.Minute,
		"106751d": 106751 * aDay, "1d0s": aDay, "0d5s": 5 * time.Second, "0d0s": 0,
		"106751d23h47m16.854775807s": math.MaxInt64,
		"106751.99116730064583334d":  math.MaxInt64 / 24 * 24, // the longest that days alone come to
		"-106751.99116730064583334d": math.MinInt64 / 24 * 24,
	} {
		if got, err := slidegate.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "1", "x", "-", "+", ".", "1x", "1 d", "1d ", "1d1d", "1dd", "-1d12h", "1d-1h", "1d+1h", "1d1", "d1", "1e3d", "0x1d",
		"106752d", "106751d24h", "106751d23h47m16.854775808s", "106751.9911673006462d", "-106751.9911673006462d", "1d-1ns", "9999999999999999999d", "1h1d", "1m1d", "1h1.5d", "--1d",
	} {
		got, err := slidegate.ParseDuration(text)
		if err == nil || got != 0 {
			t.Errorf("%q is read as %s, %v; want an error", text, got, err)
		} else if !strings.Contains(err.Error(), "is not a duration: write a number and one of d, h, m, s, ms, such as 90s or 1d") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLimitsStandInFiles by their text form.
func TestLimitsStandInFiles(t *testing.T) {
	type file struct{ Limits []slidegate.Limit }
	const text = `{"Limits":["burst=10/1s","100000/1d,counter"]}`
	var f file
	if err := json.Unmarshal([]byte(text), &f); err != nil || len(f.Limits) != 2 || f.Limits[0] != slidegate.PerSecond(10).Named("burst") {
		t.Fatalf("read as %+v, %v", f, err)
	}
	if b, err := json.Marshal(f); err != nil || string(b) != text {
		t.Errorf("written as %s, %v", b, err)
	}
	if err := json.Unmarshal([]byte(`{"Limits":["10/never"]}`), &f); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a bad limit in a file: %v", err)
	}
	kept := slidegate.PerSecond(3)
	if err := kept.UnmarshalText([]byte("nonsense")); err == nil || kept != slidegate.PerSecond(3) {
		t.Errorf("a failed read left %+v, %v", kept, err)
	}
	if _, err := json.Marshal(file{[]slidegate.Limit{{}}}); !errors.Is(err, slidegate.ErrInvalidLimit) {
		t.Errorf("a limit that cannot be built was written: %v", err)
	}
}

func TestAlgorithmsHaveNames(t *testing.T) {
	for a, want := range map[slidegate.Algorithm]string{slidegate.SlidingLog: "log", slidegate.SlidingCounter: "counter", 9: "algorithm(9)"} {
		if got := a.String(); got != want {
			t.Errorf("%d is called %q, want %q", a, got, want)
		}
	}
}
