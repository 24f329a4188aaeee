package wrap

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// DefaultLife is how long a process counts as live after its last beat, unless [WithLife] says otherwise.
const DefaultLife = 15 * time.Second

// Replicas counts the live processes that share a store, mostly Redis, for [WithReplicas]. Make one with [CountReplicas] and
// let it [Replicas.Run]. It is safe for concurrent use.
type Replicas struct {
	limiter *slidegate.Limiter
	life    time.Duration
	invalid error // an option that cannot be used

	live atomic.Int64 // 0 before the first beat that was heard

	mu     sync.Mutex         // of beats; never held while the store is asked
	mine   slidegate.Decision // of the last beat that was heard
	counts [4]int64           // what the last beats saw, a life of them
}

// replicasKey is what all processes charge, under a limit of that name.
const replicasKey = "replicas"

// CountReplicas returns a count of the processes that beat in the store, of which nothing is asked yet. Each charges one unit of a
// limit that never refuses, and with each beat takes back the one before: what the limit holds is the number of processes. So the
// store needs nothing that it does not do for limits, decides by its own clock, and forgets by itself who is gone.
//
// In Redis that is one key, PREFIX:{replicas}:live-replicas:15s. Every error wraps [slidegate.ErrInvalidLimit].
func CountReplicas(store slidegate.Store, options ...ReplicasOption) (*Replicas, error) {
	r := &Replicas{life: DefaultLife}
	for _, option := range options {
		option(r)
	}
	if r.invalid != nil {
		return nil, r.invalid
	}
	if store == nil {
		return nil, fmt.Errorf("%w: replicas: the store is nil: give the one that they share", slidegate.ErrInvalidLimit)
	}
	var err error
	r.limiter, err = slidegate.New(store, slidegate.Per(r.life, maxReplicas).Named("live-replicas"))
	return r, err
}

// A ReplicasOption changes how [CountReplicas] counts.
type ReplicasOption func(*Replicas)

// WithLife counts a process for d after its last beat, 3 ms to 1 hour in whole milliseconds; the default is [DefaultLife]. There
// is a beat in every third of it. All processes have to say the same: others are not counted.
func WithLife(d time.Duration) ReplicasOption {
	return func(r *Replicas) {
		if d < 3*time.Millisecond || d > time.Hour || d%time.Millisecond != 0 {
			r.invalid = fmt.Errorf("%w: replicas: a life of %s: allowed is 3ms to 1h0m0s in whole milliseconds", slidegate.ErrInvalidLimit, d)
			return
		}
		r.life = d
	}
}

// Live returns how many processes live, this one included, as the store last said; 1 before it has said anything. More are
// believed at once, fewer when four beats in a row saw no more, so a store that has lost its memory makes nobody's share
// larger before all have beaten again.
func (r *Replicas) Live() int { return int(max(1, r.live.Load())) }

// Run beats at once and in every third of a life until ctx ends, and then takes this process off the count. A beat that fails is
// followed by the next: the count stays what it was.
func (r *Replicas) Run(ctx context.Context) {
	tick := time.NewTicker(r.life / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		_ = r.Beat(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.life/3)
	defer cancel()
	_ = r.Leave(ctx)
}

// Beat tells the store that this process lives, and learns how many do. It is for programs with a clock of their own; others
// let it [Replicas.Run]. Where several beat at one instant some may count a beat that is about to be taken back, and their
// shares are too small for four beats at most. An error is the store's, and changes nothing.
func (r *Replicas) Beat(ctx context.Context) error {
	d, err := r.limiter.Take(ctx, replicasKey)
	if err != nil {
		return err
	}
	before := r.heard(d)
	if before.Charged() {
		// A beat that is not taken back makes the count too high for the rest of its life, and shares too small: the safe side.
		_ = r.limiter.Refund(ctx, &before)
	}
	return nil
}

// heard takes note of a beat and returns the one before.
func (r *Replicas) heard(d slidegate.Decision) (before slidegate.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.mine = r.mine, d
	live := maxReplicas - d.Remaining()
	if before.Charged() && d.At().Sub(before.At()) < r.life {
		live-- // the one before is still there
	}
	copy(r.counts[1:], r.counts[:])
	r.counts[0] = live
	r.live.Store(max(r.counts[0], r.counts[1], r.counts[2], r.counts[3]))
	return before
}

// Leave takes this process off the count. One that does not leave counts for the rest of its life.
func (r *Replicas) Leave(ctx context.Context) error {
	r.mu.Lock()
	mine := r.mine
	r.mine = slidegate.Decision{}
	r.mu.Unlock()
	if !mine.Charged() {
		return nil
	}
	return r.limiter.Refund(ctx, &mine)
}
