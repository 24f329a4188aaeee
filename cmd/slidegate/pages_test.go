package main_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands of the pages print into them")

// rehearsing are the pages whose commands run in the folder with the log, in their order.
var rehearsing = []string{"logs.md", "replay.md", "compare.md", "explain.md", "sweep.md", "worst.md", "tutorial.md"}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestPagesShowWhatCommandsPrint: every command in a console block prints what the page says it does, byte by byte.
func TestPagesShowWhatCommandsPrint(t *testing.T) {
	data, err := filepath.Abs("internal/replay/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range rehearsing {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join("..", "..", "docs", name)
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			commands := 0
			got := consoleBlock.ReplaceAllStringFunc(string(text), func(block string) string {
				var b strings.Builder
				b.WriteString("```console\n")
				for line := range strings.Lines(block) {
					if command, ok := strings.CutPrefix(line, "$ "); ok {
						commands++
						b.WriteString(line + printed(t, data, command))
					}
				}
				return b.String() + "```"
			})
			if commands == 0 {
				t.Fatal("the page shows no command")
			}
			if *update {
				if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s is out of date: run go test -run TestPagesShowWhatCommandsPrint -update in cmd/slidegate. It should be\n%s", page, got)
			}
		})
	}
}

// printed is the standard output of a command, which says nothing else and does not fail.
func printed(t *testing.T, dir, command string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", command)
	path := "PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ([]string{path}), &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %v, %q", command, err, errs.String())
	}
	return out.String()
}
