package fibergate

import (
	"maps"
	"net/http"
	"slices"

	"github.com/valyala/fasthttp"
)

// A response is Fiber's response as the gate sees it: an http.ResponseWriter. Its header is a copy,
// of which store takes over what was changed.
type response struct {
	fast   *fasthttp.Response
	header http.Header
	loaded http.Header // as header was when it was loaded
	wrote  bool
}

// defaultContentType is what fasthttp says of a response that has none.
const defaultContentType = "text/plain; charset=utf-8"

// load reads the header of Fiber's response.
func (w *response) load() {
	w.header = http.Header{}
	for key, value := range w.fast.Header.All() {
		if name := string(key); name != "Content-Type" || string(value) != defaultContentType {
			w.header[name] = append(w.header[name], string(value))
		}
	}
	w.loaded = nil
	if len(w.header) > 0 {
		w.loaded = maps.Clone(w.header)
	}
}

// store writes the fields that were changed since load, every line of each. What fasthttp deletes
// moves others, so lines that a field already has stay where they can.
func (w *response) store() {
	for name, before := range w.loaded {
		if lines := w.header[name]; len(lines) < len(before) || !slices.Equal(before, lines[:len(before)]) {
			w.fast.Header.Del(name)
			delete(w.loaded, name)
		}
	}
	for name, lines := range w.header {
		for _, line := range lines[len(w.loaded[name]):] {
			w.fast.Header.Add(name, line)
		}
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational responses cannot be sent, and are not.
func (w *response) WriteHeader(status int) {
	if w.wrote || status < 200 {
		return
	}
	w.wrote = true
	w.store()
	w.fast.SetStatusCode(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.fast.AppendBody(b)
	return len(b), nil
}

// finish ends an answer of the gate's own. As in net/http, a body without a type gets the one that it
// looks like.
func (w *response) finish() {
	w.WriteHeader(http.StatusOK)
	body := w.fast.Body()
	if len(body) > 0 && w.header["Content-Type"] == nil && w.header["Content-Encoding"] == nil {
		w.fast.Header.SetContentType(http.DetectContentType(body))
	}
}
