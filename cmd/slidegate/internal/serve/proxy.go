package serve

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
)

// behind is what stands behind the gate: the upstream of the rule, or the one of all, or an answer of our own.
func (s *server) behind() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := s.upstream
		if own := rules.Of(r.Context()).UpstreamURL(); own != nil {
			to = own
		}
		switch {
		case r.Method == http.MethodConnect: // a tunnel to wherever the client likes is no request of a service
			refuse(w, r, http.StatusMethodNotAllowed)
		case s.maxBody != unset && r.ContentLength > s.maxBody:
			s.refuseBody(w, r, &http.MaxBytesError{Limit: s.maxBody})
		case to == nil:
			s.echo(w, r)
		default:
			s.pass(w, r, to)
		}
	})
}

// pass sends a request on. It keeps what the gate has said, for ReverseProxy clears every field behind an interim response,
// such as 103, and waits for the upstream as long as it may take.
func (s *server) pass(w http.ResponseWriter, r *http.Request, to *url.URL) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	kept := &said{w, maps.Clone(w.Header()), expect(s.upstreamTimeout, cancel)}
	defer kept.upstream.end()
	s.proxy(to).ServeHTTP(w, r.WithContext(context.WithValue(ctx, saidKey{}, kept)))
}

// rewrite sends a request on: to the upstream, under the host that the client asked for and with the
// query as the client wrote it.
func (s *server) rewrite(pr *httputil.ProxyRequest, target *url.URL) {
	pr.SetURL(target)
	pr.Out.Host = pr.In.Host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	s.forwarded(pr)
	dropTunnels(pr.Out.Header)
	if pr.Out.Body != nil {
		pr.Out.Body = s.newClientBody(pr)
	}
}

// dropTunnels asks for no upgrade to another HTTP, such as h2c, or to TLS. A client would send further requests through it
// that no limit is about, and a server may leave an upgrade alone (RFC 9110, section 7.8; RFC 9113 has that to h2c no longer).
func dropTunnels(h http.Header) {
	protocol, _, _ := strings.Cut(h.Get("Upgrade"), "/")
	switch strings.ToLower(strings.TrimSpace(protocol)) {
	case "h2c", "http", "tls":
		h.Del("Upgrade")
		h.Del("Connection") // which is of the upgrade alone
	}
	h.Del("Http2-Settings")
}

// said is what the gate has said of a request that is passed on.
type said struct {
	answer   http.ResponseWriter
	header   http.Header
	upstream *expectation
}

type saidKey struct{}

func saidOf(r *http.Request) *said {
	s, _ := r.Context().Value(saidKey{}).(*said)
	return s
}

// again says what has been cleared.
func (s *said) again() {
	if s == nil {
		return
	}
	h := s.answer.Header()
	for name, values := range s.header {
		if h[name] == nil {
			h[name] = values
		}
	}
}

// answered looks at the head of an answer before it is passed on.
func (s *server) answered(resp *http.Response) error {
	kept := saidOf(resp.Request)
	kept.upstream.end()
	kept.again()
	if s.outage.recovered() {
		s.log.Info("the upstream answers again")
	}
	for _, name := range singles {
		if kept.hasOne(name) {
			delete(resp.Header, name)
		}
	}
	return nil
}

// singles are fields of which a response has one value, which is the gate's where it has said one.
var singles = []string{
	"Ratelimit", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
}

// hasOne tells whether the gate has said a field that has one value. RateLimit of draft 8 is a list of strings, which
// grows by what the upstream says.
func (s *said) hasOne(name string) bool {
	if s == nil || len(s.header[name]) == 0 {
		return false
	}
	return name != "Ratelimit" || !strings.HasPrefix(s.header[name][0], `"`)
}

// failed answers where the upstream did not. A client that went away, or whose request could not be
// read to its end or sent on, is no evidence against the upstream.
func (s *server) failed(w http.ResponseWriter, r *http.Request, target *url.URL, err error) {
	saidOf(r).again()
	body, _ := r.Body.(*clientBody)
	isSilent := errors.Is(context.Cause(r.Context()), errSilent)
	switch {
	case isSilent:
		err = errSilent
	case r.URL.Host != target.Host: // it was not sent
		refuse(w, r, http.StatusBadRequest)
		return
	case body.failed() != nil:
		s.refuseBody(w, r, body.failed())
		return
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // quiet, and no 200 for one that has only stopped to send
	}
	s.metrics.upstreamErrors.Inc()
	if s.outage.failed() {
		s.log.Error("the upstream does not answer; further failures are counted and not logged", "error", err)
	}
	var network net.Error
	if isSilent || errors.As(err, &network) && network.Timeout() {
		refuse(w, r, http.StatusGatewayTimeout)
		return
	}
	refuse(w, r, http.StatusBadGateway)
}

// refuseBody answers where a body could not be read to its end.
func (s *server) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	closeAfter(w, r)
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		s.shed(shedBody)
		refuse(w, r, http.StatusRequestEntityTooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, r, http.StatusRequestTimeout)
	default:
		refuse(w, r, http.StatusBadRequest)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, status int) {
	httpgate.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status}.ServeHTTP(w, r)
}
