package replay

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/redisstore"
)

// A run is one call of the command, checked.
type run struct {
	files    []string
	limits   []slidegate.Limit // with their names
	format   format
	verdicts bool
	json     bool
	chunk    int // events in memory at most

	redis   *storage.Redis // nil for memory
	drawn   bool           // its prefix was
	cleanUp bool

	stdin          io.Reader
	stdout, stderr io.Writer
}

func (r *run) do(ctx context.Context) error {
	l := newLog(r.files, r.stdin, r.format)
	s := newSorter(r.chunk)
	defer s.close()
	r.note()
	if r.verdicts {
		return r.printVerdicts(ctx, l, s)
	}
	return r.printReport(ctx, l, s)
}

// note says where the state is, if nobody could know, and what to mind.
func (r *run) note() {
	switch {
	case r.redis == nil:
	case r.drawn && !r.cleanUp:
		fmt.Fprintf(r.stderr, "slidegate: the state is in %s under %s:{…}; the keys expire by themselves, and --store-cleanup removes them at the end\n", r.redis.Address, r.redis.Prefix)
	case r.redis.Prefix == redisstore.DefaultPrefix || r.redis.IsPrefixFromVariable:
		fmt.Fprintf(r.stderr, "slidegate: the prefix %s may be that of live keys: what counts now and what is replayed would be mixed\n", r.redis.Prefix)
	}
}

// player returns what decides, and tells what came of it.
func (r *run) player(ctx context.Context, k *keys, maxKeys int, tell outcome) (player, error) {
	if r.redis == nil {
		return newMemoryPlayer(ctx, r.limits, k, maxKeys, tell)
	}
	p, err := newRedisPlayer(ctx, r.redis, r.limits, k, tell)
	if err != nil {
		return nil, err
	}
	p.cleanUp = r.cleanUp
	return p, nil
}

// end ends a player, and adds what it says to the error of the replay.
func end(p player, err error) error {
	ended := p.end()
	if err != nil && ended != nil {
		return fmt.Errorf("%w; %w", err, ended)
	}
	return cmp.Or(err, ended)
}

func (r *run) printReport(ctx context.Context, l *log, s *sorter) error {
	reading := newMeter(r.stderr, "reading", totalSize(r.files), true)
	l.progress = reading.add
	err := l.read(s.add)
	reading.done()
	if err != nil {
		return err
	}
	t := newTally(len(l.keys.names))
	p, err := r.player(ctx, l.keys, max(1, len(l.keys.names)), t.count)
	if err != nil {
		return err
	}
	deciding := newMeter(r.stderr, "deciding", s.events, false)
	err = s.each(func(e *event) error {
		deciding.add(1)
		return p.play(e)
	})
	if err == nil {
		err = p.flush()
	}
	deciding.done()
	if err = end(p, err); err != nil {
		return err
	}
	report := newReport(l, s, r.limits, t)
	if r.json {
		err = report.printJSON(r.stdout)
	} else {
		err = report.print(r.stdout)
	}
	if err != nil {
		return err
	}
	return l.nothingRead()
}

// printVerdicts prints events as they are read where they are replayed in the order of the file,
// and says on stderr what the verdicts leave out.
func (r *run) printVerdicts(ctx context.Context, l *log, s *sorter) error {
	out := bufio.NewWriterSize(r.stdout, 64<<10)
	v := verdicts{keys: l.keys, out: out}
	p, err := r.player(ctx, l.keys, manyKeys, v.print)
	if err != nil {
		return err
	}
	// Who waits for a verdict gets it before more is read. An error comes again at the next event.
	l.blocks = func() {
		_ = p.flush()
		out.Flush()
	}
	err = l.read(func(e *event) error {
		if l.format != jsonl {
			return s.add(e)
		}
		p.timeMayRunBack()
		return p.play(e)
	})
	if err == nil {
		err = s.each(p.play)
	}
	if err == nil {
		err = p.flush()
	}
	if flush := out.Flush(); err == nil {
		err = flush
	}
	ended := end(p, err)
	if err != nil {
		return ended
	}
	if l.guessed {
		fmt.Fprintf(r.stderr, "slidegate: read as %s, told from the first lines\n", l.format)
	}
	if l.bad.count > 0 {
		fmt.Fprintf(r.stderr, "slidegate: %s\n", l.bad.sentence())
	}
	if ended != nil {
		return ended
	}
	return l.nothingRead()
}
