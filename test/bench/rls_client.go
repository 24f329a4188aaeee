package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// A proxy has few connections to its rate limit service, and many calls under way on each.
const (
	rlsConnections = 2
	rlsUnderWay    = 32
)

// An rlsClient asks about many clients over gRPC, with as little work as a proxy has with it: what a client in Go takes would be
// most of the time.
type rlsClient []*rlsConnection

func dialRLS(addr string) (c rlsClient, err error) {
	for i := range rlsConnections {
		conn, err := newRLSConnection(addr, i*doorKeys/rlsConnections)
		if err != nil {
			c.Close()
			return nil, err
		}
		c = append(c, conn)
	}
	return c, nil
}

// Close closes the connections.
func (c rlsClient) Close() {
	for _, conn := range c {
		_ = conn.conn.Close() // whatever its state
	}
}

// Ask makes calls, as many at once as may be under way, and each next one as soon as one is answered.
func (c rlsClient) Ask(calls int) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(c))
	for _, conn := range c {
		wg.Go(func() {
			if err := conn.ask(calls / len(c)); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}

// rlsMessages are the requests as they are sent.
var rlsMessages = sync.OnceValue(func() [][]byte {
	all := make([][]byte, doorKeys)
	for i := range all {
		message := must(proto.Marshal(rlsRequest(i)))
		all[i] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	return all
})

// An rlsConnection speaks as much of HTTP/2 and gRPC as calls need whose messages fit in a frame. It never comes near the
// window of the server, who widens it, and widens its own once and for all.
type rlsConnection struct {
	conn   net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
	frames *http2.Framer
	head   bytes.Buffer // of a request, encoded
	encode *hpack.Encoder
	decode *hpack.Decoder
	stream uint32 // the next one
	key    int    // likewise
	status string // the last grpc-status
}

func newRLSConnection(addr string, key int) (*rlsConnection, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &rlsConnection{conn: conn, in: bufio.NewReaderSize(conn, 32<<10), out: bufio.NewWriterSize(conn, 32<<10), stream: 1, key: key}
	c.frames = http2.NewFramer(c.out, c.in)
	c.frames.SetReuseFrames()
	c.encode = hpack.NewEncoder(&c.head)
	c.decode = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})
	_, err = c.out.WriteString(http2.ClientPreface)
	return c, errors.Join(err, c.frames.WriteSettings(), c.frames.WriteWindowUpdate(0, 1<<30))
}

var rlsHead = []hpack.HeaderField{
	{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
	{Name: ":authority", Value: "ratelimit"}, {Name: "te", Value: "trailers"}, {Name: "content-type", Value: "application/grpc"},
}

// call sends the next request.
func (c *rlsConnection) call() error {
	c.head.Reset()
	for _, f := range rlsHead {
		if err := c.encode.WriteField(f); err != nil {
			return err
		}
	}
	messages := rlsMessages()
	err := errors.Join(
		c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.head.Bytes(), EndHeaders: true}),
		c.frames.WriteData(c.stream, true, messages[c.key]))
	c.stream, c.key = c.stream+2, (c.key+1)%len(messages)
	return err
}

func (c *rlsConnection) ask(calls int) error {
	sent := min(calls, rlsUnderWay)
	for range sent {
		if err := c.call(); err != nil {
			return err
		}
	}
	for answered := 0; answered < calls; {
		if c.in.Buffered() == 0 {
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
		ended, err := c.hear()
		if err == nil && ended {
			if answered++; sent < calls {
				sent++
				err = c.call()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// admitted is how an answer begins whose overall code is OK.
var admitted = []byte{0x08, 0x01}

// hear reads a frame and tells whether it ends a call.
func (c *rlsConnection) hear() (ended bool, err error) {
	frame, err := c.frames.ReadFrame()
	if err != nil {
		return false, err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = c.frames.WritePing(true, f.Data)
		}
	case *http2.DataFrame:
		if data := f.Data(); len(data) < 7 || !bytes.HasPrefix(data[5:], admitted) {
			err = fmt.Errorf("the answer %x admits nothing, and all have room", data)
		}
	case *http2.MetaHeadersFrame, *http2.GoAwayFrame, *http2.RSTStreamFrame, *http2.ContinuationFrame:
		err = fmt.Errorf("unexpected: %v", f)
	case *http2.HeadersFrame:
		if _, err = c.decode.Write(f.HeaderBlockFragment()); err == nil && f.StreamEnded() && c.status != "0" {
			err = fmt.Errorf("the status is %q", c.status)
		}
		return f.StreamEnded(), err
	}
	return false, err
}
