package serve

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// Settable returns the flags that a file of rules may set.
func Settable() *pflag.FlagSet {
	cmd, _ := command("")
	return cmd.Flags()
}

// CheckFile reads a file of rules as serve would and looks at all that can be wrong with it, its settings too. Nothing
// is started, nothing is asked, and no password is looked for.
func CheckFile(path string) (f *rules.File, err error) {
	err = withFile(path, "", func(s *server) error {
		f = s.file
		return s.collect(s.checkWords, s.checkNumbers, s.checkBounds, s.checkAddresses, s.checkStaying, s.parse, s.checkStore, s.newEngine, s.newAuth, s.newRLS, s.readProxyProtocol, s.newTLS)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// RulesOf reads a file of rules as serve would and returns what requests are held to, with what the top of the file
// says of keys and addresses. The store is for the caller to add. key is that of the command line, empty for none.
func RulesOf(path, key string) (f *rules.File, o rules.Options, err error) {
	err = withFile(path, key, func(s *server) error {
		if err := s.collect(s.parse, s.newEngine); err != nil {
			return err
		}
		f, o = s.file, rules.Options{Key: s.key, Gate: s.addressOptions()}
		return nil
	})
	return f, o, err
}

// withFile calls f with a server by a file of rules, which is never started.
func withFile(path, key string, f func(*server) error) error {
	if path == "" {
		return config.Usagef("the name of the file of rules is empty: name a file")
	}
	_, p := command("")
	p.config = path
	if key != "" {
		if err := p.given.Set("key", key); err != nil {
			return err
		}
	}
	if err := p.readFile(); err != nil {
		return err
	}
	store := memstore.New()
	defer store.Close()
	return f(&server{plan: *p, log: newLogger(io.Discard, "text"), backend: &backend{store: store}, metrics: newMetrics("")})
}

// collect takes steps and returns all problems that they find in the file, or the first other error.
func (p *plan) collect(steps ...func() error) error {
	var problems rules.Problems
	for _, step := range steps {
		err := p.inFile(step())
		var found rules.Problems
		switch {
		case errors.As(err, &found):
			problems = append(problems, found...)
		case err != nil:
			return err
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// checkStore looks at the address of the store alone.
func (s *server) checkStore() error {
	if s.storage.IsMemory() {
		return nil
	}
	if _, err := storage.ParseAddress(s.given.Lookup("store").Value.String()); err != nil {
		return config.Usagef("--store%w", err)
	}
	return nil
}

// readFile reads the file of rules, if there is one, and sets the flags that nothing else has set.
func (p *plan) readFile() (err error) {
	if p.config == "" {
		return nil
	}
	if p.given.Changed("limit") {
		return config.Usagef("--limit with --config: limits stand in the rules of the file: give one of the two")
	}
	if p.file, err = rules.ReadFile(p.config, p.given); err != nil {
		return err
	}
	return p.file.Apply(p.given)
}

var flagInError = regexp.MustCompile(`^--([a-z0-9-]+)`)

// inFile says of an error about a flag that the file has set where it stands there: rules.yaml:3: listen …, not
// --listen ….
func (p *plan) inFile(err error) error {
	if err == nil {
		return nil
	}
	m := flagInError.FindStringSubmatch(err.Error())
	if m == nil || p.given.Lookup(m[1]) == nil {
		return err
	}
	file, line, ok := config.SetBy(p.given.Lookup(m[1]))
	if !ok {
		return err
	}
	return rules.Problems{{File: file, Line: line, Text: strings.TrimPrefix(err.Error(), "--")}}
}

// newEngine makes what holds requests to the rules, and follows their file.
func (s *server) newEngine() (err error) {
	reloads := newReloads(s.metrics.registry)
	s.live, err = rules.Open(s.file, s.engine, func(r rules.Reload) { s.reloaded(r, reloads) })
	if err != nil {
		return err
	}
	s.metrics.ignored(s.live.IgnoredHeaders)
	s.wrap, s.verdicts = s.bound(s.live.Handler), s.bound(s.live.Verdicts)
	return nil
}

// engine makes the one of a file that may have changed. What rules have where they say nothing comes from the flags.
func (s *server) engine(f *rules.File) (*rules.Engine, error) {
	key, err := keyexpr.Parse(s.inherited(f, "key")[0])
	if err != nil {
		return nil, s.wrong(f, "key", err)
	}
	formats, err := parseFormats(s.inherited(f, "headers"))
	if err != nil {
		return nil, s.wrong(f, "headers", err)
	}
	s.metrics.ofRules(f)
	return rules.New(f, rules.Options{
		Store: s.backend.store, Key: key, Headers: formats, Policy: rules.Policy(s.inherited(f, "on-store-error")[0]),
		Gate: append(s.addressOptions(), httpgate.WithoutOutages()), Logger: s.log, Observe: s.observeRules,
	})
}

// inherited returns the values of a flag: those of the command line or the variable, else those of the file as it is now.
func (s *server) inherited(f *rules.File, name string) []string {
	flag := s.given.Lookup(name)
	_, _, isFromFile := config.SetBy(flag)
	values := f.Setting(name)
	if flag.Changed && !isFromFile || values == nil {
		if isFromFile {
			return []string{strings.Trim(flag.DefValue, "[]")}
		}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			return list.GetSlice()
		}
		return []string{flag.Value.String()}
	}
	return values
}

func (s *server) wrong(f *rules.File, name string, err error) error {
	for _, setting := range f.Settings {
		if setting.Name == name {
			return rules.Problems{{File: f.Name, Line: setting.Line, Text: strings.TrimPrefix(err.Error(), "--")}}
		}
	}
	return config.Usagef("--%s", strings.TrimPrefix(err.Error(), "--"))
}

// follow takes up changes of the file until ctx ends, at once at SIGHUP.
func (s *server) follow(ctx context.Context) {
	if s.live == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go s.live.Watch(ctx, time.Second)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				_ = s.live.Reload() // which is reported
			}
		}
	}()
}

// mostTold is how many changes of one reload are logged.
const mostTold = 50

// reloaded tells of a changed file: what is wrong with it, or what it means.
func (s *server) reloaded(r rules.Reload, m *reloads) {
	m.count(r)
	if r.Err != nil {
		s.log.Error("the changed rules are wrong: the last good ones hold", "file", r.File.Name, "problems", r.Err.Error())
		return
	}
	s.log.Info("the rules are read again", "file", r.File.Name, "changes", len(r.Changes))
	for i, c := range r.Changes {
		if i == mostTold {
			break
		}
		if c.IsLarge() {
			s.log.Warn("a large change of the rules", "change", c.String())
			continue
		}
		s.log.Info("a change of the rules", "change", c.String())
	}
}

// reloads are the metrics of a file of rules.
type reloads struct {
	success, failure prometheus.Counter
	good, last       prometheus.Gauge
}

func newReloads(registry *prometheus.Registry) *reloads {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: reloadsTotal, Help: "Times that the file of rules was read again: taken, or wrong so that the last good one holds.",
	}, []string{"result"})
	m := &reloads{success: total.WithLabelValues("success"), failure: total.WithLabelValues("failure")}
	m.good = prometheus.NewGauge(prometheus.GaugeOpts{Name: reloadGood, Help: "1 while the rules that hold are those of the file; 0 while it is wrong and the last good ones hold."})
	m.good.Set(1)
	m.last = prometheus.NewGauge(prometheus.GaugeOpts{Name: lastReload, Help: "When the rules that hold were read, in Unix seconds."})
	m.last.SetToCurrentTime()
	registry.MustRegister(total, m.good, m.last)
	return m
}

