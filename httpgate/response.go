package httpgate

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// A response is a ResponseWriter that remembers its status. What the writer under it can do, it can do
// too: see [response.writer].
type response struct {
	http.ResponseWriter
	status int // the final one, 0 while there is none
}

// final returns the status that the client got or gets when the handler has returned, or has
// panicked.
func (w *response) final(returned bool) int {
	switch {
	case w.status != 0:
		return w.status
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// WriteHeader sends a header once: a second one is not passed on. Informational ones, 1xx, are, and
// leave the final one to come; 101 is final.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.ResponseWriter.WriteHeader(status) // panics at what is no status
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.status = status
	}
}

// wrote notes that what was done has sent a header, if that was not sent before.
func (w *response) wrote(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.wrote(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

func (w *response) WriteString(s string) (int, error) {
	w.wrote(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom lets net/http send files as it does without a gate.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	n, err := to.ReadFrom(src)
	if n > 0 {
		w.wrote(http.StatusOK)
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is how http.ResponseController flushes.
func (w *response) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.wrote(http.StatusOK)
	}
	return err
}

// What a ResponseWriter may be able to do beside. Each is the method of an interface that programs look for.
type (
	flusher  struct{ on *response }
	hijacker struct{ on *response }
	pusher   struct{ http.Pusher }
)

func (f flusher) Flush() { _ = f.on.FlushError() }

// Hijack takes the connection away. What is said on it is nobody's status: unless there was one
// before, it counts as 101, for a hijacked connection switches protocols.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.on.ResponseWriter).Hijack()
	if err == nil {
		h.on.wrote(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// find returns the first of a writer and those under it that is a T.
func find[T any](w http.ResponseWriter) (t T, ok bool) {
	for {
		if t, ok = w.(T); ok {
			return t, true
		}
		u, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return t, false
		}
		w = u.Unwrap()
	}
}

// writer returns w as a ResponseWriter that is a Flusher, a Hijacker and a Pusher exactly where
// what it writes to is: programs ask for these to find out what they can do.
func (w *response) writer() http.ResponseWriter {
	_, flushes := find[http.Flusher](w.ResponseWriter)
	_, hijacks := find[http.Hijacker](w.ResponseWriter)
	p, pushes := find[http.Pusher](w.ResponseWriter)
	f, h, push := flusher{w}, hijacker{w}, pusher{p}
	switch {
	case flushes && hijacks && pushes:
		return struct {
			*response
			flusher
			hijacker
			pusher
		}{w, f, h, push}
	case flushes && hijacks:
		return struct {
			*response
			flusher
			hijacker
		}{w, f, h}
	case flushes && pushes:
		return struct {
			*response
			flusher
			pusher
		}{w, f, push}
	case hijacks && pushes:
		return struct {
			*response
			hijacker
			pusher
		}{w, h, push}
	case flushes:
		return struct {
			*response
			flusher
		}{w, f}
	case hijacks:
		return struct {
			*response
			hijacker
		}{w, h}
	case pushes:
		return struct {
			*response
			pusher
		}{w, push}
	}
	return w
}
