package rehearse

import (
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A Way is how limits are counted.
type Way uint8

const (
	AsGiven Way = iota // each as it says
	Log                // sliding logs
	Counter            // sliding counters
	Fixed              // fixed windows, as many limiters do
)

// Ways are those that stand side by side.
func Ways() []Way { return []Way{Log, Counter, Fixed} }

func (w Way) String() string {
	return [...]string{"as given", "sliding log", "sliding counter", "fixed window"}[w]
}

// Recount returns the limit that is counted in the place of another, under its name.
func (w Way) Recount(l slidegate.Limit) slidegate.Limit {
	switch w {
	case Log, Fixed:
		l.Algorithm = slidegate.SlidingLog
	case Counter:
		l.Algorithm, l.Resolution = slidegate.SlidingCounter, 0
	}
	return l
}

const (
	// ManyKeys is the cap on keys where their number is not known beforehand: the most that the memory store can be
	// told.
	ManyKeys = 1 << 30

	// SweepEvery is how many events pass between two sweeps of the store, at least.
	SweepEvery = 1 << 16
)

// A Memory is a store in memory on the clock of a log.
type Memory struct {
	now     int64 // milliseconds since 1970
	store   *memstore.Store
	fixed   *fixedStore
	played  int64
	sweepAt int64 // events
}

// NewMemory returns a store that counts in a way and holds so many keys.
func NewMemory(way Way, maxKeys int) *Memory {
	m := &Memory{sweepAt: SweepEvery}
	if way == Fixed {
		m.fixed = newFixedStore(m.Clock)
		return m
	}
	m.store = memstore.New(memstore.WithClock(m.Clock), memstore.WithMaxKeys(maxKeys))
	return m
}

// Store returns what limiters are over.
func (m *Memory) Store() slidegate.Store {
	if m.fixed != nil {
		return m.fixed
	}
	return m.store
}

// Clock is that of the store.
func (m *Memory) Clock() time.Time { return time.UnixMilli(m.now) }

// At sets the clock to the time of an event, in milliseconds since 1970. Now and then it has the store forget who is idle.
func (m *Memory) At(now int64) {
	m.now = now
	if m.played++; m.played < m.sweepAt || m.store == nil {
		return
	}
	// A sweep looks at every key held, so it waits for as many events.
	m.store.Sweep()
	m.sweepAt = m.played + max(SweepEvery, int64(m.store.Len()))
}

// KeepIdle ends the sweeps, for events in no order: a key that is idle now may not have been idle then, and what a limit
// still holds is part of the answer.
func (m *Memory) KeepIdle() { m.sweepAt = math.MaxInt64 }

// Len returns how many keys are held.
func (m *Memory) Len() int {
	if m.store == nil {
		return len(m.fixed.counts)
	}
	return m.store.Len()
}

// Forgotten is an error if the store had to forget a key that still counted, which makes verdicts wrong.
func (m *Memory) Forgotten() error {
	if m.store == nil {
		return nil
	}
	if n := m.store.Stats().Evicted; n > 0 {
		return fmt.Errorf("there are more keys than the memory store can hold: %d that still counted were forgotten, and what was admitted since is too much", n)
	}
	return nil
}
