//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// pipe puts a named pipe in a place.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path+".pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".pipe", path); err != nil {
		t.Fatal(err)
	}
}

// TestAnEarlyHangupEndsNothing: one that comes while the rules are read for the first time is about them.
func TestAnEarlyHangupEndsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	pipe(t, path)
	cmd := exec.Command(binary, "serve", "--config", path, "--listen", "127.0.0.1:0")
	cmd.Env = environ(nil)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	var in *os.File
	eventually(t, "the file is read", func() bool {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		in = f
		return err == nil
	})
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := in.WriteString("rules: []\n"); err != nil { // which ends it by itself
		t.Error(err)
	}
	in.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("it ended by %v", cmd.ProcessState)
	}
}

// TestANamedPipeIsNoCertificate: nobody writes to it, so reading it would last for ever, and no later one would be seen.
func TestANamedPipeIsNoCertificate(t *testing.T) {
	a := newAuthority(t)
	certificate, key := a.files("shop.example")
	r := start(t, nil, "--limit", "99/1h", "--tls-cert", certificate, "--tls-key", key)
	for i, path := range []string{certificate, key} {
		failures := []string{"1", "2"}[i]
		pipe(t, path)
		eventually(t, "a pipe is told of", func() bool { return r.metric(`slidegate_tls_reloads_total{result="failure"}`) == failures })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		a.renew("shop.example", certificate, key)
		eventually(t, "the new certificate is shown", func() bool { return shown(t, a, r.url) == a.last })
	}
}
