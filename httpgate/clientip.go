package httpgate

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// A Reason says how a client's address was found, or why it was not.
type Reason string

// The reasons. Those below ReasonBadPeer come with the nearest address that could be verified.
const (
	ReasonPeer          Reason = "peer"           // no header is configured: who connected
	ReasonServer        Reason = "server"         // the server knows it: see AddressFrom
	ReasonHeader        Reason = "header"         // the first address that is not a trusted proxy's
	ReasonAllTrusted    Reason = "all-trusted"    // every address in the header is a trusted proxy's: the left-most
	ReasonPeerUntrusted Reason = "peer-untrusted" // who connected is no trusted proxy, so its header is ignored
	ReasonNoHeader      Reason = "no-header"      // a trusted proxy sent none
	ReasonMalformed     Reason = "malformed"      // a header that cannot be read: the last address that could
	ReasonTooFewHops    Reason = "too-few-hops"   // fewer addresses than proxies: who connected
	ReasonNoPeer        Reason = "no-peer"        // a Unix socket: no address
	ReasonBadPeer       Reason = "bad-peer"       // RemoteAddr is no address: none
)

// Addresses finds the address of the client behind a request. It reads one header at most, and that
// one only from proxies it was told to trust; it never guesses. The zero Addresses takes who
// connected. It is safe for concurrent use once it is in use.
type Addresses struct {
	header  string // canonical; empty for none
	trusted []netip.Prefix
	hops    int
	unix    bool // a Unix socket's peer is trusted
	prefix  int  // of IPv6 keys
	nat64   bool

	from func(*http.Request) netip.Addr // asked first; nil where the server knows nothing
}

// NewAddresses returns what finds addresses as a gate with the same options does: [TrustProxies],
// [TrustHops], [TrustEverybody], [TrustUnixPeer], [ClientIPHeader], [AddressFrom], [IPv6Prefix], [UnwrapNAT64].
// Options of other kinds have no effect. Every error wraps [slidegate.ErrInvalidLimit].
func NewAddresses(options ...Option) (*Addresses, error) {
	var g Gate
	if err := g.apply(options); err != nil {
		return nil, err
	}
	return &g.addresses, nil
}

// Find returns the client's address, unmapped and without zone, and how it was found. The address is
// the zero Addr where there is none.
func (a *Addresses) Find(r *http.Request) (netip.Addr, Reason) {
	if a.from != nil {
		if addr := a.from(r); addr.IsValid() {
			return plain(addr), ReasonServer
		}
	}
	peer, reason := peerOf(r.RemoteAddr)
	if a.header == "" || reason == ReasonBadPeer || reason == ReasonNoPeer && !a.unix {
		return peer, reason
	}
	if reason == ReasonPeer && (len(a.trusted) == 0 && a.hops == 0 || len(a.trusted) > 0 && !a.trusts(peer)) {
		return peer, ReasonPeerUntrusted
	}
	addr, why := a.walk(r.Header[a.header], peer)
	if !addr.IsValid() {
		return addr, ReasonNoPeer
	}
	return addr, why
}

// Key returns the text under which an address is counted: an IPv4 address as it stands, and the
// network of an IPv6 address, such as 2001:db8:1234:5600::/56.
func (a *Addresses) Key(addr netip.Addr) string {
	return string(a.appendKey(nil, addr))
}

// KeyOf returns the key under which a gate counts a request by default: "ip:" and the Key of the
// client's address. It is for key functions that count by the address and something more. The
// error is [ErrNoAddress].
func (a *Addresses) KeyOf(r *http.Request) (string, error) {
	addr, _ := a.Find(r)
	return a.kindKey(addr)
}

func (a *Addresses) kindKey(addr netip.Addr) (string, error) {
	if !addr.IsValid() {
		return "", ErrNoAddress
	}
	var buffer [64]byte
	return string(a.appendKey(append(buffer[:0], "ip:"...), addr)), nil
}

func (a *Addresses) appendKey(b []byte, addr netip.Addr) []byte {
	addr = a.unwrap(addr.Unmap())
	if addr.Is4() {
		return addr.AppendTo(b)
	}
	prefix, err := addr.Prefix(a.keyPrefix())
	if err != nil {
		return b
	}
	return prefix.AppendTo(b)
}

// unwrap returns the IPv4 address in one of a NAT64 gateway, if such are to be unwrapped.
func (a *Addresses) unwrap(addr netip.Addr) netip.Addr {
	if !a.nat64 || !nat64.Contains(addr) {
		return addr
	}
	v6 := addr.As16()
	return netip.AddrFrom4([4]byte(v6[12:]))
}

// nat64 is the well-known prefix of RFC 6052 section 2.1.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

const defaultIPv6Prefix = 56

func (a *Addresses) keyPrefix() int {
	if a.prefix == 0 {
		return defaultIPv6Prefix
	}
	return a.prefix
}

