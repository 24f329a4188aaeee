package redistest

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Unreachable returns an address on 127.0.0.1 that answers no connection attempt in any way, like
// that of a machine which is switched off: whoever connects waits. It is so until the test ends.
//
// On Linux a socket that listens and has no room for another connection drops whoever knocks.
func Unreachable(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { syscall.Close(fd) })
	port := reservePort(t)
	// Connections to who had the port before may still be in the system's memory.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(os.NewSyscallError("setsockopt", err))
	}
	here := &syscall.SockaddrInet4{Port: port, Addr: [4]byte(loopback.To4())}
	if !poll(startTime, func() bool { err = syscall.Bind(fd, here); return err == nil }) {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(os.NewSyscallError("listen", err))
	}
	for range 16 {
		c, err := net.DialTimeout("tcp4", addrOf(port), 100*time.Millisecond)
		if err != nil {
			return addrOf(port)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("redistest: the address of nobody can be reached")
	return ""
}
