package laws

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page returns docs/laws.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "laws.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThePageHasTheLaws, all of them and in their order, and the kinds of store.
func TestThePageHasTheLaws(t *testing.T) {
	text := page(t)
	_, table, _ := strings.Cut(text, "\n|--:|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != 13 || len(Laws()) != 13 {
		t.Fatalf("%d rows and %d laws, want 13 of both", len(rows), len(Laws()))
	}
	for i, law := range Laws() {
		if !strings.HasPrefix(rows[i], fmt.Sprintf("| %d | ", i+1)) || !strings.Contains(rows[i], "[`"+law.Name+"`](../test/laws/") {
			t.Errorf("row %d is not that of %s: %s", i+1, law.Name, rows[i])
		}
	}
	for _, kind := range kinds() {
		if !strings.Contains(text, "`"+kind.name+"`") {
			t.Errorf("the page does not tell of %s", kind.name)
		}
	}
}
