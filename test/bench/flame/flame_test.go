package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestFlamesAreOfTheirStacks: what is committed is drawn from what is committed.
func TestFlamesAreOfTheirStacks(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "docs", "flames")
	for _, s := range scenes() {
		text, err := os.ReadFile(filepath.Join(dir, s.name+".stacks"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, s.name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := draw(s.title, all); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.svg is not what %s.stacks makes (%v): run go run ./test/bench/flame -out docs/flames -draw", s.name, s.name, err)
		}
		if !bytes.Equal(all.text(), text) {
			t.Errorf("%s.stacks is not in order", s.name)
		}
	}
}

// TestStacksBeginWhereALimiterIsAsked, and alike ones are one.
func TestStacksBeginWhereALimiterIsAsked(t *testing.T) {
	names := []string{"main.main", "example.com/a/b.(*T[...]).Take", "runtime.mallocgc", "example.com/c.other"}
	var at []*profile.Location
	for i, n := range names {
		at = append(at, &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: &profile.Function{Name: n}}}})
	}
	p := &profile.Profile{Sample: []*profile.Sample{ // innermost first
		{Location: []*profile.Location{at[1], at[0]}, Value: []int64{3}},
		{Location: []*profile.Location{at[2], at[1], at[0]}, Value: []int64{2}},
		{Location: []*profile.Location{at[2], at[1], at[0]}, Value: []int64{4}},
		{Location: []*profile.Location{at[3], at[0]}, Value: []int64{9}},
	}}
	got := string(fold(p, "Take").text())
	if want := "b.(*T).Take 3\nb.(*T).Take;runtime.mallocgc 6\n"; got != want {
		t.Errorf("stacks\n%swant\n%s", got, want)
	}
}

// TestAFrameIsAsWideAsItsShare, stands below its caller, and says its name where there is room.
func TestAFrameIsAsWideAsItsShare(t *testing.T) {
	svg, err := draw("a <title>", stacks{"a.Take": 250, "a.Take;runtime.work": 749, "a.Take;z": 1})
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"a &lt;title&gt;: 1000 samples",
		`<title>a.Take: 100.0 %</title><rect class="other" x="0" y="30" width="1000" height="18"/><text x="0" y="30" dx="3" dy="13">a.Take<`,
		`<title>runtime.work: 74.9 %</title><rect class="runtime" x="0" y="48" width="749" height="18"/>`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("there is no %s in\n%s", want, svg)
		}
	}
	if strings.Contains(string(svg), ">z") {
		t.Error("a frame of a thousandth is drawn")
	}
}

// TestWhatIsNoStackIsAnError, and nothing is drawn without samples.
func TestWhatIsNoStackIsAnError(t *testing.T) {
	for _, text := range []string{"a", " 3", "a 0", "a -1", "a x", "a 1\nb"} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is read as stacks", text)
		}
	}
	if _, err := draw("t", nil); err == nil {
		t.Error("nothing is drawn")
	}
}
