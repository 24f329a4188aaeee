// Package readme builds what the README shows and the root module cannot build, for it has no Redis client.
package readme

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedisProgramBuilds as it stands in both languages.
func TestRedisProgramBuilds(t *testing.T) {
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		built := 0
		for _, fence := range strings.Split(string(text), "```go\n")[1:] {
			program, _, _ := strings.Cut(fence, "```")
			if !strings.Contains(program, "github.com/redis/") {
				continue
			}
			if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
				t.Errorf("%s: the program is not what gofmt makes of it: %v", name, err)
			}
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
				t.Errorf("%s: go vet: %v\n%s", name, err, out)
			}
			built++
		}
		if built != 1 {
			t.Errorf("%s has %d programs with Redis, want 1", name, built)
		}
	}
}
