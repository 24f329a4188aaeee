package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// apache reads the string of a LogFormat: texts and directives such as %h, %>s and %{Referer}i.
// https://httpd.apache.org/docs/current/mod/mod_log_config.html#formats
func apache(text string) (*pattern, error) {
	p := &pattern{name: "apache", text: text}
	var before []byte
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			before = append(before, unquoted(text[i+1]))
			i += 2
			continue
		case c != '%':
			before = append(before, c)
			i++
			continue
		case strings.HasPrefix(text[i:], "%%"):
			before = append(before, '%')
			i += 2
			continue
		}
		d, n, err := directiveAt(text[i:])
		if err != nil {
			return nil, err
		}
		e, err := d.element()
		if err != nil {
			return nil, err
		}
		i += n
		bracketed := d.letter == 't' && d.argument == ""
		if bracketed {
			before = append(before, '[')
		}
		e.before = before
		p.elements = append(p.elements, e)
		if before = nil; bracketed {
			before = []byte{']'}
		}
	}
	p.tail = before
	return p.join(), p.check()
}

// unquoted is what a backslash and a character are in the file of a configuration.
func unquoted(c byte) byte {
	switch c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	}
	return c
}

// A directive is %, perhaps with conditions and an argument in braces, and a letter.
type directive struct {
	argument string
	letter   byte
	text     string
}

func directiveAt(s string) (d directive, n int, err error) {
	i := 1
	for i < len(s) && (s[i] == '<' || s[i] == '>' || s[i] == '!' || s[i] == ',' || s[i]-'0' <= 9) {
		i++
	}
	if i < len(s) && s[i] == '{' {
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return d, 0, errors.New("a %{ has no }")
		}
		d.argument = s[i+1 : i+end]
		i += end + 1
	}
	for i < len(s) && (s[i] == '<' || s[i] == '>') {
		i++
	}
	if i == len(s) {
		return d, 0, errors.New("a % is followed by no directive")
	}
	d.letter, d.text = s[i], s[:i+1]
	if s[i] == '^' && i+2 < len(s) { // %^FB, %^ti, %^to: two letters
		return d, i + 3, nil
	}
	return d, i + 1, nil
}

// What the letters stand for, under the names of nginx.
var apacheNames = map[byte]string{
	'a': "remote_addr", 'h': "remote_addr", 'l': "remote_logname", 'u': "remote_user", 'r': "request",
	'm': "request_method", 'U': "uri", 'q': "args", 'H': "server_protocol", 's': "status",
	'b': "body_bytes_sent", 'B': "body_bytes_sent", 'O': "bytes_sent", 'I': "request_length",
	'v': "server_name", 'V': "host", 'p': "server_port", 'A': "server_addr", 'P': "pid", 'X': "connection_status",
	'k': "connection_requests", 'L': "log_id", 'f': "request_filename", 'R': "handler",
}

func (d directive) element() (element, error) {
	header := strings.ReplaceAll(strings.ToLower(d.argument), "-", "_")
	switch d.letter {
	case 't':
		return d.time()
	case 'i':
		name := "http_" + header
		return element{name: []byte(name), meaning: meanings[name]}, nil
	case 'C':
		return element{name: []byte("cookie_" + d.argument)}, nil
	case 'o':
		return element{name: []byte("sent_http_" + header)}, nil
	case 'e', 'n', '^':
		return element{name: []byte(d.argument)}, nil
	case 'D', 'T', 'S':
		// How long it took is no matter here: the time is that at which the request came.
		return element{name: []byte(d.text)}, nil
	case 'a', 'p':
		if d.argument != "" && d.argument != "c" && d.argument != "canonical" && d.argument != "local" && d.argument != "remote" {
			return element{}, fmt.Errorf("%s is no directive", d.text)
		}
	}
	name, ok := apacheNames[d.letter]
	if !ok {
		return element{}, fmt.Errorf("%s is no directive", d.text)
	}
	m := meanings[name]
	if d.letter == 'a' && d.argument == "c" {
		m.rank++ // the client itself tells more than who is connected
	}
	return element{name: []byte(name), meaning: m}, nil
}

// time is %t, or a part of it.
func (d directive) time() (element, error) {
	e := element{meaning: meaning{kind: timeOfRequest, rank: 1}}
	format := strings.TrimPrefix(d.argument, "begin:")
	if ended, ok := strings.CutPrefix(format, "end:"); ok {
		format = ended
	}
	switch format {
	case "":
		e.name = []byte("time_local")
	case "sec", "msec", "usec", "%s":
		e.clock.kind = epochPart
	case "msec_frac":
		e.clock.kind = milliFraction
	case "usec_frac":
		e.clock.kind = microFraction
	case "%z":
		e.clock.kind = zonePart
	default:
		layout, err := layoutOf(format)
		if err != nil {
			return e, fmt.Errorf("%s: %w", d.text, err)
		}
		e.clock = clockPart{laidOut, layout}
	}
	return e, nil
}

// layouts are the conversions of strftime as package time writes them.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'D': "01/02/06",
	'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'R': "15:04", 'S': "05",
	'T': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", '%': "%",
}

func layoutOf(format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return "", errors.New("the format of the time ends in %")
		}
		layout, ok := layouts[format[i]]
		if !ok {
			return "", fmt.Errorf("%%%c of the format of the time is not read", format[i])
		}
		b.WriteString(layout)
	}
	return b.String(), nil
}
