package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// maxLine is the longest line that is read, in bytes; what is longer is unreadable.
	maxLine = 1 << 20

	// blockSize is how much text is taken apart at a time, in bytes, unless a line is longer.
	blockSize = 256 << 10
)

var (
	newline, carriageReturn = []byte{'\n'}, []byte{'\r'}

	errLongLine = fmt.Errorf("the line is longer than %d bytes", maxLine)

	// ErrSkip is returned by a [Subject] for a record that is to be passed over, and is no fault.
	ErrSkip = errors.New("skipped")
)

// Options say what is read and how.
type Options struct {
	Files []string  // names, patterns, or - for standard input; at least one
	Stdin io.Reader // what - stands for

	Format Format // nil: told for each file from its first lines
	Fields Fields // what fields are, where the format is told from the lines
	Strict bool   // a line that cannot be read ends the reading with an error

	// Brief says that subjects ask for nothing but the time and the address of a record, or what an event has: the
	// rest may be missing, and is where that saves time.
	Brief bool

	// Progress is told how many bytes came from a file, from another goroutine. nil: nobody is.
	Progress func(n int)

	// Idle is called before Read waits for lines, so that who writes a line and waits for what comes of
	// it gets it. nil: nothing is.
	Idle func()
}

// A Subject appends to b what the record counts as, and returns it. An error makes the line
// unreadable, for the reason it gives; ErrSkip passes over the record.
type Subject func(r *Record, b []byte) ([]byte, error)

// ByAddress is the subject of an access log that is the client's address, and of an event its key.
func ByAddress(r *Record, b []byte) ([]byte, error) {
	if r.Key != nil {
		return append(b, r.Key...), nil
	}
	return append(b, r.Address...), nil
}

// An Entry is what is left of a record: when, and what the subject made of it.
type Entry struct {
	Time    int64 // milliseconds since 1970
	Op      Op
	Cost    int64
	Subject []byte // valid until the entry has been taken
}

// A BadLine is a line that could not be read.
type BadLine struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

func (b BadLine) String() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// BadLines are the lines that could not be read: how many, and the first few of them.
type BadLines struct {
	Count int64
	First []BadLine
}

const firstBad = 5

func (b *BadLines) add(more *BadLines) {
	b.Count += more.Count
	b.First = append(b.First, more.First[:min(len(more.First), firstBad-len(b.First))]...)
}

func (b *BadLines) line(file string, line int64, reason error) {
	if b.Count++; len(b.First) < firstBad {
		b.First = append(b.First, BadLine{file, line, reason.Error()})
	}
}

// A Log is files that are read as one, each from its beginning, in the order of their first requests, those of
// one time in the order in which they were named. Files in which none was found come first.
type Log struct {
	asked    Format
	fields   Fields
	strict   bool
	brief    bool
	stdin    io.Reader
	progress func(n int)
	idle     func()

	files   []*file
	closers []io.Closer
	bad     BadLines
	skipped int64
	failed  []error
}

// Open looks at the files of a log. The error names a file that cannot be read, or whose format cannot be
// told, or events beside access logs, whose subjects have nothing to do with each other. Close it when it
// has been read.
func Open(o Options) (*Log, error) {
	names, err := Names(o.Files)
	if err != nil {
		return nil, err
	}
	l := &Log{asked: o.Format, fields: o.Fields, strict: o.Strict, brief: o.Brief, stdin: o.Stdin, progress: o.Progress, idle: o.Idle}
	if l.progress == nil {
		l.progress = func(int) {}
	}
	if l.idle == nil {
		l.idle = func() {}
	}
	for _, name := range names {
		f, err := l.look(name)
		if err == nil {
			err = l.fits(f)
		}
		if err != nil {
			l.Close()
			return nil, err
		}
		l.files = append(l.files, f)
	}
	slices.SortStableFunc(l.files, func(a, b *file) int { return cmp.Compare(a.first, b.first) })
	return l, nil
}

func (l *Log) fits(f *file) error {
	for _, before := range l.files {
		if f.format != nil && before.format != nil && (f.format == Events) != (before.format == Events) {
			return fmt.Errorf("%s is %s and %s is %s: their keys have nothing to do with each other, read them apart", f.name, f.format, before.name, before.format)
		}
	}
	return nil
}

// Close closes what is open. It may be called at any time and again.
func (l *Log) Close() {
	for _, c := range l.closers {
		_ = c.Close() // they were read alone
	}
	l.closers = nil
}

// Files returns the names of the files in the order in which they are read.
func (l *Log) Files() (names []string) {
	for _, f := range l.files {
		names = append(names, f.name)
	}
	return names
}

// Format returns what the files are written in, each format once; auto where no file has a line.
func (l *Log) Format() string {
	var all []string
	for _, f := range l.files {
		if f.format != nil && !slices.Contains(all, f.format.String()) {
			all = append(all, f.format.String())
		}
	}
	if len(all) == 0 {
		return "auto"
	}
	return strings.Join(all, ", ")
}

