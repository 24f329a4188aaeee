package httpgatetest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
)

// patience is how long a server may take to answer.
var patience = 30 * time.Second // but in tests of the suite itself never changed

// A pair is the same app served twice: by net/http, and by what is judged.
type pair struct {
	testing.TB
	clock *gatetest.Clock
	sides []*side
}

// A side is one server of a pair, and the connections to it by their source address.
type side struct {
	name    string
	address string
	app     *App
	store   slidegate.Store
	conns   map[string]*conn
}

type conn struct {
	net.Conn
	*bufio.Reader
}

// epoch is where the clock stands when a law begins.
var epoch = time.UnixMilli(1_757_750_412_345)

// serve starts the app that build makes on both sides, each with a store of its own.
func serve(t testing.TB, start Start, build func(store slidegate.Store) *App) *pair {
	return serveOn(t, start, "127.0.0.1", build)
}

func serveOn(t testing.TB, start Start, host string, build func(store slidegate.Store) *App) *pair {
	t.Helper()
	p := &pair{TB: t, clock: gatetest.NewClock(epoch)}
	for _, s := range []struct {
		name  string
		start Start
	}{{"net/http", reference}, {"the gate", start}} {
		store := gatetest.NewOracle(p.clock) // it keeps keys as they are
		app := build(store)
		app.Host, app.resume, app.wait = host, make(chan struct{}, 1), patience
		one := &side{name: s.name, app: app, store: store, conns: map[string]*conn{}}
		one.address = s.start(t, app)
		t.Cleanup(one.hangUp)
		p.sides = append(p.sides, one)
	}
	return p
}

// reference serves an app by net/http.
func reference(t testing.TB, app *App) string {
	t.Helper()
	routes, mux := app.Handler(), http.NewServeMux()
	mux.Handle("/", routes)
	mux.Handle("/group/", wrap(app.Group, routes))
	mux.Handle("/alone", wrap(app.Alone, routes))
	server := &http.Server{Handler: wrap(app.All, mux), ErrorLog: log.New(io.Discard, "", 0)}
	return Listen(t, app, server.Serve, server.Close)
}

func wrap(gates []Gate, h http.Handler) http.Handler {
	for i := range gates {
		h = gates[len(gates)-1-i].Build().Wrap(h)
	}
	return h
}

// Listen makes a listener on a free port of the app's host, has serve serve it, and returns its
// address. The test stops it with stop when it is over, and waits for serve to return.
func Listen(t testing.TB, app *App, serve func(net.Listener) error, stop func() error) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(app.Host, "0"))
	if err != nil {
		t.Fatalf("listen on %s: %v", app.Host, err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Errorf("the server has not stopped after %s", patience)
		}
	})
	return l.Addr().String()
}

// A request is what is sent to both sides.
type request struct {
	method, target string
	fields         []string // lines, such as "Accept: text/plain"
	body           string
	from           string // the address to connect from; empty for that of the server
}

func get(target string, fields ...string) request {
	return request{method: "GET", target: target, fields: fields}
}

func (r request) by(method string) request    { r.method = method; return r }
func (r request) with(body string) request    { r.body = body; return r }
func (r request) through(from string) request { r.from = from; return r }

// bytes is the request as it goes over the wire.
func (r request) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.method, r.target)
	if len(r.fields) == 0 || !strings.HasPrefix(r.fields[0], "Host:") {
		b.WriteString("Host: example.com\r\n")
	}
	for _, line := range r.fields {
		b.WriteString(line + "\r\n")
	}
	if r.body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	b.WriteString("\r\n" + r.body)
	return b.Bytes()
}

// A response is what is compared.
type response struct {
	status   int
	header   http.Header
	transfer []string
	body     string
	runs     int64 // of handlers, until now
}

// servers are the fields that are a server's own.
var servers = []string{"Date", "Server", "Connection", "Keep-Alive"}

