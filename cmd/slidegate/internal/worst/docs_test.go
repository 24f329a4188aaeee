package worst

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

var update = flag.Bool("update", false, "write what the commands of docs/worst.md print into it")

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocumentation: what docs/worst.md says that the commands print is what they print.
func TestDocumentation(t *testing.T) {
	const page = "../../../../docs/worst.md"
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
				b.WriteString(line + printed(t, command))
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

// printed is the standard output of a pipe of commands.
func printed(t *testing.T, pipe string) string {
	t.Helper()
	var out bytes.Buffer
	for command := range strings.SplitSeq(pipe, "|") {
		words := strings.Fields(command)
		cmd := map[string]func() *cobra.Command{"worst": Command, "replay": replay.Command}[words[1]]
		if words[0] != "slidegate" || cmd == nil {
			t.Fatalf("%s: the page shows slidegate worst and slidegate replay", pipe)
		}
		in := bytes.NewReader(bytes.Clone(out.Bytes()))
		out.Reset()
		if errs, err := run(cmd(), in, &out, words[2:]...); err != nil || errs != "" {
			t.Fatalf("%s: %v, %q", pipe, err, errs)
		}
	}
	return out.String()
}
