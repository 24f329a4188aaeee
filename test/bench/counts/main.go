// Counts prints, as JSON, what decisions take in numbers that do not depend on the speed of the machine: allocations, bytes, and
// commands of Redis. It is a program of its own since the race detector allocates too.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "counts:", err)
		os.Exit(1)
	}
}

func run() error {
	r, err := bench.StartRedis()
	if err != nil {
		return err
	}
	defer r.Stop()
	counts := allocationCounts()
	maps.Copy(counts, heapCounts())
	maps.Copy(counts, redisCounts(r))
	return json.NewEncoder(os.Stdout).Encode(counts)
}

func allocationCounts() map[string]float64 {
	counts := map[string]float64{}
	for _, c := range append(bench.Contenders(), bench.OursOfThree()...) {
		if !bench.IsOurs(c.Name) {
			continue
		}
		l := c.Open(1_000_000_000, 60_000_000_000)
		for range 1000 {
			l.Take("somebody")
		}
		counts["allocations "+c.Name] = testing.AllocsPerRun(1000, func() { l.Take("somebody") })
		l.Close()
	}
	for _, m := range bench.Middlewares() {
		if !m.Ours {
			continue
		}
		for _, crowd := range []string{"http-allowed", "http-denied"} {
			s := bench.FindCrowd(crowd).Serve(&m)
			counts["allocations "+m.Name+" "+crowd] = testing.AllocsPerRun(1000, func() { s.Ask(1) })
			s.Stop()
		}
	}
	return counts
}

func heapCounts() map[string]float64 {
	return map[string]float64{
		"heap a key of a log with one charge":      bench.HeapPerKey(bench.Find(bench.LogTake)),
		"heap a key of a counter":                  bench.HeapPerKey(bench.Find(bench.CounterTake)),
		"heap an entry of a full log of a hundred": bench.BytesPerEntry(100),
		"heap an entry of a full log of 1,000":     bench.BytesPerEntry(1000),
	}
}

func redisCounts(r *bench.Redis) map[string]float64 {
	counts := map[string]float64{}
	for _, c := range bench.RedisContenders(func() string { return r.Addr }) {
		if !bench.IsOurs(c.Name) || !strings.HasSuffix(c.Name, "-alone") {
			continue
		}
		spent := r.Spend(c, 2000)
		counts["scripts "+c.Name], counts["commands "+c.Name], counts["bytes "+c.Name] = math.Round(spent.Scripts), math.Round(spent.Commands*10)/10, spent.Bytes
	}
	for _, p := range bench.PackedLogs() {
		if !p.Rival {
			now, most := p.Memory(r)
			counts["bytes in Redis of "+p.Name], counts["bytes in Redis at most of "+p.Name] = float64(now), float64(most)
		}
	}
	return counts
}
