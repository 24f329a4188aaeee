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
	got := printedCounts(t)
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

// printedCounts are those of the program in counts.
func printedCounts(t *testing.T) (counts map[string]float64) {
	cmd := exec.Command("go", "run", "./counts")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &counts)
	}
	if err != nil {
		t.Fatal(err)
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
