package serve

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/httpgate"
)

// forwarded makes the fields that say who asked for what true. What a client says of itself in them is
// dropped; what a trusted proxy says is kept and added to. Where it says who the client is in another
// header, X-Forwarded-For begins with that client.
func (s *server) forwarded(pr *httputil.ProxyRequest) {
	client, reason := s.addresses.Find(pr.In)
	out := pr.Out.Header
	isBelieved := reason == httpgate.ReasonHeader || reason == httpgate.ReasonAllTrusted
	isTrusted := isBelieved || reason == httpgate.ReasonNoHeader || reason == httpgate.ReasonMalformed
	s.dropClaims(out, isTrusted)
	switch {
	case isBelieved && s.readsForwardedFor():
		out["X-Forwarded-For"] = slices.Clone(pr.In.Header["X-Forwarded-For"])
	case client.IsValid() && client != peer(pr.In):
		out.Set("X-Forwarded-For", client.String())
	}
	pr.SetXForwarded()
	if !isTrusted {
		return
	}
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if said := pr.In.Header[name]; said != nil {
			out[name] = said
		}
	}
}

// claims are fields, besides those that begin with X-Forwarded-, in which proxies say who a client is. Services read them.
var claims = []string{
	"Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Originating-Ip", "X-Remote-Ip", "X-Remote-Addr",
	"True-Client-Ip", "Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Azure-Clientip",
}

// dropClaims removes what nobody who is trusted has said. X_Real_IP goes whoever sent it: a service that reads its
// fields from the environment takes it for X-Real-IP, and a proxy that knows of the one passes the other on.
func (s *server) dropClaims(h http.Header, isTrusted bool) {
	for name := range h {
		dashed := name
		if hasUnderscore := strings.Contains(name, "_"); hasUnderscore {
			dashed = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		} else if isTrusted {
			continue
		}
		if strings.HasPrefix(dashed, "X-Forwarded-") || slices.Contains(claims, dashed) || strings.EqualFold(dashed, s.clientIPHeader) {
			delete(h, name)
		}
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
