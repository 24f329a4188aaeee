package httpgate

import (
	"hash/maphash"
	"math/bits"
	"net/http"
	"strings"
	"sync/atomic"
)

// A warning is a way to misuse a gate that the gate itself can notice. Each has a page, and a gate
// logs each once.
type warning uint8

const (
	untrustedProxy warning = iota
	unreadableHeader
	oneKey
	noKey
	limiterTwice
	failOpen
	limiterPerRequest
	negativeCost
	warningCount
)

var warnings = [warningCount]struct{ name, says string }{
	untrustedProxy: {"untrusted-proxy", "a request from a private address has a forwarding header that is not believed; if that is a proxy, all its clients count as one: name it (TrustProxies, --trusted-proxies)"},
	// This one is of requests, not of a program: it is logged again, at most once a minute.
	unreadableHeader:  {"unreadable-header", "a trusted proxy's header could not be used"},
	oneKey:            {"one-key", "the first 1000 requests all count under one key, though they seem to be of several clients"},
	noKey:             {"no-key", "none of the first 1000 requests had what they are to be counted by, so all count under their addresses"},
	limiterTwice:      {"limiter-twice", "one limiter was asked twice about one request and charged twice: two gates with it stand in a row"},
	failOpen:          {"fail-open", "a request passed uncounted since the store could not be asked; that is the default: say FailOpen if it is meant, or FailClosed"},
	limiterPerRequest: {"limiter-per-request", "Choose has returned more than 4096 different limiters: make each plan once"},
	negativeCost:      {"negative-cost", "Cost returned less than 0, so the request was refused, whatever is left; the ContentLength of a request that does not say how long it is is -1"},
}

// page is the address of a warning's page relative to the repository.
func (w warning) page() string { return "docs/warnings/" + warnings[w].name + ".md" }

// warn logs a warning, once for the life of the gate.
func (g *Gate) warn(w warning, args ...any) {
	if once := &g.quiet.warned[w]; !once.Load() && !once.Swap(true) {
		g.say(w, args...)
	}
}

func (g *Gate) say(w warning, args ...any) {
	g.logger.Warn("httpgate: "+warnings[w].says, append([]any{"warning", warnings[w].name, "page", w.page()}, args...)...)
}

// A sample is the first requests of a gate, in which it looks for keys that tell nobody apart. It
// keeps no key and no address: only a hash of the first key, and 64 bits for each kind of evidence
// that clients differ.
type sample struct {
	over     atomic.Bool // nothing more to see
	n        atomic.Int64
	told     atomic.Bool   // somebody had what is counted by
	first    atomic.Uint64 // of the keys
	differ   atomic.Bool   // there is more than one key
	peers    atomic.Uint64
	forwards atomic.Uint64
	paths    atomic.Uint64
}

const (
	sampled = 1000
	several = 8 // bits of 64: at least as many different values
)

var seed = maphash.MakeSeed()

// look takes one request into the sample; reason is empty if the key is not the address.
func (s *sample) look(g *Gate, r *http.Request, key string, reason Reason) {
	n := s.n.Add(1)
	if n > sampled {
		return
	}
	hash := maphash.String(seed, key) | 1
	if !s.first.CompareAndSwap(0, hash) && s.first.Load() != hash {
		s.differ.Store(true)
	}
	if reason == "" {
		s.told.Store(true)
	}
	note(&s.peers, hostOf(r.RemoteAddr))
	note(&s.forwards, forwarded(r.Header))
	note(&s.paths, r.URL.Path)
	if n == sampled {
		s.conclude(g, reason)
	}
	if n == sampled || s.differ.Load() && (g.what == "" || s.told.Load()) {
		s.over.Store(true)
	}
}

// conclude judges a whole sample; reason is that of its last request.
func (s *sample) conclude(g *Gate, reason Reason) {
	if g.what != "" && !s.told.Load() {
		g.warn(noKey, "by", g.what)
	}
	if s.differ.Load() {
		return
	}
	byAddress := reason != "" && differing(&s.forwards) >= several
	byFunction := reason == "" && g.what == whatBy && differing(&s.peers) >= several && differing(&s.paths) >= several
	if byAddress || byFunction {
		g.warn(oneKey)
	}
}

func note(bits *atomic.Uint64, value string) {
	if value != "" {
		bits.Or(1 << (maphash.String(seed, value) % 64))
	}
}

func differing(b *atomic.Uint64) int { return bits.OnesCount64(b.Load()) }

// hostOf returns a RemoteAddr without its port.
func hostOf(remote string) string {
	if i := strings.LastIndexByte(remote, ':'); i >= 0 {
		return remote[:i]
	}
	return remote
}

// forwarded returns the first value of the headers in which proxies put the client's address.
func forwarded(h http.Header) string {
	for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		if values := h[name]; len(values) > 0 {
			return values[0]
		}
	}
	return ""
}
