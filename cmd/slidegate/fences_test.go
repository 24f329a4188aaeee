package main_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const repository = "../.."

// fenced returns what stands in fences of a language, by the page that has it.
func fenced(t *testing.T, language string) map[string][]string {
	t.Helper()
	pattern := regexp.MustCompile("(?ms)^ *```" + language + "\n(.*?)^ *```$")
	all := map[string][]string{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			all[path] = append(all[path], m[1])
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

var ofSlidegate = regexp.MustCompile(`(?m)^((?:SLIDEGATE_\w+=\S+ )?(?:bin/)?slidegate [^|>&#\n]+)`)

// TestCommandsAreTaken: every command that a page shows, of which many are run by other tests as well, has flags that there are
// with values that they take.
func TestCommandsAreTaken(t *testing.T) {
	commands := 0
	for page, texts := range fenced(t, "sh") {
		for _, text := range texts {
			for _, m := range ofSlidegate.FindAllStringSubmatch(text, -1) {
				commands++
				line := strings.Replace(strings.TrimSpace(m[1]), "bin/slidegate", "slidegate", 1)
				cmd := exec.Command("bash", "-euc", line+" --help")
				cmd.Env = environ([]string{"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")})
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", page, line, err, out)
				}
			}
		}
	}
	if commands < 40 {
		t.Errorf("only %d commands are read", commands)
	}
}

// TestYAMLOnPagesParses; what it says is for the tests of each page.
func TestYAMLOnPagesParses(t *testing.T) {
	for page, texts := range fenced(t, "yaml") {
		for _, text := range texts {
			var tree any
			if err := yaml.Unmarshal([]byte(text), &tree); err != nil || tree == nil {
				t.Errorf("%s: %v\n%s", page, err, text)
			}
		}
	}
}

// TestCommandsOfTheAdminPage: those of docs/admin.md are answered.
func TestCommandsOfTheAdminPage(t *testing.T) {
	socket := socketPath(t)
	here := strings.NewReplacer("/run/slidegate/admin.sock", socket, "--unix-socket admin.sock", "--fail-with-body --silent --show-error --unix-socket "+socket)
	asked := 0
	for _, text := range fenced(t, "sh")[filepath.Join(repository, "docs", "admin.md")] {
		for line := range strings.Lines(here.Replace(text)) {
			line = strings.TrimSpace(line)
			if args, ok := strings.CutPrefix(line, "slidegate serve "); ok {
				start(t, nil, strings.Fields(args)...)
				continue
			}
			asked++
			cmd := exec.Command("bash", "-euc", line)
			cmd.Env = environ([]string{"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")})
			if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if asked != 3 {
		t.Errorf("%d commands were asked, the page has 3", asked)
	}
}
