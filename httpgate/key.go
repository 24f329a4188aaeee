package httpgate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// ErrNoAddress is why a request could not be decided that nobody can be counted for: it came
// through a Unix socket, or the server's RemoteAddr is no address. Such a request never passes
// uncounted: it gets a 500, or the answer of [FailClosed] or [FailWith].
var ErrNoAddress = errors.New("httpgate: the request has no client address to count it under: who connected is no IP address, such as a Unix socket (see TrustUnixPeer)")

// An identity says who is asking. It gets the gate since the address is the gate's to find: only the
// gate knows which proxies are believed. The reason is empty if the address was not looked for.
type identity func(g *Gate, r *http.Request) (string, Reason, error)

// by makes f the gate's identity, as an option says; what names it in the log, and is empty where every request has
// it. A nil f is the client's address.
func (g *Gate) by(option, what string, f identity) {
	if g.who != "" {
		g.reject("%s with %s: who is asking? give one, join them to one key with ByAll, or give the second a limiter of its own with And", g.who, option)
		return
	}
	g.who = option
	if what != "" {
		w := &watch{what: what}
		f, g.watches = w.on(f), append(g.watches, w)
	}
	g.identity = f
}

// simply is an identity that has no need of the gate.
func simply(f func(*http.Request) (string, error)) identity {
	return func(g *Gate, r *http.Request) (string, Reason, error) {
		key, err := f(r)
		if g.copyKeys {
			key = strings.Clone(key)
		}
		return key, "", err
	}
}

// By counts requests by the key that f returns; the default is the client's address. If f returns
// an empty key or an error, the request counts under the client's address: it is never unlimited,
// and never in one bucket with everybody. The key is used as it is, so that programs can ask the
// limiter about it too: give it a kind, as in "user:42", or a user whose name is "ip:203.0.113.7" would
// spend an address's quota. [ByValue] does that, and [Join] makes one key of several parts. A key of more
// than 512 bytes is stored as its SHA-256.
func By(f func(*http.Request) (string, error)) Option {
	return func(g *Gate) {
		if f == nil {
			g.reject("By: the key function is nil")
			return
		}
		g.by(optionBy, optionBy, simply(f))
	}
}

const optionBy = "By"

// CopyKeys copies the keys that the functions of [By], [ByClaim] and [ByValue] return; by default they are kept as
// they are. It is for servers that use the memory of a request again, as fasthttp does, where a key that is
// a piece of the request would change in the hands of the store.
func CopyKeys() Option { return func(g *Gate) { g.copyKeys = true } }

// ByAddress counts requests by the client's address; it is the default. It is there to be a part of
// [ByAll].
func ByAddress() Option { return func(g *Gate) { g.by("ByAddress", "", nil) } }

// ByNetwork counts requests by the network of the client's address: so many bits of it, 8 to 32 of an IPv4
// address and 16 to 128 of an IPv6 address; by default it is the address, as [IPv6Prefix] has it. Whoever rents
// addresses gets them side by side, so put it beside the address with [And], with the larger limit.
//
//	httpgate.And(perNetwork, httpgate.ByNetwork(24, 48))
//
// counts under keys such as "net:203.0.113.0/24" and "net:2001:db8:1::/48".
func ByNetwork(ipv4Bits, ipv6Bits int) Option {
	return func(g *Gate) {
		if ipv4Bits < 8 || ipv4Bits > 32 || ipv6Bits < 16 || ipv6Bits > 128 {
			g.reject("ByNetwork %d, %d: allowed are 8 to 32 bits of an IPv4 address, and 16 to 128 of an IPv6 address", ipv4Bits, ipv6Bits)
			return
		}
		g.by("ByNetwork", "", func(g *Gate, r *http.Request) (string, Reason, error) {
			addr, reason := g.addresses.Find(r)
			if !addr.IsValid() {
				return "", reason, ErrNoAddress
			}
			g.note(r, addr, reason)
			addr = g.addresses.unwrap(addr)
			bits := ipv6Bits
			if addr.Is4() {
				bits = ipv4Bits
			}
			network, err := addr.Prefix(bits)
			return "net:" + network.String(), reason, err
		})
	}
}

// ByEverybody counts all requests together, under one key; by default each address has its own. It is
// for what a service can take as a whole, and for a limit inside limits of its clients: alone it lets one
// client use up everybody's quota.
func ByEverybody() Option {
	return func(g *Gate) {
		g.by("ByEverybody", "", simply(func(*http.Request) (string, error) { return "everybody", nil }))
	}
}

