package slidegate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxLimits is the number of limits that one [Limiter] may hold.
const MaxLimits = 8

// The ranges of a [Limit].
const (
	MaxQuota   = 1_000_000_000_000     // units
	MinWindow  = time.Millisecond      // windows are whole milliseconds
	MaxWindow  = 3650 * 24 * time.Hour // ten years, near enough
	MaxNameLen = 64                    // bytes of a name
	day        = 24 * time.Hour        // no calendar: a day is 24 hours
)

// Algorithm says how a [Limit] counts.
type Algorithm uint8

const (
	// SlidingLog is exact, and the default: every admitted charge is kept with its time, and
	// no window of the limit's length ever holds more than its quota.
	SlidingLog Algorithm = iota

	// SlidingCounter weighs the counts of two aligned windows. It needs constant memory and is
	// an approximation: somebody who tries can get up to twice the quota through one true window.
	SlidingCounter
)

// String returns "log" or "counter".
func (a Algorithm) String() string {
	switch a {
	case SlidingLog:
		return "log"
	case SlidingCounter:
		return "counter"
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// A Limit admits at most Quota units per Window.
//
// The state of a limit is found by key, Name, Algorithm and Window, never by Quota or
// Resolution, so a named limit keeps its history when its quota changes. A limit without a
// name is called by its text form without resolution, such as "100/1m", which names the quota:
// changing the quota of an unnamed limit starts afresh.
type Limit struct {
	// Name tells limits of one limiter apart, in answers, header fields and stored keys: 1 to 64
	// printable ASCII characters without '=', no space at either end. Default: the text form.
	Name string

	// Quota is the number of units that fit in a window, 1 to 10^12.
	Quota int64

	// Window is the length of the window, 1 ms to 3650 days, in whole milliseconds.
	Window time.Duration

	// Algorithm is SlidingLog unless said otherwise.
	Algorithm Algorithm

	// Resolution of a log is 1 ms unless said otherwise, at most Window, in whole milliseconds.
	// A charge is recorded at a multiple of it, rounded up, which bounds the entries of a window
	// to Window/Resolution + 1 and holds units back up to one resolution longer. A counter has none.
	Resolution time.Duration
}

// Per returns the limit of quota units in each window. It does not validate; [New] does.
func Per(window time.Duration, quota int64) Limit { return Limit{Quota: quota, Window: window} }

// PerSecond returns the limit of quota units a second.
func PerSecond(quota int64) Limit { return Per(time.Second, quota) }

// PerMinute returns the limit of quota units a minute.
func PerMinute(quota int64) Limit { return Per(time.Minute, quota) }

// PerHour returns the limit of quota units an hour.
func PerHour(quota int64) Limit { return Per(time.Hour, quota) }

// PerDay returns the limit of quota units in 24 hours.
func PerDay(quota int64) Limit { return Per(day, quota) }

// Named returns the limit under a name.
func (l Limit) Named(name string) Limit { l.Name = name; return l }

// Counter returns the limit counted by [SlidingCounter].
func (l Limit) Counter() Limit { l.Algorithm = SlidingCounter; return l }

// WithResolution returns the limit with its charges recorded at multiples of d.
func (l Limit) WithResolution(d time.Duration) Limit { l.Resolution = d; return l }

// Validate reports what is wrong with the limit, if anything. The error wraps [ErrInvalidLimit]
// and names the field, its value and what is allowed.
func (l Limit) Validate() error {
	switch {
	case l.Quota < 1 || l.Quota > MaxQuota:
		return l.invalid("quota", strconv.FormatInt(l.Quota, 10), "1 to "+strconv.Itoa(MaxQuota))
	case l.Window < MinWindow || l.Window > MaxWindow || l.Window%time.Millisecond != 0:
		return l.invalid("window", l.Window.String(), "1ms to 3650d in whole milliseconds")
	case l.Algorithm > SlidingCounter:
		return l.invalid("algorithm", l.Algorithm.String(), "log or counter")
	case l.Algorithm == SlidingCounter && l.Resolution != 0:
		return l.invalid("resolution", l.Resolution.String(), "none for a counter")
	case l.Resolution < 0 || l.Resolution > l.Window || l.Resolution%time.Millisecond != 0:
		return l.invalid("resolution", l.Resolution.String(), "1ms to the window of "+formatDuration(l.Window)+" in whole milliseconds")
	case l.Name != "" && !validName(l.Name):
		return l.invalid("name", strconv.Quote(clip(l.Name)), "1 to 64 printable ASCII characters without '=', no space at either end")
	}
	return nil
}

func (l Limit) invalid(field, value, allowed string) error {
	of := ""
	if l.Name != "" && field != "name" && validName(l.Name) {
		of = " of " + strconv.Quote(l.Name)
	}
	return fmt.Errorf("%w: %s %s%s: allowed is %s", ErrInvalidLimit, field, value, of, allowed)
}

// clip keeps what an error quotes to a readable length.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

func validName(s string) bool {
	if s == "" || len(s) > MaxNameLen || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' || s[i] == '=' {
			return false
		}
	}
	return true
}