// Fields returns which field of the log was taken for the time, the ip, the path and so on, where names tell
// it: in JSON and in columns, as the first line of the first file has it. It is empty otherwise.
func (l *Log) Fields() map[string]string {
	for _, f := range l.files {
		if d, ok := f.format.(described); ok {
			return d.describe()
		}
	}
	return nil
}

// Guessed tells whether a format was told from the lines of a file.
func (l *Log) Guessed() bool {
	return slices.ContainsFunc(l.files, func(f *file) bool { return f.guessed })
}

// HasEvents tells whether the log is one of events, with keys, ops and costs of their own.
func (l *Log) HasEvents() bool {
	return slices.ContainsFunc(l.files, func(f *file) bool { return f.format == Events })
}

// Size returns the bytes of all files as they lie there, packed or not; -1 where one has no size.
func (l *Log) Size() (total int64) {
	for _, f := range l.files {
		if f.size < 0 {
			return -1
		}
		total += f.size
	}
	return total
}

// Bad returns the lines that could not be read.
func (l *Log) Bad() BadLines { return l.bad }

// Skipped returns how many records were passed over by ErrSkip.
func (l *Log) Skipped() int64 { return l.skipped }

// Failed is an error if a file could not be read to its end, as one that was cut short while it was
// packed: what was read before counts, and a report should say so.
func (l *Log) Failed() error { return errors.Join(l.failed...) }

// CutShort returns the errors of [Log.Failed], one for each file.
func (l *Log) CutShort() []error { return l.failed }

// A block is some lines of a file, and what becomes of them.
type block struct {
	file  *file
	first int64 // number of its first line
	text  []byte
	long  bool // one line instead, which is too long

	entries  []entry
	subjects []byte
	bad      BadLines
	skipped  int64
	parsed   chan struct{}

	failed error // the file could not be read on
}

type entry struct {
	t, cost  int64
	from, to int32
	op       Op
}

