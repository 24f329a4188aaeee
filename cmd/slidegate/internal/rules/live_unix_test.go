//go:build unix

package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
)

// TestANamedPipeHoldsNothingUp: nobody writes to it, so reading it would last for ever, and no later change would be seen.
func TestANamedPipeHoldsNothingUp(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{
		"plans.txt":  "ip:192.0.2.9 blocked\n",
		"rules.yaml": "rules: [{name: all, limits: 1/1h, overrides-file: plans.txt}]\n",
	}
	for name, text := range texts {
		write(t, filepath.Join(dir, name), text)
	}
	w := open(t, filepath.Join(dir, "rules.yaml"))
	w.watch()
	told := 0
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path+".pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".pipe", path); err != nil {
			t.Fatal(err)
		}
		told++
		if r := w.reloads(told); r.Err == nil || !strings.Contains(r.Err.Error(), name) || !strings.Contains(r.Err.Error(), "cannot be read: it is no regular file") {
			t.Errorf("of a pipe in the place of %s it said %v", name, r.Err)
		}
		write(t, path, text)
		told++
		if r := w.reloads(told); r.Err != nil {
			t.Errorf("of %s it said %v", name, r.Err)
		}
	}
}

// TestAFileWithoutAnEnd is read no further than a file may be long.
func TestAFileWithoutAnEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.Symlink("/dev/zero", path); err != nil {
		t.Fatal(err)
	}
	if _, err := rules.ReadFile(path, flags()); err == nil || !strings.Contains(err.Error(), "it is too large: allowed is up to 4194304 bytes") {
		t.Errorf("it said %v", err)
	}
}