// defaultName is the text form without name and resolution.
func (l Limit) defaultName() string {
	s := strconv.FormatInt(l.Quota, 10) + "/" + formatDuration(l.Window)
	if l.Algorithm == SlidingCounter {
		s += ",counter"
	}
	return s
}

// named returns the limit with its name filled in.
func (l Limit) named() Limit {
	if l.Name == "" {
		l.Name = l.defaultName()
	}
	return l
}

// String returns the text form, which [ParseLimit] reads back:
// [name=]QUOTA/WINDOW[,counter][,resolution=DUR].
func (l Limit) String() string {
	s := l.defaultName()
	if l.Name != "" && l.Name != s {
		s = l.Name + "=" + s
	}
	if l.Resolution != 0 {
		s += ",resolution=" + formatDuration(l.Resolution)
	}
	return s
}

// MarshalText and UnmarshalText are the text form, so that limits stand in flags and files as
// they are spoken of.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), l.Validate() }

// UnmarshalText reads what [ParseLimit] reads.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// ParseLimit reads the text form of a limit: [name=]QUOTA/WINDOW[,log|,counter][,resolution=DUR],
// such as "100/1m", "burst=10/s", "day=1000000/1d,resolution=1m", "plan=100000/1d,counter".
// Durations are those of Go and "d" for 24 hours; a missing number means one. The limit is
// valid; every error wraps [ErrInvalidLimit].
func ParseLimit(s string) (Limit, error) {
	var l Limit
	text := s
	// A name ends at the first '='. The '=' of a resolution is no such end: no '/' follows it.
	if name, rest, ok := strings.Cut(s, "="); ok && strings.Contains(rest, "/") {
		if !validName(name) {
			return Limit{}, l.invalid("name", strconv.Quote(clip(name)), "1 to 64 printable ASCII characters without '=', no space at either end")
		}
		l.Name, text = name, rest
	}
	quota, rest, ok := strings.Cut(text, "/")
	if !ok {
		return Limit{}, unreadable(s, "the form is [name=]QUOTA/WINDOW[,log|,counter][,resolution=DUR], such as 100/1m")
	}
	var err error
	if l.Quota, err = parseQuota(quota); err != nil {
		return Limit{}, unreadable(s, "the quota "+strconv.Quote(clip(quota))+" is not a whole number from 1 to "+strconv.Itoa(MaxQuota))
	}
	window, options, more := strings.Cut(rest, ",")
	if l.Window, err = ParseDuration(window); err != nil {
		return Limit{}, unreadable(s, "the window "+strconv.Quote(clip(window))+" is not a duration such as 10s, 15m, 1h or 1d")
	}
	if err := l.parseOptions(s, options, more); err != nil {
		return Limit{}, err
	}
	if err := l.Validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

func (l *Limit) parseOptions(s, options string, more bool) error {
	algorithm := false
	for more {
		var option string
		option, options, more = strings.Cut(options, ",")
		value, isResolution := strings.CutPrefix(option, "resolution=")
		switch {
		case isResolution && l.Resolution == 0:
			d, err := ParseDuration(value)
			if err != nil || d <= 0 {
				return unreadable(s, "the resolution "+strconv.Quote(clip(value))+" is not a duration such as 10ms, 1s or 1m")
			}
			l.Resolution = d
		case option == "log" && !algorithm:
			l.Algorithm, algorithm = SlidingLog, true
		case option == "counter" && !algorithm:
			l.Algorithm, algorithm = SlidingCounter, true
		default:
			return unreadable(s, "the option "+strconv.Quote(clip(option))+" is not one of log, counter, resolution=DUR, each at most once and one algorithm")
		}
	}
	return nil
}

func unreadable(s, why string) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalidLimit, strconv.Quote(clip(s)), why)
}

func parseQuota(s string) (int64, error) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

// ParseDuration reads a Go duration that may also use "d" for 24 hours, as its first unit: "1d",
// "1d12h", "1.5d". A missing number means one: "m" is a minute. It is how limits are written in
// text, offered so that a program's other durations can be written alike.
func ParseDuration(s string) (time.Duration, error) {
	text := s
	if text != "" && (text[0] < '0' || text[0] > '9') && text[0] != '.' && text[0] != '-' && text[0] != '+' {
		text = "1" + text
	}
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, badDuration(s)
		}
		return d, nil
	}
	hours, err := time.ParseDuration(number + "h")
	if strings.ContainsAny(number, "nuµmsh") { // days come first
		return 0, badDuration(s)
	}
	if err != nil || hours > math.MaxInt64/24 || hours < math.MinInt64/24 {
		return 0, badDuration(s)
	}
	d := hours * 24
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || rest[0] == '+' || d < 0 || d > math.MaxInt64-more {
		return 0, badDuration(s)
	}
	return d + more, nil
}

func badDuration(s string) error {
	return fmt.Errorf("slidegate: %s is not a duration: write a number and one of d, h, m, s, ms, such as 90s or 1d", strconv.Quote(clip(s)))
}

// formatDuration uses the largest of d, h, m, s, ms that divides.
func formatDuration(d time.Duration) string {
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d != 0 && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return d.String()
}
