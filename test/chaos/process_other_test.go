//go:build unix && !linux

package chaos

import "syscall"

// Only Linux ends a process with its parent.
func attributes() *syscall.SysProcAttr { return nil }
