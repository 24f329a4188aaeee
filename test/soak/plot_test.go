package soak

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// The sizes of a plot, in pixels.
const (
	plotWidth, plotHeight = 720, 320
	plotLeft, plotBottom  = 60, 40
	plotRight, plotTop    = 170, 20
)

var plotColours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"}

// plot draws series over time as SVG, in MiB.
func plot(title string, all []*series) string {
	var end time.Duration
	most := 1.0
	for _, s := range all {
		for _, p := range s.all() {
			end, most = max(end, p.at), max(most, p.value/(1<<20))
		}
	}
	most = 20 * math.Ceil(most/20) // so that its quarters are round
	x := func(at time.Duration) float64 {
		return plotLeft + at.Seconds()/max(1, end.Seconds())*(plotWidth-plotLeft-plotRight)
	}
	y := func(mib float64) float64 { return plotHeight - plotBottom - mib/most*(plotHeight-plotTop-plotBottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", html.EscapeString(title))
	for i := range 5 {
		mib, at := most*float64(i)/4, end*time.Duration(i)/4
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			plotLeft, y(mib), plotWidth-plotRight, plotLeft-6, y(mib)+4, mib)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(at), plotHeight-plotBottom+18, at.Round(time.Second))
	}
	fmt.Fprintf(&b, `<text x="6" y="14">MiB</text><text x="%d" y="%d" text-anchor="end">time</text>`+"\n", plotWidth-plotRight, plotHeight-6)
	for i, s := range all {
		colour := plotColours[i%len(plotColours)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" points="`, colour)
		for _, p := range thinned(s.all()) {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p.at), y(p.value/(1<<20)))
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n", plotWidth-plotRight+10, plotTop+16*(i+1), colour, html.EscapeString(s.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// thinned returns the highest point of each of at most three hundred stretches: a plot shows no more.
func thinned(points []point) (few []point) {
	step := max(1, (len(points)+299)/300)
	for i := 0; i < len(points); i += step {
		highest := points[i]
		for _, p := range points[i:min(i+step, len(points))] {
			if p.value > highest.value {
				highest = p
			}
		}
		few = append(few, highest)
	}
	return few
}
