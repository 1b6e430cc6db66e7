// Package plot draws curves as SVG, with its own background, readable on light pages and on dark
// pages.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Chart is a picture.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Axis is the horizontal or the vertical axis.
type Axis struct {
	Label string
	Log   bool
	// Min and Max are the range shown; if both are zero, the axis shows all values. A logarithmic
	// axis extends to the next tick.
	Min, Max float64
	// Ticks are the positions of grid lines, by rising value. Two or more ticks also set the range
	// of the axis; otherwise the chart chooses the ticks.
	Ticks []float64
	// Text formats a value; nil means short numbers.
	Text func(float64) string
}

// Series is a curve.
type Series struct {
	Name   string
	Points []Point
	Colour string // as in SVG
	Dashed bool
	Marks  bool // shows the points
}

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// The picture, in its own units.
const (
	width, height            = 960, 540
	left, right, top, bottom = 84, 220, 52, 64
	plotWidth, plotHeight    = width - left - right, height - top - bottom
	ink, grid, paper         = "#222222", "#dddddd", "#ffffff"
)

// SVG draws the chart. A chart without points has just its frame.
func (c Chart) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13" fill="%s">`+"\n", width, height, width, height, ink)
	fmt.Fprintf(&b, `<title>%s</title>`+"\n", html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="%s"/>`+"\n", width, height, paper)
	fmt.Fprintf(&b, `<text x="%d" y="30" font-size="17" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<clipPath id="inside"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>`+"\n", left, top-4, plotWidth+6, plotHeight+8)
	x := newScale(c.X, c.span(func(p Point) float64 { return p.X }), left, left+plotWidth)
	y := newScale(c.Y, c.span(func(p Point) float64 { return p.Y }), top+plotHeight, top)
	for _, t := range x.ticks {
		at := x.at(t)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", at, top, at, top+plotHeight, grid)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, top+plotHeight+20, html.EscapeString(x.text(t)))
	}
	for _, t := range y.ticks {
		at := y.at(t)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s"/>`+"\n", left, at, left+plotWidth, at, grid)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, at+4.5, html.EscapeString(y.text(t)))
	}
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s"/>`+"\n", left, top, plotWidth, plotHeight, ink)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+plotWidth/2, height-16, html.EscapeString(c.X.Label))
	fmt.Fprintf(&b, `<text x="20" y="%d" text-anchor="middle" transform="rotate(-90 20 %d)">%s</text>`+"\n", top+plotHeight/2, top+plotHeight/2, html.EscapeString(c.Y.Label))
	for i, s := range c.Series {
		s.draw(&b, x, y)
		s.legend(&b, left+plotWidth+20, top+12+i*24)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s Series) line() string {
	dash := ""
	if s.Dashed {
		dash = ` stroke-dasharray="7 4"`
	}
	return fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2.2" stroke-linejoin="round"%s`, html.EscapeString(s.Colour), dash)
}

func (s Series) draw(b *strings.Builder, x, y *scale) {
	var points []string
	for _, p := range s.Points {
		px, py := x.at(p.X), y.at(p.Y)
		if math.IsNaN(px) || math.IsNaN(py) || math.IsInf(px, 0) || math.IsInf(py, 0) {
			continue // zero on a logarithmic axis
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
		if s.Marks {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.4" fill="%s"/>`+"\n", px, py, html.EscapeString(s.Colour))
		}
	}
	if len(points) > 0 {
		fmt.Fprintf(b, `<polyline clip-path="url(#inside)" %s points="%s"/>`+"\n", s.line(), strings.Join(points, " "))
	}
}

func (s Series) legend(b *strings.Builder, x, y int) {
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" %s/>`+"\n", x, y, x+28, y, s.line())
	fmt.Fprintf(b, `<text x="%d" y="%.1f">%s</text>`+"\n", x+36, float64(y)+4.5, html.EscapeString(s.Name))
}

// span returns the range of the points.
func (c Chart) span(of func(Point) float64) (s [2]float64) {
	first := true
	for _, series := range c.Series {
		for _, p := range series.Points {
			v := of(p)
			if first {
				s, first = [2]float64{v, v}, false
			}
			s = [2]float64{min(s[0], v), max(s[1], v)}
		}
	}
	return s
}
