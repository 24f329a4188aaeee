// Package history keeps what became of the requests of a log over time, for pictures.
//
// The worst clients are known at the end alone, so it takes two passes over a timeline. The first, [History.Add], is told
// every outcome: it counts in buckets that become wider as time goes on, and remembers two bits of each event. The second,
// [History.Follow], reads the events once more, without deciding them again, and counts those of some clients.
//
// What it holds is bounded by the number of clients, by what a window holds of each, and by a quarter of a byte an event.
package history

import (
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/sweep"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A History is what became of the requests of a log. It is not safe for concurrent use.
type History struct {
	All    Series
	Limits []Limit // in the order of the policy

	peaks    *sweep.Pass
	curves   []sweep.Curve // of peaks, once it has ended
	clients  []Client
	outcomes outcomes
}

// A Limit is what a limit of the policy did.
type Limit struct {
	slidegate.Limit
	Refused int64 // requests whose refusal it took part in
	Alone   int64 // of these, those that every other limit had room for
	Clients int64 // who met it at least once
}

// A Client is when one was there. Times are milliseconds since 1970.
type Client struct {
	First, Last int64
	met         uint64 // limits, by bit
	seen        bool
}

// New returns an empty history of limits, which measures peaks in one window at least.
func New(limits []slidegate.Limit, windows []time.Duration) *History {
	h := &History{Limits: make([]Limit, len(limits))}
	for i, l := range limits {
		h.Limits[i].Limit = l
	}
	ms := make([]int64, len(windows))
	for i, w := range windows {
		ms[i] = w.Milliseconds()
	}
	// No quota is tried: what is of interest is the peak of each client.
	h.peaks = sweep.New(ms, []int64{math.MaxInt64}, false, 0, func(uint32) bool { return false })
	return h
}

// Add takes in what limits made of an event, in the order of time. A cost that can never fit is not counted, and neither is
// what charges nothing.
func (h *History) Add(e *timeline.Event, d *slidegate.Decision, fits bool) {
	if e.Op != accesslog.Take || !fits {
		h.outcomes.add(nothing)
		return
	}
	h.Take(e.Subject, e.Time, e.Cost, d.Allowed)
	if !d.Allowed {
		h.refuse(e, d)
	}
}

// Take takes in what became of a client's request, in the order of time.
func (h *History) Take(client uint32, at, cost int64, isAdmitted bool) {
	became := refused
	if isAdmitted {
		became = admitted
	}
	h.outcomes.add(became)
	h.All.add(at, became)
	h.client(client).see(at)
	if cost > 0 {
		h.peaks.Add(client, at, cost)
	}
}

func (h *History) refuse(e *timeline.Event, d *slidegate.Decision) {
	c := h.client(e.Subject)
	last, by := 0, 0
	for i := range d.Len() {
		if d.State(i).RetryIn <= 0 {
			continue
		}
		last, by = i, by+1
		h.Limits[i].Refused++
		if c.met&(1<<i) == 0 {
			c.met |= 1 << i
			h.Limits[i].Clients++
		}
	}
	if by == 1 {
		h.Limits[last].Alone++
	}
}

func (h *History) client(number uint32) *Client {
	if missing := int(number) + 1 - len(h.clients); missing > 0 {
		h.clients = append(h.clients, make([]Client, missing)...)
	}
	return &h.clients[number]
}

func (c *Client) see(at int64) {
	if !c.seen {
		c.First, c.seen = at, true
	}
	c.Last = at
}

// Client returns when a client was there, by its number: at no time, if it asked for nothing.
func (h *History) Client(number uint32) Client {
	if int(number) >= len(h.clients) {
		return Client{}
	}
	return h.clients[number]
}

// Peak returns the most that a client asked for in any window, by the client's number and the window's index.
func (h *History) Peak(client uint32, window int) int64 { return h.peaks.Peak(client, window) }

// Peaks returns what all clients asked for in any window, by its index. It ends the first pass.
func (h *History) Peaks(window int) sweep.Group {
	if h.curves == nil {
		h.curves = h.peaks.Curves()
	}
	return h.curves[window].Others
}

// Follow is told once more of the events that were taken in, whose and when, by each, and returns the series of some clients,
// by number, with the buckets of [History.All].
func (h *History) Follow(clients []uint32, each func(func(client uint32, at int64) error) error) ([]Series, error) {
	series := make([]Series, len(clients))
	place := map[uint32]*Series{}
	for i, c := range clients {
		series[i] = Series{h.All.Start, h.All.Width, make([]Counts, len(h.All.Buckets))}
		place[c] = &series[i]
	}
	n := 0
	err := each(func(client uint32, at int64) error {
		if n == h.outcomes.n {
			return fmt.Errorf("there are more events than the %d that were decided", n)
		}
		became := h.outcomes.at(n)
		n++
		if s := place[client]; s != nil && became != nothing {
			s.Buckets[(at-s.Start)/s.Width].add(became)
		}
		return nil
	})
	return series, err
}

// An outcome is what became of an event.
type outcome byte

const (
	nothing outcome = iota // it was no take, or could never fit
	admitted
	refused
)

// outcomes are two bits for each event.
type outcomes struct {
	packed []byte
	n      int
}

func (o *outcomes) add(became outcome) {
	if o.n%4 == 0 {
		o.packed = append(o.packed, 0)
	}
	o.packed[o.n/4] |= byte(became) << (o.n % 4 * 2)
	o.n++
}

func (o *outcomes) at(i int) outcome { return outcome(o.packed[i/4] >> (i % 4 * 2) & 3) }