func (m *reloads) count(r rules.Reload) {
	if r.Err != nil {
		m.failure.Inc()
		m.good.Set(0)
		return
	}
	m.success.Inc()
	m.good.Set(1)
	m.last.Set(float64(r.At.UnixMilli()) / 1000)
}

// ofRules has the series of every limit there from the start.
func (m *metrics) ofRules(f *rules.File) {
	for _, r := range f.All() {
		results := []string{"admitted", "refused"}
		if r.Mode == rules.Shadow {
			results = []string{"would_admit", "would_refuse"}
		}
		for _, name := range r.LimitNames() {
			for _, result := range results {
				m.decisions.WithLabelValues(limitLabel(r, name), result)
			}
		}
	}
}

// limitLabel is what a limit is called in metrics: login:15m, or shop/login:15m in a domain.
func limitLabel(r *rules.Rule, limit string) string {
	if r.Domain == "" {
		return limit
	}
	return string(r.Domain) + "/" + limit
}

// observeRules counts a request that is held to rules.
func (m *metrics) observeRules(e *rules.Event) {
	admitted, refused := "admitted", "refused"
	if e.Shadow {
		admitted, refused = "would_admit", "would_refuse"
	}
	if e.Blocked {
		m.duration.Observe(e.Took.Seconds())
		m.decisions.WithLabelValues(e.Rules[0].FullName()+":blocked", refused).Inc()
		return
	}
	if m.observeUndecided(e.Event) {
		return
	}
	for i := range e.Decision.Len() {
		name := e.Decision.State(i).Limit.Name
		if len(e.Rules) > 0 {
			name = limitLabel(e.Rules[0], name)
		}
		switch {
		case e.Decision.Allowed:
			m.decisions.WithLabelValues(name, admitted).Inc()
		case e.Decision.Refuses(i):
			m.decisions.WithLabelValues(name, refused).Inc()
		}
	}
}
