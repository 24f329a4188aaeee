package soak

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// A ledger is what the entries of some limits are judged by: all who are asked about it count on the same keys in the
// same store. Its methods may be called from any goroutine.
type ledger struct {
	id      uint8
	name    string
	budgets []*budget

	mu       sync.Mutex
	lost     []span // when the store forgot everything
	sharers  int64  // how many decide by a share of a quarter while the store is away
	reshared []span // when one of them forgot what it had decided
}

// A budget is a limit over time.
type budget struct {
	slidegate.Limit // its quota is the first

	mu      sync.Mutex
	tenures []tenure
}

// A tenure is a quota, and the time in which somebody may have decided by it.
type tenure struct {
	span
	quota int64
}

// share is what part of a quota decides while Redis is away.
const share = 4

func newLedger(id uint8, name string, sharers int64, limits ...slidegate.Limit) *ledger {
	l := &ledger{id: id, name: name, sharers: sharers}
	for _, limit := range limits {
		l.budgets = append(l.budgets, &budget{Limit: limit, tenures: []tenure{{span{0, forever}, limit.Quota}}})
	}
	return l
}

// forgot notes that the store lost what it held some time in a span. Whoever notes it reads another clock than the store.
func (l *ledger) forgot(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, widened(s))
}

// resharded notes that one who has a share lost what it had admitted.
func (l *ledger) resharded(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reshared = append(l.reshared, widened(s))
}

// skew is how far two clocks of one machine may be apart.
const skew = 100

func widened(s span) span { return span{s.from - skew, s.to + skew} }

// change notes a quota that may be in force from now on.
func (b *budget) change(quota int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenures = append(b.tenures, tenure{span{now() - skew, forever}, quota})
}

// settle notes that the newest quota alone is in force.
func (b *budget) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.tenures[:len(b.tenures)-1] {
		b.tenures[i].to = min(b.tenures[i].to, now()+lateness)
	}
}

// lateness is how long a request that began by an old quota may be under way, in milliseconds.
const lateness = 2000

// most returns the largest quota that may have been in force within a span.
func (b *budget) most(s span) (quota int64) {
	for _, t := range b.tenures {
		if t.from <= s.to && s.from <= t.to {
			quota = max(quota, t.quota)
		}
	}
	return quota
}

// least returns the smallest quota that there ever was.
func (b *budget) least() int64 {
	return slices.MinFunc(b.tenures, func(x, y tenure) int { return cmp.Compare(x.quota, y.quota) }).quota
}

// A finding is what came of judging a budget.
type finding struct {
	ledger, limit string
	admitted      int    // entries
	unsure        int    // of these, not judged, as the store forgot at about that time
	keys          int    // distinct
	most          int64  // units in one window that the store admitted
	quota, least  int64  // the largest, and the smallest
	violations    int    // windows
	first         string // of them, in words
}

// judge counts every window of every key of its entries.
func (l *ledger) judge(entries []entry) (all []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := map[uint32][]entry{}
	for _, e := range entries {
		keys[e.key] = append(keys[e.key], e)
	}
	findings := make([]finding, len(l.budgets))
	for i, b := range l.budgets {
		findings[i] = finding{ledger: l.name, limit: b.String(), keys: len(keys), quota: b.most(span{0, forever}), least: b.least()}
	}
	for _, of := range keys {
		eras, admitted, unsure := l.eras(of)
		for i, b := range l.budgets {
			findings[i].admitted += admitted
			findings[i].unsure += unsure
			for _, era := range eras {
				l.judgeEra(b, era, &findings[i])
			}
		}
	}
	return findings
}

// eras splits the admissions of a key where its state was lost or reset. What may be on either side is left out: it
// makes no count higher.
func (l *ledger) eras(of []entry) (eras [][]entry, admitted, unsure int) {
	ends := slices.Clone(l.lost)
	for _, e := range of {
		if e.kind&reset != 0 {
			ends = append(ends, widened(e.span))
		}
	}
	eras = make([][]entry, len(ends)+1)
	for _, e := range of {
		if e.kind&reset != 0 {
			continue
		}
		admitted++
		n, isSure := 0, true
		for _, end := range ends {
			if end.to < e.from {
				n++
			} else if end.from <= e.to {
				isSure = false
			}
		}
		if !isSure {
			unsure++
			continue
		}
		eras[n] = append(eras[n], e)
	}
	return eras, admitted, unsure
}

