package serve

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

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
		if to == nil {
			s.echo(w, r)
			return
		}
		s.proxy(to).ServeHTTP(w, r)
	})
}

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
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the upstream is reached as it was named
	transport.Protocols = protocols
	transport.MaxIdleConnsPerHost = 256
	transport.MaxIdleConns = 0
	transport.DisableCompression = true // bodies pass as they are
	transport.ResponseHeaderTimeout = s.upstreamTimeout
	return &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { s.rewrite(pr, &target) },
		ModifyResponse: s.answered,
		Transport:      transport,
		FlushInterval:  -1, // streams pass as they come
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { s.failed(w, r, &target, err) },
		ErrorLog:       s.debugLog(),
	}
}

// rewrite sends a request on: to the upstream, under the host that the client asked for and with the
// query as the client wrote it.
func (s *server) rewrite(pr *httputil.ProxyRequest, target *url.URL) {
	pr.SetURL(target)
	pr.Out.Host = pr.In.Host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	s.forwarded(pr)
	if pr.Out.Body != nil {
		pr.Out.Body = &clientBody{ReadCloser: pr.Out.Body}
	}
}

// forwarded makes the X-Forwarded fields say what is true. What a client says of itself in them is
// dropped; what a trusted proxy says is kept and added to. Where it says who the client is in another
// header, X-Forwarded-For begins with that client.
func (s *server) forwarded(pr *httputil.ProxyRequest) {
	client, reason := s.addresses.Find(pr.In)
	out := pr.Out.Header
	believed := reason == httpgate.ReasonHeader || reason == httpgate.ReasonAllTrusted
	switch {
	case believed && s.readsForwardedFor():
		out["X-Forwarded-For"] = slices.Clone(pr.In.Header["X-Forwarded-For"])
	case client.IsValid() && client != peer(pr.In):
		out.Set("X-Forwarded-For", client.String())
	}
	pr.SetXForwarded()
	if believed || reason == httpgate.ReasonNoHeader || reason == httpgate.ReasonMalformed {
		for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
			if said := pr.In.Header[name]; said != nil {
				out[name] = said
			}
		}
		return
	}
	if s.clientIPHeader != "" && !s.readsForwardedFor() {
		out.Del(s.clientIPHeader) // nobody who is believed has said it
	}
}

func (s *server) readsForwardedFor() bool {
	return s.clientIPHeader == "" || strings.EqualFold(s.clientIPHeader, "X-Forwarded-For")
}

// peer is who connected, the zero Addr if that is no IP address.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// A clientBody knows whether it was the client that failed while its body was read.
type clientBody struct {
	io.ReadCloser
	closed, failed atomic.Bool
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

func (b *clientBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// said is what the gate has said of a request.
type said struct {
	answer http.ResponseWriter
	header http.Header
}

type saidKey struct{}

func saidOf(r *http.Request) *said {
	s, _ := r.Context().Value(saidKey{}).(*said)
	return s
}

// around counts who is under way, and keeps what the gate said: ReverseProxy clears every field
// behind an interim response, such as 103.
func (s *server) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.underWay.Add(1)
		defer s.underWay.Add(-1)
		if r.Method == http.MethodConnect { // a tunnel to wherever the client likes is no request of a service
			refuse(w, r, http.StatusMethodNotAllowed)
			return
		}
		kept := &said{w, maps.Clone(w.Header())}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), saidKey{}, kept)))
	})
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
	if unsent := r.URL.Host != target.Host; unsent || body != nil && body.failed.Load() {
		refuse(w, r, http.StatusBadRequest)
		return
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // quiet, and no 200 for one that has only stopped to send
	}
	s.metrics.upstreamErrors.Inc()
	if s.outage.failed() {
		s.log.Error("the upstream does not answer; further failures are counted and not logged", "error", err)
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		refuse(w, r, http.StatusGatewayTimeout)
		return
	}
	refuse(w, r, http.StatusBadGateway)
}

func refuse(w http.ResponseWriter, r *http.Request, status int) {
	httpgate.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status}.ServeHTTP(w, r)
}
