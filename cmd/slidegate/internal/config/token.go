package config

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// A Token is a bearer token of RFC 6750 that callers must show, kept as its SHA-256. The nil Token asks for nothing.
type Token struct{ sum [sha256.Size]byte }

// NewToken returns the token of a text, nil for none.
func NewToken(text string) *Token {
	if text == "" {
		return nil
	}
	return &Token{sha256.Sum256([]byte(text))}
}

// IsShown tells whether a caller shows the token, once, and takes as long for one that is almost right as for any other.
func (t *Token) IsShown(r *http.Request) bool {
	if t == nil {
		return true
	}
	fields := r.Header["Authorization"]
	if len(fields) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	sum := sha256.Sum256([]byte(strings.Trim(token, " ")))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}
