package httpgate

import (
	"encoding/base64"
	"fmt"
	"strconv"
)

// The writers here are those of Structured Fields, RFC 9651 section 4.1, for the types that the
// RateLimit fields use. They append to b.

// maxInteger is the largest Integer of RFC 9651 section 3.3.1.
const maxInteger = 999_999_999_999_999

func appendInteger(b []byte, n int64) ([]byte, error) {
	if n < -maxInteger || n > maxInteger {
		return b, fmt.Errorf("httpgate: integer %d: allowed is -%d to %d", n, maxInteger, maxInteger)
	}
	return strconv.AppendInt(b, n, 10), nil
}

// clamp holds a quota or a count of units to what an Integer that must not be negative can say.
func clamp(n int64) int64 { return min(max(n, 0), maxInteger) }

func appendString(b []byte, s string) ([]byte, error) {
	start := len(b)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return b[:start], fmt.Errorf("httpgate: string %q: allowed is printable ASCII", s)
		}
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"'), nil
}

func appendKey(b []byte, key string) ([]byte, error) {
	for i := 0; i < len(key); i++ {
		c := key[i]
		lower := c >= 'a' && c <= 'z'
		if i == 0 && !lower && c != '*' || !lower && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' && c != '*' {
			return b, fmt.Errorf("httpgate: parameter %q: allowed is a to z or * and then a to z, 0 to 9, _ - . *", key)
		}
	}
	if key == "" {
		return b, fmt.Errorf("httpgate: a parameter needs a name")
	}
	return append(b, key...), nil
}

func appendBytes(b, value []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, value)
	return append(b, ':')
}

// EncodeName turns any text, such as a tenant's name, into one that may name a limit: every byte
// that is not printable ASCII, every '=' and every '%' becomes %XX. Different texts give different
// names. The name may still be too long, or begin or end with a space.
func EncodeName(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '%' || c == '=' {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
