package soak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThePageHasTheActs: docs/soak.md says what happens, in the same order.
func TestThePageHasTheActs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "soak.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, a := range acts {
		name := a.name
		if a.isEarly {
			name = "*" + name + "*"
		}
		want.WriteString("- " + name + "\n")
	}
	if !strings.Contains(string(text), "\n\n"+want.String()+"\n") {
		t.Errorf("docs/soak.md has another list than\n%s", want.String())
	}
}
