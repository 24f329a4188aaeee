// Curves measures how the cost of a decision grows, and draws it.
//
//	go run ./test/bench/curves -out docs/curves               all curves; about ten minutes
//	go run ./test/bench/curves -out docs/curves -only quota   one of them
//	go run ./test/bench/curves -out docs/curves -draw         the pictures again, by the figures that are there
//
// For each curve it writes NAME.csv, the figures, and NAME.svg, which is drawn from that file and nothing else. A cost is the
// CPU time of this process, or of a redis-server that it starts, so that what other programs do matters little; it is
// the median of some rounds in which all lines of the curve take turns. There is no target here: what grows, and
// what does not, is seen.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/test/bench"
)

var (
	out    = flag.String("out", "", "the directory to write to")
	only   = flag.String("only", strings.Join(names(), ","), "the curves to make, comma-separated")
	rounds = flag.Int("rounds", 5, "how often each point is measured")
	most   = flag.Int("most", 1_000_000, "leave out what is beyond this quota, or number of keys")
	redraw = flag.Bool("draw", false, "measure nothing, and draw by the files of figures that are there")
)

func names() (all []string) {
	for _, c := range curves() {
		all = append(all, c.name)
	}
	return all
}

func main() {
	flag.Parse()
	if *out == "" || *rounds < 1 || *most < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "curves: -out names a directory, -rounds and -most are 1 at least, and there are no arguments")
		os.Exit(2)
	}
	err := run()
	stopServer()
	if err != nil {
		fmt.Fprintf(os.Stderr, "curves: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	all := curves()
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return fmt.Errorf("no curve %q: there are %s", name, strings.Join(names(), ", "))
		}
		if err := all[i].make(*out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// make measures a curve, unless it is only to be drawn, and draws it.
func (c *curve) make(dir string) error {
	if !*redraw {
		f, err := c.measure(*rounds, *most)
		if err != nil {
			return err
		}
		if err := f.write(c.file(dir, "csv")); err != nil {
			return err
		}
	}
	return c.redraw(dir)
}

// file is where a curve has its figures or its picture.
func (c *curve) file(dir, kind string) string { return filepath.Join(dir, c.name+"."+kind) }

// redraw makes the picture by the figures in a directory.
func (c *curve) redraw(dir string) error {
	f, err := readFigures(c.file(dir, "csv"))
	if err != nil {
		return err
	}
	svg, err := c.draw(f)
	if err != nil {
		return err
	}
	return os.WriteFile(c.file(dir, "svg"), svg, 0o644)
}

// redis is started when it is first asked.
var server *bench.Redis

func redis() *bench.Redis {
	if server == nil {
		r, err := bench.StartRedis()
		if err != nil {
			fmt.Fprintf(os.Stderr, "curves: %v\n", err)
			os.Exit(1)
		}
		server = r
	}
	return server
}

func stopServer() {
	if server != nil {
		server.Stop()
	}
}
