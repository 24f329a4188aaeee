package httpgate

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"io"
	"slices"
	"sync"
)

// A digest is HMAC-SHA-256 (RFC 2104) under a secret. It is safe for concurrent use.
type digest struct{ pool sync.Pool }

// shortestSecret is the length below which RFC 2104 section 3 discourages a key of HMAC-SHA-256: that of
// its output, in bytes.
const shortestSecret = sha256.Size

// digest returns the digest of an option's secret, nil if it is too short.
func (g *Gate) digest(option string, secret []byte) *digest {
	if len(secret) < shortestSecret {
		g.reject("%s of %d bytes: allowed are at least %d: make them with openssl rand -hex 32", option, len(secret), shortestSecret)
		return nil
	}
	own := slices.Clone(secret)
	return &digest{sync.Pool{New: func() any { return hmac.New(sha256.New, own) }}}
}

func (d *digest) sum(text string) (sum [sha256.Size]byte) {
	h := d.pool.Get().(hash.Hash)
	h.Reset()
	_, _ = io.WriteString(h, text) // a hash never fails
	h.Sum(sum[:0])
	d.pool.Put(h)
	return sum
}
