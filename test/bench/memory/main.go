// Memory measures what limiters hold for their keys, on the heap and in the resident set, each in a process of its own
// that does nothing else, and prints it as Markdown. It reads /proc, so it needs Linux.
//
//	go run ./test/bench/memory               all of it; about eight minutes, most of them asleep
//	go run ./test/bench/memory -only active  a part: active, entries, idle, redis
//
// Bytes are those beyond what the process had before it opened the limiter, for each key or entry.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

var (
	only   = flag.String("only", "active,entries,idle,redis", "the parts to run, comma-separated")
	keys   = flag.Int("keys", 1_000_000, "how many keys count, in active and idle")
	filled = flag.Int("entries", 4_000_000, "how many entries there are in all full logs together")
	window = flag.Duration("window", 30*time.Second, "the window after which keys are idle")
	rest   = flag.Duration("rest", 3*time.Minute, "how long the process is left alone once all windows are over")
	child  = flag.String("child", "", "measure this, PART/NAME, in this process, and print JSON")
)

func main() {
	flag.Parse()
	if *keys < 1 || *filled < sizes[len(sizes)-1] || *window <= 0 || flag.NArg() > 0 {
		fatal(fmt.Errorf("-keys and -window are positive, -entries is 10000 at least, and there are no arguments"))
	}
	if *child != "" {
		measureHere(*child)
		return
	}
	fmt.Printf("%s, %s/%s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	parts := map[string]func(){"active": active, "entries": entries, "idle": idle, "redis": inRedis}
	for name := range strings.SplitSeq(*only, ",") {
		run := parts[name]
		if run == nil {
			fatal(fmt.Errorf("no part %q: there are active, entries, idle and redis", name))
		}
		run()
	}
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "memory: %v\n", err)
	os.Exit(1)
}

// note says on the terminal what is under way.
func note(format string, args ...any) { fmt.Fprintf(os.Stderr, "memory: "+format+"\n", args...) }

// inChild measures PART/NAME in a fresh process and returns the footprints that it printed, in their order.
func inChild(name string) (all []footprint, err error) {
	note("%s", name)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-child", name, fmt.Sprintf("-keys=%d", *keys), fmt.Sprintf("-entries=%d", *filled), fmt.Sprintf("-window=%s", *window), fmt.Sprintf("-rest=%s", *rest))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, json.NewDecoder(bytes.NewReader(out)).Decode(&all)
}

func measureHere(name string) {
	part, name, _ := strings.Cut(name, "/")
	f := map[string]func(string) []footprint{"active": activeHere, "entries": entriesHere, "idle": idleHere}[part]
	if f == nil {
		fatal(fmt.Errorf("no part %q is measured in a process of its own", part))
	}
	if err := json.NewEncoder(os.Stdout).Encode(f(name)); err != nil {
		fatal(err)
	}
}
