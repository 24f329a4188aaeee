package accesslog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Format is a way in which logs are written. It is safe for concurrent use.
type Format interface {
	// String names the format, or is the string that it was made of.
	String() string

	// NewParser returns a parser, which is for one goroutine.
	NewParser() Parser
}

// A Parser reads lines of one format.
type Parser interface {
	// Parse reads a line, without its end, into a record, which is good until the next line. The
	// error says why the line cannot be read. It is the same value for every such line where that
	// can be, so bad lines are cheap too.
	Parse(line []byte, r *Record) error
}

// Events is the format in which a line is an event: a JSON object with the members t, op, key and cost.
var Events Format = events{}

// FormatNames are the names that [ParseFormat] knows, and auto, for which there is no format.
var FormatNames = []string{"auto", "jsonl", "common", "combined", "vhost_combined", "alb"}

// FormatUsage says what a flag for formats takes.
const FormatUsage = "how the log is written: auto, jsonl, common, combined, vhost_combined, alb, nginx's string of a log_format or Apache's of a LogFormat"

// ParseFormat returns the format of a name in [FormatNames], or of the string that nginx (with $) or
// Apache (with %) was given to write the log; nil for auto. The error says what is allowed.
func ParseFormat(text string, names FieldNames) (Format, error) {
	switch text {
	case "auto":
		return nil, nil
	case "jsonl":
		return Events, nil
	case "common":
		return commonPattern, nil
	case "combined":
		return combinedPattern, nil
	case "vhost_combined":
		return vhostPattern, nil
	case "alb":
		return albPattern, nil
	}
	compile := map[bool]func(string) (*pattern, error){true: nginx, false: apache}[strings.Contains(text, "$")]
	if !strings.ContainsAny(text, "$%") {
		return nil, fmt.Errorf("%q: allowed is %s, or the string of nginx's log_format or of Apache's LogFormat", text, strings.Join(FormatNames, ", "))
	}
	p, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return p, nil
}

// FieldNames are names of fields that a log has for what records are made of.
type FieldNames map[string]string

// sniff returns the format of the first line of a text that can be read in one, and when its request was;
// a nil format if no line can. It looks at whole lines alone, unless the text has ended.
func sniff(text []byte, ended bool, asked Format) (f Format, first int64) {
	var p Parser
	if asked != nil {
		p = asked.NewParser()
	}
	var r Record
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, newline)
		if !whole && !ended {
			return nil, 0
		}
		line = bytes.TrimSuffix(line, carriageReturn)
		text = rest
		if p != nil {
			if p.Parse(line, &r) == nil {
				return asked, r.Time
			}
			continue
		}
		if f := formatOf(line, &r); f != nil {
			return f, r.Time
		}
	}
	return nil, 0
}

// albTypes are what a line of an Application Load Balancer can begin with.
var albTypes = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

func formatOf(line []byte, r *Record) Format {
	word, _, _ := bytes.Cut(line, space)
	switch {
	case Events.NewParser().Parse(line, r) == nil:
		return Events
	case slices.Contains(albTypes, string(word)):
		return readBy(line, r, albPattern)
	}
	access := readBy(line, r, commonPattern)
	if access == nil {
		return readBy(line, r, vhostPattern)
	}
	if bytes.Count(line, []byte{'"'}) >= 6 { // request, referer and agent
		return combinedPattern
	}
	return access
}

// readBy returns the format if the line can be read in it.
func readBy(line []byte, r *Record, f Format) Format {
	if f.NewParser().Parse(line, r) != nil {
		return nil
	}
	return f
}
