package wrap

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate"
)

// An Op is what a store was asked.
type Op uint8

// The operations. What a limiter's Allow and a group's decisions ask is a take.
const (
	OpTake Op = iota
	OpPeek
	OpRefund
	OpReset
)

// String returns "take", "peek", "refund" or "reset".
func (o Op) String() string {
	switch o {
	case OpTake:
		return "take"
	case OpPeek:
		return "peek"
	case OpRefund:
		return "refund"
	case OpReset:
		return "reset"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// An Event is one call of a store.
type Event struct {
	Op      Op
	Allowed bool              // the verdict of a take or a peek
	Err     error             // why the store could not be asked, nil otherwise; also a caller's who gave up
	Cost    int64             // of a take or a peek; of a refund what was given back
	Took    time.Duration     // by the process clock
	Limits  []slidegate.Limit // that were asked, with their names; shared by all events of a plan, not to be modified
	Keys    []string          // who was asked for, if WithKeys says so: one, or of a group one for each part
}

// An ObserveOption changes how [Observe] builds a store.
type ObserveOption func(*ObservedStore)

// WithKeys puts the keys into the events; by default nobody is told of them. Keys are people: mind where they are written.
func WithKeys() ObserveOption { return func(o *ObservedStore) { o.keys = true } }

// An ObservedStore tells of each call of the store behind it. Make one with [Observe]. It is safe for concurrent use and
// needs no closing; the store behind it may.
type ObservedStore struct {
	store   slidegate.Store
	tell    func(Event)
	keys    bool
	invalid error // a store or a function that cannot be used
}

// Observe returns a store that asks another one and calls f after each call with what came of it, without the keys unless
// [WithKeys] says so. f runs on the caller's goroutine, for several callers at once; a panic of f is the caller's. It adds two
// looks at the clock and what f takes, and allocates nothing without keys.
//
// What is observed is what the store behind is asked: with [Denials] in front, the refusals that are remembered are not seen,
// and behind them, they are. A nil store or function is reported by [slidegate.New], with an error that wraps
// [slidegate.ErrInvalidLimit].
func Observe(store slidegate.Store, f func(Event), options ...ObserveOption) *ObservedStore {
	o := &ObservedStore{store: store, tell: f}
	if store == nil {
		o.invalid = fmt.Errorf("%w: observe: the store is nil: give the one to wrap", slidegate.ErrInvalidLimit)
	} else if f == nil {
		o.invalid = fmt.Errorf("%w: observe: the function is nil: give one to tell of events", slidegate.ErrInvalidLimit)
	}
	for _, option := range options {
		option(o)
	}
	return o
}

// ToLog returns a function for [Observe] that writes a line for each call: errors at slog.LevelWarn, refusals at
// slog.LevelInfo and the rest at slog.LevelDebug. While a store is attacked or away that is a line for each request: to be told of
// changes only, give a logger to [Circuit]. Where the level is off it costs next to nothing. A nil logger writes nothing.
func ToLog(l *slog.Logger) func(Event) {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return func(e Event) {
		ctx, level := context.Background(), e.level()
		if l.Enabled(ctx, level) {
			l.LogAttrs(ctx, level, "wrap: the store was asked", e.attributes()...)
		}
	}
}

func (e *Event) isVerdict() bool { return e.Op == OpTake || e.Op == OpPeek }

func (e *Event) level() slog.Level {
	switch {
	case e.Err != nil:
		return slog.LevelWarn
	case e.isVerdict() && !e.Allowed:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (e *Event) attributes() []slog.Attr {
	attributes := []slog.Attr{slog.String("op", e.Op.String()), slog.Any("limits", e.Limits), slog.Duration("took", e.Took)}
	if e.Op != OpReset {
		attributes = append(attributes, slog.Int64("cost", e.Cost))
	}
	switch {
	case e.Err != nil:
		attributes = append(attributes, slog.Any("error", e.Err))
	case e.isVerdict():
		attributes = append(attributes, slog.Bool("allowed", e.Allowed))
	}
	if e.Keys != nil {
		attributes = append(attributes, slog.Any("keys", e.Keys))
	}
	return attributes
}
