package memstore

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// A Store keeps the state of keys in the memory of this process. It is safe for concurrent use. Make
// one with [New].
type Store struct {
	clock   func() time.Time // nil for the process clock
	base    time.Time        // the process clock's anchor, with its monotonic reading
	baseNs  int64
	maxKeys int64
	refuse  bool
	logger  *slog.Logger
	invalid error // an option that cannot be built

	seeds  [2]maphash.Seed
	shards []shard
	shift  uint // of a fingerprint's high half, to its shard
	keys   atomic.Int64
	closed atomic.Bool

	evicted, refused, swept atomic.Uint64
	warned                  atomic.Int64 // when the logger last heard, in milliseconds

	clearing sync.Mutex
	cleared  int64 // under clearing: when a full store was last swept, in milliseconds

	identities struct {
		sync.Mutex
		ids   map[identity]uint32
		kinds atomic.Pointer[[]kind] // by id
	}

	timer struct {
		sync.Mutex
		t  *time.Timer
		at atomic.Int64 // when it goes off, in milliseconds; math.MaxInt64 while it is off
	}
}

// A kind is what of an identity a sweep needs to know.
type kind struct {
	span    int64
	counter bool
}

// New returns an empty store. An option that cannot be built is reported by [slidegate.New], with
// an error that wraps [slidegate.ErrInvalidLimit].
func New(options ...Option) *Store {
	s := &Store{maxKeys: DefaultMaxKeys, base: time.Now()}
	s.baseNs = s.base.UnixNano()
	for _, option := range options {
		option(s)
	}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	n, shift := 1, uint(64)
	for ; n < maxShards && int64(n)*keysPerShard < s.maxKeys; n *= 2 {
		shift--
	}
	s.shards, s.shift = make([]shard, n), shift
	for i := range s.shards {
		s.shards[i].nextDue.Store(math.MaxInt64)
	}
	s.identities.ids = map[identity]uint32{}
	s.identities.kinds.Store(new([]kind))
	s.timer.at.Store(math.MaxInt64)
	s.cleared = math.MinInt64
	s.warned.Store(math.MinInt64 / 2)
	return s
}

// A store has one shard for every keysPerShard keys that it may hold: enough that callers rarely
// meet, few enough keys in each that a sweep holds its lock for microseconds.
const (
	keysPerShard = 4096
	maxShards    = 4096
)

// Bind implements [slidegate.Store].
func (s *Store) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	p := &plan{store: s, limits: make([]limit, len(limits))}
	for i, l := range limits {
		p.limits[i] = newLimit(l, s.identify(l))
	}
	return p, nil
}

// identify returns the number of a limit's identity. The few bytes it takes are kept as long as
// the store: identities come from a program's plans, not from its requests.
func (s *Store) identify(l slidegate.Limit) uint32 {
	s.identities.Lock()
	defer s.identities.Unlock()
	key := identity{l.Name, l.Algorithm, l.Window}
	id, ok := s.identities.ids[key]
	if !ok {
		old := *s.identities.kinds.Load()
		id = uint32(len(old))
		kinds := append(old[:len(old):len(old)], kind{l.Window.Milliseconds(), l.Algorithm == slidegate.SlidingCounter})
		s.identities.kinds.Store(&kinds)
		s.identities.ids[key] = id
	}
	return id
}

// now reads the clock: the monotonic one, anchored once to the wall clock, so that setting the
// wall clock moves no window.
func (s *Store) now() int64 {
	if s.clock != nil {
		return min(max(s.clock().UnixMilli(), -maxTime), maxTime)
	}
	return (s.baseNs + int64(time.Since(s.base))) / int64(time.Millisecond)
}

func (s *Store) print(key string) print {
	return newPrint(maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key))
}

func newPrint(high, low uint64) print { return print{high, max(low, 1)} }

func (s *Store) shard(p print) *shard { return &s.shards[p.high>>s.shift] }

// kinds is read under the lock of the shard it is used on: what lies there was bound before.
func (s *Store) kinds() []kind { return *s.identities.kinds.Load() }

// Len returns the number of keys held: those that count, and those whose windows are over and that
// the next sweep will drop.
func (s *Store) Len() int { return int(s.keys.Load()) }

// Stats are counts since the store was made, and the number of keys now.
type Stats struct {
	Keys    int    // held now, as Len
	Swept   uint64 // keys dropped when their windows were over
	Evicted uint64 // keys forgotten while they still counted, since the store was full
	Refused uint64 // requests of new keys that a full store refused to decide
}

// Stats returns the store's counts. Each is exact; together they are no snapshot.
func (s *Store) Stats() Stats {
	return Stats{Keys: s.Len(), Swept: s.swept.Load(), Evicted: s.evicted.Load(), Refused: s.refused.Load()}
}

