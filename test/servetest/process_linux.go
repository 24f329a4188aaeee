package servetest

import "syscall"

// attributes end a process with the test binary, also where that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
