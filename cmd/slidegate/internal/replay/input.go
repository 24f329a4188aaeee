package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

const (
	// maxLine is the longest line that is read, in bytes; what is longer is unreadable.
	maxLine = 1 << 20

	// sniffed is how much of a file may be looked at to find out its format, in bytes.
	sniffed = 64 << 10
)

// check says what is wrong with the files, before anything is started.
func check(names []string) error {
	stdin := false
	for _, name := range names {
		if name == "-" {
			if stdin {
				return config.Usagef("replay: - stands for standard input and may be given once")
			}
			stdin = true
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return cannotRead(name, err)
		case info.IsDir():
			return fmt.Errorf("%s is a directory: name the files in it", name)
		case !info.Mode().IsRegular():
			continue // a pipe can be opened once only
		}
		f, err := os.Open(name)
		if err != nil {
			return cannotRead(name, err)
		}
		f.Close()
	}
	return nil
}

// cannotRead makes one sentence of an error of the file system.
func cannotRead(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s", name)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s cannot be read: %w", name, err)
}

// totalSize returns the bytes of all files, -1 where one has no size.
func totalSize(names []string) (total int64) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return -1
		}
		total += info.Size()
	}
	return total
}

// The formats that are known by their first bytes and not read.
var compressed = []struct{ magic, name, cat string }{
	{"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
	{"\xfd7zXZ\x00", "xz", "xzcat"},
	{"BZh", "bzip2", "bzcat"},
	{"\x04\x22\x4d\x18", "lz4", "lz4cat"},
	{"PK\x03\x04", "zip", "unzip -p"},
}

// plain returns the text of a file, unpacked where it begins as gzip does.
func plain(name string, r io.Reader) (io.Reader, error) {
	raw := bufio.NewReaderSize(r, sniffed)
	magic, _ := raw.Peek(6) // an error comes again when the lines are read
	for _, c := range compressed {
		if bytes.HasPrefix(magic, []byte(c.magic)) {
			return nil, fmt.Errorf("%s is packed as %s, and gzip alone is read: try %s %s | slidegate replay … -", name, c.name, c.cat, name)
		}
	}
	if !bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	unpacked, err := gzip.NewReader(raw)
	if err != nil {
		return nil, cannotRead(name, err)
	}
	return unpacked, nil
}

// A lineReader reads the lines of one text after the other through one buffer.
type lineReader struct{ buf *bufio.Reader }

func newLineReader() *lineReader { return &lineReader{bufio.NewReaderSize(nil, maxLine)} }

func (l *lineReader) reset(r io.Reader) {
	l.buf.Reset(r)
	if b, _ := l.buf.Peek(3); string(b) == "\xef\xbb\xbf" {
		l.buf.Discard(3) // a byte order mark
	}
}

var newline, carriageReturn = []byte{'\n'}, []byte{'\r'}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", maxLine)

// next returns the next line without its end. It is valid until the next call. The error is
// errLongLine for a line that was passed over, or that of the text.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.buf.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		for err == bufio.ErrBufferFull {
			_, err = l.buf.ReadSlice('\n')
		}
		if err == nil || err == io.EOF {
			err = errLongLine
		}
		return nil, err
	}
	if err == io.EOF && len(line) > 0 {
		err = nil // the last line needs no end
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, newline), carriageReturn), err
}

// detect finds out the format from the first line that can be read in one; auto if none can. It
// waits for no more of the text than it needs, and tells whether there is nothing but blank lines.
func (l *lineReader) detect() (f format, empty bool, err error) {
	for want := 1; ; want = l.buf.Buffered() + 1 {
		_, err := l.buf.Peek(min(want, sniffed))
		text, _ := l.buf.Peek(min(l.buf.Buffered(), sniffed))
		ended := err != nil || len(text) == sniffed
		f := formatOf(text, ended)
		switch {
		case f != auto || len(text) == sniffed:
			return f, false, nil
		case err == io.EOF:
			return auto, len(bytes.TrimSpace(text)) == 0, nil
		case err != nil:
			return auto, false, err
		}
	}
}

// formatOf looks at whole lines alone, unless the text has ended.
func formatOf(text []byte, ended bool) format {
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, newline)
		if !whole && !ended {
			return auto
		}
		if f := formatOfLine(bytes.TrimSuffix(line, carriageReturn)); f != auto {
			return f
		}
		text = rest
	}
	return auto
}

func formatOfLine(line []byte) format {
	var e event
	switch {
	case (&eventLog{newKeys()}).parse(line, &e) == nil:
		return jsonl
	case newAccessLog(newKeys()).parse(line, &e) != nil:
		return auto
	case bytes.Count(line, []byte{'"'}) >= 6: // request, referer and agent
		return combined
	}
	return common
}
