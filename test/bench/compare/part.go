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
	load        *bench.Load // of which the rows have many figures; nil for the others
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
		allowed, start := 0, time.Now()
		for range calls {
			if v, _ := l.Take(key); v == bench.Allowed {
				allowed++
			}
		}
		took := time.Since(start)
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
			start := time.Now()
			status := s.Ask(calls)
			took := time.Since(start)
			if refused := status == 429; refused != c.Denied {
				return 0, fmt.Errorf("%s: the last status is %d", m.Name, status)
			}
			if !c.Denied {
				start = time.Now()
				bare.Ask(calls)
				took -= time.Since(start)
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

// perform measures a part, prints its table and returns the number of targets that were missed.
func (p *part) perform() int {
	if p.load != nil {
		return p.bear()
	}
	return p.report(p.run())
}

// run measures the rows in turn, round by round.
func (p *part) run() map[string][]float64 {
	n := max(1, *rounds*p.rounds)
	p.rows = slices.DeleteFunc(p.rows, func(r row) bool { return !p.wanted(r) })
	times := map[string][]float64{}
	for round := range n {
		for i := range p.rows {
			r := p.rows[(i+round)%len(p.rows)] // nobody always comes first, or after the same one
			t, err := r.measure()
			if err != nil {
				note("compare: %v", err)
				end(1)
			}
			times[r.name] = append(times[r.name], t)
		}
	}
	if rivals := p.rivals(times); len(rivals) > 0 {
		times[best] = slices.MinFunc(rivals, func(a, b []float64) int {
			if median(a) < median(b) {
				return -1
			}
			return 1
		})
	}
	return times
}

// wanted tells whether a row was asked for or is what others are compared with.
func (p *part) wanted(r row) bool {
	return matches(*pick, r.name, strings.Contains) || r.against == best ||
		slices.ContainsFunc(p.rows, func(o row) bool { return o.against == r.name })
}

func (p *part) rivals(times map[string][]float64) (rivals [][]float64) {
	for _, m := range bench.Middlewares() {
		if t := times[m.Name]; t != nil && m.IsRival() && len(p.rows) > 0 && p.rows[0].against == best {
			rivals = append(rivals, t)
		}
	}
	return rivals
}

// report prints the table of a part and returns the number of targets that were missed.
func (p *part) report(times map[string][]float64) (missed int) {
	fmt.Printf("\n**%s**: %s\n\n| | median %s | least | ratio | of least | target | |\n|---|--:|--:|--:|--:|--:|---|\n", p.name, p.about, p.unit)
	for _, r := range p.rows {
		t := times[r.name]
		value, ratio, ofLeast := median(t), "–", "–"
		if r.against != "" {
			value = medianRatio(t, times[r.against])
			ratio = fmt.Sprintf("%.2f", value)
			ofLeast = fmt.Sprintf("%.2f", slices.Min(t)/slices.Min(times[r.against]))
		}
		target, met := "–", ""
		if most, ok := bench.Most(p.name, r.name); ok {
			target, met = fmt.Sprintf("%.4g", most), "met"
			floor := times[bench.FloorOf(p.name, r.name)]
			switch {
			case value <= most:
			case floor != nil && medianRatio(floor, times[r.against]) > most:
				met = fmt.Sprintf("forbidden: the floor has %.3g", medianRatio(floor, times[r.against]))
			default:
				met = "**missed**"
				missed++
			}
		}
		fmt.Printf("| %s | %.3g | %.3g | %s | %s | %s | %s |\n", r.name, median(t), slices.Min(t), ratio, ofLeast, target, met)
	}
	return missed
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
