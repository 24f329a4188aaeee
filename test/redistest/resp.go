package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// An ErrorReply is what a server answered instead of a result, such as "READONLY You can't write …".
type ErrorReply string

func (e ErrorReply) Error() string { return string(e) }

// A Conn is one connection to a server, for what needs to keep one. It speaks RESP 2 and sends
// arguments as they are, whatever their bytes. It is not safe for concurrent use.
type Conn struct {
	net  net.Conn
	read *bufio.Reader
}

// replyTime is how long a server may take to answer a command.
const replyTime = 20 * time.Second

// Dial connects to an address without TLS or authentication.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, replyTime)
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

func newConn(c net.Conn) *Conn { return &Conn{net: c, read: bufio.NewReader(c)} }

// Close closes the connection.
func (c *Conn) Close() error { return c.net.Close() }

// Do sends a command and returns its reply: a string, an int64, nil, or a []any of such and of
// ErrorReply. A reply that is an error is returned as an ErrorReply in err.
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send sends a command and does not wait for the reply.
func (c *Conn) Send(args ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return c.SendRaw(b.Bytes())
}

// SendRaw sends bytes as they are, which need not be a command.
func (c *Conn) SendRaw(b []byte) error {
	c.net.SetDeadline(time.Now().Add(replyTime))
	_, err := c.net.Write(b)
	return err
}

// Receive reads the next reply.
func (c *Conn) Receive() (any, error) {
	c.net.SetDeadline(time.Now().Add(replyTime))
	reply, err := readReply(c.read)
	if e, ok := reply.(ErrorReply); ok && err == nil {
		return nil, e
	}
	return reply, err
}

// readLine reads up to CRLF and returns the type byte and the rest.
func readLine(r *bufio.Reader) (kind byte, rest string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", fmt.Errorf("redistest: not a line of RESP: %q", line)
	}
	return line[0], line[1 : len(line)-2], nil
}

func readReply(r *bufio.Reader) (any, error) {
	kind, rest, err := readLine(r)
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ErrorReply(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		return readBulk(r, rest)
	case '*':
		return readArray(r, rest)
	}
	return nil, fmt.Errorf("redistest: not a reply of RESP 2: %q", string(kind)+rest)
}

func readBulk(r *bufio.Reader, length string) (any, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, err // a length of -1 is null
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return string(b[:n]), nil
}

func readArray(r *bufio.Reader, length string) (any, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, err
	}
	all := make([]any, 0, n)
	for range n {
		element, err := readReply(r)
		if err != nil {
			return nil, err
		}
		all = append(all, element)
	}
	return all, nil
}

// frame is one RESP value as it was read, of RESP 2 or 3.
type frame struct {
	kind byte
	raw  []byte
	name string // the first bulk string in it: of a command, its name
}

var errNotRESP = errors.New("redistest: not RESP")

// readFrame reads one whole value without understanding more of it than where it ends.
func readFrame(r *bufio.Reader) (frame, error) {
	var f frame
	if err := f.read(r); err != nil {
		return f, err
	}
	f.kind = f.raw[0]
	return f, nil
}

func (f *frame) read(r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	f.raw = append(f.raw, line...)
	if len(line) < 3 {
		return errNotRESP
	}
	count, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return nil
	case '$', '!', '=':
		if err != nil {
			return errNotRESP
		}
		return f.readBytes(r, count)
	case '%', '|':
		count *= 2
	case '*', '~', '>':
	default:
		return errNotRESP
	}
	if err != nil {
		return errNotRESP
	}
	for range count { // none if it is -1
		if err := f.read(r); err != nil {
			return err
		}
	}
	if line[0] == '|' { // attributes come before the value they belong to
		return f.read(r)
	}
	return nil
}

func (f *frame) readBytes(r *bufio.Reader, n int) error {
	if n < 0 {
		return nil
	}
	start := len(f.raw)
	f.raw = append(f.raw, make([]byte, n+2)...)
	if _, err := io.ReadFull(r, f.raw[start:]); err != nil {
		return err
	}
	if f.name == "" {
		f.name = string(f.raw[start : start+n])
	}
	return nil
}
