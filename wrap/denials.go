package wrap

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// DefaultMaxDenials is the number of refusals that a [DenialsStore] remembers at most unless it says otherwise.
const DefaultMaxDenials = 65_536

// A DenialsStore answers for the store behind it where that has refused. Make one with [Denials]. It is safe for
// concurrent use and needs no closing; the store behind it may.
type DenialsStore struct {
	store   slidegate.Store
	most    time.Duration // that a refusal is remembered
	max     int           // refusals
	clock   func() time.Duration
	invalid error // a store or an option that cannot be used

	seeds [2]maphash.Seed
	sets  []denialSet
}

// Denials returns a store that remembers what another one refused: until the retry of the refusal, and for a second at
// most, the same cost of the same key is refused without the store being asked. A caller who is refused and asks all
// the same costs no round trip then, and nothing is allocated for him.
//
// The answer is that of the store, with its clock counted on: see the documentation of the package for how exact that is.
// What is charged, given back or reset through the returned store is seen at once, whichever limiter over it did it;
// what another process resets or gives back, and a clock of the store that is set forward, is seen after a second at most,
// or what [WithCap] says.
//
// At most 65,536 refusals are remembered, or as many as [WithMaxDenials] says; then those go that would end soonest
// among a few. There is no goroutine and no timer.
//
// A nil store, or an option that cannot be built, is reported by [slidegate.New], with an error that
// wraps [slidegate.ErrInvalidLimit].
func Denials(store slidegate.Store, options ...DenialsOption) *DenialsStore {
	d := &DenialsStore{
		store: store,
		most:  time.Second,
		max:   DefaultMaxDenials,
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	begin := time.Now()
	d.clock = func() time.Duration { return time.Since(begin) }
	if store == nil {
		d.reject("the store is nil: give the one to wrap")
	}
	for _, option := range options {
		option(d)
	}
	d.sets = make([]denialSet, d.max/ways)
	return d
}

// DenialsStats counts since the store was made.
type DenialsStats struct {
	Answered   uint64 // refusals without asking the store
	Remembered int    // refusals now, those included that have ended and that nobody asked for since
}

// Stats returns the counts. They are read one after another, not in one instant.
func (d *DenialsStore) Stats() (s DenialsStats) {
	for i := range d.sets {
		set := &d.sets[i]
		s.Answered += set.answered.Load()
		for j := range set.ways {
			if set.ways[j].Load() != nil {
				s.Remembered++
			}
		}
	}
	return s
}

// A print stands for a key: keys are people, and may be long.
type print struct{ high, low uint64 }

func (d *DenialsStore) print(key string) print {
	return print{maphash.String(d.seeds[0], key), maphash.String(d.seeds[1], key)}
}

// set returns where the refusals of a key are.
func (d *DenialsStore) set(p print) *denialSet {
	i, _ := bits.Mul64(p.high, uint64(len(d.sets)))
	return &d.sets[i]
}

// ways is the number of refusals in a set.
const ways = 8

// A denialSet has a few refusals, of whichever keys come together in it. They are read without the lock, replaced under
// it, and never modified.
type denialSet struct {
	answered atomic.Uint64
	ways     [ways]atomic.Pointer[refusal]
	mu       sync.Mutex // never held while anybody else's code runs

	// Changes of keys, spread by their prints: a refusal is remembered only if nothing changed since the store was
	// asked, or it might be older than a reset that came in between.
	changes [ways]atomic.Uint32
}

// A refusal is what a store answered.
type refusal struct {
	print    print
	plan     *denialsPlan
	cost     int64
	now      int64         // of the store's answer
	began    time.Duration // by our clock, before the store was asked
	lasts    time.Duration // from then, at least 1
	readings []slidegate.Reading
}

func (s *denialSet) changesOf(p print) *atomic.Uint32 { return &s.changes[p.low%ways] }

// find returns the refusal of a request, nil if there is none that still holds.
func (s *denialSet) find(p print, plan *denialsPlan, cost int64, now time.Duration) *refusal {
	for i := range s.ways {
		r := s.ways[i].Load()
		if r == nil || r.print != p || r.plan != plan || r.cost != cost {
			continue
		}
		if elapsed := now - r.began; elapsed < 0 || elapsed >= r.lasts {
			return nil
		}
		return r
	}
	return nil
}

// remember puts a refusal in the place of the one of the same request, or of none, or of the one that ends soonest; it
// does not if its key may have changed since changes was read.
func (s *denialSet) remember(next *refusal, changes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changesOf(next.print).Load() != changes {
		return
	}
	var worst int
	var soonest time.Duration
	for i := range s.ways {
		r := s.ways[i].Load()
		if r == nil || r.print == next.print && r.plan == next.plan && r.cost == next.cost {
			worst = i
			break
		}
		if ends := r.began + r.lasts; i == 0 || ends < soonest {
			worst, soonest = i, ends
		}
	}
	s.ways[worst].Store(next)
}

// forget drops what is remembered of a key in any of limits, because it changed there.
func (s *denialSet) forget(p print, limits []slidegate.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changesOf(p).Add(1)
	for i := range s.ways {
		if r := s.ways[i].Load(); r != nil && r.print == p && meet(r.plan.limits, limits) {
			s.ways[i].Store(nil)
		}
	}
}

// meet tells whether two plans share the state of a limit.
func meet(a, b []slidegate.Limit) bool {
	for i := range a {
		for j := range b {
			if a[i].Window == b[j].Window && a[i].Algorithm == b[j].Algorithm && a[i].Name == b[j].Name {
				return true
			}
		}
	}
	return false
}

func (d *DenialsStore) reject(why string) {
	if d.invalid == nil {
		d.invalid = fmt.Errorf("%w: denials: %s", slidegate.ErrInvalidLimit, why)
	}
}
