//go:build unix

package admin_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
)

// TestNobodyWaitsForAPipe: an audit log that is a named pipe cannot be written while nobody reads it, and can be while somebody does.
func TestNobodyWaitsForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.NewAudit(path, slog.New(slog.DiscardHandler), true, ""); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("while nobody reads: %v, want %v", err, syscall.ENXIO)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := admin.NewAudit(path, slog.New(slog.DiscardHandler), true, ""); err != nil {
		t.Errorf("while somebody reads: %v", err)
	}
}