// Sweep drops every key whose windows are all over by the store's clock and returns how many
// they were. A store on the process clock sweeps by itself; one with an injected clock is told to.
func (s *Store) Sweep() int {
	now, dropped := s.now(), 0
	for i := range s.shards {
		dropped += s.sweepShard(&s.shards[i], now)
	}
	return dropped
}

func (s *Store) sweepShard(sh *shard, now int64) int {
	if sh.nextDue.Load() > now {
		return 0
	}
	sh.mu.Lock()
	dropped := sh.sweep(now, s.kinds())
	sh.mu.Unlock()
	s.keys.Add(int64(-dropped))
	s.swept.Add(uint64(dropped))
	return dropped
}

// Close forgets all keys and stops the timer. Later calls on limiters over the store answer
// [slidegate.ErrUnavailable]. Closing again does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.timer.Lock()
	if s.timer.t != nil {
		s.timer.t.Stop()
	}
	s.timer.at.Store(math.MaxInt64)
	s.timer.Unlock()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		s.keys.Add(int64(-sh.keys))
		sh.keys = 0
		sh.shrink(nil)
		sh.mu.Unlock()
	}
	return nil
}

var errClosed = fmt.Errorf("%w: the memory store is closed", slidegate.ErrUnavailable)

// errFull is one value: refusing to decide allocates nothing.
var errFull = fmt.Errorf("%w: the memory store holds as many keys as it may and was told to refuse new ones", slidegate.ErrUnavailable)

const sweepPause = 1000 // milliseconds from one sweep to the next, at least

// arm makes sure that a sweep comes soon after due. There is one timer while there are keys, and
// none in an empty store.
func (s *Store) arm(now, due int64) {
	at := max(due, now+sweepPause)
	if s.clock != nil || at >= s.timer.at.Load() {
		return
	}
	s.timer.Lock()
	defer s.timer.Unlock()
	if at >= s.timer.at.Load() || s.closed.Load() {
		return
	}
	s.timer.at.Store(at)
	wait := time.Duration(at-now) * time.Millisecond
	if s.timer.t == nil {
		s.timer.t = time.AfterFunc(wait, s.tick)
	} else {
		s.timer.t.Reset(wait)
	}
}

// disarm stops the timer of a store that has become empty. A key that comes meanwhile either sees
// the timer off, or is seen here.
func (s *Store) disarm() {
	s.timer.Lock()
	defer s.timer.Unlock()
	at := s.timer.at.Swap(math.MaxInt64)
	if s.keys.Load() > 0 {
		s.timer.at.Store(at)
	} else if s.timer.t != nil {
		s.timer.t.Stop()
	}
}

// tick sweeps and sets the timer for the next key that will be over.
func (s *Store) tick() {
	s.timer.Lock()
	s.timer.at.Store(math.MaxInt64)
	s.timer.Unlock()
	s.Sweep()
	next := int64(math.MaxInt64)
	for i := range s.shards {
		next = min(next, s.shards[i].nextDue.Load())
	}
	if next != math.MaxInt64 {
		s.arm(s.now(), next)
	}
}

// makeRoom is called when n new keys find the store full. It drops what is idle, anywhere; if
// nothing is, it evicts one, from a new key's own shard if it can. It tells whether asking again makes sense.
func (s *Store) makeRoom(sh *shard, n int64) bool {
	now := s.now()
	if s.clear(now, n) {
		return true
	}
	defer s.warn(now)
	if s.refuse {
		s.refused.Add(1)
		return false
	}
	if s.evictFrom(sh, now) {
		return true
	}
	for i := range s.shards {
		if s.evictFrom(&s.shards[i], now) {
			return true
		}
	}
	return true // others have made room since
}

// clear tells whether there is room for n keys, or for some more, once what is idle is dropped. Callers that
// come meanwhile wait for it, or they would evict while idle keys are held.
func (s *Store) clear(now, n int64) bool {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	if s.keys.Load()+n <= s.maxKeys {
		return true
	}
	if s.cleared == now { // no key charged since is idle yet
		return false
	}
	s.cleared = now
	return s.Sweep() > 0
}

func (s *Store) evictFrom(sh *shard, now int64) bool {
	sh.mu.Lock()
	gone, counted := sh.evict(now, s.kinds())
	sh.mu.Unlock()
	if !gone {
		return false
	}
	s.keys.Add(-1)
	if counted {
		s.evicted.Add(1)
	} else {
		s.swept.Add(1)
	}
	return true
}

// warn tells the logger that the store is full, at most once a minute.
func (s *Store) warn(now int64) {
	if s.logger == nil {
		return
	}
	last := s.warned.Load()
	if now-last < 60_000 && last-now < 60_000 || !s.warned.CompareAndSwap(last, now) {
		return
	}
	stats := s.Stats()
	s.logger.Warn("slidegate: the memory store is full", "max_keys", s.maxKeys, "evicted", stats.Evicted, "refused", stats.Refused)
}
