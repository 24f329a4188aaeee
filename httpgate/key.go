package httpgate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// ErrNoAddress is why a request could not be decided that nobody can be counted for: it came
// through a Unix socket, or the server's RemoteAddr is no address. Such a request never passes
// uncounted: it gets a 500, or the answer of [FailClosed] or [FailWith].
var ErrNoAddress = errors.New("httpgate: the request has no client address to count it under: who connected is no IP address, such as a Unix socket (see TrustUnixPeer)")

// keyOf returns the key of a request, and how the client's address was found if it was looked for.
// Where the key function cannot tell, the key is the address, under its own kind.
func (g *Gate) keyOf(r *http.Request) (string, Reason, error) {
	if g.key != nil {
		if key, err := g.key(r); err == nil && key != "" {
			return bounded(key), "", nil
		}
	}
	if addr, text, ok := ipv4Peer(r.RemoteAddr); ok && g.addresses.header == "" {
		g.note(r, addr, ReasonPeer)
		return "ip:" + text, ReasonPeer, nil
	}
	addr, reason := g.addresses.Find(r)
	g.note(r, addr, reason)
	key, err := g.addresses.kindKey(addr)
	return key, reason, err
}

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
