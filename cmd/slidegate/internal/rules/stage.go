package rules

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
)

// A stage is one decision: a gate over one rule, or over several whose terms are the same.
type stage struct {
	gate    *httpgate.Gate
	limiter *slidegate.Limiter // of the first rule; it gives back what the gate charged
	rules   []*Rule
	shadow  bool
}

// stages are the decisions for the rules that may hold together, made when they first do.
type stages struct {
	mu sync.RWMutex
	by map[string][]*stage
}

// mostStages are how many combinations of rules and plans are kept. Beyond that they are made for each request: with
// many rules of which all hold, clients choose the combination.
const mostStages = 4096

// of returns the decisions for a request, in their order.
func (s *stages) of(e *Engine, match Match, chosen []choice) []*stage {
	var room [32]byte
	id := identify(room[:0], chosen)
	s.mu.RLock()
	made, ok := s.by[string(id)]
	s.mu.RUnlock()
	if ok {
		return made
	}
	made = e.arrange(match, chosen)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.by[string(id)]; ok {
		return other
	}
	if len(s.by) < mostStages {
		s.keep(e, string(id), made)
	}
	return made
}

func identify(id []byte, chosen []choice) []byte {
	for _, c := range chosen {
		id = binary.LittleEndian.AppendUint16(id, c.index)
		id = binary.LittleEndian.AppendUint16(id, c.plan)
		if c.blind {
			id = append(id, '!')
		}
	}
	return id
}

func (s *stages) keep(e *Engine, id string, made []*stage) {
	if s.by == nil {
		s.by = map[string][]*stage{}
	}
	s.by[id] = made
	for _, one := range made {
		e.gates.add(one.gate)
	}
}

// alone makes the decisions of a rule by itself, one for each plan, and so finds out what is wrong with it.
func (s *stages) alone(e *Engine, b *bound) error {
	for i, limiter := range b.plans {
		var made []*stage
		c := []choice{{b, uint16(i), false}}
		if limiter != nil {
			one, err := e.gate(c)
			if err != nil {
				return err
			}
			made = []*stage{one}
		}
		s.keep(e, string(identify(nil, c)), made)
	}
	return nil
}

// arrange sorts rules into decisions. Those that refuse are in the order of the file, and are one decision where their
// terms allow it. Rules in shadow see what they would if they refused: all requests where the first rule holds, and
// where all do those that the others admit.
func (e *Engine) arrange(match Match, chosen []choice) (all []*stage) {
	order := []bool{true, false}
	if match == All {
		order = []bool{false, true}
	}
	var groups [][]choice
	for _, shadow := range order {
		for _, c := range chosen {
			if c.limiter() == nil || (c.Mode == Shadow) != shadow {
				continue
			}
			i := slices.IndexFunc(groups, func(g []choice) bool { return g[0].terms == c.terms && joins(g, c) })
			if i < 0 || match != All {
				groups = append(groups, []choice{c})
				continue
			}
			groups[i] = append(groups[i], c)
		}
	}
	for _, g := range groups {
		s, err := e.gate(g)
		if err != nil { // each has been made alone, and their names differ
			panic("rules: " + err.Error())
		}
		all = append(all, s)
	}
	return all
}

// joins tells whether there is room for one more rule in a decision.
func joins(group []choice, c choice) bool {
	n := len(c.limiter().Limits())
	for _, other := range group {
		n += len(other.limiter().Limits())
	}
	return n <= slidegate.MaxLimits && len(group) < slidegate.MaxLimits && c.Ban == nil
}

// termsOf is what has to be the same in rules that one gate decides.
func (b *bound) termsOf() string {
	response := ""
	if p := b.Response; p != nil {
		response = fmt.Sprint(p.Status, p.Body, p.JSON)
	}
	ban := ""
	if b.Ban != nil {
		ban = string(b.Name)
	}
	return fmt.Sprintf("%s|%s|%v|%v|%s|%s|%s", b.Cost, b.Mode, b.RefundIf, b.formats, b.policy, ban, response)
}

// gate makes the gate of some rules.
func (e *Engine) gate(group []choice) (*stage, error) {
	first := group[0]
	s := &stage{limiter: first.limiter(), shadow: first.Mode == Shadow}
	blocked := false
	for _, c := range group {
		s.rules = append(s.rules, c.Rule)
		blocked = blocked || c.isBlocked()
	}
	options := slices.Concat(e.options.Gate, first.answers(e), []httpgate.Option{
		httpgate.Logger(e.options.Logger.With("rule", first.FullName())),
		httpgate.Headers(first.formats...), e.by(first.bound),
	})
	for _, c := range group[1:] {
		options = append(options, httpgate.And(c.limiter(), e.by(c.bound)))
	}
	if e.options.Observe != nil {
		options = append(options, httpgate.Observe(func(event *httpgate.Event) { e.options.observe(event, s.rules, blocked) }))
	}
	if len(first.RefundIf) > 0 && !first.blind {
		options = append(options, httpgate.RefundIf(first.refunds))
	}
	if first.Ban != nil && !first.isBlocked() {
		options = append(options, httpgate.Ban(e.recounted(first.strikes()), first.Ban.Length.Duration))
	}
	var err error
	s.gate, err = httpgate.New(s.limiter, options...)
	return s, err
}

// strikes of a ban have the rule's name, unless they have one of their own.
func (b *bound) strikes() slidegate.Limit {
	l := b.Ban.Strikes.Limit
	if l.Name == "" {
		return l.Named(string(b.Name))
	}
	return l.Named(string(b.Name) + ":" + l.Name)
}

