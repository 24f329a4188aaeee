// Package sweep tells, in one pass over a log, what very many limits would have made of it: for each of several windows,
// whom and how much every quota would have refused, what clients really do, and which quota serves an aim.
//
// Two things make one pass enough. Until a client is refused for the first time a limit counts all that it asked for, and so
// do all limits over the same window. So its peak, the most that a window ever held for it, is the least quota that never
// refuses it: the share of clients that a quota refuses is known for every quota, not only for those that are tried. How many
// requests are refused depends on what was refused before, so it is counted for each quota of a grid, but only from the
// moment on at which a client has met the smallest of them. Most clients never do, and cost one small ring for a window.
package sweep

import (
	"math/bits"
	"slices"

	"github.com/slidegate/slidegate/internal/window"
)

// MaxQuotas is how many quotas a pass can try: a set of them is one word.
const MaxQuotas = 64

// A Pass takes the events of a log in the order of time.
type Pass struct {
	windows []int64 // milliseconds
	quotas  []int64 // ascending
	counter bool
	share   float64 // of a day's clients, for which the quota of the day is

	clients  []client
	tallies  []tally // by window
	hunted   func(key uint32) bool
	requests int64
	hunt     int64 // of these, of the hunted
	day      int64 // of the last event, in days since the epoch
	began    bool
	days     [][]Day  // by window
	today    []uint32 // clients that came today
	tidyAt   int64    // requests
}

// A client is what is known of one key.
type client struct {
	isHunted bool
	of       []span // by window, nil if it never came
}

// A span is a client's part of one window.
type span struct {
	peak    int64          // the least quota that would never have refused it
	today   int64          // the same of the requests of one day
	held    int64          // units that it asked for, in the window of logs
	charges ring           // of logs
	counter window.Counter // of counters, as if no quota had refused anything
	split   *split         // nil while every quota stands alike
}

// A split is what each quota holds of a client, once they differ.
type split struct {
	held     []int64          // of logs, of the smallest quotas: all others hold what was asked for
	counters []window.Counter // of counters
}

// A tally is how many requests the quotas refused over one window, by quota: of the hunted, and of all others.
type tally struct{ others, hunted []int64 }

// New returns a pass over windows in milliseconds and at most [MaxQuotas] ascending quotas, of exact logs or of counters. The
// clients of whom hunted says so, asked at their first request, are those to catch, and are told apart from the others. Of each day it keeps the quota that would have refused at most a share of that day's clients, 0 to 1.
func New(windows, quotas []int64, counter bool, share float64, hunted func(key uint32) bool) *Pass {
	p := &Pass{
		windows: windows, quotas: quotas, counter: counter, share: share, hunted: hunted,
		tallies: make([]tally, len(windows)), days: make([][]Day, len(windows)), tidyAt: tidyEvery,
	}
	for i := range p.tallies {
		p.tallies[i] = tally{make([]int64, len(quotas)), make([]int64, len(quotas))}
	}
	return p
}

// all is the set of all quotas.
func (p *Pass) all() uint64 { return ^uint64(0) >> (MaxQuotas - len(p.quotas)) }

// Add counts a request of a client, by its number, at a time in milliseconds since the Unix epoch that is not before that of
// the one before, and a cost of at least one unit.
func (p *Pass) Add(key uint32, at, cost int64) {
	p.turn(window.Floor(at, msPerDay) / msPerDay)
	c := p.client(key)
	p.requests++
	if c.of[0].today == 0 {
		p.today = append(p.today, key)
	}
	if c.isHunted {
		p.hunt++
	}
	for w := range c.of {
		refused := p.tallies[w].others
		if c.isHunted {
			refused = p.tallies[w].hunted
		}
		if p.counter {
			p.count(&c.of[w], w, at, cost, refused)
		} else {
			p.record(&c.of[w], w, at, cost, refused)
		}
	}
	if p.requests >= p.tidyAt {
		p.tidy(at)
	}
}

// Reset forgets what counts of a client, as a reset does in service. What it asked for before stays in its peaks.
func (p *Pass) Reset(key uint32) {
	if int(key) >= len(p.clients) {
		return
	}
	for i := range p.clients[key].of {
		s := &p.clients[key].of[i]
		*s = span{peak: s.peak, today: s.today}
	}
}

func (p *Pass) client(key uint32) *client {
	for int(key) >= len(p.clients) {
		p.clients = append(p.clients, client{})
	}
	c := &p.clients[key]
	if c.of == nil {
		c.of, c.isHunted = make([]span, len(p.windows)), p.hunted(key)
	}
	return c
}

const msPerDay = 24 * 60 * 60 * 1000

// turn ends a day when another begins.
func (p *Pass) turn(day int64) {
	if p.began && day == p.day {
		return
	}
	p.endDay()
	p.day, p.began = day, true
}