// ByHeader counts requests by the value of a header, such as an API key; requests without it count
// under the client's address. By default it is always the address. Anybody can send any value: put a gate
// by address around one by a header that nothing has verified. [Secret] keeps the value itself from the
// store.
func ByHeader(name string) Option {
	return func(g *Gate) {
		if !validFieldName(name) {
			g.reject("ByHeader %q: allowed is the name of a header, such as X-API-Key", name)
			return
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		prefix := "header:" + canonical + ":"
		g.by("ByHeader", "the header "+canonical, simply(func(r *http.Request) (string, error) {
			value := ""
			if values := r.Header[canonical]; len(values) > 0 {
				value = trim(values[0])
			}
			if canonical == "Host" { // net/http keeps it elsewhere
				value = strings.ToLower(r.Host)
			}
			if value == "" {
				return "", nil
			}
			return prefix + value, nil
		}))
	}
}

// ByCookie counts requests by the value of a cookie; requests without it count under the client's
// address. By default it is always the address. What is said of [ByHeader] is true of cookies.
func ByCookie(name string) Option {
	return func(g *Gate) {
		if !validFieldName(name) {
			g.reject("ByCookie %q: allowed is the name of a cookie, such as session", name)
			return
		}
		prefix := "cookie:" + name + ":"
		g.by("ByCookie", "the cookie "+name, simply(func(r *http.Request) (string, error) {
			cookie, err := r.Cookie(name)
			if err != nil || cookie.Value == "" {
				return "", err
			}
			return prefix + cookie.Value, nil
		}))
	}
}

// ByClaim counts requests by what f says of them once they are verified, such as the subject of a
// token that an outer handler has checked and put in the context; requests of which f says nothing
// count under the client's address. By default it is always the address. The name tells claims apart:
// it is 1 to 128 characters that a header's name may have. f must not believe what it has not
// verified.
func ByClaim(name string, f func(*http.Request) (string, bool)) Option {
	return func(g *Gate) {
		if !validFieldName(name) {
			g.reject("ByClaim %q: allowed is a name such as sub, 1 to 128 characters of a header's name", name)
			return
		}
		if f == nil {
			g.reject("ByClaim %q: the function is nil", name)
			return
		}
		prefix := "claim:" + name + ":"
		g.by("ByClaim", "the claim "+name, simply(func(r *http.Request) (string, error) {
			value, ok := f(r)
			if !ok || value == "" {
				return "", nil
			}
			return prefix + value, nil
		}))
	}
}

// ByValue counts requests by what f says of them, such as a field of a form or a part of the path, under keys
// of a kind, such as "account:ann"; requests of which f says nothing, with an empty string, count under the client's
// address. By default it is always the address. What nobody has verified can be made up for every request: let the
// address, too, have a limit, with [And]. The kind is 1 to 128 characters that a header's name may have, and none of
// the kinds that the gate's own keys have. For what is verified there is [ByClaim].
func ByValue(kind string, f func(*http.Request) string) Option {
	return func(g *Gate) {
		if !validFieldName(kind) || slices.Contains(ownKinds, kind) {
			g.reject("ByValue %q: allowed is a kind such as account, 1 to 128 characters of a header's name, and none of %s", kind, strings.Join(ownKinds, ", "))
			return
		}
		if f == nil {
			g.reject("ByValue %q: the function is nil", kind)
			return
		}
		g.by("ByValue", "the value of kind "+kind, simply(func(r *http.Request) (string, error) {
			value := f(r)
			if value == "" {
				return "", nil
			}
			return kind + ":" + value, nil
		}))
	}
}

// ownKinds are what the keys begin with that a gate makes itself.
var ownKinds = []string{"claim", "cookie", "header", "hmac", "ip", "method", "net", "route", "sha256"}

// ByAll counts requests by several options together, such as route and address, or tenant and user:
// every combination has a budget of its own. By default it is the address alone. The parts are joined
// as [Join] does, so no two combinations meet. A part that cannot be told is the client's address.
func ByAll(options ...Option) Option {
	return func(g *Gate) {
		if len(options) < 2 || len(options) > maxParts {
			g.reject("ByAll of %d options: allowed are 2 to %d", len(options), maxParts)
			return
		}
		var parts []identity
		for i, option := range options {
			var part Gate
			if option != nil {
				option(&part)
			}
			if part.invalid != nil && g.invalid == nil {
				g.invalid = part.invalid
			}
			if part.who == "" && part.invalid == nil {
				g.reject("ByAll: option %d says nothing of who is asking: allowed are By, ByAddress, ByHeader, ByRoute and their like", i+1)
			}
			parts = append(parts, part.identity)
			g.watches = append(g.watches, part.watches...)
		}
		g.by("ByAll", "", func(g *Gate, r *http.Request) (string, Reason, error) { return g.together(r, parts) })
	}
}

// maxParts is the largest number of parts that ByAll joins.
const maxParts = 8

// together joins the keys of several identities.
func (g *Gate) together(r *http.Request, parts []identity) (string, Reason, error) {
	var keys [maxParts]string
	var reason Reason
	for i, part := range parts {
		key, why, err := g.orAddress(r, part)
		if err != nil {
			return "", why, err
		}
		keys[i] = key
		if why != "" {
			reason = why
		}
	}
	return Join(keys[:len(parts)]...), reason, nil
}

// Secret keeps identities from the store: every key but the address alone stands as its HMAC-SHA-256
// (RFC 2104) under secret, so whoever reads the store or a dump of it finds no API key and no cookie,
// and cannot try out guesses. By default keys are stored as they are. The secret is at least 32
// bytes, the same in every process that shares a store, and belongs to the deployment; with another
// one every key starts afresh. [Gate.KeyOf] tells what a request counts under.
func Secret(secret []byte) Option {
	return func(g *Gate) { g.secret = g.digest("Secret", secret) }
}

// KeyOf returns the key under which the gate counts a request, as the limiter and the store have it: for
// Peek and Reset, where a key is more than a name. The error is [ErrNoAddress].
func (g *Gate) KeyOf(r *http.Request) (string, error) {
	key, _, err := g.keyOf(r)
	return key, err
}

// keyOf returns the key of a request as it is stored, and how the client's address was found if it
// was looked for.
func (g *Gate) keyOf(r *http.Request) (string, Reason, error) {
	if g.identity != nil {
		if key, reason, ok := g.told(r, g.identity); ok {
			return key, reason, nil
		}
	}
	return g.addressKey(r)
}

// told returns what an identity says of a request, as it is stored, if it can tell.
func (g *Gate) told(r *http.Request, id identity) (key string, reason Reason, ok bool) {
	if id == nil {
		return "", "", false
	}
	key, reason, err := id(g, r)
	switch {
	case err != nil || key == "":
		return "", "", false
	case g.secret != nil:
		sum := g.secret.sum(key)
		return "hmac:" + hex.EncodeToString(sum[:]), reason, true
	}
	return bounded(key), reason, true
}

// orAddress returns the key of one identity. Where that cannot tell, the key is the address, under its own
// kind.
func (g *Gate) orAddress(r *http.Request, id identity) (string, Reason, error) {
	if id != nil {
		if key, reason, err := id(g, r); err == nil && key != "" {
			return key, reason, nil
		}
	}
	return g.addressKey(r)
}

func (g *Gate) addressKey(r *http.Request) (string, Reason, error) {
	isPeer := g.addresses.header == "" && g.addresses.from == nil
	if isPeer {
		if p := peerAt(r.RemoteAddr, &g.addresses); p != nil {
			if p.private || g.isSampling() {
				g.note(r, p.addr, ReasonPeer)
			}
			return p.key, ReasonPeer, nil
		}
	}
	addr, reason := g.addresses.Find(r)
	g.note(r, addr, reason)
	key, err := g.addresses.kindKey(addr)
	if isPeer && err == nil {
		remember(r.RemoteAddr, key, addr, &g.addresses)
	}
	return key, reason, err
}

// A peer is who is at the other end of a connection, and what it counts under.
type peer struct {
	remote, key string
	addr        netip.Addr
	prefix      int // as its gate has them
	nat64       bool
	private     bool // it may be a proxy
}

// peers are those that asked last: all requests of a connection have one RemoteAddr. Where two meet in a slot, it is whoever
// asked twice in a row.
var peers [4096]struct {
	last   atomic.Pointer[peer]
	missed atomic.Uint32 // a hash of who was not there last
}

// peerAt returns who is at a RemoteAddr, nil if that is not remembered.
func peerAt(remote string, a *Addresses) *peer {
	p := peers[maphash.String(seed, remote)%uint64(len(peers))].last.Load()
	if p != nil && p.remote == remote && p.prefix == a.prefix && p.nat64 == a.nat64 {
		return p
	}
	return nil
}

// remember keeps who is at a RemoteAddr if it was the last in its slot that was not there. Whoever rewrites RemoteAddr may have cut
// it out of a header: nobody chooses how much is kept of that.
func remember(remote, key string, addr netip.Addr, a *Addresses) {
	if len(remote) > longestPeer {
		return
	}
	hash := maphash.String(seed, remote)
	slot := &peers[hash%uint64(len(peers))]
	if missed := uint32(hash >> 32); slot.missed.Swap(missed) == missed {
		slot.last.Store(&peer{strings.Clone(remote), key, addr, a.prefix, a.nat64, isPrivate(addr)})
	}
}

// longestPeer is the length of the longest RemoteAddr without a zone, in bytes.
const longestPeer = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535")

// Join makes one key of several parts, such as a tenant and a path. Different parts give different
// keys, whatever characters they are made of: each part is written with its length.
func Join(parts ...string) string {
	n := 0
	for _, p := range parts {
		n += len(p) + 4
	}
	b := make([]byte, 0, n)
	for i, p := range parts {
		if i > 0 {
			b = append(b, '|')
		}
		b = strconv.AppendInt(b, int64(len(p)), 10)
		b = append(b, ':')
		b = append(b, p...)
	}
	return string(b)
}

// maxKeyLength is the longest key that is stored as it is, in bytes.
const maxKeyLength = 512

// bounded keeps a client from choosing how much memory its key takes: a longer key stands as its
// SHA-256. So does one that looks like that, or a client could name another's long key.
func bounded(key string) string {
	if len(key) <= maxKeyLength && !strings.HasPrefix(key, hashed) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashed + hex.EncodeToString(sum[:])
}

const hashed = "sha256:"