// Read reads the log. subjects is called for each of the goroutines that take lines apart, and what it
// returns by that one alone. take is called for each record in the order of the log, by the goroutine that
// called Read, and ends the reading by an error, as does the end of ctx. Read may be called once.
func (l *Log) Read(ctx context.Context, subjects func() Subject, take func(*Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	workers := runtime.GOMAXPROCS(0)
	p := pipeline{
		free:    make(chan *block, 3*workers+1),
		work:    make(chan *block, 3*workers+1),
		ordered: make(chan *block, 3*workers+1),
	}
	for range cap(p.free) {
		p.free <- &block{parsed: make(chan struct{}, 1)}
	}
	var parsing sync.WaitGroup
	for range workers {
		subject := subjects()
		parsing.Go(func() {
			w := worker{subject: subject, brief: l.brief}
			for b := range p.work {
				w.parse(b)
				b.parsed <- struct{}{}
			}
		})
	}
	// It is not waited for: it may be reading from somebody who writes nothing.
	go p.split(ctx, l)
	err := l.consume(ctx, &p, take)
	cancel()
	if err == nil {
		parsing.Wait()
	}
	return err
}

func (l *Log) consume(ctx context.Context, p *pipeline, take func(*Entry) error) error {
	for {
		var b *block
		var more bool
		select {
		case b, more = <-p.ordered:
		default:
			l.idle()
			select {
			case b, more = <-p.ordered:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if !more {
			return ctx.Err()
		}
		if b.failed != nil {
			l.failed = append(l.failed, b.failed)
		} else {
			<-b.parsed
			if err := l.takeBlock(b, take); err != nil {
				return err
			}
		}
		p.free <- b
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (l *Log) takeBlock(b *block, take func(*Entry) error) error {
	l.bad.add(&b.bad)
	l.skipped += b.skipped
	if l.strict && b.bad.Count > 0 {
		return errors.New(b.bad.First[0].String())
	}
	var e Entry
	for i := range b.entries {
		s := &b.entries[i]
		e = Entry{Time: s.t, Op: s.op, Cost: s.cost, Subject: b.subjects[s.from:s.to:s.to]}
		if err := take(&e); err != nil {
			return err
		}
	}
	return nil
}

// A pipeline is where blocks go round.
type pipeline struct {
	free, work, ordered chan *block
}

// split reads the files into blocks of whole lines.
func (p *pipeline) split(ctx context.Context, l *Log) {
	defer close(p.ordered)
	defer close(p.work)
	for _, f := range l.files {
		if f.format == nil {
			continue
		}
		text, closer, err := f.open(l)
		if err != nil {
			p.fail(ctx, err)
			continue
		}
		s := splitter{file: f, r: text, line: 1}
		for err == nil {
			var b *block
			select {
			case b = <-p.free:
			case <-ctx.Done():
			}
			if b == nil || ctx.Err() != nil {
				closer.Close()
				return
			}
			if err = s.next(b); s.empty(b) {
				p.free <- b
				continue
			}
			p.work <- b
			p.ordered <- b
		}
		closer.Close()
		if err != io.EOF {
			p.fail(ctx, fmt.Errorf("%w after line %d", cannotRead(f.name, err), s.line-1))
		}
	}
}

func (p *pipeline) fail(ctx context.Context, err error) {
	select {
	case b := <-p.free:
		b.failed = err
		p.ordered <- b
	case <-ctx.Done():
	}
}

// A splitter cuts a text into blocks.
type splitter struct {
	file *file
	r    *bufio.Reader
	line int64  // number of the next line
	rest []byte // the beginning of a line
	long bool   // what comes is the rest of a line that is too long
}

func (s *splitter) empty(b *block) bool { return len(b.text) == 0 && !b.long }

// next reads a block. With an error there may be one as well: the last.
func (s *splitter) next(b *block) error {
	b.file, b.first, b.long, b.failed = s.file, s.line, false, nil
	if cap(b.text) < blockSize {
		b.text = make([]byte, 0, blockSize)
	}
	b.text = append(b.text[:0], s.rest...)
	s.rest = s.rest[:0]
	if end := bytes.LastIndexByte(b.text, '\n'); end >= 0 {
		s.cut(b, 0, end+1)
		return nil
	}
	for {
		if len(b.text) == maxLine {
			s.long, b.text = true, b.text[:0]
		}
		if len(b.text) == cap(b.text) {
			b.text = slices.Grow(b.text, min(cap(b.text), maxLine-len(b.text)))
		}
		from := len(b.text)
		n, err := s.r.Read(b.text[from:min(cap(b.text), maxLine)])
		b.text = b.text[:from+n]
		if end := bytes.LastIndexByte(b.text[from:], '\n'); end >= 0 {
			s.cut(b, from, from+end+1)
			if err == nil {
				return nil
			}
		}
		if err != nil {
			return s.end(b, err)
		}
	}
}

// cut keeps what follows the last line for the next block.
func (s *splitter) cut(b *block, from, end int) {
	s.rest = append(s.rest, b.text[end:]...)
	b.text = b.text[:end]
	if s.long {
		// The long line is a block of its own, and what follows it in this read another.
		line := from + bytes.IndexByte(b.text[from:], '\n') + 1
		s.rest = append(bytes.Clone(b.text[line:end]), s.rest...)
		b.long, s.long, b.text = true, false, b.text[:0]
		s.line++
		return
	}
	s.line += int64(bytes.Count(b.text, newline))
}

// end makes a line of what the text ended with, unless it was cut off by an error.
func (s *splitter) end(b *block, err error) error {
	switch {
	case len(s.rest) > 0 && (err == io.EOF || bytes.IndexByte(s.rest, '\n') >= 0):
		return nil // there is one more block, and the error comes again
	case len(b.text) > 0 && b.text[len(b.text)-1] == '\n':
	case s.long:
		b.long, b.text = true, b.text[:0]
		s.line++
	case err == io.EOF && len(b.text) > 0:
		s.line++
	default:
		b.text = b.text[:0]
	}
	return err
}

// A worker takes blocks apart.
type worker struct {
	subject Subject
	brief   bool
	format  Format
	parser  Parser
	record  Record
}

func (w *worker) parse(b *block) {
	b.entries, b.subjects, b.bad, b.skipped = b.entries[:0], b.subjects[:0], BadLines{}, 0
	if b.long {
		b.bad.line(b.file.name, b.first, errLongLine)
		return
	}
	if w.format != b.file.format {
		w.format, w.parser = b.file.format, newParser(b.file.format, w.brief)
	}
	w.record.File, w.record.Line = b.file.name, b.first
	for text := b.text; len(text) > 0; w.record.Line++ {
		var line []byte
		line, text, _ = bytes.Cut(text, newline)
		line = bytes.TrimSuffix(line, carriageReturn)
		if isBlank(line) || w.record.Line == b.file.header {
			continue
		}
		if err := w.parseLine(b, line); err == ErrSkip {
			b.skipped++
		} else if err != nil {
			b.bad.line(b.file.name, w.record.Line, err)
		}
	}
}

func (w *worker) parseLine(b *block, line []byte) error {
	r := &w.record
	if err := w.parser.Parse(line, r); err != nil {
		return err
	}
	from := len(b.subjects)
	with, err := w.subject(r, b.subjects)
	if err != nil {
		return err
	}
	b.subjects = with
	b.entries = append(b.entries, entry{r.Time, r.Cost, int32(from), int32(len(with)), r.Op})
	return nil
}

func isBlank(line []byte) bool {
	return len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0
}

// Sentence tells of all of them.
func (b BadLines) Sentence() string {
	parts := make([]string, len(b.First))
	for i, line := range b.First {
		parts[i] = line.String()
	}
	s := fmt.Sprintf("unreadable lines: %s: %s", thousands(b.Count), strings.Join(parts, "; "))
	if more := b.Count - int64(len(b.First)); more > 0 {
		s += "; and " + thousands(more) + " more"
	}
	return s
}

// thousands writes 28208 as 28,208.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