// answers are the options of what a rule says.
func (b *bound) answers(e *Engine) (options []httpgate.Option) {
	switch {
	case e.options.rehearses:
		options = append(options, httpgate.Cost(func(r *http.Request) int64 { return b.held(r).Cost }))
	case b.Cost != nil && b.Cost.header != "":
		options = append(options, httpgate.Cost(cost(b.Cost.header)))
	case b.Cost != nil:
		units := b.Cost.units
		options = append(options, httpgate.Cost(func(*http.Request) int64 { return units }))
	}
	if b.policy == "closed" {
		options = append(options, httpgate.FailClosed())
	} else {
		options = append(options, httpgate.FailOpen())
	}
	if b.Mode == Shadow {
		options = append(options, httpgate.Shadow())
	}
	if p := b.Response; p != nil {
		options = append(options, p.option())
	}
	return options
}

func (b *bound) refunds(status int) bool {
	return slices.ContainsFunc(b.RefundIf, func(s Status) bool { return s.from <= status && status <= s.to })
}

func (p *Response) option() httpgate.Option {
	status := p.Status
	if status == 0 {
		status = http.StatusTooManyRequests
	}
	switch {
	case p.JSON != nil:
		return httpgate.DenyWith(status, *p.JSON)
	case p.has("body"):
		return httpgate.DenyWith(status, p.Body)
	}
	return httpgate.DenyAs(func(violated ...string) httpgate.Problem {
		problem := httpgate.QuotaExceeded(violated...)
		problem.Status = status
		return problem
	})
}

// by says whom a rule counts.
func (e *Engine) by(b *bound) httpgate.Option {
	if e.options.rehearses {
		return httpgate.By(func(r *http.Request) (string, error) { return b.held(r).Key, nil })
	}
	if b.key.IsAddress() && b.Domain == "" {
		return httpgate.ByAddress()
	}
	return httpgate.By(func(r *http.Request) (string, error) { return e.keyOf(b, r), nil })
}

// run asks one decision after the other. What one has charged is given back if a later one refuses, so that a request
// is charged for all or for none.
func (e *Engine) run(w http.ResponseWriter, r *http.Request, stages []*stage, next http.Handler) {
	switch len(stages) {
	case 0:
		next.ServeHTTP(w, r)
	case 1:
		stages[0].gate.Wrap(next).ServeHTTP(w, r)
	default:
		p := &passage{engine: e, stages: stages, next: next}
		p.from(0).ServeHTTP(w, r)
	}
}

// A passage is a request on its way through several decisions.
type passage struct {
	engine  *Engine
	stages  []*stage
	next    http.Handler
	reached bool // next has been
}

func (p *passage) from(i int) http.Handler {
	if i == len(p.stages) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.reached = true
			p.next.ServeHTTP(w, r)
		})
	}
	return p.stages[i].gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if !p.reached && !p.stages[i].shadow {
				p.giveBack(p.stages[i], r.Context())
			}
		}()
		p.from(i+1).ServeHTTP(w, r)
	}))
}

// giveBackTime bounds giving back, for stores that know no bound of their own.
const giveBackTime = time.Second

// giveBack gives back what a decision has charged, also where the client has gone away.
func (p *passage) giveBack(s *stage, ctx context.Context) {
	d, ok := httpgate.FromContext(ctx)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	if err := s.limiter.Refund(ctx, d); err != nil {
		p.engine.options.observe(&httpgate.Event{Key: d.Key(), Err: err, After: true}, s.rules, false)
	}
}

// gates are all that an engine has made, for what they count.
type gates struct {
	mu  sync.Mutex
	all []*httpgate.Gate
}

func (g *gates) add(gate *httpgate.Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, gate)
}

// IgnoredHeaders returns how many requests came from a private address with a forwarding header that is not believed:
// see httpgate.Gate.IgnoredHeaders.
func (e *Engine) IgnoredHeaders() (n uint64) {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	for _, gate := range e.gates.all {
		n += gate.IgnoredHeaders()
	}
	return n
}

// String describes a rule on one line.
func (r *Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", r.FullName(), r.Limits)
	if r.Key != nil {
		fmt.Fprintf(&b, " by %s", r.Key)
	}
	if about := r.conditions(); about != "" {
		fmt.Fprintf(&b, ", for %s", about)
	}
	if r.Mode == Shadow || r.Mode == Off {
		fmt.Fprintf(&b, " (%s)", r.Mode)
	}
	return b.String()
}

// mostListed is how many rules a summary has.
const mostListed = 20

// Summary says what is limited, a rule on a line.
func (f *File) Summary() string {
	var b strings.Builder
	all := f.All()
	b.WriteString(counted(len(all), "rule"))
	for _, s := range f.sets() {
		if len(s.rules) == 0 {
			continue
		}
		for i, r := range s.rules {
			if i == mostListed {
				fmt.Fprintf(&b, "\nand %d more", len(s.rules)-i)
				break
			}
			fmt.Fprintf(&b, "\n%s", r)
		}
	}
	return b.String()
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// conditions says which requests a rule is about, empty for all.
func (r *Rule) conditions() string {
	var parts []string
	add := func(what string, values []string) {
		if len(values) > 0 {
			parts = append(parts, strings.TrimSpace(what+" "+strings.Join(values, " or ")))
		}
	}
	add("", texts(r.Methods))
	add("host", texts(r.Hosts))
	add("", texts(r.Paths))
	for _, name := range sortedNames(r.RequestHeaders) {
		add("header "+string(name), []string{r.RequestHeaders[name].String()})
	}
	add("clients", texts(r.Clients))
	return strings.Join(parts, ", ")
}

func texts[T any](values []T) (all []string) {
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}
