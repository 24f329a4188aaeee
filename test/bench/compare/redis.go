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

// bear measures the rows of a load in turn, round by round, and reports.
func (p *part) bear() (missed int) {
	chosen := slices.DeleteFunc(contenders(), func(c bench.Contender) bool {
		return bench.IsOurs(c.Name) && !matches(*pick, c.Name, strings.Contains)
	})
	paces := map[string][]bench.Pace{}
	for round := range *rounds * p.rounds {
		for i := range chosen {
			c := chosen[(i+round)%len(chosen)]
			pace, err := p.load.Run(redis(), c)
			if err != nil {
				note("compare: %v", err)
				end(1)
			}
			if failed := pace.Count[bench.Failed]; failed > 0 {
				note("%s, %s: %.2f %% of the decisions were errors", p.name, c.Name, 100*float64(failed)/float64(pace.Decisions))
			}
			paces[c.Name] = append(paces[c.Name], pace)
		}
	}
	p.figures(chosen, paces)
	return p.targets(paces)
}

// figures prints the medians of everything.
func (p *part) figures(chosen []bench.Contender, paces map[string][]bench.Pace) {
	fmt.Printf("\n**%s**: %s; CPU, scripts and bytes of a decision\n\n|", p.name, p.about)
	for _, f := range bench.Figures() {
		fmt.Printf(" | %s", f.Name)
	}
	fmt.Printf(" |\n|---%s|\n", strings.Repeat("|--:", len(bench.Figures())))
	for _, c := range chosen {
		fmt.Printf("| %s", c.Name)
		for _, f := range bench.Figures() {
			fmt.Printf(" | %.3g", median(figure(f, paces[c.Name])))
		}
		fmt.Println(" |")
	}
}

func figure(f *bench.Figure, paces []bench.Pace) []float64 {
	xs := make([]float64, len(paces))
	for i := range paces {
		xs[i] = f.Of(&paces[i])
	}
	return xs
}

// targets prints how ours compare with the best rival at each figure, and returns the number of targets missed.
func (p *part) targets(paces map[string][]bench.Pace) (missed int) {
	fmt.Printf("\n| | | best rival | ratio | of best rounds | target | |\n|---|---|---|--:|--:|--:|---|\n")
	for _, t := range bench.LoadTargets() {
		if t.Part != p.name || paces[t.Contender] == nil {
			continue
		}
		xs := figure(t.Figure, paces[t.Contender])
		value, ofBest, rival := median(xs), "–", "–"
		if !t.Plain {
			rival = bestAt(t.Figure, paces)
			base := figure(t.Figure, paces[rival])
			value, ofBest = medianRatio(xs, base), fmt.Sprintf("%.2f", top(t.Figure, xs)/top(t.Figure, base))
		}
		verdict := "met"
		switch floor, ok := p.floor(t, paces, rival); {
		case t.Met(value):
		case ok && !t.Met(floor):
			verdict = fmt.Sprintf("forbidden: the floor has %.3g", floor)
		default:
			verdict = "**missed**"
			missed++
		}
		sign := "≤"
		if t.Figure.More {
			sign = "≥"
		}
		fmt.Printf("| %s | %s | %s | %.4g | %s | %s %.4g | %s |\n", t.Contender, t.Figure.Name, rival, value, ofBest, sign, t.Bound, verdict)
	}
	return missed
}

// floor returns what a script that decides nothing reaches of a target, sent as those are that have to reach it.
func (p *part) floor(t bench.LoadTarget, paces map[string][]bench.Pace, rival string) (ratio float64, ok bool) {
	if t.Plain {
		return 0, false
	}
	name := bench.FloorAloneName
	if t.Folds {
		name = bench.FloorName
	}
	return medianRatio(figure(t.Figure, paces[name]), figure(t.Figure, paces[rival])), true
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
