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
	untrustedProxy: {"untrusted-proxy", "requests have a forwarding header that is not believed, from a private address, or many clients through few addresses; if those are proxies, all their clients count as one: name them (TrustProxies, --trusted-proxies)"},
	// This one is of requests, not of a program: it is logged again, at most once a minute.
	unreadableHeader:  {"unreadable-header", "a trusted proxy's header could not be used"},
	oneKey:            {"one-key", "the first 1000 requests all count under one key, though they seem to be of several clients"},
	noKey:             {"no-key", "none of the first 1000 requests had what they are to be counted by, so their addresses stand in its place"},
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
// keeps no key and no address: only hashes of the first key and of 16 peers, and a few bits for each kind of
// evidence that clients differ.
type sample struct {
	over     atomic.Bool // nothing more to see
	n        atomic.Int64
	first    atomic.Uint64 // of the keys
	differ   atomic.Bool   // there is more than one key
	peers    atomic.Uint64
	forwards atomic.Uint64
	paths    atomic.Uint64
	crowd    crowd
}

const (
	sampled = 1000
	several = 8  // bits of 64: at least as many different values
	many    = 32 // likewise
)

var seed = maphash.MakeSeed()

func (g *Gate) isSampling() bool { return g.sample != nil && !g.sample.over.Load() }

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
	_, forwards := g.addresses.forwarded(r.Header)
	note(&s.peers, hostOf(r.RemoteAddr))
	note(&s.forwards, forwards)
	note(&s.paths, r.URL.Path)
	if n == sampled {
		s.conclude(g, key, reason)
	}
	if n == sampled || s.differ.Load() && s.crowd.large.Load() && g.untold() == "" {
		s.over.Store(true)
	}
}

// conclude judges a whole sample; key and reason are those of its last request.
func (s *sample) conclude(g *Gate, key string, reason Reason) {
	if untold := g.untold(); untold != "" {
		g.warn(noKey, "by", untold)
	}
	if s.crowd.isOfProxies() {
		g.warn(untrustedProxy)
	}
	if s.differ.Load() {
		return
	}
	byAddress := reason != "" && differing(&s.forwards) >= several
	byFunction := reason == "" && g.who == optionBy && !isShared(key) && s.isOfClients()
	if byAddress || byFunction {
		g.warn(oneKey)
	}
}

// isOfClients tells whether so many peers have asked, or for so many things, that they will not be one client.
func (s *sample) isOfClients() bool {
	peers := differing(&s.peers)
	return peers >= many || peers >= several && differing(&s.paths) >= several
}

// isShared tells of a key of a function that is meant for more than one client: it is of a kind that the gate counts
// whoever asks by, or that the client has to have sent.
func isShared(key string) bool {
	kind, _, _ := strings.Cut(key, ":")
	switch kind {
	case "everybody", "method", "route", "header", "cookie", "claim":
		return true
	}
	return false
}

// A watch is on an identity that a request may lack.
type watch struct {
	what string
	told atomic.Bool // some request had it
}

// on returns id, watched.
func (w *watch) on(id identity) identity {
	return func(g *Gate, r *http.Request) (string, Reason, error) {
		key, reason, err := id(g, r)
		if key != "" && err == nil && !w.told.Load() {
			w.told.Store(true)
		}
		return key, reason, err
	}
}

// untold names the identities that no request had, empty if there is none.
func (g *Gate) untold() string {
	var names []string
	for _, w := range g.watches {
		if !w.told.Load() {
			names = append(names, w.what)
		}
	}
	return strings.Join(names, ", ")
}

// A crowd is what the first requests that count under their peers have in forwarding headers. Proxies are few, and each
// speaks for many clients; a client that makes headers up is one peer among others.
type crowd struct {
	n     atomic.Int64 // requests
	peers [16]struct {
		hash     atomic.Uint64
		n        atomic.Int64
		forwards atomic.Uint64
	}
	large    atomic.Bool       // there are more peers
	forwards [16]atomic.Uint64 // of all
}

// look takes in one request of a peer.
func (c *crowd) look(peer, forwards string) {
	if c.large.Load() {
		return
	}
	hash := maphash.String(seed, peer) | 1
	for i := range c.peers {
		p := &c.peers[i]
		if !p.hash.CompareAndSwap(0, hash) && p.hash.Load() != hash {
			continue
		}
		c.n.Add(1)
		p.n.Add(1)
		note(&p.forwards, forwards)
		if forwards != "" {
			bit := maphash.String(seed, forwards) >> 32 // others than those that note has
			note(&c.forwards[bit%16], forwards)
		}
		return
	}
	c.large.Store(true)
}

// isOfProxies tells whether nine of ten requests came from few peers, two at least, of which each forwarded for
// several clients, and all for about a hundred.
func (c *crowd) isOfProxies() bool {
	proxies, through, clients := 0, int64(0), 0
	for i := range c.peers {
		if p := &c.peers[i]; differing(&p.forwards) >= several {
			proxies++
			through += p.n.Load()
		}
		clients += differing(&c.forwards[i])
	}
	return !c.large.Load() && proxies >= 2 && through*10 >= c.n.Load()*9 && clients >= 96 // bits of 1024, for 100 values
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

// forwarded returns the first value of the header that the gate was told to read, or else of those in which proxies
// put the client's address, and its name.
func (a *Addresses) forwarded(h http.Header) (name, value string) {
	if values := h[a.header]; len(values) > 0 && values[0] != "" {
		return a.header, values[0]
	}
	for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Fly-Client-Ip", "X-Client-Ip"} {
		if values := h[name]; len(values) > 0 && values[0] != "" {
			return name, values[0]
		}
	}
	return "", ""
}
