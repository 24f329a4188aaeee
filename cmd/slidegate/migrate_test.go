package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	yamlBlock  = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	localPort  = regexp.MustCompile(`127\.0\.0\.1:(8080|8081)\b`)
)

// TestMigrationPagesRun: the commands that the pages in docs/migrate show start, with the files that stand there too, on
// addresses that are free.
func TestMigrationPagesRun(t *testing.T) {
	pages, err := filepath.Glob("../../docs/migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t)
	commands := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rules, limits := filesOf(t, string(text))
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				commands++
				line = localPort.ReplaceAllString(line, "127.0.0.1:0")
				line = strings.NewReplacer("redis://127.0.0.1:6379/0", redis.url(), "rules.yaml", rules, "--rls-config rules", "--rls-config "+limits, "''", "\x00").Replace(line)
				args := strings.Fields(line)
				for i := range args {
					args[i] = strings.Trim(args[i], "\x00")
				}
				switch args[1] {
				case "serve":
					start(t, patient, args[2:]...)
				case "check":
					if out, err := exec.Command(binary, args[1:]...).CombinedOutput(); err != nil {
						t.Errorf("%s: %s: %v, %s", page, line, err, out)
					}
				default:
					t.Errorf("%s: nobody runs %s", page, line)
				}
			}
		}
	}
	if commands < 4 {
		t.Errorf("only %d commands are read", commands)
	}
}

// filesOf writes the files that a page shows: one of rules, and a directory with one of descriptors.
func filesOf(t *testing.T, page string) (rules, limits string) {
	t.Helper()
	rules, limits = filepath.Join(t.TempDir(), "rules.yaml"), t.TempDir()
	for _, block := range yamlBlock.FindAllStringSubmatch(page, -1) {
		file := rules
		if strings.HasPrefix(block[1], "domain:") {
			file = filepath.Join(limits, "edge.yaml")
		}
		if err := os.WriteFile(file, []byte(block[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return rules, limits
}