// A view is some of the entries, and what they may come to.
type view struct {
	what    string
	shows   func(entry) bool
	isExact bool // all times are those of the store
	shares  bool // beside the quota there are shares
}

var views = []view{
	{"by the store, in its own time", func(e entry) bool { return e.kind&exact != 0 && e.kind&byShare == 0 }, true, false},
	{"by the store", func(e entry) bool { return e.kind&byShare == 0 }, false, false},
	{"by anybody", func(entry) bool { return true }, false, true},
}

// judgeEra counts the windows of a budget in an era of a key, in each view that shows more than the one before.
func (l *ledger) judgeEra(b *budget, era []entry, f *finding) {
	shown := 0
	for _, v := range views {
		in := slices.DeleteFunc(slices.Clone(era), func(e entry) bool { return !v.shows(e) })
		if len(in) == shown {
			continue
		}
		shown = len(in)
		slices.SortFunc(in, func(x, y entry) int { return cmp.Compare(x.to, y.to) })
		if b.Algorithm == slidegate.SlidingCounter {
			l.count(b, v, in, aligned(b, v, in), 1, f)
			l.count(b, v, in, starts(in), 2, f)
		} else {
			l.count(b, v, in, starts(in), 1, f)
		}
	}
}

// starts returns where windows are to begin: at each admission, since a window that holds most can begin at one.
func starts(in []entry) (all []int64) {
	for _, e := range in {
		all = append(all, e.from)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// aligned returns where the windows of a counter begin that admissions are in.
func aligned(b *budget, v view, in []entry) (all []int64) {
	w := b.Window.Milliseconds()
	for _, e := range in {
		all = append(all, e.from-e.from%w+b.slack(v)/2)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// slack is how much shorter than its own a window is taken to be: Redis counts in whole milliseconds, and clients do not
// read the clock in the same instant, nor does every clock run as fast as the other.
func (b *budget) slack(v view) int64 {
	if v.isExact {
		return 0
	}
	return 6 + b.Window.Milliseconds()/1000
}

// count counts the units that surely are in the window from each start: those of the entries that began and ended in it.
// Whichever entry was the last of them, all others were in the window that ended with it, so the quota is one that was in
// force between the last beginning and the last end.
func (l *ledger) count(b *budget, v view, in []entry, starts []int64, times int64, f *finding) {
	length := b.Window.Milliseconds() - b.slack(v)
	least := times * b.least()
	first := 0
	for _, start := range starts {
		for first < len(in) && in[first].to < start {
			first++
		}
		var units, last int64
		for _, e := range in[first:] {
			if e.to >= start+length {
				break
			}
			if e.from < start {
				continue
			}
			units, last = units+e.units, max(last, e.from)
			if !v.shares && times == 1 {
				f.most = max(f.most, units)
			}
			if units <= least {
				continue
			}
			bound := times * l.bound(b, v, span{start, e.to})
			if !v.shares && times == 1 {
				bound = b.most(span{last, e.to})
			}
			if units > bound {
				f.violate(b, v, start, units, bound)
				break
			}
		}
	}
}

// bound returns what may have been admitted within a span by the quotas of its time, and by shares.
func (l *ledger) bound(b *budget, v view, so span) int64 {
	quota := b.most(so)
	if !v.shares {
		return quota
	}
	shares := l.sharers
	for _, s := range l.reshared {
		if s.from <= so.to && so.from <= s.to {
			shares++
		}
	}
	return quota + shares*max(1, quota/share)
}

func (f *finding) violate(b *budget, v view, start, units, bound int64) {
	if f.violations++; f.violations == 1 {
		f.first = fmt.Sprintf("%d units were admitted %s in the %s from %s, want %d at most",
			units, v.what, b.Window, time.UnixMilli(start).UTC().Format("15:04:05.000"), bound)
	}
}
