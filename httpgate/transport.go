package httpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// A Transport is an http.RoundTripper that keeps to the limits which servers announce: it reads the
// RateLimit fields of their answers ([ParseRateLimit]) and Retry-After, holds requests back until
// there is room for them, and sends a request again that was refused with a 429 ([Retries]). A 403 with
// Retry-After holds back what follows, and is itself returned. Whatever it sends and returns is otherwise
// untouched: bodies stream, trailers and upgrades work, and the caller's request is not modified.
//
// What it knows it knows of a host (scheme, name and port; see [BudgetBy]). The first request to a
// host goes alone, and the others wait for its answer, for a second at most. From then on as many
// requests are under way as the host has said are left. Those that have to wait for a reset are sent
// in the order they came, spread over time. A request counts as one unit of every policy that the host
// has announced, until its answer shows which it was charged to.
//
// As long as nobody else spends the same budget, a Transport in front of a [Gate] is refused once
// at most, where the budget was used up before it began; with [Draft8] it reaches the whole rate that a
// sliding log allows, with formats that speak of one limit alone half of it or more. A server that
// means something else by its reset, or a budget that others spend too, is met carefully: after a
// reset one request asks how much is left.
//
// Answers from a cache (Age above 0), policies that do not count requests, and malformed fields are
// ignored. A server's word holds a request back for a day at most.
//
// A Transport is safe for concurrent use and needs no closing.
type Transport struct {
	next        http.RoundTripper
	key         func(*http.Request) string
	maxWait     time.Duration
	retries     int
	unavailable bool
	maxHosts    int
	presumed    []slidegate.Limit
	now         func() time.Time
	began       time.Time

	mu    sync.RWMutex
	hosts map[hostKey]*host
}

// A TooSoonError says that a request was not sent, since there would be no room for it in the time
// that it may wait. It is errors.Is context.DeadlineExceeded where the request's deadline is too near.
type TooSoonError struct {
	// Wait is the time until the request may be sent, as far as is known: it may turn out longer.
	Wait time.Duration

	// Policy is the name of the limit that has no room, empty if it has none.
	Policy string

	err  error
	sent bool // once before: it is the repeat that was not
}

func (e *TooSoonError) Error() string {
	policy := ""
	if e.Policy != "" {
		policy = fmt.Sprintf(" of %q", e.Policy)
	}
	reason := "longer than the request may wait"
	if errors.Is(e.err, context.DeadlineExceeded) {
		reason = "after the deadline of the request"
	}
	again := ""
	if e.sent {
		again = " again"
	}
	return fmt.Sprintf("httpgate: not sent%s: the limit%s has room in %s, %s", again, policy, e.Wait, reason)
}

func (e *TooSoonError) Unwrap() error { return e.err }

func tooSoon(ctx context.Context, wait time.Duration, policy string) error {
	e := &TooSoonError{Wait: wait, Policy: policy}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		e.err = context.DeadlineExceeded
	}
	return e
}

// NewTransport returns a Transport that sends through next, or http.DefaultTransport if that is nil. Every
// error wraps [slidegate.ErrInvalidLimit].
func NewTransport(next http.RoundTripper, options ...TransportOption) (*Transport, error) {
	if next == nil {
		next = http.DefaultTransport
	}
	t := &Transport{
		next: next, maxWait: time.Minute, retries: 3, maxHosts: 1024,
		now: time.Now, hosts: map[hostKey]*host{},
	}
	for _, option := range options {
		if option == nil {
			return nil, invalidf("a TransportOption is nil")
		}
		if err := option(t); err != nil {
			return nil, err
		}
	}
	t.began = t.now()
	return t, nil
}

