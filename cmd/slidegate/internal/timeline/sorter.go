package timeline

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
)

const (
	// chunkEvents is how many events are held in memory: 32 MiB of them.
	chunkEvents = 1 << 20

	// readAhead is how much is read back at a time, of all runs together, and of one at least, in bytes.
	readAhead, readAheadMin = 4 << 20, 4 << 10

	// ctxEvery is how many events pass between two looks at whether somebody wants to stop.
	ctxEvery = 1 << 12
)

// A sorter puts events in the order of time, those of one time in the order in which they came. It holds a
// chunk of them. When that is full, the earlier half goes to a temporary file, in order. A half that begins no
// earlier than the one before ended continues its run; otherwise it begins a new one, and in the end
// the runs are merged. So events may be out of order by half a chunk and there is one run, however long, read
// back from front to back. A log in worse order costs a buffer for each of its runs. One that fits in a
// chunk meets no file at all.
type sorter struct {
	size  int     // of a full chunk
	chunk []Event // in order
	late  []Event // earlier than one before them, as they came

	latest     int64 // time of the latest event of all
	outOfOrder int64 // events that were late
	events     int64

	runs    []run
	last    int64 // time of the last event in the file
	file    *os.File
	w       *bufio.Writer
	written int64 // bytes in the file
	record  []byte
}

// A run is a part of the file: in order from its first event to its last, each written by its distance in
// time from the one before.
type run struct{ from, to int64 }

func newSorter(size int) *sorter { return &sorter{size: max(2, size)} }

func (s *sorter) add(e *Event) error {
	if len(s.chunk)+len(s.late) >= s.size {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.events++; s.events == 1 || e.Time >= s.latest {
		s.latest = e.Time
		if s.chunk == nil {
			s.chunk = make([]Event, 0, s.size)
		}
		s.chunk = append(s.chunk, *e)
		return nil
	}
	s.outOfOrder++
	e.pos = uint32(len(s.late))
	s.late = append(s.late, *e)
	return nil
}

// settle sorts the late events into the chunk. An event of the chunk came before every late one of the same
// time: what comes after a late one is in the chunk only if it is later.
func (s *sorter) settle() {
	if len(s.late) == 0 {
		return
	}
	slices.SortFunc(s.late, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.pos, b.pos))
	})
	i, j := len(s.chunk)-1, len(s.late)-1
	s.chunk = append(s.chunk, s.late...)
	for k := len(s.chunk) - 1; j >= 0; k-- {
		if i >= 0 && s.chunk[i].Time > s.late[j].Time {
			s.chunk[k] = s.chunk[i]
			i--
		} else {
			s.chunk[k] = s.late[j]
			j--
		}
	}
	s.late = s.late[:0]
}

// spill moves the earlier half of the chunk to the file.
func (s *sorter) spill() error {
	s.settle()
	if err := s.open(); err != nil {
		return err
	}
	n := len(s.chunk) / 2
	if len(s.runs) == 0 || s.chunk[0].Time < s.last {
		s.runs = append(s.runs, run{s.written, s.written})
		s.last = 0
	}
	for i := range s.chunk[:n] {
		s.record = s.chunk[i].encode(s.record[:0], s.last)
		s.last = s.chunk[i].Time
		if _, err := s.w.Write(s.record); err != nil {
			return s.failed(err)
		}
		s.written += int64(len(s.record))
	}
	s.runs[len(s.runs)-1].to = s.written
	s.chunk = s.chunk[:copy(s.chunk, s.chunk[n:])]
	return nil
}

func (s *sorter) open() (err error) {
	if s.file != nil {
		return nil
	}
	if s.file, err = os.CreateTemp("", "slidegate-*"); err != nil {
		return s.failed(err)
	}
	os.Remove(s.file.Name()) // where an open file cannot be removed, close does it
	s.w = bufio.NewWriterSize(s.file, 256<<10)
	return nil
}

func (s *sorter) failed(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("the events of a long log are kept in a temporary file in %s, which failed: %w", os.TempDir(), err)
}

