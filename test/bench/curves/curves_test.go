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
)

// committed is where the pictures of the documentation are.
var committed = filepath.Join("..", "..", "..", "docs", "curves")

// TestPicturesAreOfTheirFigures: what is committed is drawn from what is committed, so the one cannot change without the other.
func TestPicturesAreOfTheirFigures(t *testing.T) {
	for _, c := range curves() {
		f, err := readFigures(c.file(committed, "csv"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(c.file(committed, "svg"))
		if err != nil {
			t.Fatal(err)
		}
		if got := drawn(t, &c, f); !bytes.Equal(got, want) {
			t.Errorf("%s.svg is not what %s.csv makes: run go run ./test/bench/curves -out docs/curves -draw", c.name, c.name)
		}
	}
}

// drawn draws, and checks that the picture is XML.
func drawn(t *testing.T, c *curve, f *figures) []byte {
	t.Helper()
	svg, err := c.draw(f)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return svg
		} else if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

// made is a curve that nobody has measured.
func made() (*curve, *figures) {
	c := &curve{name: "made", title: "Costs & gains", x: "keys", y: "ns", note: "made up", doubling: true, xs: []int{1, 10, 1000}, lines: []line{
		{name: "log", ink: ofLog}, {name: "go-limiter", ink: ofRival, dashed: true},
	}}
	f := &figures{where: "nowhere", x: "keys", lines: []string{"log", "go-limiter"}, rows: []row{
		{1, []float64{40, 80}}, {10, []float64{41.5, 82}}, {1000, []float64{60, 300}},
	}}
	return c, f
}

// TestAPictureSaysWhatItShows: title, axes, units, ticks, who is who, where it was measured, and all of it in words.
func TestAPictureSaysWhatItShows(t *testing.T) {
	c, f := made()
	svg := string(drawn(t, c, f))
	for _, want := range []string{
		">Costs &amp; gains</title>", ">Costs &amp; gains</text>", ">keys</text>", ">ns</text>", ">1,000</text>", ">log</text>", ">go-limiter</text>", ">made up; nowhere</text>",
		">ns, by keys. log: 40 at 1, 41.5 at 10, 60 at 1,000. go-limiter: 80 at 1, 82 at 10, 300 at 1,000.</desc>",
		"prefers-color-scheme: dark", hex(ofLog.light), hex(ofRival.light), "stroke-dasharray",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}

// TestEveryColourHasOneForADarkPage, the axes' and the grid's too.
func TestEveryColourHasOneForADarkPage(t *testing.T) {
	c, f := made()
	svg := string(drawn(t, c, f))
	_, marks, _ := strings.Cut(svg, "</style>")
	for piece := range strings.SplitSeq(marks, "#") {
		if colour := piece[:6]; strings.Trim(colour, "0123456789ABCDEF") == "" && !strings.Contains(svg, ":#"+colour+"\"] {") {
			t.Errorf("#%s is the same on a dark page", colour)
		}
	}
}

// TestFiguresAreReadAsWritten, to a hundredth.
func TestFiguresAreReadAsWritten(t *testing.T) {
	c, f := made()
	path := c.file(t.TempDir(), "csv")
	if err := f.write(path); err != nil {
		t.Fatal(err)
	}
	again, err := readFigures(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn(t, c, f), drawn(t, c, again)) {
		t.Error("the picture is another")
	}
	for name, text := range map[string]string{
		"nowhere": "keys,log\n1,2\n", "nothing": "# here\nkeys,log\n", "no number": "# here\nkeys,log\n1,two\n", "no x": "# here\nkeys,log\none,2\n", "a line missing": "# here\nkeys,log\n1\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readFigures(path); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

func TestFiguresOfAnotherCurveAreRefused(t *testing.T) {
	c, f := made()
	f.lines = []string{"log", "counter"}
	if _, err := c.draw(f); err == nil {
		t.Error("other names are drawn")
	}
	c.lines = c.lines[:1]
	if _, err := c.draw(f); err == nil {
		t.Error("more lines are drawn")
	}
}

// TestEveryLineCanBeMeasured, at its least, once.
func TestEveryLineCanBeMeasured(t *testing.T) {
	t.Cleanup(stopServer)
	defer func(n int) { calls = n }(calls)
	calls = 10_000
	for _, c := range curves() {
		c.xs = c.xs[:1]
		f, err := c.measure(1, 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i, v := range f.rows[0].values {
			if v <= 0 {
				t.Errorf("%s, %s: %v", c.name, f.lines[i], v)
			}
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{1: "1", 999: "999", 1000: "1,000", 1_000_000: "1,000,000"} {
		if got := thousands(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
