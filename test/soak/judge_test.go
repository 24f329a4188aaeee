package soak

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/test/redistest"
)

// at is an admission of a unit at a time of the store.
func at(ms int64) entry { return entry{span: span{ms, ms}, units: 1, kind: exact} }

// within is an admission of a unit some time in a span.
func within(from, to int64) entry { return entry{span: span{from, to}, units: 1} }

func (e entry) costing(units int64) entry { e.units = units; return e }
func (e entry) of(key uint32) entry       { e.key = key; return e }
func (e entry) shared() entry             { e.kind |= byShare; return e }

// TestEveryWindowIsJudged, wherever it begins, and nothing is held against a limiter that it may not have done.
func TestEveryWindowIsJudged(t *testing.T) {
	two, counter := slidegate.Per(time.Second, 2), slidegate.Per(time.Second, 2).Counter()
	for _, c := range []struct {
		name    string
		limit   slidegate.Limit
		ledger  func(*ledger) // what was noted
		entries []entry
		want    int // windows that hold too much
	}{
		{"nothing", two, nil, nil, 0},
		{"as much as there may be", two, nil, []entry{at(5000), at(5999), at(6000), at(6999)}, 0},
		{"one too many at once", two, nil, []entry{at(5000), at(5000), at(5000)}, 1},
		{"one too many in the last millisecond", two, nil, []entry{at(5000), at(5001), at(5999)}, 1},
		{"across what a fixed window would split", two, nil, []entry{at(5900), at(5950), at(6000)}, 1},
		{"each window that holds too much", two, nil, []entry{at(5000), at(5100), at(5200), at(9000), at(9100), at(9200)}, 2},
		{"in no order", two, nil, []entry{at(5999), at(5000), at(5001)}, 1},
		{"by its cost", two, nil, []entry{at(5000).costing(3)}, 1},
		{"several keys", two, nil, []entry{at(5000).of(1), at(5000).of(1), at(5000).of(2), at(5000).of(2)}, 0},

		{"surely in one window", two, nil, []entry{within(5000, 5010), within(5100, 5110), within(5900, 5910)}, 1},
		{"perhaps in one window", two, nil, []entry{within(5000, 5010), within(5100, 5110), within(5900, 6005)}, 0},
		{"perhaps before the window", two, nil, []entry{within(4000, 5010), within(5020, 5110), within(5900, 6005)}, 0},
		{"a clock that is not the store's", two, nil, []entry{within(5000, 5000), within(5001, 5001), within(5998, 5998)}, 0},
		{"both clocks", two, nil, []entry{at(5000), within(5001, 5002), at(5900)}, 1},

		{"a quota that was raised", two, changed(6000, 3), []entry{at(6200), at(6300), at(6400)}, 0},
		{"a quota that was raised later", two, changed(6000, 3), []entry{at(5200), at(5300), at(5400)}, 1},
		{"across a raise", two, changed(6000, 3), []entry{at(5900), at(5950), at(6100)}, 0},
		{"beyond a raise", two, changed(6000, 3), []entry{at(5900), at(5950), at(6100), at(6150)}, 1},
		{"a quota that was lowered", two, changed(6000, 1), []entry{at(6200), at(6300)}, 1},
		{"before it was lowered", two, changed(6000, 1), []entry{at(5200), at(5300)}, 0},
		{"across a lowering", two, changed(6000, 1), []entry{at(5900), at(5950), at(6200)}, 2},
		{"while it was lowered", two, changed(6000, 1), []entry{within(5900, 5910), within(5950, 6005)}, 0},

		{"before and after a reset", two, nil, []entry{at(5000), at(5001), {span: span{5200, 5210}, kind: reset}, at(5500), at(5501)}, 0},
		{"too many after a reset", two, nil, []entry{{span: span{5200, 5210}, kind: reset}, at(5500), at(5501), at(5502)}, 1},
		{"a reset that nobody answered", two, nil, []entry{at(5000), at(5001), {span: resetWithin(span{5200, 5210}, false), kind: reset}, at(5500)}, 0},
		{"the reset of another key", two, nil, []entry{at(5000), at(5001), {span: span{5200, 5210}, kind: reset, key: 1}, at(5500)}, 1},
		{"before and after a loss", two, func(l *ledger) { l.forgot(span{5200, 5210}) }, []entry{at(5000), at(5001), at(5500), at(5501)}, 0},
		{"too many before a loss", two, func(l *ledger) { l.forgot(span{5800, 5900}) }, []entry{at(5500), at(5501), at(5502), at(6100)}, 1},

		{"a share beside the quota", two, sharing(1), []entry{at(5000), at(5001), at(5002).shared()}, 0},
		{"more than a share", two, sharing(1), []entry{at(5000), at(5001), at(5002).shared(), at(5003).shared()}, 1},
		{"a share that is not in use", two, sharing(1), []entry{at(5000), at(5001), at(5002)}, 1},
		{"nobody has a share", two, nil, []entry{at(5000), at(5001), at(5002).shared()}, 1},
		{"a share that was forgotten", two, func(l *ledger) { l.sharers = 1; l.resharded(span{5002, 5002}) },
			[]entry{at(5000), at(5001), at(5001).shared(), at(5003).shared()}, 0},

		{"an aligned window of a counter", counter, nil, []entry{at(5000), at(5001), at(5999)}, 1},
		{"a counter across two of them", counter, nil, []entry{at(5900), at(5950), at(6100)}, 0},
		{"a counter beyond twice its quota", counter, nil, []entry{at(5500), at(5501), at(6100), at(6200), at(6300)}, 2},
	} {
		l := newLedger(0, "test", 0, c.limit)
		if c.ledger != nil {
			c.ledger(l)
		}
		if got := l.judge(c.entries)[0]; got.violations != c.want {
			t.Errorf("%s: %d windows hold too much, want %d: %s", c.name, got.violations, c.want, got.first)
		}
	}
}

