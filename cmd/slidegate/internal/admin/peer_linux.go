package admin

import (
	"fmt"
	"net"
	"syscall"
)

// peerOf returns the user and the process at the other end of a socket, empty where the kernel does not say.
func peerOf(c *net.UnixConn) (who string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			who = fmt.Sprintf("uid %d, pid %d", peer.Uid, peer.Pid)
		}
	})
	return who
}
