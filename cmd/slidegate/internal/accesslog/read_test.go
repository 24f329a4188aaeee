package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// line is one of the Common Log Format at a second of a minute.
func line(client, second int) string {
	return fmt.Sprintf("10.0.%d.%d - - [01/Mar/2021:00:%02d:%02d +0000] \"GET / HTTP/1.0\" 200 1\n", client/250, client%250, second/60, second%60)
}

// opened is a log of these files, closed with the test.
func opened(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// taken reads a log and returns each record as its second and its subject.
func taken(t *testing.T, l *Log) (all []string) {
	t.Helper()
	err := l.Read(t.Context(), byAddress, func(e *Entry) error {
		all = append(all, strconv.FormatInt(e.Time/1000%3600, 10)+" "+string(e.Subject))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func byAddress() Subject { return ByAddress }

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll([]byte(text), nil)
}

// TestOrderOfTheLog: whatever the lines and the reads are cut into, records come as the lines do, with their numbers.
func TestOrderOfTheLog(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := range 20_000 {
		switch {
		case i%1000 == 500:
			text.WriteString("\n")
		case i%7001 == 5000:
			text.WriteString(strings.Repeat("x", maxLine+i) + "\n")
		case i%900 == 7:
			text.WriteString("bad\r\n")
		default:
			text.WriteString(line(i%9000, i%3600))
			want = append(want, fmt.Sprintf("%d 10.0.%d.%d:%d", i%3600, i%9000/250, i%9000%250, i+1))
		}
	}
	numbered := func() Subject {
		return func(r *Record, b []byte) ([]byte, error) {
			return fmt.Appendf(b, "%s:%d", r.Address, r.Line), nil
		}
	}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text.String()), "halves": iotest.HalfReader(strings.NewReader(text.String())),
		"error with the last": iotest.DataErrReader(strings.NewReader(text.String())), "packed": bytes.NewReader(zipped(text.String())),
	} {
		l := opened(t, Options{Files: []string{"-"}, Stdin: r})
		var got []string
		err := l.Read(t.Context(), numbered, func(e *Entry) error {
			got = append(got, strconv.FormatInt(e.Time/1000%3600, 10)+" "+string(e.Subject))
			return nil
		})
		if err != nil || !slices.Equal(got, want) || l.Failed() != nil {
			t.Errorf("%s: %v, %v, %d records, want %d", name, err, l.Failed(), len(got), len(want))
		}
		if bad := l.Bad(); bad.Count != 26 || len(bad.First) != firstBad || bad.First[1] != (BadLine{"standard input", 908, errNoAddress.Error()}) {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

// TestLongLines: one longer than what is read counts as one line, wherever it stands, and costs none beside it.
func TestLongLines(t *testing.T) {
	long, longest := strings.Repeat("x", maxLine), line(1, 1)[:len(line(1, 1))-1]
	longest += strings.Repeat("y", maxLine-1-len(longest)) + "\n"
	for _, c := range []struct {
		text          string
		records, bads int
	}{
		{longest, 1, 0},
		{long + "\n" + longest, 1, 1},
		{line(1, 1) + long + "\n" + line(1, 2), 2, 1},
		{long + long + long, 0, 1},
		{long + "\n" + long + "\n" + line(1, 2), 1, 2},
		{line(1, 1) + long, 1, 1},
		{strings.Repeat(line(1, 1), 30_000) + long + "\n" + strings.Repeat(line(1, 2), 30_000), 60_000, 1},
	} {
		l := opened(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(c.text), Format: commonPattern})
		if got := taken(t, l); len(got) != c.records || l.Bad().Count != int64(c.bads) {
			t.Errorf("%d bytes: %d records, %+v; want %d and %d", len(c.text), len(got), l.Bad(), c.records, c.bads)
		}
	}
}

// TestRotatedFiles: they are read in the order of their first requests, whatever they are called, however they
// are packed, and in whatever order they are named.
func TestRotatedFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "access.log"), []byte(line(4, 40)+line(4, 41)))
	write(t, filepath.Join(dir, "access.log.1"), []byte("\n"+line(3, 30)))
	write(t, filepath.Join(dir, "access.log.2.gz"), zipped(line(2, 20)))
	write(t, filepath.Join(dir, "access.log.3.zst"), zstandard(t, line(1, 10)+line(1, 11)))
	write(t, filepath.Join(dir, "access.log.empty"), nil)
	if err := os.Mkdir(filepath.Join(dir, "access.log.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{"5 10.0.0.9", "10 10.0.0.1", "11 10.0.0.1", "20 10.0.0.2", "30 10.0.0.3", "40 10.0.0.4", "41 10.0.0.4"}
	for _, files := range [][]string{
		{filepath.Join(dir, "access.log*"), "-"},
		{"-", filepath.Join(dir, "access.log.[0-9]*"), filepath.Join(dir, "access.log")},
	} {
		l := opened(t, Options{Files: files, Stdin: strings.NewReader(line(9, 5))})
		size := l.Size()
		if got := taken(t, l); !slices.Equal(got, want) || l.Format() != "common" || size != -1 {
			t.Errorf("%v: %v, %s, %d bytes", files, got, l.Format(), size)
		}
	}
	if l := opened(t, Options{Files: []string{filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1")}}); l.Size() != int64(2*len(line(4, 40))+len(line(3, 30))+1) {
		t.Errorf("%d bytes", l.Size())
	}
}

// TestPatternsOfNames: one that stands for nothing is an error, and a file that is called like a pattern is a file.
func TestPatternsOfNames(t *testing.T) {
	dir := t.TempDir()
	odd := write(t, filepath.Join(dir, "a[1].log"), []byte(line(1, 1)))
	write(t, filepath.Join(dir, "a1.log"), []byte(line(2, 2)))
	if got := taken(t, opened(t, Options{Files: []string{odd}})); !slices.Equal(got, []string{"1 10.0.0.1"}) {
		t.Errorf("%v", got)
	}
	for pattern, want := range map[string]string{"b*": "there is no file that ", "a[": "is no pattern of file names"} {
		if _, err := Names([]string{filepath.Join(dir, pattern)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
	if _, err := Names([]string{"-", "-"}); err == nil {
		t.Error("standard input twice")
	}
}

// TestAFileIsReadOnce: an overlap of a name and a pattern would double every rate, and nobody would see why.
func TestAFileIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	log, link := write(t, filepath.Join(dir, "access.log"), []byte(line(1, 1))), filepath.Join(dir, "link")
	if err := os.Symlink(log, link); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{log, filepath.Join(dir, "access.log*"), link} {
		if _, err := Names([]string{log, again}); err == nil || !strings.Contains(err.Error(), "named twice") {
			t.Errorf("%s: %v", again, err)
		}
	}
	if _, err := Names([]string{os.DevNull, os.DevNull}); err != nil {
		t.Error(err)
	}
}

// TestPackedFileThatWasCutShort: what is there counts, to the last whole line, and the error says where it ends.
// Other files are read all the same.
func TestPackedFileThatWasCutShort(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 50_000 {
		text.WriteString(line(i*7919%50_000, i/20))
	}
	after := write(t, filepath.Join(dir, "after.log"), []byte(line(3, 3599)))
	for name, packed := range map[string][]byte{"cut.gz": zipped(text.String()), "cut.zst": zstandard(t, text.String())} {
		cut := write(t, filepath.Join(dir, name), packed[:len(packed)*2/3])
		l := opened(t, Options{Files: []string{cut, after}})
		got := taken(t, l)
		if len(got) < 2000 || len(got) > 49_000 || got[len(got)-1] != "3599 10.0.0.3" || l.Bad().Count != 0 {
			t.Errorf("%s: %d records, the last %s, %+v", name, len(got), got[len(got)-1], l.Bad())
		}
		want := fmt.Sprintf("%s cannot be read: unexpected EOF after line %d", cut, len(got)-1)
		if err := l.Failed(); err == nil || err.Error() != want || len(l.CutShort()) != 1 {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestStrict: the first line that cannot be read ends it.
func TestStrict(t *testing.T) {
	l := opened(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(line(1, 1) + "bad\nworse\n"), Strict: true})
	err := l.Read(t.Context(), byAddress, func(*Entry) error { return nil })
	if err == nil || err.Error() != "standard input:2: "+errNoAddress.Error() {
		t.Errorf("%v", err)
	}
}

// TestSubjectsThatRefuse: what a subject passes over is counted, and what it cannot make is a line that cannot be read.
func TestSubjectsThatRefuse(t *testing.T) {
	why := errors.New("no such thing")
	l := opened(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(line(1, 1) + line(2, 2) + line(3, 3))})
	var got []string
	err := l.Read(t.Context(), func() Subject {
		return func(r *Record, b []byte) ([]byte, error) {
			switch r.Line {
			case 1:
				return append(b, "left behind"...), ErrSkip
			case 2:
				return append(b, "left behind"...), why
			}
			return append(b, 'x'), nil
		}
	}, func(e *Entry) error {
		got = append(got, string(e.Subject))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"x"}) || l.Skipped() != 1 || l.Bad().Count != 1 || l.Bad().First[0].Reason != why.Error() {
		t.Errorf("%v, %v, %d skipped, %+v", err, got, l.Skipped(), l.Bad())
	}
}

// TestReadingEnds with the error of the one who takes, or of the context, also where nobody writes any more.
func TestReadingEnds(t *testing.T) {
	enough := errors.New("enough")
	l := opened(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(strings.Repeat(line(1, 1), 100_000))})
	n := 0
	err := l.Read(t.Context(), byAddress, func(*Entry) error {
		if n++; n == 10 {
			return enough
		}
		return nil
	})
	if err != enough || n != 10 {
		t.Errorf("%v after %d", err, n)
	}
	in, out := io.Pipe()
	defer out.Close()
	go func() { _, _ = io.WriteString(out, line(1, 1)) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l = opened(t, Options{Files: []string{"-"}, Stdin: in})
	err = l.Read(ctx, byAddress, func(*Entry) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestIdle: who waits for a record has it before more is read.
func TestIdle(t *testing.T) {
	in, out := io.Pipe()
	records, idle := make(chan string, 10), make(chan int, 1000)
	l := make(chan *Log)
	n := 0
	go func() {
		opened, err := Open(Options{Files: []string{"-"}, Stdin: in, Idle: func() { idle <- n }})
		if err != nil {
			t.Error(err)
		}
		l <- opened
	}()
	_, _ = io.WriteString(out, line(1, 1))
	log := <-l
	done := make(chan error)
	go func() {
		done <- log.Read(t.Context(), byAddress, func(e *Entry) error {
			n++
			records <- string(e.Subject)
			return nil
		})
	}()
	for i := range 3 {
		<-records
		for <-idle < i+1 {
		}
		_, _ = io.WriteString(out, line(1, 2+i))
	}
	out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
