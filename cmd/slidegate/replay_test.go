package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestInterruptedReplayLeavesNothing: Ctrl-C in the midst of a long log ends it with one sentence, and neither a half
// report nor a temporary file is left.
func TestInterruptedReplayLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(binary, "replay", "--limit", "1/1s", "-")
	cmd.Env = environ([]string{"TMPDIR=" + dir})
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	events := bytes.Repeat([]byte("{\"t\":1,\"key\":\"a\"}\n"), 1<<16)
	for range 20 { // more than are held in memory
		if _, err := in.Write(events); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || out.Len() > 0 || !strings.HasPrefix(errs.String(), "slidegate: interrupted") || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}
