package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/slidegate/slidegate"
)

// A run is one call of the command, checked.
type run struct {
	files    []string
	limits   []slidegate.Limit
	format   format
	verdicts bool
	json     bool
	chunk    int // events in memory at most

	stdin          io.Reader
	stdout, stderr io.Writer
}

func (r *run) do(ctx context.Context) error {
	l := newLog(r.files, r.stdin, r.format)
	s := newSorter(r.chunk)
	defer s.close()
	if r.verdicts {
		return r.printVerdicts(ctx, l, s)
	}
	return r.printReport(ctx, l, s)
}

func (r *run) printReport(ctx context.Context, l *log, s *sorter) error {
	reading := newMeter(r.stderr, "reading", totalSize(r.files), true)
	l.progress = reading.add
	err := l.read(s.add)
	reading.done()
	if err != nil {
		return err
	}
	p, err := newPlayer(ctx, r.limits, l.keys, max(1, len(l.keys.names)))
	if err != nil {
		return err
	}
	t := newTally(len(l.keys.names))
	deciding := newMeter(r.stderr, "deciding", s.events, false)
	err = s.each(func(e *event) error {
		deciding.add(1)
		d, fits, err := p.play(e)
		t.count(e, &d, fits)
		return err
	})
	deciding.done()
	if err != nil {
		return err
	}
	if err := p.forgot(); err != nil {
		return err
	}
	report := newReport(l, s, p, t)
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
	p, err := newPlayer(ctx, r.limits, l.keys, manyKeys)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(r.stdout, 64<<10)
	v := verdicts{player: p, out: out}
	l.blocks = func() { out.Flush() } // an error comes again at the next verdict
	err = l.read(func(e *event) error {
		if l.format != jsonl {
			return s.add(e)
		}
		p.keepAll()
		return v.print(e)
	})
	if err == nil {
		err = s.each(v.print)
	}
	if flush := out.Flush(); err == nil {
		err = flush
	}
	if err != nil {
		return err
	}
	if l.guessed {
		fmt.Fprintf(r.stderr, "slidegate: read as %s, told from the first lines\n", l.format)
	}
	if l.bad.count > 0 {
		fmt.Fprintf(r.stderr, "slidegate: %s\n", l.bad.sentence())
	}
	if err := p.forgot(); err != nil {
		return err
	}
	return l.nothingRead()
}
