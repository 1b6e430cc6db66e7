package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func chart(series ...Series) Chart {
	return Chart{Title: `a < b & "c"`, X: Axis{Label: "callers", Log: true}, Y: Axis{Label: "<y>"}, Series: series}
}

func TestItIsWellFormed(t *testing.T) {
	for name, c := range map[string]Chart{
		"empty":   chart(),
		"one":     chart(Series{Name: "x<y", Colour: "#123456", Points: []Point{{1, 1}}, Marks: true}),
		"several": chart(Series{Name: "a", Points: []Point{{1, 0}, {10, 5}, {1000, 7}}}, Series{Name: "b", Dashed: true, Points: []Point{{0, 1}, {2, math.NaN()}, {1024, 3}}}),
	} {
		svg := c.SVG()
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s isn't XML: %v\n%s", name, err, svg)
			}
		}
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(svg, bad) {
				t.Errorf("%s has a %s in it:\n%s", name, bad, svg)
			}
		}
	}
}

func TestItHasABackgroundAndAllNames(t *testing.T) {
	svg := chart(Series{Name: "lockmesh", Points: []Point{{1, 1}, {2, 2}}}, Series{Name: "etcd"}).SVG()
	for _, want := range []string{`fill="#ffffff"/>`, ">lockmesh<", ">etcd<", ">callers<", "&lt;y&gt;", "a &lt; b &amp;"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

func TestScale(t *testing.T) {
	s := newScale(Axis{Log: true}, [2]float64{3, 800}, 0, 100)
	if s.min != 2 || s.max != 1000 || s.at(2) != 0 || math.Abs(s.at(1000)-100) > 1e-9 {
		t.Errorf("3 to 800 is shown from %v to %v", s.min, s.max)
	}
	if l := newScale(Axis{}, [2]float64{0, 1}, 100, 0); l.at(0.25) != 75 || len(l.ticks) != 6 {
		t.Errorf("a quarter is at %v, and there are ticks at %v", l.at(0.25), l.ticks)
	}
	if own := newScale(Axis{Log: true, Ticks: []float64{1, 8, 64}}, [2]float64{1, 64}, 0, 100); math.Abs(own.at(8)-50) > 1e-9 || len(own.ticks) != 3 {
		t.Errorf("of 1, 8 and 64 the one in the middle is at %v", own.at(8))
	}
	if got := short(20) + short(5000) + short(2e6); got != "205k2M" {
		t.Errorf("20, 5000 and 2000000 are written %s", got)
	}
}
