package main_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var servedBlock = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// TestTutorialServes: the commands of docs/tutorial.md that serve are run one after the other in one shell, on free ports, and
// every line that the page says they print is printed.
func TestTutorialServes(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	front, admin := freeAddr(t), freeAddr(t)
	ports := strings.NewReplacer("127.0.0.1:8080", front, "127.0.0.1:9090", admin)
	script := "trap 'kill $(jobs -p); wait' EXIT\n"
	var want []string
	for _, block := range servedBlock.FindAllStringSubmatch(string(page), -1) {
		if block[1] == "text" {
			want = append(want, strings.Split(strings.TrimSpace(block[2]), "\n")...)
			continue
		}
		for line := range strings.Lines(ports.Replace(block[2])) {
			script += line
			if strings.HasSuffix(line, " &\n") {
				script += "until curl -s -o /dev/null http://" + admin + "/readyz; do kill -0 $! && sleep 0.1; done\n"
			}
		}
	}
	if len(want) < 3 {
		t.Fatalf("the page shows %q", want)
	}
	dir := t.TempDir()
	for _, name := range []string{"shadow.yaml", "enforce.yaml"} {
		text, err := os.ReadFile(filepath.Join("internal/replay/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the trap ends the server
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = environ([]string{"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")})
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	for _, line := range want {
		if !strings.Contains(out.String(), strings.TrimSpace(line)) {
			t.Errorf("%q is not printed, but\n%s\n%s", line, out.String(), errs.String())
		}
	}
}
