package main

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// An ink is a colour, on a light page and on a dark one. No lines differ by it alone: each has its own glyph.
type ink struct {
	light, dark color.RGBA
	glyph       draw.GlyphDrawer
}

// The inks, by who is measured.
var (
	ofLog     = ink{color.RGBA{0x09, 0x69, 0xda, 0xff}, color.RGBA{0x44, 0x93, 0xf8, 0xff}, draw.CircleGlyph{}}
	ofCounter = ink{color.RGBA{0x82, 0x50, 0xdf, 0xff}, color.RGBA{0xab, 0x7d, 0xf8, 0xff}, draw.BoxGlyph{}}
	ofRival   = ink{color.RGBA{0xbc, 0x4c, 0x00, 0xff}, color.RGBA{0xf0, 0x88, 0x3e, 0xff}, draw.PyramidGlyph{}}
	ofAxes    = ink{light: color.RGBA{0, 0, 0, 0xff}, dark: color.RGBA{0x91, 0x98, 0xa1, 0xff}}
	ofGrid    = ink{light: color.RGBA{0xd1, 0xd9, 0xe0, 0xff}, dark: color.RGBA{0x3d, 0x44, 0x4d, 0xff}}
)

// hex is a colour as the library writes it.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

const (
	width, height = 576, 324 // points
	legendWidth   = 150
	footHeight    = 18
)

// draw returns the picture of figures, as SVG. The library (gonum/plot, of the Gonum project, BSD) does axes, ticks on either
// scale, lines, glyphs and the legend: of all that a template would have to be written.
func (c *curve) draw(f *figures) ([]byte, error) {
	if len(f.lines) != len(c.lines) {
		return nil, fmt.Errorf("there are figures of %d lines, and the curve has %d", len(f.lines), len(c.lines))
	}
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} // the measures of it; the page chooses its own
	p, legend := plot.New(), plot.NewLegend()
	p.BackgroundColor = nil
	c.label(p, f)
	for i, l := range c.lines {
		if l.name != f.lines[i] {
			return nil, fmt.Errorf("figures are of %q, where the curve has %q", f.lines[i], l.name)
		}
		points := make(plotter.XYs, len(f.rows))
		for j, r := range f.rows {
			points[j] = plotter.XY{X: float64(r.x), Y: r.values[i]}
		}
		line, glyphs, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = l.ink.light, vg.Points(1.5)
		if l.dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		glyphs.GlyphStyle = draw.GlyphStyle{Color: l.ink.light, Radius: vg.Points(3), Shape: l.ink.glyph}
		p.Add(line, glyphs)
		legend.Add(l.name, line, glyphs)
	}
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	p.Draw(draw.Crop(whole, 4, -legendWidth, footHeight, -4))
	legend.Top, legend.Left, legend.ThumbnailWidth = true, true, vg.Points(26)
	legend.TextStyle.Font.Size, legend.Padding = vg.Points(10), vg.Points(4)
	legend.Draw(draw.Crop(whole, width-legendWidth+10, 0, 0, -30))
	small := text.Style{Color: color.Black, Font: font.From(plot.DefaultFont, 8), Handler: plot.DefaultTextHandler}
	whole.FillText(small, vg.Point{X: 8, Y: 6}, c.note+"; "+f.where)
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	return accessible(svg.String(), c.title, f.words(c.y)), nil
}

// label gives a plot its title and axes. The ticks of x are where it was measured.
func (c *curve) label(p *plot.Plot, f *figures) {
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, f.x, c.y
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(14), vg.Points(8)
	var ticks plot.ConstantTicks
	for _, r := range f.rows {
		ticks = append(ticks, plot.Tick{Value: float64(r.x), Label: thousands(r.x)})
	}
	p.X.Tick.Marker, p.Y.Min, p.Y.Max = ticks, 0, 1.08*f.most()
	if c.doubling {
		p.X.Scale = plot.LogScale{}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, ofGrid.light
	p.Add(grid)
}

// accessible adds what the library has no notion of: a title and a description, and the colours of a dark page.
func accessible(svg, title, words string) []byte {
	var style strings.Builder
	style.WriteString("text { font-family: system-ui, sans-serif !important; fill: #1f2328 }\n@media (prefers-color-scheme: dark) {\ntext { fill: #f0f6fc }\n")
	for _, i := range []ink{ofLog, ofCounter, ofRival, ofAxes, ofGrid} {
		for _, property := range []string{"stroke", "fill"} {
			fmt.Fprintf(&style, "[style*=\"%s:%s\"] { %s: %s !important }\n", property, hex(i.light), property, hex(i.dark))
		}
	}
	style.WriteString("}\n")
	head, body, _ := strings.Cut(svg, "<g ")
	head = strings.Replace(head, "<svg ", `<svg role="img" aria-labelledby="t d" `, 1)
	return fmt.Appendf(nil, "%s<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<style>\n%s</style>\n<g %s",
		head, html.EscapeString(title), html.EscapeString(words), style.String(), body)
}
