package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errQuote = errors.New("a quote is not closed on the line, or something stands behind it")

// columns is the format in which values stand between commas or tabs, as RFC 4180 has it, but that a
// value ends with its line.
type columns struct {
	name   string
	comma  byte
	fields Fields
	column []column // nil: the first line of a file names them
}

type column struct {
	name, asked []byte // as it stands there, and as a record has it
	meaning
}

func (c *columns) String() string { return c.name }

func (c *columns) describe() map[string]string {
	var from [kinds][]byte
	var ranks [kinds]uint8
	for _, column := range c.column {
		if k := column.kind; k != other && (from[k] == nil || column.rank < ranks[k]) {
			from[k], ranks[k] = column.name, column.rank
		}
	}
	return describe(&from)
}

// named returns the format with columns of these names. The error says which is missing.
func (c *columns) named(names []string) (*columns, error) {
	with := *c
	with.column = nil
	var has [kinds]bool
	for _, name := range names {
		name = strings.TrimSpace(name)
		base, ok := meanings[name]
		if !ok {
			base = meanings[strings.ReplaceAll(strings.ToLower(name), " ", "_")]
		}
		base.port = true
		m := c.fields.meaning(name, base)
		has[m.kind] = true
		with.column = append(with.column, column{[]byte(name), c.fields.name(name), m})
	}
	switch {
	case !has[timeOfRequest]:
		return nil, fmt.Errorf("no column is the time (known are time, timestamp and the names of nginx, Caddy, Traefik and Envoy; --field time=NAME names another): %s", strings.Join(names, ", "))
	case !has[address]:
		return nil, fmt.Errorf("no column is the client's address (known are ip, client_ip and the names of nginx, Caddy, Traefik and Envoy; --field ip=NAME names another): %s", strings.Join(names, ", "))
	}
	return &with, nil
}

// headed returns the format with the columns that the first line of a file names.
func (c *columns) headed(line []byte) (*columns, error) {
	var names []string
	var r Record
	err := c.split(&r, line, func(_ int, value []byte) error {
		names = append(names, string(value))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.named(names)
}

// split calls f for every value of a line.
func (c *columns) split(r *Record, line []byte, f func(i int, value []byte) error) error {
	for i := 0; ; i++ {
		value, rest, more, err := c.next(r, line)
		if err != nil {
			return err
		}
		if err := f(i, value); err != nil {
			return err
		}
		if line = rest; !more {
			return nil
		}
	}
}

func (c *columns) next(r *Record, line []byte) (value, rest []byte, more bool, err error) {
	if len(line) == 0 || line[0] != '"' {
		value, rest, more = bytes.Cut(line, []byte{c.comma})
		return value, rest, more, nil
	}
	doubled := false
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] != '"':
			continue
		case i+1 < len(line) && line[i+1] == '"':
			doubled = true
			i++
			continue
		}
		if value = line[1:i]; doubled {
			value = r.undouble(value)
		}
		if rest = line[i+1:]; len(rest) == 0 {
			return value, nil, false, nil
		}
		if rest[0] != c.comma {
			break
		}
		return value, rest[1:], true, nil
	}
	return nil, nil, false, errQuote
}

// undouble makes one quote of two.
func (r *Record) undouble(b []byte) []byte {
	start := len(r.wrote)
	for i := 0; i < len(b); i++ {
		if r.wrote = append(r.wrote, b[i]); b[i] == '"' {
			i++
		}
	}
	return r.wrote[start:len(r.wrote):len(r.wrote)]
}

// NewParser implements [Format].
func (c *columns) NewParser() Parser {
	p := &columnsParser{columns: c}
	p.take = p.value // once, so that no line allocates it
	return p
}

type columnsParser struct {
	*columns
	assembly
	take func(i int, value []byte) error
}

// Parse implements [Parser].
func (p *columnsParser) Parse(line []byte, r *Record) error {
	p.begin(r)
	if err := p.split(r, line, p.take); err != nil {
		return err
	}
	return p.finish()
}

func (p *columnsParser) value(i int, value []byte) error {
	if i >= len(p.column) || len(value) == 0 {
		return nil
	}
	c := &p.column[i]
	p.add(c.asked, value)
	return p.set(c.meaning, value)
}

// guessColumns returns the format of a line that names columns; nil if it does not name what is needed.
func guessColumns(line []byte, f Fields) *columns {
	for _, c := range []*columns{{name: "csv", comma: ',', fields: f}, {name: "tsv", comma: '\t', fields: f}, {name: "csv", comma: ';', fields: f}} {
		if bytes.IndexByte(line, c.comma) < 0 {
			continue
		}
		if with, err := c.headed(line); err == nil && with.plausible() {
			return with
		}
	}
	return nil
}

// plausible tells names of columns from a line that has some by chance.
func (c *columns) plausible() bool {
	return !slices.ContainsFunc(c.column, func(c column) bool { return bytes.ContainsAny(c.name, `{}"`) })
}
