// Package auth is the door for proxies that ask before they pass a request on: nginx with auth_request, Traefik
// with ForwardAuth, Caddy with forward_auth, HAProxy, and Envoy with ext_authz over HTTP.
package auth

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/httpgate"
)

// StatusField is the field in which a door that has a [Config.DenyStatus] of its own says which status a refusal
// would have had, so that a recipe can tell a limit (429) from what else is refused.
const StatusField = "Slidegate-Status"

// A Config is what a door is told. All but the Dialect have defaults.
type Config struct {
	// Dialect is how the proxy says which request it asks about.
	Dialect Dialect

	// Trusted are the networks of the proxies, as CIDRs or addresses; the default is this machine, 127.0.0.0/8
	// and ::1. Whoever may ask here may say who the client is, so nobody else gets an answer.
	Trusted []string

	// DenyStatus is the status of refusals, 400 to 499; the default is the one that the gate gives, 429. nginx
	// understands 403 and 401 and makes 500 of any other.
	DenyStatus int

	// Path is where the door is; the default is /auth. Envoy puts it before the path of the request.
	Path string

	// Logger is told, once each, of peers that are not trusted and of fields that are missing; the default
	// discards.
	Logger *slog.Logger
}

// Loopback are the networks that a door trusts by default.
var Loopback = []string{"127.0.0.0/8", "::1"}

// A door is one http.Handler for every method.
type door struct {
	Config
	addresses *httpgate.Addresses
	gated     http.Handler // the gate, with the answer to what it admits behind it

	saidPeer, saidFault atomic.Bool
}

// New returns a handler that answers a proxy with 200 and the fields of the decision if gate admits the request
// that the proxy asks about, and as gate does if it refuses. gate gets that request as the proxy got
// it: its method, URI, host and fields, RemoteAddr the client that connected to the proxy, and in X-Forwarded-For
// what that client sent, for a gate that trusts proxies in front. It has no body, and a
// gate must not keep it: its memory is that of the next request when the handler has returned.
//
// What cannot be understood is never admitted, and never answered with a 5xx: proxies may let that pass.
func New(c Config, gate func(http.Handler) http.Handler) (http.Handler, error) {
	if c.Dialect.name == "" {
		return nil, fmt.Errorf("the dialect is missing: allowed is %s", strings.Join(Dialects(), ", "))
	}
	if c.DenyStatus == 0 {
		c.DenyStatus = http.StatusTooManyRequests
	}
	if c.DenyStatus < 400 || c.DenyStatus > 499 {
		return nil, fmt.Errorf("deny status %d: allowed is 400 to 499", c.DenyStatus)
	}
	if c.Path == "" {
		c.Path = "/auth"
	}
	if !strings.HasPrefix(c.Path, "/") || strings.HasSuffix(c.Path, "/") {
		return nil, fmt.Errorf("path %q: allowed is a path such as /auth", c.Path)
	}
	if len(c.Trusted) == 0 {
		c.Trusted = Loopback
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	addresses, err := c.Dialect.addresses(c.Trusted)
	if err != nil {
		return nil, err
	}
	return &door{Config: c, addresses: addresses, gated: gate(http.HandlerFunc(admit))}, nil
}

// noStore is shared by all answers.
var noStore = []string{"no-store"}

// admit is what stands behind the gate.
func admit(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(http.StatusOK)
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, reason := d.addresses.Find(r)
	if !asked(reason) {
		d.once(&d.saidPeer, "a peer that is not trusted asked the forward-auth door and got 403: if that is the proxy, name its network (--auth-trusted-peers)")
		refuse(w, r, http.StatusForbidden, "this address may not ask here")
		return
	}
	if !d.isHere(r) {
		refuse(w, r, http.StatusNotFound, "forward-auth is at "+d.Path)
		return
	}
	q := questions.Get().(*question)
	defer q.release()
	q.answer = answer{ResponseWriter: w, deny: d.DenyStatus}
	if err := d.rebuild(q, r, client, reason); err != nil {
		d.once(&d.saidFault, "a proxy asked in a way that its dialect does not have and got 400: is the recipe complete?", "dialect", d.Dialect.name, "error", err)
		refuse(&q.answer, r, http.StatusBadRequest, err.Error())
		return
	}
	q.bodyless = q.original.Method == http.MethodHead && r.Method != http.MethodHead
	d.gated.ServeHTTP(&q.answer, &q.original)
}

// A question is the request that a proxy asks about, and what answers it.
type question struct {
	answer
	original http.Request
	header   http.Header // of the original
}

// questions are for one request after the other.
var questions = sync.Pool{New: func() any { return &question{header: http.Header{}} }}

// mostFields is how many fields a request may have whose memory is kept.
const mostFields = 64

func (q *question) release() {
	if len(q.header) > mostFields {
		return
	}
	clear(q.header)
	*q = question{header: q.header}
	questions.Put(q)
}

// asked tells whether a trusted proxy connected, whatever it said.
func asked(reason httpgate.Reason) bool {
	switch reason {
	case httpgate.ReasonHeader, httpgate.ReasonNoHeader, httpgate.ReasonMalformed:
		return true
	}
	return false
}

func (d *door) once(said *atomic.Bool, text string, attributes ...any) {
	if !said.Load() && !said.Swap(true) {
		d.Logger.Warn(text+"; further ones are not logged", attributes...)
	}
}

// isHere tells whether a request is for the door. Envoy asks with the path of the request behind the door's.
func (d *door) isHere(r *http.Request) bool {
	if d.Dialect.uri != "" {
		return r.URL.Path == d.Path
	}
	rest, ok := strings.CutPrefix(r.RequestURI, d.Path)
	return ok && (strings.HasPrefix(rest, "/") || rest == "*")
}

// rebuild makes the request that r asks about.
func (d *door) rebuild(q *question, r *http.Request, client netip.Addr, reason httpgate.Reason) error {
	switch reason {
	case httpgate.ReasonNoHeader:
		return faulty("the field " + d.Dialect.client + " is missing")
	case httpgate.ReasonMalformed:
		return faulty("the field " + d.Dialect.client + " does not end with an address")
	}
	method, uri, host, scheme, err := d.Dialect.original(r, d.Path)
	if err != nil {
		return err
	}
	original := &q.original
	*original = *r.WithContext(r.Context())
	original.Method, original.Host, original.RequestURI = method, host, uri.RequestURI()
	original.URL = uri
	uri.Scheme, uri.Host = scheme, host
	if scheme == "" {
		uri.Host = "" // as in a request line without it
	}
	d.Dialect.copyHeader(q.header, r.Header)
	original.Header = q.header
	original.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	original.Body, original.ContentLength, original.TransferEncoding = http.NoBody, 0, nil
	original.TLS, original.Form, original.PostForm, original.MultipartForm = nil, nil, nil, nil
	return nil
}

// refuse answers in the gate's place.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	httpgate.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}.ServeHTTP(w, r)
}

// An answer gives refusals the status that the proxy understands.
type answer struct {
	http.ResponseWriter
	deny     int
	bodyless bool // the request is a HEAD, and the proxy's own is not
	wrote    bool
}

// WriteHeader says in [StatusField] which status a refusal has, where the door has another for it.
func (a *answer) WriteHeader(status int) {
	a.wrote = true
	h := a.Header()
	if status >= 400 && status < 500 && a.deny != http.StatusTooManyRequests {
		h.Set(StatusField, strconv.Itoa(status))
		status = a.deny
	}
	if a.bodyless {
		h.Del("Content-Length") // of a body that is not sent, which the proxy would wait for
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
