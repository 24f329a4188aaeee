package rules

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// object is a part of a schema.
type object = map[string]any

// Schema returns the JSON Schema of files, of draft 2020-12, for editors to complete and check by. It is made of the
// types that files are read into and of the flags that a file may set, so it allows no field that Read does not. Read
// checks more.
func Schema(flags *pflag.FlagSet) []byte {
	s := schemaOf(reflect.TypeFor[File]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Rules of slidegate"
	properties := s["properties"].(object)
	for _, flag := range settable(flags) {
		properties[flag.Name] = schemaOfFlag(flag)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("rules: " + err.Error())
	}
	return append(text, '\n')
}

// The types whose schema is not that of their kind.
var schemas = map[reflect.Type]object{
	reflect.TypeFor[Name]():        {"type": "string", "pattern": namePattern},
	reflect.TypeFor[Match]():       {"enum": matches},
	reflect.TypeFor[Mode]():        {"enum": modes},
	reflect.TypeFor[Policy]():      {"enum": policies},
	reflect.TypeFor[Method]():      {"enum": methods},
	reflect.TypeFor[Format]():      {"enum": formats},
	reflect.TypeFor[Host]():        {"type": "string", "pattern": hostPattern},
	reflect.TypeFor[Path]():        {"type": "string", "pattern": pathPattern},
	reflect.TypeFor[Network]():     {"type": "string", "pattern": `^[0-9a-fA-F:.]+(/[0-9]{1,3})?$`},
	reflect.TypeFor[Field]():       {"type": "string", "pattern": fieldPattern},
	reflect.TypeFor[HeaderName]():  {"type": "string", "pattern": headerNamePattern},
	reflect.TypeFor[Key]():         {"type": "string", "pattern": `^[^+]+(\+[^+]+)*$`},
	reflect.TypeFor[Limit]():       {"type": "string", "pattern": limitPattern},
	reflect.TypeFor[Duration]():    {"type": "string", "pattern": durationPattern},
	reflect.TypeFor[Entry]():       {"type": "string", "minLength": 1},
	reflect.TypeFor[URL]():         {"type": "string", "pattern": `^(http|https|h2c)://`},
	reflect.TypeFor[OverrideKey](): {"type": "string", "minLength": 1, "maxLength": maxKey},
	reflect.TypeFor[JSON]():        {},
	reflect.TypeFor[Cost](): {"oneOf": []object{
		{"type": "integer", "minimum": 1, "maximum": slidegate.MaxQuota}, {"type": "string", "pattern": headerNamePattern},
	}},
	reflect.TypeFor[Status](): {"oneOf": []object{
		{"type": "integer", "minimum": 200, "maximum": 599}, {"type": "string", "pattern": statusPattern},
	}},
	reflect.TypeFor[HeaderTest](): {"oneOf": []object{
		{"type": "boolean"}, {"type": "string"}, {"type": "array", "items": object{"type": "string"}, "minItems": 1},
	}},
	reflect.TypeFor[Limits](): {"oneOf": []object{
		{"enum": []string{unlimited, blocked}},
		{"type": "string", "pattern": limitPattern},
		{"type": "array", "items": object{"type": "string", "pattern": limitPattern}, "minItems": 1, "maxItems": slidegate.MaxLimits},
	}},
}

const durationPattern = `^([0-9.]*(d|h|m|s|ms))+$`

func schemaOf(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem())
	}
	if s, ok := schemas[t]; ok {
		return copied(s)
	}
	switch t.Kind() {
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Slice:
		list := object{"type": "array", "items": schemaOf(t.Elem()), "minItems": 1}
		if isMapping(t.Elem()) {
			return list
		}
		return object{"oneOf": []object{schemaOf(t.Elem()), list}}
	case reflect.Map:
		return object{"type": "object", "propertyNames": schemaOf(t.Key()), "additionalProperties": schemaOf(t.Elem())}
	case reflect.Int:
		return object{"type": "integer"}
	}
	return object{"type": "string"}
}

func schemaOfStruct(t reflect.Type) object {
	properties := object{}
	for i := range t.NumField() {
		field := t.Field(i)
		if tag, ok := field.Tag.Lookup("yaml"); ok {
			name, _, _ := strings.Cut(tag, ",")
			s := schemaOf(field.Type)
			s["description"] = field.Tag.Get("doc")
			properties[name] = s
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if required := fieldsOf(t).required; len(required) > 0 {
		s["required"] = required
	}
	return s
}

func schemaOfFlag(f *pflag.Flag) object {
	one := object{"type": "string"}
	switch f.Value.Type() {
	case "int", "int64":
		one["type"] = "integer"
	case "bool":
		one["type"] = "boolean"
	case "duration":
		one["pattern"] = durationPattern
	}
	if words := config.Words(f); len(words) > 0 {
		one = object{"enum": words}
	}
	if isList(f) {
		one["pattern"] = "^[^,]*$"
		one = object{"oneOf": []object{one, {"type": "array", "items": copied(one), "minItems": 1}}}
	}
	usage, _, _ := strings.Cut(f.Usage, " [$")
	one["description"] = "--" + f.Name + ": " + strings.ReplaceAll(usage, "`", "")
	return one
}

func copied(s object) object {
	c := object{}
	for k, v := range s {
		c[k] = v
	}
	return c
}
