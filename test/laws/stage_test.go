package laws

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
	"pgregory.net/rapid"
)

var background = context.Background()

// ample is a time that a busy machine does not need.
const ample = 20 * time.Second

// A stage is where a law is played: an empty store, its clock, and a look behind it.
type stage struct {
	clock   *gatetest.Clock   // nil for the clocks of server and process
	stores  []slidegate.Store // of each process; several where they share a Redis
	inside  slidegate.Store   // what is wrapped, or the store itself
	shelves []shelf           // all that holds state

	// Of a fallback: the store that may be away, those for its outages, and their share.
	outage  *outage
	backups []slidegate.Store
	share   [2]int64
}

// An opener makes an empty stage. What a stage has to draw, such as a share, it draws from t.
type opener func(t *rapid.T, clock *gatetest.Clock) *stage

// away tells whether Redis is away, so that a backup decides.
func (s *stage) away() bool { return s.outage != nil && s.outage.on.Load() }

// decides returns the store that decides for a process now, without what is wrapped around it.
func (s *stage) decides(process int) slidegate.Store {
	if s.away() {
		return s.backups[process]
	}
	return s.inside
}

// holds returns how much of a quota the store has that decides now.
func (s *stage) holds(quota int64) int64 {
	if s.away() {
		return s.ofShare(quota)
	}
	return quota
}

func (s *stage) ofShare(quota int64) int64 { return max(1, quota*s.share[0]/s.share[1]) }

// bound returns how many units of a quota a window may hold: the quota, and with a fallback the shares of all processes.
func (s *stage) bound(quota int64) int64 {
	if s.outage == nil {
		return quota
	}
	return quota + int64(len(s.stores))*s.ofShare(quota)
}

// snapshot returns all that is stored, byte for byte where it can be seen.
func (s *stage) snapshot(w *world) string {
	var b strings.Builder
	for _, shelf := range s.shelves {
		b.WriteString(shelf.snapshot(w) + "\n")
	}
	return b.String()
}

// left returns how many keys are held, when what is over has been swept.
func (s *stage) left(t *rapid.T) (n int) {
	for _, shelf := range s.shelves {
		n += shelf.left(t)
	}
	return n
}

// A shelf holds state and lets itself be looked into.
type shelf interface {
	snapshot(w *world) string
	left(t *rapid.T) int
}

// A memory is the shelf of a memory store. Its bytes cannot be seen; what is charged can, also what has left the window and
// is still held: it shows when the clock is set back.
type memory struct {
	*memstore.Store
	clock *gatetest.Clock
}

func newMemory(clock *gatetest.Clock) memory {
	if clock == nil {
		return memory{memstore.New(), nil}
	}
	return memory{memstore.New(memstore.WithClock(clock.Now)), clock}
}

func (m memory) snapshot(w *world) string {
	l, err := slidegate.New(m, w.versions[0]...)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	now := m.clock.Now()
	defer m.clock.Set(now)
	for _, at := range []int64{now.UnixMilli(), w.earliest} {
		m.clock.SetMilli(at)
		for _, key := range w.keys {
			charges, err := l.Charges(background, key, 1<<30)
			if err != nil {
				w.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%q at %d: %v\n", key, at, charges)
		}
	}
	return b.String() + fmt.Sprintf("%+v", m.Stats())
}

func (m memory) left(*rapid.T) int {
	m.Sweep()
	return m.Len()
}

// A redisShelf is the shelf of the nodes of one Redis or of a cluster.
type redisShelf []*redistest.Conn

// everything returns each key, the time at which it expires, and its value.
const everything = `
local all = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  all[i] = {key, redis.call('PEXPIRETIME', key), redis.call('DUMP', key)}
end
return all`

func (r redisShelf) snapshot(w *world) string { return strings.Join(r.list(w.t), "\n") }

// list returns all that is held, key by key. There is nothing without an expiry.
func (r redisShelf) list(t *rapid.T) (all []string) {
	for _, node := range r {
		reply, err := node.Do("EVAL", everything, "0")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range reply.([]any) {
			key := key.([]any)
			if key[1] == int64(-1) {
				t.Fatalf("the key %q never expires", key[0])
			}
			all = append(all, fmt.Sprintf("%q until %d: %q", key...))
		}
	}
	slices.Sort(all)
	return all
}

func (r redisShelf) left(t *rapid.T) int { return len(r.list(t)) }

func (r redisShelf) flush(t *rapid.T) {
	for _, node := range r {
		if _, err := node.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
	}
}

// An outage is a store that cannot be asked while it is on.
type outage struct {
	slidegate.Store
	on atomic.Bool
}

func (o *outage) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	p, err := o.Store.Bind(limits)
	return &outagePlan{p, o}, err
}

type outagePlan struct {
	slidegate.Plan
	o *outage
}

func (p *outagePlan) err() error {
	if p.o.on.Load() {
		return fmt.Errorf("%w: an outage", slidegate.ErrUnavailable)
	}
	return nil
}

func (p *outagePlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.err(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Take(ctx, key, cost)
}

func (p *outagePlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if err := p.err(); err != nil {
		return slidegate.Answer{}, err
	}
	return p.Plan.Peek(ctx, key, cost)
}

func (p *outagePlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	if err := p.err(); err != nil {
		return err
	}
	return p.Plan.Refund(ctx, key, charged, cost)
}

func (p *outagePlan) Reset(ctx context.Context, key string) error {
	if err := p.err(); err != nil {
		return err
	}
	return p.Plan.Reset(ctx, key)
}

// newStage returns a stage for one process that asks one store.
func newStage(clock *gatetest.Clock, store slidegate.Store, holds shelf) *stage {
	return &stage{clock: clock, stores: []slidegate.Store{store}, inside: store, shelves: []shelf{holds}}
}

// onMemory opens a memory store.
func onMemory(_ *rapid.T, clock *gatetest.Clock) *stage {
	m := newMemory(clock)
	return newStage(clock, m, m)
}

// withDenials opens what another opener does, behind denials.
func withDenials(open opener) opener {
	return func(t *rapid.T, clock *gatetest.Clock) *stage {
		s := open(t, clock)
		var options []wrap.DenialsOption
		if clock != nil {
			options = append(options, wrap.WithDenialsClock(clock.Now))
		}
		options = append(options, wrap.WithCap(rapid.SampledFrom([]time.Duration{time.Second, time.Millisecond, time.Minute}).Draw(t, "cap of denials")))
		s.stores = []slidegate.Store{wrap.Denials(s.inside, options...)}
		return s
	}
}

// withFallback opens what another opener does, for two processes with a backup each.
func withFallback(open opener) opener {
	return func(t *rapid.T, clock *gatetest.Clock) *stage {
		s := open(t, clock)
		s.share = [2]int64{1, rapid.Int64Range(1, 4).Draw(t, "shares")}
		s.outage, s.stores = &outage{Store: s.inside}, nil
		for range 2 {
			m := newMemory(clock)
			s.backups, s.shelves = append(s.backups, m), append(s.shelves, m)
			s.stores = append(s.stores, wrap.Fallback(s.outage, m, wrap.WithShare(int(s.share[0]), int(s.share[1]))))
		}
		return s
	}
}
