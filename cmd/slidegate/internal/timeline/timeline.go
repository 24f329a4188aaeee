// Package timeline puts the requests of a log in the order of time.
//
//	log, err := accesslog.Open(accesslog.Options{Files: files, Stdin: os.Stdin})
//	...
//	defer log.Close()
//	tl, err := timeline.Read(ctx, log, subjects, timeline.Options{})
//	...
//	defer tl.Close()
//	if err := tl.Each(ctx, func(e *timeline.Event) error {
//		... // tl.Subjects.Name(e.Subject) did it at e.Time
//	}); err != nil {
//	...
//	if err := log.Failed(); err != nil {
//		... // after the report: a file was cut short, and what was read of it counts
//	}
//
// What it holds is what is counted, each distinct subject once, and a bounded number of events; the rest is
// in a temporary file of a few bytes an event, which no directory lists.
package timeline

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
)

// An Event is one request: 32 bytes, no pointer.
type Event struct {
	Time    int64 // milliseconds since 1970
	Cost    int64 // units
	Subject uint32
	pos     uint32 // its place among events out of order, so that ties stay in that of the log
	Op      accesslog.Op
}

// Subjects numbers distinct subjects, from 0, in the order in which the log has them. It grows with their
// number, not with the log.
type Subjects struct {
	ids   map[string]uint32
	names []string
}

// Number returns the number of a subject, a new one for one that was not seen before.
func (s *Subjects) Number(subject []byte) uint32 {
	if id, ok := s.ids[string(subject)]; ok {
		return id
	}
	if s.ids == nil {
		s.ids = map[string]uint32{}
	}
	id, name := uint32(len(s.names)), string(subject)
	s.ids[name] = id
	s.names = append(s.names, name)
	return id
}

// Name returns the subject of a number.
func (s *Subjects) Name(number uint32) string { return s.names[number] }

// Len returns how many subjects there are.
func (s *Subjects) Len() int { return len(s.names) }

// Options of [Read].
type Options struct {
	// Chunk is how many events are held in memory. Default: 1,048,576, which are 32 MiB.
	Chunk int

	// Spread sets the events of one second apart evenly, in their order, where the log has whole seconds
	// alone. Default: they are all at its beginning.
	Spread bool
}

// A Timeline is the events of a log in the order of time, those of one time in the order of the log.
type Timeline struct {
	Subjects Subjects

	sorter      *sorter
	spread      bool
	event       Event
	partSeconds bool // an event's time is no whole second
}

// Read reads a log. The error is that of ctx, of a line where the log is read strictly, or of the temporary
// file. There is nothing to close then.
func Read(ctx context.Context, log *accesslog.Log, subjects func() accesslog.Subject, o Options) (*Timeline, error) {
	t := New(o)
	if err := log.Read(ctx, subjects, t.Add); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// New returns a timeline without events.
func New(o Options) *Timeline {
	if o.Chunk == 0 {
		o.Chunk = chunkEvents
	}
	return &Timeline{sorter: newSorter(o.Chunk), spread: o.Spread}
}

// Add takes in an entry. Nothing may be added after [Timeline.Each].
func (t *Timeline) Add(e *accesslog.Entry) error {
	t.partSeconds = t.partSeconds || e.Time%1000 != 0
	return t.sorter.add(t.Event(e))
}

// Event returns an entry as an event, which is good until the next one.
func (t *Timeline) Event(e *accesslog.Entry) *Event {
	t.event = Event{Time: e.Time, Cost: e.Cost, Op: e.Op, Subject: t.Subjects.Number(e.Subject)}
	return &t.event
}

// Close gives back what the timeline holds, its temporary file first of all.
func (t *Timeline) Close() { t.sorter.close() }

// Len returns how many events there are.
func (t *Timeline) Len() int64 { return t.sorter.events }

// OutOfOrder returns how many events were earlier than one before them in the log.
func (t *Timeline) OutOfOrder() int64 { return t.sorter.outOfOrder }

// WholeSeconds tells whether no event has a time within a second, as is usual for access logs: bursts look
// worse than they were, since the requests of a second are all at its beginning, unless they were spread.
func (t *Timeline) WholeSeconds() bool { return t.Len() > 0 && !t.partSeconds }

// Spread tells whether the events of a second were set apart.
func (t *Timeline) Spread() bool { return t.spread && t.WholeSeconds() }

// Each calls f for every event in order, until f or ctx ends it with an error. It may be called again, and
// gives the same events.
func (t *Timeline) Each(ctx context.Context, f func(*Event) error) error {
	if t.Spread() {
		return t.eachSpread(ctx, f)
	}
	return t.sorter.each(ctx, f)
}

// eachSpread reads the events twice: ahead to count those of a second, and then to tell them.
func (t *Timeline) eachSpread(ctx context.Context, f func(*Event) error) error {
	ahead, err := t.sorter.merge()
	if err != nil {
		return err
	}
	second, n, i := int64(0), int64(0), int64(0)
	var spread Event
	return t.sorter.each(ctx, func(e *Event) error {
		if i == n {
			second, n, i = e.Time, 0, 0
			for len(ahead) > 0 && ahead[0].next.Time == second {
				n++
				if err := ahead.advance(); err != nil {
					return t.sorter.failed(err)
				}
			}
			if n == 0 {
				return fmt.Errorf("the temporary file changed while it was read")
			}
		}
		spread = *e
		spread.Time += i * 1000 / n
		i++
		return f(&spread)
	})
}
