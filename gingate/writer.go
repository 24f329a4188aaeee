package gingate

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// A writer is gin's writer where the gate looks at what is answered: all that is sent goes through the
// gate's. A status that gin may still change is not sent yet.
type writer struct {
	gin.ResponseWriter
	gate http.ResponseWriter
}

// WriteHeaderNow implements gin.ResponseWriter.
func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.gate.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	return w.gate.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return io.WriteString(w.gate, s)
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.gate).Flush() // as http.Flusher has it, nobody is told
}

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.gate).Hijack()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.gate }
