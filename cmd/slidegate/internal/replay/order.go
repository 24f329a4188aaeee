package replay

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	// chunkEvents is how many events are held in memory at most: 32 MiB of them.
	chunkEvents = 1 << 20

	// blockEvents is how many events are read back at a time, of all runs together.
	blockEvents = 1 << 18

	recordSize = 21 // bytes of an event in the temporary file
)

// A sorter puts events in the order of time, those of one time in the order in which they came. It
// holds a chunk of them. When that is full it is sorted and appended to a temporary file; a chunk
// that begins no earlier than the one before ended continues its run, otherwise it begins a new
// one, and in the end the runs are merged. So what is held does not grow with the length of a log
// that is sorted: it is one run, however long, read back from front to back. A log that is not
// costs a buffer for each of its runs, at least blockMin events. A log that fits in one chunk meets
// no file at all.
type sorter struct {
	chunk  []event
	size   int   // of a full chunk
	before bool  // an event of the chunk is earlier than one before it
	latest int64 // time of the latest event of all

	// outOfOrder counts events that are earlier than one before them.
	outOfOrder int64
	events     int64

	runs    []stretch
	last    int64 // time of the last event in the file
	file    *os.File
	w       *bufio.Writer
	written int64 // events in the file
}

// A stretch of the file is one run: sorted from its first event to its last.
type stretch struct{ from, events int64 }

func newSorter(size int) *sorter { return &sorter{size: size} }

func (s *sorter) add(e *event) error {
	if len(s.chunk) == s.size {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.events > 0 && e.t < s.latest {
		s.outOfOrder++
		s.before = true
	} else {
		s.latest = e.t
	}
	if s.chunk == nil {
		s.chunk = make([]event, 0, s.size)
	}
	e.pos = uint32(len(s.chunk))
	s.chunk = append(s.chunk, *e)
	s.events++
	return nil
}

func (s *sorter) sortChunk() {
	if !s.before {
		return
	}
	slices.SortFunc(s.chunk, func(a, b event) int {
		if a.t != b.t {
			return cmp.Compare(a.t, b.t)
		}
		return cmp.Compare(a.pos, b.pos)
	})
	s.before = false
}

// spill moves the chunk to the file.
func (s *sorter) spill() error {
	s.sortChunk()
	if err := s.open(); err != nil {
		return err
	}
	if s.written == 0 || s.chunk[0].t < s.last {
		s.runs = append(s.runs, stretch{from: s.written})
	}
	var record [recordSize]byte
	for i := range s.chunk {
		s.chunk[i].encode(&record)
		if _, err := s.w.Write(record[:]); err != nil {
			return s.failed(err)
		}
	}
	n := int64(len(s.chunk))
	s.runs[len(s.runs)-1].events += n
	s.written += n
	s.last = s.chunk[n-1].t
	s.chunk = s.chunk[:0]
	return nil
}

func (s *sorter) open() (err error) {
	if s.file != nil {
		return nil
	}
	if s.file, err = os.CreateTemp("", "slidegate-replay-*"); err != nil {
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
func (s *sorter) each(f func(*event) error) error {
	s.sortChunk()
	if s.w != nil {
		if err := s.w.Flush(); err != nil {
			return s.failed(err)
		}
	}
	block := max(blockMin, blockEvents/(len(s.runs)+1))
	var m merge
	for i, r := range s.runs {
		m = append(m, &cursor{order: i, file: s.file, at: r.from * recordSize, left: r.events, block: block})
	}
	m = append(m, &cursor{order: len(s.runs), events: s.chunk})
	if err := m.start(); err != nil {
		return s.failed(err)
	}
	for len(m) > 0 {
		if err := f(&m[0].events[0]); err != nil {
			return err
		}
		if err := m.advance(); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

const blockMin = 256

// A cursor stands in a run. Its first event is the next one.
type cursor struct {
	order  int // of the run in the log
	events []event
	buf    []event
	raw    []byte
	file   io.ReaderAt
	at     int64 // where the rest of the run is in the file, in bytes
	left   int64 // events of the rest
	block  int   // events read at a time
}

// fill reads on where the events at hand are used up.
func (c *cursor) fill() error {
	if len(c.events) > 0 || c.left == 0 {
		return nil
	}
	if c.buf == nil {
		c.buf, c.raw = make([]event, c.block), make([]byte, c.block*recordSize)
	}
	n := int(min(int64(c.block), c.left))
	if _, err := c.file.ReadAt(c.raw[:n*recordSize], c.at); err != nil {
		return err
	}
	c.events = c.buf[:n]
	for i := range c.events {
		c.events[i].decode((*[recordSize]byte)(c.raw[i*recordSize:]))
	}
	c.at += int64(n) * recordSize
	c.left -= int64(n)
	return nil
}

// A merge is a heap of cursors that have a next event, the earliest at its root.
type merge []*cursor

func (m *merge) start() error {
	all := *m
	*m = all[:0]
	for _, c := range all {
		if err := c.fill(); err != nil {
			return err
		}
		if len(c.events) > 0 {
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
	c := (*m)[0]
	c.events = c.events[1:]
	if err := c.fill(); err != nil {
		return err
	}
	if len(c.events) == 0 {
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
	if a, b := c.events[0].t, d.events[0].t; a != b {
		return a < b
	}
	return c.order < d.order
}

func (e *event) encode(b *[recordSize]byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(e.t))
	binary.LittleEndian.PutUint64(b[8:], uint64(e.cost))
	binary.LittleEndian.PutUint32(b[16:], e.key)
	b[20] = byte(e.op)
}

func (e *event) decode(b *[recordSize]byte) {
	e.t = int64(binary.LittleEndian.Uint64(b[0:]))
	e.cost = int64(binary.LittleEndian.Uint64(b[8:]))
	e.key = binary.LittleEndian.Uint32(b[16:])
	e.op = op(b[20])
}
