//go:build unix && !linux

package redistest

import "syscall"

// Only Linux ends a process with its parent. Elsewhere a killed test binary leaves its servers.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
