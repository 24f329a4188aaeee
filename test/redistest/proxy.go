package redistest

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy is a TCP proxy on 127.0.0.1 in front of a server, which can do what networks do. It
// passes everything until told otherwise. Its methods may be called from any goroutine.
//
// Where RESP is spoken in clear it knows commands and replies from each other, so that it can lose
// exactly one; of what else is spoken, such as TLS, it passes the bytes.
type Proxy struct {
	Addr string // where to connect instead of to the server

	wg sync.WaitGroup // of all goroutines

	mu       sync.Mutex
	target   string
	listener net.Listener
	open     map[*link]struct{}
	held     chan struct{} // closed when bytes pass
	delay    time.Duration
	lose     []*loss
	closed   bool

	accepted, up, down, commands atomic.Int64
}

// A loss is one command whose connection is to be cut.
type loss struct {
	command string
	n       int  // how many of them from now
	reply   bool // after the server has replied, not before it was asked
}

// NewProxy starts a proxy to an address, and stops it when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{Addr: addrOf(reservePort(t)), target: target, open: map[*link]struct{}{}, held: closedChannel()}
	t.Cleanup(p.close)
	if !p.mustListen() {
		t.Fatal("redistest: the proxy cannot listen on " + p.Addr)
	}
	return p
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Connections returns how many connections were accepted.
func (p *Proxy) Connections() int64 { return p.accepted.Load() }

// Open returns how many connections are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Up returns how many bytes went to the server.
func (p *Proxy) Up() int64 { return p.up.Load() }

// Down returns how many bytes came back and went to clients.
func (p *Proxy) Down() int64 { return p.down.Load() }

// Commands returns how many commands were read from clients, those lost among them.
func (p *Proxy) Commands() int64 { return p.commands.Load() }

// CutReply cuts the connection of the n-th next command of a name, 1 being the very next, when
// the server has run it and replied, before the client sees any of the reply. Upper and lower case
// are the same; "" is every command, also those of a client's greeting.
func (p *Proxy) CutReply(command string, n int) { p.loseLater(&loss{command, n, true}) }

// CutCommand cuts the connection of the n-th next command of a name before the server sees it.
func (p *Proxy) CutCommand(command string, n int) { p.loseLater(&loss{command, n, false}) }

func (p *Proxy) loseLater(l *loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = append(p.lose, l)
}

// CutAll closes every open connection. New ones are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
}

func (p *Proxy) cutAll() {
	for l := range p.open {
		l.cut()
	}
}

// Refuse closes every connection and refuses new ones, as a machine does on which nothing listens.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.cutAll()
}

// Blackhole lets nothing pass in either direction and closes nothing, as a network that lost its
// way. New connections are accepted, and nothing is heard on them.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passes(p.held) {
		p.held = make(chan struct{})
	}
}

// Delay lets every reply arrive later by d. It is 0 unless said so.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Retarget lets new connections go to another server, as an address does that moves with the
// primary. Those that are open stay where they are.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Pass ends Refuse, Blackhole and Delay, and forgets what was to be cut. What a black hole held
// back arrives.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.lose = 0, nil
	if !passes(p.held) {
		close(p.held)
	}
	if p.listener == nil && !p.closed && !p.mustListen() {
		panic("redistest: the proxy cannot listen again on " + p.Addr)
	}
}

// mustListen listens on the port, which is reserved, but may be kept for a moment by a process that is
// just being started.
func (p *Proxy) mustListen() bool {
	return poll(startTime, func() bool { return p.listen() == nil })
}

func passes(held chan struct{}) bool {
	select {
	case <-held:
		return true
	default:
		return false
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
	}
	p.cutAll()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp4", p.Addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		p.accepted.Add(1)
		p.wg.Go(func() { p.serve(l, client) })
	}
}

func (p *Proxy) serve(l net.Listener, client net.Conn) {
	c := &link{proxy: p, client: client, gone: make(chan struct{})}
	if !p.add(l, c) {
		client.Close()
		return
	}
	defer p.remove(c)
	defer c.cut()
	if !c.mayPass() {
		return
	}
	server, err := net.Dial("tcp", p.where())
	if err != nil || !c.connected(server) {
		return
	}
	p.wg.Go(func() { defer c.cut(); c.copyReplies(bufio.NewReader(server)) })
	c.copyCommands(bufio.NewReader(client))
}

