package slidegate

import (
	"context"
	"errors"
	"fmt"
)

// A Charge is units that count against a key in one limit. Times are in milliseconds since the Unix epoch.
//
//	         sliding log                       sliding counter
//	At       recorded time; the units are      start of an aligned window; the units lose weight
//	         gone exactly a window later       from a window later on, and are gone after two
//	Units    those recorded at that time       those admitted in that window, not weighed
type Charge struct {
	At    int64
	Units int64
}

// A ChargesPlan is a [Plan] that can list what counts against a key. It is optional, and a store that wraps another
// need not pass it on: [Limiter.Charges] is for people who look into a key, not for requests.
type ChargesPlan interface {
	Plan

	// Charges returns for each limit, in their order, the charges that count now, oldest first: of each limit the most
	// oldest. It changes nothing.
	Charges(ctx context.Context, key string, most int) ([][]Charge, error)
}

// Charges returns what counts against a key: for each limit, in declared order, its charges from the oldest on, which
// is the first to leave, and no more than most of each. A limit of which nothing counts has none, and so have
// [Unlimited] and [Blocked] as a whole. It changes nothing, and takes time with what is held: it is for looking into a
// key, not for deciding.
//
// The error is [ErrInvalidKey] for an empty key, wraps [errors.ErrUnsupported] if the store cannot list charges, and
// wraps [ErrUnavailable] if it could not be asked. A store that wraps another may not be able to where the other is.
func (l *Limiter) Charges(ctx context.Context, key string, most int) ([][]Charge, error) {
	if key == "" {
		return nil, ErrInvalidKey
	}
	if l.plan == nil {
		return nil, nil
	}
	lister, ok := l.plan.(ChargesPlan)
	if !ok {
		return nil, fmt.Errorf("slidegate: %w: the store cannot list charges", errors.ErrUnsupported)
	}
	return lister.Charges(ctx, key, max(0, most))
}
