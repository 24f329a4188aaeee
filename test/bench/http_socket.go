package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// BareServer is net/http without any middleware.
const BareServer = "bare server"

// socketRequest is sent again and again.
const socketRequest = "GET /orders/7 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"

// socketBody is what the handler answers.
const socketBody = "hello"

// A Socket is a server of net/http on a free port of 127.0.0.1 with connections to it that are kept alive.
type Socket struct {
	server *http.Server
	done   chan error
	conns  []socketConn
	stop   func()
}

type socketConn struct {
	net.Conn
	in *bufio.Reader
}

// OpenSocket puts a middleware before a handler that says hello, and connects to it. A nil one is the handler alone.
func OpenSocket(m *Middleware, connections int) (s *Socket, err error) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, socketBody) })
	s = &Socket{done: make(chan error, 1), stop: nothing}
	if m != nil {
		handler, s.stop = m.Wrap(roomy, time.Minute, handler)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.server = &http.Server{Handler: handler}
	go func() { s.done <- s.server.Serve(l) }()
	for range connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			s.Close()
			return nil, err
		}
		s.conns = append(s.conns, socketConn{c, bufio.NewReader(c)})
	}
	return s, nil
}

// Close ends the server and the connections.
func (s *Socket) Close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	_ = s.server.Close()
	<-s.done
	s.stop()
}

// Ask sends calls requests, on all connections at once and on each with the next one as soon as it is answered.
func (s *Socket) Ask(calls int) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(s.conns))
	for i := range s.conns {
		wg.Go(func() {
			for range calls / len(s.conns) {
				if err := s.conns[i].ask(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}

// ask sends one request and reads its answer, with as little work as will do.
func (c *socketConn) ask() error {
	if _, err := io.WriteString(c.Conn, socketRequest); err != nil {
		return err
	}
	length := -1
	for n := 0; ; n++ {
		line, err := c.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case n == 0 && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("the answer is %q", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):])))
		}
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
	}
	if length != len(socketBody) {
		return fmt.Errorf("the answer has %d bytes, want %d", length, len(socketBody))
	}
	_, err := c.in.Discard(length)
	return err
}
