package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/slidegate/slidegate"
)

// A naming makes the keys under which Redis holds the limits of a plan:
//
//	{prefix}:{{key}}:{name}:{window}           a log
//	{prefix}:{{key}}:{name}:{window},counter   a counter
//
// such as slidegate:{user:42}:burst:1s. The inner braces are part of the key: Redis Cluster hashes
// what is between them, so all limits of a key are in one slot.
//
// Two of these are equal only if prefix, key, name, algorithm and window are. A prefix has no
// braces, so the first brace ends it; the escaped key has no closing brace, so the first of those
// ends it; a window has neither colon nor comma, so the last colon ends the name.
type naming struct {
	head  string   // prefix and what opens the tag
	tails []string // of each limit, with what closes the tag
	bytes int      // of heads and tails together
}

func newNaming(prefix string, limits []slidegate.Limit) naming {
	n := naming{head: prefix + ":{"}
	for _, l := range limits {
		tail := "}:" + l.Name + ":" + windowText(l)
		if l.Algorithm == slidegate.SlidingCounter {
			tail += ",counter"
		}
		n.tails = append(n.tails, tail)
		n.bytes += len(n.head) + len(tail)
	}
	return n
}

// windowText returns the window as limits are written: 1m, 90s, 250ms.
func windowText(l slidegate.Limit) string {
	_, window, _ := strings.Cut(slidegate.Per(l.Window, 1).String(), "/")
	return window
}

// keys appends to keys the stored key of every limit for an escaped key. They are parts of one string.
func (n *naming) keys(tag string, keys []string) []string {
	var b strings.Builder
	b.Grow(n.bytes + len(n.tails)*len(tag))
	for _, tail := range n.tails {
		b.WriteString(n.head)
		b.WriteString(tag)
		b.WriteString(tail)
	}
	all, end := b.String(), 0
	for _, tail := range n.tails {
		start := end
		end += len(n.head) + len(tag) + len(tail)
		keys = append(keys, all[start:end])
	}
	return keys
}

// longestTag is the length in bytes from which on a hash stands for the key.
const longestTag = 200

var escaper = strings.NewReplacer("%", "%25", "}", "%7D")

// escape returns a key as it stands between the braces, injectively: different keys stay different.
// A closing brace, which would end the tag, becomes %7D, and a percent sign %25. What is then longer than
// longestTag becomes %sha256: and the hash of the key; no escaped key has an s behind a percent sign.
func escape(key string) string {
	if strings.IndexByte(key, '%') >= 0 || strings.IndexByte(key, '}') >= 0 {
		if e := escaper.Replace(key); len(e) <= longestTag {
			return e
		}
	} else if len(key) <= longestTag {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "%sha256:" + hex.EncodeToString(sum[:])
}
