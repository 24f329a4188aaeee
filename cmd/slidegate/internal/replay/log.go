package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// A log is all files of a run, one after the other.
type log struct {
	files    []string
	stdin    io.Reader
	keys     *keys
	lines    *lineReader
	progress func(n int) // told how many bytes came from a file
	blocks   func()      // called before a read, which may wait for somebody to write

	format  format // of the file that was begun last; auto before the first
	asked   format // what the command was told
	guessed bool   // the format was told from the first lines
	bad     badLines
}

func newLog(files []string, stdin io.Reader, asked format) *log {
	return &log{
		files: files, stdin: stdin, asked: asked, keys: newKeys(), lines: newLineReader(),
		progress: func(int) {}, blocks: func() {},
	}
}

// counted is a file as a log reads it.
type counted struct {
	*log
	r io.Reader
}

func (c counted) Read(b []byte) (int, error) {
	c.blocks()
	n, err := c.r.Read(b)
	c.progress(n)
	return n, err
}

// read calls f for every event, in the order of the files.
func (l *log) read(f func(*event) error) error {
	for _, name := range l.files {
		if err := l.readFile(name, f); err != nil {
			return err
		}
	}
	return nil
}

// nothingRead is an error where there were lines and none could be read: no report tells of a log then.
func (l *log) nothingRead() error {
	if l.bad.count == 0 || len(l.keys.names) > 0 {
		return nil
	}
	return fmt.Errorf("no line could be read as %s: %s", l.format, l.bad.first[0])
}

func (l *log) readFile(name string, f func(*event) error) error {
	r := l.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return cannotRead(name, err)
		}
		defer file.Close()
		r = file
	}
	name = spoken(name)
	text, err := plain(name, counted{l, r})
	if err != nil {
		return err
	}
	l.lines.reset(text)
	if empty, err := l.begin(name); empty || err != nil {
		return err
	}
	return l.readLines(name, f)
}

// spoken is how a file of the command line is called.
func spoken(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// begin settles the format of a file, and tells whether there is nothing in it.
func (l *log) begin(name string) (empty bool, err error) {
	f := l.asked
	if f == auto {
		if f, empty, err = l.lines.detect(); err != nil {
			return false, cannotRead(name, err)
		} else if empty {
			return true, nil
		}
		if f == auto {
			return false, fmt.Errorf("%s: its first lines are neither events nor of an access log: name the format by --format jsonl, common or combined", name)
		}
		l.guessed = true
	}
	if l.format != auto && (l.format == jsonl) != (f == jsonl) {
		return false, fmt.Errorf("%s is %s and the file before it was %s: their keys have nothing to do with each other, replay them apart", name, f, l.format)
	}
	l.format = f
	return false, nil
}

func (l *log) readLines(name string, f func(*event) error) error {
	p := l.format.parser(l.keys)
	var e event
	for n := int64(1); ; n++ {
		line, err := l.lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil && err != errLongLine {
			return fmt.Errorf("%w after line %d", cannotRead(name, err), n-1)
		}
		if err == nil {
			if isBlank(line) {
				continue
			}
			err = p.parse(line, &e)
		}
		if err != nil {
			l.bad.add(name, n, err)
			continue
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}

func isBlank(line []byte) bool {
	return len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0
}

// badLines are the lines that could not be read: how many, and the first few of them.
type badLines struct {
	count int64
	first []BadLine
}

// A BadLine is a line that could not be read.
type BadLine struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

const firstBad = 5

func (b *badLines) add(file string, line int64, reason error) {
	if b.count++; len(b.first) < firstBad {
		b.first = append(b.first, BadLine{file, line, reason.Error()})
	}
}

func (b BadLine) String() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// sentence tells of all of them.
func (b *badLines) sentence() string {
	parts := make([]string, len(b.first))
	for i, line := range b.first {
		parts[i] = line.String()
	}
	s := fmt.Sprintf("unreadable lines: %s: %s", thousands(b.count), strings.Join(parts, "; "))
	if more := b.count - int64(len(b.first)); more > 0 {
		s += "; and " + thousands(more) + " more"
	}
	return s
}
