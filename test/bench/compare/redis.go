package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/bench"
)

// server starts the Redis of this run when it is first needed.
var (
	server  = sync.OnceValues(bench.StartRedis)
	started bool
)

func (p *part) needsRedis() bool { return strings.HasPrefix(p.name, "redis") || p.name == "doors-rls" }

// hasServer tells whether there is a Redis, or what to install. Who has asked for a part by its name wants it.
func hasServer() bool {
	_, err := server()
	if started = err == nil; started {
		return true
	}
	note("compare: the parts on Redis are left out: %v", err)
	if *only != "" {
		end(1)
	}
	return false
}

func stopServer() {
	if started {
		redis().Stop()
	}
}

func redis() *bench.Redis {
	r, err := server()
	if err != nil {
		panic(err) // hasServer comes first
	}
	return r
}

func redisParts() (all []part) {
	for _, w := range bench.Loads() {
		p := part{name: w.Name, load: &w, rounds: 1, about: fmt.Sprintf("%d caller(s) over %d keys in Redis, nothing refused", w.Callers, len(w.Keys))}
		for _, c := range contenders() {
			p.rows = append(p.rows, row{name: c.Name, against: best})
		}
		all = append(all, p)
	}
	return slices.Concat(all, scripts(), denials(), memory())
}

func contenders() []bench.Contender {
	addr := func() string { return redis().Addr }
	return append(bench.Floors(addr), bench.RedisContenders(addr)...)
}

// scriptCalls are those of one measurement.
const scriptCalls = 8000

// logs are full logs of a quota in some keys, ours or rival, that are filled when they are first asked.
func logs(name string, quota int, cost int64, limits ...slidegate.Limit) func() *bench.Sliding {
	return sync.OnceValue(func() *bench.Sliding {
		log := bench.SortedSet
		if bench.IsOurs(name) {
			log = func(r *bench.Redis, prefix string, _ slidegate.Limit) *bench.Scripted {
				return bench.Ours(r, prefix, limits...)
			}
		}
		prefix := fmt.Sprintf("%s-%d", name, cost)
		last := limits[len(limits)-1].Window
		return bench.NewSliding(redis(), log(redis(), prefix, limits[0]), time.Hour, quota/int(cost), cost, 8).Fill(int(last / time.Hour))
	})
}

func admits(s func() *bench.Sliding) func() (float64, error) {
	return func() (float64, error) { return s().Allowed(scriptCalls), nil }
}

func refuses(s func() *bench.Sliding) func() (float64, error) {
	return func() (float64, error) { return s().Denied(scriptCalls), nil }
}

func scripts() []part {
	const rounds = 2
	allowed := part{name: "redis-allowed", about: "Redis's time for a script that admits; the log is full and slides", unit: "µs", rounds: rounds}
	denied := part{name: "redis-denied", about: "Redis's time for a script that refuses; the log is full", unit: "µs", rounds: rounds}
	flat := part{name: "redis-flat", about: "the same at other quotas, in times a quota of ten", unit: "µs", rounds: rounds}
	for _, n := range bench.Quotas() {
		name, rival := fmt.Sprintf("slidegate-log-%d", n), fmt.Sprintf("sorted-set-%d", n)
		our, their := logs(name, n, 1, slidegate.PerHour(int64(n))), logs(rival, n, 1, slidegate.PerHour(int64(n)))
		allowed.rows = append(allowed.rows, row{rival, "", admits(their)}, row{name, rival, admits(our)})
		denied.rows = append(denied.rows, row{rival, "", refuses(their)}, row{name, rival, refuses(our)})
		flat.rows = append(flat.rows, row{name + "-allowed", "slidegate-log-10-allowed", admits(our)}, row{name + "-denied", "slidegate-log-10-denied", refuses(our)})
	}
	return []part{allowed, denied, flat, cost100(rounds), threeLogs(rounds)}
}

func cost100(rounds int) part {
	limit := slidegate.PerHour(10_000)
	return part{name: "redis-cost100", about: "Redis's time to admit a cost of 100, full and sliding", unit: "µs", rounds: rounds, rows: []row{
		{"sorted-set-10000", "", admits(logs("sorted-set-10000", 10_000, 100, limit))},
		{"slidegate-log-10000", "sorted-set-10000", admits(logs("slidegate-log-10000", 10_000, 100, limit))},
	}}
}

func threeLogs(rounds int) part {
	const n = 100
	one := logs("slidegate-1-log", n, 1, slidegate.PerHour(n))
	three := logs("slidegate-3-logs", n, 1, slidegate.PerHour(n), slidegate.Per(2*time.Hour, 2*n), slidegate.Per(4*time.Hour, 4*n))
	return part{name: "redis-three", about: "three limits, in times ours of one", unit: "µs", rounds: rounds, rows: []row{
		{"slidegate-log-allowed", "", admits(one)},
		{"slidegate-3-logs-allowed", "slidegate-log-allowed", admits(three)},
		{"slidegate-log-denied", "", refuses(one)},
		{"slidegate-3-logs-denied", "slidegate-log-denied", refuses(three)},
	}}
}

