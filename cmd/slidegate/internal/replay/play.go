package replay

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A player decides events on a virtual clock, and tells what came of them in their order.
type player interface {
	// play decides an event, or keeps it to decide it with others.
	play(e *timeline.Event) error

	// flush decides what was kept.
	flush() error

	// end comes after the last event. It is an error if verdicts may be wrong.
	end() error

	// timeMayRunBack comes before the first event where they are in no order.
	timeMayRunBack()
}

// An outcome is told what came of an event, which it must not keep. A cost that can never fit is no
// failure: fits tells, and there is no decision.
type outcome func(e *timeline.Event, d *slidegate.Decision, fits bool) error

// A memoryPlayer decides one event after the other in memory.
type memoryPlayer struct {
	ctx      context.Context
	memory   *rehearse.Memory
	limiter  *slidegate.Limiter
	keys     *timeline.Subjects
	tell     outcome
	decision slidegate.Decision // here so that no event allocates one
}

func newMemoryPlayer(ctx context.Context, limits []slidegate.Limit, k *timeline.Subjects, maxKeys int, tell outcome) (*memoryPlayer, error) {
	p := &memoryPlayer{ctx: ctx, keys: k, tell: tell, memory: rehearse.NewMemory(rehearse.AsGiven, maxKeys)}
	var err error
	p.limiter, err = slidegate.New(p.memory.Store(), limits...)
	return p, err
}

func (p *memoryPlayer) timeMayRunBack() { p.memory.KeepIdle() }

func (p *memoryPlayer) play(e *timeline.Event) (err error) {
	p.memory.At(e.Time)
	var fits bool
	if p.decision, fits, err = rehearse.Ask(p.ctx, p.limiter, e, p.keys.Name(e.Subject)); err != nil {
		return err
	}
	return p.tell(e, &p.decision, fits)
}

func (p *memoryPlayer) flush() error { return nil }

func (p *memoryPlayer) end() error { return p.memory.Forgotten() }
