package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An operation is what a request wants of a key.
type operation string

const (
	take  operation = "take"
	peek  operation = "peek"
	reset operation = "reset"
)

// What a request may ask for.
const (
	maxKey   = 512 // bytes: a gate stores a longer key as its hash
	maxCost  = 1_000_000_000_000
	maxBatch = 100
)

// A request is about one key.
type request struct {
	op      operation
	key     string
	cost    int64
	limiter string // empty if it names none
}

// A fault is why a request cannot be understood. It names what is allowed and no value, since that may be a key.
type fault string

func (f fault) Error() string { return string(f) }

const noJSON fault = "the body is no JSON object in UTF-8"

// A reader is what is left to read of JSON that is known to be valid, so that it has to look for nothing else. It is
// stricter than encoding/json: each member is there once, in the very case, with a value of its type, or two parsers
// would see two keys in one request.
type reader struct{ rest []byte }

func newReader(body []byte) (reader, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return reader{}, noJSON
	}
	return reader{body}, nil
}

// next returns the byte with which the next value, name or end begins, 0 behind the last one.
func (r *reader) next() byte {
	r.rest = bytes.TrimLeft(r.rest, " \t\r\n,:")
	if len(r.rest) == 0 {
		return 0
	}
	return r.rest[0]
}

// skip tells whether the next byte is c, and goes behind it then.
func (r *reader) skip(c byte) bool {
	if r.next() != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// object reads an object whose members have the names that are allowed; value reads the value of one.
func (r *reader) object(allowed []string, value func(name string) error) error {
	if !r.skip('{') {
		return noJSON
	}
	seen := 0
	for !r.skip('}') {
		name := r.literal()
		i := slices.IndexFunc(allowed, func(a string) bool { return a == string(name) })
		if i < 0 {
			return fault("a member is unknown: allowed is " + strings.Join(allowed, ", "))
		}
		if seen&(1<<i) != 0 {
			return fault(allowed[i] + ": it is there twice")
		}
		seen |= 1 << i
		if err := value(allowed[i]); err != nil {
			return err
		}
	}
	return nil
}

// literal reads a string, which is part of the body where that has no escapes; what is none is an empty one.
func (r *reader) literal() []byte {
	if r.next() != '"' {
		return nil
	}
	end := 1
	for ; r.rest[end] != '"'; end++ {
		if r.rest[end] == '\\' {
			end++
		}
	}
	literal := r.rest[:end+1]
	r.rest = r.rest[end+1:]
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1:end]
	}
	var s string
	_ = json.Unmarshal(literal, &s) // it is valid
	return []byte(s)
}

// text reads a string. A surrogate without the other half becomes U+FFFD, so two different ones would be one key.
func (r *reader) text(name string, limit int) (string, error) {
	s := string(r.literal())
	if s == "" || len(s) > limit || strings.ContainsRune(s, utf8.RuneError) {
		return "", fault(fmt.Sprintf("%s: allowed is a string of 1 to %d bytes without U+FFFD", name, limit))
	}
	return s, nil
}

func (r *reader) number(name string, limit int64) (int64, error) {
	r.next()
	end := bytes.IndexAny(r.rest, " \t\r\n,}")
	n, err := strconv.ParseInt(string(r.rest[:max(0, end)]), 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, fault(fmt.Sprintf("%s: allowed is a whole number from 0 to %d", name, limit))
	}
	r.rest = r.rest[end:]
	return n, nil
}

// parseRequest reads the body of a request.
func parseRequest(body []byte, op operation) (q request, err error) {
	if key := plainKey(body); key != nil {
		return request{op: cmp.Or(op, take), key: string(key), cost: 1}, nil
	}
	r, err := newReader(body)
	if err != nil {
		return q, err
	}
	return r.request(op)
}

// plainKey returns the key of a body that is what most are, {"key":"user:42"} with nothing but printable ASCII and no escapes in
// it; nil for any other. Reading such a body as JSON takes as long as deciding it.
func plainKey(body []byte) []byte {
	key, opens := bytes.CutPrefix(body, []byte(`{"key":"`))
	key, closes := bytes.CutSuffix(key, []byte(`"}`))
	if !opens || !closes || len(key) == 0 || len(key) > maxKey {
		return nil
	}
	for _, c := range key {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return nil
		}
	}
	return key
}

// members are those of a request.
var members = map[operation][]string{
	take: {"key", "cost", "limiter"}, peek: {"key", "cost", "limiter"}, reset: {"key", "limiter"}, "": {"op", "key", "cost", "limiter"},
}

// request reads one request. Without an operation it says itself which.
func (r *reader) request(op operation) (request, error) {
	q := request{op: op, cost: 1}
	var isCostGiven bool
	err := r.object(members[op], func(name string) (err error) {
		switch name {
		case "op":
			var text string
			text, err = r.text(name, len(reset))
			q.op = operation(text)
			if err != nil || members[q.op] == nil {
				err = fault("op: allowed is take, peek or reset")
			}
		case "key":
			q.key, err = r.text(name, maxKey)
		case "cost":
			q.cost, err = r.number(name, maxCost)
			isCostGiven = true
		case "limiter":
			q.limiter, err = r.text(name, maxKey)
		}
		return err
	})
	switch {
	case err != nil:
	case q.key == "":
		err = fault("key: it is missing")
	case q.op == "":
		q.op = take
	case q.op == reset && isCostGiven:
		err = fault("cost: a reset has none")
	}
	return q, err
}

// parseBatch reads the body of a batch. With one request that cannot be understood none is.
func parseBatch(body []byte) (all []request, err error) {
	r, err := newReader(body)
	if err != nil {
		return nil, err
	}
	err = r.object([]string{"requests"}, func(string) error {
		if !r.skip('[') {
			return fault("requests: allowed is an array of 1 to 100 requests")
		}
		for !r.skip(']') {
			q, err := r.request("")
			switch {
			case len(all) == maxBatch:
				return fault("requests: allowed are up to 100")
			case err != nil:
				return fault(fmt.Sprintf("requests[%d]: %s", len(all), err))
			}
			all = append(all, q)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fault("requests: allowed is an array of 1 to 100 requests")
	}
	return all, err
}
