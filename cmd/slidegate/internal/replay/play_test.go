package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// TestLinesAllocateNothing: reading, deciding and counting, for a key seen before.
func TestLinesAllocateNothing(t *testing.T) {
	for name, line := range map[string]string{
		"access log":   `10.0.0.1 - - [01/Mar/2021:00:00:00 +0000] "GET / HTTP/1.0" 200 1`,
		"unreadable":   `10.0.0.1 - - [01/Mar/2021:00:00:00 +0000`,
		"milliseconds": `{"t":1757750400000,"op":"take","key":"a","cost":1}`,
		"RFC 3339":     `{"t":"2026-11-30T10:00:00.123Z","key":"a","user":"x"}`,
	} {
		tl := timeline.New(timeline.Options{})
		k := &tl.Subjects
		p := format(t, "combined").NewParser()
		if line[0] == '{' {
			p = accesslog.Events.NewParser()
		}
		counts := newTally(1)
		v := verdicts{keys: k, out: io.Discard}
		player, err := newMemoryPlayer(context.Background(), []slidegate.Limit{slidegate.PerMinute(5)}, k, 1, func(e *timeline.Event, d *slidegate.Decision, fits bool) error {
			return errors.Join(counts.count(e, d, fits), v.print(e, d, fits))
		})
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(line)
		var r accesslog.Record
		var subject []byte
		n := testing.AllocsPerRun(100, func() {
			if p.Parse(text, &r) != nil {
				return
			}
			subject, _ = accesslog.ByAddress(&r, subject[:0])
			e := tl.Event(&accesslog.Entry{Time: r.Time, Op: r.Op, Cost: r.Cost, Subject: subject})
			if err := player.play(e); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a line", name, n)
		}
	}
}

// A generatedLog is an access log that nobody holds: 100 requests a second, of a thousand clients in turn, told
// several times over as several servers would, one after the other.
type generatedLog struct {
	lines, servers int // lines of each server
	written        int
	stamp          []byte
	line, rest     []byte
}

func (l *generatedLog) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(l.rest) == 0 {
			if l.written == l.lines*l.servers {
				break
			}
			l.next()
		}
		m := copy(b[n:], l.rest)
		l.rest = l.rest[m:]
		n += m
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (l *generatedLog) next() {
	i := l.written % l.lines
	if i%100 == 0 {
		at := time.Unix(1_614_556_800+int64(i/100), 0).UTC()
		l.stamp = at.AppendFormat(l.stamp[:0], " - - [02/Jan/2006:15:04:05 -0700] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n")
	}
	l.line = append(l.line[:0], "10.0."...)
	l.line = strconv.AppendInt(l.line, int64(i%1000/250), 10)
	l.line = append(l.line, '.')
	l.line = strconv.AppendInt(l.line, int64(i%250), 10)
	l.line = append(l.line, l.stamp...)
	l.rest = l.line
	l.written++
}

// input is standard input, whose format is told from its lines if it is nil.
func input(f accesslog.Format, chunk int) *source.Source {
	return &source.Source{
		Log:      accesslog.Options{Files: []string{"-"}, Format: f},
		Timeline: timeline.Options{Chunk: chunk}, Subjects: func() accesslog.Subject { return accesslog.ByAddress },
	}
}

// format is one that has a name.
func format(t testing.TB, name string) accesslog.Format {
	t.Helper()
	f, err := accesslog.ParseFormat(name, accesslog.Fields{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// noted is an outcome that nobody looks at.
func noted(*timeline.Event, *slidegate.Decision, bool) error { return nil }

// TestIdleKeysGo: the state of keys that are idle in the log's time is dropped as the log goes on.
func TestIdleKeysGo(t *testing.T) {
	k := new(timeline.Subjects)
	p, err := newMemoryPlayer(context.Background(), []slidegate.Limit{slidegate.PerSecond(1)}, k, rehearse.ManyKeys, noted)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for i := range 10 * rehearse.SweepEvery {
		e := timeline.Event{Time: int64(i), Cost: 1, Subject: k.Number(fmt.Append(nil, i))}
		if err := p.play(&e); err != nil || !p.decision.Allowed {
			t.Fatalf("%v, %v", p.decision, err)
		}
		most = max(most, p.memory.Len())
	}
	if most > rehearse.SweepEvery+2000 {
		t.Errorf("%d keys held at once, of which 1,000 counted", most)
	}
}

// TestForgottenKeysAreAnError: verdicts that a full store made wrong are not passed off as right.
func TestForgottenKeysAreAnError(t *testing.T) {
	k := new(timeline.Subjects)
	p, err := newMemoryPlayer(context.Background(), []slidegate.Limit{slidegate.PerDay(5)}, k, 2, noted)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		if err := p.play(&timeline.Event{Cost: 1, Subject: k.Number([]byte{'a' + byte(i)})}); err != nil {
			t.Fatal(err)
		}
		if err := p.end(); err == nil != want {
			t.Errorf("after %d keys: %v", i+1, err)
		}
	}
}

// TestShuffledLogIsReplayedInOrder: with chunks so small that nearly every event is merged from the
// file, the verdicts are those of the log in order.
func TestShuffledLogIsReplayedInOrder(t *testing.T) {
	lines := strings.SplitAfter(readAll(t, &generatedLog{lines: 3000, servers: 1}), "\n")
	lines = lines[:len(lines)-1]
	play := func(lines []string, chunk int) string {
		var out strings.Builder
		r := &run{
			source: input(format(t, "common"), chunk), verdicts: true,
			limits: []slidegate.Limit{slidegate.PerMinute(2), slidegate.PerHour(9).Counter()},
			stdin:  strings.NewReader(strings.Join(lines, "")), stdout: &out, stderr: io.Discard,
		}
		if err := r.do(context.Background()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := play(lines, 0)
	if strings.Count(want, "\n") != 3000 {
		t.Fatalf("%d verdicts", strings.Count(want, "\n"))
	}
	// Whole seconds change places, so that ties keep their order: the log has 100 lines in each.
	var shuffled []string
	for i := range 30 {
		at := i * 7 % 30 * 100
		shuffled = append(shuffled, lines[at:at+100]...)
	}
	for _, chunk := range []int{1, 7, 100, 1000, 4000} {
		if got := play(shuffled, chunk); got != want {
			t.Errorf("in chunks of %d the verdicts differ", chunk)
		}
		if got := play(lines, chunk); got != want {
			t.Errorf("in order and in chunks of %d the verdicts differ", chunk)
		}
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPrintableKeys: a report writes nothing to a terminal but characters, and not too many.
func TestPrintableKeys(t *testing.T) {
	for key, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "é": "é", "a\x1b[2J": `"a\x1b[2J"`, "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "  ": `"  "`, "a ": `"a "`, "a b": "a b",
		strings.Repeat("é", 61): strings.Repeat("é", 59) + "…",
	} {
		if got := rehearse.Printable(key); got != want {
			t.Errorf("%q is printed as %s, want %s", key, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 28_208: "28,208", 1_234_567: "1,234,567"} {
		if got := rehearse.Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestWorstKeys: most refused first, then most admitted, then by name, and no more than a few.
func TestWorstKeys(t *testing.T) {
	var counts []count
	var names timeline.Subjects
	for i := range 100 {
		counts = append(counts, count{admitted: int64(i / 2 % 5), refused: int64(i * 37 % 12)})
		names.Number(fmt.Append(nil, "k", i))
	}
	refused, first := worst(counts, &names)
	all := 0
	for _, c := range counts {
		if c.refused > 0 {
			all++
		}
	}
	if refused != all || len(first) != worstKeys {
		t.Fatalf("%d refused, %d named", refused, len(first))
	}
	for i, k := range first[1:] {
		before := first[i]
		if before.Refused < k.Refused || before.Refused == k.Refused && before.Admitted < k.Admitted ||
			before.Refused == k.Refused && before.Admitted == k.Admitted && before.Key >= k.Key {
			t.Errorf("%+v stands before %+v", before, k)
		}
	}
	if last := first[worstKeys-1]; last.Refused < 10 {
		t.Errorf("%+v is among the worst", last)
	}
}
