package timeline

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
)

// TestSorterSortsStably: the order is that of a stable sort by time, whatever the size of a chunk
// and however the times go, and every event comes back whole.
func TestSorterSortsStably(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func(i int) int64{
		"sorted":        func(i int) int64 { return int64(i / 3) },
		"nearly sorted": func(i int) int64 { return int64(i) - rnd.Int64N(20) },
		"reversed":      func(i int) int64 { return int64(-i / 2) },
		"random":        func(int) int64 { return rnd.Int64N(50) - 25 },
		"equal":         func(int) int64 { return 7 },
	}
	for name, timeAt := range kinds {
		for _, n := range []int{0, 1, 2, 999, 1000} {
			for _, size := range []int{1, 2, 10, 333, 1000, 1001} {
				checkSorter(t, name, n, size, timeAt, rnd)
			}
		}
	}
}

func checkSorter(t *testing.T, name string, n, size int, timeAt func(int) int64, rnd *rand.Rand) {
	t.Helper()
	s := newSorter(size)
	defer s.close()
	costs := []int64{1, 1, rnd.Int64() - rnd.Int64(), 0}
	var want []Event
	outOfOrder, latest := int64(0), int64(0)
	for i := range n {
		e := Event{Time: timeAt(i), Cost: costs[i%len(costs)], Subject: uint32(i), Op: accesslog.Op(i % 3)}
		if i > 0 && e.Time < latest {
			outOfOrder++
		}
		if i == 0 || e.Time > latest {
			latest = e.Time
		}
		want = append(want, e)
		if err := s.add(&e); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortStableFunc(want, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	i := 0
	err := s.each(t.Context(), func(e *Event) error {
		got := *e
		got.pos = 0
		if i >= n || got != want[i] {
			t.Fatalf("%s, %d in chunks of %d: event %d is %+v", name, n, size, i, got)
		}
		i++
		return nil
	})
	if err != nil || i != n || s.outOfOrder != outOfOrder || s.events != int64(n) {
		t.Errorf("%s, %d in chunks of %d: %v, %d events, %d out of order, want %d", name, n, size, err, i, s.outOfOrder, outOfOrder)
	}
}

// TestRunsOfTheFile: a log in order, or out of order by less than half a chunk, is one run however long it is; files
// of the same time, one after the other, are one each, and what could not be worse is one for each half.
func TestRunsOfTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		timeAt func(i int) int64
		runs   int
	}{
		"in order":           {func(i int) int64 { return int64(i / 25) }, 1},
		"nearly in order":    {func(i int) int64 { return int64(i - 45*(i%2)) }, 1},
		"two of one time":    {func(i int) int64 { return int64(i % 5000) }, 2},
		"from end to begin":  {func(i int) int64 { return int64(-i) }, 198},
		"all at one instant": {func(int) int64 { return 7 }, 1},
	} {
		s := newSorter(100)
		for i := range 10_000 {
			if err := s.add(&Event{Time: c.timeAt(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.runs) != c.runs {
			t.Errorf("%s: %d runs, want %d", name, len(s.runs), c.runs)
		}
		s.close()
	}
}

// TestTemporaryFile: there is none for a log that fits in memory, none is left behind, and one that
// cannot be made is an error that says where.
func TestTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	fill := func(s *sorter, n int) (err error) {
		for range n {
			err = errors.Join(err, s.add(&Event{}))
		}
		return err
	}
	s := newSorter(10)
	if err := fill(s, 10); err != nil || s.file != nil {
		t.Errorf("%v, file %v", err, s.file)
	}
	if err := fill(s, 1); err != nil || s.file == nil {
		t.Errorf("%v, file %v", err, s.file)
	}
	s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	s = newSorter(1)
	if err := fill(s, 3); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestTemporaryFileThatFails is an error, not a shorter log.
func TestTemporaryFileThatFails(t *testing.T) {
	s := newSorter(2)
	for i := range 5 {
		if err := s.add(&Event{Time: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	s.close() // the file is gone
	if err := s.each(t.Context(), func(*Event) error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}
