package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/test/bench"
)

// A footprint is what a process holds: the bytes of its objects, with those that are garbage and not collected yet; those
// that its heap has asked of the system for; and those that are resident.
type footprint struct{ Heap, System, Resident int64 }

func now() footprint {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int64(m.HeapAlloc), int64(m.HeapSys), resident()}
}

// resident returns VmRSS.
func resident() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); f[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				fatal(err)
			}
			return kib << 10
		}
	}
	fatal(fmt.Errorf("/proc/self/status has no VmRSS"))
	return 0
}

// collected is now, after the garbage is gone.
func collected() footprint {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	return now()
}

// returned is now, after all that is free went back to the system.
func returned() footprint {
	debug.FreeOSMemory()
	return now()
}

func (f footprint) less(g footprint) footprint {
	return footprint{f.Heap - g.Heap, f.System - g.System, f.Resident - g.Resident}
}

// by splits a footprint among n and writes it to a tenth of a byte.
func by(n int, bytes int64) string { return strconv.FormatFloat(float64(bytes)/float64(n), 'f', 1, 64) }

// A filling is a limiter in which every key counts.
type filling struct {
	name, contender string
	charges         int
}

func fillings() []filling {
	return []filling{
		{"log, one charge", bench.LogTake, 1},
		{"log, five charges", bench.LogTake, 5},
		{"log, ten charges", bench.LogTake, 10},
		{"counter", bench.CounterTake, 1},
		{"three logs, one charge", bench.Log3Take, 1},
		{"a log and two counters", bench.Mixed3Take, 1},
		{"go-limiter", bench.Baseline, 1},
		{"httprate", "httprate", 1},
	}
}

func contender(name string) bench.Contender {
	for _, c := range bench.OursOfThree() {
		if c.Name == name {
			return c
		}
	}
	return bench.Find(name)
}

func active() {
	fmt.Printf("\n**active**: bytes for each of %d active keys\n\n", *keys)
	fmt.Print("| | heap | HeapSys | RSS as it is | RSS after FreeOSMemory |\n|---|--:|--:|--:|--:|\n")
	for _, f := range fillings() {
		all, err := inChild(fmt.Sprintf("active/%s/%d", f.contender, f.charges))
		if err != nil {
			fatal(err)
		}
		full, packed := all[0], all[1]
		fmt.Printf("| %s | %s | %s | %s | %s |\n", f.name, by(*keys, packed.Heap), by(*keys, full.System), by(*keys, full.Resident), by(*keys, packed.Resident))
	}
}

// activeHere returns the footprint as it is once all keys are charged, and with nothing left to give back.
func activeHere(name string) []footprint {
	name, times, _ := strings.Cut(name, "/")
	charges, err := strconv.Atoi(times)
	if err != nil {
		fatal(err)
	}
	c, before := contender(name), returned()
	l := c.Open(100, time.Hour)
	fill(l, charges)
	full, packed := now().less(before), returned().less(before)
	l.Take(bench.Key(0)) // or the limiter would be garbage by now
	l.Close()
	return []footprint{full, packed}
}

// fill charges every key so many times, one pass after the other, with strings that only the limiter may keep.
func fill(l bench.Limiter, charges int) {
	for range charges {
		for i := range *keys {
			if v, _ := l.Take(bench.Key(i)); v != bench.Allowed {
				fatal(fmt.Errorf("a key has no room"))
			}
		}
	}
}

// sizes are the numbers of entries of full logs.
var sizes = []int{10, 100, 1000, 10_000}

func entries() {
	fmt.Printf("\n**entries**: bytes for each entry of full logs, %d entries in all, what belongs to their keys included\n\n", *filled)
	fmt.Print("| entries a log | heap | HeapSys | RSS as it is | RSS after FreeOSMemory |\n|--:|--:|--:|--:|--:|\n")
	for _, n := range sizes {
		all, err := inChild("entries/" + strconv.Itoa(n))
		if err != nil {
			fatal(err)
		}
		full, packed := all[0], all[1]
		fmt.Printf("| %d | %s | %s | %s | %s |\n", n, by(*filled, packed.Heap), by(*filled, full.System), by(*filled, full.Resident), by(*filled, packed.Resident))
	}
}

func entriesHere(name string) []footprint {
	n, err := strconv.Atoi(name)
	if err != nil {
		fatal(err)
	}
	ctx, at, before := context.Background(), time.UnixMilli(1_000_000_000_000), returned()
	store := memstore.New(memstore.WithClock(func() time.Time { return at }))
	limiter := slidegate.MustNew(store, slidegate.PerDay(int64(n)))
	for range n {
		at = at.Add(7 * time.Millisecond)
		for k := range *filled / n {
			if allowed, err := limiter.Allow(ctx, bench.Key(k)); err != nil || !allowed {
				fatal(fmt.Errorf("a log is full too early: %w", err))
			}
		}
	}
	full, packed := now().less(before), returned().less(before)
	_ = store.Close()
	return []footprint{full, packed}
}

// windowsOver is how many windows pass until a contender may have nothing to keep: a counter counts for two, and who sweeps
// comes by once in a window.
const windowsOver = 4

func idle() {
	names := []string{bench.LogTake, bench.CounterTake, bench.Baseline, "httprate"}
	found, wait := make([][]footprint, len(names)), sync.WaitGroup{}
	for i, name := range names { // they sleep, and are no burden to each other
		wait.Go(func() {
			all, err := inChild("idle/" + name)
			if err != nil {
				fatal(err)
			}
			found[i] = all
		})
	}
	wait.Wait()
	fmt.Printf("\n**idle**: bytes for each of %d keys of a window of %s, heap / RSS, while nobody asks the process anything\n\n", *keys, *window)
	fmt.Printf("| | all count | %d windows later | %s more | after FreeOSMemory |\n|---|--:|--:|--:|--:|\n", windowsOver, *rest)
	for i, name := range names {
		fmt.Printf("| %s ", name)
		for _, f := range found[i] {
			fmt.Printf("| %s / %s ", by(*keys, f.Heap), by(*keys, f.Resident))
		}
		fmt.Println("|")
	}
}

// idleHere returns the footprint while all keys count, when every window is over, after a rest more, and when all that is free
// was given back. Nothing but the first and the last is asked for.
func idleHere(name string) []footprint {
	c, before := bench.Find(name), returned()
	l := c.Sweeping(100, *window)
	begun := time.Now()
	fill(l, 1)
	if took := time.Since(begun); took > *window {
		fatal(fmt.Errorf("to fill it took %s: -window has to be longer than %s", took, *window))
	}
	all := []footprint{collected().less(before)}
	time.Sleep(windowsOver * *window)
	all = append(all, now().less(before))
	time.Sleep(*rest)
	all = append(all, now().less(before), returned().less(before))
	l.Take(bench.Key(0)) // as above
	l.Close()
	return all
}