// close removes the temporary file.
func (s *sorter) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// each calls f for every event in order. Nothing may be added after it.
func (s *sorter) each(ctx context.Context, f func(*Event) error) error {
	m, err := s.merge()
	if err != nil {
		return err
	}
	var e Event
	for n := 0; len(m) > 0; n++ {
		if n%ctxEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e = m[0].next
		if err := f(&e); err != nil {
			return err
		}
		if err := m.advance(); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

// merge stands before the first event.
func (s *sorter) merge() (merge, error) {
	s.settle()
	if s.w != nil {
		if err := s.w.Flush(); err != nil {
			return nil, s.failed(err)
		}
	}
	ahead := max(readAheadMin, readAhead/(len(s.runs)+1))
	var m merge
	for i, r := range s.runs {
		m = append(m, &cursor{order: i, left: r.to - r.from, r: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.to-r.from), ahead)})
	}
	m = append(m, &cursor{order: len(s.runs), events: s.chunk})
	if err := m.start(); err != nil {
		return nil, s.failed(err)
	}
	return m, nil
}

// A cursor stands in a run, or in the chunk, at its next event.
type cursor struct {
	order int // of the run in the log
	next  Event

	events []Event // of the chunk, after next

	r    *bufio.Reader
	left int64 // bytes of the run that were not read
}

// step moves on to the next event; more is false at the end.
func (c *cursor) step() (more bool, err error) {
	if c.r == nil {
		if len(c.events) == 0 {
			return false, nil
		}
		c.next, c.events = c.events[0], c.events[1:]
		return true, nil
	}
	if c.left == 0 {
		return false, nil
	}
	b, err := c.r.Peek(int(min(maxRecord, c.left)))
	if err != nil {
		return false, err
	}
	n := c.next.decode(b, c.next.Time)
	if n <= 0 {
		return false, io.ErrUnexpectedEOF
	}
	_, err = c.r.Discard(n)
	c.left -= int64(n)
	return true, err
}

// A merge is a heap of cursors that have a next event, the earliest at its root.
type merge []*cursor

func (m *merge) start() error {
	all := *m
	*m = all[:0]
	for _, c := range all {
		more, err := c.step()
		if err != nil {
			return err
		}
		if more {
			*m = append(*m, c)
		}
	}
	for i := len(*m)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return nil
}

// advance moves on from the event at the root.
func (m *merge) advance() error {
	more, err := (*m)[0].step()
	if err != nil {
		return err
	}
	if !more {
		last := len(*m) - 1
		(*m)[0] = (*m)[last]
		*m = (*m)[:last]
	}
	m.sink(0)
	return nil
}

func (m merge) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(m) {
			return
		}
		if child+1 < len(m) && m[child+1].before(m[child]) {
			child++
		}
		if !m[child].before(m[i]) {
			return
		}
		m[i], m[child] = m[child], m[i]
		i = child
	}
}

func (c *cursor) before(d *cursor) bool {
	if c.next.Time != d.next.Time {
		return c.next.Time < d.next.Time
	}
	return c.order < d.order
}

// maxRecord is the longest that an event can be in the file, in bytes.
const maxRecord = 3 * binary.MaxVarintLen64

// encode appends an event as it is in the file: how long after the one before, who and what, and its cost
// where that is not 1.
func (e *Event) encode(b []byte, before int64) []byte {
	b = binary.AppendVarint(b, e.Time-before)
	what := uint64(e.Subject)<<3 | uint64(e.Op)<<1
	if e.Cost == 1 {
		return binary.AppendUvarint(b, what)
	}
	return binary.AppendVarint(binary.AppendUvarint(b, what|1), e.Cost)
}

// decode returns how many bytes the event takes, 0 or less if it is none.
func (e *Event) decode(b []byte, before int64) int {
	after, n := binary.Varint(b)
	if n <= 0 {
		return n
	}
	what, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return m
	}
	n += m
	*e = Event{Time: before + after, Cost: 1, Subject: uint32(what >> 3), Op: accesslog.Op(what >> 1 & 3)}
	if what&1 == 0 {
		return n
	}
	if e.Cost, m = binary.Varint(b[n:]); m <= 0 {
		return m
	}
	return n + m
}
