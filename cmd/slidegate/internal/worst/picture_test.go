package worst

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// pictureOf runs worst --svg and checks that what it prints is XML.
func pictureOf(t *testing.T, limit string) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := run(Command(), nil, &out, "--svg", limit); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return out.String()
		} else if err != nil {
			t.Fatalf("%s: %v", limit, err)
		}
	}
}

// TestThePictureOfTheDocumentation is what the command prints.
func TestThePictureOfTheDocumentation(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "worst.svg")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := pictureOf(t, "100/2s"); got != string(want) {
		t.Errorf("docs/worst.svg is out of date: run bin/slidegate worst --svg 100/2s > docs/worst.svg. It should be\n%s", got)
	}
}

// TestPicturesAreInTheirFrame, at every size, and say in words what they show.
func TestPicturesAreInTheirFrame(t *testing.T) {
	for limit, words := range map[string]string{
		"100/2s":                  "sliding log: 100 for one who knows how it counts, 100 for one who just keeps asking.",
		"name=1/1ms":              "fixed window: 1 for one who knows how it counts, 1 for one who just keeps asking.",
		"1000000000000/1d":        "sliding log: 1000000000000 for one who knows",
		"3/1s,counter":            "sliding counter: 6 for one who knows",
		"100/1m,resolution=500ms": "sliding log: 100 for one who knows",
	} {
		text := pictureOf(t, limit)
		if !strings.Contains(text, words) {
			t.Errorf("%s: does not say %q:\n%s", limit, words, text)
		}
		var drawn struct {
			Bars []struct {
				X     int `xml:"x,attr"`
				Width int `xml:"width,attr"`
			} `xml:"rect"`
		}
		if err := xml.Unmarshal([]byte(text), &drawn); err != nil {
			t.Fatal(err)
		}
		for _, b := range drawn.Bars {
			if b.Width < 1 || b.X+b.Width > left+2*quotaLength {
				t.Errorf("%s: a bar from %d, %d wide", limit, b.X, b.Width)
			}
		}
	}
}

// TestAFloodIsAskingAtEveryMillisecond: what Flood says is what one unit after the other gets through.
func TestAFloodIsAskingAtEveryMillisecond(t *testing.T) {
	for _, limit := range []slidegate.Limit{slidegate.Per(40*time.Millisecond, 7), slidegate.Per(30*time.Millisecond, 100)} {
		policy := []slidegate.Limit{limit.Named("a")}
		for _, way := range Ways() {
			s, err := newSearch(policy, 0, way)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			var all []int64
			for begin := range s.period {
				all = append(all, s.asking(begin))
			}
			slices.Sort(all)
			if got, err := Flood(policy, 0, way); err != nil || got != all[len(all)/2] {
				t.Errorf("%s, %s: %d, %v, want the median of %d", limit, way, got, err, all)
			}
		}
	}
}

// asking takes one unit after the other at every millisecond of the window that begins then.
func (s *search) asking(begin int64) (admitted int64) {
	for _, m := range s.models {
		m.reset()
	}
	for at := begin; at < begin+s.window; at++ {
		for room, _ := s.look(at, 1); room > 0; room, _ = s.look(at, 1) {
			for _, m := range s.models {
				m.charge(at, 1)
			}
			admitted++
		}
	}
	return admitted
}