// connect returns the connection from an address, a new one if there is none.
func (s *side) connect(from string) (*conn, error) {
	if c := s.conns[from]; c != nil {
		return c, c.SetDeadline(time.Now().Add(patience))
	}
	dialer := net.Dialer{Timeout: patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := dialer.Dial("tcp", s.address)
	if err != nil {
		return nil, err
	}
	s.conns[from] = &conn{c, bufio.NewReader(c)}
	return s.conns[from], c.SetDeadline(time.Now().Add(patience))
}

func (s *side) hangUp() {
	for from, c := range s.conns {
		_ = c.Close()
		delete(s.conns, from)
	}
}

// send sends a request and reads the head of its response.
func (s *side) send(r request) (*http.Response, error) {
	c, err := s.connect(r.from)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(r.bytes()); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.Reader, &http.Request{Method: r.method})
}

// receive reads the rest of a response. first, if not nil, is called with the body.
func (s *side) receive(from string, r *http.Response, first func(io.Reader) string) (*response, error) {
	begin := ""
	if first != nil {
		begin = first(r.Body)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Close {
		_ = s.conns[from].Close()
		delete(s.conns, from)
	}
	for _, name := range servers {
		r.Header.Del(name)
	}
	return &response{r.StatusCode, r.Header, r.TransferEncoding, begin + string(body), s.app.runs.Load()}, nil
}

// exchange sends a request and reads its response.
func (s *side) exchange(r request) (*response, error) {
	head, err := s.send(r)
	if err != nil {
		return nil, err
	}
	return s.receive(r.from, head, nil)
}

// insist is exchange over a new connection if the one there is does not answer: a server may close one
// behind a body that nobody has read.
func (s *side) insist(r request) (*response, error) {
	if answer, err := s.exchange(r); err == nil {
		return answer, nil
	}
	s.hangUp()
	return s.exchange(r)
}

// want sends a request to both sides, checks the status of what comes back, and that both are the same.
func (p *pair) want(status int, r request) *response {
	p.Helper()
	return p.compare(status, r, (*side).exchange)
}

// admitted is a request that reaches its handler.
func (p *pair) admitted(r request) *response {
	p.Helper()
	return p.want(http.StatusOK, r)
}

// refused is a request that is answered with a 429.
func (p *pair) refused(r request) *response {
	p.Helper()
	return p.want(http.StatusTooManyRequests, r)
}

func (p *pair) compare(status int, r request, exchange func(*side, request) (*response, error)) *response {
	p.Helper()
	var all []*response
	for _, s := range p.sides {
		got, err := exchange(s, r)
		if err != nil {
			p.Fatalf("%s: %s %s %q: %v", s.name, r.method, r.target, r.fields, err)
		}
		if got.status != status {
			p.Fatalf("%s: %s %s %q: status %d, want %d", s.name, r.method, r.target, r.fields, got.status, status)
		}
		all = append(all, got)
	}
	if !reflect.DeepEqual(all[0], all[1]) {
		p.Errorf("%s %s %q:\n%s answers %+v\n%s answers %+v", r.method, r.target, r.fields, p.sides[0].name, *all[0], p.sides[1].name, *all[1])
	}
	return all[1]
}

// has checks the field lines of a response; without any, that there is none.
func (p *pair) has(r *response, name string, lines ...string) {
	p.Helper()
	if got := r.header.Values(name); strings.Join(got, "\n") != strings.Join(lines, "\n") {
		p.Errorf("%s is %q, want %q", name, got, lines)
	}
}

// counted checks how many units of a key the limits of both sides hold.
func (p *pair) counted(limit slidegate.Limit, key string, want int64) {
	p.Helper()
	for _, s := range p.sides {
		d, err := slidegate.MustNew(s.store, limit).Peek(context.Background(), key)
		if err != nil {
			p.Fatalf("%s: peek: %v", s.name, err)
		}
		if got := limit.Quota - d.State(0).Remaining; got != want {
			p.Errorf("%s: %q holds %d units, want %d", s.name, key, got, want)
		}
	}
}

// Notes are what functions of a gate have been shown. They are safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, s)
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}
