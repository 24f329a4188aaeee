package caddy

import "syscall"

// attributes end a Caddy with the test binary, also where that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
