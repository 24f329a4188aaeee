package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// proxy returns the one to an upstream. There are as many as rules have ever named.
func (s *server) proxy(to *url.URL) http.Handler {
	name := to.String()
	if p, ok := s.proxies.Load(name); ok {
		return p.(http.Handler)
	}
	p, _ := s.proxies.LoadOrStore(name, s.newProxy(to))
	return p.(http.Handler)
}

func (s *server) newProxy(to *url.URL) http.Handler {
	target := *to
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	if target.Scheme == "h2c" {
		target.Scheme = "http"
		protocols.SetHTTP1(false)
		protocols.SetUnencryptedHTTP2(true)
	}
	return &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { s.rewrite(pr, &target) },
		ModifyResponse: s.answered,
		Transport:      s.newTransport(protocols),
		FlushInterval:  -1, // streams pass as they come
		BufferPool:     &s.buffers,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { s.failed(w, r, &target, err) },
		ErrorLog:       s.debugLog(),
	}
}

// silence is how long nothing may come on a connection of HTTP/2 to an upstream until it is asked whether it lives. Servers of
// gRPC end connections on which they are asked more often than every five minutes.
const silence = 5*time.Minute + 10*time.Second

// newTransport returns connections to an upstream. Who begins no answer in time is told by an expectation; what is bounded here
// is what goes on when nobody waits for it any more.
func (s *server) newTransport(protocols *http.Protocols) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the upstream is reached as it was named
	transport.Protocols = protocols
	transport.DialContext = (&net.Dialer{Timeout: s.upstreamTimeout, KeepAlive: 30 * time.Second}).DialContext
	transport.TLSHandshakeTimeout = s.upstreamTimeout
	transport.TLSClientConfig = &tls.Config{RootCAs: s.upstreamRoots, ServerName: s.upstreamName, MinVersion: tls.VersionTLS12}
	transport.MaxIdleConnsPerHost = 256
	transport.MaxIdleConns = 0
	transport.DisableCompression = true // bodies pass as they are
	// A connection of HTTP/2 is shared, and not given up with a request that is not answered.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: s.upstreamTimeout}
	return transport
}

// errSilent is why a request was given up that the upstream has not begun to answer.
var errSilent = errors.New("the upstream did not go on in time (--upstream-timeout)")

// An expectation is that an upstream goes on: that within its time it takes the next piece of a body that there is,
// or begins its answer, connecting included. The time in which a client sends nothing is the client's. It is safe for concurrent
// use.
type expectation struct {
	timeout time.Duration
	mu      sync.Mutex
	over    bool
	timer   *time.Timer
}

// expect has giveUp called with errSilent where an upstream does not go on.
func expect(timeout time.Duration, giveUp context.CancelCauseFunc) *expectation {
	return &expectation{timeout: timeout, timer: time.AfterFunc(timeout, func() { giveUp(errSilent) })}
}

// pause is while the client is waited for.
func (e *expectation) pause() { e.timer.Stop() }

// resume gives the upstream its time again.
func (e *expectation) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.timer.Reset(e.timeout)
	}
}

// end is once it has answered: how long an answer takes is bounded by nothing.
func (e *expectation) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.timer.Stop()
}

// newClientBody returns the body of a request that is sent on.
func (s *server) newClientBody(pr *httputil.ProxyRequest) *clientBody {
	b := &clientBody{ReadCloser: pr.Out.Body, upstream: saidOf(pr.In).upstream}
	if s.maxBody != unset {
		b.ReadCloser = http.MaxBytesReader(nil, pr.Out.Body, s.maxBody)
	}
	return b
}

// A clientBody knows whether it was the client that failed while its body was read.
type clientBody struct {
	io.ReadCloser
	upstream *expectation
	closed   atomic.Bool
	err      atomic.Pointer[error]
}

func (b *clientBody) Read(p []byte) (int, error) {
	b.upstream.pause()
	n, err := b.ReadCloser.Read(p)
	b.upstream.resume()
	if err != nil && !errors.Is(err, io.EOF) && !b.closed.Load() {
		b.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (b *clientBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// failed returns what the client failed by, nil for nothing.
func (b *clientBody) failed() error {
	if b == nil || b.err.Load() == nil {
		return nil
	}
	return *b.err.Load()
}

// buffers are those that answers are copied with.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
