package accesslog

import (
	"bytes"
	"errors"
	"maps"
)

var errNoJSON = errors.New("the line is not a JSON object")

// jsonLines is the format in which a line is a JSON object, whose members are told by their names, those of
// objects in it with the names around them: request.remote_ip.
type jsonLines struct {
	fields Fields
	names  map[string]meaning
	from   [kinds][]byte // what the first line told
}

func newJSONLines(f Fields) *jsonLines {
	j := &jsonLines{fields: f, names: maps.Clone(meanings)}
	for name, m := range j.names {
		m.port = true
		j.names[name] = f.meaning(name, m)
	}
	maps.Copy(j.names, f.own)
	return j
}

func (j *jsonLines) String() string { return "json" }

func (j *jsonLines) describe() map[string]string { return describe(&j.from) }

// NewParser implements [Format].
func (j *jsonLines) NewParser() Parser { return &jsonParser{jsonLines: j} }

type jsonParser struct {
	*jsonLines
	assembly
	scanner
	from [kinds][]byte
}

// maxDepth is how many objects may stand around a member that is looked at.
const maxDepth = 4

// Parse implements [Parser].
func (p *jsonParser) Parse(line []byte, r *Record) error {
	p.begin(r)
	p.scanner = scanner{rest: line}
	if err := p.object(nil, 0); err != nil {
		return err
	}
	if len(p.trim()) > 0 {
		return errNoJSON
	}
	return p.finish()
}

func (p *jsonParser) object(around []byte, depth int) error {
	if !p.skip('{') {
		return errNoJSON
	}
	for more := !p.skip('}'); more; {
		name, ok := text(p.scanner.value())
		if !ok || !p.skip(':') {
			return errNoJSON
		}
		if err := p.member(p.join(around, name), depth); err != nil {
			return err
		}
		if more = p.skip(','); !more && !p.skip('}') {
			return errNoJSON
		}
	}
	return nil
}

// join returns the name of a member with those around it.
func (p *jsonParser) join(around, name []byte) []byte {
	if len(around) == 0 {
		return name
	}
	start := len(p.wrote)
	p.wrote = append(append(append(p.wrote, around...), '.'), name...)
	return p.wrote[start:len(p.wrote):len(p.wrote)]
}

func (p *jsonParser) member(name []byte, depth int) error {
	b := p.trim()
	if len(b) > 0 && b[0] == '{' && depth < maxDepth {
		return p.object(name, depth+1)
	}
	value := p.scanner.value()
	if value == nil {
		return errNoJSON
	}
	value, ok := plain(value)
	if !ok {
		return nil
	}
	m := p.names[string(name)]
	if to, ok := p.fields.renamed[string(name)]; ok {
		p.add([]byte(to), value)
	} else {
		p.add(name, value)
	}
	before := p.rank[m.kind]
	err := p.set(m, value)
	if p.rank[m.kind] != before {
		p.from[m.kind] = append(p.from[m.kind][:0], name...)
	}
	return err
}

// plain returns what a value says: a string without its quotes, of a list the first, and a number as it is.
// null and what is not Unicode say nothing.
func plain(value []byte) ([]byte, bool) {
	switch value[0] {
	case '"':
		return text(value)
	case '[':
		s := scanner{rest: value[1:]}
		if first := s.value(); first != nil && first[0] != '[' && first[0] != '{' {
			return plain(first)
		}
		return nil, false
	case '{':
		return nil, false
	}
	return value, !bytes.Equal(value, []byte("null"))
}