// MustNewTransport is NewTransport for options that are known to be right. It panics on an error.
func MustNewTransport(next http.RoundTripper, options ...TransportOption) *Transport {
	t, err := NewTransport(next, options...)
	if err != nil {
		panic(err)
	}
	return t
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() { closeIdle(t.next) }

func closeIdle(next http.RoundTripper) {
	if c, ok := next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends the request when there is room for it. It returns a [*TooSoonError] if there is none in
// the time that the request may wait, and the context's error if that ends first; nothing was sent then that
// the server did not refuse. A refusal of the server is returned as it is where the request cannot be sent again.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	h := t.host(r)
	until := t.until(r.Context())
	for request, attempt := r, 0; ; attempt++ {
		p, err := h.enter(r.Context(), until, attempt > 0)
		if err != nil {
			closeBody(request)
			return nil, after(attempt, err)
		}
		resp, wait, err := t.send(h, p, request)
		if wait < 0 || attempt == t.retries || h.clock()+wait > until {
			return resp, after(attempt, err)
		}
		again, ok := repeated(r)
		if !ok {
			return resp, err
		}
		discard(resp)
		request = again
	}
}

// after returns an error that has come after so many attempts that reached the server.
func after(attempts int, err error) error {
	if attempts == 0 {
		return err
	}
	var early *TooSoonError // allocated, so not sooner
	if errors.As(err, &early) {
		early.sent = true
	}
	return err
}

// until is the latest moment to send a request.
func (t *Transport) until(ctx context.Context) time.Duration {
	wait := t.maxWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	return t.clock() + wait
}

func (t *Transport) clock() time.Duration { return t.now().Sub(t.began) }

// send sends the request once. wait is -1 unless it was refused and is to be sent again after that time.
func (t *Transport) send(h *host, p pass, r *http.Request) (resp *http.Response, wait time.Duration, err error) {
	var room [4]Policy
	o := outcome{failed: true, wait: -1}
	defer func() { h.leave(p, &o) }() // also if next panics
	resp, err = t.next.RoundTrip(r)
	if err != nil {
		o.unsent = neverSent(err)
		return resp, -1, err
	}
	o = t.judge(resp, room[:0])
	if !o.again {
		return resp, -1, nil
	}
	return resp, o.wait, nil
}

// judge reads an answer; room is for its policies.
func (t *Transport) judge(resp *http.Response, room []Policy) (o outcome) {
	o.wait = -1
	if age := strings.TrimSpace(resp.Header.Get("Age")); strings.Trim(age, "0") != "" {
		o.stale = true
		return o
	}
	now := t.now()
	o.policies, o.all = announced(resp.Header, now, room)
	wait, told := parseRetryAfter(resp.Header, now)
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		o.refused, o.again = true, true
	case http.StatusServiceUnavailable:
		o.refused = t.unavailable && told
		o.again = o.refused
	case http.StatusForbidden: // how GitHub answers, too; but time may not be all that the request lacks
		o.refused = told
	}
	for _, p := range o.policies {
		if p.Remaining == 0 {
			o.wait = max(o.wait, p.Reset)
		}
	}
	if o.refused && len(o.policies) == 0 {
		o.policies = append(o.policies, Policy{Reset: -1}) // the limit that refused has no name
	}
	if told {
		o.wait = wait // it beats the fields
	}
	if o.wait >= 0 {
		o.wait = max(o.wait, time.Second) // 0 is legal, and would be a loop
	}
	return o
}

// repeated returns the request to send once more, if its body can be had again.
func repeated(r *http.Request) (*http.Request, bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	again := r.WithContext(r.Context())
	again.Body = body
	return again, true
}

// discarded is how much of a refusal's body is read so that its connection can be used again.
const discarded = 16 << 10

// discard is done with a refusal. A body that does not end in time costs the connection.
func discard(resp *http.Response) {
	late := time.AfterFunc(patience, func() { _ = resp.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, discarded) // a broken body is no concern: the connection goes
	_ = resp.Body.Close()
}

// closeBody is what a RoundTripper owes to a request that it does not send.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// neverSent tells whether an error of a RoundTripper means that no server has seen the request: there
// was no connection to it, or an Outgoing or a Transport has held it back.
func neverSent(err error) bool {
	var early *TooSoonError
	if errors.As(err, &early) {
		return !early.sent
	}
	var never *slidegate.CostError
	if errors.As(err, &never) || errors.Is(err, slidegate.ErrBlocked) || errors.Is(err, slidegate.ErrTooManyWaiters) || errors.Is(err, slidegate.ErrUnavailable) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect") {
		return true
	}
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert)
}

type hostKey struct{ scheme, host string }

func (t *Transport) hostKey(r *http.Request) hostKey {
	if t.key != nil {
		if key := t.key(r); key != "" {
			return hostKey{host: bounded(key)}
		}
	}
	scheme, name := origin(r)
	return hostKey{scheme, bounded(name)} // a redirect may name any
}

// origin returns the scheme and host of a request, the same for the same server however it is written.
func origin(r *http.Request) (scheme, name string) {
	if r.URL == nil {
		return "", ""
	}
	scheme, name = strings.ToLower(r.URL.Scheme), strings.ToLower(r.URL.Host)
	switch scheme {
	case "https":
		name = strings.TrimSuffix(name, ":443")
	case "http":
		name = strings.TrimSuffix(name, ":80")
	}
	return scheme, name
}

// host returns what is known of the request's host.
func (t *Transport) host(r *http.Request) *host {
	key := t.hostKey(r)
	now := int64(t.clock())
	t.mu.RLock()
	h := t.hosts[key]
	t.mu.RUnlock()
	if h == nil {
		h = t.meet(key)
	}
	h.used.Store(now)
	return h
}

func (t *Transport) meet(key hostKey) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hosts[key]; h != nil {
		return h
	}
	if len(t.hosts) >= t.maxHosts {
		t.forget()
	}
	h := newHost(t.clock, t.presumed)
	key.scheme, key.host = strings.Clone(key.scheme), strings.Clone(key.host)
	t.hosts[key] = h
	return h
}

// forget drops, of a few hosts, the one that was not used for longest.
func (t *Transport) forget() {
	const few = 16
	var oldest hostKey
	var used int64
	n := 0
	for key, h := range t.hosts {
		if at := h.used.Load(); n == 0 || at < used {
			oldest, used = key, at
		}
		if n++; n == few {
			break
		}
	}
	delete(t.hosts, oldest)
}
