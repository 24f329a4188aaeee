package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKindsOfFaults: what is made of a few lines of Go, and of Lua.
func TestKindsOfFaults(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	const dir = "test/mutation/testdata/small"
	byDir, exports, err := load(root, []string{"./" + dir})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	add := func(name string) { got = append(got, name) }
	number := func(_, name string, _ place) int { add(name); return len(got) }
	if _, err := instrument(root, byDir[dir], exports, []string{dir + "/small.go"}, number); err != nil {
		t.Fatal(err)
	}
	check(t, got, []string{
		"first: if ⟦n >= most → n > most⟧ && !odd(n) {",
		"first: if ⟦n >= most → n < most⟧ && !odd(n) {",
		"first: if n >= most && ⟦!odd(n) → odd(n)⟧ {",
		"first: if ⟦n >= most && !odd(n) → n >= most || !odd(n)⟧ {",
		"first: return ⟦i → 0⟧, nil",
		"first: ⟦most -= size → most += size⟧",
		"first: ⟦most -= size → ⟧",
		"first: return len(list) + ⟦1 → 1+1⟧, err",
		"first: return len(list) + ⟦1 → 1-1⟧, err",
		"first: return ⟦len(list) + 1 → len(list) - 1⟧, err",
		"first: return ⟦len(list) + 1 → 0⟧, err",
		"first: return len(list) + 1, ⟦err → nil⟧",
		"odd: func odd(n int64) bool { return n%⟦2 → 2+1⟧ != 0 }",
		"odd: func odd(n int64) bool { return n%⟦2 → 2-1⟧ != 0 }",
		"odd: func odd(n int64) bool { return ⟦n%2 → n * 2⟧ != 0 }",
		"odd: func odd(n int64) bool { return n%2 != ⟦0 → 0+1⟧ }",
		"odd: func odd(n int64) bool { return n%2 != ⟦0 → 0-1⟧ }",
		"odd: func odd(n int64) bool { return ⟦n%2 != 0 → n%2 == 0⟧ }",
	})
	got = nil
	luaMutants("local function late(a) -- of 1\n  if not a or a <= -2 then\n    redis.call('DEL', 'a+b')\n  end\nend\n", func(name, _ string) { add(name) })
	check(t, got, []string{
		"late: if ⟦not → ⟧ a or a <= -2 then",
		"late: if not a ⟦or → and⟧ a <= -2 then",
		"late: if not a or a ⟦<= → <⟧ -2 then",
		"late: if not a or a ⟦<= → >⟧ -2 then",
		"late: if not a or a <= ⟦- → ⟧2 then",
		"late: if not a or a <= -⟦2 → (2+1)⟧ then",
		"late: if not a or a <= -⟦2 → (2-1)⟧ then",
		"late: ⟦redis.call('DEL', 'a+b') → ⟧",
	})
}

func check(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the faults are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFaultsAreFound tries a few faults of the arithmetic and of a script, with the tests that are next to them: every one is
// found, or listed. Without a fault the same tests pass, or none would have been tried.
func TestFaultsAreFound(t *testing.T) {
	l, known := newTestLab(t)
	all := l.mutants
	var some []*mutant
	for file, every := range map[string]int{"internal/window/": 16, "redisstore/reset.lua": 7} {
		l.mutants = all
		if err := l.choose(file, every); err != nil {
			t.Fatal(err)
		}
		some = append(some, l.mutants...)
	}
	l.mutants, l.wanted = some, regexp.MustCompile("Wait|Window|Known|Floor|Recorded|Newer|Foreign|ScriptsAreTheOracle|ServerClock")
	for _, m := range l.mutants {
		m.killers = m.killers[:1]
	}
	if err := l.build(); err != nil {
		t.Fatal(err)
	}
	r := report{l.mutants, l.tryAll(2), known, nil}
	for _, m := range r.news() {
		t.Errorf("survived: %s", m)
	}
	if n := len(l.mutants); n < 8 {
		t.Errorf("only %d were tried", n)
	}
}

func newTestLab(t *testing.T) (*lab, *equivalents) {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLab(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	known, err := readEquivalents(root)
	if err != nil {
		t.Fatal(err)
	}
	return l, known
}

// TestEquivalentsAreMutants: the list names mutants that there are, each once and with a reason, and the page shows it.
func TestEquivalentsAreMutants(t *testing.T) {
	l, known := newTestLab(t)
	there := map[string]bool{}
	for _, m := range l.mutants {
		if there[m.String()] {
			t.Errorf("two mutants have the name %s", m)
		}
		there[m.String()] = true
	}
	seen := map[string]bool{}
	for _, name := range known.names {
		if !there[name] {
			t.Errorf("%s lists what is no mutant any more: look what became of it with go run ./test/mutation -list\n%s", equivalentFile, name)
		}
		if seen[name] || known.reason[name] == "" {
			t.Errorf("%s has a second time, or without a reason: %s", equivalentFile, name)
		}
		seen[name] = true
	}
	page, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(pageFile)))
	if err != nil {
		t.Fatal(err)
	}
	if _, list, _ := strings.Cut(string(page), listStart); list != known.list() {
		t.Errorf("%s does not show the list of %s: go run ./test/mutation -page -only reset.lua writes it", pageFile, equivalentFile)
	}
}
