package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// SocketPath returns the path in unix:/PATH, false for another address.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }

// Listen takes an address: HOST:PORT, or unix:/PATH for a socket that the user of the process alone can use. One that a
// process left behind when it died is replaced; one where somebody listens, and a file that is no socket, are not. It
// is removed when the listener is closed.
func Listen(address string) (net.Listener, error) {
	path, ok := SocketPath(address)
	if !ok {
		return net.Listen("tcp", address)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	defer restrict()() // there is no moment at which others can connect
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is there and no socket: it is left as it is", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s: somebody listens there", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

type peerKey struct{}

// WithPeer is for http.Server.ConnContext: it keeps who connected to a Unix socket, as the kernel has it.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peerOf(unix))
}

// who is behind a request, for the audit log.
func (d *door) who(r *http.Request) string {
	if peer, ok := r.Context().Value(peerKey{}).(string); ok && peer != "" {
		return peer
	}
	if d.token != nil {
		return "token"
	}
	return "socket"
}
