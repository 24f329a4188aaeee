//go:build unix

package admin

import "syscall"

// restrict has files that are made be the user's alone, until the function that it returns is called.
func restrict() func() {
	before := syscall.Umask(0o177)
	return func() { syscall.Umask(before) }
}

// atOnce has opening a named pipe that nobody reads fail, rather than last until somebody does.
const atOnce = syscall.O_NONBLOCK
