package bench

import (
	"bufio"
	"bytes"
	"errors"
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
	connections
	server *http.Server
	done   chan error
	stop   func()
}

// OpenSocket puts a middleware before a handler that says hello, and connects to it. A nil one is the handler alone.
func OpenSocket(m *Middleware, count int) (s *Socket, err error) {
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
	if s.connections, err = connect(l.Addr().String(), count, []string{socketRequest}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the server and the connections.
func (s *Socket) Close() {
	s.connections.Close()
	_ = s.server.Close()
	<-s.done
	s.stop()
}

// connections are to one server, kept alive.
type connections []*connection

// A connection sends requests one after the other, and after the last the first again.
type connection struct {
	net.Conn
	in       *bufio.Reader
	requests []string
	next     int
}

// connect makes connections, each of which begins elsewhere in the requests.
func connect(addr string, count int, requests []string) (all connections, err error) {
	for i := range count {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, &connection{c, bufio.NewReader(c), requests, i * len(requests) / count})
	}
	return all, nil
}

// Close closes all of them.
func (all connections) Close() {
	for _, c := range all {
		_ = c.Conn.Close() // whatever its state
	}
}

// Ask sends calls requests, on all connections at once and on each with the next one as soon as it is answered.
func (all connections) Ask(calls int) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(all))
	for _, c := range all {
		wg.Go(func() {
			for range calls / len(all) {
				if err := c.ask(); err != nil {
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
func (c *connection) ask() error {
	request := c.requests[c.next]
	if c.next++; c.next == len(c.requests) {
		c.next = 0
	}
	if _, err := io.WriteString(c.Conn, request); err != nil {
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
	if length < 0 {
		return errors.New("the answer does not say how long it is")
	}
	_, err := c.in.Discard(length)
	return err
}