// changed notes a quota that holds for all who begin after a time.
func changed(at, quota int64) func(*ledger) {
	return func(l *ledger) {
		b := l.budgets[0]
		b.tenures[0].to = at + 10
		b.tenures = append(b.tenures, tenure{span{at, forever}, quota})
	}
}

func sharing(sharers int64) func(*ledger) { return func(l *ledger) { l.sharers = sharers } }

// TestALimiterThatPromisesLessIsFoundOut: a counter, asked as often as it can be, is no log.
func TestALimiterThatPromisesLessIsFoundOut(t *testing.T) {
	clock := time.UnixMilli(1_796_032_800_000)
	store := memstore.New(memstore.WithClock(func() time.Time { return clock }))
	defer store.Close()
	log := slidegate.Per(time.Second, 10)
	for _, c := range []struct {
		limit slidegate.Limit
		holds bool
	}{{log, true}, {log.Counter(), false}} {
		l := newLedger(0, "test", 0, log)
		limiter := slidegate.MustNew(store, c.limit)
		var entries []entry
		for range 5000 {
			clock = clock.Add(time.Duration(rand.IntN(20)) * time.Millisecond)
			d, err := limiter.Take(context.Background(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				entries = append(entries, at(d.At().UnixMilli()))
			}
		}
		if got := l.judge(entries)[0]; (got.violations == 0) != c.holds {
			t.Errorf("%s: %d windows hold too much: %s", c.limit, got.violations, got.first)
		}
	}
}

// TestTheHistoryIsWhatWasWritten.
func TestTheHistoryIsWhatWasWritten(t *testing.T) {
	h := newHistory(t)
	want := map[uint8][]entry{}
	for i := range int64(10_000) {
		from := 1_796_032_800_000 + i
		e := entry{span{from, from + i%5000}, i % 1000, uint32(i), uint8(i % 7), exact | byShare}
		want[e.ledger] = append(want[e.ledger], e)
		h.add(e)
	}
	got, err := h.entries()
	if err != nil || len(got) != len(want) {
		t.Fatal(err, len(got))
	}
	for l := range want {
		if !slices.Equal(got[l], want[l]) {
			t.Errorf("ledger %d differs", l)
		}
	}
}

// TestGrowthIsToldFromNoise: what leaks a tenth of itself in an hour and more is found, and nothing else is.
func TestGrowthIsToldFromNoise(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		long  time.Duration
		value func(minutes float64) float64 // in MiB
		grows bool
	}{
		{"flat", time.Hour, func(float64) float64 { return 40 }, false},
		{"noise", time.Hour, func(float64) float64 { return 40 + 4*rand.Float64() }, false},
		{"a collector's sawtooth", time.Hour, func(m float64) float64 { return 40 + 20*math.Mod(m, 1.7) }, false},
		{"until it has settled", time.Hour, func(m float64) float64 { return 20 + min(m, 20) }, false},
		{"it shrinks", time.Hour, func(m float64) float64 { return 100 - m }, false},
		{"it restarts", time.Hour, func(m float64) float64 { return 20 + min(20, 40*math.Mod(m, 3)) }, false},
		{"a leak", time.Hour, func(m float64) float64 { return 40 + m/4 }, true},
		{"a leak among noise", time.Hour, func(m float64) float64 { return 40 + m/3 + 4*rand.Float64() }, true},
		{"a leak in a sawtooth", time.Hour, func(m float64) float64 { return 40 + m/2 + 5*math.Mod(m, 1.7) }, true},
		{"steps", time.Hour, func(m float64) float64 { return 40 + 8*math.Floor(m/8) }, true},
		{"a fast leak in a short run", 4 * time.Minute, func(m float64) float64 { return 40 + 4*m }, true},
	} {
		s := &series{name: c.name, room: 2 * mib}
		for p := range 1000 {
			now := c.long * time.Duration(p) / 1000
			s.add(now, mib*c.value(now.Minutes()))
		}
		if got := s.growth(); (got != "") != c.grows {
			t.Errorf("%s: growth %q, trend %+v", c.name, got, trendOf(s.all()))
		}
	}
}

