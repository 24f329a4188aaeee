package rules

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A decoder fills the types of this package from YAML and notes everything that is wrong, with its line. The
// types say what a file may hold: a field is named by its yaml tag, and a type of text by its UnmarshalText.
type decoder struct {
	file     string
	problems Problems
}

func (d *decoder) errorf(line int, format string, args ...any) {
	d.problems = append(d.problems, Problem{d.file, line, fmt.Sprintf(format, args...)})
}

// A nodeReader reads itself where no scalar, list or mapping will do.
type nodeReader interface {
	readNode(d *decoder, field string, n *yaml.Node)
}

// A lines is a mapping that knows where its fields are.
type lines struct {
	start int
	of    map[string]int
}

func (l *lines) place(start int, of map[string]int) { l.start, l.of = start, of }

// line returns where a field is, or where the mapping begins.
func (l *lines) line(field string) int {
	if at, ok := l.of[field]; ok {
		return at
	}
	return l.start
}

// has tells whether the file has the field.
func (l *lines) has(field string) bool { _, ok := l.of[field]; return ok }

type placed interface {
	place(start int, of map[string]int)
}

// parse returns the document of a file, nil where there is none.
func (d *decoder) parse(text []byte) *yaml.Node {
	var documents [2]yaml.Node
	reader := yaml.NewDecoder(strings.NewReader(string(text)))
	for i := range documents {
		err := reader.Decode(&documents[i])
		switch {
		case err != nil && err.Error() == "EOF":
		case err != nil:
			d.errorf(brokenLine(text, lineOf(err)), "this is no YAML: %s", withoutLine.ReplaceAllString(err.Error(), ""))
			return nil
		}
	}
	if documents[1].Kind != 0 {
		d.errorf(documents[1].Line, "a second document: allowed is one")
	}
	if documents[0].Kind == 0 || len(documents[0].Content) == 0 {
		d.errorf(0, "the file is empty: give it rules")
		return nil
	}
	left := mostNodes
	root := d.withoutAliases(documents[0].Content[0], nil, &left)
	if left < 0 {
		d.errorf(0, "the file has more than %d values, its aliases written out", mostNodes)
		return nil
	}
	return root
}

// mostNodes bounds what a small file may become by aliases of aliases.
const mostNodes = 1 << 20

// withoutAliases returns a node with what its aliases stand for in their place. One inside of what it stands for
// is a problem.
func (d *decoder) withoutAliases(n *yaml.Node, inside []*yaml.Node, left *int) *yaml.Node {
	line := n.Line
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *left--; *left < 0 || len(n.Content) == 0 {
		return n
	}
	if slices.Contains(inside, n) {
		d.errorf(line, "the alias of %s stands in itself", n.Anchor)
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: line}
	}
	same := *n
	same.Content = make([]*yaml.Node, len(n.Content))
	for i, part := range n.Content {
		same.Content[i] = d.withoutAliases(part, append(inside, n), left)
	}
	return &same
}

var withoutLine = regexp.MustCompile(`^yaml: (line (\d+): )?`)

// mostBroken bounds what is looked at for the line of a mistake, which takes as many readings as there are lines behind it.
const mostBroken = 32 << 10

// brokenLine is the line after the longest beginning of a file that is YAML. What the library says, said, is where the list or the
// mapping around the mistake begins, which may be the first line.
func brokenLine(text []byte, said int) int {
	if len(text) > mostBroken {
		return said
	}
	text = bytes.TrimRight(text, "\n")
	for end := bytes.LastIndexByte(text, '\n'); end >= 0; end = bytes.LastIndexByte(text, '\n') {
		text = text[:end]
		var node yaml.Node
		if yaml.Unmarshal(text, &node) == nil {
			return bytes.Count(text, []byte("\n")) + 2
		}
	}
	return said
}

func lineOf(err error) int {
	if m := withoutLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[2])
		return line
	}
	return 0
}

// value reads a node into what v points to; field is what it is called.
func (d *decoder) value(field string, n *yaml.Node, v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case nodeReader:
		at.readNode(d, field, n)
		return
	case encoding.TextUnmarshaler:
		d.text(field, n, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		before := len(d.problems)
		v.Set(reflect.New(v.Type().Elem()))
		if d.value(field, n, v.Elem()); len(d.problems) > before && !isMapping(v.Type()) {
			v.SetZero() // nothing is better than half of something
		}
	case reflect.Struct:
		d.structure(field, n, v)
	case reflect.Slice:
		d.list(field, n, v)
	case reflect.Map:
		d.table(field, n, v)
	case reflect.String:
		if text, ok := d.scalar(field, n); ok {
			v.SetString(text)
		}
	case reflect.Int:
		d.number(field, n, v)
	default:
		panic("rules: no file can hold a " + v.Type().String())
	}
}

