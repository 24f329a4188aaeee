package httpgate

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
)

// An answer is a response that is always the same. What it sets is shared by all responses.
type answer struct {
	status      int
	contentType []string
	length      []string
	body        []byte
}

func newAnswer(status int, contentType string, body []byte) *answer {
	return &answer{status, one(contentType), one(strconv.Itoa(len(body))), body}
}

// fixed is the answer with a message: a string as plain text, anything else as JSON.
func fixed(status int, message any) (*answer, error) {
	if text, ok := message.(string); ok {
		return newAnswer(status, "text/plain; charset=utf-8", []byte(text)), nil
	}
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return newAnswer(status, "application/json", body), nil
}

// ServeHTTP writes the answer. It is not to be stored (RFC 6585 section 4), and one to HEAD has no
// body.
func (a *answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = a.contentType
	h["Content-Length"] = a.length
	notStored(h)
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // the client's going away is no concern of the gate
	}
}

// notStored keeps an answer out of caches, with what an outer handler may have said of the resource:
// it is not what was asked for, so nothing of that validates it.
func notStored(h http.Header) {
	h["Cache-Control"] = noStore
	delete(h, "Etag")
	delete(h, "Last-Modified")
}

var noStore, noSniff = one("no-store"), one("nosniff")

// A choice is a problem in the two forms that a client may accept.
type choice struct{ json, text *answer }

func negotiated(p Problem) *choice {
	body, _ := json.Marshal(p) // strings and an int: there is nothing to fail
	return &choice{
		json: newAnswer(p.Status, "application/problem+json", body),
		text: newAnswer(p.Status, "text/plain; charset=utf-8", []byte(p.Title+"\n")),
	}
}

func (c *choice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if acceptsJSON(r.Header["Accept"]) {
		c.json.ServeHTTP(w, r)
		return
	}
	c.text.ServeHTTP(w, r)
}

// A statusWriter is what a handler of refusals writes to: if it names no status, the status is
// that of a refusal, not 200.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	w.wrote = w.wrote || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) finish() {
	if !w.wrote {
		w.WriteHeader(w.status)
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.finish()
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError and Hijack are how http.ResponseController reaches what would send a header, or take
// the connection away from under it.
func (w *statusWriter) FlushError() error {
	w.finish()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *statusWriter) Flush() { _ = w.FlushError() }

func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.wrote = w.wrote || err == nil
	return conn, rw, err
}
