package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// Equivalents are mutants that no test can tell from the original, with the reason: of the list, in its order.
type equivalents struct {
	names  []string
	reason map[string]string
}

const equivalentFile = "test/mutation/equivalent.txt"

// readEquivalents reads the list: a reason behind "# ", then the mutants that it is of, one in each line.
func readEquivalents(root string) (*equivalents, error) {
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(equivalentFile)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &equivalents{reason: map[string]string{}}
	reason, isReason := "", false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch more, isMore := strings.CutPrefix(line, "# "); {
		case line == "":
		case isMore && isReason:
			reason += " " + more
		case isMore:
			reason, isReason = more, true
		default:
			isReason = false
			e.names = append(e.names, line)
			e.reason[line] = reason
		}
	}
	return e, nil
}

// A report is what became of the mutants.
type report struct {
	mutants []*mutant
	results []result
	known   *equivalents
	all     map[string]int // mutants of each file, the ones included that were not tried
}

// news are the mutants that survived and that are not known to be equivalent.
func (r *report) news() (all []*mutant) {
	for i, m := range r.mutants {
		if r.results[i] == survived && r.known.reason[m.String()] == "" {
			all = append(all, m)
		}
	}
	return all
}

// A score counts the mutants of a file.
type score struct{ all, tried, killed, slow, equivalent, survived int }

// percent is how many of the mutants that can be found were.
func (s score) percent() float64 {
	if s.tried == s.equivalent {
		return 100
	}
	return 100 * float64(s.killed+s.slow) / float64(s.tried-s.equivalent)
}

const (
	head = "| file | mutants | tried | killed | killed by time | equivalent | survived | score |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
	form = "| `%s` | %d | %d | %d | %d | %d | %d |"
)

func (s score) row(file string) string {
	return fmt.Sprintf(form+" %.1f %% |\n", file, s.all, s.tried, s.killed, s.slow, s.equivalent, s.survived, s.percent())
}

// scores counts the mutants of each file that was tried.
func (r *report) scores() map[string]score {
	byFile := map[string]score{}
	for i, m := range r.mutants {
		s := byFile[m.file]
		s.all = r.all[m.file]
		s.tried++
		switch {
		case r.results[i] == unbuilt:
			s.tried--
		case r.results[i] == killed:
			s.killed++
		case r.results[i] == timedOut:
			s.slow++
		case r.known.reason[m.String()] != "":
			s.equivalent++
		default:
			s.survived++
		}
		byFile[m.file] = s
	}
	return byFile
}

// table returns the rows of the targets' files, and their sum.
func table(byFile map[string]score) string {
	var b strings.Builder
	var sum score
	b.WriteString(head)
	for _, t := range targets {
		for _, file := range t.files {
			s, ok := byFile[file]
			if !ok {
				continue
			}
			b.WriteString(s.row(file))
			sum = score{sum.all + s.all, sum.tried + s.tried, sum.killed + s.killed, sum.slow + s.slow, sum.equivalent + s.equivalent, sum.survived + s.survived}
		}
	}
	return b.String() + sum.row("together")
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", table(r.scores()))
	for _, m := range r.news() {
		fmt.Fprintln(w, "survived:", m)
	}
	var sum score
	for i, m := range r.mutants {
		if r.known.reason[m.String()] != "" && r.results[i] != survived {
			fmt.Fprintln(w, "listed as equivalent, and killed:", m)
		}
	}
	for _, s := range r.scores() {
		sum = score{0, sum.tried + s.tried, sum.killed + s.killed, sum.slow + s.slow, sum.equivalent + s.equivalent, 0}
	}
	fmt.Fprintf(w, "score: %.1f %%\n", sum.percent())
}

// The page has prose, the table, prose, and the list.
const (
	pageFile  = "docs/mutants.md"
	listStart = "## What survives\n"
)

// write puts the scores of this run into the table of the page, and the list behind it.
func (r *report) write(root string) error {
	path := filepath.Join(root, filepath.FromSlash(pageFile))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, isPage := strings.Cut(string(text), head)
	end := strings.Index(rest, "\n\n")
	if !isPage || end < 0 {
		return fmt.Errorf("%s has no table of scores", pageFile)
	}
	byFile := map[string]score{}
	for line := range strings.Lines(rest[:end]) {
		var s score
		file, numbers, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		fmt.Sscanf(numbers, "%d | %d | %d | %d | %d | %d |", &s.all, &s.tried, &s.killed, &s.slow, &s.equivalent, &s.survived)
		byFile[file] = s
	}
	maps.Copy(byFile, r.scores())
	between, _, _ := strings.Cut(rest[end+1:], listStart)
	return os.WriteFile(path, []byte(before+table(byFile)+between+listStart+r.known.list()), 0o644)
}

// list returns every mutant that is equivalent, under its reason.
func (e *equivalents) list() string {
	var b strings.Builder
	last := ""
	for _, name := range e.names {
		if reason := e.reason[name]; reason != last {
			if last != "" {
				b.WriteString("```\n")
			}
			fmt.Fprintf(&b, "\n%s\n\n```text\n", reason)
			last = reason
		}
		b.WriteString(name + "\n")
	}
	if last != "" {
		b.WriteString("```\n")
	}
	return b.String()
}
