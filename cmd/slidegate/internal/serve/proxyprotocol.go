package serve

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/pires/go-proxyproto"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/httpgate"
)

// readProxyProtocol reads the flags of the PROXY protocol.
func (s *server) readProxyProtocol() error {
	if len(s.proxyProtocol) == 0 {
		return config.RefuseFlags(s.given, "it is about --proxy-protocol, which is not given", "proxy-protocol-from")
	}
	doors, err := s.openDoors("proxy-protocol", s.proxyProtocol)
	if err != nil {
		return err
	}
	s.proxyProtocol = doors
	if len(s.proxyProtocolFrom) == 0 {
		return config.Usagef("--proxy-protocol-from is empty: name the networks of the proxies, such as 10.0.0.0/8")
	}
	for _, text := range trimmed(s.proxyProtocolFrom) {
		network, err := httpgate.ParseTrusted(text)
		if err != nil {
			return config.Usagef("%s", proxyFlagNames.Replace(strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": ")))
		}
		s.trusts = append(s.trusts, network)
	}
	return nil
}

// proxyFlagNames are what the networks are called here.
var proxyFlagNames = strings.NewReplacer(", or say TrustEverybody", "", "trusted proxies", "--proxy-protocol-from")

// behindProxy is a listener that hears trusted peers alone, each of which must begin with a PROXY header, of version 1 or
// 2: where it may be missing, a client could send one through a proxy that does not.
type behindProxy struct {
	net.Listener
	server *server
	flag   string

	saidPeer, saidHeader atomic.Bool
}

func (l *behindProxy) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.trusts(conn.RemoteAddr()) {
			return &proxied{proxyproto.NewConn(conn, proxyproto.WithPolicy(proxyproto.REQUIRE),
				proxyproto.ValidateHeader(speaksOfTCP), proxyproto.SetReadHeaderTimeout(l.server.readHeaderTimeout)), l}, nil
		}
		_ = conn.Close() // nobody is heard who may not be
		l.once(&l.saidPeer, "somebody who is not trusted connected where a PROXY header is wanted, and was not heard: if that is the proxy, name its network (--proxy-protocol-from)")
	}
}

func (l *behindProxy) trusts(peer net.Addr) bool {
	at, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return false
	}
	address := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(l.server.trusts, func(network netip.Prefix) bool { return network.Contains(address) })
}

func (l *behindProxy) once(said *atomic.Bool, text string) {
	if !said.Load() && !said.Swap(true) {
		l.server.log.Warn(text+"; further ones are not logged", "at", "--"+l.flag)
	}
}

var errNoTCP = errors.New("the PROXY header speaks of no TCP connection")

// speaksOfTCP refuses headers whose addresses are none of a client of TCP. One of the proxy's own connection, such as a
// health check, has none and is the proxy's.
func speaksOfTCP(h *proxyproto.Header) error {
	if _, _, ok := h.TCPAddrs(); !ok && !h.Command.IsLocal() {
		return errNoTCP
	}
	return nil
}

// A proxied connection is from the client that its PROXY header names.
type proxied struct {
	*proxyproto.Conn
	listener *behindProxy
}

// Read says once that a proxy sends no header: it would be looked for long.
func (c *proxied) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, proxyproto.ErrNoProxyProtocol) {
		c.listener.once(&c.listener.saidHeader, "a trusted peer connected and sent no PROXY header, and was not answered: is the proxy told to send one?")
	}
	return n, err
}

// CloseWrite lets net/http end an answer before it closes, as on any connection of TCP: else the client might not get it.
func (c *proxied) CloseWrite() error { return closeWrite(c.Raw()) }
