package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/memstore"
)

// TestWidthsCanBeFolded: each is a multiple of the one before.
func TestWidthsCanBeFolded(t *testing.T) {
	for width, n := int64(1), 0; n < 40; n++ {
		next := wider(width)
		if next <= width || next%width != 0 {
			t.Fatalf("after %d comes %d", width, next)
		}
		width = next
	}
}

// TestSeriesKeepsEveryRequest, in few buckets that begin where people expect it, however far apart requests are.
func TestSeriesKeepsEveryRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Series
		var want Counts
		at, step := random.Int64N(1<<41)-1<<40, int64(1)<<random.IntN(33)
		first := at
		for range 1 + random.IntN(500) {
			became := admitted
			if random.IntN(3) == 0 {
				became = refused
			}
			want.add(became)
			s.add(at, became)
			last := s.Start + int64(len(s.Buckets))*s.Width
			if s.Start > first || last <= at || last-at > s.Width {
				t.Fatalf("buckets of %d from %d to %d, requests from %d to %d", s.Width, s.Start, last, first, at)
			}
			at += random.Int64N(step)
		}
		if s.Total() != want || len(s.Buckets) > MaxBuckets || s.Start%s.Width != 0 {
			t.Fatalf("%d buckets of %d from %d with %+v, want %+v", len(s.Buckets), s.Width, s.Start, s.Total(), want)
		}
	}
}

// TestFollowedClientsAreCountedAsTheyWereDecided: the second pass finds for every client what the first was told.
func TestFollowedClientsAreCountedAsTheyWereDecided(t *testing.T) {
	const clients = 5
	events, now := randomEvents(clients, 2000), int64(0)
	store := memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(now) }))
	limits := []slidegate.Limit{limit(t, "burst=3/1s"), limit(t, "slow=20/1m")}
	windows := []time.Duration{time.Second}
	limiter, err := slidegate.New(store, limits...)
	if err != nil {
		t.Fatal(err)
	}
	h := New(limits, windows)
	want, alone := make([]Counts, clients), [2]int64{}
	for _, e := range events {
		now = e.Time
		if e.Op == accesslog.Peek {
			h.Add(&e, &slidegate.Decision{Allowed: true}, true)
			continue
		}
		d, err := limiter.TakeN(t.Context(), string(rune('a'+e.Subject)), e.Cost)
		fits := err == nil
		h.Add(&e, &d, fits)
		switch {
		case !fits: // counted nowhere
		case d.Allowed:
			want[e.Subject].Admitted++
		default:
			want[e.Subject].Refused++
			for i := range limits {
				if d.State(i).RetryIn > 0 && d.State(1-i).RetryIn == 0 {
					alone[i]++
				}
			}
		}
	}
	series, err := h.Follow([]uint32{4, 0, 2}, each(events))
	if err != nil {
		t.Fatal(err)
	}
	var all Counts
	for _, c := range want {
		all.Admitted, all.Refused = all.Admitted+c.Admitted, all.Refused+c.Refused
	}
	if h.All.Total() != all || all.Refused == 0 || all.Admitted == 0 {
		t.Errorf("all: %+v, want %+v", h.All.Total(), all)
	}
	for i, c := range []int{4, 0, 2} {
		if got := series[i].Total(); got != want[c] || len(series[i].Buckets) != len(h.All.Buckets) {
			t.Errorf("client %d: %+v, want %+v", c, got, want[c])
		}
	}
	for i, l := range h.Limits {
		if l.Alone != alone[i] || l.Alone == 0 || l.Alone > l.Refused || l.Clients != clients {
			t.Errorf("%s: alone %d of %d, want %d, met %d clients", l.Limit, l.Alone, l.Refused, alone[i], l.Clients)
		}
	}
}

// TestMoreEventsThanWereDecidedAreAnError, since what became of them is not known.
func TestMoreEventsThanWereDecidedAreAnError(t *testing.T) {
	h := New([]slidegate.Limit{limit(t, "1/1s")}, []time.Duration{time.Second})
	h.Add(&timeline.Event{Cost: 1}, &slidegate.Decision{Allowed: true}, true)
	if _, err := h.Follow([]uint32{0}, each(make([]timeline.Event, 2))); err == nil {
		t.Error("no error")
	}
}

// TestPeaksAreTrueWindows of what was asked for, refused or not.
func TestPeaksAreTrueWindows(t *testing.T) {
	h := New(nil, []time.Duration{time.Minute, time.Second})
	for _, at := range []int64{0, 400, 900, 1100, 1399, 5000} {
		h.Take(0, at, 1, at != 900)
	}
	h.Take(2, 9000, 1, true)
	if got := []int64{h.Peak(0, 1), h.Peak(1, 1), h.Peak(2, 1)}; !slices.Equal(got, []int64{4, 0, 1}) {
		t.Errorf("peaks %d, want 4, none and 1", got)
	}
	if peaks := h.Peaks(1); peaks.Clients != 2 || peaks.ClientsRefused(3) != 1 {
		t.Errorf("%d clients, %d beyond 3, want 2 and 1", peaks.Clients, peaks.ClientsRefused(3))
	}
	if c := h.Client(0); c.First != 0 || c.Last != 5000 {
		t.Errorf("there from %d to %d", c.First, c.Last)
	}
}

func each(events []timeline.Event) func(func(uint32, int64) error) error {
	return func(f func(uint32, int64) error) error {
		for i := range events {
			if err := f(events[i].Subject, events[i].Time); err != nil {
				return err
			}
		}
		return nil
	}
}

// randomEvents are takes, a few of them too large for any window, and peeks.
func randomEvents(clients, n int) []timeline.Event {
	random := rand.New(rand.NewPCG(3, 4))
	events, at := make([]timeline.Event, n), int64(0)
	for i := range events {
		at += random.Int64N(120)
		events[i] = timeline.Event{Time: at, Cost: 1, Subject: uint32(random.IntN(clients)), Op: accesslog.Take}
		switch random.IntN(20) {
		case 0:
			events[i].Op = accesslog.Peek
		case 1:
			events[i].Cost = 4
		}
	}
	return events
}

func limit(t *testing.T, text string) slidegate.Limit {
	t.Helper()
	l, err := slidegate.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
