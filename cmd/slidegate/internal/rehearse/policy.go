// Package rehearse holds the requests of a log to policies, on the log's own clock: limits for every client, or the rules
// of a file.
//
//	policy, err := rehearse.Limits([]string{"burst=10/1s", "100/1m"}, "ip")
//	book := rehearse.NewBook(policy)
//	log, tl, err := source.Read(...) // with book.Subjects
//	book.Of(&tl.Subjects)
//	judge, err := policy.Judge(rehearse.AsGiven)
//	err = tl.Each(ctx, func(e *timeline.Event) error {
//		verdict, err := judge.Decide(ctx, e, book.Asked(e))
//		...
//	})
//
// A record becomes who asked and what each policy makes of it, as the bytes that package timeline numbers, so memory is for
// distinct ones and not for requests.
package rehearse

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
	"github.com/slidegate/slidegate/memstore"
)

// A Policy is what the requests of a log are held to.
type Policy struct {
	Name   string            // as it was given
	Limits []slidegate.Limit // with their names; none where there is a file
	File   *rules.File       // nil where there are limits

	key     *keyexpr.Expr
	options rules.Options
	matcher *rules.Rehearsal // which decides nothing
	needs   []rules.Need
	met     []atomic.Bool // whether a record had what is needed
}

// File reads a file of rules as serve does. key is that of the command line, empty for none.
func File(path, key string) (*Policy, error) {
	f, o, err := serve.RulesOf(path, key)
	if err != nil {
		return nil, err
	}
	p := &Policy{Name: path, File: f, key: o.Key, options: o, needs: f.Needs(o.Key)}
	p.met = make([]atomic.Bool, len(p.needs))
	o.Store = NewMemory(Fixed, 1).Store() // nothing is asked of it
	p.matcher, err = rules.NewRehearsal(f, o)
	return p, err
}

// Limits reads limits for every client, whom key tells apart; empty is ip.
func Limits(texts []string, key string) (*Policy, error) {
	limits, err := config.Limits(texts)
	if err != nil {
		return nil, err
	}
	store := memstore.New()
	defer store.Close()
	// The names and the number of limits are checked, and names filled in, by making a limiter of them.
	limiter, err := slidegate.New(store, limits...)
	if err != nil {
		return nil, config.Usagef("--limit: %w", err)
	}
	if key == "" {
		key = "ip"
	}
	expr, err := keyexpr.Parse(strings.TrimSpace(key))
	if err != nil {
		return nil, config.Usagef("--%w", err)
	}
	p := &Policy{Name: strings.Join(texts, ";"), Limits: limiter.Limits(), key: expr}
	for _, part := range expr.Parts() {
		if part != "ip" && part != "path" {
			p.needs = append(p.needs, rules.Need{Part: part, For: []string{"--key"}})
		}
	}
	p.met = make([]atomic.Bool, len(p.needs))
	return p, nil
}

// limitList is what begins a list of limits: a quota, with or without a name.
var limitList = regexp.MustCompile(`^\s*([^/=;]*=)?\s*[0-9_]+/`)

// Parse reads a policy from one text: limits with ; between them, as in burst=10/1s;100/1m, or else the name of a file of
// rules. A file whose name looks like a limit is written ./NAME.
func Parse(text, key string) (*Policy, error) {
	if !limitList.MatchString(text) {
		return File(text, key)
	}
	var limits []string
	for _, one := range strings.Split(text, ";") {
		if one = strings.TrimSpace(one); one != "" {
			limits = append(limits, one)
		}
	}
	p, err := Limits(limits, key)
	if err != nil {
		if why, ok := strings.CutPrefix(err.Error(), "--limit: "); ok {
			return nil, config.Usagef("the policy %q: %s", text, why)
		}
		return nil, err
	}
	p.Name = text
	return p, nil
}

var (
	errNoRequest = errors.New("the line is an event, which has a key and no request: rules need the requests of an access log")
	errNobody    = rules.ErrNobody
)

// client appends who asked, as the policy tells clients apart.
func (p *Policy) client(r *accesslog.Record, q *http.Request, b []byte) ([]byte, error) {
	if p.File != nil {
		client, err := p.matcher.Client(q)
		return append(b, client...), err
	}
	return p.subject(r, q, b)
}

// subject appends what the policy makes of a record.
func (p *Policy) subject(r *accesslog.Record, q *http.Request, b []byte) ([]byte, error) {
	switch {
	case p.File != nil && r.Key != nil:
		return nil, errNoRequest
	case p.File != nil:
		p.look(r, q)
		return p.matcher.Match(q, r.Status, b)
	case r.Key != nil:
		return append(b, r.Key...), nil
	}
	p.look(r, q)
	key := p.key.Key(q, string(r.Address))
	if key == "" {
		return nil, errNobody
	}
	return append(b, key...), nil
}

// look notes what a record has of what is asked for.
func (p *Policy) look(r *accesslog.Record, q *http.Request) {
	for i := range p.needs {
		if !p.met[i].Load() && has(r, q, p.needs[i].Part) {
			p.met[i].Store(true)
		}
	}
}

func has(r *accesslog.Record, q *http.Request, part string) bool {
	switch kind, name, _ := strings.Cut(part, ":"); kind {
	case "host":
		return q.Host != ""
	case "method":
		return q.Method != ""
	case "status":
		return r.Status >= 0
	case "cookie":
		_, err := q.Cookie(name)
		return err == nil
	case "header":
		return q.Header.Get(name) != "" || name == "Host" && q.Host != ""
	}
	return true
}

// Missed is an error if limits are by a key of which no record had a part: all clients would have been told apart by
// something else.
func (p *Policy) Missed() error {
	for i := range p.needs {
		if p.File == nil && !p.met[i].Load() {
			return fmt.Errorf("--key %s: no line of the log has %s: it has to be in the log's format, or be named by --field", p.key, p.needs[i].Part)
		}
	}
	return nil
}

// Unmet returns what the policy asks for and no record had, after the log has been read.
func (p *Policy) Unmet() (texts []string) {
	for i := range p.needs {
		if !p.met[i].Load() {
			texts = append(texts, p.needs[i].String())
		}
	}
	return texts
}

// Rules returns the rules that hold requests, in the order of the file.
func (p *Policy) Rules() []*rules.Rule {
	if p.File == nil {
		return nil
	}
	return slices.DeleteFunc(p.File.All(), func(r *rules.Rule) bool { return r.Mode == rules.Off })
}

// String describes the policy on one line.
func (p *Policy) String() string {
	if p.File == nil {
		return p.Name
	}
	if n := len(p.File.All()); n != 1 {
		return fmt.Sprintf("%s, %d rules", p.Name, n)
	}
	return p.Name + ", 1 rule"
}
