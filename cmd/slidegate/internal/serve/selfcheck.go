package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// A selfCheck is what is known of a store that was tried.
type selfCheck struct{ state atomic.Int32 }

// The states of a self-check. It has none before the store was first reached.
const (
	untried int32 = iota
	passed
	failed
)

func (c *selfCheck) is(state int32) func() int {
	return func() int {
		if c.state.Load() == state {
			return 1
		}
		return 0
	}
}

// errExcess is of a store that does not do what all else is built on.
var errExcess = errors.New("a key is not held to its limit")

// checkQuota is what the key of a check may have.
const checkQuota = 2

// checkStore takes one unit more than a limit has and wants that one refused and all others admitted, with either algorithm. The
// key is one that nobody else has, and it is forgotten afterwards. An error that does not wrap errExcess says nothing.
func checkStore(ctx context.Context, store slidegate.Store) error {
	limit := slidegate.PerHour(checkQuota).Named("self-check")
	for _, l := range []slidegate.Limit{limit, limit.Counter()} {
		if err := checkLimit(ctx, store, l); err != nil {
			return err
		}
	}
	return nil
}

func checkLimit(ctx context.Context, store slidegate.Store, l slidegate.Limit) (err error) {
	limiter, err := slidegate.New(store, l)
	if err != nil {
		return err
	}
	key := "self-check:" + rand.Text()
	defer func() {
		if wrong := limiter.Reset(ctx, key); err == nil {
			err = wrong
		}
	}()
	for i := range checkQuota + 1 {
		d, err := limiter.Take(ctx, key)
		if err != nil {
			return err
		}
		if d.Allowed != (i < checkQuota) {
			return fmt.Errorf("%w: of %s request %d got allowed=%t", errExcess, l, i+1, d.Allowed)
		}
	}
	return nil
}

// trial tries the whole store, twice where it fails: a Redis that is exchanged meanwhile has forgotten what was taken. It does
// not try a fallback in the place of what it stands for.
func (s *server) trial(ctx context.Context) (err error) {
	for range 2 {
		decided := s.decidedByShare()
		err = checkStore(ctx, s.backend.store)
		if s.decidedByShare() != decided {
			return slidegate.ErrUnavailable
		}
		if !errors.Is(err, errExcess) {
			return err
		}
	}
	return err
}

func (s *server) decidedByShare() uint64 {
	if s.backend.fallback == nil {
		return 0
	}
	return s.backend.fallback.Stats().Decided
}

// try tries the store once and tells how it went. It returns when to try again, 0 for never.
func (s *server) try(ctx context.Context) (again time.Duration) {
	err := s.look(ctx)
	if err == nil {
		err = s.trial(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		if s.checked.state.Swap(passed) == failed {
			s.log.Info("the self-check passes now")
		}
		return 0
	case errors.Is(err, errExcess):
		if s.checked.state.Swap(failed) != failed {
			s.log.Error("the self-check failed: limits may not hold", "error", err)
		}
		return time.Minute
	}
	return time.Second
}

// tryUntilItPasses says so if the store is not there at the start, before a request finds out, and tries it when it is. What is in
// memory was tried before the first request.
func (s *server) tryUntilItPasses(ctx context.Context) {
	if err := s.look(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("the store does not answer yet", "error", err)
	}
	for again := s.try(ctx); again > 0; again = s.try(ctx) {
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}
