package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"
)

const (
	width   = 1000.0 // of the picture, and of all samples
	level   = 18.0   // the height of a frame
	head    = 30.0   // and of the title
	least   = 1.5    // the width below which a frame is left out
	letter  = 6.2    // the width of one
	padding = 6.0
)

//go:embed flame.svg.tmpl
var source string

var picture = template.Must(template.New("flame").Parse(source))

// A box is a frame in the picture.
type box struct {
	X, Y, Width float64
	Ink         string // a class of the style sheet: whose function it is
	Text, Tip   string
}

// draw returns the picture of stacks, as SVG: an icicle, with the outermost function on top. Its tree has nothing that a library
// for charts draws, so it is a template, as the bars of the worst windows are.
func draw(title string, all stacks) ([]byte, error) {
	root := all.tree()
	if root.samples == 0 {
		return nil, fmt.Errorf("there is no sample to draw")
	}
	var boxes []box
	deepest := 0
	var lay func(f *frame, x float64, depth int)
	lay = func(f *frame, x float64, depth int) {
		for _, c := range f.calls {
			w := width * float64(c.samples) / float64(root.samples)
			if w >= least {
				boxes, deepest = append(boxes, c.box(x, w, depth, root.samples)), max(deepest, depth)
				lay(c, x, depth+1)
			}
			x += w
		}
	}
	lay(root, 0, 0)
	var b bytes.Buffer
	err := picture.Execute(&b, map[string]any{
		"Title": title, "Samples": root.samples, "Boxes": boxes, "Width": width, "Height": head + level*float64(deepest+1),
	})
	return b.Bytes(), err
}

func (f *frame) box(x, w float64, depth int, all int64) box {
	b := box{X: round(x), Y: head + level*float64(depth), Width: round(w), Ink: ink(f.name)}
	b.Tip = fmt.Sprintf("%s: %.1f %%", f.name, 100*float64(f.samples)/float64(all))
	if room := int((w - padding) / letter); utf8.RuneCountInString(f.name) <= room {
		b.Text = f.name
	} else if room > 3 {
		b.Text = f.name[:room-1] + "…"
	}
	return b
}

func round(v float64) float64 { return float64(int(v*10+0.5)) / 10 }

// ink tells whose function it is.
func ink(name string) string {
	pkg, _, _ := strings.Cut(name, ".")
	switch pkg {
	case "slidegate", "memstore", "httpgate", "window", "wrap", "redisstore":
		return "ours"
	case "runtime", "sync", "internal", "atomic", "maps", "aeshashbody", "memeqbody":
		return "runtime"
	case "time":
		return "clock"
	}
	return "other"
}
