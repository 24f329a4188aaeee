package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// nginx reads the string of a log_format: texts and $variables, or ${variables}.
// https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format
func nginx(text string) (*pattern, error) {
	p := &pattern{name: "nginx", text: text}
	var before []byte
	for i := 0; i < len(text); {
		if text[i] != '$' {
			before = append(before, text[i])
			i++
			continue
		}
		name, after, err := variable(text[i+1:])
		if err != nil {
			return nil, err
		}
		p.elements = append(p.elements, element{before: before, name: []byte(name), meaning: meanings[name]})
		i, before = len(text)-len(after), nil
	}
	p.tail = before
	return p.join(), p.check()
}

func variable(s string) (name, rest string, err error) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		name, rest, ok = strings.Cut(inner, "}")
		if !ok || name == "" {
			return "", "", errors.New("a ${ is not followed by a name and }")
		}
		return name, rest, nil
	}
	n := 0
	for n < len(s) && (s[n] == '_' || s[n]-'0' <= 9 || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	if n == 0 {
		return "", "", fmt.Errorf("a $ is followed by no name, at %q", "$"+s[:min(len(s), 10)])
	}
	return s[:n], s[n:], nil
}
