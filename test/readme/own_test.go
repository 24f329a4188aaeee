package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGatesInAModuleOfYourOwn: with the replacements that docs/frameworks.md shows, a module that is none of this
// repository builds with each gate.
func TestGatesInAModuleOfYourOwn(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "frameworks.md"))
	if err != nil {
		t.Fatal(err)
	}
	var replacements string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "go mod edit -replace ") {
			replacements += line
		}
	}
	if strings.Count(replacements, "gingate") != 2 || !strings.Contains(string(page), "\ngo mod tidy\n") {
		t.Fatalf("docs/frameworks.md shows %q", replacements)
	}
	for _, gate := range []string{"gingate", "echogate", "echov4gate", "fibergate", "grpcgate", "connectgate", "caddygate"} {
		t.Run(gate, func(t *testing.T) {
			dir := t.TempDir()
			program := fmt.Sprintf("package reader\n\nimport _ \"github.com/slidegate/slidegate/%s\"\n", gate)
			if err := os.WriteFile(filepath.Join(dir, "reader.go"), []byte(program), 0o644); err != nil {
				t.Fatal(err)
			}
			commands := "go mod init reader\n" + strings.ReplaceAll(replacements, "gingate", gate)
			if gate == "caddygate" {
				commands += strings.ReplaceAll(strings.SplitAfter(replacements, "\n")[1], "gingate", "redisstore/rueidis")
			}
			sh := exec.Command("sh", "-ec", commands+"go build -mod=mod .") // as after go mod tidy, and without a network
			sh.Dir = dir
			sh.Env = append(os.Environ(), "DIR="+root, "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off")
			if out, err := sh.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s\n%s", err, commands, out)
			}
		})
	}
}
