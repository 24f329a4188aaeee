package replay

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands of docs/replay.md print into it")

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocumentation: what docs/replay.md says that the command prints is what it prints.
func TestDocumentation(t *testing.T) {
	const page = "../../../../../docs/replay.md"
	t.Chdir("testdata") // where the commands of the page are run
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	got := consoleBlock.ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		var b strings.Builder
		b.WriteString("```console\n")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.WriteString(line + printed(t, strings.Fields(command)))
			}
		}
		b.WriteString("```")
		return b.String()
	})
	if blocks < 4 {
		t.Errorf("%d blocks of commands", blocks)
	}
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("%s is out of date: run go test -run TestDocumentation -update in this folder. It should be\n%s", page, got)
	}
}

// printed is the standard output of a command.
func printed(t *testing.T, command []string) string {
	t.Helper()
	if command[0] == "cat" {
		text, err := os.ReadFile(command[1])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if command[0] != "slidegate" || command[1] != "replay" {
		t.Fatalf("%v: the page shows slidegate replay and cat", command)
	}
	out, errs, err := replayed("", command[2:]...)
	if err != nil || errs != "" {
		t.Fatalf("%v: %v, %q", command, err, errs)
	}
	return out
}
