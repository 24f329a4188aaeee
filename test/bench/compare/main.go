// Compare runs slidegate and its rivals in turn, round by round in one process, and prints medians,
// ratios and targets as Markdown. What slows the machine down for a while slows all of them.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

var (
	rounds  = flag.Int("rounds", 7, "how often each contender is measured in each part")
	only    = flag.String("only", "", "run only the parts whose name begins with one of these, comma-separated")
	pick    = flag.String("contenders", "", "run only the contenders whose name contains one of these, comma-separated, and what they are compared with")
	list    = flag.Bool("list", false, "list the parts and leave")
	enforce = flag.Bool("enforce", false, "exit with 1 if a target is missed")

	verdicts = flag.Bool("verdicts", false, "measure only what has a target, and print a line for each: ok, MISSED or FORBIDDEN, what was measured, and the target")
	patience = flag.Duration("patience", 6*time.Minute, "how long after the start a part that missed a target may begin once more, with -verdicts")

	page    = flag.String("page", "", "put the table of each part into this file, between the lines <!-- NAME --> and <!-- /NAME -->")
	samples = flag.String("samples", "", "append every measurement of a time to this file, a line each, as benchstat reads them")

	begun = time.Now()

	out io.Writer = os.Stdout
)

func main() {
	flag.Parse()
	all := parts()
	if *list {
		for _, p := range all {
			fmt.Printf("%-18s %s\n", p.name, p.about)
		}
		return
	}
	chosen := slices.DeleteFunc(all, func(p part) bool { return !matches(*only, p.name, strings.HasPrefix) })
	if len(chosen) == 0 || *rounds < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "compare: nothing to run: -rounds is 1 at least, and -list names the parts that -only may choose")
		os.Exit(2)
	}
	fmt.Printf("%s, %s/%s, GOMAXPROCS %d, %d rounds\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *rounds)
	count, missed := 0, 0
	for _, p := range chosen {
		if *verdicts && !slices.ContainsFunc(p.rows, func(r row) bool { return p.isBound(r.name) }) || p.needsRedis() && !hasServer() {
			continue
		}
		outcomes, err := p.publish()
		if err != nil {
			note("compare: %v", err)
			end(1)
		}
		for _, o := range outcomes {
			count++
			if o.isMissed() {
				missed++
			}
		}
	}
	fmt.Printf("\n%d of %d targets missed\n", missed, count)
	if *enforce && missed > 0 {
		end(1)
	}
	end(0)
}

// matches tells whether a comma-separated list names s; an empty list names everything.
func matches(list, s string, match func(s, entry string) bool) bool {
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), func(entry string) bool { return match(s, strings.TrimSpace(entry)) })
}
