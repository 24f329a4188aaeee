package accesslog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// addSamples seeds a target with the samples whose format is of a kind.
func addSamples(f *testing.F, of func(format string) bool, add func(format, text string)) {
	f.Helper()
	for _, s := range samples {
		name := s.told
		if s.format != "" {
			name = s.format
		}
		if of(name) {
			add(name, s.text)
		}
	}
}

// FuzzPattern: whatever a format and a line are, nothing panics; what is read is in the line, and reading it in brief,
// or after another line, comes to the same.
func FuzzPattern(f *testing.F) {
	addSamples(f, func(format string) bool { return strings.ContainsAny(format, "$%") }, func(format, text string) { f.Add(format, text) })
	f.Add(`%h %l %u %t "%r" %>s %b`, samples[0].text)
	f.Add("${msec} $remote_addr $uri$is_args$args", "1.5 ::1 /?")
	f.Fuzz(func(t *testing.T, format, line string) {
		p, err := parsePattern(format, Fields{})
		if err != nil {
			return
		}
		parser := p.NewParser()
		var r, again, brief Record
		err = parser.Parse([]byte(line), &r)
		first := r.Time
		if readAgain := parser.Parse([]byte(line), &again); err != readAgain || err == nil && again.Time != first {
			t.Errorf("%q, %q: %v, then %v", format, line, err, readAgain)
		}
		if err != nil {
			return
		}
		if briefly := newParser(p, true).Parse([]byte(line), &brief); briefly != nil || brief.Time != r.Time || !bytes.Equal(brief.Address, r.Address) {
			t.Errorf("%q, %q: in brief %v, %d, %q", format, line, briefly, brief.Time, brief.Address)
		}
		if !isAddress(r.Address) || r.Time < firstTime-1e12 || r.Time > lastTime+1e12 {
			t.Errorf("%q, %q: %q at %d", format, line, r.Address, r.Time)
		}
	})
}

// FuzzJSON: what is read is what encoding/json reads, and nothing panics.
func FuzzJSON(f *testing.F) {
	addSamples(f, func(format string) bool { return format == "json" }, func(_, text string) { f.Add([]byte(text)) })
	f.Add([]byte(`{"time":1,"ip":"::1","a":{"b":{"c":{"d":{"e":{"f":1}}}}},"x":["y",{"z":[]}]}`))
	format := newJSONLines(Fields{})
	f.Fuzz(func(t *testing.T, line []byte) {
		var r Record
		if err := format.NewParser().Parse(line, &r); err != nil {
			return
		}
		for _, field := range r.fields {
			if !json.Valid(line) {
				return // a log may be laxer than its reader
			}
			var all map[string]any
			if err := json.Unmarshal(line, &all); err != nil {
				t.Fatalf("%q was read, but %v", line, err)
			}
			if !within(all, strings.Split(string(field.name), ".")) {
				t.Errorf("%q: a field %q", line, field.name)
			}
		}
		if !isAddress(r.Address) {
			t.Errorf("%q: %q", line, r.Address)
		}
	})
}

// within tells whether there is a member by a path, whose parts may have points in them.
func within(all map[string]any, path []string) bool {
	for n := 1; n <= len(path); n++ {
		v, ok := all[strings.Join(path[:n], ".")]
		if !ok {
			continue
		}
		if inner, isObject := v.(map[string]any); n == len(path) || isObject && within(inner, path[n:]) {
			return true
		}
	}
	return false
}

// FuzzColumns: a line is split as encoding/csv splits it, and nothing panics.
func FuzzColumns(f *testing.F) {
	addSamples(f, func(format string) bool { return format == "csv" || format == "tsv" }, func(format, text string) { f.Add(text) })
	f.Add(`a,"b ""c"" d",,"",e`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") {
			return
		}
		c := columns{comma: ','}
		var r Record
		var got []string
		err := c.split(&r, []byte(line), func(_ int, value []byte) error {
			got = append(got, string(value))
			return nil
		})
		reader := csv.NewReader(strings.NewReader(line))
		want, wrong := reader.Read()
		if line == "" || wrong != nil {
			return // encoding/csv wants no quote within a value that does not begin with one
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	})
}

// twoDigits are the hours of RFC 3339; package time takes one digit as well.
var twoDigits = regexp.MustCompile(`T\d\d:`)

// FuzzTime: what is read as a date is what package time reads.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2000-10-10T13:55:36.123Z", "2000-10-10 13:55:36,5+0100", "10/Oct/2000:13:55:36 -0700", "971186136.123456", "1e9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c clock
		got, ok := c.read([]byte(text))
		if again, same := c.read([]byte(text)); got != again || ok != same {
			t.Errorf("%q: %d, %v and then %d, %v", text, got, ok, again, same)
		}
		if want, err := time.Parse(time.RFC3339, text); err == nil && twoDigits.MatchString(text) && (!ok || got != want.UnixMilli()) {
			t.Errorf("%q: %d, %v; package time reads %d", text, got, ok, want.UnixMilli())
		}
	})
}

// FuzzLook: whatever a file begins with, its format is told or not, and nothing panics.
func FuzzLook(f *testing.F) {
	addSamples(f, func(string) bool { return true }, func(_, text string) { f.Add([]byte(text)) })
	f.Fuzz(func(t *testing.T, text []byte) {
		var s sniffer
		if err := s.look(text, true); err != nil || s.format == nil || s.header > 0 {
			return
		}
		var r Record
		for line := range bytes.Lines(text) {
			if s.format.NewParser().Parse(bytes.TrimRight(line, "\r\n"), &r) == nil {
				return
			}
		}
		t.Errorf("%q is told as %s, and no line can be read so", text, s.format)
	})
}
