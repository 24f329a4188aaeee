package rls

import (
	"errors"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// A limiter is a limit over the store.
type limiter struct {
	*slidegate.Limiter
	plan  slidegate.Plan // the same, for what takes no receipt
	limit slidegate.Limit
}

func bind(store slidegate.Store, limit slidegate.Limit) (*limiter, error) {
	l, err := slidegate.New(store, limit)
	if err != nil {
		return nil, err
	}
	plan, err := store.Bind(l.Limits())
	if err != nil {
		return nil, err
	}
	return &limiter{l, plan, l.Limits()[0]}, nil
}

// entriesOfLog is how many entries a log has at most, near enough.
const entriesOfLog = 1000

// newLimit returns the limit of a rule. A log of many units is kept to a thousandth of its window, so that a counter
// of a million a day is some kilobytes and as exact: units come back up to that much later, and never early.
func newLimit(name string, requests uint32, window time.Duration, algorithm slidegate.Algorithm) slidegate.Limit {
	l := slidegate.Per(window, int64(requests)).Named(name)
	l.Algorithm = algorithm
	if resolution := window / entriesOfLog; algorithm == slidegate.SlidingLog && requests > entriesOfLog && resolution > time.Millisecond {
		l.Resolution = resolution.Truncate(time.Millisecond)
	}
	return l
}

// The bounds of what is kept of limits that come with requests.
const (
	mostOverrides = 10_000 // limits, kept to be quick
	mostWindows   = 1_000  // lengths, of which a store may remember each
)

var errWindows = errors.New("too many different units of limits in requests")

// limits are those that came with requests.
type limits struct {
	store     slidegate.Store
	algorithm slidegate.Algorithm

	mu      sync.Mutex
	all     map[slidegate.Limit]*limiter
	windows map[time.Duration]bool
}

func (l *limits) get(name string, requests uint32, window time.Duration) (*limiter, error) {
	limit := newLimit(name, requests, window, l.algorithm)
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.all[limit]; found != nil {
		return found, nil
	}
	if !l.windows[window] && len(l.windows) >= mostWindows {
		return nil, errWindows
	}
	made, err := bind(l.store, limit)
	if err != nil {
		return nil, err
	}
	if len(l.all) >= mostOverrides {
		clear(l.all)
	}
	l.all[limit], l.windows[window] = made, true
	return made, nil
}
