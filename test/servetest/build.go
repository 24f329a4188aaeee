package servetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// Build builds the command, with the race detector if this program has it, into a directory of its own, which remove
// removes.
func Build() (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "servetest-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	binary = filepath.Join(dir, "slidegate")
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", binary}, raceFlags, []string{"./cmd/slidegate"})...)
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "..")
	if said, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("servetest: go build ./cmd/slidegate: %w\n%s", err, said)
	}
	return binary, remove, nil
}
