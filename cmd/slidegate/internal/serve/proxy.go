package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/slidegate/slidegate/httpgate"
)

// behind is what stands behind the gate: the upstream, or an answer of our own.
func (s *server) behind() http.Handler {
	if s.upstream == nil {
		return http.HandlerFunc(s.echo)
	}
	target := *s.upstream
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
	u := &upstream{server: s}
	return &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { s.rewrite(pr, &target) },
		ModifyResponse: u.answered,
		Transport:      transport,
		FlushInterval:  -1, // streams pass as they come
		ErrorHandler:   u.failed,
	}
}

// rewrite sends a request on: to the upstream, under the host that the client asked for, and with
// X-Forwarded fields that are true. What a client says of itself in them is dropped; what a trusted
// proxy says is kept and added to.
func (s *server) rewrite(pr *httputil.ProxyRequest, target *url.URL) {
	pr.SetURL(target)
	pr.Out.Host = pr.In.Host
	switch _, reason := s.gate.Addresses().Find(pr.In); reason {
	case httpgate.ReasonPeer, httpgate.ReasonPeerUntrusted, httpgate.ReasonBadPeer, httpgate.ReasonNoPeer:
		pr.SetXForwarded()
	default:
		pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
		pr.SetXForwarded()
		for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
			if said := pr.In.Header[name]; said != nil {
				pr.Out.Header[name] = said
			}
		}
	}
}

// singles are the fields of which a response has one value: the gate's, where it decided.
var singles = []string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// oneVoice drops what the upstream says in single-valued fields that the gate has set. The lists of
// draft 8 grow by what the upstream says.
func (s *server) oneVoice(resp *http.Response) {
	if _, decided := httpgate.FromContext(resp.Request.Context()); !decided {
		return
	}
	for _, name := range s.headers {
		switch name {
		case "draft-6":
			drop(resp.Header, singles[:3])
		case "legacy", "legacy-delta":
			drop(resp.Header, singles[3:])
		case "draft-7":
			drop(resp.Header, []string{"Ratelimit"})
		}
	}
}

func drop(h http.Header, names []string) {
	for _, name := range names {
		delete(h, name)
	}
}

// An upstream is what is known of the service behind: one log line for each change of that.
type upstream struct {
	server *server
	down   atomic.Bool
}

func (u *upstream) answered(resp *http.Response) error {
	if u.down.Load() && u.down.Swap(false) {
		u.server.log.Info("the upstream answers again")
	}
	u.server.oneVoice(resp)
	return nil
}

func (u *upstream) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the client has gone: there is nobody to answer
	}
	status, title := http.StatusBadGateway, "Bad Gateway"
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		status, title = http.StatusGatewayTimeout, "Gateway Timeout"
	}
	u.server.metrics.upstreamErrors.Inc()
	if !u.down.Swap(true) {
		u.server.log.Error("the upstream does not answer; further failures are counted and not logged", "error", err)
	}
	httpgate.Problem{Type: "about:blank", Title: title, Status: status}.ServeHTTP(w, r)
}

// echo answers in the place of an upstream: what was asked, of whom, and how the limits stand.
func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	type standing struct {
		Name      string `json:"name"`
		Quota     int64  `json:"quota"`
		Remaining int64  `json:"remaining"`
		ResetMS   int64  `json:"reset_ms"`
	}
	answer := struct {
		Method string     `json:"method"`
		Path   string     `json:"path"`
		Client string     `json:"client"`
		Limits []standing `json:"limits"`
	}{Method: r.Method, Path: r.URL.Path}
	if addr, _ := s.gate.Addresses().Find(r); addr.IsValid() {
		answer.Client = addr.String()
	}
	if d, ok := httpgate.FromContext(r.Context()); ok {
		for i := range d.Len() {
			st := d.State(i)
			answer.Limits = append(answer.Limits, standing{st.Limit.Name, st.Limit.Quota, st.Remaining, st.ResetIn.Milliseconds()})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client's going away is no concern here
}
