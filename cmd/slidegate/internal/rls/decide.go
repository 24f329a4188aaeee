package rls

import (
	"context"
	"errors"
	"sync"
)

// each does something for all asks, at the same time where the store does I/O.
func (s *Service) each(ctx context.Context, asks []ask, do func(*ask, context.Context) error) error {
	if !s.Remote || len(asks) == 1 {
		for i := range asks {
			if err := do(&asks[i], ctx); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(asks))
	var all sync.WaitGroup
	for i := range asks {
		if asks[i].limit != nil {
			all.Go(func() { errs[i] = do(&asks[i], ctx) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// decide asks for every descriptor, for each by itself, and tells whether the request is admitted.
func (s *Service) decide(ctx context.Context, asks []ask) (admitted bool, err error) {
	if err := s.each(ctx, asks, (*ask).do); err != nil {
		return false, err
	}
	return verdict(asks), nil
}

// verdict tells whether what came of the asks admits the request: no rule refuses, but for those in quota mode, of which not
// all do. Rules in shadow mode have no say.
func verdict(asks []ask) bool {
	quotas, refusing := 0, 0
	for i := range asks {
		switch a := &asks[i]; {
		case a.limit == nil:
		case a.quota:
			quotas++
			if a.refuses() {
				refusing++
			}
		case a.refuses():
			return false
		}
	}
	return quotas == 0 || refusing < quotas
}
