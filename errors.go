package slidegate

import (
	"errors"
	"fmt"
	"time"
)

// The errors of this package. A refusal is not among them: it is an answer.
var (
	// ErrInvalidLimit is wrapped by every error of a limit or an option that cannot be built.
	ErrInvalidLimit = errors.New("slidegate: invalid limit")

	// ErrInvalidKey is returned for an empty key: it would be one bucket for everybody.
	ErrInvalidKey = errors.New("slidegate: invalid key: a key must not be empty")

	// ErrUnavailable is wrapped, together with its cause, by the error of a store that could not
	// be asked. Whether to let the request pass is the caller's choice (fail open or closed).
	ErrUnavailable = errors.New("slidegate: store unavailable")

	// ErrBlocked is returned by Wait of a [Blocked] limiter: no wait would help.
	ErrBlocked = errors.New("slidegate: blocked")

	// ErrTooManyWaiters is returned by Wait when as many callers wait already as may.
	ErrTooManyWaiters = errors.New("slidegate: too many waiters")
)

// A CostError says that a cost can never fit: it is negative, or larger than the smallest quota.
// It is found before the store is asked, nothing is charged, and it is never a store failure:
// treat it as a refusal that no waiting will mend.
type CostError struct {
	Cost  int64 // as asked for
	Limit Limit // the limit with the smallest quota
}

func (e *CostError) Error() string {
	if e.Cost < 0 {
		return fmt.Sprintf("slidegate: cost %d: a cost must not be negative", e.Cost)
	}
	return fmt.Sprintf("slidegate: cost %d can never fit: limit %q admits at most %d per %s",
		e.Cost, e.Limit.Name, e.Limit.Quota, formatDuration(e.Limit.Window))
}

// A WaitError says that Wait would not be admitted before the deadline of its context. It
// unwraps to context.DeadlineExceeded; nothing was charged.
type WaitError struct {
	Need time.Duration // until the request would fit, were nothing else charged
	Left time.Duration // until the deadline
	err  error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("slidegate: needs to wait %s, the deadline is in %s", e.Need, e.Left)
}

func (e *WaitError) Unwrap() error { return e.err }
