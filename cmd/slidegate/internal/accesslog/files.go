package accesslog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// sniffed is how much of a file may be looked at to find out its format, in bytes.
const sniffed = 64 << 10

// A file is one of a log, looked at.
type file struct {
	name   string // as it is spoken of
	path   string // empty where it is open
	opened io.Reader

	format  Format // nil where there is nothing but blank lines
	guessed bool
	header  int64 // the number of the line that names its columns, 0 if there is none
	first   int64 // when its first request was
	size    int64 // in bytes as it lies there, -1 if nobody can know
}

// Names returns the files that names stand for, each a file, a pattern such as access.log* where no file
// is called so, or - for standard input. The error names one that cannot be read, or that is there twice: each of its requests
// would count twice.
func Names(names []string) (all []string, err error) {
	for _, name := range names {
		if name == "-" && slices.Contains(all, "-") {
			return nil, errors.New("- stands for standard input and may be given once")
		}
		found, err := expand(name)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if err := checkFile(name); err != nil {
				return nil, err
			}
		}
		all = append(all, found...)
	}
	return all, checkOnce(all)
}

// checkOnce is an error if two names are of one file.
func checkOnce(names []string) error {
	var seen []os.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			info = nil // standard input, or a pipe
		}
		for j, other := range seen {
			if os.SameFile(info, other) {
				return fmt.Errorf("%s is named twice, as %s too: its requests would count twice", name, names[j])
			}
		}
		seen = append(seen, info)
	}
	return nil
}

func expand(name string) ([]string, error) {
	if _, err := os.Lstat(name); name == "-" || err == nil || !strings.ContainsAny(name, "*?[") {
		return []string{name}, nil
	}
	found, err := filepath.Glob(name)
	if err != nil {
		return nil, fmt.Errorf("%s is no pattern of file names: %w", name, err)
	}
	found = slices.DeleteFunc(found, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no file that %s stands for", name)
	}
	return found, nil
}

func checkFile(name string) error {
	if name == "-" {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return cannotRead(name, err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name the files in it, such as %s", name, filepath.Join(name, "*"))
	case !info.Mode().IsRegular():
		return nil // a pipe can be opened once only
	}
	f, err := os.Open(name)
	if err != nil {
		return cannotRead(name, err)
	}
	return f.Close()
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

// spoken is how a file of the command line is called.
func spoken(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// look opens a file and finds out what is to be known before it is read. A regular file is closed again.
func (l *Log) look(name string) (*file, error) {
	f := &file{name: spoken(name), size: -1}
	raw := l.stdin
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, cannotRead(name, err)
		}
		if info, err := opened.Stat(); err == nil && info.Mode().IsRegular() {
			f.path, f.size = name, info.Size()
			defer opened.Close()
		} else {
			l.closers = append(l.closers, opened)
		}
		raw = opened
	}
	source := raw
	if f.path == "" {
		source = counted{l, raw}
	}
	text, closer, err := unpack(f.name, source)
	if err != nil {
		return nil, err
	}
	if f.path == "" {
		f.opened = text
		l.closers = append(l.closers, closer)
	} else {
		defer closer.Close()
	}
	return f, f.sniff(text, sniffer{asked: l.asked, fields: l.fields})
}

// sniff settles the format of a file. It waits for no more of the text than it needs.
func (f *file) sniff(r *bufio.Reader, s sniffer) error {
	skipMark(r)
	for want := 1; ; want = r.Buffered() + 1 {
		_, err := r.Peek(min(want, sniffed))
		text, _ := r.Peek(min(r.Buffered(), sniffed))
		ended := err != nil || len(text) == sniffed
		if err := s.look(text, ended); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		f.format, f.first, f.header = s.format, s.first, s.header
		switch {
		case f.format != nil:
			f.guessed = s.asked == nil
			return nil
		case !ended:
			continue
		case len(bytes.TrimSpace(text)) == 0 && err == io.EOF:
			return nil
		case err != nil && err != io.EOF:
			return cannotRead(f.name, err)
		case s.asked != nil:
			f.format = s.asked // and the lines will be told
			return nil
		}
		return fmt.Errorf("%s: its first lines are in no format that is told by itself: name it by --format, or give it the string that the server was given", f.name)
	}
}

// open returns the text of a file from its beginning.
func (f *file) open(l *Log) (*bufio.Reader, io.Closer, error) {
	if f.path == "" {
		return f.opened.(*bufio.Reader), io.NopCloser(nil), nil
	}
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, nil, cannotRead(f.name, err)
	}
	text, closer, err := unpack(f.name, counted{l, opened})
	if err != nil {
		opened.Close()
		return nil, nil, err
	}
	skipMark(text)
	return text, both{closer, opened}, nil
}

type both [2]io.Closer

func (b both) Close() error { return cmp.Or(b[0].Close(), b[1].Close()) }

// skipMark passes over a byte order mark.
func skipMark(r *bufio.Reader) {
	if b, _ := r.Peek(3); string(b) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3)
	}
}

// The formats that are known by their first bytes and not read.
var packed = []struct{ magic, name, cat string }{
	{"\xfd7zXZ\x00", "xz", "xzcat"},
	{"\x04\x22\x4d\x18", "lz4", "lz4cat"},
	{"PK\x03\x04", "zip", "unzip -p"},
}

// unpack returns the text of a file, which its first bytes tell how to unpack.
func unpack(name string, r io.Reader) (*bufio.Reader, io.Closer, error) {
	raw := bufio.NewReaderSize(r, sniffed)
	magic, _ := raw.Peek(6) // an error comes again when the lines are read
	for _, c := range packed {
		if bytes.HasPrefix(magic, []byte(c.magic)) {
			return nil, nil, fmt.Errorf("%s is packed as %s, and gzip, zstd and bzip2 are read: try %s %s | slidegate … -", name, c.name, c.cat, name)
		}
	}
	nothing := io.NopCloser(nil)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(raw)
		if err != nil {
			return nil, nil, cannotRead(name, err)
		}
		return bufio.NewReaderSize(unpacked, sniffed), unpacked, nil
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		// One goroutine, so that lines can be taken apart in the others; 128 MB is what zstd -19 needs at most.
		unpacked, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, cannotRead(name, err)
		}
		closer := unpacked.IOReadCloser()
		return bufio.NewReaderSize(closer, sniffed), closer, nil
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bufio.NewReaderSize(bzip2.NewReader(raw), sniffed), nothing, nil
	}
	return raw, nothing, nil
}

// counted is a file as a log reads it.
type counted struct {
	*Log
	r io.Reader
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.progress(n)
	return n, err
}