// denials are two looks at the same bouts.
func denials() []part {
	attack := bench.Attack{Callers: 16, For: 500 * time.Millisecond}
	bear := func(remembered bool, f func(*bench.Bout) float64) func() (float64, error) {
		return func() (float64, error) {
			b := attack.Bear(redis(), remembered)
			if b.Count[bench.Failed] > 0 || b.Count[bench.Denied] < b.Decisions*8/10 {
				return 0, fmt.Errorf("of %d decisions so many were denied, allowed and failed: %v", b.Decisions, b.Count)
			}
			return f(&b), nil
		}
	}
	took := func(b *bench.Bout) float64 { return float64(b.Took) / float64(time.Microsecond) }
	calls := func(b *bench.Bout) float64 { return b.Calls }
	return []part{
		{name: "redis-denials", about: "16 callers, 90 % of their requests refused; time of a decision", unit: "µs", rounds: 1, rows: []row{
			{bench.Asked, "", bear(false, took)}, {bench.Remembered, bench.Asked, bear(true, took)},
		}},
		{name: "redis-denials-calls", about: "the same; calls of the store for a decision", unit: "", rounds: 1, rows: []row{
			{bench.Asked, "", bear(false, calls)}, {bench.Remembered, "", bear(true, calls)},
		}},
	}
}

func memory() []part {
	now := part{name: "redis-memory", about: "MEMORY USAGE of a full log that has slid", unit: "B"}
	most := part{name: "redis-memory-most", about: "the most that it was while the log filled and slid", unit: "B"}
	for _, p := range bench.PackedLogs() {
		both := sync.OnceValues(func() (int64, int64) { return p.Memory(redis()) })
		now.rows = append(now.rows, row{p.Name, "", func() (float64, error) { n, _ := both(); return float64(n), nil }})
		most.rows = append(most.rows, row{p.Name, "", func() (float64, error) { _, m := both(); return float64(m), nil }})
	}
	return []part{now, most}
}

// bear measures a contender under the load of a part.
func (p *part) bear(name string) error {
	all := contenders()
	pace, err := p.load.Run(redis(), all[slices.IndexFunc(all, func(c bench.Contender) bool { return c.Name == name })])
	if err != nil {
		return err
	}
	if failed := pace.Count[bench.Failed]; failed > 0 {
		note("%s, %s: %.2f %% of the decisions were errors", p.name, name, 100*float64(failed)/float64(pace.Decisions))
	}
	if p.paces == nil {
		p.paces = map[string][]bench.Pace{}
	}
	p.paces[name] = append(p.paces[name], pace)
	return nil
}

// figures prints the medians of everything.
func (p *part) figures() {
	fmt.Fprintf(out, "\n**%s**: %s; CPU, scripts and bytes of a decision\n\n|", p.name, p.about)
	for _, f := range bench.Figures() {
		fmt.Fprintf(out, " | %s", f.Name)
	}
	fmt.Fprintf(out, " |\n|---%s|\n", strings.Repeat("|--:", len(bench.Figures())))
	for _, r := range p.rows {
		fmt.Fprintf(out, "| %s", r.name)
		for _, f := range bench.Figures() {
			fmt.Fprintf(out, " | %.3g", median(figure(f, p.paces[r.name])))
		}
		fmt.Fprintln(out, " |")
	}
}

func figure(f *bench.Figure, paces []bench.Pace) []float64 {
	xs := make([]float64, len(paces))
	for i := range paces {
		xs[i] = f.Of(&paces[i])
	}
	return xs
}

// outcomesOfLoad holds ours against the best rival at each figure.
func (p *part) outcomesOfLoad() (all []outcome) {
	for _, t := range bench.LoadTargets() {
		if t.Part != p.name || p.paces[t.Contender] == nil {
			continue
		}
		xs := figure(t.Figure, p.paces[t.Contender])
		o := outcome{part: p.name, contender: t.Contender, figure: t.Figure.Name, value: median(xs), bound: t.Bound, more: t.Figure.More}
		if !t.Plain {
			o.rival = bestAt(t.Figure, p.paces)
			base := figure(t.Figure, p.paces[o.rival])
			o.value, o.ofBest = medianRatio(xs, base), top(t.Figure, xs)/top(t.Figure, base)
			floor := bench.FloorOfLoad(&t)
			o.floor, o.floorIs = medianRatio(figure(t.Figure, p.paces[floor.Name]), base), floor.Does
		}
		all = append(all, o)
	}
	return all
}

// targets prints how ours compare with the best rival at each figure.
func (p *part) targets(outcomes []outcome) {
	fmt.Fprintf(out, "\n| | | best rival | ratio | of best rounds | target | |\n|---|---|---|--:|--:|--:|---|\n")
	for i := range outcomes {
		o, rival, ofBest := &outcomes[i], "–", "–"
		if o.rival != "" {
			rival, ofBest = o.rival, fmt.Sprintf("%.2f", o.ofBest)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %.4g | %s | %s %.4g | %s |\n", o.contender, o.figure, rival, o.value, ofBest, o.sign(), o.bound, o.cell())
	}
}

// top is the best of some values.
func top(f *bench.Figure, xs []float64) float64 {
	if f.More {
		return slices.Max(xs)
	}
	return slices.Min(xs)
}

// bestAt returns the rival whose median is best.
func bestAt(f *bench.Figure, paces map[string][]bench.Pace) (name string) {
	for rival := range paces {
		if !bench.IsRival(rival) {
			continue
		}
		if name == "" || better(f, median(figure(f, paces[rival])), median(figure(f, paces[name]))) {
			name = rival
		}
	}
	return name
}

func better(f *bench.Figure, a, b float64) bool { return a != b && (a > b) == f.More }
