package serve

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// patient gives a client its time for each piece of a body, and of an answer over HTTP/2. Those of answers over HTTP/1 are
// the connection's own affair: see clientConn. How long all pieces take does not matter, and once an answer has
// begun over HTTP/2 nothing is expected of the body: it may be a conversation.
func (s *server) patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hasBody := r.Body != nil && r.Body != http.NoBody
		if r.ProtoMajor == 1 && !hasBody {
			next.ServeHTTP(w, r)
			return
		}
		p := &patience{ResponseWriter: w, server: s, control: http.NewResponseController(w), isStream: r.ProtoMajor > 1}
		if hasBody {
			r = r.WithContext(r.Context()) // net/http looks at the body of its own
			r.Body = &awaitedBody{r.Body, p}
		} else {
			p.isRead.Store(true)
		}
		defer p.end()
		next.ServeHTTP(p, r)
	})
}

// A patience is the answer to a request whose client has so long for each piece. It is used by the goroutine that reads
// the body and the one that answers.
type patience struct {
	http.ResponseWriter
	server   *server
	control  *http.ResponseController
	isStream bool        // over HTTP/2
	isRead   atomic.Bool // the body, to its end
	answers  atomic.Bool
	reading  *time.Timer // of the goroutine that reads
	writing  *time.Timer // of the one that answers

	mu   sync.Mutex
	over bool // the handler has returned: net/http takes no word on deadlines any more
}

func (p *patience) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// patiently runs f and calls giveUp should it take too long. The timer is made once.
func (p *patience) patiently(timer **time.Timer, giveUp func(), f func()) {
	if *timer == nil {
		*timer = time.AfterFunc(p.server.clientTimeout, giveUp)
	} else {
		(*timer).Reset(p.server.clientTimeout)
	}
	defer (*timer).Stop()
	f()
}

// longAgo is a time that has passed.
var longAgo = time.Unix(1, 0)

// stopReading ends the wait for a piece of the body.
func (p *patience) stopReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.isStream && p.answers.Load() {
		return
	}
	p.server.shed(shedSlow)
	_ = p.control.SetReadDeadline(longAgo)
}

// stopWriting ends the wait for a piece of the answer to be taken. Over HTTP/1 it is the body that is waited for: what is
// left of it is read before an answer.
func (p *patience) stopWriting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
	case p.isStream:
		p.server.shed(shedSlow)
		_ = p.control.SetWriteDeadline(longAgo)
	case !p.isRead.Load():
		p.server.shed(shedSlow)
		_ = p.control.SetReadDeadline(longAgo)
	}
}

func (p *patience) WriteHeader(status int) {
	p.answering(status)
	p.ResponseWriter.WriteHeader(status)
}

func (p *patience) Write(b []byte) (n int, err error) {
	p.answering(http.StatusOK)
	p.patiently(&p.writing, p.stopWriting, func() { n, err = p.ResponseWriter.Write(b) })
	return n, err
}

func (p *patience) FlushError() (err error) {
	p.answering(http.StatusOK)
	p.patiently(&p.writing, p.stopWriting, func() { err = p.control.Flush() })
	return err
}

func (p *patience) Flush() { _ = p.FlushError() }

func (p *patience) answering(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		p.answers.Store(true)
	}
}

// end bounds what net/http does once the handler has returned: over HTTP/2 it sends the rest of the answer, over HTTP/1 it
// reads the rest of the body.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	deadline := time.Now().Add(p.server.clientTimeout)
	switch {
	case p.isStream:
		_ = p.control.SetWriteDeadline(deadline)
	case !p.isRead.Load():
		_ = p.control.SetReadDeadline(deadline)
	}
}

// An awaitedBody is one of whose pieces each has its time.
type awaitedBody struct {
	io.ReadCloser
	patience *patience
}

func (b *awaitedBody) Read(p []byte) (n int, err error) {
	b.patience.patiently(&b.patience.reading, b.patience.stopReading, func() { n, err = b.ReadCloser.Read(p) })
	if errors.Is(err, io.EOF) {
		b.patience.isRead.Store(true)
	}
	return n, err
}
