package timeline

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// svg writes shapes as text. Lengths are whole tenths of a pixel, so that equal runs give equal
// bytes on every machine.
type svg struct{ bytes.Buffer }

// px writes tenths as pixels.
func px(tenths int64) string {
	if tenths%10 == 0 {
		return fmt.Sprint(tenths / 10)
	}
	sign := ""
	if tenths < 0 {
		sign, tenths = "-", -tenths
	}
	return fmt.Sprintf("%s%d.%d", sign, tenths/10, tenths%10)
}

func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder never fails
	}
	return b.String()
}

// title returns the tooltip of a shape, shown when the mouse rests on it.
func title(text string) string {
	if text == "" {
		return ""
	}
	return "<title>" + escaped(text) + "</title>"
}

func (s *svg) rect(class string, x, y, wide, high int64, extra, tip string) {
	fmt.Fprintf(&s.Buffer, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s>%s</rect>`+"\n", class, px(x), px(y), px(wide), px(high), extra,
		title(tip))
}

func (s *svg) line(class string, x1, y1, x2, y2 int64, extra, tip string) {
	fmt.Fprintf(&s.Buffer, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"%s>%s</line>`+"\n", class, px(x1), px(y1), px(x2), px(y2), extra, title(tip))
}

func (s *svg) path(class, d, tip string) {
	fmt.Fprintf(&s.Buffer, `<path class="%s" d="%s">%s</path>`+"\n", class, d, title(tip))
}

func (s *svg) text(class string, x, y int64, text string) {
	fmt.Fprintf(&s.Buffer, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, px(x), px(y), escaped(text))
}

// cross, start and step are marks centred on a point.
func (s *svg) cross(x, y int64, tip string) {
	s.path("death", fmt.Sprintf("M%s %s l10 10 m0 -10 l-10 10", px(x-50), px(y-50)), tip)
}

func (s *svg) start(x, y int64, tip string) {
	s.path("birth", fmt.Sprintf("M%s %s l9 5 l-9 5 z", px(x), px(y-50)), tip)
}

func (s *svg) step(x, y int64, tip string) {
	s.path("step", fmt.Sprintf("M%s %s l5 5 l-5 5 l-5 -5 z", px(x), px(y-50)), tip)
}

// wide returns about how wide a text with a height of ten pixels is.
func wide(text string) int64 { return int64(len([]rune(text))) * 60 }

// keyColours can be told apart by people who don't see all colours, too. Keys beyond the list share
// its colours.
var keyColours = [...]string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31", "#6a51a3", "#7f7f7f"}

const svgStyle = `<defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="6" fill="#555" fill-opacity="0.4"/></pattern>
<marker id="head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L6 3L0 6z" fill="#444"/></marker>
</defs>
<style>
text { font: 10px Helvetica, Arial, sans-serif; fill: #222; }
.big { font-size: 16px; font-weight: bold; }
.node { font-size: 13px; font-weight: bold; }
.small { fill: #666; }
.over { paint-order: stroke; stroke: #fff; stroke-width: 2.5; }
.in { font-size: 9px; fill: #fff; }
.dark { fill: #222; }
.bad { fill: #c00; font-size: 12px; font-weight: bold; }
.good { fill: #060; font-size: 12px; }
.paper { fill: #fff; }
.down { fill: #d8d8d8; }
.up { fill: #f6f8fa; }
.quiet { fill: #ffe08a; fill-opacity: 0.75; }
.pause { fill: url(#hatch); }
.life { stroke: #999; }
.lease { stroke: #222; stroke-width: 0.4; }
.tail { fill-opacity: 0.3; }
.guilty { stroke: #c00; stroke-width: 2.5; }
.ghost { fill: #c00; fill-opacity: 0.12; stroke: #c00; stroke-width: 1.5; stroke-dasharray: 3 2; }
.wait { stroke-width: 2; stroke-opacity: 0.55; }
.lost { stroke: #c00; stroke-width: 3; }
.death { stroke: #000; stroke-width: 2.2; fill: none; }
.birth { fill: #1a7f37; }
.step { fill: #7b3fb3; }
.cut { fill: #f4b6a6; stroke: #b5482b; stroke-width: 0.5; }
.stall { fill: #cbd5e1; stroke: #64748b; stroke-width: 0.5; }
.strip { fill: #d9694b; }
.break { stroke: #b5482b; stroke-width: 1; stroke-opacity: 0.6; stroke-dasharray: 1.5 3.5; }
.arrow { stroke: #444; stroke-width: 0.7; stroke-opacity: 0.75; marker-end: url(#head); }
.upkeep { stroke: #444; stroke-width: 0.5; stroke-opacity: 0.25; }
.word { font-size: 8px; fill: #444; paint-order: stroke; stroke: #fff; stroke-width: 1.5; }
.grid { stroke: #999; stroke-width: 0.6; stroke-opacity: 0.35; }
.edge { stroke: #bbb; stroke-width: 0.6; }
.violation { stroke: #d00; stroke-width: 2; stroke-dasharray: 6 3; }
</style>
`
