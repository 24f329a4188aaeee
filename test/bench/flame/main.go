// Flame draws where the time of a decision goes, in the workloads where another limiter is faster.
//
//	go run ./test/bench/flame -out docs/flames                 all of them; about a minute
//	go run ./test/bench/flame -out docs/flames -only uniform   one
//	go run ./test/bench/flame -out docs/flames -draw           the pictures again, by the stacks that are there
//
// For each it writes NAME.stacks, a line for each stack with its samples, as tools for flame graphs read them, and NAME.svg,
// which is drawn from that file and nothing else. The profile is the CPU profile of Go, and a stack begins where a limiter is asked.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

var (
	out    = flag.String("out", "", "the directory to write to")
	only   = flag.String("only", strings.Join(names(), ","), "what to draw, comma-separated")
	long   = flag.Duration("for", 5*time.Second, "how long each is profiled")
	redraw = flag.Bool("draw", false, "profile nothing, and draw by the files of stacks that are there")
)

func names() (all []string) {
	for _, s := range scenes() {
		all = append(all, s.name)
	}
	return all
}

func main() {
	flag.Parse()
	if *out == "" || *long <= 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "flame: -out names a directory, -for is more than 0, and there are no arguments")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "flame: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return fmt.Errorf("nothing is called %q: there are %s", name, strings.Join(names(), ", "))
		}
		if err := scenes()[i].make(*out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// make profiles a scene, unless it is only to be drawn, and draws it.
func (s *scene) make(dir string) error {
	file := filepath.Join(dir, s.name+".stacks")
	if !*redraw {
		p, err := s.profile(*long)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, fold(p, s.root).text(), 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	all, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	svg, err := draw(s.title, all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.name+".svg"), svg, 0o644)
}

// profile records the CPU profile of a scene that goes on for some time.
func (s *scene) profile(long time.Duration) (*profile.Profile, error) {
	ask, stop := s.open()
	defer stop()
	ask()
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	for start := time.Now(); time.Since(start) < long; {
		ask()
	}
	pprof.StopCPUProfile()
	return profile.Parse(&b)
}
