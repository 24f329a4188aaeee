package httpgate

import "time"

// A word is what is known of the units that a policy has left: at least free of them once the
// first seen requests were charged, from a moment on. Nothing but further requests makes it less.
type word struct {
	at   time.Duration // since the transport was made
	free int64
	seen int64
}

// left returns how many units are left after charged requests.
func (w word) left(charged int64) int64 { return w.free - (charged - w.seen) }

// A budget is one policy of a server, as far as its answers tell. It never promises more than
// there is while nobody else spends it: remaining units grow by themselves and shrink only by our own
// requests, each of which is taken to cost one unit from the moment it is sent.
type budget struct {
	name, partition string
	quota           int64         // 0 if not known
	window          time.Duration // 0 if not known

	presumed bool // told by the program: holds also where answers do not speak of it
	complete bool // the quota is that of all there is, not only of what binds
	refused  bool // so said the last answer: of the whole quota it says nothing

	spared int64 // requests that turned out not to be charged here

	said   word   // what the best answer said is left
	full   word   // what has come back since
	words  []word // what will come back, in order
	latest time.Duration
	span   time.Duration // how long a charge counts at most, as far as is known
}

// most is how many units may be counted on after a reset. Where the server is not known to keep
// that promise it is one, and the answer to that one request says how many more (a client must not
// assume that the full quota is back, as all drafts say).
func (b *budget) most() int64 {
	if b.complete && !b.refused && b.quota > 0 {
		return b.quota
	}
	return 1
}

// cuts is into how many parts a span is cut; in each a few words are kept, so that memory is bounded.
const cuts = 128

// later notes what will be left at a moment. What is left out can only make the budget smaller.
func (b *budget) later(w word) {
	b.latest = max(b.latest, w.at)
	for n := len(b.words); n > 0 && b.words[n-1].at >= w.at && b.words[n-1].seen <= w.seen; n-- {
		b.words = b.words[:n-1]
	}
	n := len(b.words)
	switch {
	case n > 0 && (b.words[n-1].at >= w.at || b.words[n-1].seen > w.seen):
	case n > 1 && w.at-b.words[n-2].at < b.span/cuts:
		b.words[n-1] = w
	default:
		b.words = append(b.words, w)
	}
}

// ripen takes over what has come back by now. loose is when the last request was charged at the latest
// whose answer says nothing of that.
func (b *budget) ripen(now, loose time.Duration, charged int64) {
	n := 0
	for ; n < len(b.words) && b.words[n].at <= now; n++ {
		b.ripe(b.words[n], charged)
	}
	if n > 0 {
		b.words = append(b.words[:0], b.words[n:]...)
	}
	if at := b.rested(loose); at <= now {
		b.ripe(word{at, b.most(), charged}, charged)
	}
}

func (b *budget) ripe(w word, charged int64) {
	if w.left(charged) >= b.full.left(charged) {
		b.full = w
	}
}

// rested is when nothing counts any more that was sent: the last answers say so, of several that
// overtook each other the longest, and of what has no answer how long a charge counts.
func (b *budget) rested(loose time.Duration) time.Duration { return max(b.latest, loose+b.span) }

// admits tells whether one more request may be sent, and whether as one whose answer has to be waited for
// before another is.
func (b *budget) admits(charged int64) (ok, probe bool) {
	if b.said.left(charged) >= 1 {
		return true, false
	}
	return b.full.left(charged) >= 1, !b.presumed
}

// when returns the earliest time at which n units are known to be left.
func (b *budget) when(n int64, now, loose time.Duration, charged int64) time.Duration {
	if b.said.left(charged) >= n || b.full.left(charged) >= n {
		return now
	}
	for _, w := range b.words {
		if w.left(charged) >= n {
			return w.at
		}
	}
	return b.rested(loose)
}

// A hearing is an answer that speaks of a budget.
type hearing struct {
	Policy
	sent, now time.Duration
	charged   int64 // requests that may be charged by now
	seen      int64 // those that certainly were when the answer was made
	refused   bool
	wait      time.Duration // of a refusal
}

// hear takes over what an answer says.
func (b *budget) hear(h *hearing) {
	if h.Quota > 0 {
		b.quota = h.Quota
	}
	if h.Window > 0 {
		b.window = h.Window
	}
	b.believe(h)
	b.refused = h.refused
	reset := time.Second
	switch {
	case h.refused:
		reset = h.wait
	case h.Reset >= 0:
		reset = h.Reset
	case b.window > 0:
		reset = b.window
	}
	back := word{seen: h.seen, free: b.most()}
	if reset > longestHold {
		reset, back.free = longestHold, 1
	}
	if !b.presumed { // a charge of a counter counts until the end of the window after its own
		b.span = min(max(b.span, 2*reset, 2*b.window), longestHold)
	}
	back.at = h.now + reset
	b.later(back)
}

// believe compares what an answer says is left with what was promised. Where that is broken, somebody
// else spends the budget or the reset means something else, and nothing that was promised counts. An
// answer that is older than the one which is believed is no evidence: answers overtake each other.
func (b *budget) believe(h *hearing) {
	said := word{h.now, h.Remaining, h.seen}
	broken := h.refused && h.Remaining == 0 ||
		h.seen >= b.said.seen && h.Remaining < b.said.left(h.charged) ||
		h.seen >= b.full.seen && h.sent >= b.full.at && h.Remaining < b.full.left(h.charged)
	switch {
	case broken:
		b.said, b.full, b.words = said, word{}, b.words[:0]
	case said.left(h.charged) >= b.said.left(h.charged):
		b.said = said
	}
}

// silent notes the answer to a request that a presumed policy charged without the answer saying so.
func (b *budget) silent(now time.Duration, seen int64) {
	b.later(word{now + b.span, b.most(), seen})
}

// outdated tells whether a budget that answers no longer speak of has gone: with a quota an hour
// after its last word, since other routes of a server may just be quiet about it.
func (b *budget) outdated(now time.Duration) bool {
	if b.quota > 0 {
		return now >= b.latest+time.Hour
	}
	return now >= b.latest+b.span
}
