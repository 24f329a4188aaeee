package accesslog

import (
	"bytes"
	"fmt"
	"math"
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

// briefly is a format of which the time and the address can be had for less than all.
type briefly interface{ newBriefParser() Parser }

func newParser(f Format, brief bool) Parser {
	if b, ok := f.(briefly); ok && brief {
		return b.newBriefParser()
	}
	return f.NewParser()
}

// Events is the format in which a line is an event: a JSON object with the members t, op, key and cost.
var Events Format = events{}

// FormatNames are the names that [ParseFormat] knows, and auto, for which there is no format.
var FormatNames = []string{"auto", "jsonl", "common", "combined", "vhost_combined", "alb", "json", "csv", "tsv"}

// FormatUsage says what a flag for formats takes.
const FormatUsage = "how the log is written: auto, jsonl, common, combined, vhost_combined, alb, json, csv, tsv, nginx's string of a log_format or Apache's of a LogFormat"

// ParseFormat returns the format of a name in [FormatNames], or of the string that nginx (with $) or
// Apache (with %) was given to write the log; nil for auto. names are those of the columns of csv and tsv; without
// them the first line of each file names them. The error says what is allowed.
func ParseFormat(text string, f Fields, names []string) (Format, error) {
	if len(names) > 0 && text != "csv" && text != "tsv" {
		return nil, fmt.Errorf("%q: columns have names in csv and tsv alone", text)
	}
	switch text {
	case "auto":
		return nil, nil
	case "jsonl":
		return Events, nil
	case "json":
		return newJSONLines(f), nil
	case "csv", "tsv":
		return namedColumns(text, f, names)
	}
	if i := slices.IndexFunc(patterns, func(p *pattern) bool { return p.name == text }); i >= 0 {
		return f.of(patterns[i]), nil
	}
	return parsePattern(text, f)
}

func namedColumns(text string, f Fields, names []string) (Format, error) {
	c := &columns{name: text, comma: ',', fields: f}
	if text == "tsv" {
		c.comma = '\t'
	}
	if len(names) == 0 {
		return c, nil
	}
	with, err := c.named(names)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return with, nil
}

func parsePattern(text string, f Fields) (Format, error) {
	compile := apache
	switch {
	case strings.Contains(text, "$"):
		compile = nginx
	case !strings.Contains(text, "%"):
		return nil, fmt.Errorf("%q: allowed is %s, or the string of nginx's log_format or of Apache's LogFormat", text, strings.Join(FormatNames, ", "))
	}
	p, err := compile(text)
	if err == nil {
		p = f.of(p)
		err = p.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return p, nil
}

// A sniffer looks at the first lines of a file.
type sniffer struct {
	asked  Format // nil: to be found out
	fields Fields

	format Format // nil if no line could be read
	first  int64  // when the request of the first line was that could be read, the least there is if none could
	header int64  // the number of the line that names columns, 0 if there is none
}

// look reads a text until a line can be read. It looks at whole lines alone, unless the text has ended.
func (s *sniffer) look(text []byte, ended bool) error {
	s.format, s.header, s.first = nil, 0, math.MinInt64
	as := s.asked
	var r Record
	for n := int64(1); len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, newline)
		if !whole && !ended {
			return nil
		}
		text, line = rest, bytes.TrimSuffix(line, carriageReturn)
		if isBlank(line) {
			continue
		}
		named, err := s.names(as, line)
		if err != nil {
			return err
		}
		if named != nil {
			as, s.header = named, n
			if len(text) == 0 && ended {
				s.format = as
			}
			continue
		}
		if s.format = s.of(as, line, &r); s.format != nil {
			s.first = r.Time
			return nil
		}
	}
	return nil
}

// names returns the format in which a line names the columns of those that follow, nil if it does not.
func (s *sniffer) names(as Format, line []byte) (Format, error) {
	if s.header > 0 {
		return nil, nil
	}
	if c, ok := as.(*columns); ok && c.column == nil {
		return c.headed(line)
	}
	if as == nil {
		if c := guessColumns(line, s.fields); c != nil {
			return c, nil
		}
	}
	return nil, nil
}

// of returns the format of a line, nil if it cannot be read.
func (s *sniffer) of(as Format, line []byte, r *Record) Format {
	if as == nil {
		return s.guess(line, r)
	}
	return readBy(line, r, as)
}

// albTypes are what a line of an Application Load Balancer can begin with.
var albTypes = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

func (s *sniffer) guess(line []byte, r *Record) Format {
	word, _, _ := bytes.Cut(line, space)
	switch {
	case Events.NewParser().Parse(line, r) == nil:
		return Events
	case line[0] == '{':
		return readBy(line, r, newJSONLines(s.fields))
	case slices.Contains(albTypes, string(word)):
		return readBy(line, r, s.fields.of(albPattern))
	}
	access := readBy(line, r, s.fields.of(commonPattern))
	if access == nil {
		return readBy(line, r, s.fields.of(vhostPattern))
	}
	if bytes.Count(line, []byte{'"'}) >= 6 { // request, referer and agent
		return readBy(line, r, s.fields.of(combinedPattern))
	}
	return access
}

// readBy returns the format if the line can be read in it, with what the line told of it.
func readBy(line []byte, r *Record, f Format) Format {
	p := f.NewParser()
	if p.Parse(line, r) != nil {
		return nil
	}
	if j, ok := p.(*jsonParser); ok {
		told := *j.jsonLines
		told.from = j.from
		return &told
	}
	return f
}
