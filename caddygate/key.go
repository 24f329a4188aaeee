package caddygate

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/slidegate/slidegate/httpgate"
)

// keyOf returns the key of a request, empty where it is the address.
func (h *Handler) keyOf(r *http.Request) (string, error) { return h.composed(r), nil }

// errNoValue is why a key cannot be composed.
var errNoValue = errors.New("a placeholder has no value")

// composed returns the key that the parts make, empty where a placeholder has no value.
func (h *Handler) composed(r *http.Request) string {
	replacer := replacerOf(r)
	parts := make([]string, 1, 1+len(h.Key))
	parts[0] = h.kind
	for _, part := range h.Key {
		value, err := replacer.ReplaceFunc(part, h.valueOf)
		if err != nil {
			return ""
		}
		parts = append(parts, value)
	}
	if h.prefix != "" {
		return h.prefix + parts[1]
	}
	return httpgate.Join(parts...) // with the kind, so that no API key is somebody's user name
}

// prefixOf returns how the key of one header or one cookie begins in package httpgate, so that a server
// and a program may have a budget together. It is empty for other keys.
func prefixOf(key []string) string {
	name, ok := strings.CutSuffix(key[0], "}")
	if len(key) > 1 || !ok || strings.Contains(name, "}") {
		return ""
	}
	if header, ok := strings.CutPrefix(name, "{http.request.header."); ok {
		return "header:" + textproto.CanonicalMIMEHeaderKey(header) + ":"
	}
	if cookie, ok := strings.CutPrefix(name, "{http.request.cookie."); ok {
		return "cookie:" + cookie + ":"
	}
	return ""
}

// clientIP is the address of the client as Caddy knows it, by itself the key of default.
const clientIP = "{http.vars.client_ip}"

// valueOf puts the network in the place of an address, and stops at what is empty.
func (h *Handler) valueOf(name string, value any) (any, error) {
	text := caddy.ToString(value)
	if name == "http.vars.client_ip" || name == "http.request.remote.host" {
		text = h.network(text)
	}
	if text == "" {
		return nil, errNoValue
	}
	return text, nil
}

// network returns an address as it is counted, empty where there is none.
func (h *Handler) network(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	return h.gate.Addresses().Key(addr)
}

// addressOf returns the client that a trusted proxy of the server speaks for. Where nobody does, the client
// is who connects, which the gate knows.
func (h *Handler) addressOf(r *http.Request) (addr netip.Addr) {
	if !isTrusted(r) {
		return addr
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, _ = netip.ParseAddr(text)
	return addr
}

// isLax tells whether a trusted proxy's header is read from its beginning, which the client may have
// written.
func isLax(r *http.Request) bool {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return isTrusted(r) && server != nil && server.TrustedProxiesStrict == 0
}

// isTrusted tells whether who connects is one of the server's trusted proxies.
func isTrusted(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}
