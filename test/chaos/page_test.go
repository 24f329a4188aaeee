package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// meanwhile is what the page says of an effect: which decisions are made, and when all are again.
var meanwhile = map[effect][2]string{
	none: {"every decision is made", "at once"},
	some: {"some decisions are not made", "within 2 s"},
	few:  {"some decisions may not be made", "within 2 s"},
	all:  {"no decision is made", "within 2 s"},
	away: {"the other replica decides as before", "at once"},
}

// row is a fault as the page has it.
func (f fault) row() string {
	bound := "the quota"
	if f.forgets {
		bound = "two quotas"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.name, f.what, meanwhile[f.effect][0], meanwhile[f.effect][1], bound)
}

// TestThePageHasTheTable: docs/chaos.md says of each fault what is tested, in the same order.
func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "chaos.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, f := range faults {
		want.WriteString(f.row())
	}
	_, table, _ := strings.Cut(string(text), "\n|---|---|---|---|---|\n")
	if table, _, _ = strings.Cut(table, "\n\n"); table+"\n" != want.String() {
		t.Errorf("docs/chaos.md has another table than\n%s", want.String())
	}
}
