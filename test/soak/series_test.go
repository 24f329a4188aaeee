package soak

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A point is what was measured at a time.
type point struct {
	at    time.Duration // since the beginning
	value float64
}

// A series is one thing that is measured again and again. It is safe for concurrent use.
type series struct {
	name     string
	isSteady bool    // what it is of lives through the second half, so it is judged by that
	room     float64 // bytes that it may grow by, however short the run

	mu     sync.Mutex
	points []point
}

func (s *series) add(at time.Duration, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = append(s.points, point{at, value})
}

func (s *series) all() []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points)
}

// last returns the newest value, or 0.
func (s *series) last() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.points) == 0 {
		return 0
	}
	return s.points[len(s.points)-1].value
}

// A trend is a straight line through the second half of a series, by least squares.
type trend struct {
	mean, grown float64       // grown is from its beginning to its end
	noise       float64       // that the line may be wrong by
	long        time.Duration // of the half
}

// independent is how many of the points tell something of their own at most: between two collections of garbage all
// points have the same to tell.
const independent = 20

// trendOf returns the trend of points in the order of their time. The noise is three standard errors of the growth.
func trendOf(points []point) trend {
	half := points[len(points)/2:]
	if len(half) < 3 {
		return trend{}
	}
	n := float64(len(half))
	var x, y, xx, xy float64
	for _, p := range half {
		x, y = x+p.at.Seconds()/n, y+p.value/n
	}
	for _, p := range half {
		dx := p.at.Seconds() - x
		xx, xy = xx+dx*dx, xy+dx*(p.value-y)
	}
	long := half[len(half)-1].at - half[0].at
	slope := xy / xx
	var residue float64
	for _, p := range half {
		off := p.value - y - slope*(p.at.Seconds()-x)
		residue += off * off / n
	}
	return trend{y, slope * long.Seconds(), 3 * math.Sqrt(12*residue/min(n, independent)), long}
}

// rate is how much more of itself a series may have an hour later.
const rate = 0.10

// growth says by how much a series grows, or "" if it does not: if what is more than noise is less than a tenth of the
// mean an hour, and its room.
func (s *series) growth() string {
	t := trendOf(s.all())
	allowed := s.room + rate*t.mean*t.long.Hours()
	if t.grown-t.noise <= allowed {
		return ""
	}
	return fmt.Sprintf("%s grew by %s in %s, %s of it noise at most, want %s at most",
		s.name, mib(t.grown), t.long.Round(time.Second), mib(t.noise), mib(allowed))
}

func mib(bytes float64) string { return strconv.FormatFloat(bytes/(1<<20), 'f', 1, 64) + " MiB" }

// liveHeap returns the bytes that the last collection of garbage found in use here.
func liveHeap() float64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// resident returns the bytes of this process in memory, or 0 where there is no /proc.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(fields[0], 64)
	return kib * 1024
}

// descriptors returns how many files this process has open.
func descriptors() float64 {
	open, _ := os.ReadDir("/dev/fd")
	return float64(len(open))
}

// A holding is what a process, or a Redis, holds on to while nobody asks.
type holding struct {
	name  string
	value float64
	more  float64 // that it may be at the end
}

// ownHoldings returns those of this process.
func ownHoldings() []holding {
	return []holding{
		{"this program: goroutines", float64(runtime.NumGoroutine()), 5},
		{"this program: file descriptors", descriptors(), 5},
	}
}

// kept says what is held on to at the end that was not at the beginning.
func kept(before, after []holding) (all []string) {
	for i, a := range after {
		if a.value > before[i].value+a.more {
			all = append(all, fmt.Sprintf("%s: %.0f, and %.0f before", a.name, a.value, before[i].value))
		}
	}
	return all
}
