package source

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
)

var errNobody = errors.New("the line does not tell who asks")

// keys are those of requests by an expression.
type keys struct {
	expr  *keyexpr.Expr
	parts []part
}

// A part of an expression, and whether a record had what it asks for.
type part struct {
	text, kind, name string
	seen             atomic.Bool
}

func keysOf(e *keyexpr.Expr) *keys {
	k := &keys{expr: e}
	texts := strings.Split(e.String(), "+")
	k.parts = make([]part, len(texts))
	for i, text := range texts {
		kind, name, _ := strings.Cut(text, ":")
		k.parts[i].text, k.parts[i].kind, k.parts[i].name = text, kind, name
	}
	return k
}

// new returns what makes keys of records: as in service, a header or a cookie that a request does not have is
// replaced by its address. Events have their keys, whatever the expression is.
func (k *keys) new() accesslog.Subject {
	if k.expr.IsAddress() {
		return accesslog.ByAddress
	}
	var q http.Request
	return func(r *accesslog.Record, b []byte) ([]byte, error) {
		if r.Key != nil {
			return append(b, r.Key...), nil
		}
		r.Fill(&q)
		for i := range k.parts {
			k.parts[i].look(&q)
		}
		key := k.expr.Key(&q, string(r.Address))
		if key == "" {
			return b, errNobody
		}
		return append(b, key...), nil
	}
}

func (p *part) look(q *http.Request) {
	if !p.seen.Load() && p.in(q) {
		p.seen.Store(true)
	}
}

func (p *part) in(q *http.Request) bool {
	switch p.kind {
	case "header":
		return q.Header.Get(p.name) != ""
	case "cookie":
		_, err := q.Cookie(p.name)
		return err == nil
	case "host":
		return q.Host != ""
	case "path":
		return q.URL.Path != ""
	case "method":
		return q.Method != ""
	}
	return true
}

// missed is an error if no line had what a part of the expression asks for: all clients would have been told
// apart by something else, and the report would not say so.
func (k *keys) missed(l *accesslog.Log) error {
	if !k.expr.IsAddress() && l.HasEvents() {
		return fmt.Errorf("--key %s: %s has events, which have keys of their own", k.expr, l.Files()[0])
	}
	for i := range k.parts {
		if p := &k.parts[i]; !p.seen.Load() && p.kind != "ip" {
			return fmt.Errorf("--key %s: no line of the log has %s: it has to be in the log's format, or be named by --field", k.expr, p.text)
		}
	}
	return nil
}
