package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
)

// A curve is how the cost of a decision grows with one thing.
type curve struct {
	name     string // of its files
	title, y string
	x        string
	note     string // what is measured, in a few words
	doubling bool   // equal steps of the axis are equal ratios
	xs       []int
	lines    []line
}

// A line is one contender. Open makes at x what measures a decision, and what ends it.
type line struct {
	name   string
	ink    ink
	dashed bool
	open   func(x int) (measure func() (float64, error), close func())
}

const (
	nanoseconds  = "CPU of a decision, ns"
	microseconds = "CPU of Redis for a decision, µs"
)

var (
	decades  = []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}
	eight    = []int{1, 2, 3, 4, 5, 6, 7, 8}
	doublets = []int{1, 2, 4, 8, 16, 32, 64}
)

func curves() []curve {
	return []curve{
		{name: "quota", title: "A full window that slides costs the same at any quota", x: "quota", y: nanoseconds, doubling: true, xs: decades,
			note: "In memory, one key at its quota, half of its requests refused", lines: []line{
				{"log", ofLog, false, steady(slidegate.SlidingLog)},
				{"counter", ofCounter, false, steady(slidegate.SlidingCounter)},
			}},
		{name: "limits", title: "What another limit costs", x: "limits", y: nanoseconds, xs: eight,
			note: "In memory, one key with room; go-limiter: a store for each limit, asked in turn", lines: []line{
				{"log", ofLog, false, several(slidegate.SlidingLog)},
				{"counter", ofCounter, false, several(slidegate.SlidingCounter)},
				{"go-limiter", ofRival, false, severalStores},
			}},
		{name: "keys", title: "A decision among many keys", x: "keys", y: nanoseconds, doubling: true, xs: decades,
			note: "In memory, every key in turn, shuffled, with room; resolution of the log: 1h", lines: []line{
				{"log", ofLog, false, amongKeys(ofDays(slidegate.SlidingLog))},
				{"counter", ofCounter, false, amongKeys(ofDays(slidegate.SlidingCounter))},
				{"go-limiter", ofRival, false, amongKeys(baselineOfDays)},
			}},
		{name: "callers", title: "Many callers at once", x: "callers", y: nanoseconds, doubling: true, xs: doublets,
			note: "In memory, with room; many keys: 10,000", lines: hotAndMany(func(int) int { return runtime.GOMAXPROCS(0) }, func(x int) int { return x })},
		{name: "cores", title: "A caller on each core", x: "GOMAXPROCS", y: nanoseconds, xs: cores(),
			note: "In memory, with room; many keys: 10,000", lines: hotAndMany(func(x int) int { return x }, func(x int) int { return x })},
		{name: "redis-quota", title: "In Redis a decision costs the same at any quota", x: "quota", y: microseconds, doubling: true, xs: decades,
			note: "Each by itself, many waiting; logs are full and slide", lines: []line{
				{"log, admitted", ofLog, false, redisQuota(slidegate.SlidingLog, true)},
				{"log, refused", ofLog, true, redisQuota(slidegate.SlidingLog, false)},
				{"counter, admitted", ofCounter, false, redisQuota(slidegate.SlidingCounter, true)},
			}},
		{name: "redis-limits", title: "What another limit costs in Redis", x: "limits", y: microseconds, xs: eight,
			note: "Each by itself, many waiting; logs of 100 are full and slide", lines: []line{
				{"log, admitted", ofLog, false, redisLimits(slidegate.SlidingLog, true)},
				{"log, refused", ofLog, true, redisLimits(slidegate.SlidingLog, false)},
				{"counter, admitted", ofCounter, false, redisLimits(slidegate.SlidingCounter, true)},
			}},
	}
}

// cores are all numbers of them up to those of this machine.
func cores() (all []int) {
	for n := range runtime.NumCPU() {
		all = append(all, n+1)
	}
	return all
}

// measure returns the medians of all lines at every x up to a bound, and tells on the terminal how far it is.
func (c *curve) measure(rounds, most int) (*figures, error) {
	f := &figures{where: fmt.Sprintf("%s, %s/%s, %d cores, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly)), x: c.x}
	for _, l := range c.lines {
		f.lines = append(f.lines, l.name)
	}
	for i, x := range c.xs {
		if x > most {
			break
		}
		values, err := c.point(x, rounds)
		if err != nil {
			return nil, fmt.Errorf("at %d: %w", x, err)
		}
		f.rows = append(f.rows, row{x, values})
		fmt.Fprintf(os.Stderr, "%-12s %2d/%d  %s %-9s", c.name, i+1, len(c.xs), c.x, thousands(x))
		for j, v := range values {
			fmt.Fprintf(os.Stderr, "  %s %.4g", c.lines[j].name, v)
		}
		fmt.Fprintln(os.Stderr)
	}
	return f, nil
}

// point measures all lines in turn, round by round.
func (c *curve) point(x, rounds int) (medians []float64, err error) {
	found := make([][]float64, len(c.lines))
	measures := make([]func() (float64, error), len(c.lines))
	for i, l := range c.lines {
		measure, end := l.open(x)
		defer end()
		measures[i] = measure
	}
	runtime.GC()
	for range rounds {
		for i := range c.lines {
			v, err := measures[i]()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.lines[i].name, err)
			}
			found[i] = append(found[i], v)
		}
	}
	for _, values := range found {
		medians = append(medians, median(values))
	}
	return medians, nil
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
