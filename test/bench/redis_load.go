package bench

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// A Load asks a limiter in Redis from many callers at once, each with its next request as soon as it has
// an answer.
type Load struct {
	Name    string
	Callers int
	For     time.Duration
	Keys    []string // asked for once each before the clock runs
}

// Loads returns those in which all contenders stand.
func Loads() []Load {
	const round = 500 * time.Millisecond
	return []Load{
		{"redis-1", 1, round, TenThousand()},
		{"redis-16", 16, round, TenThousand()},
		{"redis-256", 256, round, TenThousand()},
	}
}

// A Pace is how a limiter bore a load.
type Pace struct {
	Decisions      int
	Count          [Failed + 1]int // by verdict
	PerSecond      float64         // decisions
	P50, P99       time.Duration
	Client, Server time.Duration // CPU of a decision: this process, and Redis
	Scripts        float64       // EVALSHA and EVAL a decision
	Bytes          float64       // that Redis received and sent a decision
}

// Run opens a contender on an empty Redis and measures it. Nothing is refused: a quota leaves room.
func (w *Load) Run(r *Redis, c Contender) (Pace, error) {
	r.flush()
	l := c.Open(1000, time.Minute)
	defer l.Close()
	w.warm(l)
	before, start := r.bill(), time.Now()
	p, latencies := w.drive(l)
	took := time.Since(start)
	p.charge(took, before, r.bill())
	slices.Sort(latencies)
	p.P50, p.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	if p.Count[Denied] > 0 {
		return p, fmt.Errorf("%s, %s: %d of %d were denied, and all have room", w.Name, c.Name, p.Count[Denied], p.Decisions)
	}
	return p, nil
}

// warm makes connections, and every key.
func (w *Load) warm(l Limiter) {
	all := Workload{Callers: max(16, w.Callers), Keys: func() []string { return w.Keys }}
	all.Run(l, max(len(w.Keys), 10*all.Callers))
}

// drive asks until the time is over.
func (w *Load) drive(l Limiter) (p Pace, latencies []time.Duration) {
	var (
		done  sync.WaitGroup
		mu    sync.Mutex
		until = time.Now().Add(w.For)
	)
	for i := range w.Callers {
		done.Go(func() {
			count, took := ask(l, w.Keys, i*len(w.Keys)/w.Callers, until)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, took...)
			for v, n := range count {
				p.Count[v] += n
			}
		})
	}
	done.Wait()
	p.Decisions = len(latencies)
	return p, latencies
}

// ask is one caller, who begins at the key at position k and asks once at least.
func ask(l Limiter, keys []string, k int, until time.Time) (count [Failed + 1]int, took []time.Duration) {
	for start := time.Now(); ; {
		v, _ := l.Take(keys[k])
		end := time.Now()
		count[v]++
		took = append(took, end.Sub(start))
		if !end.Before(until) {
			return count, took
		}
		start = end
		if k++; k == len(keys) {
			k = 0
		}
	}
}

// charge splits what was spent among the decisions.
func (p *Pace) charge(took time.Duration, before, after bill) {
	n := float64(p.Decisions)
	p.PerSecond = n / took.Seconds()
	p.Client = time.Duration(float64(after.client-before.client) / n)
	p.Server = time.Duration(float64(after.server-before.server) / n)
	p.Scripts = float64(after.scripts-before.scripts) / n
	p.Bytes = float64(after.bytes-before.bytes) / n
}

// A Figure is one number of a pace.
type Figure struct {
	Name string
	More bool // is better
	Of   func(*Pace) float64
}

// The figures of a load. PerSecond comes in thousands, times in microseconds.
var (
	PerSecond = &Figure{"1,000/s", true, func(p *Pace) float64 { return p.PerSecond / 1000 }}
	P50       = &Figure{"p50 µs", false, func(p *Pace) float64 { return micros(p.P50) }}
	P99       = &Figure{"p99 µs", false, func(p *Pace) float64 { return micros(p.P99) }}
	ClientCPU = &Figure{"client CPU µs", false, func(p *Pace) float64 { return micros(p.Client) }}
	ServerCPU = &Figure{"server CPU µs", false, func(p *Pace) float64 { return micros(p.Server) }}
	Scripts   = &Figure{"scripts", false, func(p *Pace) float64 { return math.Round(p.Scripts*100) / 100 }} // one more may be of a call before
	Bytes     = &Figure{"bytes", false, func(p *Pace) float64 { return p.Bytes }}
)

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Figures returns all of them, in the order of the report.
func Figures() []*Figure {
	return []*Figure{PerSecond, P50, P99, ClientCPU, ServerCPU, Scripts, Bytes}
}