// TestWhatIsHeldOnToIsFound: a descriptor of each request, or a goroutine, is seen at the end.
func TestWhatIsHeldOnToIsFound(t *testing.T) {
	before := ownHoldings()
	if over := kept(before, ownHoldings()); len(over) > 0 {
		t.Fatalf("held on to at the start: %s", over)
	}
	name := filepath.Join(t.TempDir(), "leak")
	var leaked []io.Closer
	for range 10 {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		leaked = append(leaked, f)
	}
	if over := kept(before, ownHoldings()); len(over) != 1 || !strings.Contains(over[0], "descriptors") {
		t.Errorf("ten open files: %q", over)
	}
	for _, f := range leaked {
		_ = f.Close()
	}
	end := make(chan struct{})
	for range 10 {
		go func() { <-end }()
	}
	if over := kept(before, ownHoldings()); len(over) != 1 || !strings.Contains(over[0], "goroutines") {
		t.Errorf("ten goroutines: %q", over)
	}
	close(end)
}

// TestAKeyThatStaysIsFound: one that Redis would hold forever.
func TestAKeyThatStaysIsFound(t *testing.T) {
	server := redistest.Standalone(t)
	server.Do("SET", "goes", "1", "PX", "60000")
	for want := range 2 {
		if keys, stay, err := expiries(server); err != nil || keys != want+1 || stay != want {
			t.Errorf("%d keys, %d stay, %v; want %d and %d", keys, stay, err, want+1, want)
		}
		server.Do("SET", "stays", "1")
	}
}

// TestThePlotIsXML, with a line for each series.
func TestThePlotIsXML(t *testing.T) {
	a, b := &series{name: "this & that"}, &series{name: "never measured"}
	for i := range 5000 {
		a.add(time.Duration(i)*time.Second, float64(i)*1000)
	}
	text := plot("<title>", []*series{a, b})
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 2 || len(text) > 20_000 {
		t.Errorf("%d lines in %d bytes", lines, len(text))
	}
}
