package bench_test

import (
	"encoding/json"
	"flag"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/bench"
)

var update = flag.Bool("update", false, "write counts.json anew")

const countsFile = "counts.json"

// slack is by how much a count may grow: what a tool counts varies a little, and so does memory.
func slack(name string) float64 {
	switch kind, _, _ := strings.Cut(name, " "); kind {
	case "instructions":
		return 1.08
	case "heap", "bytes":
		return 1.03
	}
	return 1
}

// TestNothingHasBecomeDearer holds numbers that do not depend on the speed of the machine against those of counts.json: allocations,
// bytes, commands and instructions of a decision. What has become cheaper is told. -update writes the file anew: with the change that explains it.
func TestNothingHasBecomeDearer(t *testing.T) {
	got := map[string]float64{}
	maps.Copy(got, allocationCounts())
	maps.Copy(got, heapCounts())
	maps.Copy(got, redisCounts(t))
	maps.Copy(got, instructionCounts(t))
	for name := range got {
		got[name] = math.Round(got[name]*100) / 100
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(countsFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := readCounts(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[name]
		switch w := want[name]; {
		case !ok:
			t.Errorf("%s is no longer counted", name)
		case g > w*slack(name):
			t.Errorf("%s: %v, was %v: dearer. If that is the price of something, -update and say of what", name, g, w)
		case g*slack(name) < w:
			t.Logf("%s: %v, was %v: cheaper; -update keeps it so", name, g, w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not in %s: -update", name, countsFile)
		}
	}
}

func readCounts(t *testing.T) (counts map[string]float64) {
	t.Helper()
	text, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &counts); err != nil {
		t.Fatal(err)
	}
	return counts
}

func allocationCounts() map[string]float64 {
	counts := map[string]float64{}
	for _, c := range ours() {
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

func redisCounts(t *testing.T) map[string]float64 {
	r, counts := bench.NewRedis(t), map[string]float64{}
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

// instructionCounts asks cachegrind, which counts the same on a machine that is busy.
func instructionCounts(t *testing.T) map[string]float64 {
	program := filepath.Join(t.TempDir(), "instructions")
	if out, err := exec.Command("go", "build", "-o", program, "./instructions").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counts := map[string]float64{}
	for _, name := range []string{"log", "log-refused", "counter", "counter-refused", "three-logs", "gate", "gate-context", "gate-refused"} {
		const few, many = 2_000, 22_000
		counts["instructions "+name] = math.Round((instructions(t, program, name, many) - instructions(t, program, name, few)) / (many - few))
	}
	return counts
}

var instructionsLine = regexp.MustCompile(`I\s+refs:\s+([0-9,]+)`)

func instructions(t *testing.T, program, name string, calls int) float64 {
	t.Helper()
	cmd := exec.Command("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", program, "-case", name, "-calls", strconv.Itoa(calls))
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	out, err := cmd.CombinedOutput()
	m := instructionsLine.FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("valgrind (make test installs it): %v\n%s", err, out)
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
