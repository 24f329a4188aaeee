package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/bench"
)

// A part is one table.
type part struct {
	name, about string
	unit        string
	rounds      int // in times those asked for; 0 for a count, of which one round tells
	rows        []row
	times       map[string][]float64 // by the names of rows

	load  *bench.Load // of which the rows have many figures; nil for the others
	paces map[string][]bench.Pace
}

// A row is one contender.
type row struct {
	name    string
	against string // the name of the row that ratios are taken to; empty for a plain count
	measure func() (float64, error)
}

// brief is for parts whose rounds take so little time that many of them fall between two troubles of
// the machine.
const brief = 6

// parts returns everything that can be run, in the order of the report.
func parts() []part {
	all := []part{}
	for _, w := range bench.Workloads() {
		p := part{name: w.Name, about: about(&w), unit: "ns", rounds: 1}
		if len(w.Keys()) == 1 {
			p.rounds = brief
		}
		for _, c := range bench.Contenders() {
			p.rows = append(p.rows, row{c.Name, bench.Baseline, decisions(w, c)})
		}
		all = append(all, p)
	}
	all = append(all, three(), quota(), heap(), idle(), entry())
	for _, c := range bench.Crowds() {
		all = append(all, requests(c))
	}
	return append(append(all, socket(), allocations(), logPart()), append(doorParts(), redisParts()...)...)
}

func about(w *bench.Workload) string {
	return fmt.Sprintf("%d calls by %d caller(s) at %d in %v over %d key(s)", w.Calls, w.Callers, w.Quota, w.Window, len(w.Keys()))
}

// decisions measures a fresh limiter, so that no contender's memory is another's work.
func decisions(w bench.Workload, c bench.Contender) func() (float64, error) {
	return func() (float64, error) {
		l := w.Prepare(&c)
		defer l.Close()
		runtime.GC()
		t := w.Run(l, w.Calls)
		if failed := t.Count[bench.Failed]; failed > 0 {
			note("%s, %s: %.2f %% of the decisions were errors", w.Name, c.Name, 100*float64(failed)/float64(t.Calls))
		}
		return t.Nanoseconds(), w.Check(&t)
	}
}

func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func three() part {
	w := bench.FindWorkload("hot1")
	p := part{name: "three", about: "three limits, in times ours of one", unit: "ns", rounds: brief}
	p.rows = append(p.rows,
		row{bench.LogTake, "", decisions(w, bench.Find(bench.LogTake))},
		row{bench.CounterTake, "", decisions(w, bench.Find(bench.CounterTake))})
	against := map[string]string{bench.Counter3Take: bench.CounterTake}
	for _, c := range bench.OursOfThree() {
		to := against[c.Name]
		if to == "" {
			to = bench.LogTake
		}
		p.rows = append(p.rows, row{c.Name, to, decisions(w, c)})
	}
	return p
}

func quota() part {
	p := part{name: "quota", about: "a full window that slides, at a quota of a million in times ten", unit: "ns", rounds: 1}
	for _, a := range []slidegate.Algorithm{slidegate.SlidingLog, slidegate.SlidingCounter} {
		name := map[slidegate.Algorithm]string{slidegate.SlidingLog: bench.LogTake, slidegate.SlidingCounter: bench.CounterTake}[a]
		for _, n := range []int64{10, 1000, 1_000_000} {
			r := row{name: fmt.Sprintf("%s-%d", name, n), measure: sliding(a, n)}
			if n > 10 {
				r.against = name + "-10"
			}
			if n == 1_000_000 {
				r.name = name
			}
			p.rows = append(p.rows, r)
		}
	}
	return p
}

func sliding(a slidegate.Algorithm, n int64) func() (float64, error) {
	return func() (float64, error) {
		const calls = 500_000
		key := bench.Key(1)
		l := bench.Steady(a, n, time.Minute, key)
		defer l.Close()
		runtime.GC()
		allowed, start := 0, bench.Processor()
		for range calls {
			if v, _ := l.Take(key); v == bench.Allowed {
				allowed++
			}
		}
		took := bench.Processor() - start
		if allowed < calls/4 || allowed > calls*3/4 {
			return 0, fmt.Errorf("at a quota of %d %d of %d were allowed: the window does not slide", n, allowed, calls)
		}
		return float64(took) / calls, nil
	}
}

