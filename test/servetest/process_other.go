//go:build unix && !linux

package servetest

import "syscall"

// Only Linux ends a process with its parent.
func attributes() *syscall.SysProcAttr { return nil }
