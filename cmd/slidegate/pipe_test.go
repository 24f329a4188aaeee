//go:build unix

package main_test

import (
	"os"
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