func heap() part {
	p := part{name: "heap", about: "bytes of heap for each of a million active keys", unit: "B"}
	for _, c := range bench.Contenders() {
		if !strings.HasSuffix(c.Name, "-Allow") {
			p.rows = append(p.rows, row{c.Name, bench.Baseline, func() (float64, error) { return bench.HeapPerKey(c), nil }})
		}
	}
	return p
}

func idle() part {
	p := part{name: "idle", about: "share of the heap kept when all keys are idle, unasked", unit: ""}
	for _, c := range bench.Contenders() {
		if !strings.HasSuffix(c.Name, "-Allow") {
			p.rows = append(p.rows, row{c.Name, "", func() (float64, error) {
				return bench.KeptWhenIdle(c, 2*time.Second, 8*time.Second, time.Sleep), nil
			}})
		}
	}
	return p
}

func entry() part {
	return part{name: "entry", about: "bytes of heap for each entry of full logs of 1,000", unit: "B", rows: []row{
		{bench.LogTake, "", func() (float64, error) { return bench.BytesPerEntry(1000), nil }},
	}}
}

const best = "best rival"

func requests(c bench.Crowd) part {
	p := part{name: c.Name, about: c.About, unit: "ns", rounds: 2}
	for _, m := range bench.Middlewares() {
		if c.Denied && m.Name == bench.HTTPFloor {
			continue // it never refuses
		}
		p.rows = append(p.rows, row{m.Name, best, func() (float64, error) {
			const calls = 200_000
			s, bare := c.Serve(&m), bench.NewServer(bench.Bare, c.Clients)
			defer s.Stop()
			runtime.GC()
			start := bench.Processor()
			status := s.Ask(calls)
			took := bench.Processor() - start
			if refused := status == 429; refused != c.Denied {
				return 0, fmt.Errorf("%s: the last status is %d", m.Name, status)
			}
			if !c.Denied {
				start = bench.Processor()
				bare.Ask(calls)
				took -= bench.Processor() - start
			}
			return float64(took) / calls, nil
		}})
	}
	return p
}

func socket() part {
	p := part{name: "http-socket", unit: "ns", rounds: brief,
		about: "a request over connections that are kept alive, client included: as many requests a second are a ratio of 1, more are less"}
	for _, m := range bench.Middlewares() {
		p.rows = append(p.rows, row{m.Name, best, overSocket(&m)})
	}
	p.rows = append(p.rows, row{bench.BareServer, best, overSocket(nil)})
	return p
}

func overSocket(m *bench.Middleware) func() (float64, error) {
	return func() (float64, error) {
		const calls, connections = 8_000, 16
		s, err := bench.OpenSocket(m, connections)
		if err != nil {
			return 0, err
		}
		defer s.Close()
		if err := s.Ask(10 * connections); err != nil {
			return 0, err
		}
		runtime.GC()
		start := time.Now()
		err = s.Ask(calls)
		return float64(time.Since(start)) / calls, err
	}
}

func allocations() part {
	p := part{name: "http-allocations", about: "allocations of an allowed request", unit: ""}
	for _, m := range bench.Middlewares() {
		p.rows = append(p.rows, row{m.Name, "", func() (float64, error) {
			s := bench.FindCrowd("http-allowed").Serve(&m)
			defer s.Stop()
			return testing.AllocsPerRun(1000, func() { s.Ask(1) }), nil
		}})
	}
	return p
}

// perform measures a part and prints it. Where only verdicts are wanted, a part that misses a target is measured once more, for
// twice as long, and all of its rounds count.
func (p *part) perform() (outcomes []outcome) {
	p.choose()
	p.measure(*rounds)
	outcomes = p.outcomes()
	if *verdicts && slices.ContainsFunc(outcomes, func(o outcome) bool { return o.isMissed() }) && time.Since(begun) < *patience {
		p.measure(2 * *rounds)
		outcomes = p.outcomes()
	}
	p.report(outcomes)
	return outcomes
}

// choose drops the rows that nobody asked for.
func (p *part) choose() {
	p.rows = slices.DeleteFunc(p.rows, func(r row) bool {
		return !p.wanted(r) || *verdicts && !p.isBound(r.name) && !p.isMeasure(r)
	})
}

// wanted tells whether a row was asked for or is what others are compared with.
func (p *part) wanted(r row) bool { return matches(*pick, r.name, strings.Contains) || p.isMeasure(r) }

