package slidegate_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
)

// FuzzParseLimit: what is read is valid and prints as what reads the same; what is not read is an
// error of readable length that wraps ErrInvalidLimit. Nothing panics.
func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{
		"100/m", "burst=10/1s", "day=1000000/1d,resolution=1m", "plan=100000/1d,counter", "5/15m,log", "a/b=1/ms",
		"100/1m=100/1m,counter", "=1/s", "1/s,resolution=1/2", "1/-1s", "1000000000000/3650d", "1/1h1d", "\xff=1/s", "1/0.5d,resolution=d",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := slidegate.ParseLimit(text)
		if err != nil {
			if !errors.Is(err, slidegate.ErrInvalidLimit) || len(err.Error()) > 1000 || l != (slidegate.Limit{}) {
				t.Fatalf("%q: %+v, %v", text, l, err)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q is read as a limit that is not valid: %v", text, err)
		}
		printed := l.String()
		again, err := slidegate.ParseLimit(printed)
		if err != nil {
			t.Fatalf("%q prints %q, which is not read: %v", text, printed, err)
		}
		// The printed form leaves out a name that is the default.
		if l.Name != "" && again.Name == "" {
			again.Name = l.Name
			if bare := again.Named("").String(); !strings.HasPrefix(bare, l.Name) {
				t.Fatalf("%q lost its name: it prints %q", text, printed)
			}
		}
		if again != l || again.String() != printed {
			t.Fatalf("%q is %+v and prints %q, which is %+v", text, l, printed, again)
		}
	})
}

// FuzzParseDuration: without a "d" and with a number it reads what Go reads, and a number of days
// is so many times 24 hours.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1d", "1.5d", "d12h", "-1d", "1h30m", "m", "", "µs", "1d-1h", "1h1d", "106751d", "9e9d", "\x80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := slidegate.ParseDuration(text)
		if err != nil && (got != 0 || len(err.Error()) > 1000 || !utf8.ValidString(err.Error())) {
			t.Fatalf("%q: %s, %q", text, got, err)
		}
		days, rest, hasDays := strings.Cut(text, "d")
		if !hasDays {
			want, wantErr := time.ParseDuration(text)
			if wantErr == nil && (err != nil || got != want) {
				t.Fatalf("%q is %s, %v; Go reads %s", text, got, err, want)
			}
			if one, oneErr := time.ParseDuration("1" + text); wantErr != nil && err == nil && (oneErr != nil || got != one) {
				t.Fatalf("%q is %s; Go reads neither it nor 1%s so", text, got, text)
			}
			return
		}
		if err == nil && strings.ContainsAny(days, "hmsuµμn") {
			t.Fatalf("%q is read as %s though days come first", text, got)
		}
		if want, wantErr := time.ParseDuration(days + "h"); err == nil && rest == "" && days != "" && wantErr == nil && got != 24*want {
			t.Fatalf("%q is read as %s, want %s", text, got, 24*want)
		}
	})
}
