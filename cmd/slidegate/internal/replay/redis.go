package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/redisstore"
)

const (
	// laneCount is how many events may be asked for at the same time.
	laneCount = 64

	// batchEvents is how many events are kept before they are decided.
	batchEvents = 4096
)

// A redisPlayer decides events in Redis, many at a time. The events of a key are all in one lane, which
// decides one after the other and has a clock of its own; keys know nothing of each other, so what
// comes of an event is the same as if all had been decided in their order.
type redisPlayer struct {
	ctx     context.Context
	redis   *storage.Redis
	client  *storage.Client
	keys    *timeline.Subjects
	tell    outcome
	cleanUp bool

	lanes   []lane
	kept    []kept
	written []bool // by key: a charge was admitted, or may have been
	err     error  // of a flush that had nobody to tell it
}

// A lane is the events of some keys.
type lane struct {
	limiter *slidegate.Limiter
	clock   clock
	todo    []int // indices of kept
}

// A clock stands at the time of an event, in milliseconds since 1970.
type clock struct{ now int64 }

// At implements [rehearse.Clock].
func (c *clock) At(now int64) { c.now = now }

func (c *clock) time() time.Time { return time.UnixMilli(c.now) }

// A kept event is decided with others.
type kept struct {
	event    timeline.Event
	decision slidegate.Decision
	fits     bool
	err      error
}

func newRedisPlayer(ctx context.Context, r *storage.Redis, limits []slidegate.Limit, k *timeline.Subjects, tell outcome) (*redisPlayer, error) {
	p := &redisPlayer{ctx: ctx, redis: r, client: r.Client(), keys: k, tell: tell, lanes: make([]lane, laneCount), kept: make([]kept, 0, batchEvents)}
	for i := range p.lanes {
		l := &p.lanes[i]
		store := redisstore.New(p.client, append(r.Options(), redisstore.WithClock(l.clock.time))...)
		var err error
		if l.limiter, err = slidegate.New(store, limits...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// timeMayRunBack changes nothing: with a clock that is not its own, Redis keeps what a limit holds for
// a day at least.
func (p *redisPlayer) timeMayRunBack() {}

func (p *redisPlayer) play(e *timeline.Event) error {
	p.kept = append(p.kept, kept{event: *e})
	if len(p.kept) < batchEvents {
		return p.err
	}
	return p.flush()
}

func (p *redisPlayer) flush() error {
	if p.err == nil {
		p.decideAll()
		p.err = p.tellAll()
	}
	p.kept = p.kept[:0]
	return p.err
}

// decideAll decides every kept event. A lane stops at its first error.
func (p *redisPlayer) decideAll() {
	for i := range p.kept {
		l := &p.lanes[p.kept[i].event.Subject%laneCount]
		l.todo = append(l.todo, i)
	}
	p.inLanes(func(l *lane) {
		for _, i := range l.todo {
			k := &p.kept[i]
			l.clock.At(k.event.Time)
			if k.decision, k.fits, k.err = rehearse.Ask(p.ctx, l.limiter, &k.event, p.keys.Name(k.event.Subject)); k.err != nil {
				break
			}
		}
		l.todo = l.todo[:0]
	})
}

// inLanes runs f for every lane with something to do, all at the same time.
func (p *redisPlayer) inLanes(f func(*lane)) {
	var all sync.WaitGroup
	for i := range p.lanes {
		if l := &p.lanes[i]; len(l.todo) > 0 {
			all.Go(func() { f(l) })
		}
	}
	all.Wait()
}

// tellAll tells of every event before the first that failed.
func (p *redisPlayer) tellAll() error {
	p.written = append(p.written, make([]bool, p.keys.Len()-len(p.written))...)
	var failed error
	for i := range p.kept {
		k := &p.kept[i]
		if k.event.Op == accesslog.Take && k.event.Cost > 0 && (k.decision.Allowed || k.err != nil) {
			p.written[k.event.Subject] = true
		}
		if failed == nil && k.err != nil {
			failed = about(p.redis, k.err)
		}
		if failed == nil {
			failed = p.tell(&k.event, &k.decision, k.fits)
		}
	}
	return failed
}

// about is an error of Redis that says which.
func about(r *storage.Redis, err error) error {
	if errors.Is(err, slidegate.ErrUnavailable) {
		return fmt.Errorf("--store %s: %w", r.Address, err)
	}
	return err
}

// end removes what was written, if it was asked to, also where the replay failed.
func (p *redisPlayer) end() error {
	defer p.client.Close()
	if !p.cleanUp {
		return nil
	}
	for id, written := range p.written {
		if written {
			l := &p.lanes[id%laneCount]
			l.todo = append(l.todo, id)
		}
	}
	// Whoever interrupts a run wants its keys gone as well.
	ctx := context.WithoutCancel(p.ctx)
	var mu sync.Mutex
	var failed error
	p.inLanes(func(l *lane) {
		for _, id := range l.todo {
			if err := l.limiter.Reset(ctx, p.keys.Name(uint32(id))); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
		}
	})
	if failed != nil {
		return notRemoved(p.redis, failed)
	}
	return nil
}

func notRemoved(r *storage.Redis, err error) error {
	return fmt.Errorf("--store-cleanup: keys under %s:{…} could not be removed, and will expire: %w", r.Prefix, about(r, err))
}