// isMeasure tells a row that others are held against: by name, as one of the rivals, or as the floor.
func (p *part) isMeasure(r row) bool {
	return r.against == best && !bench.IsOurs(r.name) ||
		slices.ContainsFunc(p.rows, func(o row) bool { return o.against == r.name || bench.FloorOf(p.name, o.name).Name == r.name })
}

// isBound tells a contender that has a target.
func (p *part) isBound(contender string) bool {
	if p.load != nil {
		return slices.ContainsFunc(bench.LoadTargets(), func(t bench.LoadTarget) bool { return t.Part == p.name && t.Contender == contender })
	}
	_, ok := bench.Most(p.name, contender)
	return ok
}

// measure runs so many rounds more, of all rows in turn.
func (p *part) measure(rounds int) {
	for round := range max(1, rounds*p.rounds) {
		for i := range p.rows {
			r := p.rows[(i+round)%len(p.rows)] // nobody always comes first, or after the same one
			if err := p.once(r); err != nil {
				note("compare: %v", err)
				end(1)
			}
		}
	}
}

// once measures a row.
func (p *part) once(r row) error {
	if p.load != nil {
		return p.bear(r.name)
	}
	t, err := r.measure()
	if p.times == nil {
		p.times = map[string][]float64{}
	}
	p.times[r.name] = append(p.times[r.name], t)
	return err
}

// base returns the times that those of a row are held against, nil for a count.
func (p *part) base(r *row) []float64 {
	if r.against != best {
		return p.times[r.against]
	}
	var fastest []float64
	for _, o := range p.rows {
		if t := p.times[o.name]; isRivalOverHTTP(o.name) && (fastest == nil || median(t) < median(fastest)) {
			fastest = t
		}
	}
	return fastest
}

func isRivalOverHTTP(name string) bool {
	return slices.ContainsFunc(bench.Middlewares(), func(m bench.Middleware) bool { return m.Name == name && m.IsRival() })
}

// value is what a target of a row is about.
func (p *part) value(r *row) float64 {
	if base := p.base(r); base != nil {
		return medianRatio(p.times[r.name], base)
	}
	return median(p.times[r.name])
}

// outcomes tells what became of the targets of a part.
func (p *part) outcomes() (all []outcome) {
	if p.load != nil {
		return p.outcomesOfLoad()
	}
	for i := range p.rows {
		r := &p.rows[i]
		most, ok := bench.Most(p.name, r.name)
		if !ok {
			continue
		}
		o := outcome{part: p.name, contender: r.name, value: p.value(r), bound: most}
		if floor := bench.FloorOf(p.name, r.name); p.times[floor.Name] != nil {
			o.floor, o.floorIs = medianRatio(p.times[floor.Name], p.base(r)), floor.Does
		}
		all = append(all, o)
	}
	return all
}

// report prints the table of a part, or its verdicts alone.
func (p *part) report(outcomes []outcome) {
	switch {
	case *verdicts:
		for i := range outcomes {
			fmt.Fprintln(out, outcomes[i].line())
		}
	case p.load != nil:
		p.figures()
		p.targets(outcomes)
	default:
		p.table(outcomes)
	}
}

func (p *part) table(outcomes []outcome) {
	fmt.Fprintf(out, "\n**%s**: %s\n\n| | median %s | least | ratio | of least | target | |\n|---|--:|--:|--:|--:|--:|---|\n", p.name, p.about, p.unit)
	for i := range p.rows {
		r, ratio, ofLeast, target, met := &p.rows[i], "–", "–", "–", ""
		t := p.times[r.name]
		if base := p.base(r); base != nil {
			ratio, ofLeast = fmt.Sprintf("%.2f", p.value(r)), fmt.Sprintf("%.2f", slices.Min(t)/slices.Min(base))
		}
		if at := slices.IndexFunc(outcomes, func(o outcome) bool { return o.contender == r.name }); at >= 0 {
			target, met = fmt.Sprintf("%.4g", outcomes[at].bound), outcomes[at].cell()
		}
		fmt.Fprintf(out, "| %s | %.3g | %.3g | %s | %s | %s | %s |\n", r.name, median(t), slices.Min(t), ratio, ofLeast, target, met)
	}
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	if n%2 == 1 {
		return xs[n/2]
	}
	return (xs[n/2-1] + xs[n/2]) / 2
}

// medianRatio is the median of the ratios round by round: neighbours in time share their noise.
func medianRatio(xs, base []float64) float64 {
	ratios := make([]float64, len(xs))
	for i := range xs {
		ratios[i] = xs[i] / base[i]
	}
	return median(ratios)
}
