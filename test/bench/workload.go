package bench

import (
	"fmt"
	"sync"
	"time"
)

// A Workload is a way of asking a limiter.
type Workload struct {
	Name    string
	Quota   int64
	Window  time.Duration
	Keys    func() []string
	Warm    int // passes over the keys before the clock runs
	Callers int
	Calls   int // decisions of a round
	Verdict Verdict
	Mixed   bool // both verdicts come; Verdict says nothing
}

// roomy is a quota that no workload uses up.
const roomy = 2_000_000_000

// Workloads returns those in which all contenders stand.
func Workloads() []Workload {
	return []Workload{
		{Name: "hot1", Quota: roomy, Window: time.Minute, Keys: Hot, Warm: 1000, Callers: 1, Calls: 200_000, Verdict: Allowed},
		{Name: "hot2", Quota: roomy, Window: time.Minute, Keys: Hot, Warm: 1000, Callers: 2, Calls: 400_000, Verdict: Allowed},
		{Name: "uniform", Quota: 1_000_000, Window: time.Minute, Keys: Uniform, Warm: 1, Callers: 1, Calls: 4_000_000, Verdict: Allowed},
		{Name: "zipf100", Quota: 100, Window: time.Minute, Keys: Zipf, Warm: 1, Callers: 1, Calls: 2_000_000, Mixed: true},
		{Name: "zipf1m", Quota: 1_000_000, Window: time.Minute, Keys: Zipf, Warm: 1, Callers: 1, Calls: 2_000_000, Mixed: true},
		{Name: "denied1", Quota: 100, Window: time.Hour, Keys: Hot, Warm: 1000, Callers: 1, Calls: 200_000, Verdict: Denied},
		{Name: "denied2", Quota: 100, Window: time.Hour, Keys: Hot, Warm: 1000, Callers: 2, Calls: 400_000, Verdict: Denied},
	}
}

// FindWorkload returns the workload of a name. It panics if there is none.
func FindWorkload(name string) Workload {
	for _, w := range Workloads() {
		if w.Name == name {
			return w
		}
	}
	panic("bench: no workload " + name)
}

// A Tally is what came of a number of decisions.
type Tally struct {
	Took  time.Duration
	Calls int
	Count [Failed + 1]int // by verdict
	rest  int64
}

// Nanoseconds returns those of a decision: of one caller, the CPU time of this process, so that it does not matter what else the
// machine does; of several, the wall clock, and with two callers a decision takes half as long if neither waits for the other.
func (t *Tally) Nanoseconds() float64 { return float64(t.Took) / float64(t.Calls) }

// Check reports verdicts that the workload cannot have brought about, but for the few by which a
// bucket refills meanwhile.
func (w *Workload) Check(t *Tally) error {
	if wrong := t.Calls - t.Count[w.Verdict] - t.Count[Failed]; !w.Mixed && wrong > 5 {
		return fmt.Errorf("%s: %d of %d verdicts are wrong", w.Name, wrong, t.Calls)
	}
	return nil
}

// Prepare opens a limiter and warms it up.
func (w *Workload) Prepare(c *Contender) Limiter {
	l, keys := c.Open(w.Quota, w.Window), w.Keys()
	drive(l, keys, 0, w.Warm*len(keys))
	return l
}

// Run asks a limiter calls times, shared among the callers.
func (w *Workload) Run(l Limiter, calls int) Tally {
	keys := w.Keys()
	if w.Callers == 1 {
		start := Processor()
		t := drive(l, keys, 0, calls)
		t.Took = Processor() - start
		return t
	}
	var (
		ready, done sync.WaitGroup
		gate        = make(chan struct{})
		parts       = make([]Tally, w.Callers)
	)
	for i := range parts {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			parts[i] = drive(l, keys, i*len(keys)/w.Callers, (calls+i)/w.Callers)
		})
	}
	ready.Wait()
	start := time.Now()
	close(gate)
	done.Wait()
	sum := Tally{Took: time.Since(start)}
	for i := range parts {
		sum.Calls += parts[i].Calls
		sum.rest += parts[i].rest
		for v, n := range parts[i].Count {
			sum.Count[v] += n
		}
	}
	return sum
}

// drive asks calls times, from the key at position from on and round again.
func drive(l Limiter, keys []string, from, calls int) Tally {
	var (
		take  = l.Take
		k     = from
		count [Failed + 1]int
		sum   int64
	)
	for range calls {
		v, rest := take(keys[k])
		count[v]++
		sum += rest
		if k++; k == len(keys) {
			k = 0
		}
	}
	return Tally{Calls: calls, Count: count, rest: sum}
}
