package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// A bounded listener has so many connections open at most. What comes beyond is closed at once rather than left to wait
// where nobody tells it so; where a client understands HTTP it is told by a 503.
type bounded struct {
	net.Listener
	server   *server
	flag     string // of the door
	farewell []byte // what is said to those who are turned away, nil for nothing

	mu       sync.Mutex
	open     int
	byClient map[netip.Prefix]int // nil where clients are not bounded
	parting  chan struct{}        // has room for those who may still be told
}

// mostParting is how many of those who are turned away are told so at a time. The rest are closed without a word: more
// would be a queue.
const mostParting = 64

// partingTimeout is how long somebody who is turned away has to take it.
const partingTimeout = time.Second

// farewell is what they are told.
var farewell = func() []byte {
	const problem = `{"type":"about:blank","title":"Service Unavailable","status":503}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n"+
		"Retry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", retryAfter, len(problem), problem)
}()

func (l *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := l.clientOf(conn)
		if reason := l.enter(client); reason != "" {
			l.server.shed(reason)
			l.turnAway(conn)
			continue
		}
		l.server.connections.Add(1)
		return newClientConn(conn, l, client), nil
	}
}

// clientOf is who is counted as one: an IPv4 address, or the network of an IPv6 address. It is not valid for those who
// connect for others, and where clients are not bounded.
func (l *bounded) clientOf(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if l.byClient == nil || err != nil {
		return netip.Prefix{}
	}
	address := at.Addr().Unmap().WithZone("")
	if l.server.connectsForOthers(l.flag, address) {
		return netip.Prefix{}
	}
	bits := address.BitLen()
	if address.Is6() {
		bits = l.server.ipv6Prefix
	}
	return netip.PrefixFrom(address, bits).Masked()
}

// enter counts a connection, or says why there is no room for it.
func (l *bounded) enter(client netip.Prefix) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.server.maxConnections:
		return shedConnections
	case client.IsValid() && l.byClient[client] >= l.server.maxPerClient:
		return shedPerClient
	}
	l.open++
	if client.IsValid() {
		l.byClient[client]++
	}
	return ""
}

func (l *bounded) leave(client netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !client.IsValid() {
		return
	}
	if l.byClient[client]--; l.byClient[client] == 0 {
		delete(l.byClient, client)
	}
}

// turnAway closes a connection, and says why where that does not hold anybody up.
func (l *bounded) turnAway(conn net.Conn) {
	select {
	case l.parting <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-l.parting }()
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(partingTimeout))
		if _, err := conn.Write(l.farewell); err != nil {
			return
		}
		closeWrite(conn)
		_, _ = io.Copy(io.Discard, conn) // closing on what is unread would take the answer back
	}()
}

func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// A clientConn ends when its client takes nothing of what is to be sent for as long as it may take. A connection on which
// there is nothing to send is left alone, however long.
type clientConn struct {
	net.Conn
	listener *bounded
	client   netip.Prefix
	reading  deadline
	writing  deadline
	left     sync.Once
}

func newClientConn(conn net.Conn, l *bounded, client netip.Prefix) *clientConn {
	c := &clientConn{Conn: conn, listener: l, client: client}
	c.reading.tell, c.writing.tell = conn.SetReadDeadline, conn.SetWriteDeadline
	return c
}

// Read waits until the deadline that the server has set.
func (c *clientConn) Read(p []byte) (n int, err error) {
	if err := c.reading.begin(never); err != nil {
		return 0, err
	}
	defer c.reading.end()
	for {
		n, err = c.Conn.Read(p)
		if err == nil || !c.reading.goesOn(err, never) {
			return n, err
		}
	}
}

// Write gives the client its time for every piece that it takes, within the deadline that the server has set.
func (c *clientConn) Write(p []byte) (n int, err error) {
	giveUp := c.giveUp()
	if err := c.writing.begin(giveUp); err != nil {
		return 0, err
	}
	defer c.writing.end()
	for {
		taken, err := c.Conn.Write(p[n:])
		if n += taken; err == nil {
			return n, nil
		}
		if taken > 0 {
			giveUp = c.giveUp()
		}
		if c.writing.goesOn(err, giveUp) {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.writing.comesBefore(giveUp) {
			c.listener.server.shed(shedSlow)
		}
		return n, err
	}
}

// giveUp is when a client that takes nothing from now on has had its time.
func (c *clientConn) giveUp() time.Time { return time.Now().Add(c.listener.server.clientTimeout) }

func (c *clientConn) SetReadDeadline(t time.Time) error { return c.reading.set(t) }

func (c *clientConn) SetWriteDeadline(t time.Time) error { return c.writing.set(t) }

func (c *clientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.set(t), c.writing.set(t))
}

func (c *clientConn) Close() error {
	c.left.Do(func() {
		c.listener.leave(c.client)
		c.listener.server.connections.Add(-1)
	})
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer before it closes, as on any connection of TCP: else the client might not get it.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }
