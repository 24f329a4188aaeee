package redistest

import "syscall"

// Servers are in a process group of their own, so that an interrupt at the terminal ends the test,
// and with it the servers, and not the servers under the test.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