// scalar returns the text of a node that is one value. What YAML takes for something else than text is a problem,
// as it is for the schema, unless it is of one of the kinds.
func (d *decoder) scalar(field string, n *yaml.Node, kinds ...string) (string, bool) {
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
		d.errorf(n.Line, "%s is %s: allowed is one value", field, kindOf(n))
		return "", false
	case tag == "!!null":
		d.errorf(n.Line, "%s has no value: give one, or leave it out", field)
		return "", false
	case tag != "!!str" && !slices.Contains(kinds, tag):
		example := ""
		if field == "limits" || field == "strikes" {
			example = ", such as 5/1m"
		}
		d.errorf(n.Line, "%s %s: YAML takes it for no text: write a text%s, or put it in quotes", field, n.Value, example)
		return "", false
	}
	return n.Value, true
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.ShortTag() == "!!null":
		return "empty"
	}
	return strconv.Quote(shortened(redacted(n.Value)))
}

// mostQuoted bounds, in bytes, what an error quotes of a value: where the file is none of rules, all of it is one.
const mostQuoted = 200

func shortened(text string) string {
	if len(text) <= mostQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:mostQuoted], "") + "…"
}

func (d *decoder) text(field string, n *yaml.Node, to encoding.TextUnmarshaler) {
	text, ok := d.scalar(field, n)
	if !ok {
		return
	}
	if err := to.UnmarshalText([]byte(text)); err != nil {
		d.errorf(n.Line, "%s %q: %v", field, redacted(text), err)
	}
}

var credentials = regexp.MustCompile(`(://[^\s/:@]*:)\S*@`)

// redacted is a text without the password of a URL, which may be where none belongs.
func redacted(text string) string { return credentials.ReplaceAllString(text, "${1}xxxxx@") }

func (d *decoder) number(field string, n *yaml.Node, v reflect.Value) {
	number, err := strconv.Atoi(n.Value)
	if err != nil || n.ShortTag() != "!!int" {
		d.errorf(n.Line, "%s %s: allowed is a whole number", field, kindOf(n))
		return
	}
	v.SetInt(int64(number))
}

// list reads several values. One alone needs no list around it, unless it is a mapping.
func (d *decoder) list(field string, n *yaml.Node, v reflect.Value) {
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" && !isMapping(v.Type().Elem()):
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		d.errorf(n.Line, "%s is %s: allowed is a list", field, kindOf(n))
		return
	case len(items) == 0:
		d.errorf(n.Line, "%s is an empty list: give a value, or leave it out", field)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if isMapping(v.Type().Elem()) {
			d.value(fmt.Sprintf("%s %d", strings.TrimSuffix(field, "s"), i+1), item, v.Index(i))
			continue
		}
		d.value(field, item, v.Index(i))
	}
}

func isMapping(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch reflect.New(t).Interface().(type) {
	case nodeReader, encoding.TextUnmarshaler:
		return false
	}
	return t.Kind() == reflect.Struct
}

// pairs calls f with every name of a mapping and what it stands for. A name that is there twice is a problem.
func (d *decoder) pairs(field string, n *yaml.Node, f func(name string, key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.errorf(n.Line, "%s is %s: allowed are names with values, as in name: value", field, kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			d.errorf(key.Line, "<< in %s: fields are not merged: write them out, or give a value an alias", field)
			continue
		}
		name, ok := d.scalar(field+": a name", key)
		if !ok {
			continue
		}
		if first, twice := seen[name]; twice {
			d.errorf(key.Line, "%q is there twice in %s: it is in line %d already", name, field, first)
			continue
		}
		seen[name] = key.Line
		f(name, key, value)
	}
}

// table reads a mapping whose names are free.
func (d *decoder) table(field string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(field, n, func(name string, key, value *yaml.Node) {
		k, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		d.value(field, key, k)
		d.value(field+" "+name, value, item)
		v.SetMapIndex(k, item)
	})
}

// structure reads a mapping whose names are the fields of a struct.
func (d *decoder) structure(field string, n *yaml.Node, v reflect.Value) {
	known := fieldsOf(v.Type())
	at := map[string]int{}
	d.pairs(field, n, func(name string, key, value *yaml.Node) {
		at[name] = key.Line
		if i, ok := known.index[name]; ok {
			d.value(name, value, v.Field(i))
			return
		}
		if other, ok := v.Addr().Interface().(interface {
			readOther(d *decoder, name string, key, value *yaml.Node) bool
		}); ok && other.readOther(d, name, key, value) {
			return
		}
		names := known.names
		if more, ok := v.Addr().Interface().(interface{ otherNames() []string }); ok {
			names = append(more.otherNames(), names...)
		}
		d.errorf(key.Line, "unknown field %q in %s: %sallowed is %s", name, field, didYouMean(name, names), inWords(names))
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, name := range known.required {
		if _, ok := at[name]; !ok {
			d.errorf(n.Line, "%s has no %s: it needs one", field, name)
		}
	}
	if p, ok := v.Addr().Interface().(placed); ok {
		p.place(n.Line, at)
	}
}

// fields are what a file may hold of a struct, by the yaml tags.
type fields struct {
	names, required []string
	index           map[string]int
}

func fieldsOf(t reflect.Type) fields {
	f := fields{index: map[string]int{}}
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("yaml")
		if !ok {
			continue
		}
		name, rest, _ := strings.Cut(tag, ",")
		f.names = append(f.names, name)
		f.index[name] = i
		if rest == "required" {
			f.required = append(f.required, name)
		}
	}
	return f
}
