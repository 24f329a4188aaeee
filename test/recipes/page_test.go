package recipes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the repository.
var root = filepath.Join("..", "..")

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// examples returns the examples of this directory as they stand in their files, by file.
func examples(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("example_*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range files {
		text := readFile(t, name)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
				all[name] += text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset] + "\n"
			}
		}
	}
	return all
}

// A section is a recipe: a heading, and what stands below it.
type section struct{ heading, text string }

// recipes returns the sections of the page that have a program, and what stands before the first.
func recipes(t *testing.T) (before string, all []section) {
	t.Helper()
	parts := strings.Split(readFile(t, root, "docs", "recipes.md"), "\n## ")
	for _, part := range parts[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		if strings.Contains(text, "```go\n") {
			all = append(all, section{heading, text})
		}
	}
	return parts[0], all
}

var program = regexp.MustCompile("(?s)```go\n(.*?)```\n")

// TestThePageShowsTheExamples: every recipe shows one example, word for word, and links to its file, and every
// example is shown.
func TestThePageShowsTheExamples(t *testing.T) {
	left := examples(t)
	if len(left) < 9 {
		t.Errorf("only %d examples are read", len(left))
	}
	_, all := recipes(t)
	for _, s := range all {
		shown := program.FindAllStringSubmatch(s.text, -1)
		if len(shown) != 1 {
			t.Errorf("%s: %d programs, want 1", s.heading, len(shown))
			continue
		}
		found := false
		for name, text := range left {
			if text == shown[0][1] && strings.Contains(s.text, "](../test/recipes/"+name+")") {
				delete(left, name)
				found = true
			}
		}
		if !found {
			t.Errorf("%s: what it shows is no example of the file that it links to:\n%s", s.heading, shown[0][1])
		}
	}
	for name, text := range left {
		t.Errorf("no recipe shows the example of %s:\n%s", name, text)
	}
}

// TestExamplesAreShort: under 20 lines, from func to the last brace, with what they print, and no line so long that it
// only seems short.
func TestExamplesAreShort(t *testing.T) {
	for name, text := range examples(t) {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) >= 20 {
			t.Errorf("%s: %d lines, want less than 20", name, len(lines))
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > 125 {
				t.Errorf("%s: a line of %d characters: %s", name, n, line)
			}
		}
	}
}

// TestEveryRecipeIsInTheTable that stands before the first, and each says the same things.
func TestEveryRecipeIsInTheTable(t *testing.T) {
	before, all := recipes(t)
	var rows []string
	for line := range strings.Lines(before) {
		if _, target, ok := strings.Cut(line, "](#"); ok && strings.HasPrefix(line, "| ") {
			anchor, _, _ := strings.Cut(target, ")")
			rows = append(rows, anchor)
		}
	}
	var headings []string
	for _, s := range all {
		headings = append(headings, strings.ReplaceAll(strings.ToLower(s.heading), " ", "-"))
		for _, question := range []string{"**Key.** ", "**Number.** ", "**What goes wrong.** "} {
			if strings.Count(s.text, "\n"+question) != 1 {
				t.Errorf("%s does not say %s", s.heading, question)
			}
		}
	}
	if !slices.Equal(rows, headings) {
		t.Errorf("the table leads to %q, the recipes are %q", rows, headings)
	}
}

// TestEveryGateIsInTheTable: the last table names every package of the repository that is a gate.
func TestEveryGateIsInTheTable(t *testing.T) {
	_, table, ok := strings.Cut(readFile(t, root, "docs", "recipes.md"), "\n## Gates\n")
	if !ok {
		t.Fatal("no table of gates")
	}
	directories, err := filepath.Glob(filepath.Join(root, "*gate", "doc.go"))
	if err != nil || len(directories) == 0 {
		t.Fatalf("no gates: %v", err)
	}
	for _, d := range directories {
		if gate := filepath.Base(filepath.Dir(d)); !strings.Contains(table, gate) {
			t.Errorf("the table of gates does not name %s", gate)
		}
	}
}
