// Package api is the door for programs that ask in JSON over HTTP: take, peek and reset a key, one at a time or
// many, without a request of their own to be held back.
package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/httpgate"
)

// The most that a request may send, in bytes.
const (
	maxBody      = 64 << 10
	maxBatchBody = 1 << 20
)

// Description is the OpenAPI description of the door, which it serves at /openapi.json.
//
//go:embed openapi.json
var Description []byte

// A Config is what a door is told.
type Config struct {
	// Limiter returns the limiter of a name, nil if there is none. The empty name is that of requests that name
	// none. It is called by many goroutines at a time.
	Limiter func(name string) *slidegate.Limiter

	// Token is what callers must show as their bearer token; the default is none, for a door that only those can
	// reach who may use it.
	Token string

	// Gate are options of the gate that decides: which fields tell of a decision, who observes, who logs. Who is
	// asking, at what cost, and what becomes of what cannot be decided is the door's own, and a refusal always has
	// Retry-After.
	Gate []httpgate.Option
}

// A door is safe for concurrent use.
type door struct {
	limiter func(name string) *slidegate.Limiter
	gate    *httpgate.Gate
	token   *config.Token // nil for none
}

// New returns the door. The error is that of an option of the gate.
func New(c Config) (http.Handler, error) {
	d := &door{limiter: c.Limiter, token: config.NewToken(c.Token)}
	var err error
	d.gate, err = httpgate.New(slidegate.Unlimited(), append(slices.Clone(c.Gate),
		httpgate.Choose(func(r *http.Request) *slidegate.Limiter { return askedIn(r).limiter }),
		httpgate.By(func(r *http.Request) (string, error) { return askedIn(r).key, nil }),
		httpgate.Cost(func(r *http.Request) int64 { return askedIn(r).cost }),
		httpgate.FailClosed(), httpgate.RetryAfter(), httpgate.WithoutContext())...)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// paths are where what can be asked for is.
var paths = map[string]func(*door, http.ResponseWriter, *http.Request){
	"/v1/take":  func(d *door, w http.ResponseWriter, r *http.Request) { d.serveOne(w, r, take) },
	"/v1/peek":  func(d *door, w http.ResponseWriter, r *http.Request) { d.serveOne(w, r, peek) },
	"/v1/reset": func(d *door, w http.ResponseWriter, r *http.Request) { d.serveOne(w, r, reset) },
	"/v1/batch": (*door).serveBatch,
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve, methods := paths[r.URL.Path], []string{http.MethodPost}
	if r.URL.Path == "/openapi.json" {
		serve, methods = (*door).serveDescription, []string{http.MethodGet, http.MethodHead}
	}
	switch {
	case !d.token.IsShown(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="slidegate"`)
		refuse(w, r, http.StatusUnauthorized, "a bearer token is needed, and it is the one that the server was given")
	case serve == nil:
		refuse(w, r, http.StatusNotFound, "allowed is /v1/take, /v1/peek, /v1/reset, /v1/batch and /openapi.json")
	case !slices.Contains(methods, r.Method):
		w.Header().Set("Allow", strings.Join(methods, ", "))
		refuse(w, r, http.StatusMethodNotAllowed, "allowed is "+strings.Join(methods, " and "))
	default:
		serve(d, w, r)
	}
}

func (d *door) serveDescription(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(Description)))
	_, _ = w.Write(Description) // net/http leaves the body of a HEAD out
}

func (d *door) serveOne(w http.ResponseWriter, r *http.Request, op operation) {
	s := sheets.Get().(*sheet)
	defer s.release()
	if !read(&s.text, w, r, maxBody) {
		return
	}
	q, err := parseRequest(s.text.Bytes(), op)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	result := d.do(r.Context(), &q, &s.question, w.Header())
	switch {
	case result.Problem != nil:
		result.Problem.ServeHTTP(w, r)
	case result.Answer == nil:
		w.Header()["Cache-Control"] = noStore
		w.WriteHeader(result.Status)
	default:
		s.text.Reset()
		write(w, result.Status, append(result.Answer.appendTo(s.text.AvailableBuffer()), '\n'))
	}
}

// A sheet is paper for one request after the other, of which nothing is kept: for its body and then for that of its answer, and
// for what is asked meanwhile.
type sheet struct {
	text     bytes.Buffer
	question question
}

var sheets = sync.Pool{New: func() any { return new(sheet) }}

// largeText is what is not kept for the next request, in bytes.
const largeText = 4 << 10

func (s *sheet) release() {
	if s.text.Cap() <= largeText {
		s.text.Reset()
		s.question = question{limits: s.question.limits}
		sheets.Put(s)
	}
}

func (d *door) serveBatch(w http.ResponseWriter, r *http.Request) {
	var buffer bytes.Buffer
	if !read(&buffer, w, r, maxBatchBody) {
		return
	}
	requests, err := parseBatch(buffer.Bytes())
	if err != nil {
		refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	body, _ := json.Marshal(Results{d.doAll(r.Context(), requests)}) // of numbers and strings: there is nothing to fail
	write(w, http.StatusOK, append(body, '\n'))
}

// read reads the body of a request, or answers it. A form, which a page of any site can have a browser send, is not
// JSON, so no such page gets at a door that listens on the browser's machine.
func read(buffer *bytes.Buffer, w http.ResponseWriter, r *http.Request, limit int64) bool {
	if !isJSON(r.Header.Get("Content-Type")) || r.Header.Get("Content-Encoding") != "" {
		refuse(w, r, http.StatusUnsupportedMediaType, "allowed is Content-Type: application/json, without a Content-Encoding")
		return false
	}
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > limit { // else net/http ends it there
		body = http.MaxBytesReader(w, body, limit)
	}
	if _, err := buffer.ReadFrom(body); err != nil {
		refuseBody(w, r, err, limit)
		return false
	}
	return true
}

func refuseBody(w http.ResponseWriter, r *http.Request, err error, limit int64) {
	if _, isTooLarge := errors.AsType[*http.MaxBytesError](err); isTooLarge {
		refuse(w, r, http.StatusRequestEntityTooLarge, "allowed is a body of up to "+strconv.FormatInt(limit, 10)+" bytes")
		return
	}
	refuse(w, r, http.StatusBadRequest, "the body ends before its end")
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// refuse answers with a problem. The detail holds nothing of what a client sent, which may be a key.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	problem(status, detail).ServeHTTP(w, r)
}

func problem(status int, detail string) *httpgate.Problem {
	return &httpgate.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}