func (p *Pass) endDay() {
	if len(p.today) == 0 {
		return
	}
	peaks := make([]int64, 0, len(p.today))
	for w := range p.windows {
		peaks = peaks[:0]
		for _, key := range p.today {
			c := &p.clients[key]
			if !c.isHunted {
				peaks = append(peaks, c.of[w].today)
			}
			c.of[w].today = 0
		}
		if slices.Sort(peaks); len(peaks) > 0 {
			p.days[w] = append(p.days[w], Day{p.day, leastQuota(peaks, p.share)})
		}
	}
	p.today = p.today[:0]
}

// tidyEvery is how many requests pass at least before what has left its window is let go of, for clients that do not come back.
const tidyEvery = 1 << 16

func (p *Pass) tidy(now int64) {
	for i := range p.clients {
		for w := range p.clients[i].of {
			s := &p.clients[i].of[w]
			s.leave(now, p.windows[w])
			if s.charges.len() == 0 && now >= s.counter.Start+2*p.windows[w] { // Start is 0 of a log
				s.charges, s.split = ring{}, nil
			}
		}
	}
	p.tidyAt = p.requests + max(tidyEvery, int64(len(p.clients)))
}

// record decides a request by a log of every quota.
func (p *Pass) record(s *span, w int, now, cost int64, refused []int64) {
	if s.leave(now, p.windows[w]); s.charges.len() == 0 {
		s.split = nil
	}
	s.held += cost
	s.rise(s.held)
	by := p.all()
	for i, quota := range p.split(s, cost) {
		if s.split.held[i]+cost > quota {
			by &^= 1 << i
			refused[i]++
			continue
		}
		s.split.held[i] += cost
	}
	s.charges.add(now, cost, by)
}

// split returns the quotas that have refused something that is in the window, or are about to. All others hold what was asked
// for.
func (p *Pass) split(s *span, cost int64) []int64 {
	if s.held <= p.quotas[0] && s.split == nil {
		return nil
	}
	if s.split == nil {
		s.split = &split{}
	}
	for n := len(s.split.held); n < len(p.quotas) && s.held > p.quotas[n]; n++ {
		s.split.held = append(s.split.held, s.held-cost)
	}
	return p.quotas[:len(s.split.held)]
}

// count decides a request by a counter of every quota.
func (p *Pass) count(s *span, w int, now, cost int64, refused []int64) {
	length := p.windows[w]
	if s.counter == (window.Counter{}) {
		s.counter.Start = window.Floor(now, length)
	}
	before := s.counter.Roll(now, length)
	used := before.Used(now, length) + cost
	s.rise(used)
	if s.split != nil && before.Cur+before.Prev == 0 {
		s.split = nil // what any quota held is gone
	}
	if s.split == nil && used > p.quotas[0] {
		s.split = &split{counters: slices.Repeat([]window.Counter{before}, len(p.quotas))}
	}
	s.counter = before
	s.counter.Cur += cost
	if s.split == nil {
		return
	}
	for q, quota := range p.quotas {
		c := s.split.counters[q].Roll(now, length)
		if cost > quota || !c.Fits(now, length, quota-cost) {
			refused[q]++
		} else {
			c.Cur += cost
		}
		s.split.counters[q] = c
	}
}

// rise takes up that so much was asked for.
func (s *span) rise(asked int64) {
	s.peak = max(s.peak, asked)
	s.today = max(s.today, asked)
}

// leave lets go of what has left the window at now.
func (s *span) leave(now, length int64) {
	for s.charges.len() > 0 {
		c := s.charges.first()
		if window.Counts(c.at, now, length) {
			return
		}
		s.held -= c.units
		if s.split != nil {
			for by := c.by & (1<<len(s.split.held) - 1); by != 0; by &= by - 1 {
				s.split.held[bits.TrailingZeros64(by)] -= c.units
			}
		}
		s.charges.drop()
	}
}

// A charge is what was asked for at one time, and the quotas that admitted it.
type charge struct {
	at, units int64
	by        uint64
}

// A ring holds the charges of a window, oldest first.
type ring struct {
	charges []charge
	head    int
}

func (r *ring) len() int       { return len(r.charges) - r.head }
func (r *ring) first() *charge { return &r.charges[r.head] }

func (r *ring) add(at, units int64, by uint64) {
	if n := len(r.charges); n > r.head {
		if last := &r.charges[n-1]; last.at == at && last.by == by {
			last.units += units
			return
		}
	}
	if r.head > 0 && len(r.charges) == cap(r.charges) && r.head >= len(r.charges)/2 {
		r.charges = r.charges[:copy(r.charges, r.charges[r.head:])]
		r.head = 0
	}
	r.charges = append(r.charges, charge{at, units, by})
}

func (r *ring) drop() {
	if r.head++; r.head == len(r.charges) {
		r.charges, r.head = r.charges[:0], 0
	}
}