func (p *Proxy) add(l net.Listener, c *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != l {
		return false // accepted while it was told to refuse
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// lost counts a command, or a reply to one, and tells whether it is one to lose.
func (p *Proxy) lost(command string, reply bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range p.lose {
		if l.reply != reply || l.command != "" && !strings.EqualFold(l.command, command) {
			continue
		}
		if l.n--; l.n == 0 {
			p.lose = append(p.lose[:i:i], p.lose[i+1:]...)
			return true
		}
	}
	return false
}

func (p *Proxy) where() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

func (p *Proxy) state() (held chan struct{}, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.delay
}

// A link is one client's connection and the one to the server that belongs to it.
type link struct {
	proxy  *Proxy
	client net.Conn
	gone   chan struct{} // closed when the link is cut

	mu      sync.Mutex
	server  net.Conn // nil until connected
	raw     bool     // not RESP: nothing is known but bytes
	pending []string // commands without a reply yet, oldest first
	isGone  bool
}

// cut closes both connections. What the proxy has read and not passed on is lost.
func (c *link) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone {
		return
	}
	c.isGone = true
	close(c.gone)
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

func (c *link) connected(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone {
		server.Close()
		return false
	}
	c.server = server
	return true
}

// mayPass waits until bytes pass, and tells whether the link is still there then.
func (c *link) mayPass() bool {
	for {
		held, _ := c.proxy.state()
		select {
		case <-c.gone:
			return false
		case <-held:
		}
		if now, _ := c.proxy.state(); now == held {
			return true
		}
	}
}

// A delivery is bytes for the client, and when they are to arrive.
type delivery struct {
	bytes []byte
	due   time.Time
}

// deliver passes on what was read from the server, each when it is due.
func (c *link) deliver(deliveries <-chan delivery) {
	for d := range deliveries {
		if !c.waitUntil(d.due) || !c.mayPass() || !c.write(c.client, d.bytes, &c.proxy.down) {
			c.cut()
			return
		}
	}
}

// waitUntil tells whether the link is still there at the given time.
func (c *link) waitUntil(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c.gone:
		return false
	case <-timer.C:
		return true
	}
}

func (c *link) copyCommands(client *bufio.Reader) {
	first, err := client.Peek(1)
	if err != nil {
		return
	}
	read := c.readCommand
	if first[0] != '*' {
		c.setRaw()
		read = readBytes
	}
	for {
		b, err := read(client)
		if err != nil || !c.mayPass() || !c.write(c.server, b, &c.proxy.up) {
			return
		}
	}
}

// readCommand reads what the server is to see next, and returns an error if it must see no more.
func (c *link) readCommand(client *bufio.Reader) ([]byte, error) {
	f, err := readFrame(client)
	if err != nil {
		return nil, err
	}
	c.proxy.commands.Add(1)
	if c.proxy.lost(f.name, false) {
		return nil, net.ErrClosed
	}
	c.push(f.name)
	return f.raw, nil
}

func (c *link) copyReplies(server *bufio.Reader) {
	deliveries := make(chan delivery, 1024)
	var delivering sync.WaitGroup
	delivering.Go(func() { c.deliver(deliveries) })
	defer delivering.Wait()
	defer close(deliveries)
	if _, err := server.Peek(1); err != nil {
		return
	}
	read := c.readReply
	if c.isRaw() {
		read = readBytes
	}
	for {
		b, err := read(server)
		if err != nil {
			return
		}
		_, delay := c.proxy.state()
		select {
		case deliveries <- delivery{b, time.Now().Add(delay)}:
		case <-c.gone:
			return
		}
	}
}

// readReply reads what the client is to see next, and returns an error if it must see no more.
func (c *link) readReply(server *bufio.Reader) ([]byte, error) {
	f, err := readFrame(server)
	if err != nil {
		return nil, err
	}
	// What is pushed answers no command.
	if f.kind != '>' && c.proxy.lost(c.pop(), true) {
		return nil, net.ErrClosed
	}
	return f.raw, nil
}

// readBytes reads what there is.
func readBytes(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	b := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, b)
	return b, err
}

func (c *link) write(to net.Conn, b []byte, count *atomic.Int64) bool {
	count.Add(int64(len(b))) // first, so that who has seen a reply finds it counted
	_, err := to.Write(b)
	return err == nil
}

func (c *link) setRaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = true
}

func (c *link) isRaw() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw
}

func (c *link) push(command string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, command)
}

// pop returns the command that the next reply answers.
func (c *link) pop() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return ""
	}
	command := c.pending[0]
	c.pending = c.pending[1:]
	return command
}