func (a *Addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// peerOf reads a RemoteAddr: an address with or without a port, or that of a Unix socket.
func peerOf(remote string) (netip.Addr, Reason) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.Addr{}, ReasonNoPeer
	}
	if at, err := netip.ParseAddrPort(remote); err == nil {
		return plain(at.Addr()), ReasonPeer
	}
	if inner := strings.TrimPrefix(remote, "["); inner != remote {
		remote = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return netip.Addr{}, ReasonBadPeer
	}
	return plain(addr), ReasonPeer
}

func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// walk finds the client in the lines of the header.
func (a *Addresses) walk(lines []string, peer netip.Addr) (netip.Addr, Reason) {
	switch a.header {
	case "Forwarded":
		members, ok := forwardedFor(lines)
		if !ok {
			return peer, ReasonMalformed
		}
		return a.pick(&backwards{lines: members, whole: true}, peer)
	case "X-Forwarded-For":
		return a.pick(&backwards{lines: lines}, peer)
	}
	if len(lines) == 0 || trim(lines[len(lines)-1]) == "" {
		return peer, ReasonNoHeader
	}
	addr, ok := parseMember(trim(lines[len(lines)-1]))
	if !ok {
		return peer, ReasonMalformed
	}
	return addr, ReasonHeader
}

// isList tells whether a header lists an address for each proxy; others hold one.
func isList(header string) bool { return header == "X-Forwarded-For" || header == "Forwarded" }

// pick chooses among the members of a list, of which the last was added by the nearest proxy.
func (a *Addresses) pick(members *backwards, peer netip.Addr) (netip.Addr, Reason) {
	nearest, n := peer, 0
	for member, ok := members.next(); ok; member, ok = members.next() {
		n++
		if n < a.hops {
			continue // added by a proxy that is not the farthest
		}
		addr, ok := members.parse(member)
		switch {
		case !ok:
			return nearest, ReasonMalformed
		case a.hops > 0 || !a.trusts(addr):
			return addr, ReasonHeader
		}
		nearest = addr
	}
	switch {
	case n == 0:
		return peer, ReasonNoHeader
	case a.hops > 0:
		return peer, ReasonTooFewHops
	}
	return nearest, ReasonAllTrusted
}

// backwards goes through the members of a list from the last to the first, over all its lines, and
// leaves out what is empty. With whole a line is one member, as the elements of Forwarded are.
type backwards struct {
	lines []string
	rest  string // of the line it is in
	whole bool
}

func (b *backwards) next() (string, bool) {
	for {
		if b.rest == "" {
			if len(b.lines) == 0 {
				return "", false
			}
			b.rest, b.lines = b.lines[len(b.lines)-1], b.lines[:len(b.lines)-1]
		}
		if b.whole {
			member := b.rest
			b.rest = ""
			return member, true
		}
		comma := strings.LastIndexByte(b.rest, ',')
		member := trim(b.rest[comma+1:])
		b.rest = b.rest[:max(comma, 0)]
		if member != "" {
			return member, true
		}
	}
}

func (b *backwards) parse(member string) (netip.Addr, bool) {
	if b.whole {
		return parseNode(member)
	}
	return parseMember(member)
}

func trim(s string) string { return strings.Trim(s, " \t") }

// parseMember reads an address with or without a port: v4, v4:port, v6, [v6], [v6]:port, each v6
// also with a zone, which is dropped. The unspecified address is nobody's.
func parseMember(s string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, port, closed := strings.Cut(inner, "]")
		addr, err := netip.ParseAddr(host)
		if !closed || err != nil || addr.Is4() || port != "" && !isPort(port) {
			return netip.Addr{}, false
		}
		return known(addr)
	}
	if host, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil || !isPort(":"+port) {
			return netip.Addr{}, false
		}
		return known(addr)
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return known(addr)
}

func known(addr netip.Addr) (netip.Addr, bool) {
	addr = plain(addr)
	return addr, !addr.IsUnspecified()
}

func isPort(s string) bool {
	digits, ok := strings.CutPrefix(s, ":")
	if !ok || digits == "" || len(digits) > 5 {
		return false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return err == nil && n <= 65535
}

// ParseTrusted reads a proxy's network: a CIDR, or an address alone. Host bits are dropped, and an
// IPv4 network in IPv6 form becomes the IPv4 network. A network of everybody is refused: who
// trusts everybody believes everybody. The error wraps [slidegate.ErrInvalidLimit].
func ParseTrusted(s string) (netip.Prefix, error) {
	p, why := parsePrefix(s)
	if why != "" {
		return p, invalidf("trusted proxies %q: %s: allowed is a CIDR such as 10.0.0.0/8 or an address", s, why)
	}
	if p.Bits() == 0 {
		return netip.Prefix{}, invalidf("trusted proxies %q: that is everybody, and then any client can say it is another: give the proxies' own networks, or say TrustEverybody", s)
	}
	return p, nil
}

// parsePrefix reads a CIDR, or an address alone; why says what is wrong with it.
func parsePrefix(s string) (p netip.Prefix, why string) {
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, "no address"
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, "no CIDR"
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, "an IPv4 network in IPv6 form has at least 96 bits"
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), ""
}
