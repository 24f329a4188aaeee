package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// A Setting is a flag of the command that a file sets, under the same name and without the dashes.
type Setting struct {
	Name   string
	Values []string // one, unless the flag is a list
	Line   int
}

func (s Setting) String() string { return redacted(strings.Join(s.Values, ", ")) }

// notInFiles are flags that a file cannot set: limits stand in rules.
var notInFiles = []string{"config", "help", "limit"}

// settable returns the flags that a file may set, by their names.
func settable(flags *pflag.FlagSet) (all []*pflag.Flag) {
	if flags == nil {
		return nil
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFiles, f.Name) {
			all = append(all, f)
		}
	})
	return all
}

func (f *File) otherNames() (names []string) {
	for _, flag := range settable(f.flags) {
		names = append(names, flag.Name)
	}
	return names
}

// readOther reads a field that is none of the rules: the setting of a flag.
func (f *File) readOther(d *decoder, name string, key, value *yaml.Node) bool {
	switch name {
	case "limit", "limits":
		d.errorf(key.Line, "%s outside of a rule: limits stand in rules, as in rules: [{name: all, limits: 100/1m}]", name)
		return true
	case "config", "help":
		return false
	}
	if f.flags == nil || f.flags.Lookup(name) == nil {
		return false
	}
	flag := f.flags.Lookup(name)
	items := []*yaml.Node{value}
	if isList(flag) && value.Kind == yaml.SequenceNode {
		items = value.Content
	}
	s := Setting{Name: name, Line: key.Line}
	for _, item := range items {
		if text, ok := f.setting(d, flag, item); ok {
			s.Values = append(s.Values, text)
		}
	}
	f.Settings = append(f.Settings, s)
	return true
}

// setting reads one value of a flag.
func (f *File) setting(d *decoder, flag *pflag.Flag, n *yaml.Node) (string, bool) {
	kind := "!!str"
	switch flag.Value.Type() {
	case "int", "int64":
		kind = "!!int"
	case "bool":
		kind = "!!bool"
	}
	text, ok := d.scalar(flag.Name, n, kind)
	if !ok {
		return "", false
	}
	if kind != "!!str" && n.ShortTag() != kind {
		d.errorf(n.Line, "%s %q: allowed is %s", flag.Name, text, config.Allowed(flag))
		return "", false
	}
	if flag.Value.Type() == "duration" {
		var l Duration
		if err := l.UnmarshalText([]byte(text)); err != nil {
			d.errorf(n.Line, "%s %q: %v", flag.Name, text, err)
			return "", false
		}
		text = l.Duration.String()
	}
	if words := config.Words(flag); len(words) > 0 && !slices.Contains(words, text) {
		d.errorf(n.Line, "%s %q: %sallowed is %s", flag.Name, text, didYouMean(text, words), inWords(words))
		return "", false
	}
	if isList(flag) && strings.Contains(text, ",") {
		d.errorf(n.Line, "%s %q: several values are a list, as in [a, b]", flag.Name, text)
		return "", false
	}
	return text, true
}

func isList(f *pflag.Flag) bool {
	return strings.HasSuffix(f.Value.Type(), "Slice") || strings.HasSuffix(f.Value.Type(), "Array")
}

// Apply sets the flags that the file has and that nothing else has set. What is on the command line, or in a variable,
// is said by whoever started the process, and holds.
func (f *File) Apply(flags *pflag.FlagSet) error {
	for _, s := range f.Settings {
		flag := flags.Lookup(s.Name)
		if flag == nil || flag.Changed {
			continue
		}
		for _, value := range s.Values {
			if err := flags.Set(s.Name, value); err != nil {
				return Problems{{f.Name, s.Line, fmt.Sprintf("%s %q: allowed is %s", s.Name, redacted(value), config.Allowed(flag))}}
			}
		}
		config.Mark(flag, f.Name, s.Line)
	}
	return nil
}

// Setting returns the values of a setting, none if the file has it not.
func (f *File) Setting(name string) []string {
	for _, s := range f.Settings {
		if s.Name == name {
			return s.Values
		}
	}
	return nil
}
