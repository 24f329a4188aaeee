package deploy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// values are what names of docs/sizing.md stand for.
type values map[string]float64

var constantRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\d. ]+) \\|")

// constants reads the table of them.
func constants(t *testing.T, page string) values {
	t.Helper()
	all := values{}
	_, section, _ := strings.Cut(page, "\n## Constants\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range constantRow.FindAllStringSubmatch(section, -1) {
		all[row[1]] = number(t, row[2])
	}
	if len(all) != 16 {
		t.Fatalf("%d constants are read", len(all))
	}
	return all
}

// A formula is a line of the page: a name, and what it is.
type formula struct {
	name string
	is   ast.Expr
}

var formulaLine = regexp.MustCompile(`(?m)^(\w+) += (.*)$`)

func formulas(t *testing.T, fence string) (all []formula) {
	t.Helper()
	for _, line := range formulaLine.FindAllStringSubmatch(fence, -1) {
		is, err := parser.ParseExpr(line[2])
		if err != nil {
			t.Fatalf("%s: %v", line[0], err)
		}
		all = append(all, formula{line[1], is})
	}
	return all
}

var functions = map[string]func(a ...float64) float64{
	"ceil": func(a ...float64) float64 { return math.Ceil(a[0]) },
	"max":  func(a ...float64) float64 { return math.Max(a[0], a[1]) },
	"min":  func(a ...float64) float64 { return math.Min(a[0], a[1]) },
}

// of works an expression out. It panics where it has a name that has no value.
func (v values) of(e ast.Expr) float64 {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return v.of(e.X)
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(e.Value, 64)
		if err != nil {
			panic(err)
		}
		return n
	case *ast.Ident:
		n, ok := v[e.Name]
		if !ok {
			panic("there is no " + e.Name)
		}
		return n
	case *ast.CallExpr:
		var args []float64
		for _, a := range e.Args {
			args = append(args, v.of(a))
		}
		return functions[e.Fun.(*ast.Ident).Name](args...)
	case *ast.BinaryExpr:
		x, y := v.of(e.X), v.of(e.Y)
		switch e.Op {
		case token.ADD:
			return x + y
		case token.SUB:
			return x - y
		case token.MUL:
			return x * y
		case token.QUO:
			return x / y
		}
	}
	panic(fmt.Sprintf("a formula has a %T that this test cannot work out", e))
}

var exampleRows = regexp.MustCompile("(?m)^\\| `(\\w+)` ((?:\\| \\**[\\d. ]+\\** )+)\\|$")

// TestSizesFollowFromTheFormulas: every table of docs/sizing.md behind formulas has in its columns what is given, and what they
// make of it.
func TestSizesFollowFromTheFormulas(t *testing.T) {
	page := readFile(t, "docs", "sizing.md")
	known, checked := constants(t, page), 0
	for section := range strings.SplitSeq(page, "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		_, rest, ok := strings.Cut(section, "```text\n")
		if !ok {
			continue
		}
		fence, tables, _ := strings.Cut(rest, "```")
		rows := exampleRows.FindAllStringSubmatch(tables, -1)
		if len(rows) == 0 {
			t.Errorf("%s: no examples are read", title)
			continue
		}
		for column := range strings.Count(rows[0][2], "|") {
			checked += results(t, title, formulas(t, fence), rows, column, maps.Clone(known))
		}
	}
	if checked != 6*16+3+4*4 {
		t.Errorf("%d results are checked", checked)
	}
}

// results works out a column, and returns how many results it has.
func results(t *testing.T, title string, all []formula, rows [][]string, column int, v values) (n int) {
	t.Helper()
	said := map[string]string{}
	for _, row := range rows {
		cell := strings.Trim(strings.Split(row[2], "|")[column+1], " *")
		said[row[1]], v[row[1]] = cell, number(t, cell)
	}
	for given, may := range map[string][]string{
		"server_us": {"alone_us", "some_folded_us", "folded_us"},
		"asking_us": {"client_us", "client_folded_us"},
		"bytes":     {"payload", "payload_folded"},
		"rss":       {"rss_log", "rss_ten", "rss_counter"},
	} {
		if _, ok := said[given]; ok && !slices.ContainsFunc(may, func(name string) bool { return v[name] == v[given] }) {
			t.Errorf("%s, column %d: %s is %v, and that is none of %v", title, column+1, given, v[given], may)
		}
	}
	for _, f := range all {
		v[f.name] = v.of(f.is)
		cell, ok := said[f.name]
		if !ok {
			t.Errorf("%s: the table has no %s", title, f.name)
			continue
		}
		_, decimals, _ := strings.Cut(cell, ".")
		if want := strconv.FormatFloat(v[f.name], 'f', len(decimals), 64); want != strings.ReplaceAll(cell, " ", "") {
			t.Errorf("%s, column %d: %s is %s, and the page says %s", title, column+1, f.name, want, cell)
		}
		n++
	}
	return n
}

// TestConstantsAreThoseOfOtherPages, where another page has them.
func TestConstantsAreThoseOfOtherPages(t *testing.T) {
	known := constants(t, readFile(t, "docs", "sizing.md"))
	for name, from := range map[string]struct{ file, pattern string }{
		"alone_us":       {"redis.md", `(?m)^\| 16, each by itself \| ([\d.]+) \|`},
		"some_folded_us": {"redis.md", `(?m)^\| 16, folded \| ([\d.]+) \|`},
		"folded_us":      {"redis.md", `(?m)^\| 256, folded \| ([\d.]+) \|`},
		"log_bytes":      {"operations.md", `the sum over the limits of \((\d+) \+ 7 × entries\) bytes`},
		"entry_bytes":    {"operations.md", `the sum over the limits of \(260 \+ (\d+) × entries\) bytes`},
		"counter_bytes":  {"operations.md", `with (\d+) for a counter`},
		"rss_log":        {"sizing.md", `(?m)^\| log, one charge \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|`},
		"rss_ten":        {"sizing.md", `(?m)^\| log, ten charges \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|`},
		"rss_counter":    {"sizing.md", `(?m)^\| counter \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|`},
	} {
		found := regexp.MustCompile(from.pattern).FindStringSubmatch(readFile(t, "docs", from.file))
		if found == nil {
			t.Errorf("docs/%s does not have %s", from.file, name)
		} else if got := number(t, found[1]); got != known[name] {
			t.Errorf("docs/%s has %v, and %s is %v", from.file, got, name, known[name])
		}
	}
	rows := strings.Split(strings.TrimSpace(readFile(t, "docs", "curves", "keys.csv")), "\n")
	million := strings.Split(rows[len(rows)-1], ",")
	if got := number(t, million[1]); million[0] != "1000000" || math.Abs(got-known["decision_ns"]) > 5 {
		t.Errorf("a decision among %s keys took %v ns, and decision_ns is %v", million[0], got, known["decision_ns"])
	}
}
