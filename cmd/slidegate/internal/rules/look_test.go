package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/memstore"
)

// TestAFileIsNotReadHalfWritten: half of a file may be a good one, with fewer rules. A change is taken when two looks in a row
// find the same.
func TestAFileIsNotReadHalfWritten(t *testing.T) {
	const first, second = "rules:\n- {name: a, limits: 1/1s}\n", "- {name: b, path: /b, limits: 1/1s}\n"
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("match: all\n" + first + second)
	store := memstore.New()
	defer store.Close()
	reloads := 0
	f, err := ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(f, func(f *File) (*Engine, error) { return New(f, Options{Store: store}) }, func(Reload) { reloads++ })
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	for step, want := range []struct {
		text           string
		reloads, rules int
	}{
		{"match: all\n" + first + second, 0, 2},
		{"match: all\n" + first, 0, 2},          // half of the next
		{"match: first\n" + first, 0, 2},        // another half
		{"match: all\n" + second + first, 0, 2}, // no YAML of ours
		{"match: all\n" + first, 0, 2},
		{"match: all\n" + first, 1, 1},
		{"match: all\n" + first, 1, 1},
		{"match: all\n" + second, 1, 1},
		{"match: all\n" + second, 2, 1}, // wrong: told of once
		{"match: all\n" + second, 2, 1},
	} {
		write(want.text)
		last = l.look(last)
		if n := len(l.Engine().File().Rules); reloads != want.reloads || n != want.rules {
			t.Errorf("step %d: %d reloads and %d rules, want %d and %d", step, reloads, n, want.reloads, want.rules)
		}
	}
}

// TestALookAtWhatHasNotChangedIsCheap: it reads the bytes and no rules, however many there are.
func TestALookAtWhatHasNotChangedIsCheap(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	costs := func(rules int) float64 {
		var text strings.Builder
		text.WriteString("rules:\n")
		for i := range rules {
			fmt.Fprintf(&text, "- {name: r%d, path: /%d, limits: 1/1s}\n", i, i)
		}
		path := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(f, func(f *File) (*Engine, error) { return New(f, Options{Store: store}) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() { l.look(nil) })
	}
	if one, many := costs(1), costs(300); many > one+300 { // a buffer that grows
		t.Errorf("a look at 300 rules makes %.0f allocations, and at one %.0f", many, one)
	}
}
