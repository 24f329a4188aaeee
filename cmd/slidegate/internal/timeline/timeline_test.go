package timeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
)

// of returns the timeline of some events, each a time and a subject.
func of(t *testing.T, o Options, events ...string) *Timeline {
	t.Helper()
	tl := New(o)
	t.Cleanup(tl.Close)
	for _, text := range events {
		var e accesslog.Entry
		if _, err := fmt.Sscan(text, &e.Time, &e.Subject); err != nil {
			t.Fatal(err)
		}
		e.Cost = 1
		if err := tl.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	return tl
}

// told returns the events of a timeline as they were given to of.
func told(t *testing.T, tl *Timeline) (all []string) {
	t.Helper()
	if err := tl.Each(t.Context(), func(e *Event) error {
		all = append(all, fmt.Sprint(e.Time, " ", tl.Subjects.Name(e.Subject)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSpread: the events of a second are as far apart as they can be, in the order of the log, whether they are in
// memory or in the file, and the same each time; a log that has parts of a second stays as it is.
func TestSpread(t *testing.T) {
	events := []string{"1000 a", "1000 b", "1000 a", "3000 c", "2000 d", "2000 e", "-1000 f", "-1000 g"}
	want := []string{"-1000 f", "-500 g", "1000 a", "1333 b", "1666 a", "2000 d", "2500 e", "3000 c"}
	for _, chunk := range []int{2, 3, 5, 100} {
		tl := of(t, Options{Chunk: chunk, Spread: true}, events...)
		for range 2 {
			if got := told(t, tl); !slices.Equal(got, want) || !tl.Spread() || !tl.WholeSeconds() || tl.OutOfOrder() != 4 {
				t.Errorf("in chunks of %d: %v", chunk, got)
			}
		}
	}
	tl := of(t, Options{Spread: true}, append(events, "4001 h")...)
	if got := told(t, tl); got[2] != "1000 a" || got[3] != "1000 b" || tl.Spread() || tl.WholeSeconds() {
		t.Errorf("%v", got)
	}
	if tl := of(t, Options{Spread: true}); tl.Spread() || tl.WholeSeconds() || len(told(t, tl)) != 0 {
		t.Error("a log without events has seconds")
	}
}

// TestSubjectsAreNumberedOnce, from 0 and in the order of the log.
func TestSubjectsAreNumberedOnce(t *testing.T) {
	tl := of(t, Options{}, "1 a", "0 b", "2 a", "3 c")
	if tl.Subjects.Len() != 3 || tl.Subjects.Name(0) != "a" || tl.Subjects.Name(1) != "b" || tl.Subjects.Name(2) != "c" || tl.Len() != 4 {
		t.Errorf("%+v", tl.Subjects)
	}
}

// TestRead: from a log to its events, and no further than its context goes.
func TestRead(t *testing.T) {
	const lines = `10.0.0.2 - - [01/Mar/2021:00:00:02 +0000] "GET / HTTP/1.0" 200 1
10.0.0.1 - - [01/Mar/2021:00:00:01 +0000] "GET / HTTP/1.0" 200 1
bad
`
	byAddress := func() accesslog.Subject { return accesslog.ByAddress }
	open := func(strict bool) *accesslog.Log {
		l, err := accesslog.Open(accesslog.Options{Files: []string{"-"}, Stdin: strings.NewReader(lines), Strict: strict})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tl, err := Read(t.Context(), open(false), byAddress, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	if got := told(t, tl); !slices.Equal(got, []string{"1614556801000 10.0.0.1", "1614556802000 10.0.0.2"}) {
		t.Errorf("%v", got)
	}
	if _, err := Read(t.Context(), open(true), byAddress, Options{}); err == nil || !strings.HasPrefix(err.Error(), "standard input:3: ") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ended, open(false), byAddress, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := tl.Each(ended, func(*Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
