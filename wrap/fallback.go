package wrap

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// A FallbackStore asks one store, and another one while that is away. Make one with [Fallback]. It is safe for
// concurrent use and needs no closing; the stores behind it may.
type FallbackStore struct {
	primary, backup slidegate.Store
	share           func() share
	invalid         error // a store or an option that cannot be used

	debts               *debts
	byBackup, takenOver atomic.Uint64
}

// A share is the part of each quota that the backup has.
type share struct{ numerator, denominator int64 }

// of returns the share of a quota, at least one unit.
func (s share) of(quota int64) int64 { return max(1, quota*s.numerator/s.denominator) }

// Fallback returns a store that asks primary, mostly a [Circuit] in front of Redis, and decides by backup, mostly a memory
// store, while primary cannot be asked: when its error wraps [slidegate.ErrUnavailable] and the caller has not given up.
// The backup decides by the whole quota of each limit, or by the share that [WithShare] or [WithReplicas] says. When
// primary answers again, what the backup admitted is charged there: see the documentation of the package for what that promises.
//
// A cost that the share can never hold is refused while primary is away, and the wait that is told is a whole window. If
// the backup cannot be asked either, the error wraps those of both.
//
// A nil store, one that is itself a FallbackStore, or an option that cannot be built, is reported by [slidegate.New], with
// an error that wraps [slidegate.ErrInvalidLimit].
func Fallback(primary, backup slidegate.Store, options ...FallbackOption) *FallbackStore {
	f := &FallbackStore{primary: primary, backup: backup, share: fixed(1, 1), debts: newDebts()}
	if primary == nil || backup == nil {
		f.reject("a store is nil: give the one to ask and the one for its outages")
	}
	for _, store := range []slidegate.Store{primary, backup} {
		if _, ok := store.(*FallbackStore); ok {
			f.reject("a store is a fallback itself: a refund would not know where its charge was made")
		}
	}
	for _, option := range options {
		option(f)
	}
	return f
}

// A FallbackOption changes how [Fallback] builds a store.
type FallbackOption func(*FallbackStore)

// maxReplicas bounds a share, so that its product with a quota fits, and the count of live processes.
const maxReplicas = 1_000_000

// WithShare gives the backup numerator/denominator of each quota, rounded down and at least one unit; the default is the
// whole quota, 1/1. Allowed is 1 <= numerator <= denominator <= 1,000,000.
func WithShare(numerator, denominator int) FallbackOption {
	return func(f *FallbackStore) {
		if numerator < 1 || denominator < numerator || denominator > maxReplicas {
			f.reject(fmt.Sprintf("a share of %d/%d: allowed is 1/1000000 to 1/1", numerator, denominator))
			return
		}
		f.share = fixed(int64(numerator), int64(denominator))
	}
}

// WithReplicas gives the backup an equal share for each of live processes, as many as live says, of which values are brought
// into 1 to 1,000,000; by default the share is [WithShare]. [Replicas.Live] is such a function. It is asked at each decision of the
// backup, and should answer what it last knew. What was admitted by a larger share counts against a smaller one.
func WithReplicas(live func() int) FallbackOption {
	return func(f *FallbackStore) {
		if live == nil {
			f.reject("the function given to WithReplicas is nil")
			return
		}
		f.share = func() share { return share{1, int64(min(max(1, live()), maxReplicas))} }
	}
}

func fixed(numerator, denominator int64) func() share {
	return func() share { return share{numerator, denominator} }
}

func (f *FallbackStore) reject(why string) {
	if f.invalid == nil {
		f.invalid = fmt.Errorf("%w: fallback: %s", slidegate.ErrInvalidLimit, why)
	}
}

// FallbackStats counts since the store was made.
type FallbackStats struct {
	Decided   uint64 // takes by the backup
	TakenOver uint64 // units that the backup admitted and that were charged to the primary since, in each limit
	Owed      int    // keys and limits whose units are still to be taken over
}

// Stats returns the counts. They are read one after another, not in one instant.
func (f *FallbackStore) Stats() FallbackStats {
	return FallbackStats{f.byBackup.Load(), f.takenOver.Load(), int(f.debts.n.Load())}
}

// isAway tells whether an error is a reason to ask the backup.
func isAway(ctx context.Context, err error) bool {
	return err != nil && errors.Is(err, slidegate.ErrUnavailable) && ctx.Err() == nil
}
