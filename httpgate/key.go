package httpgate

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Join makes one key of several parts. Different parts give different keys, whatever characters
// they are made of: each part is written with its length.
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
