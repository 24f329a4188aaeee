package worst

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/slidegate/slidegate"
)

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// A picture is what the template is told. All of it is numbers and words of our own, so nothing needs to be escaped.
type picture struct {
	Limit, Window string
	Quota, Twice  int64
	Beginnings    int64
	Words         string
	Bars          []bar
}

// A bar is what one adversary gets through one way to count. Lengths and places are in the units of the drawing.
type bar struct {
	Way, Whose string // for the first of a way
	Who        string
	Units      int64

	top        int
	Kept, Over int64
}

const (
	firstTop, betweenWays, betweenBars = 72, 68, 24 // of bars
	left, quotaLength                  = 368, 160
)

func (b bar) Y(below int) int { return b.top + below }
func (b bar) End() int64      { return left + b.Kept }
func (b bar) Label() int64    { return b.End() + b.Over + 6 }

// The adversaries. The first is the most there is. The second shows that it takes no skill.
const (
	knows = "who knows how it counts"
	asks  = "who just keeps asking"
)

// called are the words for each way, and who counts so.
var called = map[Way][2]string{
	Log:     {"sliding log", "Slidegate, by default"},
	Counter: {"sliding counter", "Slidegate, where asked for"},
	Fixed:   {"fixed window", "in step with the clock"},
	GCRA:    {"GCRA, a token bucket", "with a burst of the quota"},
}

// draw writes the picture of a limit that stands alone.
func draw(limit slidegate.Limit, w io.Writer) error {
	p := picture{Quota: limit.Quota, Twice: 2 * limit.Quota, Beginnings: beginnings}
	p.Limit = slidegate.Per(limit.Window, limit.Quota).String()
	_, p.Window, _ = strings.Cut(p.Limit, "/")
	policy := []slidegate.Limit{limit}
	var words []string
	for i, way := range Ways() {
		found, err := Search(policy, 0, way)
		if err != nil {
			return err
		}
		flood, err := Flood(policy, 0, way)
		if err != nil {
			return err
		}
		top := firstTop + i*betweenWays
		first, second := p.bar(knows, found.Worst, top), p.bar(asks, flood, top+betweenBars)
		first.Way, first.Whose = called[way][0], called[way][1]
		p.Bars = append(p.Bars, first, second)
		words = append(words, fmt.Sprintf("%s: %d for one %s, %d for one %s", first.Way, found.Worst, knows, flood, asks))
	}
	p.Words = "Requests admitted in one window. " + strings.Join(words, ". ") + "."
	return pictureTemplate.Execute(w, p)
}

func (p *picture) bar(who string, units int64, top int) bar {
	length := func(units int64) int64 { return int64(float64(units) / float64(p.Quota) * quotaLength) }
	kept := min(units, p.Quota)
	return bar{Who: who, Units: units, top: top, Kept: length(kept), Over: length(units - kept)}
}
